//! Progress on standard error: a bar on a terminal, elsewhere a line every ten seconds.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use manifusion::watch::{Progress, Watch};

/// Time between two redraws of a bar, and between two lines where there is none.
const REDRAW: Duration = Duration::from_millis(250);
const LINE: Duration = Duration::from_secs(10);
/// A stage that is shorter than this is not shown.
const SHORT: f64 = 0.5;

/// The latest progress, with when it was told; none before the first.
type Latest = Arc<Mutex<Option<(Progress, Instant)>>>;

/// What shows progress. A thread of its own redraws it, so that a stage that counts nothing is seen
/// to go on.
pub(crate) struct Display {
    latest: Latest,
    bar: ProgressBar,
    quiet: bool,
}

impl Display {
    /// Shows progress from now on, unless it is to be quiet.
    pub(crate) fn start(quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let target = if quiet || !is_terminal {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let bar = ProgressBar::with_draw_target(Some(1), target);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
            bar.set_style(style);
        }
        let display = Self { latest: Latest::default(), bar, quiet };
        if !quiet {
            let (latest, bar) = (Arc::clone(&display.latest), display.bar.clone());
            std::thread::spawn(move || redraw(&latest, &bar, is_terminal));
        }
        display
    }

    /// A watch whose progress is shown here.
    pub(crate) fn watch(&self) -> Watch {
        if self.quiet {
            return Watch::default();
        }
        let latest = Arc::clone(&self.latest);
        Watch::new(move |progress| {
            *lock(&latest) = Some((progress.clone(), Instant::now()));
            ControlFlow::Continue(())
        })
    }

    /// Writes something else to the terminal.
    pub(crate) fn pause<R>(&self, write: impl FnOnce() -> R) -> R {
        self.bar.suspend(write)
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        lock(&self.latest).take();
        self.bar.finish_and_clear();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[expect(clippy::print_stderr, reason = "progress goes to the terminal and not into a pipe")]
fn redraw(latest: &Latest, bar: &ProgressBar, is_terminal: bool) {
    let mut last_line = Instant::now();
    loop {
        std::thread::sleep(REDRAW);
        // Held while drawing, so that nothing is drawn after the end.
        let latest = lock(latest);
        let Some((progress, told)) = latest.as_ref() else { continue };
        let since = told.elapsed().as_secs_f64();
        if progress.seconds + since < SHORT {
            continue;
        }
        if is_terminal {
            bar.set_length(progress.total.max(1));
            bar.set_position(progress.done.min(progress.total));
            bar.set_message(progress.describe(since));
        } else if last_line.elapsed() >= LINE {
            eprintln!("{}", progress.describe(since));
            last_line = Instant::now();
        }
    }
}
