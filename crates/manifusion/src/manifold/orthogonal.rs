//! The orthogonal groups O(n) and SO(n) ⊂ ℝ^{n×n}, Frobenius metric (paper, appendix "Orthogonal
//! groups").

use std::f64::consts::FRAC_1_SQRT_2;

use super::stiefel::{orthonormality_defect, rank_error, stiefel_log_volume};
use super::{Family, MAX_MATRIX, Manifold, check_dim, check_finite, project_gaussian};
use crate::error::{PointError, SpecError};
use crate::linalg::{Determinant, determinant, polar, scratch};
use crate::rng::Stream;

/// {X ∈ ℝ^{n×n} : XᵀX = I}, of determinant 1 when special; stored row by row, d = n(n−1)/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orthogonal {
    n: usize,
    special: bool,
}

impl Orthogonal {
    /// O(n). It has two components, det = ±1, which no continuous motion joins.
    pub fn full(n: usize) -> Result<Self, SpecError> {
        Ok(Self { n: check_dim("o", n, 2, MAX_MATRIX)?, special: false })
    }

    /// SO(n).
    pub fn special(n: usize) -> Result<Self, SpecError> {
        Ok(Self { n: check_dim("so", n, 2, MAX_MATRIX)?, special: true })
    }
}

impl Manifold for Orthogonal {
    fn name(&self) -> String {
        format!("{}:{}", if self.special { "so" } else { "o" }, self.n)
    }

    fn dim(&self) -> usize {
        self.n * (self.n - 1) / 2
    }

    fn ambient_dim(&self) -> usize {
        self.n * self.n
    }

    /// `U ← (U − X Uᵀ X)/2`.
    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        let n = self.n;
        // w = Uᵀ X, then U ← (U − X w)/2.
        let mut w = scratch(n * n);
        crate::linalg::transpose_times(u, x, n, n, n, &mut w);
        let mut xw = scratch(n * n);
        crate::linalg::times(x, &w, n, n, &mut xw);
        for (u, v) in u.iter_mut().zip(xw) {
            *u = 0.5 * (*u - v);
        }
    }

    /// The polar factor U Vᵀ; on SO(n) the nearest rotation, also for a matrix of negative
    /// determinant.
    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        check_finite(self, x)?;
        let sign = if self.special { Determinant::Positive } else { Determinant::Any };
        let ratio = polar(x, self.n, self.n, sign);
        rank_error(self, ratio)
    }

    /// |XᵀX − I|, and on SO(n) also |det X − 1|, which a reflection violates by 2.
    fn residual(&self, x: &[f64]) -> f64 {
        let defect = orthonormality_defect(x, self.n, self.n);
        if self.special { defect.max((determinant(x, self.n) - 1.0).abs()) } else { defect }
    }

    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        let factor = -(self.n as f64 - 1.0) / 2.0;
        for (h, x) in h.iter_mut().zip(x) {
            *h = factor * x;
        }
    }

    /// The left-invariant fields X(E_ab − E_ba)/√2.
    fn frame(&self, x: &[f64], e: &mut [f64]) {
        let n = self.n;
        e.fill(0.0);
        let mut rows = e.chunks_exact_mut(n * n);
        for a in 0..n {
            for b in a + 1..n {
                let Some(row) = rows.next() else { return };
                for i in 0..n {
                    row[i * n + b] = FRAC_1_SQRT_2 * x[i * n + a];
                    row[i * n + a] = -FRAC_1_SQRT_2 * x[i * n + b];
                }
            }
        }
    }

    /// O(n): 2^{n(n−1)/4} ∏_{k=0}^{n−1} vol S^k; SO(n): half of it.
    fn log_volume(&self) -> Option<f64> {
        let full = stiefel_log_volume(self.n, self.n);
        Some(if self.special { full - 2f64.ln() } else { full })
    }

    fn projects_to_closest(&self) -> bool {
        true
    }

    fn sample_uniform(&self, stream: &mut Stream, x: &mut [f64]) -> Result<bool, PointError> {
        project_gaussian(self, stream, x)
    }

    fn family(&self) -> Family {
        Family::Orthogonal { n: self.n, special: self.special }
    }
}
