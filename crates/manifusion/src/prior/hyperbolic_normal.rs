//! The paper's prior on H^d_K: the chart coordinates y are N(0, I) (section "Hyperbolic
//! Manifolds").

use std::f64::consts::TAU;

use super::Prior;
use crate::error::PointError;
use crate::linalg::dot;
use crate::manifold::{Hyperboloid, Manifold};
use crate::rng::Stream;

/// y ~ N(0, I) on the hyperboloid; with respect to the volume of g_E,
/// log p₀ = log N(y) − ½ log|G_E|, |G_E| = 1 + |y|²/x₀².
///
/// The area factor belongs into U₀: without it the Langevin diffusion has another stationary law.
#[derive(Clone, Copy, Debug)]
pub struct HyperbolicNormal {
    space: Hyperboloid,
}

impl HyperbolicNormal {
    /// The prior on this hyperboloid.
    pub fn new(space: Hyperboloid) -> Self {
        Self { space }
    }

    /// R² = 1/|K|.
    fn radius2(&self) -> f64 {
        -1.0 / self.space.curvature()
    }

    /// α with ∇_y log p₀ = α y, as a function of ρ = |y|², and dα/dρ.
    fn slope(&self, rho: f64) -> (f64, f64) {
        let (near, far) = (self.radius2() + rho, self.radius2() + 2.0 * rho);
        (-1.0 - 2.0 / far + 1.0 / near, 4.0 / (far * far) - 1.0 / (near * near))
    }
}

impl Prior for HyperbolicNormal {
    fn ambient_dim(&self) -> Option<usize> {
        Some(self.space.ambient_dim())
    }

    fn log_density(&self, x: &[f64]) -> f64 {
        let y = &x[1..];
        -0.5 * (dot(y, y) + y.len() as f64 * TAU.ln()) - self.space.log_area_euclid(x)
    }

    fn sample(&self, stream: &mut Stream, x: &mut [f64]) -> Result<(), PointError> {
        for y in &mut x[1..] {
            *y = stream.normal();
        }
        x[0] = self.space.height(&x[1..]);
        Ok(())
    }

    /// ½P(0, αy) = ½α/|x|² · (x₀ρ, x₀² y).
    fn drift(&self, x: &[f64], u: &mut [f64]) {
        let rho = dot(&x[1..], &x[1..]);
        let factor = 0.5 * self.slope(rho).0 / (x[0] * x[0] + rho);
        u[0] = factor * x[0] * rho;
        for (u, x_i) in u.iter_mut().zip(x).skip(1) {
            *u = factor * x[0] * x[0] * x_i;
        }
    }

    /// In the chart U₀ = βy, so ∇_g·U₀ = dβ + 2ρβ' + 2ρβ(½ log|G_E|)'.
    fn drift_divergence(&self, x: &[f64]) -> f64 {
        let rho = dot(&x[1..], &x[1..]);
        let r2 = self.radius2();
        let (near, far) = (r2 + rho, r2 + 2.0 * rho);
        let (alpha, alpha_slope) = self.slope(rho);
        let beta = 0.5 * alpha * near / far;
        let beta_slope = 0.5 * (alpha_slope * near / far - alpha * r2 / (far * far));
        let log_area_slope = 1.0 / far - 0.5 / near;
        self.space.dim() as f64 * beta + 2.0 * rho * (beta_slope + beta * log_area_slope)
    }
}
