//! Methods against each other: every method on every seed, each run in a folder of its own, and one
//! table of it all.
//!
//! A comparison's folder has `plan.json` (what was asked for), `runs/METHOD-seedN` (the runs),
//! `results/METHOD-seedN.json` (what came of each) and `comparison.*` (the table). The table is
//! made from the results alone ([`read_results`], [`Comparison::of`]); a run with a result is not
//! made again, and one that was killed goes on.

mod plan;
mod result;
mod table;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use manifusion::watch::Watch;

pub use plan::Plan;
pub use result::{Ended, Measured, RunResult};
pub use table::{COLUMNS, ColumnInfo, Comparison, MethodRow, Standing, paired_difference};

use crate::error::RunError;
use crate::folder::{RunDir, io_error};

/// The folder of the results.
const RESULTS: &str = "results";
/// The folder of the runs.
const RUNS: &str = "runs";

/// Makes the runs of a plan that a folder does not have yet, several side by side, and the table of
/// all of them. `remark` gets what a user should know, in sentences, and a line for every run that
/// ended. A watch that stops it leaves what is done; the same call goes on, and what is left then
/// is [`Comparison::runs_left`].
pub fn compare(
    plan: &Plan,
    out: &Path,
    watch: &Watch,
    remark: &(dyn Fn(&str) + Sync),
) -> Result<Comparison, RunError> {
    RunDir::check_free(out)?;
    for sentence in plan.check()? {
        remark(&sentence);
    }
    let folder = Folder { dir: RunDir::other(out) };
    let asked = watch.stage("reading", || plan.record(remark))?;
    folder.begin(&asked)?;
    let (all, mut open) = (plan.runs(), VecDeque::new());
    for (method, seed) in &all {
        if folder.result(method, *seed)?.is_none() {
            open.push_back((method.clone(), *seed));
        }
    }
    let done = all.len() - open.len();
    if done > 0 {
        remark(&format!("{done} of {} runs are done already", all.len()));
    }
    watch.begin("runs", all.len() as u64, done as u64);
    Workers { plan, folder: &folder, watch, remark, total: all.len() }.work(open)?;
    let mut results = Vec::new();
    for (method, seed) in &all {
        results.extend(folder.result(method, *seed)?);
    }
    let mut comparison = Comparison::of(&results)?;
    comparison.runs_left = all.len() - results.len();
    comparison.write(out)?;
    Ok(comparison)
}

/// One run of a plan in a folder of its own, and what came of it; none if the watch stopped it.
/// What a method cannot do is a result. For those who share the runs of a plan out themselves;
/// [`Comparison::of`] makes the table of what they bring back.
pub fn compare_run(
    plan: &Plan,
    method: &str,
    seed: u64,
    out: &Path,
    watch: &Watch,
) -> Result<Option<RunResult>, RunError> {
    let ended = match result::run(|| plan.choices(method, seed), out, watch) {
        Ok(None) => return Ok(None),
        Ok(Some(measured)) => Ended::Measured(Box::new(measured)),
        Err(error) if error.is_stopped() => return Ok(None),
        Err(error) if error.is_of_method() => Ended::Failed(error.to_string().replace('\n', " ")),
        Err(error) => return Err(error),
    };
    Ok(Some(RunResult { method: method.to_owned(), seed, ended }))
}

/// All results of a comparison's folder, in order of their files' names.
pub fn read_results(out: &Path) -> Result<Vec<RunResult>, RunError> {
    results_in(&out.join(RESULTS))
}

/// All results that a folder itself holds, in order of their files' names.
pub(crate) fn results_in(folder: &Path) -> Result<Vec<RunResult>, RunError> {
    let entries = std::fs::read_dir(folder).map_err(io_error("reading", folder))?;
    let mut paths = Vec::new();
    for entry in entries {
        paths.push(entry.map_err(io_error("reading", folder))?.path());
    }
    // A `.partial` beside them is what a crash left of a file.
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let dir = RunDir::other(folder);
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
    let found: Result<Vec<_>, _> = names.map(|name| dir.json(name)).collect();
    Ok(found?.into_iter().flatten().collect())
}

/// The folder of a run of a comparison.
pub(crate) fn run_folder(out: &Path, method: &str, seed: u64) -> PathBuf {
    out.join(RUNS).join(run_name(method, seed))
}

/// The name of a run.
pub(crate) fn run_name(method: &str, seed: u64) -> String {
    format!("{method}-seed{seed}")
}

/// The folder of a comparison.
struct Folder {
    dir: RunDir,
}

impl Folder {
    /// Keeps what is asked for; an error if the folder has runs of something else.
    fn begin(&self, asked: &serde_json::Value) -> Result<(), RunError> {
        let merged = match self.dir.json(plan::FILE)? {
            None => asked.clone(),
            Some(before) => plan::merged(self.dir.path(), &before, asked)?,
        };
        for folder in [RESULTS, RUNS].map(|name| self.dir.file(name)) {
            std::fs::create_dir_all(&folder).map_err(io_error("creating", &folder))?;
        }
        self.dir.write_json(plan::FILE, &merged)
    }

    fn run(&self, method: &str, seed: u64) -> PathBuf {
        run_folder(self.dir.path(), method, seed)
    }

    fn result_name(method: &str, seed: u64) -> String {
        format!("{RESULTS}/{}.json", run_name(method, seed))
    }

    fn result(&self, method: &str, seed: u64) -> Result<Option<RunResult>, RunError> {
        self.dir.json(&Self::result_name(method, seed))
    }

    fn keep(&self, result: &RunResult) -> Result<(), RunError> {
        self.dir.write_json(&Self::result_name(&result.method, result.seed), result)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What makes the open runs of a plan, several side by side.
struct Workers<'a> {
    plan: &'a Plan,
    folder: &'a Folder,
    watch: &'a Watch,
    remark: &'a (dyn Fn(&str) + Sync),
    /// Runs of the plan, those that were done before included.
    total: usize,
}

impl Workers<'_> {
    /// Makes the runs, each in a pool of threads of its own. What a method cannot do is a result;
    /// an error of anything else (a full disk) ends the work after the runs at hand.
    fn work(&self, open: VecDeque<(String, u64)>) -> Result<(), RunError> {
        if open.is_empty() {
            return Ok(());
        }
        let threads = rayon::current_num_threads();
        let jobs = self.plan.jobs.unwrap_or_else(|| threads.min(self.total)).max(1);
        let count = (threads / jobs).max(1);
        let mut pools = Vec::new();
        for _ in 0..jobs.min(open.len()) {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build();
            pools.push(pool.map_err(|e| RunError::Threads { count, problem: e.to_string() })?);
        }
        let ended = self.total - open.len();
        let (open, ended, error) = (Mutex::new(open), Mutex::new(ended), Mutex::new(None));
        let work = |pool: &rayon::ThreadPool| {
            while !self.watch.is_stopped()
                && lock(&error).is_none()
                && let Some((method, seed)) = { lock(&open).pop_front() }
            {
                match pool.install(|| self.one(&method, seed)) {
                    Ok(None) => {}
                    Ok(Some(result)) => {
                        let mut ended = lock(&ended);
                        *ended += 1;
                        (self.remark)(&format!("{result} ({} of {} runs)", *ended, self.total));
                        self.watch.advance(1);
                    }
                    Err(problem) => *lock(&error) = Some(problem),
                }
            }
        };
        std::thread::scope(|scope| {
            for pool in &pools {
                scope.spawn(|| work(pool));
            }
        });
        lock(&error).take().map_or(Ok(()), Err)
    }

    /// One run to its result, which is kept; none if it was stopped.
    fn one(&self, method: &str, seed: u64) -> Result<Option<RunResult>, RunError> {
        let (out, watch) = (self.folder.run(method, seed), self.watch.silent());
        let result = compare_run(self.plan, method, seed, &out, &watch)?;
        result.iter().try_for_each(|result| self.folder.keep(result))?;
        Ok(result)
    }
}
