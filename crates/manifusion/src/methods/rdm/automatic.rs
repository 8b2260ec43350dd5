//! The choices that a user leaves open, made from the manifold and the data; each default is here
//! and nowhere else.

use super::settings::{
    Divergence, Loss, ModelChoices, ModelSettings, Rdm, RdmSettings, TimeProposal, TimesGradient,
    TrainChoices, TrainSettings,
};
use crate::heat_kernel::TransitionKernel;
use crate::manifold::{Family, Manifold};
use crate::methods::Geometry;
use crate::methods::network::{NetChoices, NetFacts, Preset, Scales, smallest_time, training};
use crate::methods::settings::Section;
use crate::mixture::{KernelMixture, ParzenMixture};
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
            optimiser: Some(Optimiser::Adam),
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

/// Makes every open choice, from the manifold and from the kernel mixture of so many training
/// points.
pub(super) fn resolve(
    choices: &Rdm,
    geometry: &Geometry,
    points: usize,
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

    let facts = NetFacts {
        manifold: manifold.as_ref(),
        scales: &scales,
        has_mixture: mixture.is_some(),
        is_regression: kernel_known,
        grids_from: (kernel_known && train.loss != Some(Loss::Implicit)).then_some(0.1),
    };
    let has_grids = facts.has_grids(&net);
    // In many dimensions the mixture is poor, and neighbourhoods are far from round.
    let (usual, stretched) = if manifold.dim() <= 3 { (0.5, 0.0) } else { (0.05, 0.25) };
    let smoothing = train.smoothing.unwrap_or(usual);
    let windows_known = ParzenMixture::supports(manifold.as_ref(), prior.as_ref());
    let is_each_centre = mixture.is_some_and(|mixture| mixture.num_centres() == points);
    let stretch = if windows_known && is_each_centre { stretched } else { 0.0 };
    let model = ModelSettings {
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
        stretch: train.stretch.unwrap_or(stretch),
        divergence,
        probes,
        times: train.times.unwrap_or(TimeProposal::LogUniform),
        times_every: train.times_every.unwrap_or(500),
        times_rate: train.times_rate.unwrap_or(0.01),
        times_gradient: train.times_gradient.unwrap_or(TimesGradient::Unbiased),
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
