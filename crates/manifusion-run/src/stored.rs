//! A run's folder, read as far as it is needed and each part once.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use manifusion::checkpoint::Arrays;
use manifusion::data::Synthetic;
use manifusion::error::SolveError;
use manifusion::evaluation::{Baselines, Evaluation, EvaluationOptions, evaluate};
use manifusion::manifold::{Manifold, parse};
use manifusion::methods::{CHECKPOINT_FILE, Fitted, Geometry, MODEL_FILE, read_mixture};
use manifusion::mixture::KernelMixture;
use manifusion::points::{Points, Split, SplitPart};
use manifusion::prior::stored_prior;
use manifusion::rng::Streams;
use manifusion::train::{MetricsRow, Outcome};
use manifusion::watch::Watch;
use manifusion_io::{Column, point_columns};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::config::{DataSettings, RunSettings, file_name, synthetic_name};
use crate::data::{Data, DataFile, SplitFile};
use crate::error::RunError;
use crate::folder::{
    CONFIG, DATA, DATA_FACTS, KERNEL, METRICS, PRIOR, RunDir, SPLIT, SUMMARY, TIMES,
};

/// How a training went.
#[derive(Clone, Debug, Default)]
pub struct Curves {
    /// The record, in order of the steps.
    pub rows: Vec<MetricsRow>,
    /// The proposal of times at the end: pairs (s, q(s)), in order of s.
    pub proposal: Vec<[f64; 2]>,
}

/// `times.json`.
#[derive(Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) s: Vec<f64>,
    pub(crate) q: Vec<f64>,
}

/// A run in its folder.
#[derive(Debug)]
pub struct StoredRun {
    dir: RunDir,
    settings: RunSettings,
    /// The manifold where its string form says nothing, being the caller's own.
    own: Option<Arc<dyn Manifold>>,
    geometry: OnceLock<Geometry>,
    model: OnceLock<Arc<dyn Fitted>>,
    split: OnceLock<Split>,
    points: OnceLock<Points>,
    facts: OnceLock<DataFile>,
}

/// The value of a cell, computed if it is not there yet.
fn once<T>(
    cell: &OnceLock<T>,
    compute: impl FnOnce() -> Result<T, RunError>,
) -> Result<&T, RunError> {
    if let Some(value) = cell.get() {
        return Ok(value);
    }
    let value = compute()?;
    Ok(cell.get_or_init(|| value))
}

impl StoredRun {
    /// The run of a folder; only its settings are read.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        let run = Self::with(path, None)?;
        // A manifold of a Python program has this prefix.
        if run.settings.manifold.starts_with("python:") {
            let problem = format!(
                "the manifold is {}, which a program in Python made and has to give again",
                run.settings.manifold
            );
            return Err(RunError::Content { path: run.dir.file(CONFIG), problem });
        }
        Ok(run)
    }

    /// The same for a run on a manifold of the caller's own; an error if that has another name.
    pub fn open_on(path: &Path, manifold: Arc<dyn Manifold>) -> Result<Self, RunError> {
        let (name, run) = (manifold.name(), Self::with(path, Some(manifold))?);
        if run.settings.manifold != name {
            let problem = format!("the manifold is {}, and {name} is given", run.settings.manifold);
            return Err(RunError::Content { path: run.dir.file(CONFIG), problem });
        }
        Ok(run)
    }

    fn with(path: &Path, own: Option<Arc<dyn Manifold>>) -> Result<Self, RunError> {
        let dir = RunDir::open(path)?;
        let settings = RunSettings::parse(&dir.text(CONFIG)?).map_err(|error| {
            RunError::Content { path: dir.file(CONFIG), problem: error.to_string() }
        })?;
        Ok(Self {
            dir,
            settings,
            own,
            geometry: OnceLock::new(),
            model: OnceLock::new(),
            split: OnceLock::new(),
            points: OnceLock::new(),
            facts: OnceLock::new(),
        })
    }

    /// The folder.
    pub fn dir(&self) -> &RunDir {
        &self.dir
    }

    /// Everything that the run depends on.
    pub fn settings(&self) -> &RunSettings {
        &self.settings
    }

    /// Whether it has its model.
    pub fn is_finished(&self) -> bool {
        self.dir.has(MODEL_FILE)
    }

    /// Manifold and prior. What the prior took long to compute is kept beside the model.
    pub fn geometry(&self) -> Result<&Geometry, RunError> {
        once(&self.geometry, || {
            let manifold = match &self.own {
                Some(own) => Arc::clone(own),
                None => parse(&self.settings.manifold)?,
            };
            let stored = match self.dir.bytes(PRIOR)? {
                None => Arrays::default(),
                Some(_) => self.dir.arrays(PRIOR)?,
            };
            let prior = stored_prior(&manifold, &stored.arrays)?;
            Ok(Geometry { manifold, prior })
        })
    }

    /// The model of a finished run.
    pub fn model(&self) -> Result<Arc<dyn Fitted>, RunError> {
        let model = once(&self.model, || {
            if !self.is_finished() {
                return Err(RunError::Unfinished { path: self.dir.path().to_owned() });
            }
            let method = self.settings.method()?;
            method
                .load(self.geometry()?, &self.settings.section, &self.dir)
                .map_err(|error| self.dir.located(error))
        })?;
        Ok(Arc::clone(model))
    }

    /// The kernel mixture of the training points, where the run keeps one.
    pub fn kernel(&self) -> Result<Option<KernelMixture>, RunError> {
        if !self.dir.has(KERNEL) {
            return Ok(None);
        }
        let mixture = read_mixture(self.geometry()?, KERNEL, &self.dir);
        mixture.map(Some).map_err(|error| self.dir.located(error))
    }

    /// How the data are divided.
    pub fn split(&self) -> Result<&Split, RunError> {
        once(&self.split, || {
            let file: Option<SplitFile> = self.dir.json(SPLIT)?;
            let file = file.ok_or_else(|| RunError::MissingFile { path: self.dir.file(SPLIT) })?;
            if file.hash != file.split.hash() {
                return Err(RunError::Changed { path: self.dir.file(SPLIT) });
            }
            Ok(file.split)
        })
    }

    /// All points of the run, before they are divided.
    fn all_points(&self) -> Result<&Points, RunError> {
        once(&self.points, || {
            let mut data = self.dir.arrays(DATA)?;
            let points = data.arrays.remove("points").unwrap_or_default();
            let manifold = Arc::clone(&self.geometry()?.manifold);
            let misfit = |problem: String| RunError::Content { path: self.dir.file(DATA), problem };
            Points::on(manifold, points).map_err(|error| misfit(error.to_string()))
        })
    }

    /// The part that a model is judged on: the test points, or where there are none the validation
    /// points.
    pub fn judged_part(&self) -> Result<SplitPart, RunError> {
        let no_test = self.split()?.test.is_empty();
        Ok(if no_test { SplitPart::Validation } else { SplitPart::Test })
    }

    /// All data of the run.
    pub(crate) fn data(&self) -> Result<Data, RunError> {
        let (points, split) = (self.all_points()?.clone(), self.split()?.clone());
        Ok(Data { points, split, facts: self.data_facts()?.clone() })
    }

    /// The points of one part of the data.
    pub fn points(&self, part: SplitPart) -> Result<Points, RunError> {
        let rows = self.split()?.part(part);
        self.all_points()?.select(rows).map_err(|error| RunError::Content {
            path: self.dir.file(SPLIT),
            problem: format!("it does not fit the data: {error}"),
        })
    }

    /// What is known of the data beside the points.
    pub fn data_facts(&self) -> Result<&DataFile, RunError> {
        once(&self.facts, || {
            let facts: Option<DataFile> = self.dir.json(DATA_FACTS)?;
            facts.ok_or_else(|| RunError::MissingFile { path: self.dir.file(DATA_FACTS) })
        })
    }

    /// Steps done, of how many, as the last checkpoint has them; none before the first, after the
    /// end (no checkpoint is kept then) and for a run without steps.
    pub fn progress(&self) -> Result<Option<(u64, u64)>, RunError> {
        let Some(bytes) = self.dir.bytes(CHECKPOINT_FILE)? else { return Ok(None) };
        let steps = self.settings.method()?.steps_of(&self.settings.section, &bytes);
        steps.map_err(|error| self.dir.located(error))
    }

    /// How the run ended; none before that.
    pub fn outcome(&self) -> Result<Option<Outcome>, RunError> {
        self.dir.json(SUMMARY)
    }

    /// The evaluation that was made last on a part of the data.
    pub fn evaluation(&self, part: SplitPart) -> Result<Option<Evaluation>, RunError> {
        self.dir.json(&evaluation_file(part))
    }

    /// The record of the training, and the proposal of times.
    pub fn curves(&self) -> Result<Curves, RunError> {
        let mut curves = Curves::default();
        if self.dir.has(METRICS) {
            for line in self.dir.text(METRICS)?.lines() {
                let row = serde_json::from_str(line)
                    .map_err(|e| self.dir.does_not_parse(METRICS, &e.to_string()))?;
                curves.rows.push(row);
            }
        }
        if let Some(Times { s, q }) = self.dir.json(TIMES)? {
            curves.proposal = s.into_iter().zip(q).map(|(s, q)| [s, q]).collect();
        }
        Ok(curves)
    }

    /// Points as columns in the form of the run's data, with more columns beside them.
    pub fn point_columns(
        &self,
        points: &[f64],
        extra: &[(&str, &[f64])],
    ) -> Result<Vec<Column>, RunError> {
        let (manifold, facts) = (&self.geometry()?.manifold, self.data_facts()?);
        let mut columns = point_columns(points, manifold.as_ref(), &facts.output)?;
        let extra = extra.iter().map(|(name, values)| Column::numbers(*name, values.to_vec()));
        columns.extend(extra);
        Ok(columns)
    }

    /// Judges the model on a part of the data, and keeps the result in the folder. If the watch
    /// stops it, the result has what was computed until then.
    pub fn evaluate(
        &self,
        part: SplitPart,
        options: &EvaluationOptions,
        seed: u64,
        watch: &Watch,
    ) -> Result<Evaluation, RunError> {
        let (model, points, kernel) = (self.model()?, self.points(part)?, self.kernel()?);
        let DataSettings { source, dedup, .. } = &self.settings.data;
        let source = source.as_deref().unwrap_or_default();
        let truth = match synthetic_name(source) {
            None => None,
            Some(name) => Some(Synthetic::new(name)?.on(model.manifold())?),
        };
        let baselines = Baselines { kernel: kernel.as_ref(), truth: truth.as_ref() };
        let mut found = evaluate(model.as_ref(), &points, baselines, options, seed, watch)?;
        let (split, outcome) = (self.split()?, self.outcome()?);
        found.dataset = Some(file_name(source).to_owned());
        found.split = Some(part.to_string());
        found.seed = Some(self.settings.seed);
        found.dedup = Some(*dedup);
        found.test_in_train = Some(split.test_in_train_share());
        found.train_seconds = outcome.as_ref().map(|outcome| outcome.train_seconds);
        found.train_threads = outcome.as_ref().map(|outcome| outcome.threads);
        // Of the run, whatever this evaluation was asked for beyond it.
        found.config_hash = Some(self.settings.hash()?);
        found.split_hash = Some(split.hash());
        // One that was stopped does not replace a whole one.
        if !found.stopped || self.evaluation(part)?.is_none_or(|before| before.stopped) {
            self.dir.write_json(&evaluation_file(part), &found)?;
        }
        Ok(found)
    }
}

fn evaluation_file(part: SplitPart) -> String {
    match part {
        SplitPart::Test => String::from("eval.json"),
        other => format!("eval-{other}.json"),
    }
}

/// Keeps a model in a folder of its own, without data: for [`load`], and for the commands that need
/// none.
pub fn save(model: &dyn Fitted, seed: u64, path: &Path) -> Result<(), RunError> {
    let settings = RunSettings {
        method: model.info().name.to_owned(),
        manifold: model.manifold().name(),
        seed,
        data: DataSettings::default(),
        evaluate: EvaluationOptions::default(),
        section: model.settings()?,
    };
    check_loadable(model, &settings)?;
    let dir = RunDir::create(path)?;
    write_prior(&dir, model.prior().as_ref())?;
    write_model(&dir, model)?;
    dir.write(CONFIG, settings.to_toml()?.as_bytes())
}

/// What cannot be read again must not be written: an error for a model whose manifold, method or
/// prior [`load`] could not make.
fn check_loadable(model: &dyn Fitted, settings: &RunSettings) -> Result<(), RunError> {
    let manifold = parse(&settings.manifold)?;
    if settings.method()?.info() != model.info() || !model.files()?.contains_key(MODEL_FILE) {
        return Err(RunError::NotLoadable { what: "a method that is not in the registry" });
    }
    let (own, stored) = (model.prior(), stored_prior(&manifold, &model.prior().to_tensors())?);
    let mut x = vec![0.0; manifold.ambient_dim()];
    for row in 0..16 {
        let mut stream = Streams::new(0, "same-prior").stream(row, 0);
        own.sample(&mut stream, &mut x).map_err(SolveError::at(row as usize, 0.0))?;
        if own.log_density(&x).to_bits() != stored.log_density(&x).to_bits() {
            return Err(RunError::NotLoadable { what: "a prior of its own" });
        }
    }
    Ok(())
}

/// The model of a folder, of [`save`] or of a finished run.
pub fn load(path: &Path) -> Result<Arc<dyn Fitted>, RunError> {
    StoredRun::open(path)?.model()
}

/// Keeps what a prior took long to compute, if it did.
pub(crate) fn write_prior(
    dir: &RunDir,
    prior: &dyn manifusion::prior::Prior,
) -> Result<(), RunError> {
    let arrays = prior.to_tensors();
    if arrays.is_empty() {
        return Ok(());
    }
    let bytes = Arrays { arrays, values: std::collections::BTreeMap::<String, Json>::new() }
        .to_bytes()
        .map_err(|source| RunError::Damaged { path: dir.file(PRIOR), source })?;
    dir.write(PRIOR, &bytes)
}

/// Writes the files of a model that are not there yet, the model itself last: a folder with one is
/// finished.
pub(crate) fn write_model(dir: &RunDir, model: &dyn Fitted) -> Result<(), RunError> {
    let mut files = model.files()?;
    let last = files.remove(MODEL_FILE);
    for (name, bytes) in files.into_iter().filter(|(name, _)| !dir.has(name)) {
        dir.write(&name, &bytes)?;
    }
    last.map_or(Ok(()), |bytes| dir.write(MODEL_FILE, &bytes))
}
