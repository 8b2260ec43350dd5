//! `stereographic`: a Euclidean score-based model of the stereographic projection of a sphere, the
//! baseline of De Bortoli et al. 2022.
//!
//! A sphere without a pole is ℝ^d by z = y/(1 − t), with t the coordinate along the pole and y the
//! rest; dx = (2/(1 + |z|²))^d dz. A diffusion model of z with the standard normal prior is then a
//! density on the sphere. Points near the pole are far away in ℝ^d: the pole is put where the data
//! are not.

use std::sync::Arc;

use serde_json::Value as Json;

use super::network::{
    NetChoices, NetFacts, NetworkChoices, NetworkMethod, NetworkSettings, OfMethod, PRESET, Preset,
    Recipe, Scales, TOLERANCE, TrainingChoices, check_positive, network_files, smallest_time,
    training, unsupported,
};
use super::references::{RSGM, SCORE_SDE};
use super::settings::settings;
use super::{
    FileMap, FitError, Fitted, Geometry, LikelihoodKind, LogDensities, MethodInfo, ModelFacts,
    Task, write_settings,
};
use crate::density::Density;
use crate::error::{PointError, SolveError};
use crate::flow_density::FlowOptions;
use crate::linalg::{axpy, dot, norm, scale};
use crate::loss::LossKind;
use crate::manifold::{Euclidean, Family, Manifold};
use crate::model::Diffusion;
use crate::nn::{Activation, FieldInput, Mlp, TrainWorkspace};
use crate::optim::Optimiser;
use crate::path::PathChoice;
use crate::prior::{Prior, StandardNormal};
use crate::rng::Streams;
use crate::rows::Rows;
use crate::sample::{SampleOptions, sample};
use crate::train::{
    Bound, ModelParts, NetworkTrainer, Objective, TimeSampling, TrainConfig, TrainError, Trainer,
    Weighting,
};

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

/// The projection from a pole.
#[derive(Clone, Debug)]
pub struct Chart {
    /// The point without a projection.
    pub pole: Vec<f64>,
}

impl Chart {
    /// The reflection that takes the pole to the last coordinate vector and back.
    fn reflect(&self, x: &mut [f64]) {
        let last = x.len() - 1;
        let mut across = self.pole.clone();
        across[last] -= 1.0;
        let length2 = dot(&across, &across);
        if length2 > 0.0 {
            let along = 2.0 * dot(&across, x) / length2;
            axpy(-along, &across, x);
        }
    }

    /// `z ←` the projection of x; an error for the pole, which has none.
    pub fn project(&self, x: &[f64], z: &mut [f64]) -> Result<(), PointError> {
        let mut turned = x.to_vec();
        self.reflect(&mut turned);
        let d = z.len();
        // 1 − t, also where t is near 1.
        let y = &turned[..d];
        let beyond = if turned[d] > 0.0 { dot(y, y) / (1.0 + turned[d]) } else { 1.0 - turned[d] };
        // Nearer than 1e-15 it is the pole up to rounding.
        if !(beyond > 1e-30) {
            return Err(PointError::NoProjection {
                manifold: format!("sphere:{d}"),
                reason: "1 - <x, pole> in the stereographic projection",
                value: beyond,
            });
        }
        for (z, y) in z.iter_mut().zip(y) {
            *z = y / beyond;
        }
        Ok(())
    }

    /// `x ←` the point whose projection is z.
    pub fn lift(&self, z: &[f64], x: &mut [f64]) {
        let (d, square) = (z.len(), dot(z, z));
        for (x, z) in x.iter_mut().zip(z) {
            *x = 2.0 * z / (1.0 + square);
        }
        x[d] = (square - 1.0) / (1.0 + square);
        self.reflect(x);
        let length = norm(x);
        scale(1.0 / length, x);
    }

    /// log|dz/dx|.
    pub fn log_stretch(z: &[f64]) -> f64 {
        z.len() as f64 * (0.5 * (1.0 + dot(z, z))).ln()
    }

    /// The projections of rows.
    fn project_rows(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        let d = x.width() - 1;
        let mut z = vec![0.0; x.len() * d];
        for (row, (x, z)) in x.rows().zip(z.chunks_exact_mut(d)).enumerate() {
            self.project(x, z).map_err(SolveError::at(row, 0.0))?;
        }
        Ok(z)
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
    type Objective = OfProjection;

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
        let plane = Euclidean::new(manifold.dim())
            .map_err(|e| FitError::Settings { problem: e.to_string() })?;
        let facts = NetFacts {
            manifold: &plane,
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

    fn trainer(
        task: &Task,
        settings: &Settings,
        seed: u64,
    ) -> Result<NetworkTrainer<OfProjection>, FitError> {
        let NetworkSettings { model, net, train, .. } = settings;
        let chart = Chart { pole: model.pole.clone() };
        let Geometry { manifold: plane, prior } = plane(task.geometry.manifold.dim())?;
        let data = chart.project_rows(task.train.rows())?;
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
        let (net, optimiser) = (config.net.clone(), optimiser);
        let bound = Trainer::new(plane, prior, data, config)?.into_objective();
        let sphere = Arc::clone(&task.geometry.manifold);
        let objective = OfProjection { bound, chart, sphere };
        Ok(NetworkTrainer::with_objective(objective, net, optimiser)?)
    }

    fn fitted(
        geometry: &Geometry,
        settings: &Settings,
        net: Mlp<f32>,
        best_step: Option<u64>,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let model = &settings.model;
        let Geometry { manifold, prior } = plane(geometry.manifold.dim())?;
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
        Ok(Arc::new(FittedStereographic {
            chart: Chart { pole: model.pole.clone() },
            settings: write_settings(settings)?,
            facts: ModelFacts {
                loss: Some("dsm"),
                s_min: Some(model.s_min),
                t_end: Some(model.t_end()),
                ..ModelFacts::default()
            },
            geometry: geometry.clone(),
            diffusion: parts.assemble(),
            net,
            best_step,
        }))
    }
}

impl StereographicModelSettings {
    /// ∫β over the whole schedule: T.
    fn t_end(&self) -> f64 {
        0.5 * (self.beta_min + self.beta_max)
    }
}

/// ℝ^d with its prior.
fn plane(dim: usize) -> Result<Geometry, FitError> {
    let plane = Euclidean::new(dim).map_err(|e| FitError::Settings { problem: e.to_string() })?;
    Ok(Geometry { manifold: Arc::new(plane), prior: Arc::new(StandardNormal::new(dim)) })
}

/// The bound of the projected data.
pub struct OfProjection {
    bound: Bound,
    chart: Chart,
    sphere: Arc<dyn Manifold>,
}

impl Objective for OfProjection {
    fn draw(&mut self, step: u64) -> Result<(), TrainError> {
        self.bound.draw(step)
    }

    fn rows(&self) -> usize {
        self.bound.rows()
    }

    fn input(&self) -> Result<FieldInput<'_>, SolveError> {
        self.bound.input()
    }

    fn gradient(
        &mut self,
        net: &Mlp<f32>,
        workspace: &mut TrainWorkspace<f32>,
        losses: &mut [f64],
    ) -> Result<f64, TrainError> {
        self.bound.gradient(net, workspace, losses)
    }

    fn origin(&self, row: usize) -> (usize, f64) {
        self.bound.origin(row)
    }

    fn density(&self, net: Mlp<f32>, tolerance: f64) -> Result<Box<dyn Density>, TrainError> {
        let (chart, sphere) = (self.chart.clone(), Arc::clone(&self.sphere));
        Ok(Box::new(OnSphere { projected: self.bound.density(net, tolerance)?, chart, sphere }))
    }
}

/// A density of the projection as a density on the sphere.
#[derive(Debug)]
struct OnSphere {
    projected: Box<dyn Density>,
    chart: Chart,
    sphere: Arc<dyn Manifold>,
}

impl Density for OnSphere {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.sphere
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        let d = x.width() - 1;
        let z = self.chart.project_rows(x)?;
        let mut log_p = self.projected.log_density(Rows::new(&z, d)?)?;
        for (log_p, z) in log_p.iter_mut().zip(z.chunks_exact(d)) {
            *log_p += Chart::log_stretch(z);
        }
        Ok(log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        Ok(lifted(&self.chart, &self.projected.sample(n, seed)?, self.sphere.dim()))
    }
}

/// The points of the sphere whose projections these are.
fn lifted(chart: &Chart, z: &[f64], d: usize) -> Vec<f64> {
    let mut x = vec![0.0; z.len() / d * (d + 1)];
    for (z, x) in z.chunks_exact(d).zip(x.chunks_exact_mut(d + 1)) {
        chart.lift(z, x);
    }
    x
}

/// The trained model.
#[derive(Debug)]
struct FittedStereographic {
    geometry: Geometry,
    settings: Json,
    net: Mlp<f32>,
    best_step: Option<u64>,
    diffusion: Diffusion,
    chart: Chart,
    facts: ModelFacts,
}

impl Density for FittedStereographic {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.geometry.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(self.log_density_to(x, TOLERANCE)?.log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_with(n, &SampleOptions { seed, ..SampleOptions::default() })
    }
}

impl Fitted for FittedStereographic {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn settings(&self) -> Result<Json, FitError> {
        Ok(self.settings.clone())
    }

    fn files(&self) -> Result<FileMap, FitError> {
        network_files(&self.net, self.best_step)
    }

    fn prior(&self) -> &Arc<dyn Prior> {
        &self.geometry.prior
    }

    fn likelihood_kind(&self) -> LikelihoodKind {
        LikelihoodKind::Ode
    }

    fn log_density_to(&self, x: Rows<'_>, tolerance: f64) -> Result<LogDensities, SolveError> {
        self.diffusion.check()?;
        let d = self.geometry.manifold.dim();
        for (row, x) in x.rows().enumerate() {
            self.geometry.manifold.check_point(x).map_err(SolveError::at(row, 0.0))?;
        }
        let z = self.chart.project_rows(x)?;
        let flow = self.diffusion.flow(FlowOptions::with_tolerance(tolerance));
        let found = flow.log_density_with_stats(Rows::new(&z, d)?)?;
        let evaluations = found.stats.evaluations as f64 / x.len() as f64;
        let stretched = found.log_p.iter().zip(z.chunks_exact(d));
        let log_p = stretched.map(|(log_p, z)| log_p + Chart::log_stretch(z)).collect();
        Ok(LogDensities { log_p, evaluations, members: Vec::new() })
    }

    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        let z = sample(&self.diffusion, n, options)?;
        Ok(lifted(&self.chart, &z, self.geometry.manifold.dim()))
    }

    fn parameters(&self) -> Option<usize> {
        Some(self.net.params().len())
    }

    fn facts(&self) -> ModelFacts {
        self.facts
    }
}
