//! Laws of Y_s: exact moments, exact against Heun, stationarity, reversibility, reproducibility,
//! bad input.

use std::sync::Arc;

use crate::common::{golden, kolmogorov_smirnov, mean_se, number, rows};
use manifusion::error::SolveError;
use manifusion::manifold::{Hyperboloid, Lorentz, Manifold, Metric, parse};
use manifusion::path::{NoisingPath, PathChoice};
use manifusion::prior::{Prior, StandardNormal, default_prior};
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};
use manifusion::sde::{Heun, NoDrift, integrate_fixed};

fn path(spec: &str, choice: PathChoice) -> (Arc<dyn Manifold>, Arc<dyn Prior>, NoisingPath) {
    let manifold = parse(spec).unwrap();
    let prior = default_prior(&manifold).unwrap();
    let path = NoisingPath::new(Arc::clone(&manifold), Arc::clone(&prior), choice).unwrap();
    (manifold, prior, path)
}

/// `n` draws of Y_s from one start, row by row.
fn draw(path: &NoisingPath, start: &[f64], s: f64, n: usize, seed: u64) -> Vec<f64> {
    let m = start.len();
    let x = start.repeat(n);
    let mut y = vec![0.0; n * m];
    let rows = (Rows::new(&x, m).unwrap(), RowsMut::new(&mut y, m).unwrap());
    path.sample(rows.0, &vec![s; n], &Streams::new(seed, "draw"), 0, rows.1).unwrap();
    y
}

/// A test function.
type Test<'a> = &'a dyn Fn(&[f64]) -> f64;

fn pole(d: usize) -> Vec<f64> {
    // Not a coordinate vector, so that no coordinate is special.
    vec![1.0 / ((d + 1) as f64).sqrt(); d + 1]
}

fn cosines(y: &[f64], start: &[f64]) -> Vec<f64> {
    y.chunks_exact(start.len()).map(|y| y.iter().zip(start).map(|(a, b)| a * b).sum()).collect()
}

/// 1 − cos φ = |y − x|²/2, without cancellation at small times.
fn versines(y: &[f64], start: &[f64]) -> Vec<f64> {
    let square = |y: &[f64]| y.iter().zip(start).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    y.chunks_exact(start.len()).map(|y| 0.5 * square(y)).collect()
}

/// E cos φ = e^{−ds/2} and E cos²φ = (1 + d e^{−(d+1)s})/(d+1), within 4 standard errors at 10⁶
/// draws. The bias bound is that of the normal approximation of the lineages, 0.033 s² relative
/// where it is used.
fn check_moments(d: usize, s: f64, n: usize) {
    let (_, _, path) = path(&format!("sphere:{d}"), PathChoice::Exact);
    let start = pole(d);
    let y = draw(&path, &start, s, n, d as u64);
    let df = d as f64;
    let first = versines(&y, &start);
    let (mean, se) = mean_se(first.iter().copied());
    let expected = -(-0.5 * df * s).exp_m1();
    let bias = if s < 0.2 { 0.033 * s * s * expected } else { 0.0 };
    assert!(
        (mean - expected).abs() < 4.0 * se + bias,
        "S^{d}, s = {s}: 1 − E cos = {mean}, {expected} ± {se}"
    );
    // sin²φ = v(2 − v) keeps its digits where cos²φ would not.
    let (mean, se) = mean_se(first.iter().map(|v| v * (2.0 - v)));
    let expected = -df / (df + 1.0) * (-(df + 1.0) * s).exp_m1();
    let bias = if s < 0.2 { 0.033 * s * s * expected } else { 0.0 };
    assert!(
        (mean - expected).abs() < 4.0 * se + bias,
        "S^{d}, s = {s}: E sin² = {mean}, {expected} ± {se}"
    );
}

#[test]
fn exact_sphere_moments() {
    for d in [1, 2, 3, 7] {
        for s in [1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.09, 0.11, 0.3, 1.0, 3.0, 10.0] {
            check_moments(d, s, 1_000_000);
        }
    }
}

#[test]
fn exact_sphere_moments_in_high_dimension() {
    for d in [50, 100] {
        check_moments(d, 0.1, 1_000_000);
        check_moments(d, 0.02, 200_000);
    }
}

/// E[Y_s] = e^{−s/2} y on tori and on SO(3), e^{−s/2}x on ℝ^d.
#[test]
fn exact_means_elsewhere() {
    for (spec, rate) in
        [("torus:2", 0.5), ("so:3", 0.5), ("euclidean:3", 0.5), ("sphere:2*torus:1", 0.0)]
    {
        let (manifold, _, path) = path(spec, PathChoice::Exact);
        let m = manifold.ambient_dim();
        let start =
            manifusion::check::sample_points(manifold.as_ref(), 1, &Streams::new(2, "start"))
                .unwrap();
        for s in [1e-3, 0.1, 2.0] {
            let y = draw(&path, &start, s, 200_000, 5);
            for i in 0..m {
                let (mean, se) = mean_se(y.chunks_exact(m).map(|y| y[i]));
                // In the product the sphere's coordinates decay at rate 1, the circle's at ½.
                let rate = if spec.contains('*') { if i < 3 { 1.0 } else { 0.5 } } else { rate };
                let expected = (-rate * s).exp() * start[i];
                assert!(
                    (mean - expected).abs() < 4.5 * se,
                    "{spec}, s = {s}: {mean} {expected} ± {se}"
                );
            }
        }
    }
}

/// The Heun path has the mean that its own scheme must have (reference by quadrature), not the
/// exact one.
#[test]
fn heun_has_the_bias_of_its_scheme() {
    for row in rows(&golden("heun_sphere"), "rows") {
        let (d, dt) = (number(&row, "d") as usize, number(&row, "dt"));
        if row["projection_at"] != "predictor" || d > 3 || dt < 0.009 {
            continue;
        }
        let steps = 10;
        let (_, _, path) = path(&format!("sphere:{d}"), PathChoice::Heun { steps });
        let start = pole(d);
        let y = draw(&path, &start, dt * steps as f64, 200_000, 3);
        let (mean, se) = mean_se(cosines(&y, &start).into_iter());
        let expected = number(&row, "e_cos_step").powi(steps as i32);
        assert!((mean - expected).abs() < 4.0 * se, "S^{d}, Δ = {dt}: {mean} {expected} ± {se}");
    }
}

/// Exact and Heun agree in law: Kolmogorov–Smirnov on the angle and test functions, at steps where
/// Heun's bias is below the statistical error.
#[test]
fn exact_and_heun_agree_in_law() {
    for (spec, s) in
        [("sphere:2", 0.3), ("sphere:3", 0.3), ("torus:2", 0.5), ("so:3", 1.0), ("sphere:7", 0.05)]
    {
        let (manifold, _, exact) = path(spec, PathChoice::Exact);
        let (_, _, heun) = path(spec, PathChoice::Heun { steps: 400 });
        let m = manifold.ambient_dim();
        let start =
            manifusion::check::sample_points(manifold.as_ref(), 1, &Streams::new(4, "start"))
                .unwrap();
        let n = 20_000;
        let (a, b) = (draw(&exact, &start, s, n, 1), draw(&heun, &start, s, n, 2));
        let distances = |y: &[f64]| versines(y, &start);
        let (worst, allowed) = kolmogorov_smirnov(&mut distances(&a), &mut distances(&b));
        assert!(worst < allowed + 0.005, "{spec}: KS {worst} > {allowed}");
        let functions: [fn(&[f64]) -> f64; 3] =
            [|y| y[0], |y| y[0] * y[1], |y| (y[0] + 2.0 * y[1]).sin()];
        for f in functions {
            let (mean_a, se_a) = mean_se(a.chunks_exact(m).map(f));
            let (mean_b, se_b) = mean_se(b.chunks_exact(m).map(f));
            let allowed = 4.0 * se_a.hypot(se_b) + 5.0 * s / 400.0;
            assert!((mean_a - mean_b).abs() < allowed, "{spec}: {mean_a} {mean_b} ± {allowed}");
        }
    }
}

/// Started in the prior the noise stays in it: |y|² and y₀² on H² and ℝ^d, where a missing area
/// factor in U₀ shows.
#[test]
fn priors_are_stationary() {
    for spec in [
        "hyperbolic:2",
        "hyperbolic:3,K=-0.5",
        "hyperbolic:3,K=-0.5,metric=lorentz",
        "hyperbolic:2,metric=lorentz",
        "euclidean:3",
    ] {
        let (manifold, prior, path) = path(spec, PathChoice::Heun { steps: 200 });
        let (m, n) = (manifold.ambient_dim(), 40_000);
        let streams = Streams::new(7, "stationary");
        let mut x = vec![0.0; n * m];
        for (i, x) in x.chunks_exact_mut(m).enumerate() {
            prior.sample(&mut streams.stream(i as u64, 0), x).unwrap();
        }
        let mut y = vec![0.0; n * m];
        let rows = (Rows::new(&x, m).unwrap(), RowsMut::new(&mut y, m).unwrap());
        path.sample(rows.0, &vec![2.0; n], &streams.part(1), 0, rows.1).unwrap();
        let first = m - manifold.dim();
        let functions: [Test<'_>; 3] =
            [&|y| y[first..].iter().map(|v| v * v).sum(), &|y| y[first] * y[first], &|y| {
                (-y[first..].iter().map(|v| v * v).sum::<f64>()).exp()
            }];
        for f in functions {
            let (before, se_before) = mean_se(x.chunks_exact(m).map(f));
            let (after, se_after) = mean_se(y.chunks_exact(m).map(f));
            // Heun's weak bias at Δ = 0.01.
            let allowed = 4.0 * se_before.hypot(se_after) + 0.01 * before.abs();
            assert!(
                (after - before).abs() < allowed,
                "{spec}: {before} → {after}, allowed {allowed}"
            );
        }
    }
}

/// The automatic choice stays inside the light cone and keeps the prior, also at strong curvature
/// and long times.
#[test]
fn automatic_steps_suit_the_curvature() {
    for (spec, s, n) in [("hyperbolic:2", 15.0, 2000), ("hyperbolic:2,K=-25", 2.0, 1000)] {
        let (manifold, prior, path) = path(spec, PathChoice::Auto);
        let m = manifold.ambient_dim();
        let streams = Streams::new(17, "curved");
        let mut x = vec![0.0; n * m];
        for (i, x) in x.chunks_exact_mut(m).enumerate() {
            prior.sample(&mut streams.stream(i as u64, 0), x).unwrap();
        }
        let mut y = vec![0.0; n * m];
        let rows = (Rows::new(&x, m).unwrap(), RowsMut::new(&mut y, m).unwrap());
        path.sample(rows.0, &vec![s; n], &streams.part(1), 0, rows.1).unwrap();
        let (mean, se) = mean_se(y.chunks_exact(m).map(|y| y[1] * y[1] + y[2] * y[2]));
        assert!((mean - 2.0).abs() < 4.0 * se + 0.05, "{spec}: E|y|² = {mean} ± {se}");
    }
}

/// E f(Y_0)g(Y_s) = E g(Y_0)f(Y_s) under the stationary law.
#[test]
fn the_noise_is_reversible() {
    for (spec, choice) in [
        ("sphere:2", PathChoice::Exact),
        ("so:3", PathChoice::Exact),
        ("hyperbolic:2", PathChoice::Heun { steps: 100 }),
        ("hyperbolic:2,metric=lorentz", PathChoice::Heun { steps: 100 }),
        ("level:x^2+y^2/4+z^2-1", PathChoice::Heun { steps: 50 }),
    ] {
        let (manifold, prior, path) = path(spec, choice);
        let (m, n) = (manifold.ambient_dim(), 10_000);
        let streams = Streams::new(8, "reversible");
        let mut x = vec![0.0; n * m];
        for (i, x) in x.chunks_exact_mut(m).enumerate() {
            prior.sample(&mut streams.stream(i as u64, 0), x).unwrap();
        }
        let mut y = vec![0.0; n * m];
        let rows = (Rows::new(&x, m).unwrap(), RowsMut::new(&mut y, m).unwrap());
        path.sample(rows.0, &vec![0.3; n], &streams.part(1), 0, rows.1).unwrap();
        let f = |y: &[f64]| (1.3 * y[m - 1] + y[0]).sin();
        let g = |y: &[f64]| (-(y[m - 1] - 0.4).powi(2)).exp();
        let differences =
            x.chunks_exact(m).zip(y.chunks_exact(m)).map(|(x, y)| f(x) * g(y) - g(x) * f(y));
        let (mean, se) = mean_se(differences);
        // Heun's bias: a few times Δ.
        let bias = if choice == PathChoice::Exact { 0.0 } else { 0.005 };
        assert!(mean.abs() < 4.0 * se + bias, "{spec}: {mean} ± {se}");
    }
}

/// E cosh d(o, Y_s) = e^{ds/2} for Brownian motion of the Lorentz metric: cosh d is an
/// eigenfunction of Δ with value d.
#[test]
fn lorentz_brownian_motion_grows_as_it_must() {
    for (dim, k) in [(2usize, -1.0), (3, -0.5)] {
        let space = Lorentz::new(dim, k).unwrap();
        let (n, s) = (100_000, 0.5);
        let mut x = vec![0.0; n * (dim + 1)];
        for row in x.chunks_exact_mut(dim + 1) {
            space.exp_origin(&vec![0.0; dim], row);
        }
        let manifold = Hyperboloid::new(dim, k).unwrap().with_metric(Metric::Lorentz);
        let mut stepper = Heun::new(&manifold, NoDrift, 1.0);
        let (t0, t1) = (vec![0.0; n], vec![s; n]);
        integrate_fixed(&mut stepper, &Streams::new(1, "lorentz"), 0, &t0, &t1, 50, &mut x)
            .unwrap();
        let root = (-k).sqrt();
        let (mean, se) = mean_se(x.chunks_exact(dim + 1).map(|x| root * x[0]));
        let expected = (0.5 * dim as f64 * -k * s).exp();
        assert!((mean - expected).abs() < 4.0 * se + 0.005, "H^{dim}: {mean} {expected} ± {se}");
    }
}

/// The same bits on one thread and on two, and whatever rows stand beside a row.
#[test]
fn draws_do_not_depend_on_threads_or_batches() {
    for (spec, choice) in [
        ("sphere:2", PathChoice::Exact),
        ("sphere:2", PathChoice::Heun { steps: 7 }),
        ("sphere:5", PathChoice::Exact),
        ("so:3*torus:2", PathChoice::Exact),
        ("hyperbolic:2", PathChoice::Heun { steps: 7 }),
    ] {
        let (manifold, _, path) = path(spec, choice);
        let m = manifold.ambient_dim();
        let streams = Streams::new(9, "threads");
        let n = 203;
        let x = manifusion::check::sample_points(manifold.as_ref(), n, &streams).unwrap();
        // Seven steps to s = 10 are fine on compact manifolds; on H² they would leave the light
        // cone.
        let longest: f64 = if spec.starts_with('h') { 0.05 } else { 10.0 };
        let s: Vec<f64> =
            (0..n).map(|i| 1e-4 * (1e4 * longest).powf(i as f64 / n as f64)).collect();
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut y = vec![0.0; n * m];
            pool.install(|| {
                let rows = (Rows::new(&x, m).unwrap(), RowsMut::new(&mut y, m).unwrap());
                path.sample(rows.0, &s, &streams, 0, rows.1).unwrap();
            });
            y
        };
        let whole = run(1);
        assert_eq!(whole, run(2), "{spec}");
        let mut part = vec![0.0; 50 * m];
        let rows =
            (Rows::new(&x[100 * m..150 * m], m).unwrap(), RowsMut::new(&mut part, m).unwrap());
        path.sample(rows.0, &s[100..150], &streams, 100, rows.1).unwrap();
        assert_eq!(&whole[100 * m..150 * m], &part[..], "{spec}");
    }
}

#[test]
fn bad_input_is_an_error_with_its_numbers() {
    // A prior of another space.
    let plane = Arc::new(StandardNormal::new(2));
    let error = NoisingPath::new(parse("sphere:2").unwrap(), plane, PathChoice::Auto).unwrap_err();
    assert_eq!(error.to_string(), "the prior's points have 2 numbers, those of sphere:2 have 3");
    let (_, _, path) = path("sphere:2", PathChoice::Auto);
    let streams = Streams::new(0, "bad");
    let mut out = [0.0; 6];
    let mut run = |x: &[f64], s: &[f64]| {
        path.sample(Rows::new(x, 3)?, s, &streams, 0, RowsMut::new(&mut out[..x.len()], 3)?)
    };
    let good = [0.0, 0.0, 1.0, 0.0, 1.0, 0.0];
    assert!(run(&good, &[0.1, 0.2]).is_ok());
    let text = |result: Result<(), SolveError>| result.unwrap_err().to_string();
    assert_eq!(
        text(run(&[0.0, 0.0, 1.0, 0.0, 2.0, 0.0], &[0.1, 0.2])),
        "row 1 at time 0.000000e0: the point is off sphere:2: residual 1.000e0, allowed 1.0e-6"
    );
    assert_eq!(
        text(run(&[0.0, f64::NAN, 1.0, 0.0, 1.0, 0.0], &[0.1, 0.2])),
        "row 0 at time 0.000000e0: coordinate 1 is NaN"
    );
    assert_eq!(text(run(&[], &[])), "the batch is empty");
    assert_eq!(text(run(&[1.0, 0.0], &[0.1])), "2 numbers do not make rows of 3");
    assert_eq!(text(run(&good, &[0.1])), "1 rows given, expected 2");
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let error = text(run(&good, &[0.1, bad]));
        assert_eq!(
            error,
            format!("row 1: time {bad} is not allowed; noising times are positive and finite")
        );
    }
    let manifold = parse("so:4").unwrap();
    let prior = default_prior(&manifold).unwrap();
    let exact = NoisingPath::new(manifold.clone(), prior.clone(), PathChoice::Exact).unwrap_err();
    assert_eq!(exact.to_string(), "exact noising is not known on so:4; use Heun steps");
    let none = NoisingPath::new(manifold, prior, PathChoice::Heun { steps: 0 }).unwrap_err();
    assert_eq!(none.to_string(), "steps = 0 is not allowed; at least one is needed");
}
