//! A training run in its folder: steps, validation, checkpoints, the best weights.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use manifusion::checkpoint::{Arrays, Checkpoint};
use manifusion::divergence::Estimator;
use manifusion::field::FieldValues;
use manifusion::likelihood::{OdeLikelihoodOptions, log_density};
use manifusion::mixture::{Folds, Guide};
use manifusion::model::Diffusion;
use manifusion::ode::OdeOptions;
use manifusion::rng::Streams;
use manifusion::rows::Rows;
use manifusion::train::{StepReport, Trainer};
use serde_json::{Value, json};

use crate::model::{GUIDE, read_kernel};
use crate::progress::Progress;
use crate::recipe::train_config;
use crate::run::{RunDir, append, geometry};
use crate::settings::{GuideKind, Settings};
use crate::source::Part;

/// Tolerance of validation: its error is far below the differences between models.
const VALIDATION_TOLERANCE: f64 = 1e-3;
/// Steps that are averaged in one line of the metrics.
const LOG_EVERY: u64 = 100;
/// Field evaluations that a point's likelihood takes in a trained model, for the time plan.
const TYPICAL_EVALUATIONS: f64 = 150.0;

/// The best weights seen so far.
#[derive(Clone, Debug)]
struct Best {
    nll: f64,
    step: u64,
    weights: Vec<f32>,
}

/// How a run ended.
pub(crate) struct Outcome {
    pub(crate) steps: u64,
    pub(crate) best_step: u64,
    pub(crate) best_nll: f64,
    pub(crate) stopped_early: bool,
    pub(crate) seconds: f64,
}

/// A run in progress.
pub(crate) struct Session {
    dir: RunDir,
    settings: Settings,
    trainer: Trainer,
    validation: Vec<f64>,
    best: Option<Best>,
    since_best: u64,
    /// Seconds of training before this process.
    seconds_before: f64,
    started: Instant,
    metrics: File,
}

/// Sums over the steps since the last line of the metrics.
#[derive(Default)]
struct Window {
    steps: f64,
    loss: f64,
    gradient: f64,
    variance: f64,
    variance_uniform: f64,
    effective_share: f64,
}

impl Window {
    fn add(&mut self, report: &StepReport) {
        if !report.loss.is_finite() || !report.gradient.is_finite() {
            return;
        }
        self.steps += 1.0;
        self.loss += report.loss;
        self.gradient += report.gradient;
        self.variance += report.times.variance;
        self.variance_uniform += report.times.second_moment_uniform - report.loss.powi(2);
        self.effective_share += report.times.effective_share;
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.steps.max(1.0)
    }
}

/// Turns a budget of minutes into steps, by measuring; once, at the beginning of a run.
fn plan_steps(dir: &RunDir, settings: &Settings, train: &[f64], validation: usize) -> Result<u64> {
    const WARM_UP: u64 = 5;
    const MEASURED: Duration = Duration::from_millis(1500);
    let mut trial = settings.clone();
    trial.train.steps = Some(1_000_000);
    let mut trainer = new_trainer(dir, &trial, train.to_vec())?;
    for _ in 0..WARM_UP {
        trainer.step()?;
    }
    let (start, mut steps) = (Instant::now(), 0);
    while start.elapsed() < MEASURED || steps < 10 {
        trainer.step()?;
        steps += 1;
    }
    let per_step = start.elapsed().as_secs_f64() / f64::from(steps);
    let points = validation.min(settings.train.validation_points.unwrap_or(usize::MAX));
    let validations = settings.train.validations.unwrap_or(1) as f64;
    let per_validation =
        points as f64 * TYPICAL_EVALUATIONS * seconds_per_evaluation(&trainer.model()?, train)?;
    let budget = 60.0 * settings.train.minutes.unwrap_or(5.0);
    // Validation takes at most a third of the time, whatever it was planned to cost.
    let left = (budget - validations * per_validation).max(budget * 2.0 / 3.0);
    Ok(((left / per_step) as u64).max(1))
}

/// The time of one evaluation of the field with its exact divergence at one point, in a batch of many.
fn seconds_per_evaluation(model: &Diffusion, train: &[f64]) -> Result<f64> {
    let m = model.manifold.ambient_dim();
    let rows = (train.len() / m).min(128);
    let x = Rows::new(&train[..rows * m], m)?;
    let numbers: Vec<usize> = (0..rows).collect();
    let s = vec![(model.s_min * model.t_end).sqrt(); rows];
    let probes = Streams::new(0, "plan");
    let mut values = FieldValues::new(Estimator::Frame);
    let (start, mut calls) = (Instant::now(), 0);
    while calls < 3 || start.elapsed() < Duration::from_millis(100) {
        let (manifold, field) = (model.manifold.as_ref(), model.field.as_ref());
        values.evaluate(manifold, field, &numbers, x, &s, &probes)?;
        calls += 1;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(calls * rows as u32))
}

/// An error if a run with these settings could not start.
pub(crate) fn check_start(settings: &Settings, train: &[f64]) -> Result<()> {
    let mut trial = settings.clone();
    trial.train.steps = Some(1);
    let (manifold, prior) = geometry(&trial)?;
    let config = train_config(&trial, manifold.ambient_dim())?;
    Trainer::new(manifold, prior, train.to_vec(), config)?;
    Ok(())
}

fn new_trainer(dir: &RunDir, settings: &Settings, train: Vec<f64>) -> Result<Trainer> {
    let (manifold, prior) = geometry(settings)?;
    let config = train_config(settings, manifold.ambient_dim())?;
    let trainer = Trainer::new(manifold, prior, train, config)?;
    if settings.model.guide != Some(GuideKind::Kernel) {
        return Ok(trainer);
    }
    let folds = Folds { seed: settings.seed, ..Folds::default() };
    let s_min = settings.model.s_min.context("the run's configuration has no model.s_min")?;
    let guide = Guide::new(&read_kernel(dir, GUIDE)?, Some(folds), s_min)?;
    Ok(trainer.with_guide(Arc::new(guide))?)
}

impl Session {
    /// The run of a folder, from its last checkpoint if there is one.
    pub(crate) fn open(dir: RunDir) -> Result<Self> {
        let mut settings = dir.settings()?;
        let train = dir.part(Part::Train)?;
        let mut validation = dir.part(Part::Validation)?;
        let (manifold, _) = geometry(&settings)?;
        let m = manifold.ambient_dim();
        if settings.train.steps.is_none() {
            settings.train.steps = Some(plan_steps(&dir, &settings, &train, validation.len() / m)?);
            dir.write("config.toml", &settings.to_toml()?)?;
        }
        validation.truncate(m * settings.train.validation_points.unwrap_or(usize::MAX));
        let mut trainer = new_trainer(&dir, &settings, train)?;
        let (mut best, mut since_best, mut seconds_before) = (None, 0, 0.0);
        if dir.has("checkpoint.safetensors") {
            let own = trainer
                .restore(dir.checkpoint("checkpoint.safetensors")?)
                .with_context(|| dir.file("checkpoint.safetensors").display().to_string())?;
            since_best = own.values.get("since_best").and_then(Value::as_u64).unwrap_or(0);
            seconds_before = own.values.get("seconds").and_then(Value::as_f64).unwrap_or(0.0);
            if let Some(weights) = own.arrays.get("best") {
                let nll = own.arrays.get("best_nll").and_then(|v| v.first().copied());
                best = Some(Best {
                    nll: nll.unwrap_or(f64::INFINITY),
                    step: own.values.get("best_step").and_then(Value::as_u64).unwrap_or(0),
                    weights: weights.iter().map(|w| *w as f32).collect(),
                });
            }
        }
        let metrics = dir.metrics_from(trainer.steps_done())?;
        let started = Instant::now();
        Ok(Self {
            dir,
            settings,
            trainer,
            validation,
            best,
            since_best,
            seconds_before,
            started,
            metrics,
        })
    }

    fn seconds(&self) -> f64 {
        self.seconds_before + self.started.elapsed().as_secs_f64()
    }

    fn total(&self) -> u64 {
        self.settings.train.steps.unwrap_or(1)
    }

    fn validate_every(&self) -> u64 {
        self.total().div_ceil(self.settings.train.validations.unwrap_or(1)).max(1)
    }

    /// Trains to the end and writes the model.
    pub(crate) fn run(mut self, progress: &mut Progress) -> Result<Outcome> {
        let total = self.total();
        progress.start(total, self.trainer.steps_done());
        let mut window = Window::default();
        let mut last_checkpoint = Instant::now();
        let between_checkpoints = self.settings.train.checkpoint_seconds.unwrap_or(20.0);
        let mut stopped_early = self.out_of_patience();
        while self.trainer.steps_done() < total && !stopped_early {
            let report = self.trainer.step()?;
            window.add(&report);
            let step = report.step;
            if step.is_multiple_of(LOG_EVERY) || step == total {
                self.log(&report, &window)?;
                progress.step(step, window.mean(window.loss), window.mean(window.variance));
                window = Window::default();
            }
            if step.is_multiple_of(self.validate_every()) || step == total {
                let nll = self.validate()?;
                progress.validated(nll);
                stopped_early = self.out_of_patience();
            }
            if last_checkpoint.elapsed().as_secs_f64() >= between_checkpoints {
                self.save()?;
                last_checkpoint = Instant::now();
            }
        }
        self.save()?;
        let outcome = self.finish(stopped_early)?;
        progress.finish();
        Ok(outcome)
    }

    fn out_of_patience(&self) -> bool {
        self.since_best >= self.settings.train.patience.unwrap_or(u64::MAX)
    }

    fn log(&mut self, report: &StepReport, window: &Window) -> Result<()> {
        let line = json!({
            "step": report.step,
            "seconds": self.seconds(),
            "loss": window.mean(window.loss),
            "gradient_norm": window.mean(window.gradient),
            "variance_proposal": window.mean(window.variance),
            "variance_uniform": window.mean(window.variance_uniform),
            "effective_sample_size": window.mean(window.effective_share),
            "skipped": report.skipped,
        });
        append(&mut self.metrics, &line)
    }

    /// The validation NLL of the averaged weights; they are kept if it is the best so far.
    fn validate(&mut self) -> Result<f64> {
        let model = self.trainer.model()?;
        let m = model.manifold.ambient_dim();
        let ode = OdeOptions {
            rtol: VALIDATION_TOLERANCE,
            atol: VALIDATION_TOLERANCE,
            ..OdeOptions::default()
        };
        let options = OdeLikelihoodOptions { ode, ..OdeLikelihoodOptions::default() };
        let step = self.trainer.steps_done();
        let nll = match log_density(&model, Rows::new(&self.validation, m)?, &options) {
            Ok(found) => -found.log_p.iter().sum::<f64>() / found.log_p.len() as f64,
            // A model that cannot be integrated yet is no better than none, and the metrics say why.
            Err(error) => {
                let line = json!({ "step": step, "validation_error": error.to_string() });
                append(&mut self.metrics, &line)?;
                f64::INFINITY
            }
        };
        if self.best.as_ref().is_none_or(|best| nll < best.nll) {
            let weights = self.trainer.averaged_weights().to_vec();
            self.best = Some(Best { nll, step, weights });
            self.since_best = 0;
        } else {
            self.since_best += 1;
        }
        let line = json!({ "step": step, "seconds": self.seconds(), "validation_nll": nll });
        append(&mut self.metrics, &line)?;
        Ok(nll)
    }

    /// Everything that is needed to go on, in one file.
    fn save(&self) -> Result<()> {
        let mut own = Arrays::default();
        own.values.insert("since_best".into(), self.since_best.into());
        own.values.insert("seconds".into(), self.seconds().into());
        if let Some(best) = &self.best {
            own.values.insert("best_step".into(), best.step.into());
            own.arrays.insert("best_nll".into(), vec![best.nll]);
            own.arrays.insert("best".into(), best.weights.iter().map(|w| f64::from(*w)).collect());
        }
        let path = self.dir.file("checkpoint.safetensors");
        self.trainer.checkpoint(own).write(&path).context("writing the checkpoint")
    }

    /// Writes the model with the best weights, and what the run was like.
    fn finish(self, stopped_early: bool) -> Result<Outcome> {
        let best = self.best.clone().context("the run ended without a validation")?;
        if !best.nll.is_finite() {
            bail!(
                "no validation of the run gave a finite likelihood, so no model is written; {} says why",
                self.dir.file("metrics.jsonl").display()
            );
        }
        let mut net = self.trainer.checkpoint(Arrays::default()).net;
        net.set_params(&best.weights)?;
        let mut model = Checkpoint::new(net);
        model.extra.insert("best_step".into(), best.step.into());
        self.write_times()?;
        let outcome = Outcome {
            steps: self.trainer.steps_done(),
            best_step: best.step,
            best_nll: best.nll,
            stopped_early,
            seconds: self.seconds(),
        };
        self.dir.write_json(
            "summary.json",
            &json!({
                "steps": outcome.steps,
                "best_step": outcome.best_step,
                "validation_nll": outcome.best_nll,
                "stopped_early": outcome.stopped_early,
                "train_seconds": outcome.seconds,
                "threads": rayon::current_num_threads(),
            }),
        )?;
        // Last: a folder with a model is finished.
        model.write(&self.dir.file("model.safetensors")).context("writing the model")?;
        Ok(outcome)
    }

    /// q(s) at the end, on a grid, for plots.
    fn write_times(&self) -> Result<()> {
        const POINTS: usize = 200;
        let proposal = self.trainer.proposal();
        let (s_min, t_end) = proposal.support();
        let at = |i: usize| s_min * (t_end / s_min).powf(i as f64 / (POINTS - 1) as f64);
        let s: Vec<f64> = (0..POINTS).map(at).collect();
        let q: Vec<f64> = s.iter().map(|s| proposal.log_density(*s).exp()).collect();
        self.dir.write_json("times.json", &json!({ "s": s, "q": q }))
    }
}
