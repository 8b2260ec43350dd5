//! `rfm`: Riemannian flow matching (Chen & Lipman 2024) along geodesics from data to the prior.
//!
//! A point x of the data and a draw z of the prior are joined by the geodesic Y = exp_x(r log_x z);
//! a network learns the mean velocity at each place and time, whose flow takes the data to the
//! prior. What is left of the data at r has structure of the size r, as noise for the time r² has:
//! so the time is s = r², and network, solver and smallest time are those of a diffusion model. The
//! velocity by s is (dY/dr)/2r.

use std::sync::Arc;

use super::network::{
    FittedNetwork, LearnedFlow, NetChoices, NetFacts, NetworkChoices, NetworkMethod,
    NetworkSettings, OfMethod, PRESET, Preset, Recipe, Scales, TrainingChoices, smallest_time,
    training, unsupported,
};
use super::references::RFM;
use super::settings::{named, settings};
use super::{FitError, Fitted, Geometry, MethodInfo, ModelFacts, Task, write_settings};
use crate::density::Density;
use crate::error::SolveError;
use crate::field::{Field, InLogCoordinates};
use crate::flow_density::{FieldVelocity, FlowClock, FlowDensity, FlowOptions};
use crate::loss::{LossBatch, LossKind};
use crate::manifold::{Family, Geodesics, LogCoordinates, Manifold};
use crate::nn::{Activation, FieldInput, Mlp, TrainWorkspace};
use crate::optim::{Decay, Optimiser};
use crate::parallel;
use crate::rng::Streams;
use crate::train::{NetworkTrainer, Objective, TrainError, pick_rows};

named! {
    /// How times of training are drawn.
    FlowTimes {
        /// Uniform in r, as the authors do.
        Uniform = "uniform",
        /// Half of them uniform in r, half in log r: what is fine is learned at small times.
        Mixed = "mixed",
    }
}

settings! {
    /// The flow.
    "model": RfmModelSettings, RfmModelChoices {
        /// The time s = r² at which the flow begins; structure below √s_min is not resolved.
        s_min: f64,
        /// How times of training are drawn.
        times: FlowTimes,
    }
}

/// Riemannian flow matching as a user asks for it.
pub type Rfm = NetworkChoices<RfmModelChoices>;
type Settings = NetworkSettings<RfmModelSettings>;

const INFO: MethodInfo = MethodInfo {
    name: "rfm",
    title: "flow matching",
    help: "Riemannian flow matching along geodesics",
    manifolds: "spheres, tori, SO(3), hyperbolic and Euclidean spaces and products of these",
    settings: &[
        PRESET,
        RfmModelChoices::DESCRIPTIONS,
        NetChoices::DESCRIPTIONS,
        TrainingChoices::DESCRIPTIONS,
    ],
    references: &[RFM],
};

/// The recipe of this file.
#[derive(Debug)]
pub struct RfmRecipe;

/// The method of this file.
pub type RfmMethod = NetworkMethod<RfmRecipe>;

impl OfMethod for RfmModelChoices {
    const METHOD: &'static str = INFO.name;
}

/// The authors' choices, as their code has them.
fn paper(manifold: &dyn Manifold) -> Rfm {
    let sphere = matches!(manifold.family(), Family::Sphere { .. });
    let (depth, width, batch, weight_decay) =
        if sphere { (10, 2048, 8192, 1e-3) } else { (4, 512, 4096, 1e-2) };
    Rfm {
        preset: Some(Preset::Paper),
        model: RfmModelChoices { times: Some(FlowTimes::Uniform), ..Default::default() },
        net: NetChoices {
            depth: Some(depth),
            width: Some(width),
            activation: Some(Activation::Swish),
            time_pairs: Some(0),
            fourier: Some(0),
            grid_levels: Some(0),
            ..NetChoices::default()
        },
        train: TrainingChoices {
            batch: Some(batch),
            optimiser: Some(Optimiser::Adam),
            rate: Some(1e-4),
            decay: Some(Decay::Cosine),
            weight_decay: Some(weight_decay),
            ema: Some(0.999),
            ..TrainingChoices::default()
        },
    }
}

impl Recipe for RfmRecipe {
    const INFO: &'static MethodInfo = &INFO;
    type Choices = Rfm;
    type Settings = Settings;
    type Objective = FlowMatching;

    fn supports(geometry: &Geometry) -> Result<(), FitError> {
        Geodesics::new(geometry.manifold.as_ref())
            .map(|_| ())
            .ok_or_else(|| unsupported(&INFO, geometry))
    }

    fn check(choices: &Rfm) -> Result<(), FitError> {
        if let Some(s_min) = choices.model.s_min.filter(|s| !(*s > 0.0 && *s < 1.0)) {
            let (name, expected) = ("model.s_min", "a number above 0 and below 1");
            return Err(FitError::Setting { name, value: s_min.to_string(), expected });
        }
        choices.check()
    }

    fn resolve(choices: &Rfm, task: &Task) -> Result<Settings, FitError> {
        let manifold = task.geometry.manifold.as_ref();
        let (preset, choices) = choices.with_preset(|| paper(manifold));
        let scales = Scales::of_task(task);
        let facts = NetFacts {
            manifold,
            scales: &scales,
            has_mixture: task.mixture.is_ok(),
            is_regression: true,
            grids_from: Some(0.3),
        };
        let has_grids = facts.has_grids(&choices.net);
        let model = RfmModelSettings {
            s_min: choices.model.s_min.unwrap_or(smallest_time(&scales, 0.0)),
            times: choices.model.times.unwrap_or(FlowTimes::Mixed),
        };
        let net = facts.resolve(&choices.net);
        let train = training(&choices.train, Optimiser::Adam, if has_grids { 3e-3 } else { 2e-3 });
        Ok(Settings { preset, model, net, train })
    }

    fn trainer(
        task: &Task,
        settings: &Settings,
        seed: u64,
    ) -> Result<NetworkTrainer<FlowMatching>, FitError> {
        let NetworkSettings { model, net, train, .. } = settings;
        let geometry = &task.geometry;
        let m = geometry.manifold.ambient_dim();
        let geodesics = Geodesics::new(geometry.manifold.as_ref())
            .ok_or_else(|| unsupported(&INFO, geometry))?;
        let coordinates =
            net.log_coordinates.then(|| LogCoordinates::new(geometry.manifold.as_ref())).flatten();
        let n = train.batch;
        let mut batch = LossBatch::new(n, m).with_coordinates(coordinates);
        batch.target = vec![0.0; n * m];
        let objective = FlowMatching {
            geometry: geometry.clone(),
            geodesics,
            settings: settings.clone(),
            data: task.train.coordinates().to_vec(),
            batch,
            joined: vec![0.0; n * 2 * m],
            picks: vec![0; n],
            seed,
        };
        let config = net.config(m, model.s_min, END);
        Ok(NetworkTrainer::with_objective(objective, config, train.optimiser(seed))?)
    }

    fn fitted(
        geometry: &Geometry,
        settings: &Settings,
        net: Mlp<f32>,
        best_step: Option<u64>,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let flow = flow(geometry, settings, net.clone(), FlowOptions::default());
        let facts = ModelFacts {
            loss: Some("flow matching"),
            s_min: Some(settings.model.s_min),
            t_end: Some(END),
            ..ModelFacts::default()
        };
        let (info, settings) = (&INFO, write_settings(settings)?);
        let density = LearnedFlow { flow, direct: None };
        Ok(Arc::new(FittedNetwork { info, settings, net, best_step, facts, density }))
    }
}

/// The time of the prior.
const END: f64 = 1.0;

/// The density of a network.
fn flow(
    geometry: &Geometry,
    settings: &Settings,
    net: Mlp<f32>,
    options: FlowOptions,
) -> FlowDensity {
    let Geometry { manifold, prior } = geometry.clone();
    let coordinates =
        settings.net.log_coordinates.then(|| LogCoordinates::new(manifold.as_ref())).flatten();
    let field: Arc<dyn Field> = match coordinates {
        Some(coordinates) => Arc::new(InLogCoordinates { field: Arc::new(net), coordinates }),
        None => Arc::new(net),
    };
    let velocity = Arc::new(FieldVelocity(field));
    let flow = FlowDensity::new(manifold, prior, velocity, settings.model.s_min, END);
    FlowDensity { clock: FlowClock::LogTime, options, ..flow }
}

/// Velocities along geodesics from data to draws of the prior.
pub struct FlowMatching {
    geometry: Geometry,
    geodesics: Geodesics,
    settings: Settings,
    data: Vec<f64>,
    batch: LossBatch,
    /// Points on geodesics with their velocities, n × 2m.
    joined: Vec<f64>,
    picks: Vec<usize>,
    seed: u64,
}

/// Rows that one thread joins at a time.
const CHUNK: usize = 32;

impl Objective for FlowMatching {
    fn draw(&mut self, step: u64) -> Result<(), TrainError> {
        let m = self.geometry.manifold.ambient_dim();
        let n = self.picks.len();
        let rows = self.data.len() / m;
        pick_rows(self.seed, step, rows, &mut self.picks);
        let times = Streams::new(self.seed, "train-times");
        let least = self.settings.model.s_min.sqrt();
        for (i, s) in self.batch.s.iter_mut().enumerate() {
            let level = (i as f64 + times.stream(i as u64, step).uniform()) / n as f64;
            let uniform = |level: f64| least + level * (1.0 - least);
            let r = match self.settings.model.times {
                FlowTimes::Uniform => uniform(level),
                FlowTimes::Mixed if level < 0.5 => uniform(2.0 * level),
                FlowTimes::Mixed => least.powf(2.0 * level - 1.0),
            };
            *s = (r * r).clamp(self.settings.model.s_min, END);
        }
        let ends = Streams::new(self.seed, "train-noise").part(step);
        let (picks, times) = (&self.picks, &self.batch.s);
        let (data, geodesics, prior) = (&self.data, &self.geodesics, &self.geometry.prior);
        parallel::for_each_chunk(&mut self.joined, 2 * m, CHUNK, |first, chunk| {
            let mut z = vec![0.0; m];
            for (i, joined) in chunk.chunks_exact_mut(2 * m).enumerate() {
                let (row, (y, v)) = (first + i, joined.split_at_mut(m));
                let mut stream = ends.stream(row as u64, 0);
                prior.sample(&mut stream, &mut z).map_err(SolveError::at(i, 0.0))?;
                let x = &data[picks[row] * m..(picks[row] + 1) * m];
                geodesics.between(x, &z, times[row].sqrt(), y, v);
            }
            Ok(())
        })?;
        let dim = self.geometry.manifold.dim() as f64;
        for (i, joined) in self.joined.chunks_exact(2 * m).enumerate() {
            let (y, v) = joined.split_at(m);
            let s = self.batch.s[i];
            self.batch.y[i * m..(i + 1) * m].copy_from_slice(y);
            let by_s = 0.5 / s.sqrt();
            for (target, v) in self.batch.target[i * m..(i + 1) * m].iter_mut().zip(v) {
                *target = by_s * v;
            }
            // The authors' loss |error of dY/dr|²/d, where dY/dr = 2√s dY/ds.
            self.batch.weight[i] = 8.0 * s / (dim * n as f64);
        }
        self.batch.prepare_regression(m);
        Ok(())
    }

    fn rows(&self) -> usize {
        self.picks.len()
    }

    fn input(&self) -> Result<FieldInput<'_>, SolveError> {
        self.batch.input(self.geometry.manifold.ambient_dim())
    }

    fn gradient(
        &mut self,
        net: &Mlp<f32>,
        workspace: &mut TrainWorkspace<f32>,
        losses: &mut [f64],
    ) -> Result<f64, TrainError> {
        let form = self.batch.row_loss(self.geometry.manifold.as_ref(), LossKind::Denoising);
        Ok(net.loss_gradient(self.input()?, &form, workspace, losses, None)?)
    }

    fn origin(&self, row: usize) -> (usize, f64) {
        (self.picks[row], self.batch.s[row])
    }

    fn density(&self, net: Mlp<f32>, tolerance: f64) -> Result<Box<dyn Density>, TrainError> {
        let options = FlowOptions::with_tolerance(tolerance);
        Ok(Box::new(flow(&self.geometry, &self.settings, net, options)))
    }
}
