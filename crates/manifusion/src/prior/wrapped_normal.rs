//! The prior of hyperbolic space with the Lorentz metric: the exponential map at the origin of a
//! standard normal.

use std::f64::consts::TAU;

use super::Prior;
use crate::error::PointError;
use crate::linalg::norm;
use crate::manifold::{Hyperboloid, Lorentz};
use crate::rng::Stream;

/// x = exp₀(v), v ~ N(0, I): with respect to the volume of g_L, log p₀ = log N(v) − (d−1)
/// log(sinh(√|K|r)/(√|K|r)), r = |v|.
///
/// Brownian motion with U₀ = ½∇log p₀ has a radius r that moves as that of the Ornstein–Uhlenbeck
/// process in ℝ^d: the outward drift of hyperbolic space and the area factor of p₀ cancel.
#[derive(Clone, Copy, Debug)]
pub struct WrappedNormal {
    space: Lorentz,
}

impl WrappedNormal {
    /// The prior on these points with g_L.
    pub fn new(points: Hyperboloid) -> Self {
        Self { space: Lorentz::on(points) }
    }

    fn root(&self) -> f64 {
        (-self.space.points().curvature()).sqrt()
    }

    fn radius(&self, x: &[f64]) -> f64 {
        let root = self.root();
        (root * norm(&x[1..])).asinh() / root
    }

    /// β with U₀ = β r r̂ (r̂ the radial unit vector), and r dβ/dr: β = −½(1 + (d−1)c), c = (√|K|r
    /// coth(√|K|r) − 1)/r².
    fn rate(&self, r: f64) -> (f64, f64) {
        let k = -self.space.points().curvature();
        let t = self.root() * r;
        let (c, slope) = if t < 1e-2 {
            let t2 = t * t;
            (k * (1.0 / 3.0 - t2 / 45.0), -k * (2.0 * t2 / 45.0))
        } else {
            let (coth, sinh) = (1.0 / t.tanh(), t.sinh());
            let c = (t * coth - 1.0) / (t * t);
            (k * c, k * (coth / t - 1.0 / (sinh * sinh) - 2.0 * c))
        };
        let across = self.space.dim() as f64 - 1.0;
        (-0.5 * (1.0 + across * c), -0.5 * across * slope)
    }
}

impl Prior for WrappedNormal {
    fn ambient_dim(&self) -> Option<usize> {
        Some(self.space.dim() + 1)
    }

    fn log_density(&self, x: &[f64]) -> f64 {
        let (r, d) = (self.radius(x), self.space.dim() as f64);
        -0.5 * (r * r + d * TAU.ln()) - self.space.log_exp_jacobian(r)
    }

    fn sample(&self, stream: &mut Stream, x: &mut [f64]) -> Result<(), PointError> {
        let v: Vec<f64> = (0..self.space.dim()).map(|_| stream.normal()).collect();
        self.space.exp_origin(&v, x);
        Ok(())
    }

    fn drift(&self, x: &[f64], u: &mut [f64]) {
        let r = self.radius(x);
        self.space.log_origin(x, &mut u[1..]);
        u[0] = 0.0;
        let (beta, _) = self.rate(r);
        for u in &mut u[1..] {
            *u *= beta;
        }
    }

    /// ∇·(βr r̂) = (βr)' + (d−1)√|K| coth(√|K|r) βr.
    fn drift_divergence(&self, x: &[f64]) -> f64 {
        let r = self.radius(x);
        let (beta, slope) = self.rate(r);
        let t = self.root() * r;
        let t_coth = if t < 1e-4 { 1.0 + t * t / 3.0 } else { t / t.tanh() };
        beta + slope + (self.space.dim() as f64 - 1.0) * beta * t_coth
    }
}
