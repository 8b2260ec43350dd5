//! `stereographic`: a Euclidean score-based model of the stereographic projection of a sphere, the
//! baseline of De Bortoli et al. 2022.
//!
//! A sphere without a pole is ℝ^d by z = y/(1 − t), with t the coordinate along the pole and y the
//! rest; dx = (2/(1 + |z|²))^d dz. A diffusion model of z with the standard normal prior is then a
//! density on the sphere. Points near the pole are far away in ℝ^d: the pole is put where the data
//! are not.

use std::sync::Arc;

use super::network::{
    FittedInChart, FittedNetwork, NetChoices, NetFacts, NetworkChoices, NetworkMethod,
    NetworkSettings, OfMethod, PRESET, Preset, Recipe, Scales, TrainingChoices, check_positive,
    smallest_time, training, unsupported,
};
use super::references::{RSGM, SCORE_SDE};
use super::settings::settings;
use super::{FitError, Fitted, Geometry, MethodInfo, ModelFacts, Task, write_settings};
use crate::density::project_rows;
use crate::linalg::{dot, norm, scale};
use crate::loss::LossKind;
use crate::manifold::{Chart, Family, Stereographic as Projection};
use crate::nn::{Activation, Mlp};
use crate::optim::Optimiser;
use crate::path::PathChoice;
use crate::rng::Streams;
use crate::rows::Rows;
use crate::train::{Bound, ModelParts, TimeSampling, TrainConfig, Trainer, Weighting};

settings! {
    /// Projection and noise.
    "model": StereographicModelSettings, StereographicModelChoices {
        /// The point that is projected to infinity.
        pole: Vec<f64>,
        /// β at the data.
        beta_min: f64,
        /// β at the prior.
        beta_max: f64,
        /// Smallest noising time ∫β.
        s_min: f64,
    }
}

/// A stereographic score-based model as a user asks for it.
pub type Stereographic = NetworkChoices<StereographicModelChoices>;
type Settings = NetworkSettings<StereographicModelSettings>;

const INFO: MethodInfo = MethodInfo {
    name: "stereographic",
    title: "stereographic score-based model",
    help: "A Euclidean score-based model through the stereographic projection",
    manifolds: "spheres",
    settings: &[
        PRESET,
        StereographicModelChoices::DESCRIPTIONS,
        NetChoices::DESCRIPTIONS,
        TrainingChoices::DESCRIPTIONS,
    ],
    references: &[SCORE_SDE, RSGM],
};

/// The recipe of this file.
#[derive(Debug)]
pub struct StereographicRecipe;

/// The method of this file.
pub type StereographicMethod = NetworkMethod<StereographicRecipe>;

impl OfMethod for StereographicModelChoices {
    const METHOD: &'static str = INFO.name;
}

/// The choices of the baseline: the network of the Riemannian model, in ℝ^d.
fn paper() -> Stereographic {
    Stereographic {
        preset: Some(Preset::Paper),
        model: StereographicModelChoices {
            beta_min: Some(0.001),
            beta_max: Some(5.0),
            s_min: Some(3.5e-6),
            ..Default::default()
        },
        net: NetChoices {
            depth: Some(5),
            width: Some(512),
            activation: Some(Activation::Sine),
            time_pairs: Some(0),
            fourier: Some(0),
            grid_levels: Some(0),
            ..NetChoices::default()
        },
        train: TrainingChoices {
            optimiser: Some(Optimiser::Adam),
            batch: Some(512),
            rate: Some(2e-4),
            ..Default::default()
        },
    }
}

/// The one of many directions that is farthest from all points.
fn emptiest_direction(x: Rows<'_>, seed: u64) -> Vec<f64> {
    const TRIALS: u64 = 500;
    const MOST_POINTS: usize = 5000;
    let streams = Streams::new(seed, "stereographic-pole");
    let every = x.len().div_ceil(MOST_POINTS);
    let mut best = (f64::INFINITY, vec![0.0; x.width()]);
    for trial in 0..TRIALS {
        let mut direction = vec![0.0; x.width()];
        streams.fill_normal(trial, 0, 0, &mut direction);
        let length = norm(&direction);
        scale(1.0 / length, &mut direction);
        let nearest = x.rows().step_by(every).map(|x| dot(x, &direction));
        let nearest = nearest.fold(f64::NEG_INFINITY, f64::max);
        if nearest < best.0 {
            best = (nearest, direction);
        }
    }
    best.1
}

impl Recipe for StereographicRecipe {
    const INFO: &'static MethodInfo = &INFO;
    type Choices = Stereographic;
    type Settings = Settings;
    type Objective = Bound;

    fn supports(geometry: &Geometry) -> Result<(), FitError> {
        match geometry.manifold.family() {
            Family::Sphere { .. } => Ok(()),
            _ => Err(unsupported(&INFO, geometry)),
        }
    }

    fn check(choices: &Stereographic) -> Result<(), FitError> {
        let model = &choices.model;
        check_positive(&[
            ("model.beta_min", model.beta_min),
            ("model.beta_max", model.beta_max),
            ("model.s_min", model.s_min),
        ])?;
        choices.check()
    }

    fn resolve(choices: &Stereographic, task: &Task) -> Result<Settings, FitError> {
        let manifold = task.geometry.manifold.as_ref();
        let (preset, choices) = choices.with_preset(paper);
        let scales = Scales::of_task(task);
        let plane = Geometry::flat(manifold.dim())?.manifold;
        let facts = NetFacts {
            manifold: plane.as_ref(),
            scales: &scales,
            has_mixture: task.mixture.is_ok(),
            is_regression: true,
            // Grids are for points of a bounded set.
            grids_from: None,
        };
        let mut pole = match choices.model.pole {
            Some(pole) => pole,
            None => emptiest_direction(task.train.rows(), task.seed),
        };
        let length = norm(&pole);
        if pole.len() != manifold.ambient_dim() || !(length > 0.0 && length.is_finite()) {
            let (name, value) = ("model.pole", format!("{pole:?}"));
            let expected = "as many numbers as a point has, not all of them 0";
            return Err(FitError::Setting { name, value, expected });
        }
        scale(1.0 / length, &mut pole);
        let model = StereographicModelSettings {
            pole,
            beta_min: choices.model.beta_min.unwrap_or(0.001),
            beta_max: choices.model.beta_max.unwrap_or(24.0),
            s_min: choices.model.s_min.unwrap_or(smallest_time(&scales, 0.0)),
        };
        if !(model.beta_max >= model.beta_min && model.s_min < model.t_end()) {
            let (name, value) = ("model.beta_max", model.beta_max.to_string());
            let expected = "at least beta_min, and (beta_min + beta_max)/2 above s_min";
            return Err(FitError::Setting { name, value, expected });
        }
        let train = training(&choices.train, Optimiser::Adam, 2e-3);
        Ok(Settings { preset, model, net: facts.resolve(&choices.net), train })
    }

    fn trainer(task: &Task, settings: &Settings, seed: u64) -> Result<Trainer, FitError> {
        let NetworkSettings { model, net, train, .. } = settings;
        let chart = chart(model)?;
        let Geometry { manifold: plane, prior } = Geometry::flat(task.geometry.manifold.dim())?;
        let data = project_rows(chart.as_ref(), task.train.rows())?;
        let optimiser = train.optimiser(seed);
        let config = TrainConfig {
            net: net.config(plane.ambient_dim(), model.s_min, model.t_end()),
            loss: LossKind::Denoising,
            path: PathChoice::Exact,
            times: TimeSampling::Schedule { beta_min: model.beta_min, beta_max: model.beta_max },
            weighting: Weighting::NoiseVariance,
            generators: false,
            s_min: model.s_min,
            t_end: model.t_end(),
            log_coordinates: false,
            prior_score: true,
            batch: train.batch,
            schedule: optimiser.schedule,
            optimiser: optimiser.optimiser,
            adam: optimiser.adam,
            clip: optimiser.clip,
            ema: optimiser.ema,
            seed,
            partitions: optimiser.partitions,
        };
        Ok(Trainer::new(plane, prior, data, config)?.with_chart(chart))
    }

    fn fitted(
        geometry: &Geometry,
        settings: &Settings,
        net: Mlp<f32>,
        best_step: Option<u64>,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let model = &settings.model;
        let Geometry { manifold, prior } = Geometry::flat(geometry.manifold.dim())?;
        let parts = ModelParts {
            manifold,
            prior,
            net: Arc::new(net.clone()),
            s_min: model.s_min,
            t_end: model.t_end(),
            log_coordinates: false,
            generators: false,
            prior_score: true,
        };
        let facts = ModelFacts {
            loss: Some("dsm"),
            s_min: Some(model.s_min),
            t_end: Some(model.t_end()),
            ..ModelFacts::default()
        };
        let (chart, prior) = (chart(model)?, Arc::clone(&geometry.prior));
        let (info, density, settings) = (&INFO, parts.assemble(), write_settings(settings)?);
        let image = FittedNetwork { info, settings, net, best_step, facts, density };
        Ok(Arc::new(FittedInChart { image, chart, prior }))
    }
}

impl StereographicModelSettings {
    /// ∫β over the whole schedule: T.
    fn t_end(&self) -> f64 {
        0.5 * (self.beta_min + self.beta_max)
    }
}

/// The projection from the pole.
fn chart(model: &StereographicModelSettings) -> Result<Arc<dyn Chart>, FitError> {
    let chart = Projection::new(model.pole.clone());
    Ok(Arc::new(chart.map_err(|e| FitError::Settings { problem: e.to_string() })?))
}
