//! Loss and gradient of a batch.
//!
//! A batch has two halves with a gradient each, which are summed in the end, and a half is cut into
//! shards (see `shard`), whose gradients are added one after the other. All of this depends on the
//! batch alone, and so does the row that a row is paired with. Threads only decide who does what:
//! up to two threads take a half each, shard by shard. More of them share a half: they cut
//! its shards into tasks, take the rows of these forward and back, and then share the
//! gradient by parameters (`weights`).

use rayon::prelude::*;

use super::NnError;
use super::backward::reverse;
use super::core::Core;
use super::forward::{EvalBuffers, TrainBuffers, evaluate, forward_and_keep};
use super::real::Real;
use super::shard::{ShardInput, Stack, TRAIN_ROWS, half_points, shard_points};
use super::support::{Gradient, Support};
use super::task::{BadLoss, RowTask, Shard};
use super::weights::{self, LayerGradients, Scratch};

/// What a network says about consecutive rows of a batch.
#[derive(Clone, Copy, Debug)]
pub struct ShardValues<'a> {
    /// Index of the first row in the batch.
    pub first_row: usize,
    /// Number of rows.
    pub rows: usize,
    /// m.
    pub dim: usize,
    /// k, the number of directions per row.
    pub per_row: usize,
    /// a, rows × m.
    pub a: &'a [f64],
    /// (∂a/∂x)·e (+ ∂a/∂s·e_s), rows × k × m.
    pub jvp: &'a [f64],
}

/// What a loss answers; everything is zero on entry.
#[derive(Debug)]
pub struct ShardCotangents<'a> {
    /// The loss of each row.
    pub loss: &'a mut [f64],
    /// The derivative of the sum of losses by a, rows × m.
    pub a: &'a mut [f64],
    /// The derivative of the sum of losses by the directional derivatives, rows × k × m.
    pub jvp: &'a mut [f64],
}

/// A loss that is a sum over rows, each a function of the row's value and tangents.
///
/// Any `Fn(ShardValues, ShardCotangents) + Sync` is one. It is called for shards of the batch, on
/// several threads at once.
pub trait RowLoss: Sync {
    /// Writes the losses of a shard's rows and their derivatives.
    fn eval(&self, values: ShardValues<'_>, cotangents: ShardCotangents<'_>);
}

impl<F: Fn(ShardValues<'_>, ShardCotangents<'_>) + Sync> RowLoss for F {
    fn eval(&self, values: ShardValues<'_>, cotangents: ShardCotangents<'_>) {
        self(values, cotangents);
    }
}

/// A loss of any size behind a pointer.
pub(crate) struct LossOf<'a, L: ?Sized>(pub(crate) &'a L);

impl<L: RowLoss + ?Sized> RowLoss for LossOf<'_, L> {
    fn eval(&self, values: ShardValues<'_>, cotangents: ShardCotangents<'_>) {
        self.0.eval(values, cotangents);
    }
}

/// Where the gradient of the summed loss with respect to the inputs goes.
#[derive(Debug)]
pub struct InputGradient<'a> {
    /// By x, n × m.
    pub x: &'a mut [f64],
    /// By s, n.
    pub s: &'a mut [f64],
    /// By the directions e, n × k × m.
    pub e: &'a mut [f64],
}

/// Everything a gradient needs beside the network, reused from step to step.
///
/// The number of gradient partitions is the most tasks that the rows which are worked on at once
/// are cut into, where there are as many threads: the most threads that a step can use. Results do
/// not depend on it, nor on the number of threads.
#[derive(Clone, Debug)]
pub struct TrainWorkspace<T> {
    partitions: usize,
    halves: [Half<T>; 2],
}

/// The gradient of one half of a batch, and buffers.
#[derive(Clone, Debug)]
struct Half<T> {
    grad: Gradient<T>,
    shards: Vec<Shard>,
    tasks: Vec<RowTask<T>>,
    scratch: Vec<Scratch<T>>,
    error: Option<BadLoss>,
}

impl<T: Real> TrainWorkspace<T> {
    pub(crate) fn for_core(core: &Core<T>, partitions: usize) -> Self {
        let half = Half {
            grad: Gradient::new(&core.layout),
            shards: Vec::new(),
            tasks: Vec::new(),
            scratch: Vec::new(),
            error: None,
        };
        Self { partitions: partitions.max(1), halves: [half.clone(), half] }
    }

    /// The gradient of the last call, in the parameters' layout.
    pub fn gradient(&self) -> &[T] {
        &self.halves[0].grad.values
    }

    /// The gradient of the last call, to be clipped or turned into a step, and where it can differ
    /// from zero: nothing else must be changed.
    pub fn gradient_mut(&mut self) -> (&mut [T], &Support) {
        let Gradient { values, support } = &mut self.halves[0].grad;
        (values, support)
    }

    /// Replaces the gradient of the last call, for example by a sum of several.
    pub fn set_gradient(&mut self, gradient: &[T]) {
        self.halves[0].grad.replace(gradient);
    }
}

/// What does not change from row to row.
struct Job<'a, T> {
    core: &'a Core<T>,
    loss: &'a dyn RowLoss,
    /// Points of a shard.
    points: usize,
    /// Tasks that the rows of a half that are worked on at once are cut into.
    team: usize,
}

/// Consecutive rows with their outputs.
struct Slice<'a> {
    input: ShardInput<'a>,
    losses: &'a mut [f64],
    grad: Option<InputGradient<'a>>,
}

impl Slice<'_> {
    fn split_at(self, row: usize) -> (Self, Self) {
        let (m, k) = (self.input.dim, self.input.per_row);
        let (before, after) = self.input.split_at(row);
        let (l0, l1) = self.losses.split_at_mut(row);
        let (g0, g1) = match self.grad {
            None => (None, None),
            Some(InputGradient { x, s, e }) => {
                let (x0, x1) = x.split_at_mut(row * m);
                let (s0, s1) = s.split_at_mut(row);
                let (e0, e1) = e.split_at_mut(row * k * m);
                (
                    Some(InputGradient { x: x0, s: s0, e: e0 }),
                    Some(InputGradient { x: x1, s: s1, e: e1 }),
                )
            }
        };
        (
            Slice { input: before, losses: l0, grad: g0 },
            Slice { input: after, losses: l1, grad: g1 },
        )
    }
}

impl<T: Real> Half<T> {
    fn run(&mut self, job: &Job<'_, T>, slice: Slice<'_>) {
        self.scratch.resize_with(job.team, Scratch::new);
        self.error =
            if job.team == 1 { self.alone(job, slice) } else { self.shared(job, slice) }.err();
    }

    /// One thread, shard by shard: the gradient of a layer is formed while its cotangents are in
    /// the cache.
    fn alone(&mut self, job: &Job<'_, T>, mut slice: Slice<'_>) -> Result<(), BadLoss> {
        let (input, by_input) = (slice.input, slice.grad.is_some());
        let mut first = 0;
        while first < input.rows() {
            let fresh = first == 0;
            let (end, count) = self.plan(job, &input, first);
            debug_assert_eq!(count, 1);
            let (task, scratch) = (&mut self.tasks[0], &mut self.scratch[0]);
            let (grad, sums) = (&mut self.grad.values[..], &mut scratch.sums[0]);
            let gradient = Some(LayerGradients { grad, fresh, sums });
            let (rows, stack) = (task.input(&input), task.stack);
            run_rows(job.core, &rows, job.loss, stack, &mut task.buffers, by_input, gradient)?;
            copy_out(task, &input, slice.losses, &mut slice.grad);
            let (shards, tasks) = (&self.shards[..], &self.tasks[..1]);
            let rows = weights::Activations { core: job.core, input: &input, shards, tasks };
            weights::add_input_gradient(rows, &mut self.grad, fresh, scratch);
            first = end;
        }
        Ok(())
    }

    /// Several threads: as many shards at a time, cut into tasks.
    fn shared(&mut self, job: &Job<'_, T>, mut slice: Slice<'_>) -> Result<(), BadLoss> {
        let (input, by_input) = (slice.input, slice.grad.is_some());
        let mut first = 0;
        while first < input.rows() {
            let (end, count) = self.plan(job, &input, first);
            let tasks = &mut self.tasks[..count];
            tasks.par_iter_mut().with_max_len(1).for_each(|task| {
                let (rows, buffers) = (task.input(&input), &mut task.buffers);
                let result =
                    run_rows(job.core, &rows, job.loss, task.stack, buffers, by_input, None);
                task.error = result.err();
            });
            let errors = tasks.iter_mut().filter_map(|task| task.error.take());
            if let Some(bad) = errors.min_by_key(BadLoss::order) {
                return Err(bad);
            }
            for task in &*tasks {
                copy_out(task, &input, slice.losses, &mut slice.grad);
            }
            let shards = &self.shards;
            let rows = weights::Activations { core: job.core, input: &input, shards, tasks };
            weights::add_parameter_gradient(rows, &mut self.grad, first == 0, &mut self.scratch);
            first = end;
        }
        Ok(())
    }

    /// Cuts the rows from `first` on into shards, as many as the team has threads, and these into
    /// tasks; returns the row after them and the number of tasks.
    fn plan(&mut self, job: &Job<'_, T>, input: &ShardInput<'_>, first: usize) -> (usize, usize) {
        let (rows, k) = (input.rows(), input.per_row);
        let count = (rows - first).div_ceil(job.points).min(job.team);
        // The smallest number of equal tasks that all threads get equally many of.
        let tasks_per_shard = job.team / gcd(job.team, count);
        self.shards.clear();
        let (mut row, mut tasks) = (first, 0);
        for _ in 0..count {
            let points = job.points.min(rows - row);
            let stack = Stack::training(points, k);
            let block = stack.block_points();
            let cuts = tasks_per_shard.min(block / TASK_POINTS).max(1);
            for cut in 0..cuts {
                let (from, to) = (cut * block / cuts, (cut + 1) * block / cuts);
                if self.tasks.len() == tasks {
                    self.tasks.push(RowTask::new(job.core.config.depth));
                }
                let task = &mut self.tasks[tasks];
                task.stack = stack.with_block_points(to - from);
                (task.first, task.gap) = (row + from, block - (to - from));
                tasks += 1;
            }
            self.shards.push(Shard { stack, tasks: tasks - cuts..tasks });
            row += points;
        }
        (row, tasks)
    }
}

/// The fewest points of a block of a task: a tile of a matrix product.
const TASK_POINTS: usize = 6;

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The sum of the rows' losses; its gradient is in the workspace.
pub(crate) fn loss_gradient<T: Real>(
    core: &Core<T>,
    input: ShardInput<'_>,
    loss: &dyn RowLoss,
    workspace: &mut TrainWorkspace<T>,
    losses: &mut [f64],
    input_grad: Option<InputGradient<'_>>,
) -> Result<f64, NnError> {
    let threads = workspace.partitions.min(rayon::current_num_threads());
    // Both halves get as many tasks; an odd number of threads takes each of them by all.
    let team = threads / gcd(threads, 2);
    let rows = input.rows();
    let points = shard_points(rows, input.per_row, TRAIN_ROWS);
    let job = Job { core, loss, points, team };
    let cut = half_points(rows).min(rows);
    let slice = Slice { input, losses: &mut *losses, grad: input_grad };
    let (before, after) = slice.split_at(cut);
    let [first, second] = &mut workspace.halves;
    if threads == 1 || cut == rows {
        first.run(&job, before);
        second.run(&job, after);
    } else {
        rayon::join(|| first.run(&job, before), || second.run(&job, after));
    }
    let errors = [first.error.take(), second.error.take()];
    if let Some(bad) = errors.into_iter().flatten().min_by_key(BadLoss::order) {
        let BadLoss { row, s, value, .. } = bad;
        return Err(NnError::NotFinite { row, s, quantity: "loss", value });
    }
    match rows {
        0 => first.grad.clear(),
        rows if rows > cut => {
            let dense = ..first.grad.support.dense();
            add_gradients(&mut first.grad.values[dense], &second.grad.values[dense]);
            first.grad.add_tables(&second.grad);
        }
        _ => {}
    }
    Ok(losses.iter().sum())
}

/// Parameters that one task adds up.
const SUM_BLOCK: usize = 1 << 15;

/// `sum ← sum + other`.
fn add_gradients<T: Real>(sum: &mut [T], other: &[T]) {
    sum.par_chunks_mut(SUM_BLOCK).zip(other.par_chunks(SUM_BLOCK)).for_each(|(sum, other)| {
        for (sum, g) in sum.iter_mut().zip(other) {
            *sum += *g;
        }
    });
}

/// Rows forward, their losses, and back.
fn run_rows<T: Real>(
    core: &Core<T>,
    input: &ShardInput<'_>,
    loss: &dyn RowLoss,
    stack: Stack,
    buffers: &mut TrainBuffers<T>,
    by_input: bool,
    gradient: Option<LayerGradients<'_, T>>,
) -> Result<(), BadLoss> {
    let (n, k, m) = (input.rows(), input.per_row, input.dim);
    buffers.grow(core, input, stack);
    forward_and_keep(core, input, stack, buffers);
    let TrainBuffers { a, jvp, a_bar, jvp_bar, losses, .. } = &mut *buffers;
    let (a, jvp, losses) = (&mut a[..n * m], &mut jvp[..n * k * m], &mut losses[..n]);
    let (a_bar, jvp_bar) = (&mut a_bar[..n * m], &mut jvp_bar[..n * k * m]);
    row_losses(loss, input, a, jvp, losses, a_bar, jvp_bar);
    let not_finite = |losses: &[f64]| losses.iter().position(|loss| !loss.is_finite());
    if let Some(paired) = not_finite(losses) {
        let value = losses[paired];
        // Rows that were multiplied in pairs share a NaN; alone they tell whose it is, unless it
        // was the pair's sum that overflowed.
        evaluate(core, input, &mut EvalBuffers::new(), a, jvp);
        row_losses(loss, input, a, jvp, losses, a_bar, jvp_bar);
        let alone = not_finite(losses);
        let (row, value) = alone.map_or((paired, value), |row| (row, losses[row]));
        let (s, in_pair) = (input.s(row), alone.is_none());
        return Err(BadLoss { row: input.batch_row(row), s, value, in_pair });
    }
    reverse(core, input, stack, buffers, by_input, gradient);
    Ok(())
}

/// Losses and gradients by the inputs to their places beside the rows `all`.
fn copy_out<T: Real>(
    task: &RowTask<T>,
    all: &ShardInput<'_>,
    losses: &mut [f64],
    grad: &mut Option<InputGradient<'_>>,
) {
    let (input, buffers) = (task.input(all), &task.buffers);
    let copy = |to: &mut [f64], from: &[f64], width: usize| {
        for run in input.runs().into_iter().filter(|run| !run.is_empty()) {
            let at = (input.batch_row(run.start) - all.first_row) * width;
            let from = &from[run.start * width..run.end * width];
            to[at..at + from.len()].copy_from_slice(from);
        }
    };
    copy(losses, &buffers.losses, 1);
    if let Some(InputGradient { x, s, e }) = grad {
        let (m, [by_x, by_s, by_e]) = (input.dim, &buffers.by_input);
        copy(x, by_x, m);
        copy(s, by_s, 1);
        copy(e, by_e, input.per_row * m);
    }
}

/// The losses of rows and their derivatives, from their values and tangents.
fn row_losses(
    loss: &dyn RowLoss,
    input: &ShardInput<'_>,
    a: &[f64],
    jvp: &[f64],
    losses: &mut [f64],
    a_bar: &mut [f64],
    jvp_bar: &mut [f64],
) {
    losses.fill(0.0);
    a_bar.fill(0.0);
    jvp_bar.fill(0.0);
    let (dim, per_row) = (input.dim, input.per_row);
    for run in input.runs().into_iter().filter(|run| !run.is_empty()) {
        let (values, tangents) =
            (run.start * dim..run.end * dim, run.start * per_row * dim..run.end * per_row * dim);
        let shard = ShardValues {
            first_row: input.batch_row(run.start),
            rows: run.len(),
            dim,
            per_row,
            a: &a[values.clone()],
            jvp: &jvp[tangents.clone()],
        };
        let (loss_out, a, jvp) = (&mut losses[run], &mut a_bar[values], &mut jvp_bar[tangents]);
        loss.eval(shard, ShardCotangents { loss: loss_out, a, jvp });
    }
}
