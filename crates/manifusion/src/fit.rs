//! The front door: points and a method in, a density out.

use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use serde_json::Value as Json;

use crate::error::SolveError;
pub use crate::methods::Request;
use crate::methods::{Finished, FitError, Fitted, Geometry, Method, Run, Task};
use crate::mixture::{KernelMixture, MixtureOptions, random_choice};
use crate::parallel::in_pool;
use crate::points::{HELD_OUT, Points, hold_out};
use crate::prior::{Prior, check_width};
use crate::rows::Rows;
use crate::train::MetricsRow;
use crate::watch::{Progress, Watch};

/// Learns a density from points by a method: `"stack"`, [`Stack`](crate::methods::Stack), `"rdm"`,
/// [`Rdm`](crate::methods::Rdm), `"kernel"`, [`Kernel`](crate::methods::Kernel), `"parzen"`,
/// [`Parzen`](crate::methods::Parzen), `"vmf"`, `"kent"`
/// ([`Parametric`](crate::methods::Parametric)), `"mops"`, [`Mops`](crate::methods::Mops). What is
/// left open is chosen from the data, and a tenth of the points is held out to choose by.
pub fn fit(points: &Points, request: impl Into<Request>) -> Result<Arc<dyn Fitted>, FitError> {
    Ok(Fit::new(request).run(points)?.model)
}

/// The same with more to say about it.
#[derive(Debug)]
pub struct Fit {
    request: Request,
    seed: u64,
    validation: Option<Points>,
    prior: Option<Arc<dyn Prior>>,
    watch: Watch,
}

impl Fit {
    /// A fit by a method.
    pub fn new(request: impl Into<Request>) -> Self {
        let (request, watch) = (request.into(), Watch::default());
        Self { request, seed: 0, validation: None, prior: None, watch }
    }

    /// The seed of everything random; 0 by default.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Points to choose by, instead of a tenth of those to learn from.
    #[must_use]
    pub fn validation(self, validation: Points) -> Self {
        Self { validation: Some(validation), ..self }
    }

    /// The prior, instead of the manifold's own one. That of a level set takes seconds to make:
    /// make it once where several fits need it.
    #[must_use]
    pub fn prior(self, prior: Arc<dyn Prior>) -> Self {
        Self { prior: Some(prior), ..self }
    }

    /// Calls `progress` as the work goes on. [`ControlFlow::Break`] stops it: a training then ends
    /// with the best weights that it has so far.
    #[must_use]
    pub fn progress(
        self,
        progress: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'static,
    ) -> Self {
        Self { watch: Watch::new(progress), ..self }
    }

    /// Learns from these points.
    pub fn run(self, points: &Points) -> Result<Finished, FitError> {
        let Self { request, seed, validation, prior, watch } = self;
        let method = request.method()?;
        method.check(request.choices())?;
        let (train, validation) = if let Some(validation) = validation {
            (points.clone(), validation)
        } else {
            let (train, held_out) = hold_out(points, HELD_OUT, seed)?;
            (points.select(&train)?, points.select(&held_out)?)
        };
        in_pool(|| {
            let manifold = Arc::clone(points.manifold());
            let geometry = match prior {
                Some(prior) => Geometry { manifold, prior },
                None => watch.stage("prior", || Geometry::of(&manifold))?,
            };
            let choices = request.choices();
            let task = Task::new(method, choices, geometry, train, validation, seed, watch)?;
            let mut run = method.start(&task, choices)?;
            drive(run.as_mut(), &mut NoRecord, &task.watch)?;
            finish(run.as_ref())
        })
    }
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
            let most = most_centres(geometry.manifold.dim(), method.seconds(choices));
            fit_mixture(&geometry, train.rows(), most, seed, &watch)?
        } else {
            let what = "the kernel mixture";
            let (manifold, hint) = (geometry.manifold.name(), "the method does not need it");
            Err(SolveError::Unsupported { what, manifold, hint })
        };
        let windows = OnceLock::new();
        Ok(Self { geometry, train, validation, seed, mixture, windows, began, watch })
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
/// pair (7600 and 8800 of T⁷: 32 and 47 s).
fn most_centres(dim: usize, seconds: Option<f64>) -> usize {
    let Some(seconds) = seconds else { return MOST_CENTRES };
    let share = MIXTURE_SHARE * seconds * rayon::current_num_threads() as f64;
    let centres = if dim <= 3 { share / 1.3e-3 } else { (share / 0.7e-6).sqrt() };
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

/// Where a run leaves traces while it goes on.
pub trait Recorder {
    /// Lines of the record.
    fn record(&mut self, rows: &[MetricsRow]) -> Result<(), FitError>;

    /// Called after every step and at the end: the place to write a checkpoint.
    fn checkpoint(&mut self, run: &dyn Run, at_end: bool) -> Result<(), FitError>;
}

/// No traces.
struct NoRecord;

impl Recorder for NoRecord {
    fn record(&mut self, _rows: &[MetricsRow]) -> Result<(), FitError> {
        Ok(())
    }

    fn checkpoint(&mut self, _run: &dyn Run, _at_end: bool) -> Result<(), FitError> {
        Ok(())
    }
}

/// Takes a run to its end, or to where the watch stops it; whether it is done.
pub fn drive(
    run: &mut dyn Run,
    recorder: &mut dyn Recorder,
    watch: &Watch,
) -> Result<bool, FitError> {
    let (done, total) = run.steps();
    if !run.is_done() {
        watch.begin("training", total, done);
    }
    while !run.is_done() && !watch.is_stopped() {
        let rows = run.advance(watch)?;
        recorder.record(&rows)?;
        recorder.checkpoint(run, false)?;
    }
    recorder.checkpoint(run, true)?;
    Ok(run.is_done())
}

/// What a run has learned. Where the watch stops the last of the work, such as the weighing of a
/// stack's members, the run is asked once more: it then knows that it has to be quick.
pub fn finish(run: &dyn Run) -> Result<Finished, FitError> {
    match run.finish() {
        Err(FitError::Solve(SolveError::Stopped)) => run.finish(),
        finished => finished,
    }
}
