//! Stiefel manifolds V(n, k) of orthonormal k-frames in ℝⁿ, with the Frobenius metric.

use super::{MAX_MATRIX, Manifold, check_dim, check_finite, project_gaussian, sphere_log_volume};
use crate::error::{PointError, SpecError};
use crate::linalg::{Determinant, polar, scratch, times, transpose_times};
use crate::rng::Stream;

/// {X ∈ ℝ^{n×k} : XᵀX = I}, stored row by row; d = nk − k(k+1)/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stiefel {
    n: usize,
    k: usize,
}

impl Stiefel {
    /// V(`n`, `k`) with 1 ≤ k ≤ n and n ≥ 2.
    pub fn new(n: usize, k: usize) -> Result<Self, SpecError> {
        check_dim("stiefel (n)", n, 2, MAX_MATRIX)?;
        check_dim("stiefel (k)", k, 1, n)?;
        Ok(Self { n, k })
    }
}

/// Largest entry of |XᵀX − I|.
pub(super) fn orthonormality_defect(x: &[f64], n: usize, k: usize) -> f64 {
    let mut gram = scratch(k * k);
    transpose_times(x, x, n, k, k, &mut gram);
    let mut defect = 0.0f64;
    for i in 0..k {
        for j in 0..k {
            let target = if i == j { 1.0 } else { 0.0 };
            let entry = (gram[i * k + j] - target).abs();
            // `max` would drop a NaN.
            defect = if entry > defect || entry.is_nan() { entry } else { defect };
        }
    }
    defect
}

/// log vol V(n,k) = k(k−1)/4 · log 2 + Σ_{j=n−k}^{n−1} log vol S^j.
pub(super) fn stiefel_log_volume(n: usize, k: usize) -> f64 {
    let spheres: f64 = (n - k..n).map(sphere_log_volume).sum();
    (k * (k - 1)) as f64 / 4.0 * 2f64.ln() + spheres
}

impl Manifold for Stiefel {
    fn name(&self) -> String {
        format!("stiefel:{},{}", self.n, self.k)
    }

    fn dim(&self) -> usize {
        self.n * self.k - self.k * (self.k + 1) / 2
    }

    fn ambient_dim(&self) -> usize {
        self.n * self.k
    }

    /// `U ← U − X sym(XᵀU)`.
    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        let (n, k) = (self.n, self.k);
        let mut xtu = scratch(k * k);
        transpose_times(x, u, n, k, k, &mut xtu);
        let mut symmetric = scratch(k * k);
        for i in 0..k {
            for j in 0..k {
                symmetric[i * k + j] = 0.5 * (xtu[i * k + j] + xtu[j * k + i]);
            }
        }
        let mut normal = scratch(n * k);
        times(x, &symmetric, k, k, &mut normal);
        for (u, v) in u.iter_mut().zip(normal) {
            *u -= v;
        }
    }

    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        check_finite(self, x)?;
        let ratio = polar(x, self.n, self.k, Determinant::Any);
        rank_error(self, ratio)
    }

    fn residual(&self, x: &[f64]) -> f64 {
        orthonormality_defect(x, self.n, self.k)
    }

    /// II(V,V) = −X VᵀV summed over a frame: H = −((k−1)/2 + n − k) X.
    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        let factor = -((self.k as f64 - 1.0) / 2.0 + (self.n - self.k) as f64);
        for (h, x) in h.iter_mut().zip(x) {
            *h = factor * x;
        }
    }

    fn log_volume(&self) -> Option<f64> {
        Some(stiefel_log_volume(self.n, self.k))
    }

    fn projects_to_closest(&self) -> bool {
        true
    }

    /// The polar factor of a Gaussian matrix is uniform, since it commutes with rotations.
    fn sample_uniform(&self, stream: &mut Stream, x: &mut [f64]) -> Result<bool, PointError> {
        project_gaussian(self, stream, x)
    }
}

/// The polar factor of a matrix without full rank is not determined.
pub(super) fn rank_error<M: Manifold>(manifold: &M, ratio: f64) -> Result<(), PointError> {
    if ratio > 1e-12 {
        return Ok(());
    }
    let reason = "ratio of the smallest to the largest singular value";
    Err(PointError::NoProjection { manifold: manifold.name(), reason, value: ratio })
}
