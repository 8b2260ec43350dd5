//! A trained network that is a density through an ODE.

use std::sync::Arc;

use serde_json::Value as Json;

use super::network_files;
use crate::density::Density;
use crate::error::SolveError;
use crate::flow_density::{FlowDensity, FlowOptions};
use crate::manifold::Manifold;
use crate::methods::{
    FileMap, FitError, Fitted, LikelihoodKind, LogDensities, MethodInfo, ModelFacts,
};
use crate::nn::Mlp;
use crate::ode::OdeOptions;
use crate::prior::Prior;
use crate::rows::Rows;
use crate::sample::{SampleOptions, Steps};
use crate::sde::AdaptiveOptions;

/// Tolerance of log p where nothing else is asked for.
pub(in crate::methods) const TOLERANCE: f64 = 1e-5;

/// The density of a flow, with the network that it is made of.
#[derive(Debug)]
pub(in crate::methods) struct FittedFlow {
    pub(in crate::methods) info: &'static MethodInfo,
    /// Settings, nothing left open.
    pub(in crate::methods) settings: Json,
    pub(in crate::methods) net: Mlp<f32>,
    pub(in crate::methods) best_step: Option<u64>,
    pub(in crate::methods) flow: FlowDensity,
    pub(in crate::methods) facts: ModelFacts,
    /// What the method states as its density without the flow.
    pub(in crate::methods) direct: Option<Arc<dyn Density>>,
}

impl Density for FittedFlow {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.flow.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(self.log_density_to(x, TOLERANCE)?.log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_with(n, &SampleOptions { seed, ..SampleOptions::default() })
    }
}

impl Fitted for FittedFlow {
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
        &self.flow.prior
    }

    fn likelihood_kind(&self) -> LikelihoodKind {
        LikelihoodKind::Ode
    }

    fn log_density_to(&self, x: Rows<'_>, tolerance: f64) -> Result<LogDensities, SolveError> {
        let options = FlowOptions::with_tolerance(tolerance);
        let found = FlowDensity { options, ..self.flow.clone() }.log_density_with_stats(x)?;
        let evaluations = found.stats.evaluations as f64 / x.len() as f64;
        Ok(LogDensities { log_p: found.log_p, evaluations, members: Vec::new() })
    }

    /// There is no noise to choose: every λ but 1, and every fixed number of steps, is refused.
    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        let refused = |what, hint| {
            let manifold = self.info.title.to_owned();
            Err(SolveError::Unsupported { what, manifold, hint })
        };
        if options.lambda.to_bits() != 1f64.to_bits() {
            return refused("a lambda other than 1", "its samples follow an ODE without noise");
        }
        let mut flow = self.flow.clone();
        match options.steps {
            Steps::Automatic => {}
            Steps::Fixed { .. } => {
                return refused("a fixed number of steps", "its ODE is solved to a tolerance");
            }
            Steps::Adaptive(AdaptiveOptions { rtol, atol, .. }) => {
                flow.sampling = OdeOptions { rtol, atol, ..OdeOptions::default() };
            }
        }
        flow.sample_from(options.first_row, n, options.seed)
    }

    fn direct(&self) -> Option<&dyn Density> {
        self.direct.as_deref()
    }

    fn parameters(&self) -> Option<usize> {
        Some(self.net.params().len())
    }

    fn facts(&self) -> ModelFacts {
        self.facts
    }
}
