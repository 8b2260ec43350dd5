//! The variance of the loss's estimator under several proposals of times, by quadrature.
//!
//! The estimator is I = ℓ(s, Y_s)/q(s) with s ~ q, so that Var I = ∫ E[ℓ²]/q ds − (∫ E[ℓ] ds)².
//! Both moments are measured at nodes in log s, with many paths at each and the same noise for all
//! networks, and serve every q.

use std::path::Path;
use std::sync::Arc;

use manifusion::atomic::write_atomic;
use manifusion::checkpoint::{Arrays, Checkpoint, pack_files, unpack_files};
use manifusion::error::SolveError;
use manifusion::fit::Request;
use manifusion::heat_kernel::TransitionKernel;
use manifusion::loss::{LossBatch, LossKind};
use manifusion::methods::network::Recipe;
use manifusion::methods::rdm::{Rdm, RdmRecipe, RdmSettings, TimeProposal};
use manifusion::methods::{FitError, Geometry, Task, read_settings};
use manifusion::path::NoisingPath;
use manifusion::points::Points;
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};
use manifusion::time::{LogUniform, Proposal, Uniform};
use manifusion::train::{TrainError, Trainer};
use manifusion::watch::Watch;
use serde::{Deserialize, Serialize};

use crate::config::Choices;
use crate::data::Data;
use crate::error::RunError;
use crate::folder::io_error;

/// The method whose loss is measured.
pub(super) const METHOD: &str = RdmRecipe::INFO.name;

/// A quantity over training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VarianceCurve {
    /// The proposal of times.
    pub name: String,
    /// Its values at the measured steps.
    pub values: Vec<f64>,
}

/// What was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeVariance {
    /// Steps of the networks at which it was measured.
    pub steps: Vec<u64>,
    /// Variances of the estimator in nats², all on the network that is trained with the learned
    /// proposal: uniform, log-uniform and learned times, and the least that any proposal has.
    pub variances: Vec<VarianceCurve>,
    /// The training loss by quadrature, in nats, of networks that are trained with each of these
    /// proposals.
    pub losses: Vec<VarianceCurve>,
    /// Test NLL of the same networks at the end, by the ODE, in nats per point.
    pub test_nll: Vec<f64>,
    /// The learned proposal at the end: pairs (s, q(s)).
    pub proposal: Vec<[f64; 2]>,
    /// Smallest time.
    pub s_min: f64,
    /// Largest time.
    pub t_end: f64,
    /// Nodes of the quadrature.
    pub nodes: usize,
    /// Paths at every node.
    pub paths: usize,
    /// Rows of a training batch.
    pub batch: usize,
}

impl TimeVariance {
    /// Whether every curve has a value for every step, as a file that was written here has.
    pub(super) fn is_whole(&self) -> bool {
        let curves = self.variances.iter().chain(&self.losses);
        self.variances.len() == PROPOSALS.len() + 1
            && self.losses.len() == PROPOSALS.len()
            && self.test_nll.len() == PROPOSALS.len()
            && curves.into_iter().all(|curve| curve.values.len() == self.steps.len())
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Steps of every network.
    pub steps: u64,
    /// Nodes in log s.
    pub nodes: usize,
    /// Paths at every node.
    pub paths: usize,
}

impl Extent {
    /// That of the figure.
    pub(super) fn of_steps(steps: u64) -> Self {
        Self { steps, nodes: 64, paths: 512 }
    }
}

/// Measurements after the first.
const MEASUREMENTS: u64 = 20;

/// The name of the learned proposal.
pub(super) const LEARNED: &str = "learned";
/// Proposals of networks, the measured one last.
const PROPOSALS: [(TimeProposal, &str); 3] = [
    (TimeProposal::Uniform, "uniform"),
    (TimeProposal::LogUniform, "log-uniform"),
    (TimeProposal::Learned, LEARNED),
];

/// Trains three networks with as many steps each, and measures; none if it is stopped. What is done
/// is kept in the file `kept` after every measurement, and the same call goes on from there.
pub fn measure(
    choices: &Choices,
    extent: Extent,
    kept: &Path,
    watch: &Watch,
) -> Result<Option<TimeVariance>, RunError> {
    let Extent { steps, nodes, paths } = extent;
    let (task, test) = watch.stage("reading", || task(choices, watch))?;
    let choices: Rdm = read_settings(&choices.section)?;
    let settings = RdmRecipe::resolve(&choices, &task)?;
    let mut trainers = Vec::new();
    for (times, _) in PROPOSALS {
        let mut own = settings.clone();
        own.train.times = times;
        trainers.push(RdmRecipe::trainer(&task, &own, task.seed)?);
    }
    let mut meter = Meter::new(&task, &settings, extent)?;
    let (s_min, t_end) = (settings.model.s_min, settings.model.t_end);
    let fixed: [Box<dyn Proposal>; 2] = [
        Box::new(Uniform::new(s_min, t_end).map_err(TrainError::from).map_err(FitError::from)?),
        Box::new(LogUniform::new(s_min, t_end).map_err(TrainError::from).map_err(FitError::from)?),
    ];
    let curve = |name: &str| VarianceCurve { name: name.to_owned(), values: Vec::new() };
    let mut found = TimeVariance {
        steps: Vec::new(),
        variances: PROPOSALS.iter().map(|(_, name)| curve(name)).collect(),
        losses: PROPOSALS.iter().map(|(_, name)| curve(name)).collect(),
        test_nll: Vec::new(),
        proposal: Vec::new(),
        s_min,
        t_end,
        nodes,
        paths,
        batch: settings.train.batch,
    };
    found.variances.push(curve("least"));
    if let Some(before) = read_kept(kept, extent, &mut trainers)? {
        found = before;
    }
    let done = found.steps.last().copied().unwrap_or(0);
    watch.begin("training", steps, done);
    let every = (steps / MEASUREMENTS).max(1);
    for step in done + 1..=steps {
        for trainer in &mut trainers {
            trainer.step().map_err(FitError::from)?;
        }
        watch.advance(1);
        if watch.is_stopped() {
            return Ok(None);
        }
        if step != 1 && step % every != 0 && step != steps {
            continue;
        }
        found.steps.push(step);
        for (trainer, curve) in trainers.iter().zip(&mut found.losses) {
            meter.run(trainer)?;
            curve.values.push(meter.quadrature.loss());
        }
        // The last one measured is the network of the learned proposal.
        let learned = trainers[PROPOSALS.len() - 1].proposal();
        let proposals = [fixed[0].as_ref(), fixed[1].as_ref(), learned];
        let measured = &meter.quadrature;
        let variances = proposals.map(|q| measured.variance(q));
        let variances = variances.into_iter().chain([measured.least()]);
        for (variance, curve) in variances.zip(&mut found.variances) {
            curve.values.push(variance);
        }
        let so_far = Kept { steps, found };
        write_kept(kept, &so_far, &trainers)?;
        found = so_far.found;
    }
    let learned = trainers[PROPOSALS.len() - 1].proposal();
    found.proposal =
        meter.quadrature.times.iter().map(|s| [*s, learned.log_density(*s).exp()]).collect();
    let nll = |trainer: &Trainer| -> Result<f64, RunError> {
        let net = trainer.net_with(trainer.averaged_weights()).map_err(FitError::from)?;
        let model = RdmRecipe::fitted(&task.geometry, &settings, net, None)?;
        let log_p = model.log_density(test.rows())?;
        Ok(-log_p.iter().sum::<f64>() / log_p.len() as f64)
    };
    let all = || trainers.iter().map(nll).collect::<Result<Vec<f64>, RunError>>();
    found.test_nll = watch.stage("test points", all)?;
    Ok(Some(found))
}

/// A measurement that is not at its end.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// Steps that were asked for: rates of learning depend on them.
    steps: u64,
    found: TimeVariance,
}

/// What was measured so far, and the networks, in one file.
fn write_kept(path: &Path, kept: &Kept, trainers: &[Trainer]) -> Result<(), RunError> {
    let text = serde_json::to_vec(kept).map_err(|e| RunError::Settings(e.to_string()))?;
    let mut files = vec![text];
    for trainer in trainers {
        let bytes = trainer.checkpoint(Arrays::default()).to_bytes();
        files.push(bytes.map_err(FitError::from)?);
    }
    let bytes = pack_files(&files).map_err(FitError::from)?;
    write_atomic(path, &bytes).map_err(io_error("writing", path))
}

/// Puts the networks where an earlier call left them; what it had measured, or none if there was
/// none. An error if that call asked for something else.
fn read_kept(
    path: &Path,
    extent: Extent,
    trainers: &mut [Trainer],
) -> Result<Option<TimeVariance>, RunError> {
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = std::fs::read(path).map_err(io_error("reading", path))?;
    let name = path.display().to_string();
    let damaged = |source| FitError::File { name: name.clone(), source };
    let files = unpack_files(&bytes).map_err(damaged)?;
    let (text, networks) = files.split_at(files.len().min(1));
    let text = text.concat();
    let Kept { steps, found } =
        serde_json::from_slice(&text).map_err(|e| RunError::Settings(format!("{name}: {e}")))?;
    let (before, now) = (
        format!("{steps} with {} paths at {} nodes", found.paths, found.nodes),
        format!("{} with {} paths at {} nodes", extent.steps, extent.paths, extent.nodes),
    );
    if before != now {
        let (path, key) = (path.to_owned(), String::from("steps"));
        return Err(RunError::OtherPlan { path, key, before, now });
    }
    if networks.len() != trainers.len() {
        let (found, expected) = (networks.len(), trainers.len());
        return Err(RunError::Settings(format!("{name}: {found} networks, not {expected}")));
    }
    for (trainer, network) in trainers.iter_mut().zip(networks) {
        let checkpoint = Checkpoint::from_bytes(network).map_err(damaged)?;
        trainer.restore(checkpoint).map_err(FitError::from)?;
    }
    Ok(Some(found))
}

/// What is trained on, and the test points.
fn task(choices: &Choices, watch: &Watch) -> Result<(Task, Points), RunError> {
    let data = Data::load(choices)?;
    let manifold = Arc::clone(data.points.manifold());
    let prior = default_prior(&manifold)?;
    let of = |rows: &[usize]| data.points.select(rows).map_err(FitError::from);
    let (train, validation) = (of(&data.split.train)?, of(&data.split.validation)?);
    let test = of(&data.split.test)?;
    let method = Request::named(&choices.method, choices.section.clone()).method()?;
    let geometry = Geometry { manifold, prior };
    let (section, seed) = (&choices.section, choices.seed);
    let task = Task::new(method, section, geometry, train, validation, seed, watch.clone())?;
    Ok((task, test))
}

/// Moments of a loss at nodes in log s, and integrals of them.
#[derive(Debug)]
pub struct Quadrature {
    /// The nodes.
    pub times: Vec<f64>,
    /// Their weights: ∫ f ds ≈ Σ w f(s).
    weights: Vec<f64>,
    /// E ℓ and E ℓ² at the nodes.
    pub moments: Vec<[f64; 2]>,
}

impl Quadrature {
    /// Nodes without moments.
    pub fn new(s_min: f64, t_end: f64, nodes: usize) -> Self {
        let (low, high) = (s_min.ln(), t_end.ln());
        let width = (high - low) / nodes as f64;
        let times: Vec<f64> = (0..nodes).map(|i| (low + (i as f64 + 0.5) * width).exp()).collect();
        let weights = times.iter().map(|s| s * width).collect();
        Self { times, weights, moments: vec![[0.0; 2]; nodes] }
    }

    fn integral(&self, value: impl Fn(f64, [f64; 2]) -> f64) -> f64 {
        let nodes = self.times.iter().zip(&self.weights).zip(&self.moments);
        nodes.map(|((s, weight), moments)| weight * value(*s, *moments)).sum()
    }

    /// ∫ E ℓ ds.
    pub fn loss(&self) -> f64 {
        self.integral(|_, [first, _]| first)
    }

    /// ∫ E ℓ²/q ds − (∫ E ℓ ds)².
    pub fn variance(&self, q: &dyn Proposal) -> f64 {
        self.integral(|s, [_, second]| second / q.log_density(s).exp()) - self.loss().powi(2)
    }

    /// The same for q ∝ √(E ℓ²), which has the least.
    pub fn least(&self) -> f64 {
        self.integral(|_, [_, second]| second.sqrt()).powi(2) - self.loss().powi(2)
    }
}

/// Noised points at the nodes, for the moments of any network's loss there.
struct Meter {
    geometry: Geometry,
    batch: LossBatch,
    losses: Vec<f64>,
    paths: usize,
    quadrature: Quadrature,
}

impl Meter {
    fn new(task: &Task, settings: &RdmSettings, extent: Extent) -> Result<Self, RunError> {
        let Extent { nodes, paths, .. } = extent;
        let geometry = task.geometry.clone();
        let (manifold, prior) = (&geometry.manifold, &geometry.prior);
        let m = manifold.ambient_dim();
        let config = settings.train_config(m, task.seed);
        let path = NoisingPath::new(Arc::clone(manifold), Arc::clone(prior), config.path)?;
        let quadrature = Quadrature::new(config.s_min, config.t_end, nodes);
        let n = nodes * paths;
        let mut batch = LossBatch::new(n, m);
        let picks = Streams::new(task.seed, "variance-rows");
        let train = task.train.rows();
        let mut y0 = vec![0.0; n * m];
        for (i, (y0, s)) in y0.chunks_exact_mut(m).zip(&mut batch.s).enumerate() {
            *s = quadrature.times[i / paths];
            let pick = picks.stream(i as u64, 0).uniform() * train.len() as f64;
            y0.copy_from_slice(train.row((pick as usize).min(train.len() - 1)));
        }
        batch.weight.fill(1.0);
        let y0 = Rows::new(&y0, m).map_err(SolveError::from)?;
        let noise = Streams::new(task.seed, "variance-noise");
        let y = RowsMut::new(&mut batch.y, m).map_err(SolveError::from)?;
        path.sample(y0, &batch.s, &noise, 0, y)?;
        let probes = Streams::new(task.seed, "variance-probes");
        let kernel = match config.loss {
            LossKind::Denoising => Some(TransitionKernel::new(manifold.as_ref(), prior.as_ref())?),
            LossKind::Implicit(_) => None,
        };
        let (manifold, prior) = (manifold.as_ref(), prior.as_ref());
        batch.prepare(manifold, prior, config.loss, kernel.as_ref(), y0, &probes)?;
        let losses = vec![0.0; n];
        Ok(Self { geometry, batch, losses, paths, quadrature })
    }

    /// Measures the moments of a network in training.
    fn run(&mut self, trainer: &Trainer) -> Result<(), RunError> {
        let config = trainer.config();
        let manifold = self.geometry.manifold.as_ref();
        let form = self.batch.row_loss(manifold, config.loss);
        let input = self.batch.input(manifold.ambient_dim())?;
        let mut workspace = trainer.net().train_workspace(config.partitions);
        trainer
            .net()
            .loss_gradient(input, &form, &mut workspace, &mut self.losses, None)
            .map_err(TrainError::from)
            .map_err(FitError::from)?;
        let paths = self.paths;
        let nodes = self.quadrature.moments.iter_mut().zip(self.losses.chunks_exact(paths));
        for (moments, losses) in nodes {
            let mean =
                |power: i32| losses.iter().map(|l| l.powi(power)).sum::<f64>() / paths as f64;
            *moments = [mean(1), mean(2)];
        }
        Ok(())
    }
}
