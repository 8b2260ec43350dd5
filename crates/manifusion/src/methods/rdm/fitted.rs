//! A trained diffusion model.

use std::sync::Arc;

use serde_json::Value as Json;

use super::{INFO, RdmSettings};
use crate::checkpoint::Checkpoint;
use crate::density::Density;
use crate::error::SolveError;
use crate::flow_density::FlowOptions;
use crate::likelihood::{BoundOptions, Bounds, bounds};
use crate::manifold::Manifold;
use crate::methods::{
    FileMap, FitError, Fitted, Geometry, LikelihoodKind, LogDensities, MODEL_FILE, MethodInfo,
    ModelFacts, write_settings,
};
use crate::model::Diffusion;
use crate::nn::Mlp;
use crate::prior::Prior;
use crate::rows::Rows;
use crate::sample::{SampleOptions, sample};
use crate::train::ModelParts;

/// Tolerance of log p where nothing else is asked for.
const TOLERANCE: f64 = 1e-5;

/// A trained diffusion model with everything that it is made of.
#[derive(Debug)]
pub(super) struct FittedRdm {
    settings: RdmSettings,
    net: Mlp<f32>,
    diffusion: Diffusion,
    best_step: Option<u64>,
}

impl FittedRdm {
    pub(super) fn new(geometry: Geometry, settings: RdmSettings, net: Mlp<f32>) -> Self {
        let model = &settings.model;
        let parts = ModelParts {
            manifold: geometry.manifold,
            prior: geometry.prior,
            net: Arc::new(net.clone()),
            s_min: model.s_min,
            t_end: model.t_end,
            log_coordinates: settings.net.log_coordinates,
            prior_score: model.prior_score,
        };
        let diffusion = parts.assemble();
        Self { settings, net, diffusion, best_step: None }
    }

    /// The same with the step that its weights are from.
    pub(super) fn at_step(self, step: u64) -> Self {
        Self { best_step: Some(step), ..self }
    }
}

impl Density for FittedRdm {
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

impl Fitted for FittedRdm {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn settings(&self) -> Result<Json, FitError> {
        write_settings(&self.settings)
    }

    fn files(&self) -> Result<FileMap, FitError> {
        let mut model = Checkpoint::new(self.net.clone());
        if let Some(step) = self.best_step {
            model.extra.insert("best_step".into(), step.into());
        }
        Ok(FileMap::from([(MODEL_FILE.to_owned(), model.to_bytes()?)]))
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
        let RdmSettings { model, train, .. } = &self.settings;
        ModelFacts {
            smoothing: Some(train.smoothing),
            loss: Some(train.loss.name()),
            s_min: Some(model.s_min),
            t_end: Some(model.t_end),
        }
    }
}
