//! Training: batches of an objective, an optimiser and a moving average of the weights.

mod bound;
mod network_run;
mod smoothing;
mod state;
mod times;

use thiserror::Error;

use crate::checkpoint::{Arrays, Checkpoint};
use crate::density::Density;
use crate::error::SolveError;
use crate::nn::{FieldInput, Mlp, NetConfig, NnError, TrainWorkspace};
use crate::optim::{
    Adam, AdamConfig, Ema, MatrixPlace, OptimError, Optimiser, Schedule, Soap, clip_norm,
};
use crate::rng::Streams;
use crate::time::TimeError;

pub use bound::{Bound, ModelParts, TrainConfig, Trainer, Weighting};
pub use network_run::{
    Learner, LoopSettings, MetricsRow, NetworkRun, Outcome, VALIDATION_TOLERANCE,
};
pub use smoothing::{SmoothingTimes, Stretch};
pub use state::RestoreError;
pub use times::{FlowGradient, LearnedTimes, TimeSampling};

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

impl TimeReport {
    /// From losses that carry the factor 1/n each, and q(s)·(T − s_min) of their times.
    pub(crate) fn of(losses: &[f64], relative_density: impl Fn(usize) -> f64) -> Self {
        let n = losses.len() as f64;
        let (mut sum, mut absolute, mut square, mut uniform) = (0.0, 0.0, 0.0, 0.0);
        for (i, loss) in losses.iter().enumerate() {
            let value = loss * n;
            sum += value;
            absolute += value.abs();
            square += value * value;
            uniform += value * value * relative_density(i);
        }
        let second_moment = square / n;
        Self {
            variance: second_moment - (sum / n).powi(2),
            second_moment,
            second_moment_uniform: uniform / n,
            effective_share: if square > 0.0 { absolute * absolute / (n * square) } else { 1.0 },
        }
    }
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

/// What a network learns: batches, and a loss on them.
pub trait Objective: Send {
    /// Draws the batch of a step.
    fn draw(&mut self, step: u64) -> Result<(), TrainError>;

    /// Rows of a batch.
    fn rows(&self) -> usize;

    /// Where the network is evaluated first: what its inputs are normalised by.
    fn input(&self) -> Result<FieldInput<'_>, SolveError>;

    /// The loss of the batch and of each of its rows; its gradient is then in the workspace.
    fn gradient(
        &mut self,
        net: &Mlp<f32>,
        workspace: &mut TrainWorkspace<f32>,
        losses: &mut [f64],
    ) -> Result<f64, TrainError>;

    /// Where a row of the batch comes from: its row in the training data, and its time.
    fn origin(&self, row: usize) -> (usize, f64);

    /// How well the proposal of times serves, by the losses of the rows.
    fn time_report(&self, losses: &[f64]) -> TimeReport {
        TimeReport::of(losses, |_| 1.0)
    }

    /// What is left to do after the step of this number changed the network.
    fn after_step(
        &mut self,
        _step: u64,
        _net: &Mlp<f32>,
        _losses: &[f64],
    ) -> Result<(), TrainError> {
        Ok(())
    }

    /// The density of a network, evaluated to this tolerance.
    fn density(&self, net: Mlp<f32>, tolerance: f64) -> Result<Box<dyn Density>, TrainError>;

    /// Adds what the objective itself has learned to a checkpoint.
    fn save(&self, _own: &mut Arrays) {}

    /// Takes what [`Objective::save`] added out of a checkpoint.
    fn restore(&mut self, _own: &mut Arrays) -> Result<(), RestoreError> {
        Ok(())
    }
}

/// Rows of the training data for a batch, with replacement.
pub(crate) fn pick_rows(seed: u64, step: u64, rows: usize, picks: &mut [usize]) {
    let streams = Streams::new(seed, "train-rows").part(step);
    for (i, picked) in picks.iter_mut().enumerate() {
        let pick = (streams.stream(i as u64, 0).uniform() * rows as f64) as usize;
        *picked = pick.min(rows - 1);
    }
}

/// How the weights of a network move, whatever it learns.
#[derive(Clone, Debug)]
pub struct OptimiserConfig {
    /// Learning rates.
    pub schedule: Schedule,
    /// Which optimiser.
    pub optimiser: Optimiser,
    /// Its moments.
    pub adam: AdamConfig,
    /// Gradients longer than this are scaled down.
    pub clip: f64,
    /// Decay of the moving average of the weights.
    pub ema: f64,
    /// Seed of the weights.
    pub seed: u64,
    /// Gradient partitions: the most threads that a step can use. Results depend on neither.
    pub partitions: usize,
}

/// The weights of a network's layers, as matrices.
fn weight_matrices(net: &Mlp<f32>) -> Vec<MatrixPlace> {
    let layers = net.layout().views().iter().filter(|view| view.name.ends_with(".weight"));
    layers.map(|view| MatrixPlace { offset: view.offset, shape: view.shape }).collect()
}

/// A network in training.
pub struct NetworkTrainer<O> {
    objective: O,
    config: OptimiserConfig,
    net: Mlp<f32>,
    adam: Adam<f32>,
    soap: Option<Soap>,
    ema: Ema<f32>,
    workspace: TrainWorkspace<f32>,
    losses: Vec<f64>,
    step: u64,
    skipped: u64,
    skipped_in_a_row: u64,
}

impl<O: Objective> NetworkTrainer<O> {
    /// A new network that learns an objective.
    pub fn with_objective(
        objective: O,
        net: NetConfig,
        config: OptimiserConfig,
    ) -> Result<Self, TrainError> {
        let net = Mlp::<f32>::new(net, config.seed)?;
        let adam = Adam::new(config.adam, net.params().len())?;
        let soap = match config.optimiser {
            Optimiser::Adam => None,
            Optimiser::Soap => Some(Soap::new(&weight_matrices(&net))),
        };
        let ema = Ema::new(config.ema, net.params())?;
        let workspace = net.train_workspace(config.partitions);
        let losses = vec![0.0; objective.rows()];
        let (step, skipped, skipped_in_a_row) = (0, 0, 0);
        Ok(Self {
            objective,
            config,
            net,
            adam,
            soap,
            ema,
            workspace,
            losses,
            step,
            skipped,
            skipped_in_a_row,
        })
    }

    /// What the network learns.
    pub fn objective(&self) -> &O {
        &self.objective
    }

    /// What the network learned, without the network.
    pub fn into_objective(self) -> O {
        self.objective
    }

    /// The network with its present weights.
    pub fn net(&self) -> &Mlp<f32> {
        &self.net
    }

    /// The network with these weights.
    pub fn net_with(&self, weights: &[f32]) -> Result<Mlp<f32>, TrainError> {
        let mut net = self.net.clone();
        net.set_params(weights)?;
        Ok(net)
    }

    /// One step of the optimiser on one batch. A batch whose loss or gradient is not finite changes
    /// nothing and is counted; many in a row are an error.
    fn advance(&mut self) -> Result<StepReport, TrainError> {
        self.objective.draw(self.step)?;
        if !self.net.actnorm_ready() {
            self.net.init_actnorm(self.objective.input()?)?;
            self.ema = Ema::new(self.config.ema, self.net.params())?;
        }
        let computed = self.objective.gradient(&self.net, &mut self.workspace, &mut self.losses);
        let times = self.objective.time_report(&self.losses);
        let skipped = match computed {
            Ok(loss) if !loss.is_finite() => Skipped { quantity: "loss", value: loss, row: None },
            Ok(loss) => match self.clip() {
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
            Err(
                TrainError::Network(NnError::NotFinite { row, value, .. })
                | TrainError::Solve(SolveError::NotFinite { row, value, .. }),
            ) => Skipped { quantity: "loss", value, row: Some(row) },
            Err(other) => return Err(other),
        };
        self.skip(&skipped)?;
        self.step += 1;
        let (step, loss, gradient) = (self.step, skipped.value, f64::NAN);
        Ok(StepReport { step, loss, gradient, times, skipped: self.skipped })
    }

    /// Clips the gradient; its norm before.
    fn clip(&mut self) -> Result<f64, OptimError> {
        let (gradient, support) = self.workspace.gradient_mut();
        clip_norm(gradient, support, self.config.clip)
    }

    /// Moves weights and their average.
    fn update(&mut self) -> Result<(), TrainError> {
        let rate = self.config.schedule.rate(self.step);
        let (adam, soap) = (&mut self.adam, &mut self.soap);
        let (gradient, support) = self.workspace.gradient_mut();
        self.net.update_params(|params| match soap {
            None => adam.step_on(params, gradient, support, rate),
            Some(soap) => soap.step(adam, params, gradient, support, rate),
        })?;
        self.ema.update_often(self.net.params(), self.step, support.dense())?;
        self.skipped_in_a_row = 0;
        self.objective.after_step(self.step + 1, &self.net, &self.losses)
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
        let (step, times) = (self.step, self.skipped_in_a_row);
        let (data_row, s) = self.objective.origin(row);
        Err(TrainError::NotFinite { step, quantity, value, row, data_row, s, times })
    }
}

impl<O: Objective> Learner for NetworkTrainer<O> {
    fn step(&mut self) -> Result<StepReport, TrainError> {
        self.advance()
    }

    fn steps_done(&self) -> u64 {
        self.step
    }

    fn set_total_steps(&mut self, total: u64) {
        self.config.schedule.total = total;
    }

    fn averaged_weights(&self) -> &[f32] {
        self.ema.weights()
    }

    fn density(&self, tolerance: f64) -> Result<Box<dyn Density>, TrainError> {
        self.objective.density(self.net_with(self.ema.weights())?, tolerance)
    }

    fn checkpoint(&self, own: Arrays) -> Checkpoint<f32> {
        self.state(own)
    }

    fn restore(&mut self, checkpoint: Checkpoint<f32>) -> Result<Arrays, RestoreError> {
        self.set_state(checkpoint)
    }
}
