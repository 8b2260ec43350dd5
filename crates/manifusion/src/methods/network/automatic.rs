//! What a user leaves open of a network and its training, chosen from the data; each default that
//! methods share is here and nowhere else.

use serde_json::Value as Json;

use super::{NetChoices, NetSettings, TrainingChoices, TrainingSettings};
use crate::manifold::{LogCoordinates, Manifold};
use crate::methods::Task;
use crate::mixture::KernelMixture;
use crate::nn::{Activation, GRID_DIM};
use crate::optim::{Decay, Optimiser};

/// The length scales of the data, as the leave-one-out likelihood of a kernel mixture sees them:
/// unlike distances between neighbours they do not shrink with the number of points of a smooth
/// density.
pub(in crate::methods) struct Scales {
    /// Below it lies a hundredth of the mass.
    pub(in crate::methods) smallest: f64,
    /// Below it lies a tenth of the mass.
    pub(in crate::methods) small: f64,
    /// The mass at bandwidths that a network without grids does not resolve in minutes.
    pub(in crate::methods) fine_share: f64,
    /// Centres of the mixture.
    centres: usize,
}

/// Bandwidths below this one are fine.
const FINE: f64 = 1.5e-3;
/// Grids, and log₂ of the entries of their tables, at least and at most.
const GRID_LEVELS: usize = 14;
const GRID_ENTRIES: [u32; 2] = [12, 18];

impl Scales {
    /// Those of the data of a task.
    pub(in crate::methods) fn of_task(task: &Task) -> Self {
        Self::of(task.mixture.as_ref().ok().map(AsRef::as_ref))
    }

    pub(in crate::methods) fn of(mixture: Option<&KernelMixture>) -> Self {
        let Some(mixture) = mixture else {
            return Self { smallest: 0.1, small: 0.1, fine_share: 0.0, centres: 0 };
        };
        let quantile = |share: f64| {
            let mut below = 0.0;
            for (bandwidth, weight) in mixture.bandwidths().iter().zip(mixture.weights()).rev() {
                below += weight;
                if below > share {
                    return *bandwidth;
                }
            }
            1.0
        };
        let fine = mixture.bandwidths().iter().zip(mixture.weights()).filter(|(b, _)| **b < FINE);
        let fine_share = fine.map(|(_, weight)| weight).sum();
        let centres = mixture.num_centres();
        Self { smallest: quantile(0.01), small: quantile(0.1), fine_share, centres }
    }
}

/// The smallest time of a model of data that are smoothed by c. Noise of this variance costs
/// d/2 log(1 + s_min/σ²) nats at the smallest scale σ; smoothing allows for it.
pub(in crate::methods) fn smallest_time(scales: &Scales, smoothing: f64) -> f64 {
    ((0.5 * smoothing).max(0.05) * scales.smallest.powi(2)).clamp(1e-10, 1e-3)
}

/// Minutes of a run that has neither minutes nor steps.
const MINUTES: f64 = 5.0;

/// Seconds that a run is to take, from the choices of any method with `train.steps` and
/// `train.minutes`; none where its steps are given.
pub(in crate::methods) fn seconds(choices: &Json) -> Option<f64> {
    let given = |name: &str| choices.get("train")?.get(name).filter(|value| !value.is_null());
    match given("steps") {
        Some(_) => None,
        None => Some(60.0 * given("minutes").and_then(Json::as_f64).unwrap_or(MINUTES)),
    }
}

/// Steps that settings have before a budget of minutes is turned into steps.
const UNPLANNED: u64 = 1_000_000;

/// Steps in which the rate of a run of so many steps rises.
pub(in crate::methods) fn warmup(steps: u64) -> u64 {
    (steps / 50).min(500)
}

/// Passes over the points in which a network with SOAP has learned what it will. From there on it
/// overfits, however slowly the rate falls: on floods with c = 0.5, 20 000 steps end at 0.418 and
/// 101 000 at 0.451.
pub(in crate::methods) const USEFUL_PASSES: u64 = 2500;

/// Steps that a budget of time is used for, at most.
pub(super) fn most_steps(training: &TrainingSettings, points: usize, passes: u64) -> u64 {
    const LEAST: u64 = 5000;
    match training.optimiser {
        Optimiser::Soap => (passes * points as u64 / training.batch as u64).max(LEAST),
        Optimiser::Adam => u64::MAX,
    }
}

/// Gradient partitions: with more, tasks of a usual batch would be too small.
const PARTITIONS: usize = 8;

/// What decides about a network.
pub(in crate::methods) struct NetFacts<'a> {
    pub(in crate::methods) manifold: &'a dyn Manifold,
    pub(in crate::methods) scales: &'a Scales,
    /// Whether there is a mixture that the scales come from.
    pub(in crate::methods) has_mixture: bool,
    /// Whether what is learned is a regression on targets, or a loss with a divergence, which is
    /// noisy at high frequencies.
    pub(in crate::methods) is_regression: bool,
    /// The share of the mass at fine bandwidths from which on grids of learned features are chosen;
    /// none if they never are.
    pub(in crate::methods) grids_from: Option<f64>,
}

impl NetFacts<'_> {
    /// Whether the network has grids of learned features.
    pub(in crate::methods) fn has_grids(&self, choices: &NetChoices) -> bool {
        choices.grid_levels.map_or_else(
            || {
                self.grids_from.is_some_and(|share| self.scales.fine_share > share)
                    && self.manifold.ambient_dim() <= GRID_DIM
            },
            |levels| levels > 0,
        )
    }

    /// log₂ of the entries of a grid's table: as many as the nodes around the training points, so
    /// that on the finest grids few of them share one.
    fn grid_entries(&self) -> u32 {
        let nodes = 3f64.powi(self.manifold.ambient_dim() as i32) * self.scales.centres as f64;
        let [least, most] = GRID_ENTRIES;
        (nodes.log2().ceil() as u32).clamp(least, most)
    }

    /// The network with every open choice made.
    pub(in crate::methods) fn resolve(&self, choices: &NetChoices) -> NetSettings {
        let (has_grids, choices) = (self.has_grids(choices), choices.clone());
        let log_coordinates =
            choices.log_coordinates.unwrap_or_else(|| LogCoordinates::new(self.manifold).is_some());
        let highest = if self.is_regression { 1e4 } else { 50.0 };
        let fourier_max =
            if has_grids { 8.0 } else { (1.0 / self.scales.small).clamp(4.0, highest) };
        let features = match fourier_max {
            _ if has_grids => 16,
            // On hyperbolic space, where the implicit loss is trained, a few help; elsewhere
            // without the kernel they were not tried.
            _ if !self.is_regression && log_coordinates => 64,
            _ if !self.has_mixture || !self.is_regression => 0,
            f if f < 50.0 => 64,
            f if f < 500.0 => 128,
            _ => 256,
        };
        NetSettings {
            depth: choices.depth.unwrap_or(if has_grids { 3 } else { 4 }),
            width: choices.width.unwrap_or(256),
            activation: choices.activation.unwrap_or(Activation::Swish),
            residual: choices.residual.unwrap_or(false),
            actnorm: choices.actnorm.unwrap_or(!self.is_regression),
            log_coordinates,
            time_pairs: choices.time_pairs.unwrap_or(4),
            fourier: choices.fourier.unwrap_or(features),
            fourier_max: choices.fourier_max.unwrap_or(fourier_max),
            grid_levels: choices.grid_levels.unwrap_or(if has_grids { GRID_LEVELS } else { 0 }),
            grid_max: choices.grid_max.unwrap_or(1.0 / self.scales.smallest),
            grid_entries: choices.grid_entries.unwrap_or_else(|| self.grid_entries()),
            inverse_noise: choices.inverse_noise.unwrap_or(true),
            zero_output: choices.zero_output.unwrap_or(true),
        }
    }
}

/// What SOAP's learning rate is to Adam's: entries that are uncorrelated allow for longer steps.
const SOAP_RATE: f64 = 2.0;

/// The training loop with every open choice made: where the optimiser is open it is `usual`, where
/// the rate is open it is `adam_rate` or SOAP's multiple of it.
pub(in crate::methods) fn training(
    choices: &TrainingChoices,
    usual: Optimiser,
    adam_rate: f64,
) -> TrainingSettings {
    let optimiser = choices.optimiser.unwrap_or(usual);
    let rate = match optimiser {
        Optimiser::Adam => adam_rate,
        Optimiser::Soap => SOAP_RATE * adam_rate,
    };
    let batch = choices.batch.unwrap_or(512);
    // Steps that are given count; the minutes beside them are those of the run that found them.
    let (steps, minutes) = match choices.steps {
        Some(steps) => (steps, 0.0),
        None => (UNPLANNED, choices.minutes.unwrap_or(MINUTES)),
    };
    // A budget has as many of them as are cheap.
    let validation_points = if minutes > 0.0 { 2000 } else { 500 };
    TrainingSettings {
        batch,
        partitions: choices.partitions.unwrap_or(PARTITIONS),
        steps,
        minutes,
        optimiser,
        rate: choices.rate.unwrap_or(rate),
        warmup: choices.warmup.unwrap_or(warmup(steps)),
        decay: choices.decay.unwrap_or(Decay::Cosine),
        weight_decay: choices.weight_decay.unwrap_or(0.0),
        clip: choices.clip.unwrap_or(10.0),
        ema: choices.ema.unwrap_or(0.999),
        validations: choices.validations.unwrap_or(20),
        validation_points: choices.validation_points.unwrap_or(validation_points),
        patience: choices.patience.unwrap_or(8),
        checkpoint_seconds: choices.checkpoint_seconds.unwrap_or(20.0),
    }
}
