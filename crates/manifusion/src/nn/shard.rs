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
            cut: n,
            gap: 0,
            x: self.x.as_slice(),
            s: self.s,
            e: self.directions.e,
            e_s: self.directions.e_s,
        })
    }
}

/// Rows of a checked input: consecutive ones, or two runs of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardInput<'a> {
    pub(crate) dim: usize,
    pub(crate) per_row: usize,
    /// Index of the first row in the batch.
    pub(crate) first_row: usize,
    /// Rows of the first run.
    cut: usize,
    /// Rows of the batch between the runs; they are in the slices below, but not in this shard.
    gap: usize,
    x: &'a [f64],
    s: &'a [f64],
    e: &'a [f64],
    e_s: &'a [f64],
}

impl<'a> ShardInput<'a> {
    pub(crate) fn rows(&self) -> usize {
        self.s.len() - self.gap
    }

    /// The place of row `i` in the slices.
    fn index(&self, i: usize) -> usize {
        if i < self.cut { i } else { i + self.gap }
    }

    /// The index of row `i` in the batch.
    pub(crate) fn batch_row(&self, i: usize) -> usize {
        self.first_row + self.index(i)
    }

    /// The runs of rows that follow each other in the batch; the second may be empty.
    pub(crate) fn runs(&self) -> [Range<usize>; 2] {
        match self.gap {
            0 => [0..self.rows(), self.rows()..self.rows()],
            _ => [0..self.cut, self.cut..self.rows()],
        }
    }

    /// The time of row `i`.
    pub(crate) fn s(&self, i: usize) -> f64 {
        self.s[self.index(i)]
    }

    /// The shape of the matrices of an evaluation: a point's tangents are paired with each other,
    /// however many points there are, so that its results do not depend on the other points.
    pub(crate) fn stack(&self) -> Stack {
        Stack { blocks: 1, n: self.rows(), per_row: self.per_row }
    }

    /// Rows `rows` of a contiguous input and as many from `gap` rows after them on.
    pub(crate) fn two_runs(&self, rows: Range<usize>, gap: usize) -> Self {
        let (_, from) = self.split_at(rows.start);
        let cut = rows.len();
        let (both, _) = from.split_at(2 * cut + gap);
        Self { cut, gap, ..both }
    }

    /// Rows `rows` of a contiguous input.
    pub(crate) fn run(&self, rows: Range<usize>) -> Self {
        let (_, from) = self.split_at(rows.start);
        from.split_at(rows.len()).0
    }

    /// Component in s of direction `j` of row `i`.
    pub(crate) fn e_s(&self, i: usize, j: usize) -> f64 {
        self.e_s.get(self.index(i) * self.per_row + j).copied().unwrap_or(0.0)
    }

    pub(crate) fn place(&self, i: usize) -> Place<'a> {
        let (m, k, i) = (self.dim, self.per_row, self.index(i));
        let e_s = if self.e_s.is_empty() { self.e_s } else { &self.e_s[i * k..(i + 1) * k] };
        Place {
            x: &self.x[i * m..(i + 1) * m],
            s: self.s[i],
            e: &self.e[i * k * m..(i + 1) * k * m],
            e_s,
        }
    }

    /// The rows before and from `row` on, of a contiguous input.
    pub(crate) fn split_at(&self, row: usize) -> (Self, Self) {
        debug_assert_eq!(self.gap, 0);
        let (m, k) = (self.dim, self.per_row);
        let (x0, x1) = self.x.split_at(row * m);
        let (s0, s1) = self.s.split_at(row);
        let (e0, e1) = self.e.split_at(row * k * m);
        let (es0, es1) = self.e_s.split_at(if self.e_s.is_empty() { 0 } else { row * k });
        (
            Self { x: x0, s: s0, e: e0, e_s: es0, cut: row, ..*self },
            Self {
                x: x1,
                s: s1,
                e: e1,
                e_s: es1,
                cut: s1.len(),
                first_row: self.first_row + row,
                ..*self
            },
        )
    }
}

/// The shape of a matrix of stacked rows stored by panels: in each block n value rows, then n
/// rows of each tangent.
#[derive(Clone, Copy, Debug, Default)]
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
    /// The shape of the matrices of a training pass over so many points: two blocks of points that
    /// are paired row by row, values with values and tangents with tangents, if there are enough
    /// and evenly many.
    pub(crate) fn training(points: usize, per_row: usize) -> Self {
        let enough = points * (1 + per_row) >= 2 * STRASSEN_ROWS;
        let blocks = if enough && points.is_multiple_of(2) { 2 } else { 1 };
        Self { blocks, n: points / blocks, per_row }
    }

    /// The same shape with so many points in each block.
    pub(crate) fn with_block_points(self, n: usize) -> Self {
        Self { n, ..self }
    }

    /// Points of a block.
    pub(crate) fn block_points(self) -> usize {
        self.n
    }

    /// Whether there are two blocks, whose rows are paired.
    pub(crate) fn is_paired(self) -> bool {
        self.blocks == 2
    }

    /// Runs of `n` lines that a panel consists of: value and tangents of each block.
    pub(crate) fn runs(self) -> usize {
        self.blocks * (1 + self.per_row)
    }

    pub(crate) fn block_count(self) -> usize {
        self.blocks
    }

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
        (0..self.blocks).map(move |b| self.block(b))
    }

    /// A block of a panel.
    pub(crate) fn block(self, b: usize) -> Block {
        let (rows, n) = (self.block_rows(), self.n);
        let bends = if self.per_row > 0 { n } else { 0 };
        Block {
            rows: b * rows..(b + 1) * rows,
            values: b * rows..b * rows + n,
            bends: b * bends..(b + 1) * bends,
        }
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

/// Value and tangent rows of an evaluation's shard: enough of them meet each panel of weights
/// that comes from the third-level cache (5 × 512, one thread: 277 ms; 192 rows gave 299).
pub(crate) const EVAL_ROWS: usize = 384;

/// Rows of a training shard: each reads the packed weights and the whole gradient once (5 × 512,
/// one thread: 104 ms; 288 rows gave 107).
pub(crate) const TRAIN_ROWS: usize = 400;

/// Points of the first half of a batch.
pub(crate) fn half_points(points: usize) -> usize {
    points.div_ceil(2).next_multiple_of(2).max(1)
}

/// Points of a shard if each half of a batch is cut evenly into shards of at most so many stacked
/// rows. It depends on the batch alone, never on the number of threads, so that sums over shards
/// are formed in the same order everywhere.
pub(crate) fn shard_points(points: usize, per_row: usize, stacked: usize) -> usize {
    let half = half_points(points);
    let target = (stacked / (1 + per_row)).max(1);
    half.div_ceil(half.div_ceil(target)).next_multiple_of(2)
}
