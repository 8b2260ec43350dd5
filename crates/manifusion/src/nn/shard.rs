//! A shard: a fixed number of batch rows that one thread takes through the whole network.

use super::NnError;
use super::features::Place;
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

    /// The shape of the shard's matrices.
    pub(crate) fn stack(&self) -> Stack {
        Stack::new(self.rows(), self.per_row)
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

/// The shape of a matrix of stacked rows stored by panels: n value rows, then n rows of each
/// tangent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    /// Value rows.
    pub(crate) n: usize,
    /// All rows, and the lines from one panel to the next.
    pub(crate) rows: usize,
}

impl Stack {
    fn new(n: usize, per_row: usize) -> Self {
        let rows = n * (1 + per_row);
        Self { n, rows }
    }

    /// Lines of a matrix with this many panels.
    pub(crate) fn lines(self, panels: usize) -> usize {
        panels * self.rows
    }

    /// All rows of a panel.
    pub(crate) fn panel(self, panel: usize) -> std::ops::Range<usize> {
        panel * self.rows..panel * self.rows + self.rows
    }

    /// The value rows of a panel.
    pub(crate) fn values(self, panel: usize) -> std::ops::Range<usize> {
        panel * self.rows..panel * self.rows + self.n
    }

    /// The line of row `i` of tangent `j`, counted from 1; 0 is the value.
    pub(crate) fn line(self, panel: usize, j: usize, i: usize) -> usize {
        panel * self.rows + j * self.n + i
    }
}

/// How a batch is cut. It depends on the batch and on the number of lanes, never on the number of
/// threads, so that sums are formed in the same order everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardPlan {
    /// Rows of a shard; the last of a lane may have fewer.
    pub(crate) shard: usize,
    /// Rows of a lane; the last may have fewer.
    pub(crate) lane: usize,
}

/// Value and tangent rows of an evaluation's shard: one layer's activations stay in the
/// second-level cache.
pub(crate) const EVAL_ROWS: usize = 192;

/// Rows of a training shard. More than an evaluation's: each shard reads and writes the whole
/// gradient once (5 × 512, two threads, best step: 57.7 ms; 192 rows gave 58.2 to 59.7, 384 gave
/// 57.9).
pub(crate) const TRAIN_ROWS: usize = 288;

impl ShardPlan {
    pub(crate) fn new(rows: usize, per_row: usize, lanes: usize, stacked: usize) -> Self {
        let lane = rows.div_ceil(lanes).max(1);
        let target = (stacked / (1 + per_row)).max(1);
        let shards = lane.div_ceil(target);
        Self { shard: lane.div_ceil(shards), lane }
    }
}
