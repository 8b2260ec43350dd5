//! Smoothed targets: what the network is trained towards is the score of the smoothed density.

use std::sync::Arc;

use crate::common::mean_se;
use manifusion::check::sample_points;
use manifusion::density::Density;
use manifusion::heat_kernel::TransitionKernel;
use manifusion::linalg::log_sum_exp;
use manifusion::manifold::{Manifold, parse};
use manifusion::mixture::{KernelMixture, MixtureOptions, neighbour_distances};
use manifusion::path::{NoisingPath, PathChoice, Smoothing};
use manifusion::prior::{Prior, default_prior};
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};
use manifusion::train::SmoothingTimes;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `y ← y + a·x`.
fn add(a: f64, x: &[f64], y: &mut [f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

fn difference(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// A mixture of few centres with weights of their own.
fn mixture(spec: &str) -> (Arc<dyn Manifold>, Arc<dyn Prior>, Vec<f64>, KernelMixture) {
    let manifold = parse(spec).unwrap();
    let prior = default_prior(&manifold).unwrap();
    let m = manifold.ambient_dim();
    let far = sample_points(manifold.as_ref(), 2, &Streams::new(4, "centres")).unwrap();
    let starts: Vec<f64> = far.chunks_exact(m).flat_map(|x| x.repeat(4)).collect();
    let path =
        NoisingPath::new(Arc::clone(&manifold), Arc::clone(&prior), PathChoice::Exact).unwrap();
    let mut x = starts.clone();
    let (from, to) = (Rows::new(&starts, m).unwrap(), RowsMut::new(&mut x, m).unwrap());
    path.sample(from, &[0.05; 8], &Streams::new(4, "near"), 0, to).unwrap();
    let rows = Rows::new(&x, m).unwrap();
    let options = MixtureOptions { smallest: Some(0.2), ratio: 1.5, ..MixtureOptions::default() };
    let common =
        KernelMixture::fit(Arc::clone(&manifold), Arc::clone(&prior), rows, &options).unwrap();
    let mixture = common.localised(&options).unwrap();
    (manifold, prior, x, mixture)
}

/// ∇ log p_s of the mixture, by differences along a tangent frame.
fn score(mixture: &KernelMixture, y: &[f64], s: f64) -> Vec<f64> {
    const STEP: f64 = 1e-4;
    let manifold = mixture.manifold();
    let (m, d) = (manifold.ambient_dim(), manifold.dim());
    let mut frame = vec![0.0; d * m];
    manifold.frame(y, &mut frame);
    let mut out = vec![0.0; m];
    for e in frame.chunks_exact(m) {
        let at = |step: f64| {
            let mut x: Vec<f64> = y.iter().zip(e).map(|(y, e)| y + step * e).collect();
            manifold.project_point(&mut x).unwrap();
            mixture.noised_log_density(Rows::new(&x, m).unwrap(), s).unwrap()[0]
        };
        let slope = (at(STEP) - at(-STEP)) / (2.0 * STEP);
        add(slope, e, &mut out);
    }
    out
}

/// The mean of ∇ log K_{s+τ}(y|x_i) over centres and bandwidths, given y, in closed form.
#[test]
fn the_mean_target_given_y_is_the_smoothed_score() {
    for spec in ["sphere:2", "torus:2", "so:3", "sphere:2*torus:1"] {
        let (manifold, prior, x, mixture) = mixture(spec);
        let m = manifold.ambient_dim();
        let kernel = TransitionKernel::new(manifold.as_ref(), prior.as_ref()).unwrap();
        let (bands, n) = (mixture.bandwidths().len(), x.len() / m);
        let places = sample_points(manifold.as_ref(), 8, &Streams::new(5, "places")).unwrap();
        for (y, s) in places.chunks_exact(m).zip([1e-3, 0.02, 0.1, 0.5].repeat(2)) {
            let (mut logs, mut scores) = (vec![mixture.prior_weight().ln()], vec![vec![0.0; m]]);
            logs[0] += prior.log_density(y);
            for (i, c) in x.chunks_exact(m).enumerate() {
                for (k, sigma) in mixture.bandwidths().iter().enumerate() {
                    let weight = mixture.local_weights().unwrap()[i * bands + k] / n as f64;
                    let time = s + sigma * sigma;
                    // Beyond double precision means far below anything else.
                    let Ok(log_k) = kernel.log_density(c, y, time) else { continue };
                    logs.push(weight.ln() + log_k);
                    let mut own = vec![0.0; m];
                    let (c, y) = (Rows::new(c, m).unwrap(), Rows::new(y, m).unwrap());
                    let out = RowsMut::new(&mut own, m).unwrap();
                    kernel.score_rows(c, y, &[s], Some(&[sigma * sigma]), out).unwrap();
                    scores.push(own);
                }
            }
            let log_p = log_sum_exp(&logs);
            let mut mean = vec![0.0; m];
            for (log, own) in logs.iter().zip(&scores) {
                add((log - log_p).exp(), own, &mut mean);
            }
            let expected = score(&mixture, y, s);
            for (mean, expected) in mean.iter().zip(&expected) {
                let close = (mean - expected).abs() < 1e-5 * (1.0 + expected.abs());
                assert!(close, "{spec}, s = {s}: {mean} {expected}");
            }
        }
    }
}

/// Kernels of centres that are a part of the points are narrower by n^{−1/(d+4)}.
#[test]
fn more_points_than_centres_are_smoothed_less() {
    let (.., mixture) = mixture("sphere:2");
    let n = mixture.num_centres();
    let time = |points| SmoothingTimes::of_mixture(&mixture, points, 1.0, 0.0).draw(0, 0.999);
    let ratio = time(128 * n) / time(2 * n);
    assert!((ratio - 0.25).abs() < 1e-12, "{ratio}");
}

/// The trainer's own draws: E[f(Y)·target] = E[f(Y)·score(Y)] for test fields f.
#[test]
fn draws_have_the_smoothed_density_and_its_score() {
    const DRAWS: usize = 20_000;
    for spec in ["sphere:2", "torus:2", "euclidean:2"] {
        let (manifold, prior, x, mixture) = mixture(spec);
        let (m, n) = (manifold.ambient_dim(), x.len() / manifold.ambient_dim());
        let s_min = 1e-3;
        let times = SmoothingTimes::of_mixture(&mixture, n, 1.0, s_min);
        let kernel = TransitionKernel::new(manifold.as_ref(), prior.as_ref()).unwrap();
        let path = NoisingPath::new(Arc::clone(&manifold), prior, PathChoice::Auto).unwrap();
        let around = Streams::new(7, "around");
        let picks: Vec<usize> = (0..DRAWS).map(|i| i % n).collect();
        let tau: Vec<f64> = (0..DRAWS)
            .map(|i| times.draw(picks[i], around.stream(i as u64, 0).uniform()))
            .collect();
        let y0: Vec<f64> = picks.iter().flat_map(|i| x[i * m..(i + 1) * m].to_vec()).collect();
        let s = vec![0.05; DRAWS];
        let mut y = y0.clone();
        let displaced = around.part(0);
        let smoothing = Smoothing { times: &tau, streams: &displaced };
        let from = Rows::new(&y0, m).unwrap();
        let to = RowsMut::new(&mut y, m).unwrap();
        path.sample_smoothed(from, &s, Some(smoothing), &Streams::new(8, "noise"), 0, to).unwrap();
        let mut target = vec![0.0; y.len()];
        let out = RowsMut::new(&mut target, m).unwrap();
        kernel.score_rows(from, Rows::new(&y, m).unwrap(), &s, Some(&tau), out).unwrap();
        let fixed = [0.6, -0.3, 0.5, 0.2];
        let gaps: Vec<f64> = y
            .chunks_exact(m)
            .zip(target.chunks_exact(m))
            .map(|(y, target)| {
                // On R^d the noise of s_min is not quite taken off; its share is far below the
                // error.
                let score = score(&mixture, y, 0.05 - s_min);
                let f = 1.0 + dot(&fixed[..m.min(4)], y);
                f * (dot(&fixed[..m], target) - dot(&fixed[..m], &score))
            })
            .collect();
        let (mean, se) = mean_se(gaps.into_iter());
        assert!(mean.abs() < 4.5 * se + 1e-3, "{spec}: {mean} ± {se}");
        assert!(se < 0.05, "{spec}: {se}");
    }
}

/// Where a path is walked in steps, points are displaced first: on hyperbolic space by wrapped
/// normals, elsewhere by Brownian motion.
#[test]
fn walked_paths_are_smoothed_too() {
    for (spec, tolerance) in [("sphere:2", 0.03), ("hyperbolic:2,metric=lorentz", 0.03)] {
        const DRAWS: usize = 4000;
        let manifold = parse(spec).unwrap();
        let prior = default_prior(&manifold).unwrap();
        let path = PathChoice::Heun { steps: 4 };
        let path = NoisingPath::new(Arc::clone(&manifold), prior, path).unwrap();
        let x = if spec == "sphere:2" { [0.0, 0.0, 1.0] } else { [1.0, 0.0, 0.0] };
        let y0 = x.repeat(DRAWS);
        let (s, tau) = (vec![1e-8; DRAWS], vec![0.04; DRAWS]);
        let streams = Streams::new(3, "around");
        let mut y = y0.clone();
        let smoothing = Smoothing { times: &tau, streams: &streams };
        let from = Rows::new(&y0, 3).unwrap();
        let to = RowsMut::new(&mut y, 3).unwrap();
        path.sample_smoothed(from, &s, Some(smoothing), &Streams::new(1, "n"), 0, to).unwrap();
        let squares: Vec<f64> = y
            .chunks_exact(3)
            .map(|y| y.iter().zip(x).map(|(y, x)| (y - x).powi(2)).sum::<f64>())
            .collect();
        // Two dimensions of variance τ each, up to curvature.
        let (mean, se) = mean_se(squares.into_iter());
        assert!((mean - 0.08).abs() < 4.0 * se + tolerance * 0.08, "{spec}: {mean} ± {se}");
    }
}

#[test]
fn neighbours_give_bandwidths_where_there_is_no_mixture() {
    let x = sample_points(parse("so:4").unwrap().as_ref(), 40, &Streams::new(1, "x")).unwrap();
    let rows = Rows::new(&x, 16).unwrap();
    let distances = neighbour_distances(rows, 8);
    let times = SmoothingTimes::of_neighbours(rows, 6, 0.5, 0.0);
    for (i, found) in distances.iter().enumerate() {
        let distance = |j: usize| difference(rows.row(i), rows.row(j));
        let mut all: Vec<f64> = (0..40).map(distance).collect();
        all.sort_by(f64::total_cmp);
        assert!((found - all[8]).abs() < 1e-12, "{found} {}", all[8]);
        assert!((times.draw(i, 0.7) - 0.5 * found * found / 6.0).abs() < 1e-12);
    }
}

/// Times that are negative or not numbers, and smoothing of other points, are named.
#[test]
fn mistakes_are_named() {
    let (manifold, prior, x, mixture) = mixture("sphere:2");
    let path = NoisingPath::new(manifold, prior, PathChoice::Auto).unwrap();
    let streams = Streams::new(1, "a");
    let mut y = x.clone();
    let smoothing =
        Smoothing { times: &[0.1, -1.0, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], streams: &streams };
    let from = Rows::new(&x, 3).unwrap();
    let to = RowsMut::new(&mut y, 3).unwrap();
    let error = path.sample_smoothed(from, &[0.1; 8], Some(smoothing), &streams, 0, to);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("row 1") && error.contains("smoothing"), "{error}");
    assert!(mixture.log_density(from).is_ok());
}
