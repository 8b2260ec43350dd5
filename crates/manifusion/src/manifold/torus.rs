//! The flat torus T^d = (S¹)^d ⊂ ℝ^{2d} (paper, appendix `app:spheres`).

use std::f64::consts::TAU;

use super::{Family, MAX_DIM, Manifold, check_dim, project_gaussian, sphere};
use crate::error::{PointError, SpecError};
use crate::linalg::norm;
use crate::rng::Stream;

/// T^d: d unit circles, stored as (cos θ₁, sin θ₁, cos θ₂, …). Densities are with respect to dθ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torus {
    dim: usize,
}

impl Torus {
    /// T^`dim`, from dimension 1.
    pub fn new(dim: usize) -> Result<Self, SpecError> {
        Ok(Self { dim: check_dim("torus", dim, 1, MAX_DIM)? })
    }
}

impl Manifold for Torus {
    fn name(&self) -> String {
        format!("torus:{}", self.dim)
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn ambient_dim(&self) -> usize {
        2 * self.dim
    }

    #[inline]
    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        for (x, u) in x.as_chunks::<2>().0.iter().zip(u.as_chunks_mut::<2>().0) {
            sphere::project_tangent(x, u);
        }
    }

    #[inline]
    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        super::check_width(self, x)?;
        for circle in x.as_chunks_mut::<2>().0 {
            if !sphere::normalise(circle) {
                let value = norm(circle);
                let reason = "length of a circle's coordinates";
                return Err(PointError::NoProjection { manifold: self.name(), reason, value });
            }
        }
        Ok(())
    }

    fn residual(&self, x: &[f64]) -> f64 {
        let circles = x.chunks_exact(2).map(|c| (norm(c) - 1.0).abs());
        circles.fold(0.0, |worst, now| if now > worst || now.is_nan() { now } else { worst })
    }

    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        for (h, x) in h.iter_mut().zip(x) {
            *h = -x;
        }
    }

    fn frame(&self, x: &[f64], e: &mut [f64]) {
        e.fill(0.0);
        for (j, row) in e.chunks_exact_mut(2 * self.dim).enumerate() {
            row[2 * j] = -x[2 * j + 1];
            row[2 * j + 1] = x[2 * j];
        }
    }

    fn log_volume(&self) -> Option<f64> {
        Some(self.dim as f64 * TAU.ln())
    }

    fn projects_to_closest(&self) -> bool {
        true
    }

    fn sample_uniform(&self, stream: &mut Stream, x: &mut [f64]) -> Result<bool, PointError> {
        project_gaussian(self, stream, x)
    }

    fn family(&self) -> Family {
        Family::Torus { dim: self.dim }
    }
}
