//! Training end to end: both losses have the gradient of the same bound, runs are reproducible, and
//! a short run learns a known density.

use std::sync::Arc;

use crate::common::mean_se;
use manifusion::checkpoint::{Arrays, Checkpoint};
use manifusion::data::Synthetic;
use manifusion::density::Density;
use manifusion::divergence::{Estimator, ProbeLaw};
use manifusion::flow_density::FlowOptions;
use manifusion::likelihood::log_density;
use manifusion::loss::LossKind;
use manifusion::manifold::parse;
use manifusion::mixture::{KernelMixture, MixtureOptions, ParzenMixture, ParzenOptions};
use manifusion::nn::{Activation, Mlp, NetConfig, OutputScale, TimeConditioning};
use manifusion::ode::OdeOptions;
use manifusion::optim::{AdamConfig, Decay, Optimiser, Schedule};
use manifusion::path::PathChoice;
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::Rows;
use manifusion::time::FlowConfig;
use manifusion::train::{
    FlowGradient, LearnedTimes, SmoothingTimes, Stretch, TimeSampling, TrainConfig, TrainError,
    Trainer, Weighting,
};

fn config(m: usize, t_end: f64, loss: LossKind, steps: u64) -> TrainConfig {
    let s_min = 1e-3;
    let net = NetConfig {
        ambient_dim: m,
        depth: 3,
        width: 64,
        activation: Activation::Swish,
        time: TimeConditioning::LogSines { pairs: 4, s_min, t_end },
        output_scale: OutputScale::InverseNoise,
        zero_output: true,
        ..NetConfig::default()
    };
    TrainConfig {
        net,
        loss,
        path: PathChoice::Auto,
        times: TimeSampling::LogUniform,
        weighting: Weighting::Bound,
        generators: false,
        s_min,
        log_coordinates: false,
        prior_score: true,
        t_end,
        batch: 256,
        schedule: Schedule {
            base: 2e-3,
            warmup: 50,
            decay: Decay::Cosine,
            total: steps,
            floor: 0.0,
        },
        optimiser: Optimiser::Soap,
        adam: AdamConfig::default(),
        clip: 10.0,
        ema: 0.98,
        seed: 1,
        partitions: 2,
    }
}

fn nll(trainer: &Trainer, x: &[f64], m: usize) -> f64 {
    let ode = OdeOptions { rtol: 1e-4, atol: 1e-4, ..OdeOptions::default() };
    let options = FlowOptions { ode, ..FlowOptions::default() };
    let found = log_density(&trainer.model().unwrap(), Rows::new(x, m).unwrap(), &options).unwrap();
    -found.log_p.iter().sum::<f64>() / found.log_p.len() as f64
}

/// On every kind of loss a short run comes most of the way from the prior to the entropy of the
/// data.
#[test]
fn short_runs_learn() {
    let hutchinson = Estimator::Hutchinson { probes: 1, law: ProbeLaw::Rademacher };
    for (name, t_end, loss, steps) in [
        ("sphere-mixture", 6.0, LossKind::Denoising, 2500),
        ("sphere-mixture", 6.0, LossKind::Implicit(Estimator::Frame), 2500),
        ("torus-mixture", 15.0, LossKind::Implicit(hutchinson), 2500),
        ("so3-modes", 12.0, LossKind::Denoising, 2500),
        ("hyperbolic-wrapped", 12.0, LossKind::Implicit(Estimator::Frame), 800),
        ("hyperbolic-mixture", 12.0, LossKind::Implicit(Estimator::Frame), 800),
        ("plane-moons", 12.0, LossKind::Denoising, 2500),
    ] {
        let mut set = Synthetic::new(name).unwrap();
        if name == "hyperbolic-wrapped" {
            set = set.on(&parse("hyperbolic:2").unwrap()).unwrap();
        }
        let manifold = Arc::clone(set.manifold());
        let m = manifold.ambient_dim();
        let prior = default_prior(&manifold).unwrap();
        let mut config = config(m, t_end, loss, steps);
        config.net.actnorm = name == "hyperbolic-wrapped";
        config.log_coordinates = name == "hyperbolic-mixture";
        let mut trainer =
            Trainer::new(manifold, Arc::clone(&prior), set.sample(5000, 1).unwrap(), config)
                .unwrap();
        for _ in 0..steps {
            trainer.step().unwrap();
        }
        let test = set.sample(200, 2).unwrap();
        let found = nll(&trainer, &test, m);
        let (entropy, _) = mean_se(test.chunks_exact(m).map(|x| -set.log_density(x)));
        let (baseline, _) = mean_se(test.chunks_exact(m).map(|x| -prior.log_density(x)));
        assert!(
            found < entropy + 0.4 * (baseline - entropy),
            "{name}: {found}, {entropy} to {baseline}"
        );
        assert!(found > entropy - 0.1, "{name}: {found} is better than the truth, {entropy}");
    }
}

/// Data that are distributed as the prior have the prior's score: a network of zeros beside it is
/// the model already, and the bound's integrand ½|2U₀|² + ∇·U₀ has mean zero, since E ∇·U₀ =
/// −2E|U₀|². Without that score the integrand is −∇·U₀.
#[test]
fn the_priors_score_leaves_nothing_to_learn() {
    for spec in ["hyperbolic:2", "hyperbolic:3,K=-0.5,metric=lorentz", "euclidean:2"] {
        let manifold = parse(spec).unwrap();
        let prior = default_prior(&manifold).unwrap();
        let m = manifold.ambient_dim();
        let mut data = vec![0.0; 4000 * m];
        for (i, x) in data.chunks_exact_mut(m).enumerate() {
            prior.sample(&mut Streams::new(4, "prior").stream(i as u64, 0), x).unwrap();
        }
        let first_loss = |prior_score: bool| {
            let mut config = config(m, 3.0, LossKind::Implicit(Estimator::Frame), 10);
            config.batch = 4000;
            config.s_min = 0.1;
            config.net.zero_output = true;
            config.prior_score = prior_score;
            let (manifold, prior) = (Arc::clone(&manifold), Arc::clone(&prior));
            let report = Trainer::new(manifold, prior, data.clone(), config).unwrap().step();
            let report = report.unwrap();
            (report.loss, (report.times.variance / 4000.0).sqrt())
        };
        let (with, se) = first_loss(true);
        // Rows are drawn with replacement from 4000 points: both draws count.
        assert!(with.abs() < 6.0 * se, "{spec}: {with} ± {se}");
        let (without, se) = first_loss(false);
        assert!(without > 10.0 * se, "{spec}: {without} ± {se}");
    }
}

/// The same seed gives the same bits, on one thread and on two.
#[test]
fn runs_are_reproducible() {
    let set = Synthetic::new("sphere-mixture").unwrap();
    let run = |threads: usize, optimiser: Optimiser| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let prior = default_prior(set.manifold()).unwrap();
            let data = set.sample(500, 1).unwrap();
            let mut config = config(3, 6.0, LossKind::Denoising, 20);
            config.optimiser = optimiser;
            let mut trainer =
                Trainer::new(Arc::clone(set.manifold()), prior, data, config).unwrap();
            (0..20).map(|_| trainer.step().unwrap().loss.to_bits()).collect::<Vec<_>>()
        })
    };
    for optimiser in [Optimiser::Adam, Optimiser::Soap] {
        assert_eq!(run(1, optimiser), run(2, optimiser), "{optimiser:?}");
    }
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let build = |spec: &str, data: Vec<f64>, loss| {
        let manifold = parse(spec).unwrap();
        let prior = default_prior(&manifold).unwrap();
        let config = config(manifold.ambient_dim(), 6.0, loss, 10);
        Trainer::new(manifold, prior, data, config).err().unwrap()
    };
    let error = build("hyperbolic:2", vec![1.0, 0.0, 0.0], LossKind::Denoising);
    assert_eq!(
        error.to_string(),
        "the transition kernel is not known on hyperbolic:2; use the implicit loss"
    );
    let error = build("sphere:2", vec![1.0, 1.0, 0.0], LossKind::Denoising);
    assert!(matches!(error, TrainError::Solve(_)), "{error}");
    let error = build("sphere:2", vec![], LossKind::Denoising);
    assert_eq!(error.to_string(), "the batch is empty");
    let error =
        build("hyperbolic:2", vec![1.0, 0.0, 0.0], LossKind::Implicit(Estimator::ClosestPoint));
    assert!(
        error.to_string().starts_with("the closest-point divergence is not known on hyperbolic:2"),
        "{error}"
    );
}

fn small_trainer(times: TimeSampling, loss: LossKind, optimiser: Optimiser) -> Trainer {
    let set = Synthetic::new("sphere-mixture").unwrap();
    let prior = default_prior(set.manifold()).unwrap();
    let mut config = config(3, 6.0, loss, 600);
    config.net.actnorm = true;
    config.net.width = 16;
    config.batch = 128;
    config.times = times;
    config.optimiser = optimiser;
    Trainer::new(Arc::clone(set.manifold()), prior, set.sample(500, 1).unwrap(), config).unwrap()
}

/// A run that is stopped, written, read and continued ends in the same bits as one that is not, the
/// learned proposal included.
#[test]
fn a_restored_run_goes_on_in_the_same_bits() {
    for (gradient, optimiser) in [
        (FlowGradient::Unbiased, Optimiser::Adam),
        (FlowGradient::Reparameterised, Optimiser::Soap),
    ] {
        let learned = LearnedTimes { every: 7, gradient, ..LearnedTimes::default() };
        let times = TimeSampling::Learned(learned);
        let loss = LossKind::Implicit(Estimator::Frame);
        let mut whole = small_trainer(times, loss, optimiser);
        for _ in 0..40 {
            whole.step().unwrap();
        }
        let mut first = small_trainer(times, loss, optimiser);
        for _ in 0..19 {
            first.step().unwrap();
        }
        let mut own = Arrays::default();
        own.values.insert("note".into(), "mine".into());
        let bytes = first.checkpoint(own.clone()).to_bytes().unwrap();
        let mut second = small_trainer(times, loss, optimiser);
        let back = second.restore(Checkpoint::from_bytes(&bytes).unwrap()).unwrap();
        assert_eq!(back, own);
        for _ in 19..40 {
            second.step().unwrap();
        }
        let end = |trainer: &Trainer| trainer.checkpoint(Arrays::default()).to_bytes().unwrap();
        assert!(end(&whole) == end(&second), "{gradient:?}");
    }
    let mut other = small_trainer(TimeSampling::LogUniform, LossKind::Denoising, Optimiser::Adam);
    let mut config = other.config().clone();
    config.net.width = 8;
    let net = Mlp::new(config.net, 0).unwrap();
    let error = other.restore(Checkpoint::new(net)).unwrap_err();
    assert_eq!(error.to_string(), "the checkpoint's network differs from the run's configuration");
}

/// Both gradients of the flow lower the second moment of the estimator well below that of uniform
/// times.
#[test]
fn learned_times_lower_the_second_moment() {
    for gradient in [FlowGradient::Unbiased, FlowGradient::Reparameterised] {
        let flow = FlowConfig::default();
        let learned = LearnedTimes { flow, rate: 0.05, every: 1, gradient };
        let mut trainer = small_trainer(
            TimeSampling::Learned(learned),
            LossKind::Implicit(Estimator::Frame),
            Optimiser::Adam,
        );
        let mut ratio = 0.0;
        for step in 0..600 {
            let report = trainer.step().unwrap().times;
            if step >= 500 {
                ratio += report.second_moment / report.second_moment_uniform / 100.0;
            }
        }
        assert!(ratio < 0.3, "{gradient:?}: {ratio}");
    }
}

/// A loss that is not finite changes no weight and is counted; if it stays so, the run ends with
/// row and time.
#[test]
fn losses_that_are_not_finite_stop_the_run() {
    let set = Synthetic::new("sphere-mixture").unwrap();
    let prior = default_prior(set.manifold()).unwrap();
    let mut config = config(3, 6.0, LossKind::Denoising, 10);
    config.schedule =
        Schedule { base: 1e30, warmup: 0, decay: Decay::Constant, total: 10, floor: 0.0 };
    config.clip = f64::MAX;
    let data = set.sample(50, 1).unwrap();
    let mut trainer = Trainer::new(Arc::clone(set.manifold()), prior, data, config).unwrap();
    let mut skipped = 0;
    let error = loop {
        match trainer.step() {
            Ok(report) => skipped = report.skipped,
            Err(error) => break error,
        }
        assert!(trainer.steps_done() < 100, "the run never stopped");
    };
    assert_eq!(skipped, 19);
    let TrainError::NotFinite { times, data_row, s, .. } = error else { panic!("{error}") };
    assert!(times == 20 && data_row < 50 && s > 0.0);
}

/// Rows that overflow single precision, among others that do not.
fn trainer_with_far_rows(far: usize, rows: usize) -> Trainer {
    let manifold = parse("euclidean:2").unwrap();
    let prior = default_prior(&manifold).unwrap();
    let row = |i: usize| if i < far { [1e300, 0.0] } else { [0.1 * i as f64, 1.0] };
    let data: Vec<f64> = (0..rows).flat_map(row).collect();
    let mut config = config(2, 6.0, LossKind::Denoising, 100);
    (config.batch, config.net.width, config.ema) = (2, 16, 0.5);
    Trainer::new(manifold, prior, data, config).unwrap()
}

/// A batch whose loss is not finite is left out like one whose gradient is not, and the run goes
/// on.
#[test]
fn a_loss_that_is_not_finite_now_and_then_is_skipped() {
    let mut trainer = trainer_with_far_rows(1, 4);
    let (mut skipped, mut learned) = (0, 0);
    for _ in 0..60 {
        let before = trainer.averaged_weights().to_vec();
        let report = trainer.step().unwrap();
        if report.loss.is_finite() {
            learned += 1;
            assert_ne!(trainer.averaged_weights(), before);
        } else {
            skipped += 1;
            assert_eq!(trainer.averaged_weights(), before, "weights moved at a step left out");
        }
        assert_eq!(report.skipped, skipped);
    }
    // Two draws of four rows meet the far one with probability 7/16.
    assert!(skipped > 10 && learned > 10, "{skipped} skipped, {learned} learned");
}

/// If every batch is so, the run ends after twenty of them, and the error names the row at fault.
#[test]
fn losses_that_stay_not_finite_name_their_row() {
    let mut trainer = trainer_with_far_rows(4, 4);
    let error = (0..20).find_map(|_| trainer.step().err()).unwrap();
    let TrainError::NotFinite { quantity, times, row, data_row, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((quantity, times), ("loss", 20));
    assert!(row < 2 && data_row < 4);
    assert_eq!(trainer.steps_done(), 19);
}

/// Points along a curve on T², with the windows that follow it.
fn along_a_curve() -> (Vec<f64>, Arc<KernelMixture>, Arc<ParzenMixture>) {
    let streams = Streams::new(5, "curve");
    let point = |i: u64| {
        let mut stream = streams.stream(i, 0);
        let t = std::f64::consts::TAU * stream.uniform();
        [t, t.sin() + 0.05 * stream.normal()]
    };
    let x: Vec<f64> = (0..150).flat_map(point).flat_map(|a| [a.cos(), a.sin()]).collect();
    let manifold = parse("torus:2").unwrap();
    let prior = default_prior(&manifold).unwrap();
    let (rows, options) = (Rows::new(&x, 4).unwrap(), MixtureOptions::default());
    let mixture = KernelMixture::fit(manifold, prior, rows, &options).unwrap();
    let mixture = Arc::new(mixture.localised(&options).unwrap());
    let windows = ParzenOptions { floor: 1e-3, judges: 1000, seed: 0 };
    let windows = Arc::new(ParzenMixture::fit(Arc::clone(&mixture), &windows).unwrap());
    assert!(windows.round_weight() < 0.5, "little would be moved: {}", windows.round_weight());
    (x, mixture, windows)
}

/// With c = 1 and c_w = 1 the data are smoothed to the density of the windows themselves: what is
/// drawn at tiny times has the moments of the windows' own draws.
#[test]
fn points_smoothed_and_stretched_in_full_are_draws_of_the_windows() {
    let (x, mixture, windows) = along_a_curve();
    let (manifold, s) = (Arc::clone(windows.manifold()), 1e-9);
    let prior = default_prior(&manifold).unwrap();
    let config = config(4, 2.0, LossKind::Denoising, 20);
    let config = TrainConfig { batch: 20_000, s_min: s, t_end: 2.0 * s, ..config };
    let mut trainer = Trainer::new(manifold, prior, x, config)
        .unwrap()
        .with_smoothing(SmoothingTimes::of_mixture(&mixture, 150, 1.0, 0.0))
        .unwrap()
        .with_stretch(Stretch::new(Arc::clone(&windows), 1.0))
        .unwrap();
    trainer.step().unwrap();
    let drawn = windows.sample(20_000, 3).unwrap();
    let log_p = |x: &[f64]| windows.log_density(Rows::new(x, 4).unwrap()).unwrap();
    let mut functions: Vec<[Vec<f64>; 2]> = vec![[log_p(&trainer.batch().y), log_p(&drawn)]];
    for f in [
        |y: &[f64]| y[0] * y[3],
        |y: &[f64]| y[1] * y[3],
        |y: &[f64]| (y[1] * y[3]).powi(2),
        |y: &[f64]| y[0] * y[2],
    ] {
        functions.push([&trainer.batch().y, &drawn].map(|y| y.chunks_exact(4).map(f).collect()));
    }
    for (number, of) in functions.into_iter().enumerate() {
        let [(ours, a), (theirs, b)] = of.map(|values| mean_se(values.into_iter()));
        let se = a.hypot(b);
        assert!((ours - theirs).abs() < 4.0 * se && se < 0.02, "{number}: {ours} {theirs} ± {se}");
    }
}

/// Targets are scores of what is drawn, whatever was done to the points before: Stein's identity
/// E⟨f(Y), target⟩ = −E ∇·f(Y) for fields f on T², with and without smoothing and stretch.
#[test]
fn targets_are_scores_of_what_is_drawn() {
    let (x, mixture, windows) = along_a_curve();
    let manifold = Arc::clone(windows.manifold());
    let prior = default_prior(&manifold).unwrap();
    let config =
        TrainConfig { batch: 4000, s_min: 0.01, ..config(4, 2.0, LossKind::Denoising, 20) };
    for (smoothed, stretched) in [(false, false), (true, false), (true, true), (false, true)] {
        let mut trainer =
            Trainer::new(Arc::clone(&manifold), Arc::clone(&prior), x.clone(), config.clone())
                .unwrap();
        if smoothed {
            let times = SmoothingTimes::of_mixture(&mixture, 150, 1.0, 0.0);
            trainer = trainer.with_smoothing(times).unwrap();
        }
        if stretched {
            trainer = trainer.with_stretch(Stretch::new(Arc::clone(&windows), 1.0)).unwrap();
        }
        let mut gaps: [Vec<f64>; 3] = Default::default();
        for _ in 0..5 {
            trainer.step().unwrap();
            let batch = trainer.batch();
            for (y, target) in batch.y.chunks_exact(4).zip(batch.target.chunks_exact(4)) {
                let [c1, s1, c2, s2] = *y else { unreachable!() };
                // The target's parts along the two angles.
                let along = [c1 * target[1] - s1 * target[0], c2 * target[3] - s2 * target[2]];
                gaps[0].push(c1 * c2 * along[0] - s1 * c2);
                gaps[1].push(s1 * c2 * along[1] - s1 * s2);
                gaps[2].push(s2 * (along[0] + along[1]) + c2);
            }
        }
        for (field, gaps) in gaps.into_iter().enumerate() {
            let (mean, se) = mean_se(gaps.into_iter());
            let case = format!("smoothed {smoothed}, stretched {stretched}, field {field}");
            assert!(mean.abs() < 4.0 * se && se < 0.1, "{case}: {mean} ± {se}");
        }
    }
}
