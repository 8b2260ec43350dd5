//! What a user may set of a diffusion model.

use serde::{Deserialize, Serialize};

use crate::methods::FitError;
use crate::methods::network::{
    HasTraining, HasTrainingChoices, NetChoices, NetSettings, Preset, TrainingChoices,
    TrainingSettings, USEFUL_PASSES,
};
use crate::methods::settings::{named, settings};
use crate::optim::{Decay, Optimiser};

named! {
    /// The form of the bound.
    Loss {
        /// With a divergence, as in the paper; on every manifold.
        Implicit = "implicit",
        /// Against the score of the transition kernel, where that is known.
        Denoising = "denoising",
    }
}

named! {
    /// Divergences of the implicit loss.
    Divergence {
        /// Exact, along a tangent frame.
        Frame = "frame",
        /// Exact, along a random tangent frame (QR).
        RandomFrame = "random-frame",
        /// Projected Hutchinson probes, Rademacher.
        Hutchinson = "hutchinson",
        /// Projected Hutchinson probes, Gaussian.
        HutchinsonGaussian = "hutchinson-gaussian",
        /// Through the closest-point extension.
        ClosestPoint = "closest-point",
        /// In intrinsic coordinates.
        Intrinsic = "intrinsic",
    }
}

named! {
    /// Proposals of training times.
    TimeProposal {
        /// Uniform in s.
        Uniform = "uniform",
        /// Uniform in log s.
        LogUniform = "log-uniform",
        /// A deep sigmoidal flow that lowers the variance of the loss.
        Learned = "learned",
    }
}

named! {
    /// Scales of the learned proposal.
    TimesScale {
        /// From near the log-uniform law.
        Log = "log",
        /// From near the uniform law, as in the paper.
        Linear = "linear",
    }
}

named! {
    /// Gradients of the learned proposal.
    TimesGradient {
        /// Unbiased, without a derivative of the loss.
        Unbiased = "unbiased",
        /// The paper's, slightly biased.
        Reparameterised = "reparameterised",
    }
}

named! {
    /// What noises the data.
    Noise {
        /// Brownian motion of the manifold's metric, with the drift of the prior.
        Brownian = "brownian",
        /// On hyperbolic space, an Ornstein–Uhlenbeck process of the normal coordinates around the
        /// origin: Brownian motion of the flat metric that these coordinates carry, whose
        /// transitions are known.
        NormalCoordinates = "normal-coordinates",
    }
}

settings! {
    /// The noise, and what the network is added to.
    "model": ModelSettings, ModelChoices {
        /// What noises the data: Brownian motion of the metric, or on hyperbolic space that of
        /// normal coordinates, whose transitions are known.
        noise: Noise,
        /// Whether the network is added to the score of the prior.
        prior_score: bool,
        /// Smallest noising time.
        s_min: f64,
        /// T.
        t_end: f64,
    }
}

settings! {
    /// The training loop.
    "train": TrainSettings, TrainChoices {
        /// The form of the bound that is trained.
        loss: Loss,
        /// How far the data are smoothed, as a share of the squared bandwidths of their kernel
        /// mixture: 0 is the points themselves, 1 the mixture.
        smoothing: f64,
        /// How far points are moved along their Parzen windows before that, as a share of the
        /// windows' covariances; 0 is not at all.
        stretch: f64,
        /// How the implicit loss computes divergences.
        divergence: Divergence,
        /// Hutchinson probes.
        probes: usize,
        /// The proposal of training times.
        times: TimeProposal,
        /// Steps between two updates of a learned proposal.
        times_every: u64,
        /// Learning rate of a learned proposal.
        times_rate: f64,
        /// Gradient of a learned proposal.
        times_gradient: TimesGradient,
        /// Scale on which a learned proposal starts near the uniform law.
        times_scale: TimesScale,
        /// Heun steps of the noise; 0 takes exact draws where they are known.
        noise_steps: usize,
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

/// A Riemannian diffusion model as a user asks for it: what is left open is chosen from the data.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Rdm {
    /// The bundle of defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preset: Option<Preset>,
    /// The noise, and what the network is added to.
    pub model: ModelChoices,
    /// The network.
    pub net: NetChoices,
    /// The training loop.
    pub train: TrainChoices,
}

impl Rdm {
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

    /// An error for choices that no run could have.
    pub(in crate::methods) fn check(&self) -> Result<(), FitError> {
        let train = &self.train;
        let not_allowed =
            |name, value: String, expected| Err(FitError::Setting { name, value, expected });
        for (name, share) in
            [("train.smoothing", train.smoothing), ("train.stretch", train.stretch)]
        {
            if let Some(c) = share.filter(|c| !(*c >= 0.0 && c.is_finite())) {
                return not_allowed(name, c.to_string(), "a number of at least 0");
            }
        }
        self.net.check()?;
        train.training().check()
    }
}

/// The same with every choice made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RdmSettings {
    /// The bundle of defaults that was chosen from.
    pub preset: Preset,
    /// The noise, and what the network is added to.
    pub model: ModelSettings,
    /// The network.
    pub net: NetSettings,
    /// The training loop.
    pub train: TrainSettings,
}

impl TryFrom<Rdm> for RdmSettings {
    type Error = FitError;

    fn try_from(stored: Rdm) -> Result<Self, FitError> {
        let incomplete = |name| FitError::Incomplete { name };
        Ok(Self {
            preset: stored.preset.unwrap_or(Preset::Fast),
            // Earlier runs do not name it, nor the stretch and the scale below.
            model: ModelChoices {
                noise: stored.model.noise.or(Some(Noise::Brownian)),
                ..stored.model
            }
            .complete()
            .map_err(incomplete)?,
            net: stored.net.complete().map_err(incomplete)?,
            train: TrainChoices {
                stretch: stored.train.stretch.or(Some(0.0)),
                times_scale: stored.train.times_scale.or(Some(TimesScale::Linear)),
                ..stored.train
            }
            .complete()
            .map_err(incomplete)?,
        })
    }
}

impl HasTrainingChoices for Rdm {
    fn training(&self) -> TrainingChoices {
        self.train.training()
    }
}

impl HasTraining for RdmSettings {
    fn training(&self) -> TrainingSettings {
        self.train.training()
    }

    /// Points that are moved far along their windows are not learned by heart: on floods (c = 1,
    /// c_w = 0.5) 40 000 steps are better by 0.02 than 19 000.
    fn useful_passes(&self) -> u64 {
        const MOVED_FAR: f64 = 0.5;
        const PASSES: u64 = 5000;
        if self.train.stretch >= MOVED_FAR { PASSES } else { USEFUL_PASSES }
    }

    fn with_training(mut self, training: TrainingSettings) -> Self {
        let TrainingSettings {
            batch,
            partitions,
            steps,
            minutes,
            optimiser,
            rate,
            warmup,
            decay,
            weight_decay,
            clip,
            ema,
            validations,
            validation_points,
            patience,
            checkpoint_seconds,
        } = training;
        self.train = TrainSettings {
            batch,
            partitions,
            steps,
            minutes,
            optimiser,
            rate,
            warmup,
            decay,
            weight_decay,
            clip,
            ema,
            validations,
            validation_points,
            patience,
            checkpoint_seconds,
            ..self.train
        };
        self
    }
}

/// The part of a training loop that other methods have too, from choices or settings.
macro_rules! training_of {
    ($from:ident, $to:ident) => {
        impl $from {
            /// The loop alone.
            pub(super) fn training(&self) -> $to {
                $to {
                    batch: self.batch,
                    partitions: self.partitions,
                    steps: self.steps,
                    minutes: self.minutes,
                    optimiser: self.optimiser,
                    rate: self.rate,
                    warmup: self.warmup,
                    decay: self.decay,
                    weight_decay: self.weight_decay,
                    clip: self.clip,
                    ema: self.ema,
                    validations: self.validations,
                    validation_points: self.validation_points,
                    patience: self.patience,
                    checkpoint_seconds: self.checkpoint_seconds,
                }
            }
        }
    };
}

training_of!(TrainChoices, TrainingChoices);
training_of!(TrainSettings, TrainingSettings);
