//! What a method starts from: points, geometry and the length scales of the data.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde_json::Value as Json;

use super::{FitError, Geometry, Method};
use crate::density::project_rows;
use crate::error::SolveError;
use crate::manifold::{Family, Manifold, NormalCoordinates};
use crate::mixture::{KernelMixture, MixtureOptions, ParzenMixture, random_choice};
use crate::points::Points;
use crate::prior::check_width;
use crate::rows::Rows;
use crate::watch::Watch;

/// Everything that a method learns from.
#[derive(Debug)]
pub struct Task {
    /// Manifold and prior.
    pub geometry: Geometry,
    /// Points to learn from.
    pub train: Points,
    /// Points to choose by.
    pub validation: Points,
    /// Seed of everything random.
    pub seed: u64,
    /// The kernel mixture of the training points, with weights of each centre's own where it can
    /// have them, or why there is none: the model of one method, and for others the length scales
    /// of the data. Fitted for methods that [need it](Method::needs_mixture).
    pub mixture: Result<Arc<KernelMixture>, SolveError>,
    /// Parzen windows around the centres of the mixture, fitted when they are needed first.
    pub windows: OnceLock<Arc<ParzenMixture>>,
    /// The same task in normal coordinates, made when it is needed first; none on manifolds that
    /// have no such coordinates of all their points.
    in_normal_coordinates: OnceLock<Option<Box<Task>>>,
    /// When the work began: a budget of time counts from here.
    pub began: Instant,
    /// Where progress is seen and the work is stopped.
    pub watch: Watch,
}

impl Task {
    /// A task for a method, with the kernel mixture of its training points if the method needs it;
    /// an error if the method cannot use the points.
    pub fn new(
        method: &dyn Method,
        choices: &Json,
        geometry: Geometry,
        train: Points,
        validation: Points,
        seed: u64,
        watch: Watch,
    ) -> Result<Self, FitError> {
        let began = Instant::now();
        check_width(geometry.manifold.as_ref(), geometry.prior.as_ref())?;
        method.supports(&geometry)?;
        method.accepts(&train)?;
        let mixture = if method.needs_mixture() {
            let most = most_centres(geometry.manifold.as_ref(), method.seconds(choices));
            fit_mixture(&geometry, train.rows(), most, seed, &watch)?
        } else {
            let what = "the kernel mixture";
            let (manifold, hint) = (geometry.manifold.name(), "the method does not need it");
            Err(SolveError::Unsupported { what, manifold, hint })
        };
        Ok(Self::with_mixture(geometry, train, validation, seed, mixture, watch).since(began))
    }

    /// A task that begins now, with a mixture of its training points or a reason why it has none.
    pub fn with_mixture(
        geometry: Geometry,
        train: Points,
        validation: Points,
        seed: u64,
        mixture: Result<Arc<KernelMixture>, SolveError>,
        watch: Watch,
    ) -> Self {
        Self {
            geometry,
            train,
            validation,
            seed,
            mixture,
            windows: OnceLock::new(),
            in_normal_coordinates: OnceLock::new(),
            began: Instant::now(),
            watch,
        }
    }

    /// The same task in ℝ^d, with the mixture of the coordinates: as many centres as there are on
    /// the manifold. None where the manifold has no normal coordinates of all its points.
    pub(super) fn in_normal_coordinates(&self) -> Result<Option<&Self>, FitError> {
        if self.in_normal_coordinates.get().is_none() {
            let made = match NormalCoordinates::new(&self.geometry.manifold) {
                Some(chart) => Some(Box::new(self.in_chart(&chart)?)),
                None => None,
            };
            // Of two that come at once one is kept; they are the same.
            self.in_normal_coordinates.set(made).ok();
        }
        Ok(self.in_normal_coordinates.get().and_then(Option::as_deref))
    }

    fn in_chart(&self, chart: &NormalCoordinates) -> Result<Self, FitError> {
        let geometry = Geometry::flat(self.geometry.manifold.dim())?;
        let coordinates = |points: &Points| -> Result<Points, FitError> {
            let z = project_rows(chart, points.rows())?;
            Ok(Points::on(Arc::clone(&geometry.manifold), z)?)
        };
        let (train, validation) = (coordinates(&self.train)?, coordinates(&self.validation)?);
        let most = self.mixture.as_ref().map_or(MOST_CENTRES, |mixture| mixture.num_centres());
        let mixture = fit_mixture(&geometry, train.rows(), most, self.seed, &self.watch)?;
        let watch = self.watch.clone();
        let task = Self::with_mixture(geometry, train, validation, self.seed, mixture, watch);
        Ok(task.since(self.began))
    }

    /// The same for work that began earlier.
    #[must_use]
    pub fn since(self, began: Instant) -> Self {
        Self { began, ..self }
    }
}

/// The kernel mixture of points, with weights of each centre's own where it can have them, or why
/// there is none on this manifold.
fn fit_mixture(
    geometry: &Geometry,
    train: Rows<'_>,
    most: usize,
    seed: u64,
    watch: &Watch,
) -> Result<Result<Arc<KernelMixture>, SolveError>, FitError> {
    let Geometry { manifold, prior } = geometry.clone();
    let options = MixtureOptions::for_dimension(manifold.dim(), seed);
    let centres = thinned(train, most, seed);
    let centres = Rows::new(&centres, manifold.ambient_dim())?;
    let fitted = || KernelMixture::fit(manifold, prior, centres, &options);
    Ok(match watch.stage("kernel mixture", fitted) {
        Ok(common) if common.can_be_local() => {
            Ok(Arc::new(watch.stage("local weights", || common.localised(&options))?))
        }
        Ok(common) => Ok(Arc::new(common)),
        Err(unknown @ SolveError::Unsupported { .. }) => Err(unknown),
        Err(error) => return Err(error.into()),
    })
}

/// Centres of a kernel mixture, at most: more would cost minutes and gain little, and networks
/// learn from all points anyway.
const MOST_CENTRES: usize = 20_000;
/// Centres that any budget has time for.
const LEAST_CENTRES: usize = 2000;
/// The share of a budget of time that mixture and Parzen windows may take.
const MIXTURE_SHARE: f64 = 0.1;

/// Centres that leave a run with a budget of `seconds` its time for the network. Mixture and
/// windows take 1.3 ms of one processor per centre in up to three dimensions (20 000 of
/// `sphere-mixture`: 27 s), and beyond, where every kernel reaches most others, at most 0.7 µs per
/// pair (7600 and 8800 of T⁷: 32 and 47 s). On hyperbolic space there is a mixture in normal
/// coordinates as well.
fn most_centres(manifold: &dyn Manifold, seconds: Option<f64>) -> usize {
    let Some(seconds) = seconds else { return MOST_CENTRES };
    let share = MIXTURE_SHARE * seconds * rayon::current_num_threads() as f64;
    let mixtures = if matches!(manifold.family(), Family::Hyperboloid { .. }) { 2.0 } else { 1.0 };
    let share = share / mixtures;
    let centres = if manifold.dim() <= 3 { share / 1.3e-3 } else { (share / 0.7e-6).sqrt() };
    (centres as usize).clamp(LEAST_CENTRES, MOST_CENTRES)
}

/// All rows, or a random choice of `most` of them, in their order.
fn thinned(x: Rows<'_>, most: usize, seed: u64) -> Vec<f64> {
    if x.len() <= most {
        return x.as_slice().to_vec();
    }
    let mut rows = random_choice(x.len(), most, seed);
    rows.sort_unstable();
    rows.into_iter().flat_map(|row| x.row(row).iter().copied()).collect()
}
