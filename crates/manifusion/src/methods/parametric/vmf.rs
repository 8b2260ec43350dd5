//! `vmf`: mixtures of von Mises–Fisher distributions on S^d.

use super::{Component, Parametric};
use crate::directional::VonMisesFisher;
use crate::manifold::{Family, Manifold};
use crate::methods::MethodInfo;
use crate::methods::references::VON_MISES_FISHER;
use crate::rng::Stream;

impl Component for VonMisesFisher {
    const INFO: &'static MethodInfo = &MethodInfo {
        name: "vmf",
        title: "mixture of von Mises-Fisher distributions",
        help: "A mixture of von Mises-Fisher distributions, no network",
        manifolds: "spheres",
        settings: &[Parametric::DESCRIPTIONS],
        references: &[VON_MISES_FISHER],
    };

    fn knows(manifold: &dyn Manifold) -> bool {
        matches!(manifold.family(), Family::Sphere { .. })
    }

    /// A direction and κ.
    fn free_parameters(m: usize) -> usize {
        m
    }

    fn stored_len(m: usize) -> usize {
        m + 1
    }

    fn store(&self) -> Vec<f64> {
        [self.mean(), &[self.concentration()]].concat()
    }

    fn restore(m: usize, numbers: &[f64]) -> Self {
        Self::new(numbers[..m].to_vec(), numbers[m])
    }

    fn log_density(&self, x: &[f64]) -> f64 {
        Self::log_density(self, x)
    }

    fn log_norm(&self) -> f64 {
        Self::log_scaled_norm(self.mean().len(), self.concentration()) + self.concentration()
    }

    fn sample(&self, stream: &mut Stream, x: &mut [f64]) {
        Self::sample(self, stream, x);
    }

    fn widened(&self) -> Self {
        Self::new(self.mean().to_vec(), 0.5 * self.concentration())
    }

    fn statistics_len(m: usize) -> usize {
        m
    }

    fn statistics(x: &[f64], out: &mut [f64]) {
        out.copy_from_slice(x);
    }

    fn estimate(weight: f64, sums: &[f64], pseudo: f64, _before: Option<&Self>) -> Self {
        let mean: Vec<f64> = sums.iter().map(|sum| sum / (weight + pseudo)).collect();
        Self::from_mean(&mean)
    }
}
