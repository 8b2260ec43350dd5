//! Shards of a batch, and the tasks that threads take of them.

use std::ops::Range;

use super::forward::TrainBuffers;
use super::real::Real;
use super::shard::{ShardInput, Stack};

/// Rows that one thread took through the network.
#[derive(Clone, Debug)]
pub(crate) struct RowTask<T> {
    pub(crate) stack: Stack,
    /// The first row in the batch, and the rows between the two blocks.
    pub(crate) first: usize,
    pub(crate) gap: usize,
    pub(crate) buffers: TrainBuffers<T>,
    pub(crate) error: Option<BadLoss>,
}

impl<T: Real> RowTask<T> {
    pub(crate) fn new(depth: usize) -> Self {
        let buffers = TrainBuffers::new(depth);
        Self { stack: Stack::default(), first: 0, gap: 0, buffers, error: None }
    }

    /// Its rows of the batch `all`.
    pub(crate) fn input<'a>(&self, all: &ShardInput<'a>) -> ShardInput<'a> {
        let rows = self.first..self.first + self.stack.block_points();
        if self.stack.is_paired() { all.two_runs(rows, self.gap) } else { all.run(rows) }
    }
}

/// A shard: rows whose products are summed in registers, in a matrix of this shape, and the tasks
/// that they were cut into.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) stack: Stack,
    pub(crate) tasks: Range<usize>,
}

/// A loss that is not finite.
#[derive(Clone, Debug)]
pub(crate) struct BadLoss {
    pub(crate) row: usize,
    pub(crate) s: f64,
    pub(crate) value: f64,
    /// Whether the row's loss is finite if it is not paired.
    pub(crate) in_pair: bool,
}

impl BadLoss {
    /// What decides which of several is reported: the first row, and one that is wrong alone before
    /// one of a pair that is.
    pub(crate) fn order(&self) -> (bool, usize) {
        (self.in_pair, self.row)
    }
}
