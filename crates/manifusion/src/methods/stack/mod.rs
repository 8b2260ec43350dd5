//! `stack`: a weighted sum of a few networks and the mixture of Parzen windows, Σ w_k p_k. Still a
//! density of mass one with an exact likelihood; its members err in different places, so that it is
//! better than any of them.

mod fitted;
pub(crate) mod run;
mod settings;
pub(crate) mod weights;

use std::sync::Arc;

use serde_json::Value as Json;

pub use settings::{Stack, StackSettings};

use super::kernel::read_mixture;
use super::network::seconds;
use super::parzen::read_windows;
use super::rdm::RdmMethod;
use super::references::{PARZEN, RDM};
use super::{
    CHECKPOINT_FILE, FileMap, Files, FitError, Fitted, Geometry, MODEL_FILE, Member, Method,
    MethodInfo, Request, Run, Setting, Task, read_settings, write_settings,
};
use crate::checkpoint::Arrays;
use fitted::FittedStack;
use run::StackRun;

/// The method of this folder.
#[derive(Debug)]
pub struct StackMethod;

const INFO: MethodInfo = MethodInfo {
    name: "stack",
    title: "stack of networks and kernel mixtures",
    help: "A weighted sum of diffusion models and mixtures of kernels",
    manifolds: "every manifold",
    settings: &[
        &[
            Setting { name: "members", kind: "usize", help: "Networks." },
            Setting {
                name: "smoothing_ratio",
                kind: "f64",
                help: "Smoothing and stretch of every second network, as a share of those of the first.",
            },
            Setting {
                name: "preset",
                kind: "Preset",
                help: "A bundle of defaults: fast or paper.",
            },
        ],
        super::rdm::ModelChoices::DESCRIPTIONS,
        super::rdm::NetChoices::DESCRIPTIONS,
        super::rdm::TrainChoices::DESCRIPTIONS,
    ],
    references: &[RDM, PARZEN],
};

/// The file of the mixture where there are no windows; the same as that of the baseline in a run's
/// folder.
const MIXTURE_FILE: &str = "kernel.safetensors";
/// The file of the Parzen windows.
const WINDOWS_FILE: &str = "parzen.safetensors";

impl Method for StackMethod {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn supports(&self, _geometry: &Geometry) -> Result<(), FitError> {
        Ok(())
    }

    fn seconds(&self, choices: &Json) -> Option<f64> {
        seconds(choices)
    }

    fn check(&self, choices: &Json) -> Result<(), FitError> {
        read_settings::<Stack>(choices)?.check()
    }

    fn start(&self, task: &Task, choices: &Json) -> Result<Box<dyn Run>, FitError> {
        let choices: Stack = read_settings(choices)?;
        choices.check()?;
        Ok(Box::new(StackRun::start(task, &choices)?))
    }

    fn open(
        &self,
        task: &Task,
        settings: &Json,
        files: &dyn Files,
    ) -> Result<Box<dyn Run>, FitError> {
        Ok(Box::new(StackRun::open(task, stored_settings(settings)?, files)?))
    }

    fn steps_of(&self, settings: &Json, checkpoint: &[u8]) -> Result<Option<(u64, u64)>, FitError> {
        let settings = stored_settings(settings)?;
        match run::unpack(checkpoint)?.first() {
            Some(first) => RdmMethod::NEW.steps_of(&write_settings(&settings.network(0))?, first),
            None => Ok(None),
        }
    }

    fn load(
        &self,
        geometry: &Geometry,
        settings: &Json,
        files: &dyn Files,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let settings = stored_settings(settings)?;
        let damaged = |source| FitError::File { name: MODEL_FILE.to_owned(), source };
        let stored = Arrays::from_bytes(&files.need(MODEL_FILE)?).map_err(damaged)?;
        let weights = stored.arrays.get("weights").cloned().unwrap_or_default();
        let mut models: Vec<Arc<dyn Fitted>> = Vec::new();
        for number in 0..settings.members {
            let own = FileMap::from([(MODEL_FILE.to_owned(), files.need(&network_file(number))?)]);
            let network = write_settings(&settings.network(number))?;
            models.push(RdmMethod::NEW.load(geometry, &network, &own)?);
        }
        if files.read(WINDOWS_FILE)?.is_some() {
            let windows = Arc::new(read_windows(geometry, WINDOWS_FILE, files)?);
            models.push(super::parzen::fitted(windows, &geometry.prior));
        } else if files.read(MIXTURE_FILE)?.is_some() {
            let mixture = Arc::new(read_mixture(geometry, MIXTURE_FILE, files)?);
            models.push(super::kernel::fitted(mixture, &geometry.prior));
        }
        if weights.len() != models.len() || !((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9) {
            let problem = format!(
                "{MODEL_FILE} has {} weights for {} members; they must be as many and sum to 1",
                weights.len(),
                models.len()
            );
            return Err(FitError::Settings { problem });
        }
        let members = models.into_iter().zip(weights);
        let members = members.map(|(model, weight)| Member { model, weight }).collect();
        Ok(Arc::new(FittedStack::new(geometry.clone(), settings, members)))
    }
}

impl From<Stack> for Request {
    fn from(stack: Stack) -> Self {
        Self::named(INFO.name, write_settings(&stack).unwrap_or_default())
    }
}

fn stored_settings(settings: &Json) -> Result<StackSettings, FitError> {
    read_settings::<Stack>(settings)?.try_into()
}

/// The seed of a member: that of the run for the first one, and for the others none that a user
/// takes for another run.
fn member_seed(seed: u64, number: usize) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    seed.wrapping_add(STEP.wrapping_mul(number as u64))
}

/// The file of a network.
fn network_file(number: usize) -> String {
    format!("network-{number}.safetensors")
}
