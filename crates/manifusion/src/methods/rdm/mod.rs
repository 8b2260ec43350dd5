//! `rdm`: a Riemannian diffusion model.

mod automatic;
mod settings;

use std::sync::Arc;

pub(super) use automatic::forgetting_rate;

pub use super::network::{NetChoices, NetSettings, Preset};
pub use settings::{
    Divergence, Loss, ModelChoices, ModelSettings, Noise, Rdm, RdmSettings, TimeProposal,
    TimesGradient, TimesScale, TrainChoices, TrainSettings,
};

use super::network::{FittedInChart, FittedNetwork, NetworkMethod, PRESET, Recipe, RecipeRun};
use super::parzen::windows;
use super::references::RDM;
use super::{FitError, Fitted, Geometry, MethodInfo, ModelFacts, Request, Task, write_settings};
use crate::divergence::{Estimator, ProbeLaw};
use crate::loss::LossKind;
use crate::manifold::{Chart, Manifold, NormalCoordinates};
use crate::mixture::ParzenMixture;
use crate::nn::Mlp;
use crate::path::PathChoice;
use crate::time::{FlowConfig, FlowScale};
use crate::train::{
    Bound, FlowGradient, LearnedTimes, ModelParts, SmoothingTimes, Stretch, TimeSampling,
    TrainConfig, Trainer, Weighting,
};

/// The recipe of this folder.
#[derive(Debug)]
pub struct RdmRecipe;

/// The method of this folder.
pub type RdmMethod = NetworkMethod<RdmRecipe>;

/// A diffusion model in training.
pub(super) type RdmRun = RecipeRun<RdmRecipe>;

const INFO: MethodInfo = MethodInfo {
    name: "rdm",
    title: "diffusion model",
    help: "A Riemannian diffusion model",
    manifolds: "every manifold",
    settings: &[
        PRESET,
        ModelChoices::DESCRIPTIONS,
        NetChoices::DESCRIPTIONS,
        TrainChoices::DESCRIPTIONS,
    ],
    references: &[RDM],
};

impl Recipe for RdmRecipe {
    const INFO: &'static MethodInfo = &INFO;
    type Choices = Rdm;
    type Settings = RdmSettings;
    type Objective = Bound;

    fn supports(_geometry: &Geometry) -> Result<(), FitError> {
        Ok(())
    }

    fn check(choices: &Rdm) -> Result<(), FitError> {
        choices.check()
    }

    fn resolve(choices: &Rdm, task: &Task) -> Result<RdmSettings, FitError> {
        let noise = choices.noise_on(task.geometry.manifold.as_ref());
        let task = noised(task, noise)?;
        let mixture = task.mixture.as_ref().ok().map(AsRef::as_ref);
        let windows = if choices.is_smoothing_open() { windows_of_all(task)? } else { None };
        let round_weight = windows.map(|windows| windows.round_weight());
        Ok(automatic::resolve(choices, noise, &task.geometry, mixture, round_weight))
    }

    fn trainer(task: &Task, settings: &RdmSettings, seed: u64) -> Result<Trainer, FitError> {
        let chart = chart(&task.geometry.manifold, settings.model.noise);
        let task = noised(task, settings.model.noise)?;
        let Geometry { manifold, prior } = &task.geometry;
        let config = settings.train_config(manifold.ambient_dim(), seed);
        let train = task.train.coordinates().to_vec();
        let mut trainer = Trainer::new(Arc::clone(manifold), Arc::clone(prior), train, config)?;
        if let Some(chart) = chart {
            trainer = trainer.with_chart(chart);
        }
        let (c, s_min) = (settings.train.smoothing, settings.model.s_min);
        let share = settings.train.stretch;
        if share > 0.0 {
            let Some(windows) = windows_of_all(task)? else {
                let (name, value) = ("train.stretch", share.to_string());
                let expected = "0 where not every training point has Parzen windows, which up to \
                                20000 points on spheres, tori, SO(3), R^d and their products have";
                return Err(FitError::Setting { name, value, expected });
            };
            trainer = trainer.with_stretch(Stretch::new(windows, share))?;
        }
        if c == 0.0 {
            return Ok(trainer);
        }
        let times = match &task.mixture {
            Ok(mixture) => SmoothingTimes::of_mixture(mixture, task.train.len(), c, s_min),
            Err(_) => SmoothingTimes::of_neighbours(task.train.rows(), manifold.dim(), c, s_min),
        };
        Ok(trainer.with_smoothing(times)?)
    }

    fn fitted(
        geometry: &Geometry,
        settings: &RdmSettings,
        net: Mlp<f32>,
        best_step: Option<u64>,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let RdmSettings { model, net: shape, train, .. } = settings;
        let chart = chart(&geometry.manifold, model.noise);
        let Geometry { manifold, prior } = match &chart {
            Some(_) => Geometry::flat(geometry.manifold.dim())?,
            None => geometry.clone(),
        };
        let parts = ModelParts {
            manifold,
            prior,
            net: Arc::new(net.clone()),
            s_min: model.s_min,
            t_end: model.t_end,
            log_coordinates: shape.log_coordinates,
            generators: false,
            prior_score: model.prior_score,
        };
        let facts = ModelFacts {
            smoothing: Some(train.smoothing),
            loss: Some(train.loss.name()),
            s_min: Some(model.s_min),
            t_end: Some(model.t_end),
        };
        let (info, density, settings) = (&INFO, parts.assemble(), write_settings(settings)?);
        let image = FittedNetwork { info, settings, net, best_step, facts, density };
        Ok(match chart {
            Some(chart) => {
                Arc::new(FittedInChart { image, chart, prior: Arc::clone(&geometry.prior) })
            }
            None => Arc::new(image),
        })
    }

    fn proposal(bound: &Bound) -> Vec<[f64; 2]> {
        proposal_curve(bound)
    }
}

/// The task in the coordinates that are noised.
fn noised(task: &Task, noise: Noise) -> Result<&Task, FitError> {
    match noise {
        Noise::Brownian => Ok(task),
        Noise::NormalCoordinates => {
            task.in_normal_coordinates()?.ok_or_else(|| FitError::Setting {
                name: "model.noise",
                value: noise.name().to_owned(),
                expected: "brownian on manifolds other than hyperbolic space",
            })
        }
    }
}

/// The coordinates that are noised, where these are not the points themselves.
fn chart(manifold: &Arc<dyn Manifold>, noise: Noise) -> Option<Arc<dyn Chart>> {
    match noise {
        Noise::Brownian => None,
        Noise::NormalCoordinates => {
            NormalCoordinates::new(manifold).map(|chart| Arc::new(chart) as Arc<dyn Chart>)
        }
    }
}

/// Parzen windows around every training point; none where not every one has such.
fn windows_of_all(task: &Task) -> Result<Option<Arc<ParzenMixture>>, FitError> {
    Ok(windows(task)?.filter(|windows| windows.round().num_centres() == task.train.len()))
}

/// q(s) of a bound on a grid, for plots.
pub(super) fn proposal_curve(bound: &Bound) -> Vec<[f64; 2]> {
    const POINTS: usize = 200;
    let proposal = bound.proposal();
    let (s_min, t_end) = proposal.support();
    let at = |i: usize| s_min * (t_end / s_min).powf(i as f64 / (POINTS - 1) as f64);
    (0..POINTS).map(at).map(|s| [s, proposal.log_density(s).exp()]).collect()
}

impl From<Rdm> for Request {
    fn from(rdm: Rdm) -> Self {
        Self::named(INFO.name, write_settings(&rdm).unwrap_or_default())
    }
}

impl RdmSettings {
    /// The settings as the trainer takes them, for points of `m` coordinates.
    pub fn train_config(&self, m: usize, seed: u64) -> TrainConfig {
        let Self { model, net, train, .. } = self;
        let &ModelSettings { s_min, t_end, .. } = model;
        let (probes, optimiser) = (train.probes, train.training().optimiser(seed));
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
            flow: FlowConfig {
                scale: match train.times_scale {
                    TimesScale::Log => FlowScale::Log,
                    TimesScale::Linear => FlowScale::Linear,
                },
                ..FlowConfig::default()
            },
            rate: train.times_rate,
            every: train.times_every,
            gradient: match train.times_gradient {
                TimesGradient::Reparameterised => FlowGradient::Reparameterised,
                TimesGradient::Unbiased => FlowGradient::Unbiased,
            },
        };
        TrainConfig {
            net: net.config(m, s_min, t_end),
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
            weighting: Weighting::Bound,
            generators: false,
            s_min,
            t_end,
            log_coordinates: net.log_coordinates,
            prior_score: model.prior_score,
            batch: train.batch,
            schedule: optimiser.schedule,
            optimiser: optimiser.optimiser,
            adam: optimiser.adam,
            clip: optimiser.clip,
            ema: optimiser.ema,
            seed,
            partitions: optimiser.partitions,
        }
    }
}
