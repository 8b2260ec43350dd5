//! A diffusion model as a density: log p by the exact likelihood of its ODE, samples from its λ-family.

use std::sync::Arc;

use crate::density::Density;
use crate::error::SolveError;
use crate::flow_density::FlowOptions;
use crate::likelihood::log_density;
use crate::manifold::Manifold;
use crate::model::Diffusion;
use crate::rows::Rows;
use crate::sample::{SampleOptions, sample};

/// A model with the options by which it is evaluated and sampled.
#[derive(Clone, Debug)]
pub struct DiffusionDensity {
    /// The model.
    pub model: Diffusion,
    /// How log p is computed.
    pub likelihood: FlowOptions,
    /// How samples are drawn; the seed is the caller's.
    pub sampling: SampleOptions,
}

impl Density for DiffusionDensity {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.model.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(log_density(&self.model, x, &self.likelihood)?.log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        sample(&self.model, n, &SampleOptions { seed, ..self.sampling })
    }
}
