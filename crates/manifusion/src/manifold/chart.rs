//! Charts: coordinates z ∈ ℝ^d of (nearly) all points of a manifold, in which a density of ℝ^d is a
//! density of the manifold.

use std::fmt::Debug;
use std::sync::Arc;

use super::{Family, Hyperboloid, Lorentz, Manifold, Sphere};
use crate::error::{PointError, SpecError};
use crate::linalg::{axpy, dot, norm, scale, scratch};

/// A smooth map of a manifold, but perhaps a set without volume, onto ℝ^d.
pub trait Chart: Debug + Send + Sync {
    /// The manifold.
    fn manifold(&self) -> &Arc<dyn Manifold>;

    /// `z ←` the coordinates of x; an error for a point that has none.
    fn project(&self, x: &[f64], z: &mut [f64]) -> Result<(), PointError>;

    /// `x ←` the point whose coordinates are z.
    fn lift(&self, z: &[f64], x: &mut [f64]);

    /// log|dz/dx| at the point with coordinates z, by the volume of the manifold's metric: what a
    /// log-density of z gains as one of x.
    fn log_stretch(&self, z: &[f64]) -> f64;
}

/// A sphere without a pole by z = y/(1 − t), with t the coordinate along the pole and y the rest.
#[derive(Clone, Debug)]
pub struct Stereographic {
    pole: Vec<f64>,
    sphere: Arc<dyn Manifold>,
}

impl Stereographic {
    /// The projection from a pole, a vector of length 1.
    pub fn new(pole: Vec<f64>) -> Result<Self, SpecError> {
        let sphere = Sphere::new(pole.len().saturating_sub(1))?;
        Ok(Self { pole, sphere: Arc::new(sphere) })
    }

    /// The reflection that takes the pole to the last coordinate vector and back.
    fn reflect(&self, x: &mut [f64]) {
        let last = x.len() - 1;
        let mut across = self.pole.clone();
        across[last] -= 1.0;
        let length2 = dot(&across, &across);
        if length2 > 0.0 {
            let along = 2.0 * dot(&across, x) / length2;
            axpy(-along, &across, x);
        }
    }
}

impl Chart for Stereographic {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.sphere
    }

    fn project(&self, x: &[f64], z: &mut [f64]) -> Result<(), PointError> {
        let mut turned = x.to_vec();
        self.reflect(&mut turned);
        let d = z.len();
        // 1 − t, also where t is near 1.
        let y = &turned[..d];
        let beyond = if turned[d] > 0.0 { dot(y, y) / (1.0 + turned[d]) } else { 1.0 - turned[d] };
        // Nearer than 1e-15 it is the pole up to rounding.
        if !(beyond > 1e-30) {
            return Err(PointError::NoProjection {
                manifold: self.sphere.name(),
                reason: "1 - <x, pole> in the stereographic projection",
                value: beyond,
            });
        }
        for (z, y) in z.iter_mut().zip(y) {
            *z = y / beyond;
        }
        Ok(())
    }

    fn lift(&self, z: &[f64], x: &mut [f64]) {
        let (d, square) = (z.len(), dot(z, z));
        for (x, z) in x.iter_mut().zip(z) {
            *x = 2.0 * z / (1.0 + square);
        }
        x[d] = (square - 1.0) / (1.0 + square);
        self.reflect(x);
        let length = norm(x);
        scale(1.0 / length, x);
    }

    /// dx = (2/(1 + |z|²))^d dz.
    fn log_stretch(&self, z: &[f64]) -> f64 {
        z.len() as f64 * (0.5 * (1.0 + dot(z, z))).ln()
    }
}

/// Hyperbolic space by normal coordinates around its origin, z = log₀ x: all of its points.
#[derive(Clone, Debug)]
pub struct NormalCoordinates {
    geometry: Lorentz,
    space: Arc<dyn Manifold>,
}

impl NormalCoordinates {
    /// Those of a hyperboloid with either metric; none for other manifolds.
    pub fn new(manifold: &Arc<dyn Manifold>) -> Option<Self> {
        match manifold.family() {
            Family::Hyperboloid { dim, curvature, metric } => {
                let geometry = Lorentz::on(Hyperboloid::valid(dim, curvature, metric));
                Some(Self { geometry, space: Arc::clone(manifold) })
            }
            _ => None,
        }
    }
}

impl Chart for NormalCoordinates {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.space
    }

    fn project(&self, x: &[f64], z: &mut [f64]) -> Result<(), PointError> {
        self.geometry.log_origin(x, z);
        Ok(())
    }

    fn lift(&self, z: &[f64], x: &mut [f64]) {
        self.geometry.exp_origin(z, x);
    }

    /// dx = (sinh(√|K| r)/(√|K| r))^{d−1} dz in g_L.
    fn log_stretch(&self, z: &[f64]) -> f64 {
        let mut x = scratch(self.space.ambient_dim());
        self.geometry.exp_origin(z, &mut x);
        -self.geometry.points().log_lorentz_over_own(&x) - self.geometry.log_exp_jacobian(norm(z))
    }
}
