//! A run in memory: rows of another program in, a density out, and a folder when it is asked for.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use manifusion::error::SolveError;
use manifusion::evaluation::{Baselines, Evaluation, EvaluationOptions, evaluate};
use manifusion::fit::{Recorder, drive, finish};
use manifusion::manifold::{Manifold, parse};
use manifusion::methods::{FitError, Fitted, Geometry, Run, write_mixture};
use manifusion::mixture::KernelMixture;
use manifusion::points::{Points, Split};
use manifusion::prior::Prior;
use manifusion::rows::Rows;
use manifusion::sample::SampleOptions;
use manifusion::train::{MetricsRow, Outcome};
use manifusion::watch::Watch;
use manifusion_io::{
    Column, DataError, Dataset, FileFormat, Form, Forms, LoadOptions, OutputForm, Table,
    dataset_from_table, point_columns,
};

use crate::config::{Choices, RunSettings};
use crate::data::{Data, DataFile, load_options};
use crate::error::RunError;
use crate::folder::{CONFIG, KERNEL, METRICS, RunDir, SUMMARY, TIMES, append, io_error};
use crate::new_rows::is_unclear;
use crate::stored::{Curves, StoredRun, Times, write_model, write_prior};
use crate::training::{Prepared, prepare};

/// What the data of a run are called that come from no file.
const SOURCE: &str = "memory";

/// A finished run with everything that its folder has, or would have.
#[derive(Debug)]
pub struct MemoryRun {
    settings: RunSettings,
    model: Arc<dyn Fitted>,
    /// None for a model that was kept without data.
    data: Option<Data>,
    kernel: Option<Arc<KernelMixture>>,
    outcome: Option<Outcome>,
    curves: Curves,
    stopped: bool,
    remarks: Vec<String>,
}

impl MemoryRun {
    /// Learns from the rows of a table, a tenth of which is held out to choose by. The form of
    /// columns without names is the manifold's own coordinates where their number fits. The
    /// manifold `euclidean` has as many dimensions as there are columns.
    ///
    /// A watch that stops a training leaves what was learned until then ([`Self::is_stopped`]).
    pub fn fit(mut choices: Choices, table: Table, watch: &Watch) -> Result<Self, RunError> {
        let began = Instant::now();
        let spec = choices.manifold.take().ok_or(RunError::NotGiven(
            "no manifold is given, for example sphere:2 for places on the globe or torus:2 for two angles",
        ))?;
        let spec = match spec.trim() {
            "euclidean" => format!("euclidean:{}", table.columns.len()),
            _ => spec,
        };
        Self::fit_since(began, &parse(&spec)?, None, choices, table, watch)
    }

    /// The same on a manifold of the caller's own, which [`Self::open_on`] needs again, with its
    /// default prior, which takes seconds to make.
    pub fn fit_on(
        geometry: &Geometry,
        choices: Choices,
        table: Table,
        watch: &Watch,
    ) -> Result<Self, RunError> {
        let Geometry { manifold, prior } = geometry;
        Self::fit_since(Instant::now(), manifold, Some(Arc::clone(prior)), choices, table, watch)
    }

    fn fit_since(
        began: Instant,
        manifold: &Arc<dyn Manifold>,
        prior: Option<Arc<dyn Prior>>,
        mut choices: Choices,
        table: Table,
        watch: &Watch,
    ) -> Result<Self, RunError> {
        let mut options = load_options(&choices.data)?;
        let own = options.columns.as_ref().map_or(table.columns.len(), Vec::len);
        if options.form.is_none() && !table.has_header && own == manifold.ambient_dim() {
            options.form = Some(Forms::single(Form::Ambient));
        }
        let data = dataset_from_table(table, manifold, &options, String::new())?;
        choices.data.source.get_or_insert_with(|| SOURCE.to_owned());
        let split = Split::without_test(&data.points, choices.seed)
            .map_err(|source| RunError::Split { name: SOURCE.to_owned(), source })?;
        let data = Data::described(data, split, false, SOURCE);
        let mut remarks = std::mem::take(&mut choices.remarks);
        remarks.extend(data.facts.findings.iter().cloned());

        let Prepared { settings, task, mut run } = prepare(choices, &data, prior, watch, began)?;
        remarks.extend(run.remarks());
        let mut record = MemoryRecorder::default();
        let is_done = drive(run.as_mut(), &mut record, watch)?;
        let finished = finish(run.as_ref())?;
        Ok(Self {
            settings,
            model: finished.model,
            data: Some(data),
            kernel: task.mixture.ok().filter(|_| !record.rows.is_empty()),
            outcome: Some(finished.outcome),
            curves: Curves { rows: record.rows, proposal: finished.proposal },
            stopped: !is_done || watch.is_stopped(),
            remarks,
        })
    }

    /// The finished run of a folder.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        Self::of(&StoredRun::open(path)?)
    }

    /// The finished run of a folder, on a manifold of the caller's own.
    pub fn open_on(path: &Path, manifold: Arc<dyn Manifold>) -> Result<Self, RunError> {
        Self::of(&StoredRun::open_on(path, manifold)?)
    }

    fn of(stored: &StoredRun) -> Result<Self, RunError> {
        let model = stored.model()?;
        let data = match stored.data() {
            Ok(data) => Some(data),
            // What `save` of a model alone leaves out.
            Err(RunError::MissingFile { .. }) => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            settings: stored.settings().clone(),
            model,
            data,
            kernel: stored.kernel()?.map(Arc::new),
            outcome: stored.outcome()?,
            curves: stored.curves()?,
            stopped: false,
            remarks: Vec::new(),
        })
    }

    /// Keeps the run in a folder, which [`Self::open`], [`crate::load`] and the command line read.
    pub fn save(&self, path: &Path) -> Result<(), RunError> {
        let dir = RunDir::create(path)?;
        if let Some(data) = &self.data {
            data.write(&dir)?;
        }
        write_prior(&dir, self.model.prior().as_ref())?;
        if let Some(kernel) = &self.kernel {
            dir.write(KERNEL, &write_mixture(kernel)?)?;
        }
        if !self.curves.rows.is_empty() {
            let mut metrics = dir.metrics_from(0)?;
            for row in &self.curves.rows {
                append(&mut metrics, row).map_err(io_error("writing", &dir.file(METRICS)))?;
            }
        }
        if !self.curves.proposal.is_empty() {
            let (s, q) = self.curves.proposal.iter().map(|[s, q]| (*s, *q)).unzip();
            dir.write_json(TIMES, &Times { s, q })?;
        }
        if let Some(outcome) = &self.outcome {
            dir.write_json(SUMMARY, outcome)?;
        }
        write_model(&dir, self.model.as_ref())?;
        // Last here: a folder without it holds no run.
        dir.write(CONFIG, self.settings.to_toml()?.as_bytes())
    }

    /// Everything that the run depends on.
    pub fn settings(&self) -> &RunSettings {
        &self.settings
    }

    /// The density.
    pub fn model(&self) -> &Arc<dyn Fitted> {
        &self.model
    }

    /// What is known of the data beside the points; none for a model that was kept without data.
    pub fn data_facts(&self) -> Option<&DataFile> {
        self.data.as_ref().map(|data| &data.facts)
    }

    /// The points that the model is judged on where no others are given: test, else validation.
    pub fn judged_points(&self) -> Result<Option<Points>, RunError> {
        let Some(Data { points, split, .. }) = &self.data else { return Ok(None) };
        let rows = if split.test.is_empty() { &split.validation } else { &split.test };
        Ok(Some(points.select(rows).map_err(SolveError::from)?))
    }

    /// How the training went.
    pub fn curves(&self) -> &Curves {
        &self.curves
    }

    /// How the run ended.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Whether the training was stopped before its end.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// What a user should know, in sentences.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// How points of the model are written: as the data were, else in the manifold's coordinates.
    pub fn output_form(&self) -> OutputForm {
        self.data_facts().map_or_else(
            || OutputForm {
                form: Forms::single(Form::Ambient),
                names: Vec::new(),
                format: FileFormat::Npy,
            },
            |facts| facts.output.clone(),
        )
    }

    /// How many columns points have in that form.
    pub fn columns(&self) -> Result<usize, RunError> {
        Ok(point_columns(&[], self.model.manifold().as_ref(), &self.output_form())?.len())
    }

    /// The points of other rows, read like the training data: columns without names in their order,
    /// and columns with names by these, where they tell the form.
    pub fn rows(&self, table: Table) -> Result<Points, RunError> {
        let (manifold, known) = (self.model.manifold(), self.output_form().form);
        let mut options = load_options(&self.settings.data)?;
        (options.filter, options.group_by) = (None, None);
        let read = |table: Table, options: &LoadOptions| -> Result<Dataset, DataError> {
            dataset_from_table(table, manifold, options, String::new())
        };
        if !table.has_header {
            // The columns of such rows are those of the form, as `sample` gives them.
            (options.columns, options.form) = (None, Some(known));
            return Ok(read(table, &options)?.points);
        }
        let found = match read(table.clone(), &options) {
            Err(problem) if options.form.is_none() && is_unclear(&problem) => {
                options.form = Some(known);
                // Where that does not help either, what was unclear is the better message.
                read(table, &options).map_err(|_| problem)?
            }
            found => found?,
        };
        Ok(found.points)
    }

    /// log p of points in nats, to the tolerance of the run's evaluations.
    pub fn log_density(&self, points: &Points, watch: &Watch) -> Result<Vec<f64>, RunError> {
        let tolerance = self.settings.evaluate.tolerance;
        let scored = || self.model.log_density_to(points.rows(), tolerance);
        Ok(watch.stage("likelihood", scored)?.log_p)
    }

    /// Draws as columns in the form of the data.
    pub fn sample(&self, n: usize, seed: u64, watch: &Watch) -> Result<Vec<Column>, RunError> {
        self.sample_from(0, n, seed, watch)
    }

    /// The draws of a seed from row `first_row` on.
    pub fn sample_from(
        &self,
        first_row: usize,
        n: usize,
        seed: u64,
        watch: &Watch,
    ) -> Result<Vec<Column>, RunError> {
        let options = SampleOptions { seed, first_row, ..SampleOptions::default() };
        let drawn = watch.stage("samples", || self.model.sample_with(n, &options))?;
        let manifold = self.model.manifold().as_ref();
        Rows::new(&drawn, manifold.ambient_dim()).map_err(SolveError::from)?;
        Ok(point_columns(&drawn, manifold, &self.output_form())?)
    }

    /// Judges the model on points.
    pub fn evaluate(
        &self,
        points: &Points,
        options: &EvaluationOptions,
        seed: u64,
        watch: &Watch,
    ) -> Result<Evaluation, RunError> {
        let baselines = Baselines { kernel: self.kernel.as_deref(), truth: None };
        let model = self.model.as_ref();
        let mut found = evaluate(model, points, baselines, options, seed, watch)?;
        found.seed = Some(self.settings.seed);
        found.train_seconds = self.outcome.as_ref().map(|outcome| outcome.train_seconds);
        found.train_threads = self.outcome.as_ref().map(|outcome| outcome.threads);
        found.config_hash = Some(self.settings.hash()?);
        Ok(found)
    }
}

/// Keeps the record of a run in memory; a checkpoint would serve nobody there.
#[derive(Default)]
struct MemoryRecorder {
    rows: Vec<MetricsRow>,
}

impl Recorder for MemoryRecorder {
    fn record(&mut self, rows: &[MetricsRow]) -> Result<(), FitError> {
        self.rows.extend_from_slice(rows);
        Ok(())
    }

    fn checkpoint(&mut self, _run: &dyn Run, _at_end: bool) -> Result<(), FitError> {
        Ok(())
    }
}
