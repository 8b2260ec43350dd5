//! A run from its first moment to its end, in a folder.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use manifusion::fit::{Recorder, drive};
use manifusion::manifold::parse;
use manifusion::methods::{
    CHECKPOINT_FILE, FitError, Geometry, MODEL_FILE, Run, Task, write_mixture,
};
use manifusion::parallel::in_pool;
use manifusion::points::SplitPart;
use manifusion::prior::{Prior, default_prior};
use manifusion::train::{MetricsRow, Outcome};
use manifusion::watch::Watch;

use crate::config::{Choices, RunSettings};
use crate::data::Data;
use crate::error::RunError;
use crate::folder::{CONFIG, KERNEL, METRICS, RunDir, SUMMARY, TIMES, append, io_error};
use crate::stored::{StoredRun, Times, write_model, write_prior};

/// How a call of [`train`] or [`resume`] ended.
#[derive(Clone, Debug)]
pub enum Trained {
    /// The model is there.
    Done(Outcome),
    /// It was stopped; [`resume`] goes on from this step of how many.
    Stopped {
        /// Steps done.
        step: u64,
        /// Steps in all.
        total: u64,
    },
}

/// Reads and splits the data, makes every open choice, and learns in a new folder. `remark` gets
/// what a user should know, in sentences, as it is found out.
pub fn train(
    choices: Choices,
    out: &Path,
    watch: &Watch,
    remark: &(dyn Fn(&str) + Sync),
) -> Result<Trained, RunError> {
    RunDir::check_free(out)?;
    let began = Instant::now();
    in_pool(|| {
        let (dir, mut run) = begin(choices, out, watch, remark, began)?;
        finish(&dir, run.as_mut(), watch)
    })
}

/// Goes on with a run that was stopped.
pub fn resume(path: &Path, watch: &Watch) -> Result<Trained, RunError> {
    in_pool(|| {
        let stored = StoredRun::open(path)?;
        if stored.is_finished() {
            return Err(RunError::Finished { path: path.to_owned() });
        }
        let settings = stored.settings();
        let method = settings.method()?;
        let geometry = stored.geometry()?.clone();
        let (train, validation) =
            (stored.points(SplitPart::Train)?, stored.points(SplitPart::Validation)?);
        let dir = stored.dir();
        // The mixture of the training points served the choices, which are made.
        let mixture = stored.kernel()?.map(Arc::new).ok_or_else(no_mixture);
        let (seed, watch) = (settings.seed, watch.clone());
        let task = Task::with_mixture(geometry, train, validation, seed, mixture, watch.clone());
        let located = |error| dir.located(error);
        let mut run = method.open(&task, &settings.section, dir).map_err(located)?;
        if let Some(checkpoint) = dir.bytes(CHECKPOINT_FILE)? {
            run.restore(&checkpoint).map_err(located)?;
        }
        finish(dir, run.as_mut(), &watch)
    })
}

fn no_mixture() -> manifusion::error::SolveError {
    manifusion::error::SolveError::Unsupported {
        what: "the kernel mixture of the training points",
        manifold: String::from("this run"),
        hint: "its folder keeps none",
    }
}

fn begin(
    choices: Choices,
    out: &Path,
    watch: &Watch,
    remark: &dyn Fn(&str),
    began: Instant,
) -> Result<(RunDir, Box<dyn Run>), RunError> {
    for sentence in &choices.remarks {
        remark(sentence);
    }
    let data = Data::load(&choices)?;
    // The string form is how a folder's manifold is made again.
    parse(&data.points.manifold().name())?;
    for finding in &data.facts.findings {
        remark(finding);
    }
    let Prepared { settings, task, run } = prepare(choices, &data, None, watch, began)?;
    for sentence in run.remarks() {
        remark(&sentence);
    }
    let dir = RunDir::create(out)?;
    data.write(&dir)?;
    write_prior(&dir, task.geometry.prior.as_ref())?;
    if let (Ok(mixture), false) = (&task.mixture, run.is_done()) {
        dir.write(KERNEL, &write_mixture(mixture)?)?;
    }
    for (name, bytes) in run.files()? {
        dir.write(&name, &bytes)?;
    }
    dir.write(CONFIG, settings.to_toml()?.as_bytes())?;
    Ok((dir, run))
}

/// A run that is ready to go, before anything is kept of it.
pub(crate) struct Prepared {
    pub(crate) settings: RunSettings,
    pub(crate) task: Task,
    pub(crate) run: Box<dyn Run>,
}

/// Makes every open choice of a run with these data.
pub(crate) fn prepare(
    choices: Choices,
    data: &Data,
    prior: Option<Arc<dyn Prior>>,
    watch: &Watch,
    began: Instant,
) -> Result<Prepared, RunError> {
    let request = choices.request();
    let (method, own) = (request.method()?, request.choices());
    let manifold = Arc::clone(data.points.manifold());
    let spec = manifold.name();
    let prior = match prior {
        Some(prior) => prior,
        None => watch.stage("prior", || default_prior(&manifold))?,
    };
    let geometry = Geometry { manifold, prior };
    let of = |rows: &[usize]| data.points.select(rows).map_err(FitError::from);
    let (train, validation) = (of(&data.split.train)?, of(&data.split.validation)?);
    let task = Task::new(method, own, geometry, train, validation, choices.seed, watch.clone())?
        .since(began);
    let run = method.start(&task, own)?;
    let settings = RunSettings {
        method: choices.method,
        manifold: spec,
        seed: choices.seed,
        data: choices.data,
        evaluate: choices.evaluate,
        section: run.settings()?,
    };
    Ok(Prepared { settings, task, run })
}

/// Takes a run to its end and writes the model; or, if it is stopped, its checkpoint.
fn finish(dir: &RunDir, run: &mut dyn Run, watch: &Watch) -> Result<Trained, RunError> {
    let (step, _) = run.steps();
    let mut recorder = FolderRecorder {
        metrics: if run.is_done() && step == 0 { None } else { Some(dir.metrics_from(step)?) },
        path: dir.file(METRICS),
        dir,
        last_checkpoint: Instant::now(),
    };
    let is_done = drive(run, &mut recorder, watch)?;
    if !is_done {
        let (step, total) = run.steps();
        return Ok(Trained::Stopped { step, total });
    }
    let finished = run.finish()?;
    if !finished.proposal.is_empty() {
        let (s, q) = finished.proposal.iter().map(|[s, q]| (*s, *q)).unzip();
        dir.write_json(TIMES, &Times { s, q })?;
    }
    dir.write_json(SUMMARY, &finished.outcome)?;
    debug_assert!(!dir.has(MODEL_FILE));
    write_model(dir, finished.model.as_ref())?;
    dir.remove(CHECKPOINT_FILE)?;
    Ok(Trained::Done(finished.outcome))
}

/// Leaves metrics and checkpoints in a folder.
struct FolderRecorder<'a> {
    dir: &'a RunDir,
    metrics: Option<File>,
    path: PathBuf,
    last_checkpoint: Instant,
}

impl Recorder for FolderRecorder<'_> {
    fn record(&mut self, rows: &[MetricsRow]) -> Result<(), FitError> {
        let Some(file) = &mut self.metrics else { return Ok(()) };
        for row in rows {
            append(file, row).map_err(io_error("writing", &self.path))?;
        }
        Ok(())
    }

    fn checkpoint(&mut self, run: &dyn Run, at_end: bool) -> Result<(), FitError> {
        let waited = self.last_checkpoint.elapsed().as_secs_f64();
        if !at_end && waited < run.checkpoint_seconds() {
            return Ok(());
        }
        if let Some(bytes) = run.checkpoint()? {
            self.dir.write(CHECKPOINT_FILE, &bytes)?;
        }
        self.last_checkpoint = Instant::now();
        Ok(())
    }
}
