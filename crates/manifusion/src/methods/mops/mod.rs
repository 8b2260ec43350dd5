//! `mops`: mixtures of power spherical distributions (De Cao & Aziz 2020) by Adam, on products of
//! spheres and circles.

pub(crate) mod components;
mod fitted;
pub(crate) mod learning;
mod settings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;

pub use settings::{Mops, MopsSettings, TrainChoices, TrainSettings};

use super::references::POWER_SPHERICAL;
use super::{
    CHECKPOINT_FILE, FileMap, Files, Finished, FitError, Fitted, Geometry, Method, MethodInfo,
    Request, Run, Setting, Task, read_settings, write_settings,
};
use crate::checkpoint::Arrays;
use crate::error::SolveError;
use crate::points::Points;
use crate::train::{Learner, LoopSettings, MetricsRow, NetworkRun, VALIDATION_TOLERANCE};
use crate::watch::Watch;

use components::sphere_blocks;
use fitted::FittedMops;
use learning::Learning;

/// The method of this folder.
#[derive(Debug)]
pub struct MopsMethod;

const INFO: MethodInfo = MethodInfo {
    name: "mops",
    title: "mixture of power spherical distributions",
    help: "A mixture of thousands of power spherical distributions, no network",
    manifolds: "spheres, tori and their products",
    settings: &[
        &[Setting {
            name: "components",
            kind: "usize",
            help: "Number of components; by default 4096, and never more than points.",
        }],
        TrainChoices::DESCRIPTIONS,
    ],
    references: &[POWER_SPHERICAL],
};

impl Method for MopsMethod {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn supports(&self, geometry: &Geometry) -> Result<(), FitError> {
        blocks_of(geometry).map(|_| ())
    }

    fn seconds(&self, choices: &Json) -> Option<f64> {
        read_settings::<Mops>(choices).ok()?.seconds()
    }

    fn check(&self, choices: &Json) -> Result<(), FitError> {
        read_settings::<Mops>(choices)?.check()
    }

    fn start(&self, task: &Task, choices: &Json) -> Result<Box<dyn Run>, FitError> {
        let choices: Mops = read_settings(choices)?;
        choices.check()?;
        let planned = choices.train.steps.is_some();
        let mut settings = choices.resolved(task.train.len());
        if !planned {
            settings.train.steps = plan(task, &settings)?;
        }
        Ok(Box::new(MopsRun::new(task, settings)?))
    }

    fn open(
        &self,
        task: &Task,
        settings: &Json,
        _files: &dyn Files,
    ) -> Result<Box<dyn Run>, FitError> {
        Ok(Box::new(MopsRun::new(task, stored_settings(settings)?)?))
    }

    fn steps_of(&self, settings: &Json, checkpoint: &[u8]) -> Result<Option<(u64, u64)>, FitError> {
        let planned = stored_settings(settings)?.train.steps;
        let checkpoint = read_checkpoint(checkpoint)?;
        let number = |name: &str| checkpoint.values.get(name).and_then(Json::as_u64);
        Ok(number("step").map(|step| (step, number("planned_steps").unwrap_or(planned))))
    }

    fn load(
        &self,
        geometry: &Geometry,
        settings: &Json,
        files: &dyn Files,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let (settings, blocks) = (stored_settings(settings)?, blocks_of(geometry)?);
        Ok(Arc::new(FittedMops::load(geometry.clone(), settings, blocks, files)?))
    }
}

impl From<Mops> for Request {
    fn from(mops: Mops) -> Self {
        Self::named(INFO.name, write_settings(&mops).unwrap_or_default())
    }
}

/// The spheres that the manifold is a product of, or the sentence that it is none.
fn blocks_of(geometry: &Geometry) -> Result<Vec<usize>, FitError> {
    sphere_blocks(geometry.manifold.as_ref()).ok_or_else(|| FitError::Unsupported {
        method: INFO.name,
        manifold: geometry.manifold.name(),
        known: INFO.manifolds,
    })
}

fn stored_settings(settings: &Json) -> Result<MopsSettings, FitError> {
    read_settings::<Mops>(settings)?.try_into()
}

fn read_checkpoint(bytes: &[u8]) -> Result<Arrays, FitError> {
    let damaged = |source| FitError::File { name: CHECKPOINT_FILE.to_owned(), source };
    Arrays::from_bytes(bytes).map_err(damaged)
}

fn learning(task: &Task, settings: &MopsSettings) -> Result<Learning, FitError> {
    let blocks = blocks_of(&task.geometry)?;
    let manifold = Arc::clone(&task.geometry.manifold);
    let (x, mixture) = (task.train.rows(), task.mixture.as_deref().ok());
    Ok(Learning::new(manifold, blocks, x, mixture, settings, task.seed)?)
}

fn validation_points(task: &Task, settings: &MopsSettings) -> Result<Points, FitError> {
    let first: Vec<usize> =
        (0..task.validation.len().min(settings.train.validation_points)).collect();
    Ok(task.validation.select(&first)?)
}

/// The steps that fit into the budget of minutes beside the validations, by measuring. The run
/// plans again as its pace changes.
fn plan(task: &Task, settings: &MopsSettings) -> Result<u64, FitError> {
    let budget = 60.0 * settings.train.minutes;
    let measured = Duration::from_secs_f64((0.01 * budget).clamp(0.1, 1.0));
    task.watch.begin("planning", 0, 0);
    let mut trial = learning(task, settings)?;
    trial.step()?;
    let (start, mut steps) = (Instant::now(), 0u32);
    while start.elapsed() < measured || steps < 3 {
        trial.step()?;
        steps += 1;
        if task.watch.is_stopped() {
            return Err(SolveError::Stopped.into());
        }
    }
    let per_step = start.elapsed().as_secs_f64() / f64::from(steps);
    let validation = validation_points(task, settings)?;
    let start = Instant::now();
    trial.density(VALIDATION_TOLERANCE)?.log_density(validation.rows())?;
    let validating = settings.train.validations as f64 * start.elapsed().as_secs_f64();
    let left = budget - task.began.elapsed().as_secs_f64() - validating.min(0.25 * budget);
    Ok(((left / per_step) as u64).max(1))
}

/// A mixture in training.
struct MopsRun {
    geometry: Geometry,
    settings: MopsSettings,
    run: NetworkRun<Learning, Arrays>,
}

impl MopsRun {
    fn new(task: &Task, settings: MopsSettings) -> Result<Self, FitError> {
        let train = &settings.train;
        let loop_settings = LoopSettings {
            steps: train.steps,
            seconds: if train.minutes > 0.0 { 60.0 * train.minutes } else { f64::INFINITY },
            most_steps: u64::MAX,
            validations: train.validations,
            patience: train.patience,
            fresh_steps: 0,
        };
        let (learning, validation) =
            (learning(task, &settings)?, validation_points(task, &settings)?);
        let seconds = task.began.elapsed().as_secs_f64();
        let run = NetworkRun::new(learning, loop_settings, validation, seconds);
        Ok(Self { geometry: task.geometry.clone(), settings, run })
    }
}

impl Run for MopsRun {
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
        self.settings.train.checkpoint_seconds
    }

    fn checkpoint(&self) -> Result<Option<Vec<u8>>, FitError> {
        Ok(Some(self.run.checkpoint().to_bytes()?))
    }

    fn restore(&mut self, checkpoint: &[u8]) -> Result<(), FitError> {
        Ok(self.run.restore(read_checkpoint(checkpoint)?)?)
    }

    fn finish(&self) -> Result<Finished, FitError> {
        let (weights, outcome) = self.run.finish()?;
        let components = self.run.learner().components_of(weights);
        let model = FittedMops::new(self.geometry.clone(), self.settings.clone(), components);
        Ok(Finished { model: Arc::new(model), outcome, proposal: Vec::new() })
    }
}
