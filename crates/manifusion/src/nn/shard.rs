//! A shard: a fixed number of batch rows that one thread takes through the whole network.

use std::ops::Range;

use super::NnError;
use super::features::Place;
use super::matmul::RowPair;
use crate::rows::Rows;

/// k directions per row along which the field is differentiated.
#[derive(Clone, Copy, Debug, Default)]
pub struct Directions<'a> {
    /// k.
    pub per_row: usize,
    /// The directions in x, n × k × m.
    pub e: &'a [f64],
    /// Their components in s, n × k; empty if all are zero.
    pub e_s: &'a [f64],
}

/// Where a field is evaluated: points, times, directions.
#[derive(Clone, Copy, Debug)]
pub struct FieldInput<'a> {
    /// The points, n × m.
    pub x: Rows<'a>,
    /// The times, n.
    pub s: &'a [f64],
    /// The directions; [`Directions::default`] for none.
    pub directions: Directions<'a>,
}

impl<'a> FieldInput<'a> {
    /// An evaluation without directions.
    pub fn value(x: Rows<'a>, s: &'a [f64]) -> Self {
        Self { x, s, directions: Directions::default() }
    }

    /// The shard of all rows, if every shape fits a field of dimension `dim`.
    pub(crate) fn check(&self, dim: usize, positive: bool) -> Result<ShardInput<'a>, NnError> {
        let (n, k) = (self.x.len(), self.directions.per_row);
        self.x.expect_width(dim).map_err(NnError::shape("x"))?;
        NnError::check_len("s", self.s.len(), n)?;
        NnError::check_len("directions e", self.directions.e.len(), n * k * dim)?;
        if !self.directions.e_s.is_empty() {
            NnError::check_len("directions e_s", self.directions.e_s.len(), n * k)?;
        }
        let bad = |s: f64| !s.is_finite() || (positive && s <= 0.0);
        if let Some(row) = self.s.iter().position(|s| bad(*s)) {
            return Err(NnError::Time { row, s: self.s[row] });
        }
        Ok(ShardInput {
            dim,
            per_row: k,
            first_row: 0,
            x: self.x.as_slice(),
            s: self.s,
            e: self.directions.e,
            e_s: self.directions.e_s,
        })
    }
}

/// Consecutive rows of a checked input.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardInput<'a> {
    pub(crate) dim: usize,
    pub(crate) per_row: usize,
    /// Index of the first row in the batch.
    pub(crate) first_row: usize,
    pub(crate) x: &'a [f64],
    pub(crate) s: &'a [f64],
    e: &'a [f64],
    e_s: &'a [f64],
}

impl<'a> ShardInput<'a> {
    pub(crate) fn rows(&self) -> usize {
        self.s.len()
    }

    /// The shape of the matrices of an evaluation: a point's tangents are paired with each other,
    /// however many points there are, so that its results do not depend on the other points.
    pub(crate) fn stack(&self) -> Stack {
        Stack { blocks: 1, n: self.rows(), per_row: self.per_row }
    }

    /// The shape of the matrices of a training pass: two blocks of points that are paired row by
    /// row, values with values and tangents with tangents, if there are enough and evenly many.
    pub(crate) fn halved_stack(&self) -> Stack {
        let enough = self.rows() * (1 + self.per_row) >= 2 * STRASSEN_ROWS;
        let blocks = if enough && self.rows().is_multiple_of(2) { 2 } else { 1 };
        Stack { blocks, n: self.rows() / blocks, per_row: self.per_row }
    }

    /// Component in s of direction `j` of row `i`.
    pub(crate) fn e_s(&self, i: usize, j: usize) -> f64 {
        self.e_s.get(i * self.per_row + j).copied().unwrap_or(0.0)
    }

    pub(crate) fn place(&self, i: usize) -> Place<'a> {
        let (m, k) = (self.dim, self.per_row);
        let e_s = if self.e_s.is_empty() { self.e_s } else { &self.e_s[i * k..(i + 1) * k] };
        Place {
            x: &self.x[i * m..(i + 1) * m],
            s: self.s[i],
            e: &self.e[i * k * m..(i + 1) * k * m],
            e_s,
        }
    }

    /// The rows before and from `row` on.
    pub(crate) fn split_at(&self, row: usize) -> (Self, Self) {
        let (m, k) = (self.dim, self.per_row);
        let (x0, x1) = self.x.split_at(row * m);
        let (s0, s1) = self.s.split_at(row);
        let (e0, e1) = self.e.split_at(row * k * m);
        let (es0, es1) = self.e_s.split_at(if self.e_s.is_empty() { 0 } else { row * k });
        (
            Self { x: x0, s: s0, e: e0, e_s: es0, ..*self },
            Self { x: x1, s: s1, e: e1, e_s: es1, first_row: self.first_row + row, ..*self },
        )
    }
}

/// The shape of a matrix of stacked rows stored by panels: in each block n value rows, then n
/// rows of each tangent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    blocks: usize,
    /// Points of a block.
    n: usize,
    per_row: usize,
}

/// Where the rows of a block are within a panel.
pub(crate) struct Block {
    pub(crate) rows: Range<usize>,
    /// The value rows.
    pub(crate) values: Range<usize>,
    /// The rows of φ″ within its panel.
    pub(crate) bends: Range<usize>,
}

/// The fewest rows of a half of a batch for which Strassen–Winograd is worth its sums.
const STRASSEN_ROWS: usize = 64;

impl Stack {
    /// All rows, and the lines from one panel to the next.
    pub(crate) fn rows(self) -> usize {
        self.blocks * self.block_rows()
    }

    fn block_rows(self) -> usize {
        self.n * (1 + self.per_row)
    }

    /// Lines of a matrix with this many panels.
    pub(crate) fn lines(self, panels: usize) -> usize {
        panels * self.rows()
    }

    /// All rows of a panel.
    pub(crate) fn panel(self, panel: usize) -> Range<usize> {
        panel * self.rows()..(panel + 1) * self.rows()
    }

    /// The rows of a panel of φ″: one for each point, none without tangents.
    pub(crate) fn bend_panel(self, panel: usize) -> Range<usize> {
        let rows = if self.per_row > 0 { self.blocks * self.n } else { 0 };
        panel * rows..(panel + 1) * rows
    }

    /// The blocks of a panel.
    pub(crate) fn blocks(self) -> impl Iterator<Item = Block> {
        let (rows, n) = (self.block_rows(), self.n);
        let bends = if self.per_row > 0 { n } else { 0 };
        (0..self.blocks).map(move |b| Block {
            rows: b * rows..(b + 1) * rows,
            values: b * rows..b * rows + n,
            bends: b * bends..(b + 1) * bends,
        })
    }

    /// The line of point `i`'s tangent `j`, counted from 1; 0 is the value.
    pub(crate) fn line(self, panel: usize, j: usize, i: usize) -> usize {
        let (block, i) = (i / self.n, i % self.n);
        panel * self.rows() + block * self.block_rows() + j * self.n + i
    }

    /// The rows to be multiplied in pairs, if any.
    pub(crate) fn pair(self) -> Option<RowPair> {
        let pair = if self.blocks == 2 {
            RowPair { first: 0, second: self.block_rows(), rows: self.block_rows() }
        } else {
            let rows = self.per_row / 2 * self.n;
            RowPair { first: self.n, second: self.n + rows, rows }
        };
        (pair.rows > 0).then_some(pair)
    }

    /// The rows before and after the paired ones.
    pub(crate) fn unpaired(self, pair: Option<RowPair>) -> [Range<usize>; 2] {
        match pair {
            None => [0..self.rows(), 0..0],
            Some(pair) => [0..pair.first, pair.second + pair.rows..self.rows()],
        }
    }
}

/// How a batch is cut. It depends on the batch and on the number of gradient partitions, never on
/// the number of threads, so that sums are formed in the same order everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardPlan {
    /// Rows of a shard; the last of a partition may have fewer.
    pub(crate) shard: usize,
    /// Rows of a partition; the last may have fewer.
    pub(crate) partition: usize,
}

/// Value and tangent rows of an evaluation's shard: enough of them meet each panel of weights
/// that comes from the third-level cache (5 × 512, one thread: 277 ms; 192 rows gave 299).
pub(crate) const EVAL_ROWS: usize = 384;

/// Rows of a training shard: each reads the packed weights and the whole gradient once (5 × 512,
/// one thread: 104 ms; 288 rows gave 107).
pub(crate) const TRAIN_ROWS: usize = 400;

impl ShardPlan {
    pub(crate) fn new(rows: usize, per_row: usize, partitions: usize, stacked: usize) -> Self {
        let partition = rows.div_ceil(partitions).next_multiple_of(2).max(1);
        let target = (stacked / (1 + per_row)).max(1);
        let shards = partition.div_ceil(target);
        Self { shard: partition.div_ceil(shards).next_multiple_of(2), partition }
    }
}
