//! Methods that others published: each recovers a known density, and what each alone is made of.

use std::sync::Arc;

use crate::common::mean_se;
use manifusion::Points;
use manifusion::data::Synthetic;
use manifusion::directional::VonMisesFisher;
use manifusion::divergence::Estimator;
use manifusion::field::{FieldValues, Generated};
use manifusion::fit::{Fit, Request};
use manifusion::loss::{LossBatch, LossKind};
use manifusion::manifold::{Generators, parse};
use manifusion::methods::{Moser, Noising, Rcnf, Rfm, Rsgm, ScoreForm, ScoreLoss, Stereographic};
use manifusion::nn::{Activation, Mlp, NetConfig};
use manifusion::path::{NoisingPath, PathChoice};
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};

/// log p of a point.
type LogDensity = Box<dyn Fn(&[f64]) -> f64>;

/// What is learned, with its ground truth: points, fresh points with log-densities, and the
/// log-density of anything.
struct Target {
    points: Points,
    fresh: Vec<f64>,
    log_density: LogDensity,
}

/// A von Mises–Fisher distribution: smooth, so that small networks learn it in seconds.
fn round(concentration: f64) -> Target {
    let law = VonMisesFisher::new(vec![0.6, 0.0, 0.8], concentration);
    let draw = |n: usize, name: &str| {
        let streams = Streams::new(1, name);
        let mut x = vec![0.0; n * 3];
        for (i, x) in x.chunks_exact_mut(3).enumerate() {
            law.sample(&mut streams.stream(i as u64, 0), x);
        }
        x
    };
    let points = Points::new("sphere:2", draw(2000, "points")).unwrap();
    let fresh = draw(1500, "fresh");
    let law = law.clone();
    Target { points, fresh, log_density: Box::new(move |x| law.log_density(x)) }
}

fn generated(set: &str) -> Target {
    let points = Points::synthetic(set, 2000, 1).unwrap();
    let truth = Synthetic::new(set).unwrap();
    let fresh = truth.sample(1500, 77).unwrap();
    Target { points, fresh, log_density: Box::new(move |x| truth.log_density(x)) }
}

/// Fits a known density: the mean difference of log-densities over fresh points, which is a KL
/// divergence, is small, the mass is one, and samples are of the model's density.
fn recovers(request: impl Into<Request>, target: &Target, what: &str, allowed: f64) {
    let finished = Fit::new(request).seed(1).run(&target.points).unwrap();
    let m = target.points.manifold().ambient_dim();
    let x = Rows::new(&target.fresh, m).unwrap();
    let true_log_p: Vec<f64> = x.rows().map(&target.log_density).collect();
    let log_p = finished.model.log_density_to(x, 1e-4).unwrap().log_p;
    let (gap, se) = mean_se(true_log_p.iter().zip(&log_p).map(|(truth, log_p)| truth - log_p));
    assert!(gap < allowed + 3.0 * se, "{what}: {gap} ± {se} nats from the ground truth");
    assert!(gap > -3.0 * se - 0.02, "{what}: {gap} ± {se}, better than the ground truth");
    // By draws of the prior: the mass, and the mean of a bounded function, which samples must have.
    let model = finished.model.as_ref();
    let f = |x: &[f64]| x[m - 1].tanh();
    let prior = model.prior().as_ref();
    let mut draws = vec![0.0; 2500 * m];
    let streams = Streams::new(5, "mass");
    for (i, x) in draws.chunks_exact_mut(m).enumerate() {
        prior.sample(&mut streams.stream(i as u64, 0), x).unwrap();
    }
    let draws = Rows::new(&draws, m).unwrap();
    let log_p = model.log_density_to(draws, 1e-4).unwrap().log_p;
    let ratio = |(x, log_p): (&[f64], &f64)| (log_p - prior.log_density(x)).exp();
    let ratios: Vec<f64> = draws.rows().zip(&log_p).map(ratio).collect();
    let (mass, se) = mean_se(ratios.iter().copied());
    assert!((mass - 1.0).abs() < 0.02 + 3.0 * se, "{what}: mass {mass} ± {se}");
    let (expected, expected_se) = mean_se(draws.rows().zip(&ratios).map(|(x, r)| r * f(x)));
    let drawn = model.sample(1500, 3).unwrap();
    let (found, found_se) = mean_se(drawn.chunks_exact(m).map(f));
    let close = 0.02 + 3.5 * found_se.hypot(expected_se);
    assert!((found - expected).abs() < close, "{what}: samples have {found}, not {expected}");
}

/// A small network of a method.
macro_rules! small {
    ($method:ident, $steps:expr) => {{
        let mut choices = $method::default().steps($steps);
        (choices.net.width, choices.net.depth) = (Some(48), Some(2));
        choices.train.batch = Some(256);
        choices
    }};
}

#[test]
fn flow_matching_recovers_known_densities() {
    recovers(small!(Rfm, 700), &round(5.0), "rfm", 0.1);
    recovers(small!(Rfm, 700), &generated("hyperbolic-wrapped"), "rfm, hyperbolic", 0.1);
}

#[test]
fn score_matching_recovers_known_densities() {
    let target = round(5.0);
    recovers(small!(Rsgm, 700), &target, "rsgm", 0.1);
    let mut implicit = small!(Rsgm, 500);
    implicit.model.loss = Some(ScoreLoss::Implicit);
    implicit.model.form = Some(ScoreForm::Generators);
    implicit.model.noising = Some(Noising::Walk);
    implicit.model.walk_steps = Some(30);
    recovers(implicit, &target, "rsgm, implicit, generators, walk", 0.1);
}

#[test]
fn a_stereographic_model_recovers_a_known_density() {
    recovers(small!(Stereographic, 700), &round(5.0), "stereographic", 0.1);
}

#[test]
fn moser_flow_recovers_a_known_density() {
    let mut moser = small!(Moser, 300);
    moser.net.fourier = Some(0);
    recovers(moser, &round(5.0), "moser", 0.1);
}

#[test]
fn a_normalising_flow_recovers_a_known_density() {
    let mut rcnf = small!(Rcnf, 150);
    rcnf.train.batch = Some(64);
    recovers(rcnf, &round(5.0), "rcnf", 0.1);
}

/// Where the density of Moser flow is above its floor everywhere, its flow has that very density,
/// although the two are computed in different ways.
#[test]
fn the_flow_of_moser_has_the_density_that_it_states() {
    // Nowhere less than 0.3 times the uniform density.
    let points = round(1.0).points;
    let mut moser = small!(Moser, 100);
    (moser.net.fourier, moser.model.floor) = (Some(0), Some(1e-3));
    let model = Fit::new(moser).run(&points).unwrap().model;
    let direct = model.direct().unwrap();
    let prior = model.prior().as_ref();
    let uniform = prior.log_density(points.rows().row(0));
    let mut everywhere = vec![0.0; 2000 * 3];
    let streams = Streams::new(8, "everywhere");
    for (i, x) in everywhere.chunks_exact_mut(3).enumerate() {
        prior.sample(&mut streams.stream(i as u64, 0), x).unwrap();
    }
    let least = direct.log_density(Rows::new(&everywhere, 3).unwrap()).unwrap();
    let least = least.into_iter().fold(f64::INFINITY, f64::min);
    assert!(least > uniform + 1e-3f64.ln() + 1.0, "{least}: the floor must not be near");
    let stated = direct.log_density(points.rows()).unwrap();
    let flowed = model.log_density_to(points.rows(), 1e-6).unwrap().log_p;
    for (a, b) in stated.iter().zip(&flowed) {
        assert!((a - b).abs() < 2e-3, "{a} {b}");
    }
    assert!(stated.iter().any(|v| (v - uniform).abs() > 0.2), "it has learned something");
}

/// The implicit loss with generators is ½|a|² + ∇·a of the field that they make.
#[test]
fn losses_in_divergence_free_fields_are_those_of_the_field() {
    for spec in ["sphere:2", "torus:2", "so:3"] {
        let manifold = parse(spec).unwrap();
        let prior = default_prior(&manifold).unwrap();
        let m = manifold.ambient_dim();
        let config = NetConfig {
            depth: 2,
            width: 24,
            activation: Activation::Swish,
            ..NetConfig::paper_torus(m)
        };
        let net = Mlp::<f32>::new(config, 5).unwrap();
        let n = 16;
        let generators = Generators::new(manifold.as_ref());
        let mut batch = LossBatch::new(n, m).with_generators(generators.clone());
        let streams = Streams::new(4, "points");
        for (i, y) in batch.y.chunks_exact_mut(m).enumerate() {
            prior.sample(&mut streams.stream(i as u64, 0), y).unwrap();
        }
        batch.s.fill(0.4);
        batch.weight.fill(0.5);
        let kind = LossKind::Implicit(Estimator::Frame);
        let y = batch.y.clone();
        let y = Rows::new(&y, m).unwrap();
        batch.prepare(manifold.as_ref(), prior.as_ref(), kind, None, y, &streams).unwrap();
        let mut losses = vec![0.0; n];
        let mut workspace = net.train_workspace(1);
        let form = batch.row_loss(manifold.as_ref(), kind);
        let input = batch.input(m).unwrap();
        net.loss_gradient(input, &form, &mut workspace, &mut losses, None).unwrap();
        let coefficients = Arc::new(net.clone());
        let field = Generated { coefficients, generators: generators.unwrap() };
        let mut values = FieldValues::new(Estimator::Frame);
        let numbers: Vec<usize> = (0..n).collect();
        let s = vec![0.4; n];
        values.evaluate(manifold.as_ref(), &field, &numbers, y, &s, &streams).unwrap();
        for (i, loss) in losses.iter().enumerate() {
            let expected = 0.5 * (0.5 * values.norm2(i) + values.div[i]);
            assert!((loss - expected).abs() < 1e-5, "{spec}: {loss} {expected}");
        }
    }
}

/// E cos φ = e^{−ds/2} for a geodesic random walk, up to its weak error O(1/steps).
#[test]
fn a_geodesic_walk_has_the_moments_of_brownian_motion() {
    for (d, s) in [(1, 0.5), (2, 0.3), (3, 1.0)] {
        let manifold = parse(&format!("sphere:{d}")).unwrap();
        let prior = default_prior(&manifold).unwrap();
        let choice = PathChoice::GeodesicWalk { steps: 50 };
        let path = NoisingPath::new(manifold, prior, choice).unwrap();
        let (n, m) = (40_000, d + 1);
        let mut start = vec![0.0; m];
        start[0] = 1.0;
        let (x, mut y) = (start.repeat(n), vec![0.0; n * m]);
        let to = RowsMut::new(&mut y, m).unwrap();
        let streams = Streams::new(3, "walk");
        path.sample(Rows::new(&x, m).unwrap(), &vec![s; n], &streams, 0, to).unwrap();
        let (mean, se) = mean_se(y.chunks_exact(m).map(|y| y[0]));
        let expected = (-0.5 * d as f64 * s).exp();
        // A step of variance h turns by E cos|√h z| = 1 − dh/2 + d(d+2)h²/24, where e^{−dh/2} has
        // d²h²/8: the mean is off by s·h·|d(d+2)/24 − d²/8| times itself.
        let (df, h) = (d as f64, s / 50.0);
        let bias = expected * s * h * (df * (df + 2.0) / 24.0 - df * df / 8.0).abs();
        assert!((mean - expected).abs() < 1.5 * bias + 4.0 * se, "{d}: {mean} {expected} {se}");
    }
    // Noise with a drift has no such walk.
    let plane = parse("euclidean:2").unwrap();
    let prior = default_prior(&plane).unwrap();
    let refused = NoisingPath::new(plane, prior, PathChoice::GeodesicWalk { steps: 5 });
    assert!(refused.unwrap_err().to_string().contains("geodesic random walk"));
}
