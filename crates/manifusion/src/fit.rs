//! The front door: points and a method in, a density out.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::SolveError;
pub use crate::methods::Request;
use crate::methods::{Finished, FitError, Fitted, Geometry, Run, Task};
use crate::parallel::in_pool;
use crate::points::{HELD_OUT, Points, hold_out};
use crate::prior::Prior;
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
