//! A Brownian path that is the same however finely, and in whatever order, it is looked at.
//!
//! The time axis is a [`Clock`] on [0, 1]; the path is defined on its dyadic points by Lévy's
//! construction: the value at the middle of an interval is a bridge between its ends, with a normal
//! drawn from the stream of that node. A rejected step, a refinement or another thread therefore
//! sees the same path.

use crate::rng::Streams;

/// A monotone map of [0, 1] to time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clock {
    /// t0 + τ(t1 − t0).
    Linear {
        /// Start.
        t0: f64,
        /// End.
        t1: f64,
    },
    /// t0·(t1/t0)^τ: steps relative to the time, which integrands that grow like 1/s near 0 need.
    Log {
        /// Start, positive.
        t0: f64,
        /// End.
        t1: f64,
    },
    /// Generative time t = end − s with s falling from `end` to `s_min` by equal factors.
    LogBackwards {
        /// T: s at the start.
        end: f64,
        /// s at the end, positive.
        s_min: f64,
    },
}

impl Clock {
    /// The time at τ ∈ [0, 1].
    pub fn time(&self, tau: f64) -> f64 {
        match *self {
            Self::Linear { t0, t1 } => t0 + tau * (t1 - t0),
            Self::Log { t0, t1 } => {
                // The ends exactly, so that consecutive solves join.
                if tau >= 1.0 { t1 } else { t0 * (tau * (t1 / t0).ln()).exp() }
            }
            Self::LogBackwards { end, s_min } => {
                if tau >= 1.0 {
                    end - s_min
                } else {
                    end - end * (tau * (s_min / end).ln()).exp()
                }
            }
        }
    }

    /// Length of the clock's own axis: t1 − t0, or log t1/t0. A step of 2^−level has this length
    /// times 2^−level.
    pub fn length(&self) -> f64 {
        match *self {
            Self::Linear { t0, t1 } => t1 - t0,
            Self::Log { t0, t1 } => (t1 / t0).ln(),
            Self::LogBackwards { end, s_min } => (end / s_min).ln(),
        }
    }

    /// Whether the clock runs forward between finite times (and starts after 0 if logarithmic).
    pub fn is_valid(&self) -> bool {
        match *self {
            Self::Linear { t0, t1 } => t0.is_finite() && t1.is_finite() && t1 > t0,
            Self::Log { t0, t1 } => t0 > 0.0 && t1.is_finite() && t1 > t0,
            Self::LogBackwards { end, s_min } => s_min > 0.0 && end.is_finite() && end > s_min,
        }
    }
}

/// The dyadic interval [index, index + 1]·2^−level of a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dyadic {
    /// Halvings.
    pub level: u32,
    /// Position, below 2^level.
    pub index: u64,
}

/// Deepest level: nodes are numbered by 2^level + index, below 2^44.
pub const MAX_LEVEL: u32 = 43;

/// Brownian paths of dimension `dim` along one clock, one per row.
#[derive(Clone, Copy, Debug)]
pub struct BrownianTree {
    streams: Streams,
    clock: Clock,
    dim: usize,
}

impl BrownianTree {
    /// Paths of `dim` numbers, drawn from `streams` by row.
    pub fn new(streams: Streams, clock: Clock, dim: usize) -> Self {
        Self { streams, clock, dim }
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Numbers per row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Start and length in time of a dyadic interval.
    pub fn interval(&self, at: Dyadic) -> (f64, f64) {
        let width = 0.5f64.powi(at.level as i32);
        let start = self.clock.time(at.index as f64 * width);
        (start, self.clock.time((at.index + 1) as f64 * width) - start)
    }

    /// `db ←` the increment over an interval, and its two halves if wanted. `halves` has 2·dim
    /// numbers.
    pub fn increments(&self, row: u64, at: Dyadic, db: &mut [f64], halves: &mut [f64]) {
        debug_assert!(at.level < MAX_LEVEL, "level {} is too deep", at.level);
        // Node 0 is the increment over the whole clock; the bridge of interval (level, index) is
        // node 2^level + index.
        let whole = self.clock.time(1.0) - self.clock.time(0.0);
        self.normals(row, 0, db);
        crate::linalg::scale(whole.sqrt(), db);
        let mut interval = Dyadic { level: 0, index: 0 };
        while interval.level < at.level {
            let (left, right) = halves.split_at_mut(self.dim);
            self.split(row, interval, db, left, right);
            let next = at.index >> (at.level - interval.level - 1);
            let half = if next & 1 == 0 { left } else { right };
            db.copy_from_slice(half);
            interval = Dyadic { level: interval.level + 1, index: next };
        }
        let (left, right) = halves.split_at_mut(self.dim);
        self.split(row, at, db, left, right);
    }

    /// The bridge: given the increment over [a, c], the one over [a, b] is normal with mean
    /// (b−a)/(c−a)·db and variance (b−a)(c−b)/(c−a).
    fn split(&self, row: u64, at: Dyadic, db: &[f64], left: &mut [f64], right: &mut [f64]) {
        let child = Dyadic { level: at.level + 1, index: 2 * at.index };
        let (_, first) = self.interval(child);
        let (_, second) = self.interval(Dyadic { index: child.index + 1, ..child });
        let whole = first + second;
        self.normals(row, (1 << at.level) + at.index, left);
        let (mean, sd) = (first / whole, (first * second / whole).sqrt());
        for i in 0..self.dim {
            left[i] = mean * db[i] + sd * left[i];
            right[i] = db[i] - left[i];
        }
    }

    fn normals(&self, row: u64, node: u64, out: &mut [f64]) {
        self.streams.fill_normal(row, node, 0, out);
    }
}
