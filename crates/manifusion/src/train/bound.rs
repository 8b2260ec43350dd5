//! The objective of a diffusion model: the CT-ELBO on noised batches.

use std::sync::Arc;

use super::times::{ProposalLearner, Times};
use super::{
    FlowGradient, NetworkTrainer, Objective, OptimiserConfig, RestoreError, SmoothingTimes,
    StepReport, Stretch, TimeReport, TimeSampling, TrainError, pick_rows,
};
use crate::checkpoint::{Arrays, Checkpoint};
use crate::density::{ChartDensity, Density};
use crate::error::SolveError;
use crate::field::{Field, Generated, InLogCoordinates, PriorScore, SumField};
use crate::flow_density::FlowOptions;
use crate::heat_kernel::TransitionKernel;
use crate::loss::{LossBatch, LossKind};
use crate::manifold::{Chart, Generators, LogCoordinates, Manifold, check_points};
use crate::model::Diffusion;
use crate::nn::{FieldInput, Mlp, NetConfig, TrainWorkspace};
use crate::optim::{Adam, AdamConfig, Optimiser, Schedule};
use crate::path::{NoisingPath, PathChoice, Smoothing};
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut};
use crate::time::Proposal;

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
    /// How much the times of a batch count.
    pub weighting: Weighting,
    /// Whether the network gives coefficients of divergence-free fields, where these are known.
    pub generators: bool,
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
    /// Which optimiser.
    pub optimiser: Optimiser,
    /// Its moments.
    pub adam: AdamConfig,
    /// Gradients longer than this are scaled down.
    pub clip: f64,
    /// Decay of the moving average of the weights.
    pub ema: f64,
    /// Seed of weights, batches, times and noise.
    pub seed: u64,
    /// Gradient partitions: the most threads that a step can use. Results depend on neither.
    pub partitions: usize,
}

/// How much the times of a batch count in the loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weighting {
    /// As in the bound: by 1/q(s), whatever times are drawn.
    #[default]
    Bound,
    /// By the variance 1 − e^{−s} of the noise, as drawn: the usual weights of denoising score
    /// matching.
    NoiseVariance,
}

impl TrainConfig {
    fn optimiser(&self) -> OptimiserConfig {
        let Self { schedule, optimiser, adam, clip, ema, seed, partitions, .. } = *self;
        OptimiserConfig { schedule, optimiser, adam, clip, ema, seed, partitions }
    }
}

/// The bound of a diffusion model on batches of the training data.
pub struct Bound {
    config: TrainConfig,
    manifold: Arc<dyn Manifold>,
    prior: Arc<dyn Prior>,
    path: NoisingPath,
    kernel: Option<TransitionKernel>,
    times: Times,
    data: Vec<f64>,
    batch: LossBatch,
    picks: Vec<usize>,
    y0: Vec<f64>,
    log_q: Vec<f64>,
    smoothing: Option<SmoothingTimes>,
    stretch: Option<Stretch>,
    /// Where the data are coordinates of points of another manifold.
    chart: Option<Arc<dyn Chart>>,
}

/// The training of a diffusion model.
pub type Trainer = NetworkTrainer<Bound>;

impl Trainer {
    /// A run on `data`, rows of points on the manifold.
    pub fn new(
        manifold: Arc<dyn Manifold>,
        prior: Arc<dyn Prior>,
        data: Vec<f64>,
        config: TrainConfig,
    ) -> Result<Self, TrainError> {
        let (net, optimiser) = (config.net.clone(), config.optimiser());
        Self::with_objective(Bound::new(manifold, prior, data, config)?, net, optimiser)
    }

    /// The same run on data that are smoothed for these times.
    pub fn with_smoothing(mut self, smoothing: SmoothingTimes) -> Result<Self, TrainError> {
        let bound = &mut self.objective;
        smoothing.check(bound.data.len() / bound.manifold.ambient_dim())?;
        bound.batch.smoothing = vec![0.0; bound.config.batch];
        bound.smoothing = Some(smoothing);
        Ok(self)
    }

    /// The same run on data that are moved along these windows before.
    pub fn with_stretch(mut self, stretch: Stretch) -> Result<Self, TrainError> {
        let bound = &mut self.objective;
        stretch.check(bound.data.len() / bound.manifold.ambient_dim())?;
        bound.stretch = Some(stretch);
        Ok(self)
    }

    /// The same run on data that are coordinates of points: its density is one of these points.
    #[must_use]
    pub fn with_chart(mut self, chart: Arc<dyn Chart>) -> Self {
        self.objective.chart = Some(chart);
        self
    }

    /// One step of the optimiser on one batch; see [`Learner::step`](super::Learner::step).
    pub fn step(&mut self) -> Result<StepReport, TrainError> {
        self.advance()
    }

    /// Steps done.
    pub fn steps_done(&self) -> u64 {
        self.step
    }

    /// What the run depends on.
    pub fn config(&self) -> &TrainConfig {
        &self.objective.config
    }

    /// The batch of the last step.
    pub fn batch(&self) -> &LossBatch {
        &self.objective.batch
    }

    /// The averaged weights.
    pub fn averaged_weights(&self) -> &[f32] {
        self.ema.weights()
    }

    /// q(s) as it stands.
    pub fn proposal(&self) -> &dyn Proposal {
        self.objective.proposal()
    }

    /// Everything that the run needs to go on, with the caller's own state beside it.
    pub fn checkpoint(&self, own: Arrays) -> Checkpoint<f32> {
        self.state(own)
    }

    /// Puts a fresh run where a checkpoint left another one of the same configuration; returns the
    /// caller's own state.
    pub fn restore(&mut self, checkpoint: Checkpoint<f32>) -> Result<Arrays, RestoreError> {
        self.set_state(checkpoint)
    }

    /// The model with the averaged weights.
    pub fn model(&self) -> Result<Diffusion, TrainError> {
        Ok(self.objective.model(self.net_with(self.ema.weights())?))
    }
}

impl Bound {
    /// The bound on `data`, rows of points on the manifold.
    fn new(
        manifold: Arc<dyn Manifold>,
        prior: Arc<dyn Prior>,
        data: Vec<f64>,
        config: TrainConfig,
    ) -> Result<Self, TrainError> {
        let m = manifold.ambient_dim();
        Rows::new(&data, m).map_err(SolveError::from)?;
        check_points(manifold.as_ref(), &data)
            .map_err(|(row, error)| SolveError::at(row, 0.0)(error))?;
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
        let n = config.batch;
        let driftless = prior.is_driftless();
        let coordinates =
            config.log_coordinates.then(|| LogCoordinates::new(manifold.as_ref())).flatten();
        let generators = config.generators.then(|| Generators::new(manifold.as_ref())).flatten();
        Ok(Self {
            manifold,
            prior,
            path,
            kernel,
            times,
            data,
            batch: LossBatch::new(n, m)
                .with_coordinates(coordinates)
                .with_generators(generators)
                .with_prior_score(config.prior_score && !driftless),
            picks: vec![0; n],
            y0: vec![0.0; n * m],
            log_q: vec![0.0; n],
            smoothing: None,
            stretch: None,
            chart: None,
            config,
        })
    }

    /// q(s) as it stands.
    pub fn proposal(&self) -> &dyn Proposal {
        self.times.proposal()
    }

    /// The model of a network.
    fn model(&self, net: Mlp<f32>) -> Diffusion {
        ModelParts {
            manifold: Arc::clone(&self.manifold),
            prior: Arc::clone(&self.prior),
            net: Arc::new(net),
            s_min: self.config.s_min,
            t_end: self.config.t_end,
            log_coordinates: self.config.log_coordinates,
            generators: self.config.generators,
            prior_score: self.config.prior_score,
        }
        .assemble()
    }

    /// One step of the proposal on the batch that the network has just seen.
    fn learn_times(
        &mut self,
        gradient: FlowGradient,
        step: u64,
        net: &Mlp<f32>,
        losses: &[f64],
    ) -> Result<(), TrainError> {
        let n = losses.len() as f64;
        let of_row = |(loss, log_q): (&f64, &f64)| loss * n * log_q.exp();
        let plain: Vec<f64> = losses.iter().zip(&self.log_q).map(of_row).collect();
        match gradient {
            FlowGradient::Unbiased => self.times.learn(&plain, None),
            FlowGradient::Reparameterised => {
                let slopes = self.loss_slopes(step, net)?;
                self.times.learn(&plain, Some(&slopes))
            }
        }
    }

    /// dℓ/ds of the batch's rows with Y_s held fixed, by central differences: the loss is smooth in
    /// ln s, so a step of 1e-2 there costs less than the network's single precision.
    fn loss_slopes(&self, step: u64, net: &Mlp<f32>) -> Result<Vec<f64>, TrainError> {
        const STEP: f64 = 1e-2;
        let (m, n) = (self.manifold.ambient_dim(), self.batch.s.len());
        let mut workspace = net.train_workspace(self.config.partitions);
        let mut sides = [vec![0.0; n], vec![0.0; n]];
        let probes = Streams::new(self.config.seed, "train-probes").part(step);
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
            net.loss_gradient(batch.input(m)?, &form, &mut workspace, losses, None)?;
        }
        let [below, above] = sides;
        let slope = |((s, below), above): ((&f64, f64), f64)| (above - below) / (2.0 * STEP * s);
        Ok(self.batch.s.iter().zip(below).zip(above).map(slope).collect())
    }
}

impl Objective for Bound {
    /// Rows with replacement, times from q, noise, and what the loss needs there.
    fn draw(&mut self, step: u64) -> Result<(), TrainError> {
        let m = self.manifold.ambient_dim();
        let (n, seed) = (self.config.batch, self.config.seed);
        let rows = self.data.len() / m;
        pick_rows(seed, step, rows, &mut self.picks);
        for (y0, picked) in self.y0.chunks_exact_mut(m).zip(&self.picks) {
            y0.copy_from_slice(&self.data[*picked * m..(*picked + 1) * m]);
        }
        let times = Streams::new(seed, "train-times");
        self.times.fill(&times, step, &mut self.batch.s, &mut self.log_q);
        let around = Streams::new(seed, "train-smoothing").part(step);
        if let Some(smoothing) = &self.smoothing {
            for (i, (time, point)) in self.batch.smoothing.iter_mut().zip(&self.picks).enumerate() {
                *time = smoothing.draw(*point, around.stream(i as u64, 0).uniform());
            }
        }
        if let Some(stretch) = &self.stretch {
            let along = Streams::new(seed, "train-stretch").part(step);
            for (i, (y0, point)) in self.y0.chunks_exact_mut(m).zip(&self.picks).enumerate() {
                // A point has a component of its windows or a round kernel, not both.
                let is_moved = stretch.shift(*point, &mut along.stream(i as u64, 0), y0);
                if let (true, Some(time)) = (is_moved, self.batch.smoothing.get_mut(i)) {
                    *time = 0.0;
                }
            }
        }
        for (i, weight) in self.batch.weight.iter_mut().enumerate() {
            let of_time = match self.config.weighting {
                Weighting::Bound => (-self.log_q[i]).exp(),
                Weighting::NoiseVariance => -(-self.batch.s[i]).exp_m1(),
            };
            *weight = of_time / n as f64;
        }
        let noise = Streams::new(seed, "train-noise").part(step);
        let displaced = around.part(0);
        let smoothed_for = self.batch.smoothing.as_slice();
        let smoothing =
            self.smoothing.as_ref().map(|_| Smoothing { times: smoothed_for, streams: &displaced });
        let y0 = Rows::new(&self.y0, m).map_err(SolveError::from)?;
        let y = RowsMut::new(&mut self.batch.y, m).map_err(SolveError::from)?;
        self.path.sample_smoothed(y0, &self.batch.s, smoothing, &noise, 0, y)?;
        let probes = Streams::new(seed, "train-probes").part(step);
        let (manifold, prior) = (self.manifold.as_ref(), self.prior.as_ref());
        self.batch.prepare(manifold, prior, self.config.loss, self.kernel.as_ref(), y0, &probes)?;
        Ok(())
    }

    fn rows(&self) -> usize {
        self.config.batch
    }

    fn input(&self) -> Result<FieldInput<'_>, SolveError> {
        self.batch.input(self.manifold.ambient_dim())
    }

    fn gradient(
        &mut self,
        net: &Mlp<f32>,
        workspace: &mut TrainWorkspace<f32>,
        losses: &mut [f64],
    ) -> Result<f64, TrainError> {
        let form = self.batch.row_loss(self.manifold.as_ref(), self.config.loss);
        Ok(net.loss_gradient(self.input()?, &form, workspace, losses, None)?)
    }

    fn origin(&self, row: usize) -> (usize, f64) {
        (self.picks[row], self.batch.s[row])
    }

    fn time_report(&self, losses: &[f64]) -> TimeReport {
        let span = self.config.t_end - self.config.s_min;
        TimeReport::of(losses, |i| self.log_q[i].exp() * span)
    }

    fn after_step(&mut self, step: u64, net: &Mlp<f32>, losses: &[f64]) -> Result<(), TrainError> {
        match self.times.due(step) {
            // The batch is that of the step before this number.
            Some(gradient) => self.learn_times(gradient, step - 1, net, losses),
            None => Ok(()),
        }
    }

    fn density(&self, net: Mlp<f32>, tolerance: f64) -> Result<Box<dyn Density>, TrainError> {
        let image = Box::new(self.model(net).flow(FlowOptions::with_tolerance(tolerance)));
        Ok(match &self.chart {
            Some(chart) => Box::new(ChartDensity { image, chart: Arc::clone(chart) }),
            None => image,
        })
    }

    fn save(&self, own: &mut Arrays) {
        if let Times::Learned(learner) = &self.times {
            let ProposalLearner { flow, adam, .. } = learner.as_ref();
            own.values.insert("flow_steps".into(), adam.steps().into());
            let (first, second) = adam.moments();
            own.arrays.insert("flow.params".into(), flow.params().to_vec());
            own.arrays.insert("flow.first".into(), first.to_vec());
            own.arrays.insert("flow.second".into(), second.to_vec());
        }
    }

    fn restore(&mut self, own: &mut Arrays) -> Result<(), RestoreError> {
        let Times::Learned(learner) = &mut self.times else { return Ok(()) };
        let ProposalLearner { flow, adam, .. } = learner.as_mut();
        let steps = super::state::number(own, "flow_steps")?;
        let mut array = |name: &'static str| {
            let found: Vec<f64> =
                own.arrays.remove(name).ok_or(RestoreError::Missing { what: name })?;
            if found.len() == flow.params().len() {
                Ok(found)
            } else {
                Err(RestoreError::Differs { what: name })
            }
        };
        let (params, first, second) =
            (array("flow.params")?, array("flow.first")?, array("flow.second")?);
        flow.params_mut().copy_from_slice(&params);
        *adam = Adam::from_moments(AdamConfig::default(), first, second, steps)?;
        Ok(())
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
    /// Whether the network gives coefficients of divergence-free fields, where these are known.
    pub generators: bool,
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
        let generators = self.generators.then(|| Generators::new(manifold.as_ref())).flatten();
        let net: Arc<dyn Field> = match generators {
            Some(generators) => Arc::new(Generated { coefficients: net, generators }),
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
