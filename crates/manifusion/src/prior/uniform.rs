//! The uniform law on a compact manifold: p₀ = 1/vol M and U₀ = 0.

use std::sync::Arc;

use super::{Langevin, Prior};
use crate::error::{PointError, SolveError};
use crate::linalg::determinant;
use crate::manifold::{Family, Manifold};
use crate::rng::Stream;

/// Uniform on a manifold whose volume and exact sampler are known. On O(n), whose two components no
/// noise joins, each component is uniform and has its own weight.
#[derive(Clone, Debug)]
pub struct Uniform {
    manifold: Arc<dyn Manifold>,
    log_volume: f64,
    /// P(det > 0) on O(n); `None` elsewhere.
    rotations: Option<f64>,
}

impl Uniform {
    /// The uniform law; an error where volume or sampler are not known.
    pub fn new(manifold: Arc<dyn Manifold>) -> Result<Self, SolveError> {
        let mut x = vec![0.0; manifold.ambient_dim()];
        let mut stream = crate::rng::Streams::new(0, "uniform-trial").stream(0, 0);
        let sampled = manifold.sample_uniform(&mut stream, &mut x).unwrap_or(false);
        match manifold.log_volume() {
            Some(log_volume) if sampled => {
                let two_parts =
                    matches!(manifold.family(), Family::Orthogonal { special: false, .. });
                Ok(Self { manifold, log_volume, rotations: two_parts.then_some(0.5) })
            }
            _ => Err(SolveError::Unsupported {
                what: "an exact uniform law",
                manifold: manifold.name(),
                hint: "use a long run, or the manifold's normal prior",
            }),
        }
    }

    /// On O(n): the share of rotations (det = 1), estimated from data and strictly between 0 and 1.
    pub fn with_rotation_share(mut self, share: f64) -> Result<Self, SolveError> {
        if self.rotations.is_none() || !(share > 0.0 && share < 1.0) {
            let expected = "a number between 0 and 1, on O(n) only";
            return Err(SolveError::Setting { name: "rotation share", value: share, expected });
        }
        self.rotations = Some(share);
        Ok(self)
    }

    fn matrix_size(&self) -> usize {
        self.manifold.ambient_dim().isqrt()
    }
}

impl Prior for Uniform {
    fn ambient_dim(&self) -> Option<usize> {
        Some(self.manifold.ambient_dim())
    }

    fn log_density(&self, x: &[f64]) -> f64 {
        let weight = self.rotations.map_or(0.0, |share| {
            let rotation = determinant(x, self.matrix_size()) > 0.0;
            (2.0 * if rotation { share } else { 1.0 - share }).ln()
        });
        weight - self.log_volume
    }

    fn sample(&self, stream: &mut Stream, x: &mut [f64]) -> Result<(), PointError> {
        self.manifold.sample_uniform(stream, x)?;
        if let Some(share) = self.rotations {
            let n = self.matrix_size();
            let rotation = stream.uniform() <= share;
            if (determinant(x, n) > 0.0) != rotation {
                // Turning the first row carries one component onto the other, isometrically.
                for value in &mut x[..n] {
                    *value = -*value;
                }
            }
        }
        Ok(())
    }

    fn drift(&self, _x: &[f64], u: &mut [f64]) {
        u.fill(0.0);
    }

    fn drift_divergence(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn langevin(&self) -> Langevin {
        Langevin::Brownian
    }
}
