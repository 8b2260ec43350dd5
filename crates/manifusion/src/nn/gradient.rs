//! Loss and gradient of a batch.
//!
//! The batch is cut into shards (see `shard`), and these into as many tasks as there are threads.
//! Threads take the rows of their tasks forward and back, then they share the gradient of the
//! parameters (`weights`), which are sums over the rows of each shard, and over shards, in the
//! order of the batch. A row's activations and cotangents depend on the row that it is paired
//! with, which the shard decides, and on no other. So threads only decide who does what.

use rayon::prelude::*;

use super::NnError;
use super::backward::reverse;
use super::core::Core;
use super::forward::{EvalBuffers, TrainBuffers, evaluate, forward_and_keep};
use super::real::Real;
use super::shard::{ShardInput, Stack, TRAIN_ROWS, shard_points};
use super::task::{BadLoss, RowTask, Shard};
use super::weights::{self, Scratch};

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
    grad: Vec<T>,
    shards: Vec<Shard>,
    tasks: Vec<RowTask<T>>,
    scratch: Vec<Scratch<T>>,
}

impl<T: Real> TrainWorkspace<T> {
    pub(crate) fn for_core(core: &Core<T>, partitions: usize) -> Self {
        Self {
            partitions: partitions.max(1),
            grad: vec![T::ZERO; core.params.len()],
            shards: Vec::new(),
            tasks: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// The gradient of the last call, in the parameters' layout.
    pub fn gradient(&self) -> &[T] {
        &self.grad
    }

    /// The gradient of the last call, to be clipped or changed.
    pub fn gradient_mut(&mut self) -> &mut [T] {
        &mut self.grad
    }

    /// Cuts the rows from `first` on into shards, as many as there are threads, and these into
    /// tasks; returns the row after them and the number of tasks.
    fn plan(
        &mut self,
        core: &Core<T>,
        input: &ShardInput<'_>,
        first: usize,
        threads: usize,
    ) -> (usize, usize) {
        let (rows, k) = (input.rows(), input.per_row);
        let points = shard_points(rows, k, TRAIN_ROWS);
        let count = (rows - first).div_ceil(points).min(threads);
        // The smallest number of equal tasks that all threads get equally many of.
        let tasks_per_shard = threads / gcd(threads, count);
        self.shards.clear();
        let (mut row, mut tasks) = (first, 0);
        for _ in 0..count {
            let points = points.min(rows - row);
            let stack = Stack::training(points, k);
            let block = stack.block_points();
            let cuts = tasks_per_shard.min(block / TASK_POINTS).max(1);
            for cut in 0..cuts {
                let (from, to) = (cut * block / cuts, (cut + 1) * block / cuts);
                if self.tasks.len() == tasks {
                    self.tasks.push(RowTask::new(core.config.depth));
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
    mut input_grad: Option<InputGradient<'_>>,
) -> Result<f64, NnError> {
    let threads = workspace.partitions.min(rayon::current_num_threads());
    workspace.scratch.resize_with(threads, Scratch::new);
    if input.rows() == 0 {
        workspace.grad.fill(T::ZERO);
    }
    let mut first = 0;
    while first < input.rows() {
        let (end, count) = workspace.plan(core, &input, first, threads);
        let tasks = &mut workspace.tasks[..count];
        let by_input = input_grad.is_some();
        tasks.par_iter_mut().with_max_len(1).for_each(|task| {
            task.error =
                run_rows(core, &task.input(&input), loss, task.stack, &mut task.buffers, by_input)
                    .err();
        });
        // The first row, and one that is wrong alone before one of a pair that is.
        let errors = tasks.iter_mut().filter_map(|task| task.error.take());
        if let Some(bad) = errors.min_by_key(|bad| (bad.in_pair, bad.row)) {
            let BadLoss { row, s, value, .. } = bad;
            return Err(NnError::NotFinite { row, s, quantity: "loss", value });
        }
        for task in &*tasks {
            copy_out(task, &input, losses, input_grad.as_mut());
        }
        let rows = weights::Activations { core, input: &input, shards: &workspace.shards, tasks };
        let (grad, scratch) = (&mut workspace.grad, &mut workspace.scratch);
        weights::add_parameter_gradient(rows, grad, first == 0, scratch);
        first = end;
    }
    Ok(losses.iter().sum())
}

/// Rows forward, their losses, and back.
fn run_rows<T: Real>(
    core: &Core<T>,
    input: &ShardInput<'_>,
    loss: &dyn RowLoss,
    stack: Stack,
    buffers: &mut TrainBuffers<T>,
    by_input: bool,
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
    reverse(core, input, stack, buffers, by_input);
    Ok(())
}

/// Losses and gradients by the inputs to their places in the batch.
fn copy_out<T: Real>(
    task: &RowTask<T>,
    all: &ShardInput<'_>,
    losses: &mut [f64],
    grad: Option<&mut InputGradient<'_>>,
) {
    let (input, buffers) = (task.input(all), &task.buffers);
    let copy = |to: &mut [f64], from: &[f64], width: usize| {
        for run in input.runs().into_iter().filter(|run| !run.is_empty()) {
            let at = input.batch_row(run.start) * width;
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
