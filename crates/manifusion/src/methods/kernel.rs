//! `kernel`: a mixture of heat kernels of several bandwidths on the training points, no network.

use std::sync::Arc;

use serde_json::Value as Json;

use super::settings::settings;
use super::{
    Done, FileMap, Files, FitError, Fitted, Geometry, MODEL_FILE, Method, MethodInfo, Request, Run,
    Task, read_settings, write_settings,
};
use crate::checkpoint::Arrays;
use crate::density::Density;
use crate::error::SolveError;
use crate::heat_kernel::TransitionKernel;
use crate::manifold::{Family, Manifold};
use crate::mixture::KernelMixture;
use crate::prior::Prior;
use crate::rows::Rows;
use crate::sample::SampleOptions;

settings! {
    /// The kernel mixture.
    "": KernelSettings, Kernel {
        /// Whether the mixture's weights vary from centre to centre; by default whichever is better
        /// for the validation points.
        local_weights: bool,
    }
}

/// Validation points that local and common weights are compared on, at least (fewer say too little:
/// local weights) and at most.
const LEAST_VALIDATION: usize = 50;
const MOST_VALIDATION: usize = 2000;

/// The method of this file.
#[derive(Debug)]
pub struct KernelMethod;

pub(super) const INFO: MethodInfo = MethodInfo {
    name: "kernel",
    title: "kernel mixture",
    help: "A mixture of heat kernels, no network",
    manifolds: "spheres, tori, SO(3), R^d, their products, and hyperbolic space",
    settings: &[Kernel::DESCRIPTIONS],
    references: &[],
};

impl Method for KernelMethod {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn supports(&self, geometry: &Geometry) -> Result<(), FitError> {
        let Geometry { manifold, prior } = geometry;
        let hyperbolic = matches!(manifold.family(), Family::Hyperboloid { .. });
        if hyperbolic || TransitionKernel::new(manifold.as_ref(), prior.as_ref()).is_ok() {
            return Ok(());
        }
        let (method, known) = (INFO.name, INFO.manifolds);
        Err(FitError::Unsupported { method, manifold: manifold.name(), known })
    }

    fn check(&self, choices: &Json) -> Result<(), FitError> {
        read_settings::<Kernel>(choices).map(|_| ())
    }

    fn start(&self, task: &Task, choices: &Json) -> Result<Box<dyn Run>, FitError> {
        let choices: Kernel = read_settings(choices)?;
        let mut mixture = task.mixture.clone()?;
        let compared = task.validation.len() >= LEAST_VALIDATION;
        if mixture.local_weights().is_some() && choices.local_weights.map_or(compared, |own| !own) {
            let common = Arc::new(mixture.without_local()?);
            // Parts of a split are in random order.
            let x = task.validation.first_rows(MOST_VALIDATION);
            let likelihood = |mixture: &KernelMixture| -> Result<f64, SolveError> {
                Ok(mixture.log_density(x)?.iter().sum())
            };
            if choices.local_weights.is_some() || likelihood(&common)? > likelihood(&mixture)? {
                mixture = common;
            }
        }
        Ok(Box::new(Done::new(fitted(mixture, &task.geometry.prior), task)))
    }

    fn load(
        &self,
        geometry: &Geometry,
        _settings: &Json,
        files: &dyn Files,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let mixture = read_mixture(geometry, MODEL_FILE, files)?;
        Ok(fitted(Arc::new(mixture), &geometry.prior))
    }
}

impl From<Kernel> for Request {
    fn from(kernel: Kernel) -> Self {
        Self::named(INFO.name, write_settings(&kernel).unwrap_or_default())
    }
}

/// A mixture from its file.
pub fn read_mixture(
    geometry: &Geometry,
    name: &str,
    files: &dyn Files,
) -> Result<KernelMixture, FitError> {
    let bytes = files.need(name)?;
    let arrays = Arrays::from_bytes(&bytes)
        .map_err(|source| FitError::File { name: name.to_owned(), source })?;
    let (manifold, prior) = (Arc::clone(&geometry.manifold), Arc::clone(&geometry.prior));
    KernelMixture::from_tensors(manifold, prior, &arrays.arrays)
        .map_err(|source| FitError::Stored { name: name.to_owned(), source })
}

/// A mixture as the bytes of a file.
pub fn write_mixture(mixture: &KernelMixture) -> Result<Vec<u8>, FitError> {
    Ok(Arrays { arrays: mixture.to_tensors(), ..Arrays::default() }.to_bytes()?)
}

/// A mixture as a fitted density.
pub(super) fn fitted(mixture: Arc<KernelMixture>, prior: &Arc<dyn Prior>) -> Arc<dyn Fitted> {
    let settings = KernelSettings { local_weights: mixture.local_weights().is_some() };
    Arc::new(FittedKernel { mixture, prior: Arc::clone(prior), settings })
}

/// The mixture as a fitted density.
#[derive(Debug)]
struct FittedKernel {
    mixture: Arc<KernelMixture>,
    prior: Arc<dyn Prior>,
    settings: KernelSettings,
}

/// How much wider the mixture is that checks this one's mass: one checked by itself would have mass
/// one whatever it is.
const WIDENED: f64 = 1.5;

impl Density for FittedKernel {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.mixture.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        self.mixture.log_density(x)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.mixture.sample(n, seed)
    }
}

impl Fitted for FittedKernel {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn settings(&self) -> Result<Json, FitError> {
        write_settings(&self.settings)
    }

    fn files(&self) -> Result<FileMap, FitError> {
        Ok(FileMap::from([(MODEL_FILE.to_owned(), write_mixture(&self.mixture)?)]))
    }

    fn prior(&self) -> &Arc<dyn Prior> {
        &self.prior
    }

    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        self.mixture.sample_from(options.first_row, n, options.seed)
    }

    fn mass_proposal(&self) -> Result<Option<Arc<dyn Density>>, SolveError> {
        Ok(Some(Arc::new(self.mixture.widened(WIDENED)?)))
    }

    fn mixture(&self) -> Option<&KernelMixture> {
        Some(&self.mixture)
    }

    fn parameters(&self) -> Option<usize> {
        Some(mixture_parameters(&self.mixture))
    }
}

/// Coordinates of the centres, bandwidths, and weights: the prior's, the bandwidths' and, where
/// there are any, the centres' own.
pub(super) fn mixture_parameters(mixture: &KernelMixture) -> usize {
    let local = mixture.local_weights().map_or(0, <[f64]>::len);
    mixture.centres().len() + 2 * mixture.bandwidths().len() + 1 + local
}
