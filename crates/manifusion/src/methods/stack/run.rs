//! A stack in training: its networks side by side, weighed at the end.

use std::sync::Arc;
use std::time::Instant;

use rayon::prelude::*;
use serde_json::Value as Json;

use super::fitted::FittedStack;
use super::settings::{SMOOTHING_RATIO, Stack, StackSettings};
use super::weights::{LEAST_VALIDATION, weights};
use super::{CHECKPOINT_FILE, MIXTURE_FILE, WINDOWS_FILE, member_seed};
use crate::checkpoint::{pack_files, unpack_files};
use crate::error::SolveError;
use crate::methods::kernel::{fitted, write_mixture};
use crate::methods::network::start_networks;
use crate::methods::parzen::{self, read_windows, write_windows};
use crate::methods::rdm::{RdmRecipe, RdmRun, RdmSettings};
use crate::methods::{
    FileMap, Files, Finished, FitError, Fitted, Geometry, Member, Run, Task, write_settings,
};
use crate::mixture::{KernelMixture, ParzenMixture};
use crate::optim::Optimiser;
use crate::points::Points;
use crate::rows::Rows;
use crate::train::{MetricsRow, Outcome, VALIDATION_TOLERANCE};
use crate::watch::Watch;

/// Validation points that members are weighed by, at most: more take time and change little.
const MOST_VALIDATION: usize = 2000;
/// Seconds that members are weighed for after a run was stopped, and the points that are weighed
/// between two looks at the clock: whoever stops a run waits for its model.
const STOPPED_SECONDS: f64 = 0.3;
const STOPPED_PART: usize = 32;
/// Networks where neither their number nor a budget of time is given, and at most.
const MEMBERS: usize = 2;
const MOST_MEMBERS: usize = 8;

/// Passes over the points that a network should have before another one is trained beside it, and
/// steps that are enough however many points there are.
const PASSES: usize = 200;
const ENOUGH_STEPS: u64 = 20_000;

/// Networks that are worth training in the time of `affordable` steps of one alone
/// (`docs/generalisation.md`).
pub fn worthwhile_members(affordable: u64, network: MemberTraining) -> usize {
    let MemberTraining { optimiser, has_grids, points, batch } = network;
    let least = match optimiser {
        // Fine detail is learned late.
        Optimiser::Soap if has_grids => ENOUGH_STEPS,
        Optimiser::Soap => 6000,
        // More steps to the same likelihood, each cheaper.
        Optimiser::Adam => 12_000,
    };
    let passes = (PASSES * points / batch) as u64;
    let needed = passes.clamp(least, ENOUGH_STEPS);
    ((affordable as f64 / needed as f64).round() as usize).clamp(1, MOST_MEMBERS)
}

/// What decides how many steps a network of a stack should have.
#[derive(Clone, Copy, Debug)]
pub struct MemberTraining {
    /// What steps are made by.
    pub optimiser: Optimiser,
    /// Whether grids that are learned stand in front of the network.
    pub has_grids: bool,
    /// Training points.
    pub points: usize,
    /// Points of a step.
    pub batch: usize,
}

/// A stack in training.
pub(super) struct StackRun {
    geometry: Geometry,
    settings: StackSettings,
    networks: Vec<RdmRun>,
    mixture: Option<Arc<KernelMixture>>,
    /// With the mixture in them.
    windows: Option<Arc<ParzenMixture>>,
    validation: Points,
    watch: Watch,
    began: Instant,
}

/// Seeds of the networks; the first has the run's own, so that it is the network of `rdm`.
fn seeds(seed: u64, members: usize) -> Vec<u64> {
    (0..members).map(|number| member_seed(seed, number)).collect()
}

impl StackRun {
    pub(super) fn start(task: &Task, choices: &Stack) -> Result<Self, FitError> {
        // Before the time that is left for networks is planned.
        let windows = parzen::windows(task)?;
        // Too few points to weigh networks by: the mixture alone.
        let few = task.mixture.is_ok() && task.validation.len() < LEAST_VALIDATION;
        let network = choices.network();
        let members = match choices.members {
            Some(members) => members,
            None if few => 0,
            None if choices.train.steps.is_some() => MEMBERS,
            None => {
                let alone = start_networks::<RdmRecipe>(task, &network, &[task.seed])?;
                let RdmSettings { net, train, .. } = alone[0].resolved();
                let (has_grids, points) = (net.grid_levels > 0, task.train.len());
                let (optimiser, batch) = (train.optimiser, train.batch);
                let network = MemberTraining { optimiser, has_grids, points, batch };
                worthwhile_members(train.steps, network)
            }
        };
        if members == 0 && task.mixture.is_err() {
            let expected = "at least 1 where there is no kernel mixture";
            return Err(FitError::Setting { name: "members", value: "0".into(), expected });
        }
        // With one network at least, so that the settings of all are known.
        let seeds = seeds(task.seed, members.max(1));
        let mut networks = start_networks::<RdmRecipe>(task, &network, &seeds)?;
        let ratio = choices.smoothing_ratio.unwrap_or(SMOOTHING_RATIO);
        let settings = StackSettings::of(members, ratio, networks[0].resolved().clone());
        networks.truncate(members);
        for (number, run) in networks.iter_mut().enumerate().skip(1).step_by(2) {
            *run = RdmRun::new(task, settings.network(number), seeds[number])?;
        }
        Ok(Self::of(task, settings, networks, windows))
    }

    pub(super) fn open(
        task: &Task,
        settings: StackSettings,
        files: &dyn Files,
    ) -> Result<Self, FitError> {
        let windows = match files.read(WINDOWS_FILE)? {
            Some(_) => Some(Arc::new(read_windows(&task.geometry, WINDOWS_FILE, files)?)),
            None => None,
        };
        if let Some(windows) = &windows {
            task.windows.set(Arc::clone(windows)).ok();
        }
        let networks: Result<Vec<RdmRun>, FitError> = seeds(task.seed, settings.members)
            .into_iter()
            .enumerate()
            .map(|(number, seed)| RdmRun::new(task, settings.network(number), seed))
            .collect();
        Ok(Self::of(task, settings, networks?, windows))
    }

    fn of(
        task: &Task,
        settings: StackSettings,
        networks: Vec<RdmRun>,
        windows: Option<Arc<ParzenMixture>>,
    ) -> Self {
        Self {
            geometry: task.geometry.clone(),
            settings,
            networks,
            mixture: task.mixture.as_ref().ok().cloned(),
            windows,
            validation: task.validation.clone(),
            watch: task.watch.clone(),
            began: task.began,
        }
    }

    /// log p of the validation points under each member. A run that was stopped leaves a model all
    /// the same, whose members are weighed by as many of the points as a moment suffices for.
    fn validation_log_p(&self, models: &[Arc<dyn Fitted>]) -> Result<Vec<Vec<f64>>, SolveError> {
        // Parts of a split are in random order.
        let x = self.validation.first_rows(MOST_VALIDATION);
        let score = |model: &Arc<dyn Fitted>, x: Rows<'_>| {
            Ok(model.log_density_to(x, VALIDATION_TOLERANCE)?.log_p)
        };
        if !self.watch.is_stopped() {
            let all = || models.iter().map(|model| score(model, x)).collect();
            return self.watch.stage("weights", all);
        }
        let (began, mut log_p) = (Instant::now(), vec![Vec::new(); models.len()]);
        for first in (0..x.len()).step_by(STOPPED_PART) {
            let part = x.range(first..x.len().min(first + STOPPED_PART))?;
            // Members side by side: a part is too small to be shared out.
            let found: Result<Vec<Vec<f64>>, SolveError> =
                models.par_iter().map(|model| score(model, part)).collect();
            log_p.iter_mut().zip(found?).for_each(|(all, part)| all.extend(part));
            if began.elapsed().as_secs_f64() > STOPPED_SECONDS {
                break;
            }
        }
        Ok(log_p)
    }
}

impl Run for StackRun {
    fn settings(&self) -> Result<Json, FitError> {
        write_settings(&self.settings)
    }

    fn files(&self) -> Result<FileMap, FitError> {
        Ok(match (&self.windows, &self.mixture) {
            (Some(windows), _) => {
                FileMap::from([(WINDOWS_FILE.to_owned(), write_windows(windows)?)])
            }
            (None, Some(mixture)) => {
                FileMap::from([(MIXTURE_FILE.to_owned(), write_mixture(mixture)?)])
            }
            (None, None) => FileMap::new(),
        })
    }

    fn remarks(&self) -> Vec<String> {
        let points = self.validation.len();
        let few = format!(
            "{points} validation points are too few to weigh networks by ({LEAST_VALIDATION} are \
             needed): the mixture of kernels alone; --members K trains networks nevertheless"
        );
        let is_few = self.networks.is_empty() && points < LEAST_VALIDATION;
        is_few.then_some(few).into_iter().collect()
    }

    fn steps(&self) -> (u64, u64) {
        self.networks.first().map_or((0, 0), Run::steps)
    }

    fn is_done(&self) -> bool {
        self.networks.iter().all(Run::is_done)
    }

    fn advance(&mut self, watch: &Watch) -> Result<Vec<MetricsRow>, FitError> {
        let shown = self.networks.iter().position(|network| !network.is_done());
        let advance = |(number, network): (usize, &mut RdmRun)| {
            if network.is_done() {
                return Ok(Vec::new());
            }
            let silent;
            let watch = if Some(number) == shown {
                watch
            } else {
                silent = watch.silent();
                &silent
            };
            let mut rows = network.advance(watch)?;
            for row in &mut rows {
                row.member = (number > 0).then_some(number);
            }
            Ok(rows)
        };
        let rows: Result<Vec<Vec<MetricsRow>>, FitError> =
            self.networks.par_iter_mut().enumerate().map(advance).collect();
        Ok(rows?.concat())
    }

    fn checkpoint_seconds(&self) -> f64 {
        self.settings.train.checkpoint_seconds
    }

    fn checkpoint(&self) -> Result<Option<Vec<u8>>, FitError> {
        let mut files = Vec::new();
        for network in &self.networks {
            files.extend(network.checkpoint()?);
        }
        Ok((!files.is_empty()).then(|| pack_files(&files)).transpose()?)
    }

    fn restore(&mut self, checkpoint: &[u8]) -> Result<(), FitError> {
        let files = unpack(checkpoint)?;
        if files.len() != self.networks.len() {
            let (found, expected) = (files.len(), self.networks.len());
            let problem = format!("the checkpoint has {found} networks, the run {expected}");
            return Err(FitError::Settings { problem });
        }
        self.networks.iter_mut().zip(files).try_for_each(|(network, file)| network.restore(&file))
    }

    fn finish(&self) -> Result<Finished, FitError> {
        let mut models: Vec<Arc<dyn Fitted>> = Vec::new();
        let (mut outcome, mut proposal) = (Outcome::default(), Vec::new());
        for (number, network) in self.networks.iter().enumerate() {
            let finished = network.finish()?;
            models.push(finished.model);
            if number == 0 {
                (outcome, proposal) = (finished.outcome, finished.proposal);
            }
        }
        let prior = &self.geometry.prior;
        match (&self.windows, &self.mixture) {
            (Some(windows), _) => models.push(parzen::fitted(Arc::clone(windows), prior)),
            (None, Some(mixture)) => models.push(fitted(Arc::clone(mixture), prior)),
            (None, None) => {}
        }
        let weights = if models.len() == 1 {
            vec![1.0]
        } else {
            let log_p = self.validation_log_p(&models)?;
            let weights = weights(&log_p);
            outcome.validation_nll = Some(super::fitted::mean_nll(&log_p, &weights));
            weights
        };
        let members = models.into_iter().zip(weights);
        let members = members.map(|(model, weight)| Member { model, weight }).collect();
        if self.networks.is_empty() {
            outcome.train_seconds = self.began.elapsed().as_secs_f64();
            outcome.threads = rayon::current_num_threads();
        }
        let model = FittedStack::new(self.geometry.clone(), self.settings.clone(), members);
        Ok(Finished { model: Arc::new(model), outcome, proposal })
    }
}

/// The checkpoints of the networks.
pub(super) fn unpack(checkpoint: &[u8]) -> Result<Vec<Vec<u8>>, FitError> {
    let name = CHECKPOINT_FILE.to_owned();
    unpack_files(checkpoint).map_err(|source| FitError::File { name, source })
}
