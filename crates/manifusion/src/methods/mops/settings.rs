//! What a user may set of a mixture of power spherical distributions.

use serde::{Deserialize, Serialize};

use crate::methods::FitError;
use crate::methods::settings::settings;

/// Components, where their number is left open.
const COMPONENTS: usize = 4096;
/// Most components.
const MOST_COMPONENTS: usize = 1 << 20;

settings! {
    /// The training loop.
    "train": TrainSettings, TrainChoices {
        /// How far the data are smoothed, as a share of the squared bandwidths of their kernel
        /// mixture: 0 is the points themselves, 1 the mixture.
        smoothing: f64,
        /// Points per step.
        batch: usize,
        /// Parts of a batch: the most threads that a step can use. Part of the arithmetic.
        partitions: usize,
        /// Steps of the run; where minutes are given, found by measuring.
        steps: u64,
        /// Minutes that fits and training may take in all; 0 where only steps count.
        minutes: f64,
        /// Learning rate of Adam, which falls to 0 along half a cosine.
        rate: f64,
        /// Validations in a run.
        validations: u64,
        /// Validation points used, at most.
        validation_points: usize,
        /// Validations without a better value after which the run ends.
        patience: u64,
        /// Seconds between two checkpoints.
        checkpoint_seconds: f64,
    }
}

/// A mixture of power spherical distributions as a user asks for it: what is left open is chosen
/// from the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mops {
    /// Components.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub components: Option<usize>,
    /// The training loop.
    pub train: TrainChoices,
}

/// Minutes of a run that has neither minutes nor steps.
const MINUTES: f64 = 2.0;

impl Mops {
    /// Seconds that a run is to take; none where its steps are given.
    pub(super) fn seconds(&self) -> Option<f64> {
        let timed = self.train.steps.is_none();
        timed.then(|| 60.0 * self.train.minutes.unwrap_or(MINUTES))
    }

    /// The same for a training of about this long, fits and validations included.
    #[must_use]
    pub fn minutes(mut self, minutes: f64) -> Self {
        (self.train.minutes, self.train.steps) = (Some(minutes), None);
        self
    }

    /// The same for this many steps.
    #[must_use]
    pub fn steps(mut self, steps: u64) -> Self {
        (self.train.steps, self.train.minutes) = (Some(steps), None);
        self
    }

    /// The same with this many components.
    #[must_use]
    pub fn components(mut self, components: usize) -> Self {
        self.components = Some(components);
        self
    }

    /// An error for choices that no run could have.
    pub(super) fn check(&self) -> Result<(), FitError> {
        let train = &self.train;
        let not_allowed =
            |name, value: String, expected| Err(FitError::Setting { name, value, expected });
        for (name, value) in [
            ("components", self.components.map(|c| c as u64)),
            ("train.batch", train.batch.map(|b| b as u64)),
            ("train.partitions", train.partitions.map(|p| p as u64)),
            ("train.steps", train.steps),
            ("train.validations", train.validations),
            ("train.validation_points", train.validation_points.map(|p| p as u64)),
        ] {
            if value == Some(0) {
                return not_allowed(name, String::from("0"), "at least 1");
            }
        }
        if let Some(count) = self.components.filter(|count| *count > MOST_COMPONENTS) {
            return not_allowed("components", count.to_string(), "at most 1048576");
        }
        if let Some(batch) = train.batch.filter(|batch| *batch > 1 << 20) {
            return not_allowed("train.batch", batch.to_string(), "at most 1048576");
        }
        if let Some(partitions) = train.partitions.filter(|count| *count > 1024) {
            return not_allowed("train.partitions", partitions.to_string(), "at most 1024");
        }
        if let Some(c) = train.smoothing.filter(|c| !(*c >= 0.0 && c.is_finite())) {
            return not_allowed("train.smoothing", c.to_string(), "a number of at least 0");
        }
        if let Some(rate) = train.rate.filter(|rate| !(*rate > 0.0 && rate.is_finite())) {
            return not_allowed("train.rate", rate.to_string(), "a number above 0");
        }
        let timed = train.steps.is_none();
        if let Some(minutes) = train.minutes
            && !(minutes.is_finite() && minutes >= 0.0 && (minutes > 0.0 || !timed))
        {
            return not_allowed("train.minutes", minutes.to_string(), "a number above 0");
        }
        Ok(())
    }

    /// Every choice made, for this many training points. Steps that are left open are one until
    /// they are planned.
    pub fn resolved(self, points: usize) -> MopsSettings {
        let Self { components, train } = self;
        // Steps that are given count.
        let (steps, minutes) = match train.steps {
            Some(steps) => (steps, 0.0),
            None => (1, train.minutes.unwrap_or(MINUTES)),
        };
        MopsSettings {
            components: components.unwrap_or(COMPONENTS).min(points),
            train: TrainSettings {
                smoothing: train.smoothing.unwrap_or(1.0),
                batch: train.batch.unwrap_or(512).min(points),
                partitions: train.partitions.unwrap_or(4),
                steps,
                minutes,
                rate: train.rate.unwrap_or(0.03),
                validations: train.validations.unwrap_or(100),
                validation_points: train.validation_points.unwrap_or(2000),
                patience: train.patience.unwrap_or(20),
                checkpoint_seconds: train.checkpoint_seconds.unwrap_or(20.0),
            },
        }
    }
}

/// The same with every choice made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MopsSettings {
    /// Components.
    pub components: usize,
    /// The training loop.
    pub train: TrainSettings,
}

impl TryFrom<Mops> for MopsSettings {
    type Error = FitError;

    fn try_from(stored: Mops) -> Result<Self, FitError> {
        let incomplete = |name| FitError::Incomplete { name };
        Ok(Self {
            components: stored.components.ok_or(incomplete("components"))?,
            train: stored.train.complete().map_err(incomplete)?,
        })
    }
}
