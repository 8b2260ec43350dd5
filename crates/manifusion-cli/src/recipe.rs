//! Settings that were left out, chosen from the manifold and the data; and the resolved settings as the library takes them.

use anyhow::{Context, Result, bail};
use manifusion::divergence::{Estimator, ProbeLaw};
use manifusion::heat_kernel::TransitionKernel;
use manifusion::loss::LossKind;
use manifusion::manifold::{Family, LogCoordinates, Manifold};
use manifusion::mixture::KernelMixture;
use manifusion::nn::{Activation, FourierConfig, NetConfig, OutputScale, TimeConditioning};
use manifusion::optim::{AdamConfig, Decay, Schedule};
use manifusion::path::PathChoice;
use manifusion::prior::Prior;
use manifusion::train::{FlowGradient, LearnedTimes, TimeSampling, TrainConfig, TrainError};

use crate::settings::{Divergence, GuideKind, Loss, Method, Settings, TimeLaw, TimesGradient};

/// Bundles of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Preset {
    /// The paper's networks, loss and learned times.
    Paper,
    /// What reaches the best likelihood in a few minutes on a laptop.
    Fast,
}

/// Puts a value where there is none.
fn fill<T>(place: &mut Option<T>, value: T) {
    if place.is_none() {
        *place = Some(value);
    }
}

/// Largest dimension in which a guide is the default: beyond it cells of centres hardly merge and the guide costs more than the network.
const GUIDED_DIM: usize = 3;
/// Smallest time at which a network beside a guide is trained.
const GUIDED_FROM: f64 = 1e-4;

/// Parts of a batch that threads can take; part of the arithmetic, so not a function of the machine.
const LANES: usize = 2;

/// The paper's choices `tab:arch-detail`, `tab:exp-optimization-detail`, where nothing else was asked for.
fn fill_paper(settings: &mut Settings, manifold: &dyn Manifold) {
    let m = manifold.ambient_dim();
    let (net, rate, decay) = match first_kind(manifold) {
        Family::Sphere { .. } => (NetConfig::paper_sphere(m), 2e-4, Decay::Cosine),
        Family::Hyperboloid { .. } => (NetConfig::paper_hyperbolic(m), 5e-4, Decay::Constant),
        Family::Orthogonal { .. } => (NetConfig::paper_orthogonal(m), 1e-3, Decay::Constant),
        _ => (NetConfig::paper_torus(m), 3e-4, Decay::Constant),
    };
    fill(&mut settings.net.depth, net.depth);
    fill(&mut settings.net.width, net.width);
    fill(&mut settings.net.activation, net.activation);
    fill(&mut settings.net.actnorm, net.actnorm);
    fill(&mut settings.net.log_coordinates, false);
    fill(&mut settings.net.time_pairs, 0);
    fill(&mut settings.net.fourier, 0);
    fill(&mut settings.net.inverse_noise, false);
    fill(&mut settings.net.zero_output, false);
    fill(&mut settings.model.guide, GuideKind::None);
    fill(&mut settings.model.prior_score, false);
    let train = &mut settings.train;
    fill(&mut train.loss, Loss::Implicit);
    fill(&mut train.times, TimeLaw::Learned);
    fill(&mut train.rate, rate);
    fill(&mut train.decay, decay);
}

/// The kind that decides for a whole product: that of its first factor.
fn first_kind(manifold: &dyn Manifold) -> Family {
    match manifold.family() {
        Family::Product => {
            manifold.factors().first().map_or(Family::Other, |f| first_kind(f.as_ref()))
        }
        kind => kind,
    }
}

/// The slowest rate at which the noise forgets where it started: half the first eigenvalue of the Laplacian, or the Ornstein–Uhlenbeck rate.
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

/// The length scales of the data, as the leave-one-out likelihood of a kernel mixture sees them: unlike distances between neighbours they do not
/// shrink with the number of points of a smooth density.
struct Scales {
    /// The smallest bandwidth.
    finest: f64,
    /// Below it lies a hundredth of the mass.
    smallest: f64,
    /// Below it lies a tenth of the mass.
    small: f64,
}

impl Scales {
    fn of(mixture: Option<&KernelMixture>) -> Self {
        let Some(mixture) = mixture else { return Self { finest: 0.1, smallest: 0.1, small: 0.1 } };
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
        let finest = mixture.bandwidths().last().copied().unwrap_or(1.0);
        Self { finest, smallest: quantile(0.01), small: quantile(0.1) }
    }
}

/// Chooses what was left out, from the manifold and from the kernel mixture of the training points.
pub(crate) fn resolve(
    settings: &mut Settings,
    preset: Preset,
    manifold: &dyn Manifold,
    prior: &dyn Prior,
    mixture: Option<&KernelMixture>,
) -> Result<()> {
    if preset == Preset::Paper {
        fill_paper(settings, manifold);
    }
    let kernel_known = TransitionKernel::new(manifold, prior).is_ok();
    let scales = Scales::of(mixture);
    fill(&mut settings.model.t_end, 6.0 / forgetting_rate(manifold));
    let guidable = kernel_known
        && mixture.is_some()
        && manifold.dim() <= GUIDED_DIM
        && settings.train.loss != Some(Loss::Implicit);
    fill(&mut settings.model.guide, if guidable { GuideKind::Kernel } else { GuideKind::None });
    let guided = settings.model.guide == Some(GuideKind::Kernel);
    // A guide has the prior's score already.
    fill(&mut settings.model.prior_score, !guided && !prior.is_driftless());
    // A guide is its mixture at s_min, whose smallest bandwidth is √s_min. Otherwise noise of this variance costs d/2 log(1 + s_min/σ²) nats at
    // the smallest scale σ.
    let chosen = if guided {
        scales.finest.powi(2).min(1e-4)
    } else {
        (0.05 * scales.smallest.powi(2)).min(1e-3)
    };
    fill(&mut settings.model.s_min, chosen.max(1e-10));
    let s_min = settings.model.s_min.unwrap_or(1e-5);
    fill(&mut settings.model.s_from, if guided { s_min.max(GUIDED_FROM) } else { s_min });
    let net = &mut settings.net;
    fill(&mut net.depth, 4);
    fill(&mut net.width, 256);
    fill(&mut net.activation, Activation::Swish);
    fill(&mut net.residual, false);
    fill(&mut net.actnorm, !kernel_known);
    fill(&mut net.log_coordinates, LogCoordinates::new(manifold).is_some());
    fill(&mut net.time_pairs, 4);
    // The implicit loss is noisy at high frequencies.
    let highest = if kernel_known { 1e4 } else { 50.0 };
    let f_max = (1.0 / scales.small).clamp(4.0, highest);
    let features = match f_max {
        // On hyperbolic space, where the implicit loss is trained, a few help; elsewhere without the kernel they were not tried.
        _ if !kernel_known && net.log_coordinates == Some(true) => 64,
        _ if mixture.is_none() || !kernel_known => 0,
        f if f < 50.0 => 64,
        f if f < 500.0 => 128,
        _ => 256,
    };
    fill(&mut net.fourier, features);
    fill(&mut net.fourier_max, f_max);
    fill(&mut net.inverse_noise, true);
    fill(&mut net.zero_output, true);
    let train = &mut settings.train;
    fill(&mut train.loss, if kernel_known { Loss::Denoising } else { Loss::Implicit });
    fill(&mut train.divergence, Divergence::Frame);
    fill(&mut train.probes, 1);
    fill(&mut train.times, TimeLaw::LogUniform);
    fill(&mut train.times_every, 500);
    fill(&mut train.times_rate, 0.01);
    fill(&mut train.times_gradient, TimesGradient::Unbiased);
    fill(&mut train.noise_steps, 0);
    fill(&mut train.batch, 512);
    fill(&mut train.rate, 1e-3);
    fill(&mut train.decay, Decay::Cosine);
    fill(&mut train.weight_decay, 0.0);
    fill(&mut train.clip, 10.0);
    fill(&mut train.ema, 0.999);
    fill(&mut train.validations, 20);
    let validations = train.validations.unwrap_or(20);
    fill(&mut train.validation_points, 500);
    // Beside a guide the network's gain comes late, and it hardly overfits.
    fill(&mut train.patience, if guided { validations.div_ceil(2).max(8) } else { 8 });
    fill(&mut train.checkpoint_seconds, 20.0);
    if train.steps.is_none() {
        fill(&mut train.minutes, 5.0);
    }
    check(settings)
}

/// An error for settings that no run could have.
pub(crate) fn check(settings: &Settings) -> Result<()> {
    let train = &settings.train;
    if settings.model.guide == Some(GuideKind::Kernel) && train.loss == Some(Loss::Implicit) {
        return Err(TrainError::GuideNeedsDenoising.into());
    }
    if settings.method == Method::Rdm && settings.model.local_weights.is_some() {
        bail!(
            "model.local_weights is a setting of --method kernel; a mixture that guides a network has local weights always"
        );
    }
    if let Some(minutes) = train.minutes
        && !(minutes > 0.0 && minutes.is_finite())
    {
        bail!("train.minutes = {minutes} is not allowed; a number above 0");
    }
    for (name, value) in [
        ("train.steps", train.steps),
        ("train.validations", train.validations),
        ("train.batch", train.batch.map(|b| b as u64)),
    ] {
        if value == Some(0) {
            bail!("{name} = 0 is not allowed; at least 1");
        }
    }
    if train.batch.is_some_and(|batch| batch > 1 << 20) {
        bail!("train.batch = {} is not allowed; at most {}", train.batch.unwrap_or(0), 1 << 20);
    }
    Ok(())
}

/// Sorted distances, in the ambient space, from up to 1000 points to the nearest place that is not their own.
pub(crate) fn nearest_distances(manifold: &dyn Manifold, points: &[f64]) -> Vec<f64> {
    const QUERIES: usize = 1000;
    let m = manifold.ambient_dim();
    let n = points.len() / m;
    let stride = n.div_ceil(QUERIES).max(1);
    let nearest = |x: &[f64]| {
        points
            .chunks_exact(m)
            .map(|y| x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>())
            .filter(|square| *square > 1e-24)
            .fold(f64::INFINITY, f64::min)
            .sqrt()
    };
    let mut found: Vec<f64> =
        points.chunks_exact(m).step_by(stride).map(nearest).filter(|d| d.is_finite()).collect();
    found.sort_by(f64::total_cmp);
    found
}

/// Resolved settings as the library takes them.
pub(crate) fn train_config(settings: &Settings, m: usize) -> Result<TrainConfig> {
    let need = |name: &'static str| move || format!("the run's configuration has no {name}");
    let (net, train) = (&settings.net, &settings.train);
    let s_min = settings.model.s_min.with_context(need("model.s_min"))?;
    let s_from = settings.model.s_from.with_context(need("model.s_from"))?;
    let t_end = settings.model.t_end.with_context(need("model.t_end"))?;
    let features = net.fourier.with_context(need("net.fourier"))?;
    let f_max = net.fourier_max.unwrap_or(1.0);
    let pairs = net.time_pairs.with_context(need("net.time_pairs"))?;
    let scaled = net.inverse_noise.with_context(need("net.inverse_noise"))?;
    let net = NetConfig {
        ambient_dim: m,
        depth: net.depth.with_context(need("net.depth"))?,
        width: net.width.with_context(need("net.width"))?,
        activation: net.activation.with_context(need("net.activation"))?,
        residual: net.residual.unwrap_or(false),
        actnorm: net.actnorm.unwrap_or(false),
        time: match pairs {
            0 => TimeConditioning::Concat,
            pairs => TimeConditioning::LogSines { pairs, s_min: s_from, t_end },
        },
        fourier: (features > 0).then_some(FourierConfig { features, f_max }),
        output_scale: if scaled { OutputScale::InverseNoise } else { OutputScale::One },
        zero_output: net.zero_output.unwrap_or(false),
    };
    if net.depth > 64 || net.width > 1 << 14 {
        bail!(
            "net.depth = {} and net.width = {} are too large; at most 64 and 16384",
            net.depth,
            net.width
        );
    }
    let steps = train.steps.with_context(need("train.steps"))?;
    let probes = train.probes.unwrap_or(1);
    let estimator = match train.divergence.unwrap_or(Divergence::Frame) {
        Divergence::Frame => Estimator::Frame,
        Divergence::RandomFrame => Estimator::RandomFrame,
        Divergence::Hutchinson => Estimator::Hutchinson { probes, law: ProbeLaw::Rademacher },
        Divergence::HutchinsonGaussian => Estimator::Hutchinson { probes, law: ProbeLaw::Gaussian },
        Divergence::ClosestPoint => Estimator::ClosestPoint,
        Divergence::Intrinsic => Estimator::Intrinsic,
    };
    let learned = LearnedTimes {
        rate: train.times_rate.unwrap_or(0.01),
        every: train.times_every.unwrap_or(500),
        gradient: match train.times_gradient {
            Some(TimesGradient::Reparameterised) => FlowGradient::Reparameterised,
            _ => FlowGradient::Unbiased,
        },
        ..LearnedTimes::default()
    };
    Ok(TrainConfig {
        net,
        loss: match train.loss.with_context(need("train.loss"))? {
            Loss::Implicit => LossKind::Implicit(estimator),
            Loss::Denoising => LossKind::Denoising,
        },
        path: match train.noise_steps.unwrap_or(0) {
            0 => PathChoice::Auto,
            steps => PathChoice::Heun { steps },
        },
        times: match train.times.with_context(need("train.times"))? {
            TimeLaw::Uniform => TimeSampling::Uniform,
            TimeLaw::LogUniform => TimeSampling::LogUniform,
            TimeLaw::Learned => TimeSampling::Learned(learned),
        },
        s_min,
        s_from,
        t_end,
        log_coordinates: settings.net.log_coordinates.unwrap_or(false),
        prior_score: settings.model.prior_score.unwrap_or(false),
        batch: train.batch.with_context(need("train.batch"))?,
        schedule: Schedule {
            base: train.rate.with_context(need("train.rate"))?,
            warmup: train.warmup.unwrap_or((steps / 50).min(500)),
            decay: train.decay.unwrap_or(Decay::Cosine),
            total: steps,
            floor: 0.0,
        },
        adam: AdamConfig {
            weight_decay: train.weight_decay.unwrap_or(0.0),
            ..AdamConfig::default()
        },
        clip: train.clip.with_context(need("train.clip"))?,
        ema: train.ema.with_context(need("train.ema"))?,
        seed: settings.seed,
        lanes: LANES,
    })
}
