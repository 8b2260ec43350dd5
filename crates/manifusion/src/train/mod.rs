//! Training: noised batches, the loss, Adam and a moving average of the weights.

use std::sync::Arc;

use thiserror::Error;

use crate::error::SolveError;
use crate::kernel::TransitionKernel;
use crate::loss::{LossBatch, LossKind};
use crate::manifold::Manifold;
use crate::model::Diffusion;
use crate::nn::{Mlp, NetConfig, NnError, TrainWorkspace};
use crate::optim::{Adam, AdamConfig, Ema, OptimError, Schedule, clip_norm};
use crate::path::{NoisingPath, PathChoice};
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut};
use crate::time::{LogUniform, Proposal, TimeError, Uniform};

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
    /// A loss that is NaN or infinite.
    #[error("step {step}: the loss is {loss} (first at row {row}, s = {s:.3e})")]
    NotFinite {
        /// Step of the run.
        step: u64,
        /// The loss.
        loss: f64,
        /// Row of the batch.
        row: usize,
        /// Its time.
        s: f64,
    },
}

/// How training times are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSampling {
    /// Uniform on [s_min, T].
    Uniform,
    /// Uniform in log s: near the optimum for concentrated data.
    LogUniform,
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
    /// Smallest noising time.
    pub s_min: f64,
    /// T.
    pub t_end: f64,
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
    /// Parts of a batch that threads can take; part of the arithmetic.
    pub lanes: usize,
}

/// What a step did.
#[derive(Clone, Copy, Debug)]
pub struct StepReport {
    /// Steps done.
    pub step: u64,
    /// The batch's estimate of the (negative) bound's integral.
    pub loss: f64,
    /// Length of the gradient before clipping.
    pub gradient: f64,
}

/// A run in progress.
pub struct Trainer {
    config: TrainConfig,
    manifold: Arc<dyn Manifold>,
    prior: Arc<dyn Prior>,
    path: NoisingPath,
    kernel: Option<TransitionKernel>,
    proposal: Box<dyn Proposal>,
    data: Vec<f64>,
    net: Mlp<f32>,
    adam: Adam<f32>,
    ema: Ema<f32>,
    workspace: TrainWorkspace<f32>,
    batch: LossBatch,
    y0: Vec<f64>,
    losses: Vec<f64>,
    step: u64,
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
        let path = NoisingPath::new(Arc::clone(&manifold), Arc::clone(&prior), config.path)?;
        let kernel = match config.loss {
            LossKind::Denoising => Some(TransitionKernel::new(manifold.as_ref(), prior.as_ref())?),
            LossKind::Implicit(estimator) => {
                estimator.check(manifold.as_ref())?;
                None
            }
        };
        let proposal: Box<dyn Proposal> = match config.times {
            TimeSampling::Uniform => Box::new(Uniform::new(config.s_min, config.t_end)?),
            TimeSampling::LogUniform => Box::new(LogUniform::new(config.s_min, config.t_end)?),
        };
        let net = Mlp::<f32>::new(config.net.clone(), config.seed)?;
        let adam = Adam::new(config.adam, net.params().len())?;
        let ema = Ema::new(config.ema, net.params())?;
        let workspace = net.train_workspace(config.lanes);
        let n = config.batch;
        let batch = LossBatch::new(n, m);
        let (y0, losses) = (vec![0.0; n * m], vec![0.0; n]);
        Ok(Self {
            config,
            manifold,
            prior,
            path,
            kernel,
            proposal,
            data,
            net,
            adam,
            ema,
            workspace,
            batch,
            y0,
            losses,
            step: 0,
        })
    }

    /// One step of Adam on one batch.
    pub fn step(&mut self) -> Result<StepReport, TrainError> {
        self.draw_batch()?;
        if !self.net.actnorm_ready() {
            self.net.init_actnorm(self.batch.input(self.manifold.ambient_dim())?)?;
            self.ema = Ema::new(self.config.ema, self.net.params())?;
        }
        let loss_form = self.batch.row_loss(self.manifold.as_ref(), self.config.loss);
        let input = self.batch.input(self.manifold.ambient_dim())?;
        let loss = self.net.loss_gradient(
            input,
            &loss_form,
            &mut self.workspace,
            &mut self.losses,
            None,
        )?;
        if !loss.is_finite() {
            let row = self.losses.iter().position(|l| !l.is_finite()).unwrap_or(0);
            let (step, s) = (self.step, self.batch.s[row]);
            return Err(TrainError::NotFinite { step, loss, row, s });
        }
        let gradient = clip_norm(self.workspace.gradient_mut(), self.config.clip)?;
        let rate = self.config.schedule.rate(self.step);
        let (adam, workspace) = (&mut self.adam, &self.workspace);
        self.net.update_params(|params| adam.step(params, workspace.gradient(), rate))?;
        self.ema.update(self.net.params())?;
        self.step += 1;
        Ok(StepReport { step: self.step, loss, gradient })
    }

    /// Rows with replacement, times from q, noise, and what the loss needs there.
    fn draw_batch(&mut self) -> Result<(), TrainError> {
        let m = self.manifold.ambient_dim();
        let (n, seed) = (self.config.batch, self.config.seed);
        let rows = self.data.len() / m;
        let picks = Streams::new(seed, "train-rows").part(self.step);
        for (i, y0) in self.y0.chunks_exact_mut(m).enumerate() {
            let pick = (picks.stream(i as u64, 0).uniform() * rows as f64) as usize;
            let pick = pick.min(rows - 1);
            y0.copy_from_slice(&self.data[pick * m..(pick + 1) * m]);
        }
        let times = Streams::new(seed, "train-times");
        self.proposal.fill(&times, self.step, &mut self.batch.s, &mut self.batch.weight);
        for weight in &mut self.batch.weight {
            *weight = (-*weight).exp() / n as f64;
        }
        let noise = Streams::new(seed, "train-noise").part(self.step);
        let y0 = Rows::new(&self.y0, m).map_err(SolveError::from)?;
        let y = RowsMut::new(&mut self.batch.y, m).map_err(SolveError::from)?;
        self.path.sample(y0, &self.batch.s, &noise, 0, y)?;
        let probes = Streams::new(seed, "train-probes").part(self.step);
        let (manifold, prior) = (self.manifold.as_ref(), self.prior.as_ref());
        self.batch.prepare(manifold, prior, self.config.loss, self.kernel.as_ref(), y0, &probes)?;
        Ok(())
    }

    /// The model with the averaged weights.
    pub fn model(&self) -> Result<Diffusion, TrainError> {
        let mut net = self.net.clone();
        net.set_params(self.ema.weights())?;
        Ok(Diffusion {
            manifold: Arc::clone(&self.manifold),
            prior: Arc::clone(&self.prior),
            field: Arc::new(net),
            s_min: self.config.s_min,
            t_end: self.config.t_end,
        })
    }
}
