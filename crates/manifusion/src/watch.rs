//! Progress of long work, and a way to stop it, from outside.
//!
//! Whoever starts something long makes a [`Watch`] and runs it inside [`Watch::stage`]. The rows
//! that [`crate::parallel`] works on are counted there, so that no function in between needs an
//! argument for it. A watch that was told to stop ends the work with
//! [`crate::error::SolveError::Stopped`].

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// How far something is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// What is being done, such as `training` or `likelihood`.
    pub stage: &'static str,
    /// Steps or rows that are done.
    pub done: u64,
    /// Steps or rows in all; 0 where that is not known.
    pub total: u64,
    /// Seconds since the stage began.
    pub seconds: f64,
    /// Steps or rows that were done before the stage began, as in a resumed run.
    skipped: u64,
    /// What a training has to say.
    pub training: Option<TrainingProgress>,
}

/// The latest numbers of a training.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct TrainingProgress {
    /// Mean loss of the last steps.
    pub loss: f64,
    /// Variance of the loss's estimator over a batch; NaN where there is no estimator.
    pub variance: f64,
    /// Negative log-likelihood of the validation points when it was last computed, in nats.
    pub validation_nll: Option<f64>,
}

impl Progress {
    /// Seconds that are left at the present rate; none before the first part is done.
    pub fn seconds_left(&self) -> Option<f64> {
        let here = self.done.checked_sub(self.skipped).filter(|done| *done > 0)?;
        let left = self.total.checked_sub(self.done)?;
        Some(self.seconds / here as f64 * left as f64)
    }
}

impl Progress {
    /// The stage in a line, as it was told `since` seconds ago.
    pub fn describe(&self, since: f64) -> String {
        let Self { stage, done, total, .. } = *self;
        if total == 0 {
            return format!("{stage}: {}", duration(self.seconds + since));
        }
        let left = self
            .seconds_left()
            .map_or(String::new(), |left| format!(", {} left", duration((left - since).max(0.0))));
        let Some(numbers) = self.training else {
            return format!("{stage}: {} %{left}", 100 * done.min(total) / total);
        };
        let nll = numbers.validation_nll.map_or(String::from("-"), |nll| format!("{nll:.4}"));
        let variance = match numbers.variance {
            variance if variance.is_nan() => String::new(),
            variance => format!(", variance {variance:.2e}"),
        };
        format!(
            "{stage}: step {done} of {total}{left}; loss {:.3}{variance}, validation NLL {nll}",
            numbers.loss
        )
    }
}

/// Seconds as a person reads them: 45 s, 3:20 min, 2:03 h.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{whole} s"),
        60..3600 => format!("{}:{:02} min", whole / 60, whole % 60),
        _ => format!("{}:{:02} h", whole / 3600, whole % 3600 / 60),
    }
}

type Sink = dyn FnMut(&Progress) -> ControlFlow<()> + Send;

struct Inner {
    sink: Mutex<Option<Box<Sink>>>,
    stopped: Arc<AtomicBool>,
    stage: Mutex<Stage>,
    done: AtomicU64,
}

#[derive(Clone, Copy)]
struct Stage {
    name: &'static str,
    total: u64,
    /// Whether loops are parts of the total, instead of setting it.
    in_parts: bool,
    skipped: u64,
    began: Instant,
    training: Option<TrainingProgress>,
}

/// Sees and stops long work; clones are the same watch.
#[derive(Clone)]
pub struct Watch(Arc<Inner>);

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stage = lock(&self.0.stage).name;
        f.debug_struct("Watch").field("stage", &stage).field("stopped", &self.is_stopped()).finish()
    }
}

impl Default for Watch {
    /// A watch that tells nobody.
    fn default() -> Self {
        Self::of(None, Arc::default())
    }
}

fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The watch of the stage that this thread is in, for the next parallel loop that it starts.
    static CURRENT: RefCell<Option<Watch>> = const { RefCell::new(None) };
}

impl Watch {
    /// A watch that calls `sink` on every change, from whichever thread made it, one call at a
    /// time. [`ControlFlow::Break`] stops the work.
    pub fn new(sink: impl FnMut(&Progress) -> ControlFlow<()> + Send + 'static) -> Self {
        Self::of(Some(Box::new(sink)), Arc::default())
    }

    /// A watch that tells nobody and is stopped together with this one: for work beside the work
    /// that is shown.
    #[must_use]
    pub fn silent(&self) -> Self {
        Self::of(None, Arc::clone(&self.0.stopped))
    }

    fn of(sink: Option<Box<Sink>>, stopped: Arc<AtomicBool>) -> Self {
        let began = Instant::now();
        let stage =
            Stage { name: "", total: 0, in_parts: false, skipped: 0, began, training: None };
        Self(Arc::new(Inner {
            sink: Mutex::new(sink),
            stopped,
            stage: Mutex::new(stage),
            done: AtomicU64::new(0),
        }))
    }

    /// Stops the work at its next opportunity.
    pub fn stop(&self) {
        self.0.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the work was told to stop.
    pub fn is_stopped(&self) -> bool {
        self.0.stopped.load(Ordering::Relaxed)
    }

    /// Runs `work` as a stage of this name: parallel loops that it starts report to this watch. A
    /// stage within a stage takes its place.
    pub fn stage<R>(&self, name: &'static str, work: impl FnOnce() -> R) -> R {
        self.begin(name, 0, 0);
        self.watched(work)
    }

    /// Runs `work` as a part of a stage: `done` of `total` rows were done before it.
    pub fn part<R>(
        &self,
        name: &'static str,
        total: u64,
        done: u64,
        work: impl FnOnce() -> R,
    ) -> R {
        if done == 0 {
            self.begin(name, total, 0);
            lock(&self.0.stage).in_parts = true;
        }
        self.watched(work)
    }

    fn watched<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = CURRENT.replace(Some(self.clone()));
        let restored = Restore(before);
        let result = work();
        drop(restored);
        result
    }

    /// Begins a stage that is counted by [`Watch::advance`], of which `done` was done before.
    pub fn begin(&self, name: &'static str, total: u64, done: u64) {
        let mut stage = lock(&self.0.stage);
        let training = stage.training.filter(|_| stage.name == name);
        let began = Instant::now();
        *stage = Stage { name, total, in_parts: false, skipped: done, began, training };
        drop(stage);
        self.0.done.store(done, Ordering::Relaxed);
        self.tell();
    }

    /// Counts `count` more steps or rows.
    pub fn advance(&self, count: u64) {
        self.0.done.fetch_add(count, Ordering::Relaxed);
        self.tell();
    }

    /// Shows the latest numbers of a training, with the steps that are done of how many.
    pub fn training(&self, done: u64, total: u64, numbers: TrainingProgress) {
        let mut stage = lock(&self.0.stage);
        (stage.total, stage.training) = (total, Some(numbers));
        drop(stage);
        self.0.done.store(done, Ordering::Relaxed);
        self.tell();
    }

    fn tell(&self) {
        let mut sink = lock(&self.0.sink);
        let Some(sink) = sink.as_mut() else { return };
        let Stage { name, total, skipped, began, training, .. } = *lock(&self.0.stage);
        let progress = Progress {
            stage: name,
            done: self.0.done.load(Ordering::Relaxed),
            total,
            seconds: began.elapsed().as_secs_f64(),
            skipped,
            training,
        };
        if sink(&progress).is_break() {
            self.stop();
        }
    }

    /// The watch of this thread's stage, taken: loops within the loop that takes it report nothing.
    pub(crate) fn take() -> Taken {
        Taken(CURRENT.take())
    }
}

/// Puts the watch of an outer stage back, also when the work panics.
struct Restore(Option<Watch>);

impl Drop for Restore {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// A watch that a loop has taken; given back at its end.
pub(crate) struct Taken(Option<Watch>);

impl Taken {
    /// The loop begins, over so many rows.
    pub(crate) fn begin(&self, rows: u64) {
        if let Some(watch) = &self.0 {
            let Stage { name, in_parts, .. } = *lock(&watch.0.stage);
            if !in_parts {
                watch.begin(name, rows, 0);
            }
        }
    }

    /// So many rows more are done; whether the work is to stop.
    pub(crate) fn advance(&self, rows: u64) {
        if let Some(watch) = &self.0 {
            watch.advance(rows);
        }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.0.as_ref().is_some_and(Watch::is_stopped)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(watch) = self.0.take() {
            CURRENT.set(Some(watch));
        }
    }
}
