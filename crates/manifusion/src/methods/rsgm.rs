//! `rsgm`: Riemannian score-based generative models on compact manifolds (De Bortoli et al. 2022).
//!
//! The same noise and the same reversal as a Riemannian diffusion model, trained as score matching:
//! times uniform in the clock of a noise schedule β, denoising loss weighted by the noise's
//! variance, or implicit loss with an exact (ISM) or sliced (SSM) divergence; noise exact or by a
//! geodesic random walk; the score as a projected vector, or in divergence-free fields.

use std::sync::Arc;

use super::network::{
    FittedNetwork, NetChoices, NetFacts, NetworkChoices, NetworkMethod, NetworkSettings, OfMethod,
    PRESET, Preset, Recipe, Scales, TrainingChoices, check_positive, smallest_time, training,
    unsupported,
};
use super::rdm::{forgetting_rate, proposal_curve};
use super::references::RSGM;
use super::settings::{named, settings};
use super::{FitError, Fitted, Geometry, MethodInfo, ModelFacts, Task, write_settings};
use crate::divergence::{Estimator, ProbeLaw};
use crate::heat_kernel::TransitionKernel;
use crate::loss::LossKind;
use crate::manifold::{Family, Generators, Manifold};
use crate::nn::{Activation, Mlp};
use crate::optim::{Decay, Optimiser};
use crate::path::PathChoice;
use crate::train::{Bound, ModelParts, TimeSampling, TrainConfig, Trainer, Weighting};

named! {
    /// Losses of score matching.
    ScoreLoss {
        /// Denoising, against the score of the transition kernel.
        Denoising = "dsm",
        /// Implicit, with the exact divergence.
        Implicit = "ism",
        /// Implicit, with one random direction (sliced).
        Sliced = "ssm",
    }
}

named! {
    /// How points are noised.
    Noising {
        /// By the law of Brownian motion.
        Exact = "exact",
        /// By a geodesic random walk.
        Walk = "walk",
    }
}

named! {
    /// What the network gives.
    ScoreForm {
        /// A vector that is projected to the tangent space.
        Ambient = "ambient",
        /// Coefficients of divergence-free fields: on S², tori, SO(3) and products of these.
        Generators = "generators",
    }
}

settings! {
    /// Noise and score.
    "model": RsgmModelSettings, RsgmModelChoices {
        /// The loss.
        loss: ScoreLoss,
        /// How points are noised.
        noising: Noising,
        /// Steps of a geodesic random walk.
        walk_steps: usize,
        /// What the network gives.
        form: ScoreForm,
        /// β at the data.
        beta_min: f64,
        /// β at the prior.
        beta_max: f64,
        /// Smallest noising time ∫β.
        s_min: f64,
    }
}

/// A Riemannian score-based model as a user asks for it.
pub type Rsgm = NetworkChoices<RsgmModelChoices>;
type Settings = NetworkSettings<RsgmModelSettings>;

const INFO: MethodInfo = MethodInfo {
    name: "rsgm",
    title: "score-based model",
    help: "A Riemannian score-based model, trained by score matching",
    manifolds: "spheres, tori, SO(3) and products of these",
    settings: &[
        PRESET,
        RsgmModelChoices::DESCRIPTIONS,
        NetChoices::DESCRIPTIONS,
        TrainingChoices::DESCRIPTIONS,
    ],
    references: &[RSGM],
};

/// The recipe of this file.
#[derive(Debug)]
pub struct RsgmRecipe;

/// The method of this file.
pub type RsgmMethod = NetworkMethod<RsgmRecipe>;

impl OfMethod for RsgmModelChoices {
    const METHOD: &'static str = INFO.name;
}

/// The authors' choices, as their code has them: β from 0.001 to 5, t from 0.001.
fn paper() -> Rsgm {
    Rsgm {
        preset: Some(Preset::Paper),
        model: RsgmModelChoices {
            loss: Some(ScoreLoss::Implicit),
            noising: Some(Noising::Walk),
            walk_steps: Some(100),
            form: Some(ScoreForm::Generators),
            beta_min: Some(0.001),
            beta_max: Some(5.0),
            s_min: Some(3.5e-6),
        },
        net: NetChoices {
            depth: Some(5),
            width: Some(512),
            activation: Some(Activation::Sine),
            time_pairs: Some(0),
            fourier: Some(0),
            grid_levels: Some(0),
            actnorm: Some(false),
            ..NetChoices::default()
        },
        train: TrainingChoices {
            batch: Some(512),
            optimiser: Some(Optimiser::Adam),
            rate: Some(2e-4),
            decay: Some(Decay::Cosine),
            ema: Some(0.999),
            ..TrainingChoices::default()
        },
    }
}

/// Whether a manifold is made of spheres, tori and SO(3).
fn is_known(manifold: &dyn Manifold) -> bool {
    match manifold.family() {
        Family::Sphere { .. }
        | Family::Torus { .. }
        | Family::Orthogonal { n: 3, special: true } => true,
        Family::Product => manifold.factors().iter().all(|factor| is_known(factor.as_ref())),
        _ => false,
    }
}

impl RsgmModelSettings {
    /// ∫β over the whole schedule: T.
    fn t_end(&self) -> f64 {
        0.5 * (self.beta_min + self.beta_max)
    }
}

impl Recipe for RsgmRecipe {
    const INFO: &'static MethodInfo = &INFO;
    type Choices = Rsgm;
    type Settings = Settings;
    type Objective = Bound;

    fn supports(geometry: &Geometry) -> Result<(), FitError> {
        if is_known(geometry.manifold.as_ref())
            && TransitionKernel::new(geometry.manifold.as_ref(), geometry.prior.as_ref()).is_ok()
        {
            return Ok(());
        }
        Err(unsupported(&INFO, geometry))
    }

    fn check(choices: &Rsgm) -> Result<(), FitError> {
        let model = &choices.model;
        check_positive(&[
            ("model.beta_min", model.beta_min),
            ("model.beta_max", model.beta_max),
            ("model.s_min", model.s_min),
        ])?;
        if model.walk_steps == Some(0) {
            let (name, expected) = ("model.walk_steps", "at least 1");
            return Err(FitError::Setting { name, value: String::from("0"), expected });
        }
        choices.check()
    }

    fn resolve(choices: &Rsgm, task: &Task) -> Result<Settings, FitError> {
        let manifold = task.geometry.manifold.as_ref();
        let generated = Generators::new(manifold).is_some();
        if choices.model.form == Some(ScoreForm::Generators) && !generated {
            let (name, value) = ("model.form", ScoreForm::Generators.name().to_owned());
            let expected = "such fields are known on sphere:1, sphere:2, tori, SO(3) and products";
            return Err(FitError::Setting { name, value, expected });
        }
        let (preset, choices) = choices.with_preset(paper);
        let scales = Scales::of_task(task);
        let loss = choices.model.loss.unwrap_or(ScoreLoss::Denoising);
        let denoising = loss == ScoreLoss::Denoising;
        let facts = NetFacts {
            manifold,
            scales: &scales,
            has_mixture: task.mixture.is_ok(),
            is_regression: denoising,
            grids_from: denoising.then_some(0.3),
        };
        let form = choices.model.form.unwrap_or(ScoreForm::Ambient);
        let model = RsgmModelSettings {
            loss,
            noising: choices.model.noising.unwrap_or(Noising::Exact),
            walk_steps: choices.model.walk_steps.unwrap_or(100),
            // The preset's, where they are known.
            form: if generated { form } else { ScoreForm::Ambient },
            beta_min: choices.model.beta_min.unwrap_or(0.001),
            // So long that the prior is reached as closely as by a diffusion model of ours.
            beta_max: choices.model.beta_max.unwrap_or(12.0 / forgetting_rate(manifold)),
            s_min: choices.model.s_min.unwrap_or(smallest_time(&scales, 0.0)),
        };
        if !(model.beta_max >= model.beta_min && model.s_min < model.t_end()) {
            let (name, value) = ("model.beta_max", model.beta_max.to_string());
            let expected = "at least beta_min, and (beta_min + beta_max)/2 above s_min";
            return Err(FitError::Setting { name, value, expected });
        }
        let has_grids = facts.has_grids(&choices.net);
        let rate = if has_grids { 3e-3 } else { 2e-3 };
        let train = training(&choices.train, Optimiser::Adam, rate);
        Ok(Settings { preset, model, net: facts.resolve(&choices.net), train })
    }

    fn trainer(task: &Task, settings: &Settings, seed: u64) -> Result<Trainer, FitError> {
        let Geometry { manifold, prior } = task.geometry.clone();
        let NetworkSettings { model, net, train, .. } = settings;
        let (s_min, t_end) = (model.s_min, model.t_end());
        let optimiser = train.optimiser(seed);
        let sliced = Estimator::Hutchinson { probes: 1, law: ProbeLaw::Rademacher };
        let (loss, weighting) = match model.loss {
            ScoreLoss::Denoising => (LossKind::Denoising, Weighting::NoiseVariance),
            // β times the loss with t uniform is the bound's own weight.
            ScoreLoss::Implicit => (LossKind::Implicit(Estimator::Frame), Weighting::Bound),
            ScoreLoss::Sliced => (LossKind::Implicit(sliced), Weighting::Bound),
        };
        let config = TrainConfig {
            net: net.config(manifold.ambient_dim(), s_min, t_end),
            loss,
            path: match model.noising {
                Noising::Exact => PathChoice::Exact,
                Noising::Walk => PathChoice::GeodesicWalk { steps: model.walk_steps },
            },
            times: TimeSampling::Schedule { beta_min: model.beta_min, beta_max: model.beta_max },
            weighting,
            generators: model.form == ScoreForm::Generators,
            s_min,
            t_end,
            log_coordinates: false,
            prior_score: false,
            batch: train.batch,
            schedule: optimiser.schedule,
            optimiser: optimiser.optimiser,
            adam: optimiser.adam,
            clip: optimiser.clip,
            ema: optimiser.ema,
            seed,
            partitions: optimiser.partitions,
        };
        let data = task.train.coordinates().to_vec();
        Ok(Trainer::new(manifold, prior, data, config)?)
    }

    fn fitted(
        geometry: &Geometry,
        settings: &Settings,
        net: Mlp<f32>,
        best_step: Option<u64>,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let Geometry { manifold, prior } = geometry.clone();
        let model = &settings.model;
        let parts = ModelParts {
            manifold,
            prior,
            net: Arc::new(net.clone()),
            s_min: model.s_min,
            t_end: model.t_end(),
            log_coordinates: false,
            generators: model.form == ScoreForm::Generators,
            prior_score: false,
        };
        let facts = ModelFacts {
            loss: Some(model.loss.name()),
            s_min: Some(model.s_min),
            t_end: Some(model.t_end()),
            ..ModelFacts::default()
        };
        let (info, density, settings) = (&INFO, parts.assemble(), write_settings(settings)?);
        Ok(Arc::new(FittedNetwork { info, settings, net, best_step, facts, density }))
    }

    fn proposal(bound: &Bound) -> Vec<[f64; 2]> {
        proposal_curve(bound)
    }
}
