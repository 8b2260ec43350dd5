//! Training: noised batches, the loss, Adam and a moving average of the weights.

mod network_run;
mod smoothing;
mod state;
mod times;

use std::sync::Arc;

use thiserror::Error;

use crate::checkpoint::{Arrays, Checkpoint};
use crate::density::Density;
use crate::error::SolveError;
use crate::field::{Field, InLogCoordinates, PriorScore, SumField};
use crate::flow_density::FlowOptions;
use crate::heat_kernel::TransitionKernel;
use crate::loss::{LossBatch, LossKind};
use crate::manifold::{LogCoordinates, Manifold};
use crate::model::Diffusion;
use crate::nn::{Mlp, NetConfig, NnError, TrainWorkspace};
use crate::optim::{Adam, AdamConfig, Ema, OptimError, Schedule, clip_norm};
use crate::path::{NoisingPath, PathChoice, Smoothing};
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut};
use crate::time::{Proposal, TimeError};

pub use network_run::{
    Learner, LoopSettings, MetricsRow, NetworkRun, Outcome, VALIDATION_TOLERANCE,
};
pub use smoothing::SmoothingTimes;
pub use state::RestoreError;
pub use times::{FlowGradient, LearnedTimes, TimeSampling};

use times::Times;

/// Why training could not go on.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum TrainError {
    /// Noise, kernel or shapes.
    #[error(transparent)]
    Solve(#[from] SolveError),
    /// The network.
    #[error(transparent)]
    Network(#[from] NnError),
    /// The optimiser.
    #[error(transparent)]
    Optimiser(#[from] OptimError),
    /// The proposal of times.
    #[error(transparent)]
    Time(#[from] TimeError),
    /// A run whose validations all failed.
    #[error(
        "no validation of the run gave a finite likelihood, so no model is written; the last one \
         said: {reason}"
    )]
    NoFiniteValidation {
        /// What the last validation said.
        reason: String,
    },
    /// Losses or gradients that stay NaN or infinite.
    #[error(
        "step {step}: the {quantity} is {value} for the {times}th time in a row (batch row {row}, \
         training row {data_row}, s = {s:.3e}); try a smaller learning rate or a larger s_min"
    )]
    NotFinite {
        /// Step of the run.
        step: u64,
        /// `loss`, or `gradient` where the loss is finite.
        quantity: &'static str,
        /// Its value; the norm of a gradient.
        value: f64,
        /// Row of the batch: the first without a finite loss, or that of the largest loss.
        row: usize,
        /// Its row in the training data.
        data_row: usize,
        /// Its time.
        s: f64,
        /// Steps in a row.
        times: u64,
    },
}

/// Everything that a run depends on beside its data.
#[derive(Clone, Debug)]
pub struct TrainConfig {
    /// The network.
    pub net: NetConfig,
    /// The form of the bound.
    pub loss: LossKind,
    /// How Y_s is drawn.
    pub path: PathChoice,
    /// Proposal of times.
    pub times: TimeSampling,
    /// Smallest noising time of the model.
    pub s_min: f64,
    /// T.
    pub t_end: f64,
    /// Whether the network sees the logarithm of points of hyperbolic space instead of their
    /// coordinates, which grow like e^r.
    pub log_coordinates: bool,
    /// Whether the network is added to the prior's score, so that a run starts as the prior.
    /// Without effect where that is zero.
    pub prior_score: bool,
    /// Rows per step.
    pub batch: usize,
    /// Learning rates.
    pub schedule: Schedule,
    /// Adam.
    pub adam: AdamConfig,
    /// Gradients longer than this are scaled down.
    pub clip: f64,
    /// Decay of the moving average of the weights.
    pub ema: f64,
    /// Seed of weights, batches, times and noise.
    pub seed: u64,
    /// Gradient partitions: parts of a batch whose gradients threads can compute side by side. Part
    /// of the arithmetic, so that results do not depend on the number of threads.
    pub partitions: usize,
}

/// What a step did.
#[derive(Clone, Copy, Debug)]
pub struct StepReport {
    /// Steps done, this one included.
    pub step: u64,
    /// The batch's estimate of the (negative) bound's integral.
    pub loss: f64,
    /// Length of the gradient before clipping.
    pub gradient: f64,
    /// How well q(s) serves the estimator.
    pub times: TimeReport,
    /// Steps of the whole run that were left out because their loss or gradient was not finite;
    /// this one is left out if `loss` is not finite.
    pub skipped: u64,
}

/// The second moment of the bound's estimator I = ℓ(s)/q(s), on one batch.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeReport {
    /// Variance of I over the batch.
    pub variance: f64,
    /// The mean of I² with q.
    pub second_moment: f64,
    /// What it would be with uniform times, by reweighting.
    pub second_moment_uniform: f64,
    /// (E|I|)² over the second moment, the share of the batch that counts.
    pub effective_share: f64,
}

/// Steps in a row without a finite loss after which a run stops.
const MAX_SKIPPED_IN_A_ROW: u64 = 20;

/// Why a step is left out.
struct Skipped {
    quantity: &'static str,
    value: f64,
    /// The row at fault, where it is known.
    row: Option<usize>,
}

/// A run in progress.
pub struct Trainer {
    config: TrainConfig,
    manifold: Arc<dyn Manifold>,
    prior: Arc<dyn Prior>,
    path: NoisingPath,
    kernel: Option<TransitionKernel>,
    times: Times,
    data: Vec<f64>,
    net: Mlp<f32>,
    adam: Adam<f32>,
    ema: Ema<f32>,
    workspace: TrainWorkspace<f32>,
    batch: LossBatch,
    picks: Vec<usize>,
    y0: Vec<f64>,
    log_q: Vec<f64>,
    losses: Vec<f64>,
    step: u64,
    skipped: u64,
    skipped_in_a_row: u64,
    smoothing: Option<SmoothingTimes>,
}

impl Trainer {
    /// A run on `data`, rows of points on the manifold.
    pub fn new(
        manifold: Arc<dyn Manifold>,
        prior: Arc<dyn Prior>,
        data: Vec<f64>,
        config: TrainConfig,
    ) -> Result<Self, TrainError> {
        let m = manifold.ambient_dim();
        let rows = Rows::new(&data, m).map_err(SolveError::from)?;
        for (row, x) in rows.rows().enumerate() {
            manifold.check_point(x).map_err(SolveError::at(row, 0.0))?;
        }
        if config.batch == 0 {
            let expected = "at least one row per step";
            let setting = SolveError::Setting { name: "batch", value: 0.0, expected };
            return Err(setting.into());
        }
        let path = NoisingPath::new(Arc::clone(&manifold), Arc::clone(&prior), config.path)?;
        let kernel = match config.loss {
            LossKind::Denoising => Some(TransitionKernel::new(manifold.as_ref(), prior.as_ref())?),
            LossKind::Implicit(estimator) => {
                estimator.check(manifold.as_ref())?;
                None
            }
        };
        let times = Times::new(config.times, config.s_min, config.t_end, config.seed)?;
        let net = Mlp::<f32>::new(config.net.clone(), config.seed)?;
        let adam = Adam::new(config.adam, net.params().len())?;
        let ema = Ema::new(config.ema, net.params())?;
        let workspace = net.train_workspace(config.partitions);
        let n = config.batch;
        let driftless = prior.is_driftless();
        let coordinates =
            config.log_coordinates.then(|| LogCoordinates::new(manifold.as_ref())).flatten();
        Ok(Self {
            manifold,
            prior,
            path,
            kernel,
            times,
            data,
            net,
            adam,
            ema,
            workspace,
            batch: LossBatch::new(n, m)
                .with_coordinates(coordinates)
                .with_prior_score(config.prior_score && !driftless),
            picks: vec![0; n],
            y0: vec![0.0; n * m],
            log_q: vec![0.0; n],
            losses: vec![0.0; n],
            step: 0,
            skipped: 0,
            skipped_in_a_row: 0,
            smoothing: None,
            config,
        })
    }

    /// The same run on data that are smoothed for these times.
    pub fn with_smoothing(mut self, smoothing: SmoothingTimes) -> Result<Self, TrainError> {
        smoothing.check(self.data.len() / self.manifold.ambient_dim())?;
        self.batch.smoothing = vec![0.0; self.config.batch];
        self.smoothing = Some(smoothing);
        Ok(self)
    }

    /// Steps done.
    pub fn steps_done(&self) -> u64 {
        self.step
    }

    /// What the run depends on.
    pub fn config(&self) -> &TrainConfig {
        &self.config
    }

    /// q(s) as it stands.
    pub fn proposal(&self) -> &dyn Proposal {
        self.times.proposal()
    }

    /// The same run to another number of steps in all: what is left of the schedule is stretched.
    pub fn set_total_steps(&mut self, total: u64) {
        self.config.schedule.total = total;
    }

    /// The averaged weights.
    pub fn averaged_weights(&self) -> &[f32] {
        self.ema.weights()
    }

    /// One step of Adam on one batch. A batch whose loss or gradient is not finite changes nothing
    /// and is counted; many in a row are an error.
    pub fn step(&mut self) -> Result<StepReport, TrainError> {
        self.draw_batch()?;
        if !self.net.actnorm_ready() {
            self.net.init_actnorm(self.batch.input(self.manifold.ambient_dim())?)?;
            self.ema = Ema::new(self.config.ema, self.net.params())?;
        }
        let computed = {
            let form = self.batch.row_loss(self.manifold.as_ref(), self.config.loss);
            let input = self.batch.input(self.manifold.ambient_dim())?;
            let (workspace, losses) = (&mut self.workspace, &mut self.losses);
            self.net.loss_gradient(input, &form, workspace, losses, None)
        };
        let times = self.time_report();
        let skipped = match computed {
            Ok(loss) if !loss.is_finite() => Skipped { quantity: "loss", value: loss, row: None },
            Ok(loss) => match clip_norm(self.workspace.gradient_mut(), self.config.clip) {
                Ok(gradient) => {
                    self.update()?;
                    self.step += 1;
                    let (step, skipped) = (self.step, self.skipped);
                    return Ok(StepReport { step, loss, gradient, times, skipped });
                }
                Err(OptimError::NotFinite { norm }) => {
                    Skipped { quantity: "gradient", value: norm, row: None }
                }
                Err(other) => return Err(other.into()),
            },
            Err(NnError::NotFinite { row, value, .. }) => {
                Skipped { quantity: "loss", value, row: Some(row) }
            }
            Err(other) => return Err(other.into()),
        };
        self.skip(&skipped)?;
        self.step += 1;
        let (step, loss, gradient) = (self.step, skipped.value, f64::NAN);
        Ok(StepReport { step, loss, gradient, times, skipped: self.skipped })
    }

    /// Moves weights, their average and, when it is due, the proposal of times.
    fn update(&mut self) -> Result<(), TrainError> {
        let rate = self.config.schedule.rate(self.step);
        let (adam, workspace) = (&mut self.adam, &self.workspace);
        self.net.update_params(|params| adam.step(params, workspace.gradient(), rate))?;
        self.ema.update(self.net.params(), self.step)?;
        self.skipped_in_a_row = 0;
        match self.times.due(self.step + 1) {
            Some(gradient) => self.learn_times(gradient),
            None => Ok(()),
        }
    }

    /// Counts a step that is left out.
    fn skip(&mut self, skipped: &Skipped) -> Result<(), TrainError> {
        self.skipped += 1;
        self.skipped_in_a_row += 1;
        if self.skipped_in_a_row < MAX_SKIPPED_IN_A_ROW {
            return Ok(());
        }
        let Skipped { quantity, value, row } = *skipped;
        // NaN and infinity count as the largest.
        let size = |i: &usize| self.losses[*i].abs();
        let largest = || (0..self.losses.len()).max_by(|a, b| size(a).total_cmp(&size(b)));
        let row = row.or_else(largest).unwrap_or(0);
        let (step, s, times) = (self.step, self.batch.s[row], self.skipped_in_a_row);
        let data_row = self.picks[row];
        Err(TrainError::NotFinite { step, quantity, value, row, data_row, s, times })
    }

    fn time_report(&self) -> TimeReport {
        let n = self.losses.len() as f64;
        let span = self.config.t_end - self.config.s_min;
        let (mut sum, mut absolute, mut square, mut uniform) = (0.0, 0.0, 0.0, 0.0);
        for (loss, log_q) in self.losses.iter().zip(&self.log_q) {
            // The rows' losses carry the factor 1/n.
            let value = loss * n;
            sum += value;
            absolute += value.abs();
            square += value * value;
            uniform += value * value * log_q.exp() * span;
        }
        let second_moment = square / n;
        TimeReport {
            variance: second_moment - (sum / n).powi(2),
            second_moment,
            second_moment_uniform: uniform / n,
            effective_share: if square > 0.0 { absolute * absolute / (n * square) } else { 1.0 },
        }
    }

    /// One step of the proposal on the batch that the network has just seen.
    fn learn_times(&mut self, gradient: FlowGradient) -> Result<(), TrainError> {
        let n = self.losses.len() as f64;
        let of_row = |(loss, log_q): (&f64, &f64)| loss * n * log_q.exp();
        let losses: Vec<f64> = self.losses.iter().zip(&self.log_q).map(of_row).collect();
        match gradient {
            FlowGradient::Unbiased => self.times.learn(&losses, None),
            FlowGradient::Reparameterised => {
                let slopes = self.loss_slopes()?;
                self.times.learn(&losses, Some(&slopes))
            }
        }
    }

    /// dℓ/ds of the batch's rows with Y_s held fixed, by central differences: the loss is smooth in
    /// ln s, so a step of 1e-2 there costs less than the network's single precision.
    fn loss_slopes(&self) -> Result<Vec<f64>, TrainError> {
        const STEP: f64 = 1e-2;
        let (m, n) = (self.manifold.ambient_dim(), self.losses.len());
        let mut workspace = self.net.train_workspace(self.config.partitions);
        let mut sides = [vec![0.0; n], vec![0.0; n]];
        let probes = Streams::new(self.config.seed, "train-probes").part(self.step);
        let y0 = Rows::new(&self.y0, m).map_err(SolveError::from)?;
        for (side, losses) in [-STEP, STEP].into_iter().zip(&mut sides) {
            let mut batch = self.batch.clone();
            batch.weight.fill(1.0);
            for s in &mut batch.s {
                *s *= side.exp();
            }
            let (manifold, prior) = (self.manifold.as_ref(), self.prior.as_ref());
            batch.prepare(manifold, prior, self.config.loss, self.kernel.as_ref(), y0, &probes)?;
            let form = batch.row_loss(manifold, self.config.loss);
            self.net.loss_gradient(batch.input(m)?, &form, &mut workspace, losses, None)?;
        }
        let [below, above] = sides;
        let slope = |((s, below), above): ((&f64, f64), f64)| (above - below) / (2.0 * STEP * s);
        Ok(self.batch.s.iter().zip(below).zip(above).map(slope).collect())
    }

    /// Rows with replacement, times from q, noise, and what the loss needs there.
    fn draw_batch(&mut self) -> Result<(), TrainError> {
        let m = self.manifold.ambient_dim();
        let (n, seed) = (self.config.batch, self.config.seed);
        let rows = self.data.len() / m;
        let picks = Streams::new(seed, "train-rows").part(self.step);
        for (i, (y0, picked)) in self.y0.chunks_exact_mut(m).zip(&mut self.picks).enumerate() {
            let pick = (picks.stream(i as u64, 0).uniform() * rows as f64) as usize;
            *picked = pick.min(rows - 1);
            y0.copy_from_slice(&self.data[*picked * m..(*picked + 1) * m]);
        }
        let times = Streams::new(seed, "train-times");
        self.times.fill(&times, self.step, &mut self.batch.s, &mut self.log_q);
        let around = Streams::new(seed, "train-smoothing").part(self.step);
        if let Some(smoothing) = &self.smoothing {
            for (i, (time, point)) in self.batch.smoothing.iter_mut().zip(&self.picks).enumerate() {
                *time = smoothing.draw(*point, around.stream(i as u64, 0).uniform());
            }
        }
        for (weight, log_q) in self.batch.weight.iter_mut().zip(&self.log_q) {
            *weight = (-log_q).exp() / n as f64;
        }
        let noise = Streams::new(seed, "train-noise").part(self.step);
        let displaced = around.part(0);
        let smoothed_for = self.batch.smoothing.as_slice();
        let smoothing =
            self.smoothing.as_ref().map(|_| Smoothing { times: smoothed_for, streams: &displaced });
        let y0 = Rows::new(&self.y0, m).map_err(SolveError::from)?;
        let y = RowsMut::new(&mut self.batch.y, m).map_err(SolveError::from)?;
        self.path.sample_smoothed(y0, &self.batch.s, smoothing, &noise, 0, y)?;
        let probes = Streams::new(seed, "train-probes").part(self.step);
        let (manifold, prior) = (self.manifold.as_ref(), self.prior.as_ref());
        self.batch.prepare(manifold, prior, self.config.loss, self.kernel.as_ref(), y0, &probes)?;
        Ok(())
    }

    /// The model with the averaged weights.
    pub fn model(&self) -> Result<Diffusion, TrainError> {
        self.model_with(self.ema.weights())
    }

    /// The model with these weights.
    pub fn model_with(&self, weights: &[f32]) -> Result<Diffusion, TrainError> {
        let mut net = self.net.clone();
        net.set_params(weights)?;
        Ok(ModelParts {
            manifold: Arc::clone(&self.manifold),
            prior: Arc::clone(&self.prior),
            net: Arc::new(net),
            s_min: self.config.s_min,
            t_end: self.config.t_end,
            log_coordinates: self.config.log_coordinates,
            prior_score: self.config.prior_score,
        }
        .assemble())
    }
}

impl Learner for Trainer {
    fn step(&mut self) -> Result<StepReport, TrainError> {
        Trainer::step(self)
    }

    fn steps_done(&self) -> u64 {
        Trainer::steps_done(self)
    }

    fn set_total_steps(&mut self, total: u64) {
        Trainer::set_total_steps(self, total);
    }

    fn averaged_weights(&self) -> &[f32] {
        Trainer::averaged_weights(self)
    }

    fn density(&self, tolerance: f64) -> Result<Box<dyn Density>, TrainError> {
        Ok(Box::new(self.model()?.flow(FlowOptions::with_tolerance(tolerance))))
    }

    fn checkpoint(&self, own: Arrays) -> Checkpoint<f32> {
        Trainer::checkpoint(self, own)
    }

    fn restore(&mut self, checkpoint: Checkpoint<f32>) -> Result<Arrays, RestoreError> {
        Trainer::restore(self, checkpoint)
    }
}

/// What a trained model consists of.
#[derive(Clone, Debug)]
pub struct ModelParts {
    /// M.
    pub manifold: Arc<dyn Manifold>,
    /// p₀.
    pub prior: Arc<dyn Prior>,
    /// The network.
    pub net: Arc<dyn Field>,
    /// Smallest noising time of the model.
    pub s_min: f64,
    /// T.
    pub t_end: f64,
    /// Whether the network sees logarithms of points of hyperbolic space.
    pub log_coordinates: bool,
    /// Whether the network is added to the prior's score.
    pub prior_score: bool,
}

impl ModelParts {
    /// The model: the network in its coordinates, added to the prior's score where it is.
    pub fn assemble(self) -> Diffusion {
        let Self { manifold, prior, net, s_min, t_end, .. } = self;
        let coordinates =
            self.log_coordinates.then(|| LogCoordinates::new(manifold.as_ref())).flatten();
        let net: Arc<dyn Field> = match coordinates {
            Some(coordinates) => Arc::new(InLogCoordinates { field: net, coordinates }),
            None => net,
        };
        let field: Arc<dyn Field> = if self.prior_score && !prior.is_driftless() {
            Arc::new(SumField(vec![Arc::new(PriorScore(Arc::clone(&prior))), net]))
        } else {
            net
        };
        Diffusion { manifold, prior, field, s_min, t_end }
    }
}
