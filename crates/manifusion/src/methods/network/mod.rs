//! What methods that train one network share: settings, defaults, the plan of a budget of time, and
//! the run. A method is then a [`Recipe`]: an objective and the density that a network stands for.

mod automatic;
mod fitted;
mod plan;
mod settings;

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;

pub(super) use automatic::{
    NetFacts, Scales, USEFUL_PASSES, seconds, smallest_time, training, warmup,
};
pub(super) use fitted::{FittedInChart, FittedNetwork, LearnedFlow};
pub use settings::{
    HasTraining, HasTrainingChoices, NetChoices, NetSettings, NetworkChoices, NetworkSettings,
    OfMethod, Preset, TrainingChoices, TrainingSettings,
};
pub(super) use settings::{PRESET, check_positive};

use super::{
    CHECKPOINT_FILE, FileMap, Files, Finished, FitError, Fitted, Geometry, MODEL_FILE, Method,
    MethodInfo, Run, Task, read_settings, write_settings,
};
use crate::checkpoint::Checkpoint;
use crate::nn::Mlp;
use crate::points::Points;
use crate::train::{MetricsRow, NetworkRun, NetworkTrainer, Objective};
use crate::watch::Watch;

/// A way to learn a density with one network.
pub trait Recipe: Debug + Send + Sync + 'static {
    /// The method.
    const INFO: &'static MethodInfo;

    /// What one evaluation of the density's ODE costs, in evaluations of the network with its
    /// divergence.
    const PASSES: f64 = 1.0;

    /// What a user may choose.
    type Choices: Clone + HasTrainingChoices + Serialize + DeserializeOwned;

    /// The same, nothing left open.
    type Settings: Clone
        + Debug
        + HasTraining
        + Serialize
        + TryFrom<Self::Choices, Error = FitError>
        + Send
        + Sync
        + 'static;

    /// What the network learns.
    type Objective: Objective;

    /// An error on a manifold that the method does not know.
    fn supports(geometry: &Geometry) -> Result<(), FitError>;

    /// An error for choices that no run could have.
    fn check(choices: &Self::Choices) -> Result<(), FitError>;

    /// Makes every open choice.
    fn resolve(choices: &Self::Choices, task: &Task) -> Result<Self::Settings, FitError>;

    /// A trainer at its first step.
    fn trainer(
        task: &Task,
        settings: &Self::Settings,
        seed: u64,
    ) -> Result<NetworkTrainer<Self::Objective>, FitError>;

    /// The density of a network.
    fn fitted(
        geometry: &Geometry,
        settings: &Self::Settings,
        net: Mlp<f32>,
        best_step: Option<u64>,
    ) -> Result<Arc<dyn Fitted>, FitError>;

    /// The proposal of times, for plots.
    fn proposal(_objective: &Self::Objective) -> Vec<[f64; 2]> {
        Vec::new()
    }
}

/// An error that names the manifolds that a method knows.
pub(super) fn unsupported(info: &MethodInfo, geometry: &Geometry) -> FitError {
    let (method, known) = (info.name, info.manifolds);
    FitError::Unsupported { method, manifold: geometry.manifold.name(), known }
}

/// The method of a recipe.
#[derive(Debug)]
pub struct NetworkMethod<R>(PhantomData<R>);

impl<R> NetworkMethod<R> {
    /// The only value.
    pub const NEW: Self = Self(PhantomData);
}

impl<R: Recipe> Method for NetworkMethod<R> {
    fn info(&self) -> &'static MethodInfo {
        R::INFO
    }

    fn supports(&self, geometry: &Geometry) -> Result<(), FitError> {
        R::supports(geometry)
    }

    fn seconds(&self, choices: &Json) -> Option<f64> {
        seconds(choices)
    }

    fn check(&self, choices: &Json) -> Result<(), FitError> {
        R::check(&read_settings(choices)?)
    }

    fn start(&self, task: &Task, choices: &Json) -> Result<Box<dyn Run>, FitError> {
        let choices: R::Choices = read_settings(choices)?;
        R::check(&choices)?;
        let mut runs = start_networks::<R>(task, &choices, &[task.seed])?;
        Ok(Box::new(runs.remove(0)))
    }

    fn open(
        &self,
        task: &Task,
        settings: &Json,
        _files: &dyn Files,
    ) -> Result<Box<dyn Run>, FitError> {
        Ok(Box::new(RecipeRun::<R>::new(task, stored::<R>(settings)?, task.seed)?))
    }

    fn steps_of(&self, settings: &Json, checkpoint: &[u8]) -> Result<Option<(u64, u64)>, FitError> {
        let planned = stored::<R>(settings)?.training().steps;
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
        let settings = stored::<R>(settings)?;
        let net = read_checkpoint(MODEL_FILE, &files.need(MODEL_FILE)?)?.net;
        R::fitted(geometry, &settings, net, None)
    }
}

/// Settings of a run, nothing left open.
fn stored<R: Recipe>(settings: &Json) -> Result<R::Settings, FitError> {
    read_settings::<R::Choices>(settings)?.try_into()
}

fn read_checkpoint(name: &str, bytes: &[u8]) -> Result<Checkpoint<f32>, FitError> {
    Checkpoint::from_bytes(bytes).map_err(|source| FitError::File { name: name.to_owned(), source })
}

/// The file of a network, with the step that its weights are from.
pub(super) fn network_files(net: &Mlp<f32>, best_step: Option<u64>) -> Result<FileMap, FitError> {
    let mut model = Checkpoint::new(net.clone());
    if let Some(step) = best_step {
        model.extra.insert("best_step".into(), step.into());
    }
    Ok(FileMap::from([(MODEL_FILE.to_owned(), model.to_bytes()?)]))
}

/// Networks of several seeds that are trained side by side, with every open choice made.
pub(super) fn start_networks<R: Recipe>(
    task: &Task,
    choices: &R::Choices,
    seeds: &[u64],
) -> Result<Vec<RecipeRun<R>>, FitError> {
    let mut settings = R::resolve(choices, task)?;
    // A run that could not start is refused before anything is measured.
    let trials: Result<Vec<_>, FitError> =
        seeds.iter().map(|seed| R::trainer(task, &settings, *seed)).collect();
    let trials = trials?;
    let mut training = settings.training();
    if training.minutes > 0.0 {
        let plan = plan::plan(trials, task, &training, R::PASSES)?;
        training.steps = plan.steps;
        let chosen = choices.training().warmup;
        training.warmup = chosen.unwrap_or(warmup(plan.steps));
        training.validations = plan.validations;
        training.validation_points = plan.validation_points;
        settings = settings.with_training(training);
    }
    seeds.iter().map(|seed| RecipeRun::new(task, settings.clone(), *seed)).collect()
}

/// A network in training.
pub(super) struct RecipeRun<R: Recipe> {
    geometry: Geometry,
    settings: R::Settings,
    run: NetworkRun<NetworkTrainer<R::Objective>>,
}

impl<R: Recipe> RecipeRun<R> {
    /// A run of these settings, with the seed of its network, batches and noise.
    pub(super) fn new(task: &Task, settings: R::Settings, seed: u64) -> Result<Self, FitError> {
        let training = settings.training();
        let points = task.validation.len().min(training.validation_points);
        let first: Vec<usize> = (0..points).collect();
        let validation: Points = task.validation.select(&first)?;
        let trainer = R::trainer(task, &settings, seed)?;
        let seconds = task.began.elapsed().as_secs_f64();
        let loop_settings = training.loop_settings(task.train.len(), settings.useful_passes());
        let run = NetworkRun::new(trainer, loop_settings, validation, seconds);
        Ok(Self { geometry: task.geometry.clone(), settings, run })
    }

    /// Its settings.
    pub(super) fn resolved(&self) -> &R::Settings {
        &self.settings
    }
}

impl<R: Recipe> Run for RecipeRun<R> {
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
        self.settings.training().checkpoint_seconds
    }

    fn checkpoint(&self) -> Result<Option<Vec<u8>>, FitError> {
        Ok(Some(self.run.checkpoint().to_bytes()?))
    }

    fn restore(&mut self, checkpoint: &[u8]) -> Result<(), FitError> {
        Ok(self.run.restore(read_checkpoint(CHECKPOINT_FILE, checkpoint)?)?)
    }

    fn finish(&self) -> Result<Finished, FitError> {
        let (weights, outcome) = self.run.finish()?;
        let net = self.run.learner().net_with(&weights)?;
        let best = Some(outcome.best_step);
        let model = R::fitted(&self.geometry, &self.settings, net, best)?;
        let proposal = R::proposal(self.run.learner().objective());
        Ok(Finished { model, outcome, proposal })
    }
}
