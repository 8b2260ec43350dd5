//! N(0, I) on ℝ^d, whose Langevin diffusion is the Ornstein–Uhlenbeck process.

use std::f64::consts::TAU;

use super::{Langevin, Prior};
use crate::error::PointError;
use crate::linalg::dot;
use crate::rng::Stream;

/// N(0, I) on ℝ^d.
#[derive(Clone, Copy, Debug)]
pub struct StandardNormal {
    dim: usize,
}

impl StandardNormal {
    /// N(0, I) on ℝ^`dim`.
    pub fn new(dim: usize) -> Self {
        Self { dim }
    }
}

impl Prior for StandardNormal {
    fn ambient_dim(&self) -> Option<usize> {
        Some(self.dim)
    }

    fn log_density(&self, x: &[f64]) -> f64 {
        -0.5 * (dot(x, x) + self.dim as f64 * TAU.ln())
    }

    fn sample(&self, stream: &mut Stream, x: &mut [f64]) -> Result<(), PointError> {
        for x in x {
            *x = stream.normal();
        }
        Ok(())
    }

    fn drift(&self, x: &[f64], u: &mut [f64]) {
        for (u, x) in u.iter_mut().zip(x) {
            *u = -0.5 * x;
        }
    }

    fn drift_derivative(&self, _x: &[f64], e: &[f64], out: &mut [f64]) {
        for (out, e) in out.iter_mut().zip(e) {
            *out = -0.5 * e;
        }
    }

    fn drift_divergence(&self, _x: &[f64]) -> f64 {
        -0.5 * self.dim as f64
    }

    fn langevin(&self) -> Langevin {
        Langevin::OrnsteinUhlenbeck
    }
}
