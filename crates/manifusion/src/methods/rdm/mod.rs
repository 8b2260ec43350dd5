//! `rdm`: a Riemannian diffusion model.

mod automatic;
mod fitted;
mod plan;
mod settings;

use std::sync::Arc;

use serde_json::Value as Json;

pub use settings::{
    Divergence, Loss, ModelChoices, ModelSettings, NetChoices, NetSettings, Preset, Rdm,
    RdmSettings, TimeProposal, TimesGradient, TrainChoices, TrainSettings,
};

use super::references::RDM;
use super::{
    CHECKPOINT_FILE, FileMap, Files, Finished, FitError, Fitted, Geometry, MODEL_FILE, Method,
    MethodInfo, Request, Run, Setting, Task, read_settings, write_settings,
};
use crate::checkpoint::Checkpoint;
use crate::divergence::{Estimator, ProbeLaw};
use crate::loss::LossKind;
use crate::nn::{FourierConfig, GridConfig, NetConfig, OutputScale, TimeConditioning};
use crate::optim::{AdamConfig, Schedule};
use crate::path::PathChoice;
use crate::points::Points;
use crate::train::{
    FlowGradient, LearnedTimes, LoopSettings, MetricsRow, NetworkRun, SmoothingTimes, TimeSampling,
    TrainConfig, Trainer,
};
use crate::watch::Watch;

use fitted::FittedRdm;

/// Nodes per unit of length of the coarsest grid of learned features.
const GRID_COARSEST: f64 = 2.0;

/// The method of this folder.
#[derive(Debug)]
pub struct RdmMethod;

const INFO: MethodInfo = MethodInfo {
    name: "rdm",
    title: "diffusion model",
    help: "A Riemannian diffusion model",
    manifolds: "every manifold",
    settings: &[
        &[Setting { name: "preset", kind: "Preset", help: "A bundle of defaults: fast or paper." }],
        ModelChoices::DESCRIPTIONS,
        NetChoices::DESCRIPTIONS,
        TrainChoices::DESCRIPTIONS,
    ],
    references: &[RDM],
};

impl Method for RdmMethod {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn supports(&self, _geometry: &Geometry) -> Result<(), FitError> {
        Ok(())
    }

    fn check(&self, choices: &Json) -> Result<(), FitError> {
        read_settings::<Rdm>(choices)?.check()
    }

    fn start(&self, task: &Task, choices: &Json) -> Result<Box<dyn Run>, FitError> {
        let choices: Rdm = read_settings(choices)?;
        choices.check()?;
        let mut runs = start_networks(task, &choices, &[task.seed])?;
        Ok(Box::new(runs.remove(0)))
    }

    fn open(
        &self,
        task: &Task,
        settings: &Json,
        _files: &dyn Files,
    ) -> Result<Box<dyn Run>, FitError> {
        Ok(Box::new(RdmRun::new(task, stored_settings(settings)?, task.seed)?))
    }

    fn steps_of(&self, settings: &Json, checkpoint: &[u8]) -> Result<Option<(u64, u64)>, FitError> {
        let planned = stored_settings(settings)?.train.steps;
        let checkpoint = read_checkpoint(CHECKPOINT_FILE, checkpoint)?;
        let number = |name: &str| checkpoint.extra.get(name).and_then(Json::as_u64);
        Ok(number("step").map(|step| (step, number("planned_steps").unwrap_or(planned))))
    }

    fn load(
        &self,
        geometry: &Geometry,
        settings: &Json,
        files: &dyn Files,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let settings = stored_settings(settings)?;
        let net = read_checkpoint(MODEL_FILE, &files.need(MODEL_FILE)?)?.net;
        Ok(Arc::new(FittedRdm::new(geometry.clone(), settings, net)))
    }
}

impl From<Rdm> for Request {
    fn from(rdm: Rdm) -> Self {
        Self::named(INFO.name, write_settings(&rdm).unwrap_or_default())
    }
}

fn stored_settings(settings: &Json) -> Result<RdmSettings, FitError> {
    read_settings::<Rdm>(settings)?.try_into()
}

fn read_checkpoint(name: &str, bytes: &[u8]) -> Result<Checkpoint<f32>, FitError> {
    Checkpoint::from_bytes(bytes).map_err(|source| FitError::File { name: name.to_owned(), source })
}

/// Networks of several seeds that are trained side by side, with every open choice made.
pub(super) fn start_networks(
    task: &Task,
    choices: &Rdm,
    seeds: &[u64],
) -> Result<Vec<RdmRun>, FitError> {
    let mixture = task.mixture.as_ref().ok();
    let mut settings = automatic::resolve(choices, &task.geometry, mixture.map(AsRef::as_ref));
    // A run that could not start is refused before anything is measured.
    let trials: Result<Vec<Trainer>, FitError> =
        seeds.iter().map(|seed| trainer(task, &settings, *seed)).collect();
    let trials = trials?;
    if choices.train.steps.is_none() {
        let plan = plan::plan(trials, task, &settings.train)?;
        settings.train.steps = plan.steps;
        settings.train.warmup = choices.train.warmup.unwrap_or(automatic::warmup(plan.steps));
        settings.train.validations = plan.validations;
        settings.train.validation_points = plan.validation_points;
    }
    seeds.iter().map(|seed| RdmRun::new(task, settings.clone(), *seed)).collect()
}

/// A trainer at its first step.
fn trainer(task: &Task, settings: &RdmSettings, seed: u64) -> Result<Trainer, FitError> {
    let Geometry { manifold, prior } = &task.geometry;
    let config = settings.train_config(manifold.ambient_dim(), seed);
    let train = task.train.coordinates().to_vec();
    let trainer = Trainer::new(Arc::clone(manifold), Arc::clone(prior), train, config)?;
    let (c, s_min) = (settings.train.smoothing, settings.model.s_min);
    if c == 0.0 {
        return Ok(trainer);
    }
    let times = match &task.mixture {
        Ok(mixture) => SmoothingTimes::of_mixture(mixture, task.train.len(), c, s_min),
        Err(_) => SmoothingTimes::of_neighbours(task.train.rows(), manifold.dim(), c, s_min),
    };
    Ok(trainer.with_smoothing(times)?)
}

impl RdmSettings {
    /// The settings as the trainer takes them, for points of `m` coordinates.
    pub fn train_config(&self, m: usize, seed: u64) -> TrainConfig {
        let Self { model, net, train, .. } = self;
        let &ModelSettings { s_min, t_end, .. } = model;
        let probes = train.probes;
        let estimator = match train.divergence {
            Divergence::Frame => Estimator::Frame,
            Divergence::RandomFrame => Estimator::RandomFrame,
            Divergence::Hutchinson => Estimator::Hutchinson { probes, law: ProbeLaw::Rademacher },
            Divergence::HutchinsonGaussian => {
                Estimator::Hutchinson { probes, law: ProbeLaw::Gaussian }
            }
            Divergence::ClosestPoint => Estimator::ClosestPoint,
            Divergence::Intrinsic => Estimator::Intrinsic,
        };
        let learned = LearnedTimes {
            rate: train.times_rate,
            every: train.times_every,
            gradient: match train.times_gradient {
                TimesGradient::Reparameterised => FlowGradient::Reparameterised,
                TimesGradient::Unbiased => FlowGradient::Unbiased,
            },
            ..LearnedTimes::default()
        };
        let f_max = net.fourier_max;
        TrainConfig {
            net: NetConfig {
                ambient_dim: m,
                depth: net.depth,
                width: net.width,
                activation: net.activation,
                residual: net.residual,
                actnorm: net.actnorm,
                time: match net.time_pairs {
                    0 => TimeConditioning::Concat,
                    pairs => TimeConditioning::LogSines { pairs, s_min, t_end },
                },
                fourier: (net.fourier > 0)
                    .then_some(FourierConfig { features: net.fourier, f_max }),
                grid: (net.grid_levels > 0).then_some(GridConfig {
                    levels: net.grid_levels,
                    coarsest: GRID_COARSEST,
                    finest: net.grid_max.max(GRID_COARSEST),
                    log2_entries: net.grid_entries,
                }),
                output_scale: if net.inverse_noise {
                    OutputScale::InverseNoise
                } else {
                    OutputScale::One
                },
                zero_output: net.zero_output,
            },
            loss: match train.loss {
                Loss::Implicit => LossKind::Implicit(estimator),
                Loss::Denoising => LossKind::Denoising,
            },
            path: match train.noise_steps {
                0 => PathChoice::Auto,
                steps => PathChoice::Heun { steps },
            },
            times: match train.times {
                TimeProposal::Uniform => TimeSampling::Uniform,
                TimeProposal::LogUniform => TimeSampling::LogUniform,
                TimeProposal::Learned => TimeSampling::Learned(learned),
            },
            s_min,
            t_end,
            log_coordinates: net.log_coordinates,
            prior_score: model.prior_score,
            batch: train.batch,
            schedule: Schedule {
                base: train.rate,
                warmup: train.warmup,
                decay: train.decay,
                total: train.steps,
                floor: 0.0,
            },
            adam: AdamConfig { weight_decay: train.weight_decay, ..AdamConfig::default() },
            clip: train.clip,
            ema: train.ema,
            seed,
            partitions: train.partitions,
        }
    }
}

/// A diffusion model in training.
pub(super) struct RdmRun {
    geometry: Geometry,
    settings: RdmSettings,
    run: NetworkRun<Trainer>,
}

impl RdmRun {
    /// A run of these settings, with the seed of its network, batches and noise.
    pub(super) fn new(task: &Task, settings: RdmSettings, seed: u64) -> Result<Self, FitError> {
        let train = &settings.train;
        let loop_settings = LoopSettings {
            steps: train.steps,
            seconds: if train.minutes > 0.0 { 60.0 * train.minutes } else { f64::INFINITY },
            validations: train.validations,
            patience: train.patience,
        };
        let first: Vec<usize> = (0..task.validation.len().min(train.validation_points)).collect();
        let validation: Points = task.validation.select(&first)?;
        let trainer = trainer(task, &settings, seed)?;
        let seconds = task.began.elapsed().as_secs_f64();
        let run = NetworkRun::new(trainer, loop_settings, validation, seconds);
        Ok(Self { geometry: task.geometry.clone(), settings, run })
    }

    /// Its settings.
    pub(super) fn resolved(&self) -> &RdmSettings {
        &self.settings
    }

    /// q(s) as it stands, on a grid, for plots.
    fn proposal(&self) -> Vec<[f64; 2]> {
        const POINTS: usize = 200;
        let proposal = self.run.learner().proposal();
        let (s_min, t_end) = proposal.support();
        let at = |i: usize| s_min * (t_end / s_min).powf(i as f64 / (POINTS - 1) as f64);
        (0..POINTS).map(at).map(|s| [s, proposal.log_density(s).exp()]).collect()
    }
}

impl Run for RdmRun {
    fn settings(&self) -> Result<Json, FitError> {
        write_settings(&self.settings)
    }

    fn files(&self) -> Result<FileMap, FitError> {
        Ok(FileMap::new())
    }

    fn steps(&self) -> (u64, u64) {
        self.run.steps()
    }

    fn is_done(&self) -> bool {
        self.run.is_done()
    }

    fn advance(&mut self, watch: &Watch) -> Result<Vec<MetricsRow>, FitError> {
        Ok(self.run.advance(watch)?)
    }

    fn checkpoint_seconds(&self) -> f64 {
        self.settings.train.checkpoint_seconds
    }

    fn checkpoint(&self) -> Result<Option<Vec<u8>>, FitError> {
        Ok(Some(self.run.checkpoint().to_bytes()?))
    }

    fn restore(&mut self, checkpoint: &[u8]) -> Result<(), FitError> {
        Ok(self.run.restore(read_checkpoint(CHECKPOINT_FILE, checkpoint)?)?)
    }

    fn finish(&self) -> Result<Finished, FitError> {
        let (weights, outcome) = self.run.finish()?;
        let mut net = self.run.checkpoint().net;
        net.set_params(&weights)?;
        let (geometry, settings) = (self.geometry.clone(), self.settings.clone());
        let model = FittedRdm::new(geometry, settings, net).at_step(outcome.best_step);
        Ok(Finished { model: Arc::new(model), outcome, proposal: self.proposal() })
    }
}
