//! A training run of any network: steps, validation, the best weights, patience, and a budget of
//! time.

use std::marker::PhantomData;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{RestoreError, StepReport, TrainError};
use crate::checkpoint::{Arrays, Checkpoint};
use crate::density::Density;
use crate::error::SolveError;
use crate::points::Points;
use crate::stats::mean;
use crate::watch::{TrainingProgress, Watch};

/// Something that learns weights step by step and makes a density of them. `C` is what it keeps: a
/// network with its optimiser, or other weights.
pub trait Learner<C = Checkpoint<f32>>: Send {
    /// One step of the optimiser.
    fn step(&mut self) -> Result<StepReport, TrainError>;
    /// Steps done.
    fn steps_done(&self) -> u64;
    /// Changes the number of steps that the schedule is for.
    fn set_total_steps(&mut self, total: u64);
    /// The averaged weights.
    fn averaged_weights(&self) -> &[f32];
    /// The density with the averaged weights, evaluated to this tolerance.
    fn density(&self, tolerance: f64) -> Result<Box<dyn Density>, TrainError>;
    /// What is needed to go on, with the caller's own state beside it.
    fn checkpoint(&self, own: Arrays) -> C;
    /// Goes on from a checkpoint of the same configuration; returns the caller's own state.
    fn restore(&mut self, checkpoint: C) -> Result<Arrays, RestoreError>;
}

/// When a run validates and when it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoopSettings {
    /// Steps of the run.
    pub steps: u64,
    /// The time that the run and what came before it may take, in seconds; infinite where only the
    /// steps count.
    pub seconds: f64,
    /// Steps that a budget of time is used for, at most.
    pub most_steps: u64,
    /// Validations in a run.
    pub validations: u64,
    /// Validations without a better value after which the run ends.
    pub patience: u64,
    /// Up to this step every point has been seen so few times that none is learned by heart: later
    /// weights are better ones, and validations that say otherwise within their error are not
    /// believed.
    pub fresh_steps: u64,
}

/// One line of the record of a run; what was not measured at a step is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricsRow {
    /// Optimiser steps made.
    pub step: u64,
    /// Which network of a stack it is about, counted from 0; absent for the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<usize>,
    /// Seconds since the run began, fits before the first step included.
    pub seconds: f64,
    /// Mean loss since the line before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Mean length of the gradient before clipping.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gradient_norm: Option<f64>,
    /// Negative log-likelihood of the validation points, in nats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_nll: Option<f64>,
    /// Why a validation gave no likelihood.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation_error: Option<String>,
    /// Variance of the loss's estimator with times drawn from the proposal q.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variance_proposal: Option<f64>,
    /// The same with uniform times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variance_uniform: Option<f64>,
    /// Effective sample size of the batch under q, as a share of the batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_sample_size: Option<f64>,
    /// Steps of the whole run that were left out because their loss or gradient was not finite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<u64>,
    /// Steps of the run as planned from here on, where its pace has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planned_steps: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[derive(Default)]
pub struct Outcome {
    /// Steps made.
    pub steps: u64,
    /// The step whose weights are kept.
    pub best_step: u64,
    /// Their negative log-likelihood on the validation points, in nats; none without a validation.
    pub validation_nll: Option<f64>,
    /// Whether the run ended because validations stopped improving.
    pub stopped_early: bool,
    /// Seconds that the whole of it took.
    pub train_seconds: f64,
    /// Threads of the last process that worked on it.
    pub threads: usize,
    /// Seconds that it was to take, where it had a budget of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_seconds: Option<f64>,
    /// Steps that were planned when the run began, where the machine's pace changed that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_planned_steps: Option<u64>,
}

/// The weights that are kept so far.
#[derive(Clone, Debug)]
struct Best {
    nll: f64,
    /// The lowest value of any validation, which these weights have but for its error.
    lowest: f64,
    step: u64,
    weights: Vec<f32>,
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

/// Tolerance of validation: its error is far below the differences between models.
pub const VALIDATION_TOLERANCE: f64 = 1e-3;
/// Steps that are averaged in one line of the metrics.
const LOG_EVERY: u64 = 100;
/// The share of a budget that validations may take.
const VALIDATION_SHARE: f64 = 0.25;
/// The share of a budget by which a run may be off before its steps are planned again.
const ALLOWED_DRIFT: f64 = 0.04;

/// A run of a learner, from its first step or from a checkpoint to its end.
pub struct NetworkRun<L, C = Checkpoint<f32>> {
    learner: L,
    kept: PhantomData<fn() -> C>,
    settings: LoopSettings,
    validation: Points,
    best: Option<Best>,
    since_best: u64,
    window: Window,
    numbers: TrainingProgress,
    last_error: Option<String>,
    clock: RunClock,
}

/// Time spent, in this process and before.
struct RunClock {
    /// Seconds before `began`.
    before: f64,
    began: Instant,
    validating: f64,
    last_validation: f64,
    /// Where the present pace is measured from: step, seconds without validations. None before the
    /// first step of this process: what is done until then, such as writing files, is no pace.
    pace_from: Option<(u64, f64)>,
    first_planned: u64,
}

impl RunClock {
    fn seconds(&self) -> f64 {
        self.before + self.began.elapsed().as_secs_f64()
    }
}

impl<C, L: Learner<C>> NetworkRun<L, C> {
    /// A run that began `seconds_before` seconds ago, with fits and plans.
    pub fn new(
        mut learner: L,
        mut settings: LoopSettings,
        validation: Points,
        seconds_before: f64,
    ) -> Self {
        if settings.seconds.is_finite() && settings.steps > settings.most_steps {
            settings.steps = settings.most_steps;
            learner.set_total_steps(settings.steps);
        }
        Self {
            learner,
            kept: PhantomData,
            settings,
            validation,
            best: None,
            since_best: 0,
            window: Window::default(),
            numbers: TrainingProgress::default(),
            last_error: None,
            clock: RunClock {
                before: seconds_before,
                began: Instant::now(),
                validating: 0.0,
                last_validation: 0.0,
                pace_from: None,
                first_planned: settings.steps,
            },
        }
    }

    /// What learns.
    pub fn learner(&self) -> &L {
        &self.learner
    }

    /// Steps done and steps in all.
    pub fn steps(&self) -> (u64, u64) {
        (self.learner.steps_done(), self.settings.steps)
    }

    fn out_of_patience(&self) -> bool {
        self.since_best >= self.settings.patience
    }

    /// Whether there is nothing left to do.
    pub fn is_done(&self) -> bool {
        self.learner.steps_done() >= self.settings.steps || self.out_of_patience()
    }

    /// One step, with the validation that is due after it; lines for the record.
    pub fn advance(&mut self, watch: &Watch) -> Result<Vec<MetricsRow>, TrainError> {
        let mut rows = Vec::new();
        if self.clock.pace_from.is_none() {
            let worked = self.clock.seconds() - self.clock.validating;
            self.clock.pace_from = Some((self.learner.steps_done(), worked));
        }
        let report = self.learner.step()?;
        self.window.add(&report);
        let step = report.step;
        let is_last = step >= self.settings.steps;
        if step.is_multiple_of(LOG_EVERY) || is_last {
            rows.push(self.record(&report));
        }
        rows.extend(self.keep_to_budget());
        watch.training(step, self.settings.steps, self.numbers);
        let is_last = step >= self.settings.steps;
        let every = self.settings.steps.div_ceil(self.settings.validations.max(1)).max(1);
        if (step.is_multiple_of(every) || is_last)
            && self.may_validate(is_last)
            && let Some(row) = self.validate(watch)?
        {
            rows.push(row);
        }
        Ok(rows)
    }

    /// The mean numbers since the last record.
    fn record(&mut self, report: &StepReport) -> MetricsRow {
        let window = std::mem::take(&mut self.window);
        // A learner without times has no numbers of them.
        let known = |mean: &f64| window.steps > 0.0 && !mean.is_nan();
        let mean = |sum: f64| Some(window.mean(sum)).filter(known);
        self.numbers.loss = window.mean(window.loss);
        self.numbers.variance = window.mean(window.variance);
        MetricsRow {
            step: report.step,
            seconds: self.clock.seconds(),
            loss: mean(window.loss),
            gradient_norm: mean(window.gradient),
            variance_proposal: mean(window.variance),
            variance_uniform: mean(window.variance_uniform),
            effective_sample_size: mean(window.effective_share),
            skipped: Some(report.skipped),
            ..MetricsRow::default()
        }
    }

    /// Plans the steps again if the run would end too late or too early: the first plan was made
    /// from a second's work, and the load of a machine changes.
    fn keep_to_budget(&mut self) -> Option<MetricsRow> {
        let budget = self.settings.seconds;
        let (step, total) = self.steps();
        if !budget.is_finite() || step >= total {
            return None;
        }
        let clock = &mut self.clock;
        let now = clock.seconds();
        let (from, since) = clock.pace_from?;
        let worked = now - clock.validating - since;
        if worked < 0.02 * budget || step == from {
            return None;
        }
        let pace = worked / (step - from) as f64;
        clock.pace_from = Some((step, now - clock.validating));
        let every = total.div_ceil(self.settings.validations.max(1)).max(1);
        let validations = (total - 1) / every - step / every + 1;
        let reserved = (validations as f64 * clock.last_validation)
            .min((VALIDATION_SHARE * budget - clock.validating).max(clock.last_validation));
        let expected = now + (total - step) as f64 * pace + reserved;
        if (expected - budget).abs() <= ALLOWED_DRIFT * budget {
            return None;
        }
        let left = ((budget - now - reserved) / pace).max(1.0) as u64;
        let planned = (step + left).min(self.settings.most_steps);
        if planned == total {
            return None;
        }
        self.settings.steps = planned;
        self.learner.set_total_steps(self.settings.steps);
        let planned_steps = Some(self.settings.steps);
        Some(MetricsRow { step, seconds: now, planned_steps, ..MetricsRow::default() })
    }

    /// Whether the budget has room for one more validation (and for the last one after it).
    fn may_validate(&self, is_last: bool) -> bool {
        let (clock, budget) = (&self.clock, self.settings.seconds);
        let needed = if is_last { 1.0 } else { 2.0 } * clock.last_validation;
        clock.validating + needed <= VALIDATION_SHARE * budget || (is_last && self.best.is_none())
    }

    /// The validation NLL of the averaged weights, which are kept if it is the best so far, or if
    /// they must be better than what it says; none if it was stopped.
    fn validate(&mut self, watch: &Watch) -> Result<Option<MetricsRow>, TrainError> {
        let (began, (step, total)) = (Instant::now(), self.steps());
        let density = self.learner.density(VALIDATION_TOLERANCE)?;
        let found = watch.stage("validation", || density.log_density(self.validation.rows()));
        let mut row = MetricsRow { step, ..MetricsRow::default() };
        let mut error_of_mean = 0.0;
        let nll = match found {
            Err(SolveError::Stopped) => return Ok(None),
            Ok(log_p) => {
                let found = mean(&log_p);
                error_of_mean = found.se;
                -found.value
            }
            // A model that cannot be integrated yet is no better than none, and the record says
            // why.
            Err(error) => {
                row.validation_error = Some(error.to_string());
                self.last_error.clone_from(&row.validation_error);
                f64::INFINITY
            }
        };
        self.clock.last_validation = began.elapsed().as_secs_f64();
        self.clock.validating += self.clock.last_validation;
        let allowed = if step <= self.settings.fresh_steps { error_of_mean } else { 0.0 };
        let lowest = self.best.as_ref().map_or(nll, |best| best.lowest.min(nll));
        if self.best.as_ref().is_none_or(|best| nll < best.nll || nll < lowest + allowed) {
            let weights = self.learner.averaged_weights().to_vec();
            self.best = Some(Best { nll, lowest, step, weights });
            self.since_best = 0;
        } else {
            self.since_best += 1;
        }
        (row.seconds, row.validation_nll) = (self.clock.seconds(), Some(nll));
        self.numbers.validation_nll = Some(nll);
        watch.begin("training", total, step);
        watch.training(step, total, self.numbers);
        Ok(Some(row))
    }

    /// Everything that is needed to go on.
    pub fn checkpoint(&self) -> C {
        let mut own = Arrays::default();
        let mut put = |name: &str, value: Value| own.values.insert(name.into(), value);
        put("since_best", self.since_best.into());
        put("seconds", self.clock.seconds().into());
        put("validation_seconds", self.clock.validating.into());
        put("planned_steps", self.settings.steps.into());
        put("first_planned_steps", self.clock.first_planned.into());
        if let Some(best) = &self.best {
            put("best_step", best.step.into());
            own.arrays.insert("best_nll".into(), vec![best.nll, best.lowest]);
            own.arrays.insert("best".into(), best.weights.iter().map(|w| f64::from(*w)).collect());
        }
        self.learner.checkpoint(own)
    }

    /// Goes on from a checkpoint.
    pub fn restore(&mut self, checkpoint: C) -> Result<(), RestoreError> {
        let own = self.learner.restore(checkpoint)?;
        let whole = |name: &str| own.values.get(name).and_then(Value::as_u64);
        let number = |name: &str| own.values.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        self.since_best = whole("since_best").unwrap_or(0);
        self.settings.steps = whole("planned_steps").unwrap_or(self.settings.steps);
        self.learner.set_total_steps(self.settings.steps);
        self.clock = RunClock {
            before: number("seconds"),
            began: Instant::now(),
            validating: number("validation_seconds"),
            last_validation: 0.0,
            pace_from: None,
            first_planned: whole("first_planned_steps").unwrap_or(self.settings.steps),
        };
        if let Some(weights) = own.arrays.get("best") {
            let values = own.arrays.get("best_nll").map_or(&[][..], Vec::as_slice);
            let nll = values.first().copied().unwrap_or(f64::INFINITY);
            self.best = Some(Best {
                nll,
                // Checkpoints of former builds have none of their own.
                lowest: values.get(1).copied().unwrap_or(nll),
                step: whole("best_step").unwrap_or(0),
                weights: weights.iter().map(|w| *w as f32).collect(),
            });
        }
        Ok(())
    }

    /// The best weights and how the run went. A run that was stopped before a validation gave a
    /// likelihood keeps the averaged weights that it has.
    pub fn finish(&self) -> Result<(Vec<f32>, Outcome), TrainError> {
        let steps = self.learner.steps_done();
        let (weights, best_step, validation_nll) = match &self.best {
            Some(best) if best.nll.is_finite() => (best.weights.clone(), best.step, Some(best.nll)),
            Some(_) if self.is_done() => {
                let reason = self.last_error.clone().unwrap_or_else(|| "not finite".into());
                return Err(TrainError::NoFiniteValidation { reason });
            }
            _ => (self.learner.averaged_weights().to_vec(), steps, None),
        };
        let planned = self.clock.first_planned;
        let outcome = Outcome {
            steps,
            best_step,
            validation_nll,
            stopped_early: steps < self.settings.steps && self.out_of_patience(),
            train_seconds: self.clock.seconds(),
            threads: rayon::current_num_threads(),
            budget_seconds: Some(self.settings.seconds).filter(|s| s.is_finite()),
            first_planned_steps: (planned != self.settings.steps).then_some(planned),
        };
        Ok((weights, outcome))
    }
}
