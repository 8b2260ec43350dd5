//! `rcnf`: Riemannian continuous normalising flows (Mathieu & Nickel 2020), by maximum likelihood
//! through the ODE.
//!
//! dY/ds = v(Y, s) takes data at s = 0 to the prior at s = 1, and log p(x) = log p₀(Y₁) +
//! ∫ ∇_g·v ds. Its gradient by the network needs no graph of the solver: with α = ∇ log q_s(Y_s),
//! the adjoint state, it is that of ∫ (∇_g·v + ⟨α, v⟩) ds along the path held fixed, and α goes
//! backwards along the same path (see `transport`). Points go forward by fourth-order steps, α
//! backwards by Adams–Bashforth on the same nodes, one reverse pass of the network at each.
//!
//! A network must not learn what its solver does not see: nodes are drawn anew for every batch,
//! there are as many as the flow is steep, and a penalty keeps it from becoming steeper than that.

use std::sync::Arc;

use super::network::{
    FittedNetwork, LearnedFlow, NetChoices, NetFacts, NetworkChoices, NetworkMethod,
    NetworkSettings, OfMethod, PRESET, Preset, Recipe, Scales, TrainingChoices, training,
    unsupported,
};
use super::references::RCNF;
use super::settings::settings;
use super::{FitError, Fitted, Geometry, MethodInfo, ModelFacts, Task, write_settings};
use crate::checkpoint::Arrays;
use crate::density::Density;
use crate::error::SolveError;
use crate::field::Field;
use crate::flow_density::{FieldVelocity, FlowDensity, FlowOptions};
use crate::linalg::axpy;
use crate::manifold::{Family, Manifold};
use crate::nn::{Activation, FieldInput, Mlp, TrainWorkspace};
use crate::optim::Optimiser;
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::Rows;
use crate::train::{NetworkTrainer, Objective, RestoreError, TrainError, pick_rows};
use crate::transport::{Places, Transport};

settings! {
    /// The flow.
    "model": RcnfModelSettings, RcnfModelChoices {
        /// Steps of the solver in training, at most: there are as many as the flow is steep.
        /// Likelihoods that are reported are solved to a tolerance.
        solver_steps: usize,
        /// Weight of the penalty on steep flows, |∂v/∂x|² along the path.
        smoothness: f64,
    }
}

/// A Riemannian continuous normalising flow as a user asks for it.
pub type Rcnf = NetworkChoices<RcnfModelChoices>;
type Settings = NetworkSettings<RcnfModelSettings>;

const INFO: MethodInfo = MethodInfo {
    name: "rcnf",
    title: "continuous normalising flow",
    help: "A Riemannian continuous normalising flow, by maximum likelihood",
    manifolds: "spheres, tori and hyperbolic spaces",
    settings: &[
        PRESET,
        RcnfModelChoices::DESCRIPTIONS,
        NetChoices::DESCRIPTIONS,
        TrainingChoices::DESCRIPTIONS,
    ],
    references: &[RCNF],
};

/// The recipe of this file.
#[derive(Debug)]
pub struct RcnfRecipe;

/// The method of this file.
pub type RcnfMethod = NetworkMethod<RcnfRecipe>;

impl OfMethod for RcnfModelChoices {
    const METHOD: &'static str = INFO.name;
}

/// The authors' choices, from memory of their paper: their code was not to be had.
fn paper() -> Rcnf {
    Rcnf {
        preset: Some(Preset::Paper),
        model: RcnfModelChoices { solver_steps: Some(100), smoothness: Some(0.0) },
        net: NetChoices {
            depth: Some(4),
            width: Some(512),
            activation: Some(Activation::Sine),
            fourier: Some(0),
            ..NetChoices::default()
        },
        train: TrainingChoices {
            optimiser: Some(Optimiser::Adam),
            rate: Some(1e-3),
            batch: Some(400),
            ..Default::default()
        },
    }
}

impl Recipe for RcnfRecipe {
    const INFO: &'static MethodInfo = &INFO;
    type Choices = Rcnf;
    type Settings = Settings;
    type Objective = MaximumLikelihood;

    fn supports(geometry: &Geometry) -> Result<(), FitError> {
        match geometry.manifold.family() {
            Family::Sphere { .. } | Family::Torus { .. } | Family::Hyperboloid { .. } => Ok(()),
            _ => Err(unsupported(&INFO, geometry)),
        }
    }

    fn check(choices: &Rcnf) -> Result<(), FitError> {
        if let Some(steps) = choices.model.solver_steps.filter(|n| !(2..=4096).contains(n)) {
            let (name, expected) = ("model.solver_steps", "from 2 to 4096");
            return Err(FitError::Setting { name, value: steps.to_string(), expected });
        }
        if let Some(c) = choices.model.smoothness.filter(|c| !(*c >= 0.0 && c.is_finite())) {
            let (name, expected) = ("model.smoothness", "a number of at least 0");
            return Err(FitError::Setting { name, value: c.to_string(), expected });
        }
        choices.net.check_plain()?;
        choices.check()
    }

    fn resolve(choices: &Rcnf, task: &Task) -> Result<Settings, FitError> {
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
        let hyperbolic = matches!(manifold.family(), Family::Hyperboloid { .. });
        let net = NetChoices {
            depth: choices.net.depth.or(Some(3)),
            width: choices.net.width.or(Some(128)),
            activation: choices.net.activation.or(Some(Activation::Sine)),
            fourier: choices.net.fourier.or(Some(0)),
            actnorm: choices.net.actnorm.or(Some(hyperbolic)),
            // Second derivatives of other coordinates are not known to the reverse pass.
            log_coordinates: Some(false),
            time_pairs: Some(0),
            inverse_noise: Some(false),
            ..choices.net
        };
        let model = RcnfModelSettings {
            solver_steps: choices.model.solver_steps.unwrap_or(48),
            smoothness: choices.model.smoothness.unwrap_or(1e-4),
        };
        let batch = choices.train.batch.or(Some(128));
        let clip = choices.train.clip.or(Some(1.0));
        let choices = TrainingChoices { batch, clip, ..choices.train };
        let train = training(&choices, Optimiser::Adam, 4e-3);
        Ok(Settings { preset, model, net: facts.resolve(&net), train })
    }

    fn trainer(
        task: &Task,
        settings: &Settings,
        seed: u64,
    ) -> Result<NetworkTrainer<MaximumLikelihood>, FitError> {
        let NetworkSettings { net, train, .. } = settings;
        let m = task.geometry.manifold.ambient_dim();
        let objective = MaximumLikelihood {
            geometry: task.geometry.clone(),
            settings: settings.clone(),
            data: task.train.coordinates().to_vec(),
            nodes: vec![vec![0.0; train.batch * m]; settings.model.solver_steps + 1],
            grid: Vec::new(),
            steps: LEAST_STEPS.min(settings.model.solver_steps),
            next_steps: LEAST_STEPS.min(settings.model.solver_steps),
            times: vec![START; train.batch],
            picks: vec![0; train.batch],
            transport: Transport::with_penalty(settings.model.smoothness),
            gradient: Vec::new(),
            seed,
        };
        let config = net.config(m, START, END);
        Ok(NetworkTrainer::with_objective(objective, config, train.optimiser(seed))?)
    }

    fn fitted(
        geometry: &Geometry,
        settings: &Settings,
        net: Mlp<f32>,
        best_step: Option<u64>,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let flow = flow(geometry, net.clone(), FlowOptions::default());
        let facts = ModelFacts { loss: Some("maximum likelihood"), ..ModelFacts::default() };
        let (info, settings) = (&INFO, write_settings(settings)?);
        let density = LearnedFlow { flow, direct: None };
        Ok(Arc::new(FittedNetwork { info, settings, net, best_step, facts, density }))
    }
}

/// The times of the data and of the prior. Networks take positive times.
const START: f64 = 1e-3;
const END: f64 = 1.0;

/// Fewest steps of the solver, and how much a flow may change in a step: the length of a step times
/// the norm of ∂v/∂x. Beyond 1 explicit steps of the adjoint are unstable.
const LEAST_STEPS: usize = 8;
const STEEPNESS: f64 = 0.5;

/// The density of a network.
fn flow(geometry: &Geometry, net: Mlp<f32>, options: FlowOptions) -> FlowDensity {
    let Geometry { manifold, prior } = geometry.clone();
    let velocity = Arc::new(FieldVelocity(Arc::new(net)));
    FlowDensity { options, ..FlowDensity::new(manifold, prior, velocity, START, END) }
}

/// −log p of the data, by the ODE.
pub struct MaximumLikelihood {
    geometry: Geometry,
    settings: Settings,
    data: Vec<f64>,
    /// The batch at every node of the path, data first.
    nodes: Vec<Vec<f64>>,
    /// The times of the nodes.
    grid: Vec<f64>,
    /// Steps of the solver, by how steep the flow was on the last batch.
    steps: usize,
    next_steps: usize,
    times: Vec<f64>,
    picks: Vec<usize>,
    transport: Transport,
    /// The gradient of all nodes together.
    gradient: Vec<f32>,
    seed: u64,
}

/// `v ←` the velocity in ℝᵐ at points, row by row.
fn velocity(
    manifold: &dyn Manifold,
    net: &Mlp<f32>,
    x: &[f64],
    s: &[f64],
    v: &mut [f64],
) -> Result<(), SolveError> {
    let m = manifold.ambient_dim();
    Field::eval(net, Rows::new(x, m)?, s, 0, &[], v, &mut [])?;
    for (x, v) in x.chunks_exact(m).zip(v.chunks_exact_mut(m)) {
        manifold.project_tangent(x, v);
        manifold.velocity(x, v);
    }
    Ok(())
}

/// `x ← π(x + t v)`, row by row, from the time s.
fn moved(
    manifold: &dyn Manifold,
    (from, s): (&[f64], f64),
    t: f64,
    v: &[f64],
    x: &mut [f64],
) -> Result<(), SolveError> {
    x.copy_from_slice(from);
    axpy(t, v, x);
    for (row, x) in x.chunks_exact_mut(manifold.ambient_dim()).enumerate() {
        manifold.project_point(x).map_err(SolveError::at(row, s))?;
    }
    Ok(())
}

/// `alpha ← ∇ log p₀(x)` as a covector of motions in ℝᵐ, by central differences.
fn prior_gradient(
    manifold: &dyn Manifold,
    prior: &dyn Prior,
    x: &[f64],
    alpha: &mut [f64],
) -> Result<(), SolveError> {
    const STEP: f64 = 1e-4;
    alpha.fill(0.0);
    if prior.is_driftless() {
        return Ok(());
    }
    let m = manifold.ambient_dim();
    let mut frame = vec![0.0; manifold.dim() * m];
    let mut place = vec![0.0; m];
    for (row, (x, alpha)) in x.chunks_exact(m).zip(alpha.chunks_exact_mut(m)).enumerate() {
        manifold.frame(x, &mut frame);
        for e in frame.chunks_exact(m) {
            let mut at = |t: f64| -> Result<f64, SolveError> {
                place.copy_from_slice(x);
                axpy(t, e, &mut place);
                manifold.project_point(&mut place).map_err(SolveError::at(row, END))?;
                Ok(prior.log_density(&place))
            };
            let slope = (at(STEP)? - at(-STEP)?) / (2.0 * STEP);
            axpy(slope, e, alpha);
        }
    }
    Ok(())
}

/// Takes covectors along the manifold from one node to the next: their part across the tangent
/// space half-way is turned round, which is parallel transport to second order.
fn carry(
    manifold: &dyn Manifold,
    from: &[f64],
    (to, s): (&[f64], f64),
    covectors: &mut [f64],
) -> Result<(), SolveError> {
    let m = manifold.ambient_dim();
    let (mut half, mut tangent) = (vec![0.0; m], vec![0.0; m]);
    let rows = from.chunks_exact(m).zip(to.chunks_exact(m)).zip(covectors.chunks_exact_mut(m));
    for (row, ((from, to), covector)) in rows.enumerate() {
        for (half, (from, to)) in half.iter_mut().zip(from.iter().zip(to)) {
            *half = 0.5 * (from + to);
        }
        manifold.project_point(&mut half).map_err(SolveError::at(row, s))?;
        tangent.copy_from_slice(covector);
        manifold.project_tangent(&half, &mut tangent);
        for (covector, tangent) in covector.iter_mut().zip(&tangent) {
            *covector = 2.0 * tangent - *covector;
        }
        manifold.project_tangent(to, covector);
    }
    Ok(())
}

impl MaximumLikelihood {
    /// Nodes of a batch: lengths between a half and three halves of the mean, in random order.
    fn draw_grid(&mut self, step: u64) {
        let mut stream = Streams::new(self.seed, "train-times").stream(0, step);
        let mut at = 0.0;
        self.grid.resize(self.steps + 1, 0.0);
        for node in &mut self.grid {
            *node = at;
            at += 0.5 + stream.uniform();
        }
        let all = self.grid.last().copied().unwrap_or(1.0);
        for node in &mut self.grid {
            *node = START + *node / all * (END - START);
        }
    }

    /// Takes the batch from the data to the prior.
    fn go_forward(&mut self, net: &Mlp<f32>) -> Result<(), SolveError> {
        let manifold = self.geometry.manifold.as_ref();
        let size = self.nodes[0].len();
        let mut slopes = [vec![0.0; size], vec![0.0; size], vec![0.0; size], vec![0.0; size]];
        let mut place = vec![0.0; size];
        for node in 0..self.steps {
            let (s, h) = (self.grid[node], self.grid[node + 1] - self.grid[node]);
            let (before, after) = self.nodes.split_at_mut(node + 1);
            let (from, to) = (&before[node], &mut after[0]);
            for stage in 0..4 {
                let t = [0.0, 0.5 * h, 0.5 * h, h][stage];
                let (known, rest) = slopes.split_at_mut(stage);
                match known.last() {
                    Some(slope) => moved(manifold, (from, s), t, slope, &mut place)?,
                    None => place.copy_from_slice(from),
                }
                self.times.fill((s + t).min(END));
                velocity(manifold, net, &place, &self.times, &mut rest[0])?;
            }
            let [first, second, third, fourth] = &mut slopes;
            axpy(2.0, second, first);
            axpy(2.0, third, first);
            axpy(1.0, fourth, first);
            moved(manifold, (from, s), h / 6.0, first, to)?;
        }
        Ok(())
    }

    /// The losses of the batch, and their gradient in `self.gradient`.
    fn go_back(
        &mut self,
        net: &Mlp<f32>,
        workspace: &mut TrainWorkspace<f32>,
        losses: &mut [f64],
    ) -> Result<(), SolveError> {
        let (manifold, prior) = (self.geometry.manifold.as_ref(), self.geometry.prior.as_ref());
        let (m, n) = (manifold.ambient_dim(), losses.len());
        let last = self.steps;
        let mut alpha = vec![0.0; n * m];
        prior_gradient(manifold, prior, &self.nodes[last], &mut alpha)?;
        for (loss, x) in losses.iter_mut().zip(self.nodes[last].chunks_exact(m)) {
            *loss = -prior.log_density(x) / n as f64;
        }
        self.gradient.clear();
        self.gradient.resize(net.params().len(), 0.0);
        let mut steepest = 0f64;
        let mut before: Option<(f64, Vec<f64>)> = None;
        for node in (0..=last).rev() {
            let length = |k: usize| self.grid[k + 1] - self.grid[k];
            let after = if node < last { length(node) } else { 0.0 };
            let h = if node > 0 { length(node - 1) } else { 0.0 };
            let share = 0.5 * (after + h);
            self.times.fill(self.grid[node].min(END));
            let x = Rows::new(&self.nodes[node], m)?;
            let weight = -share / n as f64;
            let places = Places { x, s: &self.times, alpha: &alpha };
            self.transport.eval(manifold, net, places, weight, workspace)?;
            for (sum, g) in self.gradient.iter_mut().zip(workspace.gradient()) {
                *sum += g;
            }
            steepest = steepest.max(self.transport.steepest(m));
            // weight·F less what belongs to α, which is no part of the loss.
            let parts = losses.iter_mut().zip(self.transport.losses()).enumerate();
            for (i, (loss, value)) in parts {
                *loss += value - weight * self.transport.along[i];
            }
            if node == 0 {
                break;
            }
            // dα/ds = −gradient, and s falls.
            let now = self.transport.gradient.clone();
            match &before {
                Some((length, before)) => {
                    let share = 0.5 * h / length;
                    axpy((1.0 + share) * h, &now, &mut alpha);
                    axpy(-share * h, before, &mut alpha);
                }
                None => axpy(h, &now, &mut alpha),
            }
            let from = &self.nodes[node];
            let to = (&self.nodes[node - 1][..], self.grid[node - 1]);
            carry(manifold, from, to, &mut alpha)?;
            let mut now = now;
            carry(manifold, from, to, &mut now)?;
            before = Some((h, now));
        }
        workspace.set_gradient(&self.gradient);
        let wanted = (steepest * (END - START) / STEEPNESS).ceil() as usize;
        self.next_steps = wanted.max(LEAST_STEPS).min(self.settings.model.solver_steps);
        Ok(())
    }
}

impl Objective for MaximumLikelihood {
    fn draw(&mut self, step: u64) -> Result<(), TrainError> {
        let m = self.geometry.manifold.ambient_dim();
        let rows = self.data.len() / m;
        pick_rows(self.seed, step, rows, &mut self.picks);
        for (x, picked) in self.nodes[0].chunks_exact_mut(m).zip(&self.picks) {
            x.copy_from_slice(&self.data[*picked * m..(*picked + 1) * m]);
        }
        self.times.fill(START);
        self.steps = self.next_steps;
        self.draw_grid(step);
        Ok(())
    }

    fn rows(&self) -> usize {
        self.picks.len()
    }

    fn input(&self) -> Result<FieldInput<'_>, SolveError> {
        let x = Rows::new(&self.nodes[0], self.geometry.manifold.ambient_dim())?;
        Ok(FieldInput::value(x, &self.times))
    }

    fn gradient(
        &mut self,
        net: &Mlp<f32>,
        workspace: &mut TrainWorkspace<f32>,
        losses: &mut [f64],
    ) -> Result<f64, TrainError> {
        self.go_forward(net)?;
        self.go_back(net, workspace, losses)?;
        Ok(losses.iter().sum())
    }

    fn origin(&self, row: usize) -> (usize, f64) {
        (self.picks[row], START)
    }

    fn density(&self, net: Mlp<f32>, tolerance: f64) -> Result<Box<dyn Density>, TrainError> {
        Ok(Box::new(flow(&self.geometry, net, FlowOptions::with_tolerance(tolerance))))
    }

    fn save(&self, own: &mut Arrays) {
        own.values.insert("solver_steps".into(), self.next_steps.into());
    }

    fn restore(&mut self, own: &mut Arrays) -> Result<(), RestoreError> {
        let found = own.values.remove("solver_steps").and_then(|value| value.as_u64());
        let what = "solver steps";
        self.next_steps = found.ok_or(RestoreError::Missing { what })? as usize;
        Ok(())
    }
}
