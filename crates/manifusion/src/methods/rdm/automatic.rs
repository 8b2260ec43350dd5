//! The choices that a user leaves open, made from the manifold and the data; each default is here
//! and nowhere else.

use super::settings::{
    Divergence, Loss, ModelChoices, ModelSettings, Noise, Rdm, RdmSettings, TimeProposal,
    TimesGradient, TimesScale, TrainChoices, TrainSettings,
};
use crate::heat_kernel::TransitionKernel;
use crate::manifold::{Family, Manifold};
use crate::methods::Geometry;
use crate::methods::network::{NetChoices, NetFacts, Preset, Scales, smallest_time, training};
use crate::methods::settings::Section;
use crate::mixture::KernelMixture;
use crate::nn::NetConfig;
use crate::optim::{Decay, Optimiser};

/// The paper's choices `tab:arch-detail`, `tab:exp-optimization-detail`.
fn paper(manifold: &dyn Manifold) -> Rdm {
    let m = manifold.ambient_dim();
    let (net, rate, decay) = match first_family(manifold) {
        Family::Sphere { .. } => (NetConfig::paper_sphere(m), 2e-4, Decay::Cosine),
        Family::Hyperboloid { .. } => (NetConfig::paper_hyperbolic(m), 5e-4, Decay::Constant),
        Family::Orthogonal { .. } => (NetConfig::paper_orthogonal(m), 1e-3, Decay::Constant),
        _ => (NetConfig::paper_torus(m), 3e-4, Decay::Constant),
    };
    Rdm {
        preset: Some(Preset::Paper),
        model: ModelChoices { prior_score: Some(false), ..ModelChoices::default() },
        net: NetChoices {
            depth: Some(net.depth),
            width: Some(net.width),
            activation: Some(net.activation),
            actnorm: Some(net.actnorm),
            log_coordinates: Some(false),
            time_pairs: Some(0),
            fourier: Some(0),
            grid_levels: Some(0),
            inverse_noise: Some(false),
            zero_output: Some(false),
            ..NetChoices::default()
        },
        train: TrainChoices {
            loss: Some(Loss::Implicit),
            smoothing: Some(0.0),
            stretch: Some(0.0),
            times: Some(TimeProposal::Learned),
            times_scale: Some(TimesScale::Linear),
            optimiser: Some(Optimiser::Adam),
            rate: Some(rate),
            decay: Some(decay),
            ..TrainChoices::default()
        },
    }
}

/// Smoothing and stretch of a network in up to three dimensions that is limited by overfitting.
const AGAINST_OVERFITTING: (f64, f64) = (1.0, 0.5);
/// The same of one that is limited by what it resolves.
const FOR_RESOLUTION: (f64, f64) = (0.5, 0.0);

/// Whether a network is limited by overfitting, and not by what it resolves in minutes: data
/// without fine detail, and such whose detail is hardly in repeated or isolated places (the round
/// kernels of the Parzen windows have little of the weight).
fn is_limited_by_overfitting(scales: &Scales, has_grids: bool, round_weight: f64) -> bool {
    const DETAIL: f64 = 2e-3;
    const LITTLE: f64 = 0.1;
    (!has_grids && scales.small > DETAIL) || round_weight < LITTLE
}

impl Rdm {
    /// Whether smoothing or stretch is left open.
    pub(super) fn is_smoothing_open(&self) -> bool {
        let given = self.train.smoothing.is_some() && self.train.stretch.is_some();
        !given && self.preset != Some(Preset::Paper)
    }

    /// What noises the data of a manifold. What only Brownian motion has decides for it.
    pub(super) fn noise_on(&self, manifold: &dyn Manifold) -> Noise {
        let is_brownian = self.preset == Some(Preset::Paper)
            || self.train.loss == Some(Loss::Implicit)
            || !matches!(manifold.family(), Family::Hyperboloid { .. });
        let usual = if is_brownian { Noise::Brownian } else { Noise::NormalCoordinates };
        self.model.noise.unwrap_or(usual)
    }
}

/// The family that decides for a whole product: that of its first factor.
fn first_family(manifold: &dyn Manifold) -> Family {
    match manifold.family() {
        Family::Product => {
            manifold.factors().first().map_or(Family::Other, |f| first_family(f.as_ref()))
        }
        family => family,
    }
}

/// The slowest rate at which the noise forgets where it started: half the first eigenvalue of the
/// Laplacian, or the Ornstein–Uhlenbeck rate.
pub(in crate::methods) fn forgetting_rate(manifold: &dyn Manifold) -> f64 {
    match manifold.family() {
        Family::Sphere { dim } => 0.5 * dim as f64,
        Family::Product => manifold
            .factors()
            .iter()
            .map(|factor| forgetting_rate(factor.as_ref()))
            .fold(f64::INFINITY, f64::min),
        _ => 0.5,
    }
}

/// Makes every open choice, from the manifold that is noised, from the kernel mixture of the
/// training points, and from the weight of the round kernels in their Parzen windows, where they
/// have such.
pub(super) fn resolve(
    choices: &Rdm,
    noise: Noise,
    geometry: &Geometry,
    mixture: Option<&KernelMixture>,
    round_weight: Option<f64>,
) -> RdmSettings {
    let Geometry { manifold, prior } = geometry;
    let preset = choices.preset.unwrap_or(Preset::Fast);
    let mut choices = choices.clone();
    if preset == Preset::Paper {
        let paper = paper(manifold.as_ref());
        choices.model = choices.model.or(paper.model);
        choices.net = choices.net.or(paper.net);
        choices.train = choices.train.or(paper.train);
    }
    let Rdm { model, net, train, .. } = choices;
    let kernel_known = TransitionKernel::new(manifold.as_ref(), prior.as_ref()).is_ok();
    let scales = Scales::of(mixture);

    let facts = NetFacts {
        manifold: manifold.as_ref(),
        scales: &scales,
        has_mixture: mixture.is_some(),
        is_regression: kernel_known,
        grids_from: (kernel_known && train.loss != Some(Loss::Implicit)).then_some(0.1),
    };
    let has_grids = facts.has_grids(&net);
    let (usual, stretched) = match manifold.dim() {
        // In many dimensions the mixture is poor, and neighbourhoods are far from round.
        4.. => (0.05, 0.25),
        _ if round_weight
            .is_some_and(|round| is_limited_by_overfitting(&scales, has_grids, round)) =>
        {
            AGAINST_OVERFITTING
        }
        _ => FOR_RESOLUTION,
    };
    let smoothing = train.smoothing.unwrap_or(usual);
    let is_stretched = round_weight.is_some() && smoothing > 0.0;
    let stretch = train.stretch.unwrap_or(if is_stretched { stretched } else { 0.0 });
    let model = ModelSettings {
        noise,
        prior_score: model.prior_score.unwrap_or(!prior.is_driftless()),
        s_min: model.s_min.unwrap_or(smallest_time(&scales, smoothing)),
        t_end: model.t_end.unwrap_or(6.0 / forgetting_rate(manifold.as_ref())),
    };

    // In few dimensions a narrow network learns as much in the same time as a wide one, and is used
    // in a third of its time.
    let is_narrow = kernel_known && mixture.is_some() && manifold.dim() <= 3;
    let width = net.width.or(is_narrow.then_some(128));
    let net = facts.resolve(&NetChoices { width, ..net });

    let loss = if kernel_known { Loss::Denoising } else { Loss::Implicit };
    let loss = train.loss.unwrap_or(loss);
    let probes = train.probes.unwrap_or(1);
    let divergence = train.divergence.unwrap_or(Divergence::Frame);
    let rate = if has_grids { 3e-3 } else { 2e-3 };
    let training = training(&train.training(), Optimiser::Soap, rate);
    let train = TrainSettings {
        loss,
        smoothing,
        stretch,
        divergence,
        probes,
        times: train.times.unwrap_or(TimeProposal::LogUniform),
        times_every: train.times_every.unwrap_or(500),
        times_rate: train.times_rate.unwrap_or(0.01),
        times_gradient: train.times_gradient.unwrap_or(TimesGradient::Unbiased),
        times_scale: train.times_scale.unwrap_or(TimesScale::Log),
        noise_steps: train.noise_steps.unwrap_or(0),
        batch: training.batch,
        partitions: training.partitions,
        steps: training.steps,
        minutes: training.minutes,
        optimiser: training.optimiser,
        rate: training.rate,
        warmup: training.warmup,
        decay: training.decay,
        weight_decay: training.weight_decay,
        clip: training.clip,
        ema: training.ema,
        validations: training.validations,
        validation_points: training.validation_points,
        patience: training.patience,
        checkpoint_seconds: training.checkpoint_seconds,
    };
    RdmSettings { preset, model, net, train }
}
