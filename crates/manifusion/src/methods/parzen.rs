//! `parzen`: manifold Parzen windows, kernels with the covariances of neighbourhoods, no network.

use std::sync::Arc;

use serde_json::Value as Json;

use super::kernel::mixture_parameters;
use super::references::PARZEN;
use super::settings::settings;
use super::{
    Done, FileMap, Files, FitError, Fitted, Geometry, MODEL_FILE, Method, MethodInfo, Request, Run,
    Task, read_settings, write_settings,
};
use crate::checkpoint::Arrays;
use crate::density::Density;
use crate::error::SolveError;
use crate::manifold::Manifold;
use crate::mixture::{KernelMixture, ParzenMixture, ParzenOptions};
use crate::prior::Prior;
use crate::rows::Rows;
use crate::sample::SampleOptions;

settings! {
    /// Manifold Parzen windows.
    "": ParzenSettings, Parzen {
        /// The least standard deviation of a kernel in any direction; by default the smallest
        /// bandwidth of the kernel mixture, as far as kernels of mass one can be so wide.
        floor: f64,
    }
}

/// The method of this file.
#[derive(Debug)]
pub struct ParzenMethod;

const INFO: MethodInfo = MethodInfo {
    name: "parzen",
    title: "manifold Parzen windows",
    help: "A mixture of kernels with the covariances of neighbourhoods, no network",
    manifolds: "spheres, tori, SO(3), R^d and their products",
    settings: &[Parzen::DESCRIPTIONS],
    references: &[PARZEN],
};

/// Training points whose leave-one-out density decides the weights, at most; beyond three
/// dimensions, where each costs more (half of them change the NLL of RNA torsions by 0.001).
const JUDGES: usize = 4000;
const JUDGES_BEYOND: usize = 2000;
/// How much wider the kernels are that check the mass of these.
const WIDENED: f64 = 1.5;

impl Method for ParzenMethod {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn supports(&self, geometry: &Geometry) -> Result<(), FitError> {
        let Geometry { manifold, prior } = geometry;
        if ParzenMixture::supports(manifold.as_ref(), prior.as_ref()) {
            return Ok(());
        }
        let (method, known) = (INFO.name, INFO.manifolds);
        Err(FitError::Unsupported { method, manifold: manifold.name(), known })
    }

    fn check(&self, choices: &Json) -> Result<(), FitError> {
        let Parzen { floor } = read_settings(choices)?;
        match floor.filter(|floor| !(*floor > 0.0 && floor.is_finite())) {
            Some(floor) => {
                let (name, expected) = ("floor", "a positive number");
                Err(FitError::Setting { name, value: floor.to_string(), expected })
            }
            None => Ok(()),
        }
    }

    fn start(&self, task: &Task, choices: &Json) -> Result<Box<dyn Run>, FitError> {
        self.check(choices)?;
        let Parzen { floor } = read_settings(choices)?;
        let windows = fit_windows(task, task.mixture.clone()?, floor)?;
        Ok(Box::new(Done::new(fitted(Arc::new(windows), &task.geometry.prior), task)))
    }

    fn load(
        &self,
        geometry: &Geometry,
        _settings: &Json,
        files: &dyn Files,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let windows = read_windows(geometry, MODEL_FILE, files)?;
        Ok(fitted(Arc::new(windows), &geometry.prior))
    }
}

impl From<Parzen> for Request {
    fn from(parzen: Parzen) -> Self {
        Self::named(INFO.name, write_settings(&parzen).unwrap_or_default())
    }
}

/// Parzen windows around the centres of the kernel mixture, and that mixture.
pub(super) fn fit_windows(
    task: &Task,
    mixture: Arc<KernelMixture>,
    floor: Option<f64>,
) -> Result<ParzenMixture, FitError> {
    let Geometry { manifold, prior } = &task.geometry;
    let widest = ParzenMixture::widest(manifold.as_ref(), prior.as_ref())?;
    // Of data without detail every bandwidth is large.
    let usual = mixture.bandwidths().last().map_or(widest, |smallest| smallest.min(widest));
    let judges = if manifold.dim() <= 3 { JUDGES } else { JUDGES_BEYOND };
    let options = ParzenOptions { floor: floor.unwrap_or(usual), judges, seed: task.seed };
    Ok(task.watch.stage("Parzen windows", || ParzenMixture::fit(mixture, &options))?)
}

/// Parzen windows with the usual floor, fitted once for a task; none where there are none.
pub(super) fn windows(task: &Task) -> Result<Option<Arc<ParzenMixture>>, FitError> {
    let Geometry { manifold, prior } = &task.geometry;
    let Ok(mixture) = &task.mixture else { return Ok(None) };
    if !ParzenMixture::supports(manifold.as_ref(), prior.as_ref()) {
        return Ok(None);
    }
    if task.windows.get().is_none() {
        let fitted = Arc::new(fit_windows(task, Arc::clone(mixture), None)?);
        // Of two that come at once one is kept; they are the same.
        task.windows.set(fitted).ok();
    }
    Ok(task.windows.get().cloned())
}

/// Windows from their file.
pub(super) fn read_windows(
    geometry: &Geometry,
    name: &str,
    files: &dyn Files,
) -> Result<ParzenMixture, FitError> {
    let bytes = files.need(name)?;
    let arrays = Arrays::from_bytes(&bytes)
        .map_err(|source| FitError::File { name: name.to_owned(), source })?;
    let (manifold, prior) = (Arc::clone(&geometry.manifold), Arc::clone(&geometry.prior));
    ParzenMixture::from_tensors(manifold, prior, &arrays.arrays)
        .map_err(|source| FitError::Stored { name: name.to_owned(), source })
}

/// Windows as the bytes of a file.
pub(super) fn write_windows(windows: &ParzenMixture) -> Result<Vec<u8>, FitError> {
    Ok(Arrays { arrays: windows.to_tensors(), ..Arrays::default() }.to_bytes()?)
}

/// Windows as a fitted density.
pub(super) fn fitted(windows: Arc<ParzenMixture>, prior: &Arc<dyn Prior>) -> Arc<dyn Fitted> {
    Arc::new(FittedParzen { windows, prior: Arc::clone(prior) })
}

/// The windows as a fitted density.
#[derive(Debug)]
struct FittedParzen {
    windows: Arc<ParzenMixture>,
    prior: Arc<dyn Prior>,
}

impl Density for FittedParzen {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.windows.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        self.windows.log_density(x)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.windows.sample(n, seed)
    }
}

impl Fitted for FittedParzen {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn settings(&self) -> Result<Json, FitError> {
        write_settings(&ParzenSettings { floor: self.windows.floor() })
    }

    fn files(&self) -> Result<FileMap, FitError> {
        Ok(FileMap::from([(MODEL_FILE.to_owned(), write_windows(&self.windows)?)]))
    }

    fn prior(&self) -> &Arc<dyn Prior> {
        &self.prior
    }

    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        self.windows.sample_from(options.first_row, n, options.seed)
    }

    fn mass_proposal(&self) -> Result<Option<Arc<dyn Density>>, SolveError> {
        Ok(Some(Arc::new(self.windows.widened(WIDENED)?)))
    }

    fn mixture(&self) -> Option<&KernelMixture> {
        Some(self.windows.round())
    }

    /// Those of the heat kernels and of the windows.
    fn parameters(&self) -> Option<usize> {
        Some(mixture_parameters(self.windows.round()) + self.windows.parameters())
    }
}
