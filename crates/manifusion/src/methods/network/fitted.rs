//! A trained network with the density that it stands for: that of a diffusion or of another flow.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value as Json;

use super::network_files;
use crate::density::{Density, add_stretch, lift_rows, project_rows};
use crate::error::SolveError;
use crate::flow_density::{FlowDensity, FlowOptions};
use crate::likelihood::{BoundOptions, Bounds, bounds};
use crate::manifold::{Chart, Manifold};
use crate::methods::{
    FileMap, FitError, Fitted, LikelihoodKind, LogDensities, MethodInfo, ModelFacts,
};
use crate::model::Diffusion;
use crate::nn::Mlp;
use crate::ode::OdeOptions;
use crate::prior::Prior;
use crate::rows::Rows;
use crate::sample::{SampleOptions, Steps, sample};
use crate::sde::AdaptiveOptions;

/// Tolerance of log p where nothing else is asked for.
pub(in crate::methods) const TOLERANCE: f64 = 1e-5;

/// A density with the network that it is made of.
#[derive(Debug)]
pub(in crate::methods) struct FittedNetwork<D> {
    pub(in crate::methods) info: &'static MethodInfo,
    /// Settings, nothing left open.
    pub(in crate::methods) settings: Json,
    pub(in crate::methods) net: Mlp<f32>,
    pub(in crate::methods) best_step: Option<u64>,
    pub(in crate::methods) facts: ModelFacts,
    pub(in crate::methods) density: D,
}

/// What a network stands for: a density through an ODE.
pub(in crate::methods) trait NetworkDensity: Debug + Send + Sync {
    fn manifold(&self) -> &Arc<dyn Manifold>;

    fn prior(&self) -> &Arc<dyn Prior>;

    /// The flow whose density it is.
    fn flow(&self, options: FlowOptions) -> Result<FlowDensity, SolveError>;

    /// Draws, for a method that is called `title`.
    fn sample_with(
        &self,
        title: &str,
        n: usize,
        options: &SampleOptions,
    ) -> Result<Vec<f64>, SolveError>;

    /// Bounds on log p, if there are any.
    fn bounds(&self, _x: Rows<'_>, _options: &BoundOptions) -> Result<Option<Bounds>, SolveError> {
        Ok(None)
    }

    /// What the method states as its density without the flow.
    fn direct(&self) -> Option<&dyn Density> {
        None
    }
}

impl NetworkDensity for Diffusion {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.manifold
    }

    fn prior(&self) -> &Arc<dyn Prior> {
        &self.prior
    }

    fn flow(&self, options: FlowOptions) -> Result<FlowDensity, SolveError> {
        self.check()?;
        Ok(Diffusion::flow(self, options))
    }

    fn sample_with(
        &self,
        _title: &str,
        n: usize,
        options: &SampleOptions,
    ) -> Result<Vec<f64>, SolveError> {
        sample(self, n, options)
    }

    fn bounds(&self, x: Rows<'_>, options: &BoundOptions) -> Result<Option<Bounds>, SolveError> {
        bounds(self, x, options).map(Some)
    }
}

/// A flow, with what the method states as its density without it.
#[derive(Debug)]
pub(in crate::methods) struct LearnedFlow {
    pub(in crate::methods) flow: FlowDensity,
    pub(in crate::methods) direct: Option<Arc<dyn Density>>,
}

impl NetworkDensity for LearnedFlow {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.flow.manifold
    }

    fn prior(&self) -> &Arc<dyn Prior> {
        &self.flow.prior
    }

    fn flow(&self, options: FlowOptions) -> Result<FlowDensity, SolveError> {
        Ok(FlowDensity { options, ..self.flow.clone() })
    }

    /// There is no noise to choose: every λ but 1, and every fixed number of steps, is refused.
    fn sample_with(
        &self,
        title: &str,
        n: usize,
        options: &SampleOptions,
    ) -> Result<Vec<f64>, SolveError> {
        let refused = |what, hint| {
            let manifold = title.to_owned();
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
}

impl<D: NetworkDensity> Density for FittedNetwork<D> {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.density.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(self.log_density_to(x, TOLERANCE)?.log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_with(n, &SampleOptions { seed, ..SampleOptions::default() })
    }
}

impl<D: NetworkDensity> Fitted for FittedNetwork<D> {
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
        self.density.prior()
    }

    fn likelihood_kind(&self) -> LikelihoodKind {
        LikelihoodKind::Ode
    }

    fn log_density_to(&self, x: Rows<'_>, tolerance: f64) -> Result<LogDensities, SolveError> {
        let flow = self.density.flow(FlowOptions::with_tolerance(tolerance))?;
        let found = flow.log_density_with_stats(x)?;
        let evaluations = found.stats.evaluations as f64 / x.len() as f64;
        Ok(LogDensities { log_p: found.log_p, evaluations, members: Vec::new() })
    }

    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        self.density.sample_with(self.info.title, n, options)
    }

    fn bounds(&self, x: Rows<'_>, options: &BoundOptions) -> Result<Option<Bounds>, SolveError> {
        self.density.bounds(x, options)
    }

    fn direct(&self) -> Option<&dyn Density> {
        self.density.direct()
    }

    fn parameters(&self) -> Option<usize> {
        Some(self.net.params().len())
    }

    fn facts(&self) -> ModelFacts {
        self.facts
    }
}

/// A model of the coordinates of a chart as a model of its manifold.
#[derive(Debug)]
pub(in crate::methods) struct FittedInChart {
    /// The model of z.
    pub(in crate::methods) image: FittedNetwork<Diffusion>,
    /// z as coordinates of x.
    pub(in crate::methods) chart: Arc<dyn Chart>,
    /// The prior of the manifold.
    pub(in crate::methods) prior: Arc<dyn Prior>,
}

impl Density for FittedInChart {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.chart.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(self.log_density_to(x, TOLERANCE)?.log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_with(n, &SampleOptions { seed, ..SampleOptions::default() })
    }
}

impl Fitted for FittedInChart {
    fn info(&self) -> &'static MethodInfo {
        self.image.info()
    }

    fn settings(&self) -> Result<Json, FitError> {
        self.image.settings()
    }

    fn files(&self) -> Result<FileMap, FitError> {
        self.image.files()
    }

    fn prior(&self) -> &Arc<dyn Prior> {
        &self.prior
    }

    fn likelihood_kind(&self) -> LikelihoodKind {
        self.image.likelihood_kind()
    }

    fn log_density_to(&self, x: Rows<'_>, tolerance: f64) -> Result<LogDensities, SolveError> {
        let z = project_rows(self.chart.as_ref(), x)?;
        let z = Rows::new(&z, self.chart.manifold().dim())?;
        let mut found = self.image.log_density_to(z, tolerance)?;
        add_stretch(self.chart.as_ref(), z, &mut found.log_p);
        Ok(found)
    }

    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        lift_rows(self.chart.as_ref(), &self.image.sample_with(n, options)?)
    }

    fn bounds(&self, x: Rows<'_>, options: &BoundOptions) -> Result<Option<Bounds>, SolveError> {
        let z = project_rows(self.chart.as_ref(), x)?;
        let z = Rows::new(&z, self.chart.manifold().dim())?;
        let mut found = self.image.bounds(z, options)?;
        if let Some(Bounds { elbo, kelbo, kelbo_doubled, .. }) = &mut found {
            for bound in [elbo, kelbo, kelbo_doubled] {
                add_stretch(self.chart.as_ref(), z, bound);
            }
        }
        Ok(found)
    }

    fn parameters(&self) -> Option<usize> {
        self.image.parameters()
    }

    fn facts(&self) -> ModelFacts {
        self.image.facts()
    }
}
