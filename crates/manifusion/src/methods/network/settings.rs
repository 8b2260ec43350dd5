//! What a user may set of a network and of its training, whatever it learns.

use serde::{Deserialize, Serialize};

use super::automatic::{USEFUL_PASSES, most_steps};
use crate::methods::settings::{Section, named, settings};
use crate::methods::{FitError, Request, Setting, write_settings};
use crate::nn::{Activation, FourierConfig, GridConfig, NetConfig, OutputScale, TimeConditioning};
use crate::optim::{AdamConfig, Decay, Optimiser, Schedule};
use crate::train::{LoopSettings, OptimiserConfig};

named! {
    /// Bundles of defaults.
    Preset {
        /// What the method's authors chose: networks, loss, times and rates.
        Paper = "paper",
        /// What reaches the best likelihood in a few minutes on a laptop.
        Fast = "fast",
    }
}

/// The description of the setting that chooses a bundle of defaults.
pub(in crate::methods) const PRESET: &[Setting] =
    &[Setting { name: "preset", kind: "Preset", help: "A bundle of defaults: fast or paper." }];

settings! {
    /// The network.
    "net": NetSettings, NetChoices {
        /// Hidden layers.
        depth: usize,
        /// Units of a hidden layer.
        width: usize,
        /// The nonlinearity.
        activation: Activation,
        /// Whether hidden layers are added to their inputs.
        residual: bool,
        /// Whether inputs are normalised by a trained shift and scale.
        actnorm: bool,
        /// Whether the network sees the logarithm of points of hyperbolic space, not their
        /// coordinates.
        log_coordinates: bool,
        /// Pairs of sines of log s; 0 is the paper's plain s.
        time_pairs: usize,
        /// Damped Fourier features; 0 is none.
        fourier: usize,
        /// Their largest frequency.
        fourier_max: f64,
        /// Grids of learned features; 0 is none.
        grid_levels: usize,
        /// Nodes per unit of length of the finest grid.
        grid_max: f64,
        /// log₂ of the entries of a grid's table.
        grid_entries: u32,
        /// Whether the output is divided by √(1 − e^{−s}).
        inverse_noise: bool,
        /// Whether the output layer starts at zero.
        zero_output: bool,
    }
}

settings! {
    /// The training loop.
    "train": TrainingSettings, TrainingChoices {
        /// Rows per step.
        batch: usize,
        /// Gradient partitions: the most threads that a step can use. Results do not depend on it.
        partitions: usize,
        /// Steps of the run; where minutes are given, found by measuring.
        steps: u64,
        /// Minutes that fits and training may take in all; 0 where only steps count.
        minutes: f64,
        /// How gradients become steps: adam, or soap (Adam in the eigenbases of the gradients).
        optimiser: Optimiser,
        /// Learning rate.
        rate: f64,
        /// Steps in which the learning rate rises.
        warmup: u64,
        /// What the learning rate does after that.
        decay: Decay,
        /// Weight decay.
        weight_decay: f64,
        /// Gradients longer than this are scaled down.
        clip: f64,
        /// Decay of the moving average of the weights.
        ema: f64,
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

/// Nodes per unit of length of the coarsest grid of learned features.
const GRID_COARSEST: f64 = 2.0;

impl NetSettings {
    /// The network for points of `m` coordinates and times in [s_min, T].
    pub(in crate::methods) fn config(&self, m: usize, s_min: f64, t_end: f64) -> NetConfig {
        let f_max = self.fourier_max;
        NetConfig {
            ambient_dim: m,
            depth: self.depth,
            width: self.width,
            activation: self.activation,
            residual: self.residual,
            actnorm: self.actnorm,
            time: match self.time_pairs {
                0 => TimeConditioning::Concat,
                pairs => TimeConditioning::LogSines { pairs, s_min, t_end },
            },
            fourier: (self.fourier > 0).then_some(FourierConfig { features: self.fourier, f_max }),
            grid: (self.grid_levels > 0).then_some(GridConfig {
                levels: self.grid_levels,
                coarsest: GRID_COARSEST,
                finest: self.grid_max.max(GRID_COARSEST),
                log2_entries: self.grid_entries,
                lines: true,
            }),
            output_scale: if self.inverse_noise {
                OutputScale::InverseNoise
            } else {
                OutputScale::One
            },
            zero_output: self.zero_output,
        }
    }
}

impl NetChoices {
    /// An error for choices that no network could have.
    pub(in crate::methods) fn check(&self) -> Result<(), FitError> {
        let not_allowed = |name, value: usize, expected| {
            Err(FitError::Setting { name, value: value.to_string(), expected })
        };
        if let Some(depth) = self.depth.filter(|depth| *depth > 64) {
            return not_allowed("net.depth", depth, "at most 64");
        }
        if let Some(width) = self.width.filter(|width| *width > 1 << 14) {
            return not_allowed("net.width", width, "at most 16384");
        }
        Ok(())
    }
}

impl NetChoices {
    /// An error if something is chosen that a method without a time of the noise, or without other
    /// coordinates, does not have.
    pub(in crate::methods) fn check_plain(&self) -> Result<(), FitError> {
        let refuse = |name, value: String| {
            Err(FitError::Setting { name, value, expected: "this method knows only 0 or false" })
        };
        if let Some(pairs) = self.time_pairs.filter(|pairs| *pairs > 0) {
            return refuse("net.time_pairs", pairs.to_string());
        }
        for (name, value) in [
            ("net.inverse_noise", self.inverse_noise),
            ("net.log_coordinates", self.log_coordinates),
        ] {
            if value == Some(true) {
                return refuse(name, String::from("true"));
            }
        }
        Ok(())
    }
}

impl TrainingChoices {
    /// An error for choices that no run could have.
    pub(in crate::methods) fn check(&self) -> Result<(), FitError> {
        let not_allowed =
            |name, value: String, expected| Err(FitError::Setting { name, value, expected });
        let timed = self.steps.is_none();
        if let Some(minutes) = self.minutes
            && !(minutes.is_finite() && minutes >= 0.0 && (minutes > 0.0 || !timed))
        {
            return not_allowed("train.minutes", minutes.to_string(), "a number above 0");
        }
        for (name, value) in [
            ("train.steps", self.steps),
            ("train.validations", self.validations),
            ("train.batch", self.batch.map(|b| b as u64)),
            ("train.partitions", self.partitions.map(|p| p as u64)),
            ("train.validation_points", self.validation_points.map(|p| p as u64)),
        ] {
            if value == Some(0) {
                return not_allowed(name, String::from("0"), "at least 1");
            }
        }
        if let Some(batch) = self.batch.filter(|batch| *batch > 1 << 20) {
            return not_allowed("train.batch", batch.to_string(), "at most 1048576");
        }
        if let Some(partitions) = self.partitions.filter(|count| *count > 1024) {
            return not_allowed("train.partitions", partitions.to_string(), "at most 1024");
        }
        Ok(())
    }
}

impl TrainingSettings {
    /// How the weights move.
    pub(in crate::methods) fn optimiser(&self, seed: u64) -> OptimiserConfig {
        OptimiserConfig {
            schedule: Schedule {
                base: self.rate,
                warmup: self.warmup,
                decay: self.decay,
                total: self.steps,
                floor: 0.0,
            },
            optimiser: self.optimiser,
            adam: AdamConfig { weight_decay: self.weight_decay, ..AdamConfig::default() },
            clip: self.clip,
            ema: self.ema,
            seed,
            partitions: self.partitions,
        }
    }

    /// When the run on so many training points validates and when it ends. A budget of time is used
    /// for so many passes over them at most.
    pub(super) fn loop_settings(&self, points: usize, passes: u64) -> LoopSettings {
        LoopSettings {
            steps: self.steps,
            seconds: if self.minutes > 0.0 { 60.0 * self.minutes } else { f64::INFINITY },
            most_steps: most_steps(self, points, passes),
            validations: self.validations,
            patience: self.patience,
            fresh_steps: FRESH_PASSES * points as u64 / self.batch as u64,
        }
    }
}

/// Passes over the points that leave nothing learned by heart.
const FRESH_PASSES: u64 = 10;

/// A method with one network as a user asks for it: what is left open is chosen from the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, bound = "C: Section")]
pub struct NetworkChoices<C> {
    /// The bundle of defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// What the method alone has.
    pub model: C,
    /// The network.
    pub net: NetChoices,
    /// The training loop.
    pub train: TrainingChoices,
}

/// The same with every choice made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NetworkSettings<S> {
    /// The bundle of defaults that was chosen from.
    pub preset: Preset,
    /// What the method alone has.
    pub model: S,
    /// The network.
    pub net: NetSettings,
    /// The training loop.
    pub train: TrainingSettings,
}

impl<C> NetworkChoices<C> {
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

    /// These choices, and what the authors chose where the preset says so.
    pub(in crate::methods) fn with_preset(&self, paper: impl FnOnce() -> Self) -> (Preset, Self)
    where
        C: Section,
    {
        let preset = self.preset.unwrap_or(Preset::Fast);
        let Self { model, net, train, .. } = self.clone();
        let chosen = match preset {
            Preset::Fast => Self { preset: None, model, net, train },
            Preset::Paper => {
                let paper = paper();
                Self {
                    preset: None,
                    model: model.or(paper.model),
                    net: net.or(paper.net),
                    train: train.or(paper.train),
                }
            }
        };
        (preset, chosen)
    }

    /// An error for a network or a loop that no run could have.
    pub(in crate::methods) fn check(&self) -> Result<(), FitError> {
        self.net.check()?;
        self.train.check()
    }
}

impl<C: Section> TryFrom<NetworkChoices<C>> for NetworkSettings<C::Settings> {
    type Error = FitError;

    fn try_from(stored: NetworkChoices<C>) -> Result<Self, FitError> {
        let incomplete = |name| FitError::Incomplete { name };
        Ok(Self {
            preset: stored.preset.unwrap_or(Preset::Fast),
            model: stored.model.resolved().map_err(incomplete)?,
            net: stored.net.complete().map_err(incomplete)?,
            train: stored.train.complete().map_err(incomplete)?,
        })
    }
}

/// Choices of a section that belong to one method.
pub trait OfMethod: Section {
    /// The method's name.
    const METHOD: &'static str;
}

impl<C: OfMethod> From<NetworkChoices<C>> for Request {
    fn from(choices: NetworkChoices<C>) -> Self {
        Self::named(C::METHOD, write_settings(&choices).unwrap_or_default())
    }
}

/// An error unless these choices are numbers above 0.
pub(in crate::methods) fn check_positive(
    choices: &[(&'static str, Option<f64>)],
) -> Result<(), FitError> {
    for (name, value) in choices {
        if let Some(value) = value.filter(|value| !(*value > 0.0 && value.is_finite())) {
            let (value, expected) = (value.to_string(), "a number above 0");
            return Err(FitError::Setting { name, value, expected });
        }
    }
    Ok(())
}

/// Choices that have a training loop.
pub trait HasTrainingChoices {
    /// What is chosen of it.
    fn training(&self) -> TrainingChoices;
}

/// Settings that have a training loop.
pub trait HasTraining {
    /// The loop.
    fn training(&self) -> TrainingSettings;

    /// The same with another loop.
    #[must_use]
    fn with_training(self, training: TrainingSettings) -> Self;

    /// Passes over the training points after which a network has learned what it will.
    fn useful_passes(&self) -> u64 {
        USEFUL_PASSES
    }
}

impl<C> HasTrainingChoices for NetworkChoices<C> {
    fn training(&self) -> TrainingChoices {
        self.train.clone()
    }
}

impl<S> HasTraining for NetworkSettings<S> {
    fn training(&self) -> TrainingSettings {
        self.train.clone()
    }

    fn with_training(self, train: TrainingSettings) -> Self {
        Self { train, ..self }
    }
}
