//! Loss and gradient of a batch: gradient partitions in parallel, summed in a fixed order.
//!
//! The batch is cut into partitions, a partition into shards (see `shard`). Each partition adds up
//! the gradient of its shards in order; then the partitions are added in order. Threads only decide
//! who does what.

use super::NnError;
use super::backward::{ShardInputGradient, reverse};
use super::core::Core;
use super::forward::{EvalBuffers, TrainBuffers, evaluate, forward_and_keep};
use super::real::Real;
use super::shard::{ShardInput, ShardPlan, TRAIN_ROWS};

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

/// One partition's gradient and buffers.
#[derive(Clone, Debug)]
pub(crate) struct Partition<T> {
    pub(crate) grad: Vec<T>,
    buffers: TrainBuffers<T>,
    error: Option<NnError>,
}

/// Everything a gradient needs beside the network, reused from step to step.
///
/// The number of gradient partitions bounds the threads that can work at once. It is part of the
/// arithmetic: results depend on it in the last bits, and on nothing else about the machine.
#[derive(Clone, Debug)]
pub struct TrainWorkspace<T> {
    pub(crate) partitions: Vec<Partition<T>>,
}

impl<T: Real> TrainWorkspace<T> {
    pub(crate) fn for_core(core: &Core<T>, partitions: usize) -> Self {
        let partition = Partition {
            grad: vec![T::ZERO; core.params.len()],
            buffers: TrainBuffers::new(core.config.depth),
            error: None,
        };
        Self { partitions: vec![partition; partitions.max(1)] }
    }

    /// The gradient of the last call, in the parameters' layout.
    pub fn gradient(&self) -> &[T] {
        &self.partitions[0].grad
    }

    /// The gradient of the last call, to be clipped or changed.
    pub fn gradient_mut(&mut self) -> &mut [T] {
        &mut self.partitions[0].grad
    }
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

/// The sum of the rows' losses; its gradient is in the workspace's first partition.
pub(crate) fn loss_gradient<T: Real, L: RowLoss + ?Sized>(
    core: &Core<T>,
    input: ShardInput<'_>,
    loss: &L,
    workspace: &mut TrainWorkspace<T>,
    losses: &mut [f64],
    input_grad: Option<InputGradient<'_>>,
) -> Result<f64, NnError> {
    let partitions = &mut workspace.partitions;
    let plan = ShardPlan::new(input.rows(), input.per_row, partitions.len(), TRAIN_ROWS);
    let used = input.rows().div_ceil(plan.partition);
    let slice = Slice { input, losses: &mut *losses, grad: input_grad };
    run_partitions(core, plan, loss, &mut partitions[..used], slice);
    if let Some(error) = partitions[..used].iter_mut().find_map(|partition| partition.error.take())
    {
        return Err(error);
    }
    if let Some((first, rest)) = partitions[..used].split_first_mut() {
        add_partitions(&mut first.grad, rest, 0);
    }
    Ok(losses.iter().sum())
}

fn run_partitions<T: Real, L: RowLoss + ?Sized>(
    core: &Core<T>,
    plan: ShardPlan,
    loss: &L,
    partitions: &mut [Partition<T>],
    slice: Slice<'_>,
) {
    if let [partition] = partitions {
        partition.error = run_partition(core, plan, loss, partition, slice).err();
        return;
    }
    let middle = partitions.len() / 2;
    let (left, right) = partitions.split_at_mut(middle);
    let (before, after) = slice.split_at(middle * plan.partition);
    rayon::join(
        || run_partitions(core, plan, loss, left, before),
        || run_partitions(core, plan, loss, right, after),
    );
}

fn run_partition<T: Real, L: RowLoss + ?Sized>(
    core: &Core<T>,
    plan: ShardPlan,
    loss: &L,
    partition: &mut Partition<T>,
    mut slice: Slice<'_>,
) -> Result<(), NnError> {
    let mut fresh = true;
    loop {
        let left = slice.input.rows();
        let (shard, rest) = slice.split_at(plan.shard.min(left));
        run_shard(core, loss, partition, shard, fresh)?;
        if rest.input.rows() == 0 {
            return Ok(());
        }
        fresh = false;
        slice = rest;
    }
}

fn run_shard<T: Real, L: RowLoss + ?Sized>(
    core: &Core<T>,
    loss: &L,
    partition: &mut Partition<T>,
    shard: Slice<'_>,
    fresh: bool,
) -> Result<(), NnError> {
    let Slice { input, losses, grad } = shard;
    let (n, k, m) = (input.rows(), input.per_row, input.dim);
    let buffers = &mut partition.buffers;
    buffers.grow(core, &input);
    forward_and_keep(core, &input, buffers);
    let TrainBuffers { a, jvp, a_bar, jvp_bar, .. } = &mut *buffers;
    let (a, jvp) = (&mut a[..n * m], &mut jvp[..n * k * m]);
    let (a_bar, jvp_bar) = (&mut a_bar[..n * m], &mut jvp_bar[..n * k * m]);
    row_losses(loss, &input, a, jvp, losses, a_bar, jvp_bar);
    let not_finite = |losses: &[f64]| losses.iter().position(|loss| !loss.is_finite());
    if let Some(paired) = not_finite(losses) {
        let value = losses[paired];
        // Rows that were multiplied in pairs share a NaN; alone they tell whose it is, unless it
        // was the pair's sum that overflowed.
        evaluate(core, &input, &mut EvalBuffers::new(), a, jvp);
        row_losses(loss, &input, a, jvp, losses, a_bar, jvp_bar);
        let (row, value) = not_finite(losses).map_or((paired, value), |row| (row, losses[row]));
        let (row, s) = (input.first_row + row, input.s[row]);
        return Err(NnError::NotFinite { row, s, quantity: "loss", value });
    }
    let grad = grad.map(|InputGradient { x, s, e }| ShardInputGradient { x, s, e });
    reverse(core, &input, buffers, &mut partition.grad, fresh, grad);
    Ok(())
}

/// The losses of a shard's rows and their derivatives, from its values and tangents.
fn row_losses<L: RowLoss + ?Sized>(
    loss: &L,
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
    let values = ShardValues {
        first_row: input.first_row,
        rows: input.rows(),
        dim: input.dim,
        per_row: input.per_row,
        a,
        jvp,
    };
    loss.eval(values, ShardCotangents { loss: losses, a: a_bar, jvp: jvp_bar });
}

/// Parameters that one task adds up.
const SUM_BLOCK: usize = 1 << 15;

/// `sum ← sum + partitions`, in the order of the partitions, element by element.
fn add_partitions<T: Real>(sum: &mut [T], partitions: &[Partition<T>], offset: usize) {
    if partitions.is_empty() {
        return;
    }
    if sum.len() > SUM_BLOCK {
        let middle = sum.len() / 2;
        let (left, right) = sum.split_at_mut(middle);
        rayon::join(
            || add_partitions(left, partitions, offset),
            || add_partitions(right, partitions, offset + middle),
        );
        return;
    }
    for partition in partitions {
        for (sum, g) in sum.iter_mut().zip(&partition.grad[offset..]) {
            *sum += *g;
        }
    }
}
