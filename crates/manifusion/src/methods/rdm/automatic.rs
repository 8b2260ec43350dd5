//! The choices that a user leaves open, made from the manifold and the data; each default is here
//! and nowhere else.

use super::settings::{
    Divergence, Loss, ModelChoices, ModelSettings, NetChoices, NetSettings, Preset, Rdm,
    RdmSettings, TimeProposal, TimesGradient, TrainChoices, TrainSettings,
};
use crate::heat_kernel::TransitionKernel;
use crate::manifold::{Family, LogCoordinates, Manifold};
use crate::methods::Geometry;
use crate::mixture::KernelMixture;
use crate::nn::{Activation, GRID_DIM, NetConfig};
use crate::optim::Decay;

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
            times: Some(TimeProposal::Learned),
            rate: Some(rate),
            decay: Some(decay),
            ..TrainChoices::default()
        },
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
fn forgetting_rate(manifold: &dyn Manifold) -> f64 {
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

/// The length scales of the data, as the leave-one-out likelihood of a kernel mixture sees them:
/// unlike distances between neighbours they do not shrink with the number of points of a smooth
/// density.
struct Scales {
    /// Below it lies a hundredth of the mass.
    smallest: f64,
    /// Below it lies a tenth of the mass.
    small: f64,
    /// The mass at bandwidths that a network without grids does not resolve in minutes.
    fine_share: f64,
}

/// A network has grids if this share of the mass is at bandwidths below this one.
const FINE: f64 = 1.5e-3;
const FINE_SHARE: f64 = 0.3;
/// Grids and their tables.
const GRID_LEVELS: usize = 14;
const GRID_ENTRIES: u32 = 16;

impl Scales {
    fn of(mixture: Option<&KernelMixture>) -> Self {
        let Some(mixture) = mixture else {
            return Self { smallest: 0.1, small: 0.1, fine_share: 0.0 };
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
        Self { smallest: quantile(0.01), small: quantile(0.1), fine_share }
    }
}

/// Steps that settings have before a budget of minutes is turned into steps.
pub(super) const UNPLANNED: u64 = 1_000_000;

/// Steps in which the rate of a run of so many steps rises.
pub(super) fn warmup(steps: u64) -> u64 {
    (steps / 50).min(500)
}

/// Gradient partitions of a batch with so many values and tangents. Matrix products of fewer than
/// some 256 rows lose what more threads gain: in eight partitions a denoising step of 512 rows
/// takes a quarter longer on two cores.
fn partitions(stacked_rows: usize) -> usize {
    match stacked_rows / 256 {
        0..4 => 2,
        4..8 => 4,
        _ => 8,
    }
}

/// Makes every open choice, from the manifold and from the kernel mixture of the training points.
pub(super) fn resolve(
    choices: &Rdm,
    geometry: &Geometry,
    mixture: Option<&KernelMixture>,
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

    let has_grids = net.grid_levels.map_or_else(
        || {
            kernel_known
                && manifold.ambient_dim() <= GRID_DIM
                && scales.fine_share > FINE_SHARE
                && train.loss != Some(Loss::Implicit)
        },
        |levels| levels > 0,
    );
    // A network with grids can follow any detail, and must not be given that of the points.
    let usual = match (has_grids, manifold.dim()) {
        (true, _) => 1.0,
        (false, 0..=3) => 0.25,
        (false, _) => 0.05,
    };
    let smoothing = train.smoothing.unwrap_or(usual);
    // Noise of this variance costs d/2 log(1 + s_min/σ²) nats at the smallest scale σ; smoothing
    // allows for it.
    let finest = ((0.5 * smoothing).max(0.05) * scales.smallest.powi(2)).min(1e-3);
    let model = ModelSettings {
        prior_score: model.prior_score.unwrap_or(!prior.is_driftless()),
        s_min: model.s_min.unwrap_or(finest.max(1e-10)),
        t_end: model.t_end.unwrap_or(6.0 / forgetting_rate(manifold.as_ref())),
    };

    let log_coordinates =
        net.log_coordinates.unwrap_or(LogCoordinates::new(manifold.as_ref()).is_some());
    // The implicit loss is noisy at high frequencies.
    let highest = if kernel_known { 1e4 } else { 50.0 };
    let fourier_max = if has_grids { 8.0 } else { (1.0 / scales.small).clamp(4.0, highest) };
    let features = match fourier_max {
        _ if has_grids => 16,
        // On hyperbolic space, where the implicit loss is trained, a few help; elsewhere without
        // the kernel they were not tried.
        _ if !kernel_known && log_coordinates => 64,
        _ if mixture.is_none() || !kernel_known => 0,
        f if f < 50.0 => 64,
        f if f < 500.0 => 128,
        _ => 256,
    };
    let net = NetSettings {
        depth: net.depth.unwrap_or(if has_grids { 3 } else { 4 }),
        width: net.width.unwrap_or(256),
        activation: net.activation.unwrap_or(Activation::Swish),
        residual: net.residual.unwrap_or(false),
        actnorm: net.actnorm.unwrap_or(!kernel_known),
        log_coordinates,
        time_pairs: net.time_pairs.unwrap_or(4),
        fourier: net.fourier.unwrap_or(features),
        fourier_max: net.fourier_max.unwrap_or(fourier_max),
        grid_levels: net.grid_levels.unwrap_or(if has_grids { GRID_LEVELS } else { 0 }),
        grid_max: net.grid_max.unwrap_or(1.0 / scales.smallest),
        grid_entries: net.grid_entries.unwrap_or(GRID_ENTRIES),
        inverse_noise: net.inverse_noise.unwrap_or(true),
        zero_output: net.zero_output.unwrap_or(true),
    };

    let loss = if kernel_known { Loss::Denoising } else { Loss::Implicit };
    let loss = train.loss.unwrap_or(loss);
    let (batch, probes) = (train.batch.unwrap_or(512), train.probes.unwrap_or(1));
    let divergence = train.divergence.unwrap_or(Divergence::Frame);
    let tangents = match (loss, divergence) {
        (Loss::Denoising, _) => 0,
        (Loss::Implicit, Divergence::Hutchinson | Divergence::HutchinsonGaussian) => probes,
        (Loss::Implicit, _) => manifold.dim(),
    };
    let validations = train.validations.unwrap_or(20);
    // Steps that are given count; the minutes beside them are those of the run that found them.
    let (steps, minutes) = match train.steps {
        Some(steps) => (steps, 0.0),
        None => (UNPLANNED, train.minutes.unwrap_or(5.0)),
    };
    let train = TrainSettings {
        loss,
        smoothing,
        divergence,
        probes,
        times: train.times.unwrap_or(TimeProposal::LogUniform),
        times_every: train.times_every.unwrap_or(500),
        times_rate: train.times_rate.unwrap_or(0.01),
        times_gradient: train.times_gradient.unwrap_or(TimesGradient::Unbiased),
        noise_steps: train.noise_steps.unwrap_or(0),
        batch,
        partitions: train.partitions.unwrap_or(partitions(batch * (1 + tangents))),
        steps,
        minutes,
        rate: train.rate.unwrap_or(if has_grids { 3e-3 } else { 2e-3 }),
        warmup: train.warmup.unwrap_or(warmup(steps)),
        decay: train.decay.unwrap_or(Decay::Cosine),
        weight_decay: train.weight_decay.unwrap_or(0.0),
        clip: train.clip.unwrap_or(10.0),
        ema: train.ema.unwrap_or(0.999),
        validations,
        validation_points: train.validation_points.unwrap_or(500),
        patience: train.patience.unwrap_or(8),
        checkpoint_seconds: train.checkpoint_seconds.unwrap_or(20.0),
    };
    RdmSettings { preset, model, net, train }
}
