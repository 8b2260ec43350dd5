//! `rdm`: a Riemannian diffusion model, a network alone or beside a kernel mixture that guides it.

mod automatic;
mod fitted;
mod plan;
mod settings;

use std::sync::Arc;

use serde_json::Value as Json;

pub use settings::{
    Divergence, Guide, Loss, ModelChoices, ModelSettings, NetChoices, NetSettings, Preset, Rdm,
    RdmSettings, TimeProposal, TimesGradient, TrainChoices, TrainSettings,
};

use super::kernel::{read_mixture, write_mixture};
use super::{
    CHECKPOINT_FILE, FileMap, Files, Finished, FitError, Fitted, Geometry, MODEL_FILE, Method,
    MethodInfo, Request, Run, Setting, Task, read_settings, write_settings,
};
use crate::checkpoint::Checkpoint;
use crate::divergence::{Estimator, ProbeLaw};
use crate::loss::LossKind;
use crate::mixture::{Folds, Guide as MixtureScore, KernelMixture, MixtureOptions};
use crate::nn::{FourierConfig, NetConfig, OutputScale, TimeConditioning};
use crate::optim::{AdamConfig, Schedule};
use crate::path::PathChoice;
use crate::points::Points;
use crate::train::{
    FlowGradient, LearnedTimes, LoopSettings, MetricsRow, NetworkRun, TimeSampling, TrainConfig,
    Trainer,
};
use crate::watch::Watch;

use fitted::FittedRdm;

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
};

/// The file of the mixture that guides a network.
const GUIDE_FILE: &str = "guide.safetensors";

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
        let mixture = task.mixture.as_ref().ok();
        let mut settings = automatic::resolve(&choices, &task.geometry, mixture.map(AsRef::as_ref));
        let guide = match settings.model.guide {
            Guide::None => None,
            Guide::Kernel => {
                let common = task.mixture.clone()?;
                let localised = || common.localised(&MixtureOptions::seeded(task.seed));
                Some(Arc::new(task.watch.stage("local weights", localised)?))
            }
        };
        // A run that could not start is refused before anything is measured.
        let trial = trainer(task, &settings, guide.as_ref())?;
        if choices.train.steps.is_none() {
            let plan = plan::plan(trial, task, &settings.train)?;
            settings.train.steps = plan.steps;
            settings.train.warmup = choices.train.warmup.unwrap_or(automatic::warmup(plan.steps));
            settings.train.validations = plan.validations;
            settings.train.validation_points = plan.validation_points;
        }
        Ok(Box::new(RdmRun::new(task, settings, guide)?))
    }

    fn open(
        &self,
        task: &Task,
        settings: &Json,
        files: &dyn Files,
    ) -> Result<Box<dyn Run>, FitError> {
        let settings = stored_settings(settings)?;
        let guide = stored_guide(&task.geometry, &settings, files)?;
        Ok(Box::new(RdmRun::new(task, settings, guide)?))
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
        let guide = stored_guide(geometry, &settings, files)?;
        Ok(Arc::new(FittedRdm::new(geometry.clone(), settings, net, guide)?))
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

fn stored_guide(
    geometry: &Geometry,
    settings: &RdmSettings,
    files: &dyn Files,
) -> Result<Option<Arc<KernelMixture>>, FitError> {
    match settings.model.guide {
        Guide::None => Ok(None),
        Guide::Kernel => Ok(Some(Arc::new(read_mixture(geometry, GUIDE_FILE, files)?))),
    }
}

fn read_checkpoint(name: &str, bytes: &[u8]) -> Result<Checkpoint<f32>, FitError> {
    Checkpoint::from_bytes(bytes).map_err(|source| FitError::File { name: name.to_owned(), source })
}

/// A trainer at its first step.
fn trainer(
    task: &Task,
    settings: &RdmSettings,
    guide: Option<&Arc<KernelMixture>>,
) -> Result<Trainer, FitError> {
    let Geometry { manifold, prior } = &task.geometry;
    let config = settings.train_config(manifold.ambient_dim(), task.seed);
    let train = task.train.coordinates().to_vec();
    let trainer = Trainer::new(Arc::clone(manifold), Arc::clone(prior), train, config)?;
    let Some(guide) = guide else { return Ok(trainer) };
    let folds = Folds { seed: task.seed, ..Folds::default() };
    let score = MixtureScore::new(guide, Some(folds), settings.model.s_min)?;
    Ok(trainer.with_guide(Arc::new(score))?)
}

impl RdmSettings {
    /// The settings as the trainer takes them, for points of `m` coordinates.
    pub fn train_config(&self, m: usize, seed: u64) -> TrainConfig {
        let Self { model, net, train, .. } = self;
        let &ModelSettings { s_min, s_from, t_end, .. } = model;
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
                    pairs => TimeConditioning::LogSines { pairs, s_min: s_from, t_end },
                },
                fourier: (net.fourier > 0)
                    .then_some(FourierConfig { features: net.fourier, f_max }),
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
            s_from,
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
struct RdmRun {
    geometry: Geometry,
    settings: RdmSettings,
    guide: Option<Arc<KernelMixture>>,
    run: NetworkRun<Trainer>,
}

impl RdmRun {
    fn new(
        task: &Task,
        settings: RdmSettings,
        guide: Option<Arc<KernelMixture>>,
    ) -> Result<Self, FitError> {
        let train = &settings.train;
        let loop_settings = LoopSettings {
            steps: train.steps,
            seconds: if train.minutes > 0.0 { 60.0 * train.minutes } else { f64::INFINITY },
            validations: train.validations,
            patience: train.patience,
        };
        let first: Vec<usize> = (0..task.validation.len().min(train.validation_points)).collect();
        let validation: Points = task.validation.select(&first)?;
        let trainer = trainer(task, &settings, guide.as_ref())?;
        let seconds = task.began.elapsed().as_secs_f64();
        let run = NetworkRun::new(trainer, loop_settings, validation, seconds);
        Ok(Self { geometry: task.geometry.clone(), settings, guide, run })
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
        let guide = self.guide.as_ref().map(|guide| write_mixture(guide)).transpose()?;
        Ok(guide.into_iter().map(|bytes| (GUIDE_FILE.to_owned(), bytes)).collect())
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
        let model = FittedRdm::new(geometry, settings, net, self.guide.clone())?;
        let model = model.at_step(outcome.best_step);
        Ok(Finished { model: Arc::new(model), outcome, proposal: self.proposal() })
    }
}
