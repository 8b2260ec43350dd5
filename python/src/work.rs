//! Long work: without the interpreter's lock, on threads of its own, stopped by Ctrl-C.

use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use manifusion::watch::{Progress, Watch};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Time between two looks at signals and progress.
const LOOK: Duration = Duration::from_millis(100);
/// Largest number of threads that makes sense to ask for.
const MAX_THREADS: usize = 1024;

/// A pool of threads, with the process and the number that it was made for.
type Pool = (u32, usize, Arc<ThreadPool>);

/// The pools there are. One of a process that was forked has no threads here, so that each has the
/// process beside it.
static POOLS: Mutex<Vec<Pool>> = Mutex::new(Vec::new());

fn pool(threads: Option<usize>) -> PyResult<Arc<ThreadPool>> {
    if let Some(threads) = threads.filter(|threads| !(1..=MAX_THREADS).contains(threads)) {
        let problem = format!("threads = {threads} is not allowed; None, or 1 to {MAX_THREADS}");
        return Err(PyValueError::new_err(problem));
    }
    let (process, threads) = (std::process::id(), threads.unwrap_or(0));
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((.., pool)) = pools.iter().find(|(p, t, _)| (*p, *t) == (process, threads)) {
        return Ok(Arc::clone(pool));
    }
    let pool = ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = Arc::new(pool.map_err(|e| PyRuntimeError::new_err(e.to_string()))?);
    pools.push((process, threads, Arc::clone(&pool)));
    Ok(pool)
}

/// What work ended in, and the exception that stopped it.
pub(crate) struct Worked<T> {
    pub(crate) value: T,
    pub(crate) interrupt: Option<PyErr>,
}

/// Runs `work` on a pool without the interpreter's lock. Now and then signals are looked at, and
/// `show` is called with a line about the progress; an exception of either stops the work.
pub(crate) fn work<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    show: Option<&Py<PyAny>>,
    work: impl FnOnce(&Watch) -> T + Send,
) -> PyResult<Worked<T>> {
    let pool = pool(threads)?;
    let latest: Arc<Mutex<Option<(Progress, Instant)>>> = Arc::default();
    let sink = Arc::clone(&latest);
    let watch = Watch::new(move |progress| {
        let mut latest = sink.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Some((progress.clone(), Instant::now()));
        ControlFlow::Continue(())
    });
    let look = |py: Python<'_>| -> PyResult<()> {
        py.check_signals()?;
        let told = latest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let (Some(show), Some((progress, at))) = (show, told) {
            let share = match progress.total {
                0 => None,
                total => Some(progress.done.min(total) as f64 / total as f64),
            };
            show.call1(py, (progress.describe(at.elapsed().as_secs_f64()), share))?;
        }
        Ok(())
    };
    let (value, interrupt) = py.detach(|| {
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel(1);
            let (working, mut interrupt) = (&watch, None);
            let worker = scope.spawn(move || {
                // Nobody listens any more only if this function has ended by a panic.
                let _ = send.send(pool.install(|| work(working)));
            });
            loop {
                match receive.recv_timeout(LOOK) {
                    Ok(value) => return (value, interrupt),
                    Err(RecvTimeoutError::Timeout) if interrupt.is_none() => {
                        if let Err(error) = Python::attach(look) {
                            interrupt = Some(error);
                            watch.stop();
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => match worker.join() {
                        Err(panic) => std::panic::resume_unwind(panic),
                        Ok(()) => unreachable!("a worker that ends has sent its value"),
                    },
                }
            }
        })
    });
    Ok(Worked { value, interrupt })
}

/// The same for work that is nothing worth when it is interrupted.
pub(crate) fn work_whole<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    show: Option<&Py<PyAny>>,
    job: impl FnOnce(&Watch) -> T + Send,
) -> PyResult<T> {
    let Worked { value, interrupt } = work(py, threads, show, job)?;
    interrupt.map_or(Ok(value), Err)
}
