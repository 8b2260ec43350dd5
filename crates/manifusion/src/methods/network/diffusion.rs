//! A trained network that is the score of a diffusion model.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{TOLERANCE, network_files};
use crate::density::Density;
use crate::error::SolveError;
use crate::flow_density::FlowOptions;
use crate::likelihood::{BoundOptions, Bounds, bounds};
use crate::manifold::Manifold;
use crate::methods::{
    FileMap, FitError, Fitted, LikelihoodKind, LogDensities, MethodInfo, ModelFacts,
};
use crate::model::Diffusion;
use crate::nn::Mlp;
use crate::prior::Prior;
use crate::rows::Rows;
use crate::sample::{SampleOptions, sample};

/// A diffusion model with the network that it is made of.
#[derive(Debug)]
pub(in crate::methods) struct FittedDiffusion {
    pub(in crate::methods) info: &'static MethodInfo,
    /// Settings, nothing left open.
    pub(in crate::methods) settings: Json,
    pub(in crate::methods) net: Mlp<f32>,
    pub(in crate::methods) best_step: Option<u64>,
    pub(in crate::methods) diffusion: Diffusion,
    pub(in crate::methods) facts: ModelFacts,
}

impl Density for FittedDiffusion {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.diffusion.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(self.log_density_to(x, TOLERANCE)?.log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_with(n, &SampleOptions { seed, ..SampleOptions::default() })
    }
}

impl Fitted for FittedDiffusion {
    fn info(&self) -> &'static MethodInfo {
        self.info
    }

    fn settings(&self) -> Result<Json, FitError> {
        Ok(self.settings.clone())
    }

    fn files(&self) -> Result<FileMap, FitError> {
        network_files(&self.net, self.best_step)
    }

    fn prior(&self) -> &Arc<dyn Prior> {
        &self.diffusion.prior
    }

    fn likelihood_kind(&self) -> LikelihoodKind {
        LikelihoodKind::Ode
    }

    fn log_density_to(&self, x: Rows<'_>, tolerance: f64) -> Result<LogDensities, SolveError> {
        self.diffusion.check()?;
        let flow = self.diffusion.flow(FlowOptions::with_tolerance(tolerance));
        let found = flow.log_density_with_stats(x)?;
        let evaluations = found.stats.evaluations as f64 / x.len() as f64;
        Ok(LogDensities { log_p: found.log_p, evaluations, members: Vec::new() })
    }

    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        sample(&self.diffusion, n, options)
    }

    fn bounds(&self, x: Rows<'_>, options: &BoundOptions) -> Result<Option<Bounds>, SolveError> {
        bounds(&self.diffusion, x, options).map(Some)
    }

    fn parameters(&self) -> Option<usize> {
        Some(self.net.params().len())
    }

    fn facts(&self) -> ModelFacts {
        self.facts
    }
}
