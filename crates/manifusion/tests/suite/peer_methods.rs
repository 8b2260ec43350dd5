//! Methods that others published: each recovers a known density, and what each alone is made of.

use std::sync::Arc;

use crate::common::mean_se;
use manifusion::Points;
use manifusion::data::Synthetic;
use manifusion::divergence::Estimator;
use manifusion::field::{FieldValues, Generated};
use manifusion::fit::{Fit, Request};
use manifusion::loss::{LossBatch, LossKind};
use manifusion::manifold::{Generators, parse};
use manifusion::mass::total_mass;
use manifusion::methods::{Moser, Noising, Rcnf, Rfm, Rsgm, ScoreForm, ScoreLoss, Stereographic};
use manifusion::nn::{Activation, Mlp, NetConfig};
use manifusion::path::{NoisingPath, PathChoice};
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};

/// Fits a generated set and compares with its ground-truth density: the mean difference of
/// log-densities over fresh points, which is a KL divergence, and the mass.
fn recovers(request: impl Into<Request>, set: &str, what: &str, allowed: f64) {
    let truth = Synthetic::new(set).unwrap();
    let points = Points::synthetic(set, 4000, 1).unwrap();
    let finished = Fit::new(request).seed(1).run(&points).unwrap();
    let m = points.manifold().ambient_dim();
    let fresh = truth.sample(1500, 77).unwrap();
    let x = Rows::new(&fresh, m).unwrap();
    let log_p = finished.model.log_density_to(x, 1e-4).unwrap().log_p;
    let gaps = x.rows().zip(&log_p).map(|(x, log_p)| truth.log_density(x) - log_p);
    let (gap, se) = mean_se(gaps);
    assert!(gap < allowed + 3.0 * se, "{what} on {set}: {gap} ± {se} nats from the ground truth");
    assert!(gap > -3.0 * se - 0.02, "{what} on {set}: {gap} ± {se}: better than the ground truth");
    let model = finished.model.as_ref();
    let prior = model.prior().as_ref();
    let mass =
        total_mass(model as &dyn manifusion::density::Density, None, prior, 3000, 5).unwrap();
    let off = (mass.value - 1.0).abs();
    assert!(off < 0.02 + 3.0 * mass.se, "{what} on {set}: mass {mass:?}");
}

#[test]
fn flow_matching_recovers_known_densities() {
    let mut rfm = Rfm::default().steps(4000);
    (rfm.net.width, rfm.net.depth) = (Some(128), Some(3));
    recovers(rfm.clone(), "sphere-mixture", "rfm", 0.1);
    recovers(rfm.clone(), "torus-mixture", "rfm", 0.1);
    rfm.train.steps = Some(2000);
    recovers(rfm, "hyperbolic-wrapped", "rfm", 0.1);
}

#[test]
fn score_matching_recovers_known_densities() {
    let mut rsgm = Rsgm::default().steps(3000);
    (rsgm.net.width, rsgm.net.depth) = (Some(128), Some(3));
    recovers(rsgm.clone(), "sphere-mixture", "rsgm, denoising", 0.1);
    rsgm.model.form = Some(ScoreForm::Generators);
    rsgm.train.steps = Some(1000);
    recovers(rsgm.clone(), "torus-mixture", "rsgm, generators", 0.1);
    // Without the targets of the transition kernel it learns more slowly.
    rsgm.model.loss = Some(ScoreLoss::Implicit);
    rsgm.model.noising = Some(Noising::Walk);
    rsgm.model.walk_steps = Some(40);
    recovers(rsgm, "sphere-mixture", "rsgm, implicit, generators, walk", 0.3);
}

#[test]
fn a_stereographic_model_recovers_a_known_density() {
    let mut model = Stereographic::default().steps(3000);
    (model.net.width, model.net.depth) = (Some(128), Some(3));
    recovers(model, "sphere-mixture", "stereographic", 0.1);
}

#[test]
fn moser_flow_recovers_a_known_density() {
    let mut moser = Moser::default().steps(800);
    (moser.net.width, moser.net.depth) = (Some(128), Some(3));
    recovers(moser, "sphere-mixture", "moser", 0.1);
}

#[test]
fn a_normalising_flow_recovers_a_known_density() {
    let mut rcnf = Rcnf::default().steps(300);
    (rcnf.net.width, rcnf.train.batch) = (Some(64), Some(128));
    recovers(rcnf, "sphere-mixture", "rcnf", 0.1);
}

/// Where the density of Moser flow is above its floor everywhere, its flow has that very density,
/// although the two are computed in different ways.
#[test]
fn the_flow_of_moser_has_the_density_that_it_states() {
    let points = Points::synthetic("torus-mixture", 500, 1).unwrap();
    let mut moser = Moser::default().steps(25);
    (moser.net.width, moser.net.depth, moser.net.fourier) = (Some(32), Some(2), Some(0));
    (moser.model.floor, moser.model.penalty) = (Some(1e-3), Some(50.0));
    let model = Fit::new(moser).run(&points).unwrap().model;
    let direct = model.direct().unwrap();
    let prior = model.prior().as_ref();
    let uniform = prior.log_density(points.rows().row(0));
    let mut everywhere = vec![0.0; 2000 * 4];
    let streams = Streams::new(8, "everywhere");
    for (i, x) in everywhere.chunks_exact_mut(4).enumerate() {
        prior.sample(&mut streams.stream(i as u64, 0), x).unwrap();
    }
    let least = direct.log_density(Rows::new(&everywhere, 4).unwrap()).unwrap();
    let least = least.into_iter().fold(f64::INFINITY, f64::min);
    assert!(least > uniform + 1e-3f64.ln() + 1.0, "{least}: the floor must not be near");
    let stated = direct.log_density(points.rows()).unwrap();
    let flowed = model.log_density_to(points.rows(), 1e-6).unwrap().log_p;
    for (a, b) in stated.iter().zip(&flowed) {
        assert!((a - b).abs() < 2e-3, "{a} {b}");
    }
    assert!(stated.iter().any(|v| (v - uniform).abs() > 0.3), "it has learned something");
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
