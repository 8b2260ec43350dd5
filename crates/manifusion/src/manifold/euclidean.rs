//! Flat space ℝ^d, where the framework reduces to ordinary diffusion models.

use super::{Family, MAX_DIM, Manifold, check_dim, check_finite};
use crate::error::{PointError, SpecError};

/// ℝ^d.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Euclidean {
    dim: usize,
}

impl Euclidean {
    /// ℝ^`dim`, from dimension 1.
    pub fn new(dim: usize) -> Result<Self, SpecError> {
        Ok(Self { dim: check_dim("euclidean", dim, 1, MAX_DIM)? })
    }
}

impl Manifold for Euclidean {
    fn name(&self) -> String {
        format!("euclidean:{}", self.dim)
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn ambient_dim(&self) -> usize {
        self.dim
    }

    fn project_tangent(&self, _x: &[f64], _u: &mut [f64]) {}

    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        check_finite(self, x)
    }

    fn residual(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn mean_curvature(&self, _x: &[f64], h: &mut [f64]) {
        h.fill(0.0);
    }

    fn frame(&self, _x: &[f64], e: &mut [f64]) {
        e.fill(0.0);
        for (j, row) in e.chunks_exact_mut(self.dim).enumerate() {
            row[j] = 1.0;
        }
    }

    fn projects_to_closest(&self) -> bool {
        true
    }

    fn family(&self) -> Family {
        Family::Euclidean { dim: self.dim }
    }
}
