//! What a user may set of a stack: how many networks, and everything of a network.

use serde::{Deserialize, Serialize};

use crate::methods::FitError;
use crate::methods::rdm::{
    ModelChoices, ModelSettings, NetChoices, NetSettings, Preset, Rdm, RdmSettings, TrainChoices,
    TrainSettings,
};

/// Most networks of a stack.
const MOST_MEMBERS: usize = 64;
/// Smoothing of every second network, where it is not given.
pub(super) const SMOOTHING_RATIO: f64 = 0.5;

/// A stack as a user asks for it: what is left open is chosen from the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stack {
    /// Networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<usize>,
    /// Smoothing and stretch of every second network, as a share of those of the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smoothing_ratio: Option<f64>,
    /// The bundle of defaults of a network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// The noise, and what a network is added to.
    pub model: ModelChoices,
    /// A network.
    pub net: NetChoices,
    /// The training loop.
    pub train: TrainChoices,
}

impl Stack {
    /// The same for a training of about this long in all, fits and validations included.
    #[must_use]
    pub fn minutes(mut self, minutes: f64) -> Self {
        (self.train.minutes, self.train.steps) = (Some(minutes), None);
        self
    }

    /// The same for this many steps of each network.
    #[must_use]
    pub fn steps(mut self, steps: u64) -> Self {
        (self.train.steps, self.train.minutes) = (Some(steps), None);
        self
    }

    /// The same with this many networks.
    #[must_use]
    pub fn members(mut self, members: usize) -> Self {
        self.members = Some(members);
        self
    }

    /// One of its networks.
    pub(super) fn network(&self) -> Rdm {
        let Self { preset, model, net, train, .. } = self.clone();
        Rdm { preset, model, net, train }
    }

    /// An error for choices that no run could have.
    pub(super) fn check(&self) -> Result<(), FitError> {
        if let Some(members) = self.members.filter(|members| *members > MOST_MEMBERS) {
            let (name, expected) = ("members", "at most 64");
            return Err(FitError::Setting { name, value: members.to_string(), expected });
        }
        if let Some(ratio) = self.smoothing_ratio.filter(|ratio| !(*ratio >= 0.0)) {
            let (name, expected) = ("smoothing_ratio", "a number of at least 0");
            return Err(FitError::Setting { name, value: ratio.to_string(), expected });
        }
        self.network().check()
    }
}

/// The same with every choice made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StackSettings {
    /// Networks.
    pub members: usize,
    /// Smoothing and stretch of every second network, as a share of those of the first.
    pub smoothing_ratio: f64,
    /// The bundle of defaults that was chosen from.
    pub preset: Preset,
    /// The noise, and what a network is added to.
    pub model: ModelSettings,
    /// A network.
    pub net: NetSettings,
    /// The training loop.
    pub train: TrainSettings,
}

impl StackSettings {
    /// A stack of so many networks, the first of these settings.
    pub(super) fn of(members: usize, smoothing_ratio: f64, first: RdmSettings) -> Self {
        let RdmSettings { preset, model, net, train } = first;
        Self { members, smoothing_ratio, preset, model, net, train }
    }

    /// Its network of this number. Every second one is smoothed otherwise, so that the validation
    /// points can choose between the two.
    pub(super) fn network(&self, number: usize) -> RdmSettings {
        let Self { preset, model, net, mut train, .. } = self.clone();
        if number % 2 == 1 {
            train.smoothing *= self.smoothing_ratio;
            train.stretch *= self.smoothing_ratio;
        }
        RdmSettings { preset, model, net, train }
    }
}

impl TryFrom<Stack> for StackSettings {
    type Error = FitError;

    fn try_from(stored: Stack) -> Result<Self, FitError> {
        let members = stored.members.ok_or(FitError::Incomplete { name: "members" })?;
        // The first folders of format 4 do not name it.
        let ratio = stored.smoothing_ratio.unwrap_or(SMOOTHING_RATIO);
        Ok(Self::of(members, ratio, stored.network().try_into()?))
    }
}
