//! `moser`: Moser flow (Rozen et al. 2021), a density from the divergence of a network.
//!
//! With the uniform density ν the model is μ = ν − ∇_g·u, whose mass is one by the divergence
//! theorem; where it is negative a penalty pushes it up. The network is u/ν, so that r = μ/ν =
//! 1 − ∇_g·(u/ν), and r₊ = max(ε, r) is what the method itself states as its density. The flow
//! dY/ds = −(u/ν)/ρ with ρ = s + (1 − s) r₊ takes μ₊ at s = 0 to ν at s = 1, exactly so where
//! r > ε: the likelihood that is reported is that of this flow, whose mass is one everywhere.

use std::fmt;
use std::sync::Arc;

use super::network::{
    FittedNetwork, LearnedFlow, NetChoices, NetFacts, NetworkChoices, NetworkMethod,
    NetworkSettings, OfMethod, PRESET, Preset, Recipe, Scales, TrainingChoices, check_positive,
    training, unsupported,
};
use super::references::MOSER;
use super::settings::settings;
use super::{FitError, Fitted, Geometry, MethodInfo, ModelFacts, Task, write_settings};
use crate::density::Density;
use crate::divergence::{Estimator, Probes};
use crate::error::SolveError;
use crate::field::FieldValues;
use crate::flow_density::{FlowDensity, FlowOptions, FlowPlaces, Velocity};
use crate::linalg::dot;
use crate::manifold::Manifold;
use crate::nn::{
    Activation, Directions, FieldInput, Mlp, ShardCotangents, ShardValues, TrainWorkspace,
};
use crate::optim::Optimiser;
use crate::rng::Streams;
use crate::rows::Rows;
use crate::train::{NetworkTrainer, Objective, TrainError, pick_rows};
use crate::transport::{Places, Transport};

settings! {
    /// The density.
    "model": MoserModelSettings, MoserModelChoices {
        /// ε, the least density, as a share of the uniform one.
        floor: f64,
        /// λ, the weight of the penalty on a density below the floor.
        penalty: f64,
    }
}

/// Moser flow as a user asks for it.
pub type Moser = NetworkChoices<MoserModelChoices>;
type Settings = NetworkSettings<MoserModelSettings>;

const INFO: MethodInfo = MethodInfo {
    name: "moser",
    title: "Moser flow",
    help: "Moser flow: a density from the divergence of a network",
    manifolds: "compact manifolds with a uniform prior: spheres, tori, rotations, level sets and \
                products of these",
    settings: &[
        PRESET,
        MoserModelChoices::DESCRIPTIONS,
        NetChoices::DESCRIPTIONS,
        TrainingChoices::DESCRIPTIONS,
    ],
    references: &[MOSER],
};

/// The recipe of this file.
#[derive(Debug)]
pub struct MoserRecipe;

/// The method of this file.
pub type MoserMethod = NetworkMethod<MoserRecipe>;

impl OfMethod for MoserModelChoices {
    const METHOD: &'static str = INFO.name;
}

/// The authors' choices, as their code has them.
fn paper() -> Moser {
    Moser {
        preset: Some(Preset::Paper),
        model: MoserModelChoices { floor: Some(1e-5), penalty: Some(100.0) },
        net: NetChoices {
            depth: Some(6),
            width: Some(512),
            activation: Some(Activation::Softplus),
            fourier: Some(0),
            ..NetChoices::default()
        },
        train: TrainingChoices {
            optimiser: Some(Optimiser::Adam),
            rate: Some(1e-4),
            batch: Some(4096),
            ..Default::default()
        },
    }
}

/// Largest frequency of Fourier features: the divergence of higher ones is too noisy to learn.
const HIGHEST: f64 = 64.0;

impl Recipe for MoserRecipe {
    const INFO: &'static MethodInfo = &INFO;
    // The divergence of the velocity has second derivatives of the network.
    const PASSES: f64 = 6.0;
    type Choices = Moser;
    type Settings = Settings;
    type Objective = MoserObjective;

    fn supports(geometry: &Geometry) -> Result<(), FitError> {
        if geometry.prior.is_driftless() && geometry.manifold.metric_is_induced() {
            return Ok(());
        }
        Err(unsupported(&INFO, geometry))
    }

    fn check(choices: &Moser) -> Result<(), FitError> {
        check_positive(&[
            ("model.floor", choices.model.floor),
            ("model.penalty", choices.model.penalty),
        ])?;
        choices.net.check_plain()?;
        choices.check()
    }

    fn resolve(choices: &Moser, task: &Task) -> Result<Settings, FitError> {
        let manifold = task.geometry.manifold.as_ref();
        let (preset, choices) = choices.with_preset(paper);
        let scales = Scales::of_task(task);
        let facts = NetFacts {
            manifold,
            scales: &scales,
            has_mixture: task.mixture.is_ok(),
            is_regression: false,
            grids_from: None,
        };
        let net = NetChoices {
            fourier: choices.net.fourier.or(Some(128)),
            fourier_max: choices.net.fourier_max.or(Some((1.0 / scales.small).clamp(4.0, HIGHEST))),
            actnorm: choices.net.actnorm.or(Some(false)),
            // There is no time.
            time_pairs: Some(0),
            inverse_noise: Some(false),
            log_coordinates: Some(false),
            ..choices.net
        };
        let model = MoserModelSettings {
            floor: choices.model.floor.unwrap_or(1e-2),
            penalty: choices.model.penalty.unwrap_or(5.0),
        };
        let train = training(&choices.train, Optimiser::Adam, 1e-3);
        Ok(Settings { preset, model, net: facts.resolve(&net), train })
    }

    fn trainer(
        task: &Task,
        settings: &Settings,
        seed: u64,
    ) -> Result<NetworkTrainer<MoserObjective>, FitError> {
        let NetworkSettings { net, train, .. } = settings;
        let m = task.geometry.manifold.ambient_dim();
        let objective = MoserObjective {
            geometry: task.geometry.clone(),
            settings: settings.clone(),
            data: task.train.coordinates().to_vec(),
            x: vec![0.0; train.batch * m],
            s: vec![TIME; train.batch],
            probes: Probes::default(),
            picks: vec![0; train.batch],
            seed,
        };
        let config = net.config(m, TIME, 1.0);
        Ok(NetworkTrainer::with_objective(objective, config, train.optimiser(seed))?)
    }

    fn fitted(
        geometry: &Geometry,
        settings: &Settings,
        net: Mlp<f32>,
        best_step: Option<u64>,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let flow = flow(geometry, settings.model.floor, net.clone(), FlowOptions::default());
        let direct: Arc<dyn Density> =
            Arc::new(Stated { flow: flow.clone(), velocity: velocity(settings, net.clone()) });
        let facts = ModelFacts { loss: Some("divergence"), ..ModelFacts::default() };
        let (info, settings) = (&INFO, write_settings(settings)?);
        let density = LearnedFlow { flow, direct: Some(direct) };
        Ok(Arc::new(FittedNetwork { info, settings, net, best_step, facts, density }))
    }
}

/// What the network is given as its time: it has none, and Fourier features are not damped.
const TIME: f64 = 1e-12;

fn velocity(settings: &Settings, net: Mlp<f32>) -> Arc<MoserVelocity> {
    Arc::new(MoserVelocity { net, floor: settings.model.floor })
}

/// The density of a network.
fn flow(geometry: &Geometry, floor: f64, net: Mlp<f32>, options: FlowOptions) -> FlowDensity {
    let Geometry { manifold, prior } = geometry.clone();
    let velocity = Arc::new(MoserVelocity { net, floor });
    FlowDensity { options, ..FlowDensity::new(manifold, prior, velocity, 0.0, 1.0) }
}

/// −(u/ν)/ρ.
struct MoserVelocity {
    net: Mlp<f32>,
    floor: f64,
}

impl fmt::Debug for MoserVelocity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MoserVelocity").field("floor", &self.floor).finish_non_exhaustive()
    }
}

impl MoserVelocity {
    /// r = 1 − ∇_g·(u/ν) at points.
    fn ratios(&self, manifold: &dyn Manifold, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        let numbers: Vec<usize> = (0..x.len()).collect();
        let (s, probes) = (vec![TIME; x.len()], Streams::new(0, "none"));
        let mut values = FieldValues::new(Estimator::Frame);
        values.evaluate(manifold, &self.net, &numbers, x, &s, &probes)?;
        Ok(values.div.iter().map(|div| 1.0 - div).collect())
    }
}

impl Velocity for MoserVelocity {
    fn eval(
        &self,
        places: FlowPlaces<'_>,
        values: &mut FieldValues,
        v: &mut [f64],
        divergence: Option<&mut [f64]>,
    ) -> Result<(), SolveError> {
        let FlowPlaces { manifold, x, s, .. } = places;
        let m = x.width();
        let still = vec![TIME; x.len()];
        let Some(divergence) = divergence else {
            let still = FlowPlaces { s: &still, ..places };
            still.field(&self.net, true, values)?;
            for (i, (v, u)) in v.chunks_exact_mut(m).zip(values.a.chunks_exact(m)).enumerate() {
                let density = s[i] + (1.0 - s[i]) * (1.0 - values.div[i]).max(self.floor);
                for (v, u) in v.iter_mut().zip(u) {
                    *v = -u / density;
                }
            }
            return Ok(());
        };
        // ∇_g·(−ũ/ρ) = −∇_g·ũ/ρ + ⟨ũ, ∇ρ⟩/ρ², and ∇ρ = −(1 − s)∇(∇_g·ũ) where r > ε.
        let mut transport = Transport::default();
        let mut workspace = self.net.train_workspace(1);
        let none = vec![0.0; x.as_slice().len()];
        let places = Places { x, s: &still, alpha: &none };
        transport.eval(manifold, &self.net, places, 1.0, &mut workspace)?;
        for (i, v) in v.chunks_exact_mut(m).enumerate() {
            let own = i * m..(i + 1) * m;
            let (u, div) = (&transport.velocity[own.clone()], transport.divergence[i]);
            let ratio = 1.0 - div;
            let density = s[i] + (1.0 - s[i]) * ratio.max(self.floor);
            for (v, u) in v.iter_mut().zip(u) {
                *v = -u / density;
            }
            let slope = if ratio > self.floor {
                -(1.0 - s[i]) * dot(u, &transport.gradient[own])
            } else {
                0.0
            };
            divergence[i] = -div / density + slope / (density * density);
        }
        Ok(())
    }
}

/// μ₊, the density that the method states itself. Its mass is one only where μ ≥ ε everywhere.
#[derive(Debug)]
struct Stated {
    flow: FlowDensity,
    velocity: Arc<MoserVelocity>,
}

impl Density for Stated {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.flow.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        let ratios = self.velocity.ratios(self.flow.manifold.as_ref(), x)?;
        let log_p = |(x, ratio): (&[f64], f64)| {
            self.flow.prior.log_density(x) + ratio.max(self.velocity.floor).ln()
        };
        Ok(x.rows().zip(ratios).map(log_p).collect())
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.flow.sample(n, seed)
    }
}

/// −E log r₊ over the data plus λ E(ε − r)₊ over uniform points.
pub struct MoserObjective {
    geometry: Geometry,
    settings: Settings,
    data: Vec<f64>,
    /// Points of the data, then uniform ones.
    x: Vec<f64>,
    s: Vec<f64>,
    probes: Probes,
    picks: Vec<usize>,
    seed: u64,
}

impl MoserObjective {
    /// Rows of a batch that are data; the others are uniform.
    fn rows_of_data(&self) -> usize {
        self.picks.len().div_ceil(2)
    }
}

impl Objective for MoserObjective {
    fn draw(&mut self, step: u64) -> Result<(), TrainError> {
        let m = self.geometry.manifold.ambient_dim();
        let (rows, from_data) = (self.data.len() / m, self.rows_of_data());
        pick_rows(self.seed, step, rows, &mut self.picks);
        let uniform = Streams::new(self.seed, "train-noise").part(step);
        for (i, (x, picked)) in self.x.chunks_exact_mut(m).zip(&self.picks).enumerate() {
            if i < from_data {
                x.copy_from_slice(&self.data[*picked * m..(*picked + 1) * m]);
            } else {
                let mut stream = uniform.stream(i as u64, 0);
                self.geometry.prior.sample(&mut stream, x).map_err(SolveError::at(i, 0.0))?;
            }
        }
        let x = Rows::new(&self.x, m).map_err(SolveError::from)?;
        let probes = Streams::new(self.seed, "train-probes").part(step);
        let manifold = self.geometry.manifold.as_ref();
        self.probes.fill(manifold, Estimator::Frame, x, &probes, 0, 0)?;
        Ok(())
    }

    fn rows(&self) -> usize {
        self.picks.len()
    }

    fn input(&self) -> Result<FieldInput<'_>, SolveError> {
        let (per_row, e) = (self.probes.per_row, self.probes.velocities());
        let x = Rows::new(&self.x, self.geometry.manifold.ambient_dim())?;
        Ok(FieldInput { x, s: &self.s, directions: Directions { per_row, e, e_s: &[] } })
    }

    fn gradient(
        &mut self,
        net: &Mlp<f32>,
        workspace: &mut TrainWorkspace<f32>,
        losses: &mut [f64],
    ) -> Result<f64, TrainError> {
        let (n, from_data) = (self.rows(), self.rows_of_data());
        let MoserModelSettings { floor, penalty } = self.settings.model;
        let probes = &self.probes;
        let loss = |values: ShardValues<'_>, out: ShardCotangents<'_>| {
            let (m, block) = (values.dim, values.per_row * values.dim);
            for r in 0..values.rows {
                let row = values.first_row + r;
                let (h, e) =
                    (&probes.h[row * m..(row + 1) * m], &probes.e[row * block..(row + 1) * block]);
                let ratio = 1.0
                    - dot(e, &values.jvp[r * block..(r + 1) * block])
                    - dot(h, &values.a[r * m..(r + 1) * m]);
                // The loss, and its derivative by the ratio.
                let (value, slope) = if ratio.is_nan() {
                    // Neither above the floor nor below it: an error, not the floor.
                    (ratio, 0.0)
                } else if row < from_data {
                    let weight = 1.0 / from_data as f64;
                    let known = ratio.max(floor);
                    let slope = if ratio > floor { -weight / known } else { 0.0 };
                    (-weight * known.ln(), slope)
                } else {
                    let weight = penalty / (n - from_data) as f64;
                    let below = (floor - ratio).max(0.0);
                    (weight * below, if ratio < floor { -weight } else { 0.0 })
                };
                out.loss[r] = value;
                for (out, h) in out.a[r * m..(r + 1) * m].iter_mut().zip(h) {
                    *out = -slope * h;
                }
                for (out, e) in out.jvp[r * block..(r + 1) * block].iter_mut().zip(e) {
                    *out = -slope * e;
                }
            }
        };
        Ok(net.loss_gradient(self.input()?, &loss, workspace, losses, None)?)
    }

    fn origin(&self, row: usize) -> (usize, f64) {
        (self.picks[row], TIME)
    }

    /// Validations by what the method states would reward a density of more mass than one.
    fn density(&self, net: Mlp<f32>, tolerance: f64) -> Result<Box<dyn Density>, TrainError> {
        let options = FlowOptions::with_tolerance(tolerance);
        Ok(Box::new(flow(&self.geometry, self.settings.model.floor, net, options)))
    }
}
