//! Power spherical distributions against reference values in high precision, and the method of
//! their mixtures.

use std::f64::consts::{PI, TAU};

use crate::common::{golden, mean_se, number, rows};
use manifusion::data::Synthetic;
use manifusion::density::Density;
use manifusion::directional::PowerSpherical;
use manifusion::fit::{Fit, Request};
use manifusion::manifold::{parse, sphere_log_volume};
use manifusion::methods::Mops;
use manifusion::methods::mops::TrainChoices;
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::Rows;
use manifusion::{Points, fit};

/// Absolute error of log Z at most 1e-10 for κ from 0 to 1e7 and up to 65 coordinates: its terms
/// are at most 600, so that a few dozen roundings are below 1e-11.
#[test]
fn normalisers_over_the_whole_range() {
    let file = golden("directional");
    let cases = rows(&file, "power_spherical");
    assert!(cases.len() > 100);
    for row in cases {
        let (d, kappa) = (number(&row, "d") as usize, number(&row, "kappa"));
        let [found, slope] = PowerSpherical::log_norm_with_slope(d + 1, kappa);
        let error = found - number(&row, "log_scaled_norm");
        assert!(error.abs() < 1e-10, "S^{d}, κ = {kappa}: off by {error:e}");
        let error = slope / number(&row, "slope") - 1.0;
        assert!(error.abs() < 1e-12, "slope on S^{d}, κ = {kappa}: off by {error:e}");
    }
}

/// At an angle θ from μ, ½(1 + cos θ) = cos²(θ/2) = sin²((π − θ)/2).
#[test]
fn log_densities_are_accurate_at_both_ends() {
    let mean = vec![0.0, 0.0, 1.0];
    for kappa in [0.0, 0.5, 30.0, 1e4, 1e7] {
        let found = PowerSpherical::new(mean.clone(), kappa);
        let log_norm = PowerSpherical::log_norm(3, kappa);
        for angle in [1e-9, 1e-5, 1e-3, 0.1, 1.0, 1.5] {
            let near = found.log_density(&[f64::sin(angle), 0.0, f64::cos(angle)]);
            let exact = kappa * (-f64::sin(0.5 * angle).powi(2)).ln_1p() - log_norm;
            assert!(
                (near - exact).abs() <= 1e-14 * (exact.abs() + kappa * angle),
                "{near} {exact}"
            );
            let far = found.log_density(&[f64::sin(angle), 0.0, -f64::cos(angle)]);
            let exact = 2.0 * kappa * f64::sin(0.5 * angle).ln() - log_norm;
            assert!((far - exact).abs() <= 1e-14 * exact.abs(), "{far} {exact}");
        }
        let opposite = found.log_density(&[0.0, 0.0, -1.0]);
        let expected = if kappa == 0.0 { -log_norm } else { f64::NEG_INFINITY };
        assert_eq!(opposite.to_bits(), expected.to_bits());
    }
}

/// The share of draws within angles of the mean is the integral of the density there, and they lie
/// on all sides of it alike.
#[test]
fn draws_follow_the_density() {
    let n = 4000;
    for m in [2, 3, 4, 9] {
        for kappa in [0.0, 0.7, 12.0, 1e5] {
            let mut mean = vec![0.0; m];
            mean[m - 1] = 1.0;
            let found = PowerSpherical::new(mean, kappa);
            let streams = Streams::new(m as u64, "power-spherical-draws");
            let drawn: Vec<Vec<f64>> = (0..n)
                .map(|row| {
                    let mut x = vec![0.0; m];
                    found.sample(&mut streams.stream(row, 0), &mut x);
                    assert!((x.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-12);
                    x
                })
                .collect();
            // Angles by midpoints, finer towards the mean.
            let cells = 20_000;
            let angle = |i: i32| PI * (f64::from(i) / f64::from(cells)).powi(3);
            let area = if m == 2 { 2f64.ln() } else { sphere_log_volume(m - 2) };
            let (mut mass, mut within) = (0.0, Vec::new());
            for i in 0..cells {
                let (a, b) = (angle(i), angle(i + 1));
                let middle = 0.5 * (a + b);
                let mut x = vec![0.0; m];
                (x[0], x[m - 1]) = middle.sin_cos();
                let log_p = found.log_density(&x) + area + (m as f64 - 2.0) * middle.sin().ln();
                mass += log_p.exp() * (b - a);
                within.push((b, mass));
            }
            // Midpoints: cells are 1e-3 of the structure's size, and so the error is below 1e-6
            // of the mass in smooth parts; where cells are coarser there is no mass.
            assert!((mass - 1.0).abs() < 1e-4, "m = {m}, κ = {kappa}: mass {mass}");
            let mut angles: Vec<f64> = drawn
                .iter()
                .map(|x| x[..m - 1].iter().map(|x| x * x).sum::<f64>().sqrt().atan2(x[m - 1]))
                .collect();
            angles.sort_by(f64::total_cmp);
            let off = |(angle, expected): &(f64, f64)| {
                let found = angles.partition_point(|a| a <= angle) as f64 / n as f64;
                (found - expected).abs()
            };
            let worst = within.iter().map(off).fold(0.0, f64::max);
            // Kolmogorov: exceeded with probability 1e-4.
            let allowed = 2.23 / (n as f64).sqrt() + 1e-4;
            assert!(worst < allowed, "m = {m}, κ = {kappa}: {worst}");
            let right = drawn.iter().filter(|x| x[0] > 0.0).count() as f64 / n as f64;
            // Four standard errors of a share of one half.
            assert!((right - 0.5).abs() < 2.0 / (n as f64).sqrt(), "m = {m}, κ = {kappa}: {right}");
        }
    }
}

/// A mixture that is trained in a moment.
fn quick(components: usize, steps: u64) -> Mops {
    let train = TrainChoices {
        batch: Some(256),
        validations: Some(10),
        steps: Some(steps),
        ..TrainChoices::default()
    };
    Mops { train, ..Mops::default() }.components(components)
}

fn mean_log_p(model: &(impl Density + ?Sized), points: &Points) -> f64 {
    let log_p = model.log_density(points.rows()).unwrap();
    log_p.iter().sum::<f64>() / log_p.len() as f64
}

#[test]
fn densities_have_mass_one() {
    // The trapezoidal rule of periodic functions converges faster than any power: with κ ≲ 1e3 the
    // spread is 9 cells and more, and its error below 1e-12. On S² latitudes are midpoints, whose
    // error is h²/24 of the change of p sin θ's slope at the poles, below 1e-5 here.
    let cells = 600;
    let h = TAU / f64::from(cells);
    let torus = fit(&Points::synthetic("torus-mixture", 800, 1).unwrap(), quick(20, 60)).unwrap();
    let sphere = fit(&Points::synthetic("sphere-mixture", 800, 1).unwrap(), quick(20, 60)).unwrap();
    let (mut on_torus, mut on_sphere, mut areas) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..cells {
        let (sin, cos) = (h * f64::from(i)).sin_cos();
        for j in 0..cells {
            let (b, a) = (h * f64::from(j)).sin_cos();
            on_torus.extend([cos, sin, a, b]);
            if j % 2 == 0 {
                let (radius, height) = (0.5 * h * (f64::from(j) + 1.0)).sin_cos();
                on_sphere.extend([radius * cos, radius * sin, height]);
                areas.push(h * h * radius);
            }
        }
    }
    let log_p = torus.log_density(Rows::new(&on_torus, 4).unwrap()).unwrap();
    let mass: f64 = log_p.iter().map(|v| v.exp()).sum::<f64>() * h * h;
    assert!((mass - 1.0).abs() < 1e-9, "T²: {mass}");
    let log_p = sphere.log_density(Rows::new(&on_sphere, 3).unwrap()).unwrap();
    let mass: f64 = log_p.iter().zip(&areas).map(|(v, area)| v.exp() * area).sum();
    assert!((mass - 1.0).abs() < 1e-4, "S²: {mass}");
}

/// On a product, by importance sampling from the uniform distribution.
#[test]
fn densities_on_products_have_mass_one() {
    let manifold = parse("sphere:1*sphere:2").unwrap();
    let draw = |n: usize, purpose: &str| -> Vec<f64> {
        let prior = default_prior(&manifold).unwrap();
        let streams = Streams::new(5, purpose);
        let mut x = vec![0.0; n * 5];
        for (row, x) in x.chunks_exact_mut(5).enumerate() {
            prior.sample(&mut streams.stream(row as u64, 0), x).unwrap();
        }
        x
    };
    let points = Points::on(manifold.clone(), draw(300, "data")).unwrap();
    let model = fit(&points, quick(6, 40)).unwrap();
    let x = draw(40_000, "uniform");
    let log_p = model.log_density(Rows::new(&x, 5).unwrap()).unwrap();
    let log_volume = sphere_log_volume(1) + sphere_log_volume(2);
    let (mass, se) = mean_se(log_p.iter().map(|v| (v + log_volume).exp()));
    // Unbiased; four standard errors.
    assert!((mass - 1.0).abs() < 4.0 * se, "{mass} ± {se}");
    assert!(se < 0.02, "{se} says too little");
    // Its own draws, checked the other way round: E_p[u/p] = 1 for the uniform density u.
    let drawn = model.sample(20_000, 3).unwrap();
    let log_p = model.log_density(Rows::new(&drawn, 5).unwrap()).unwrap();
    let (mass, se) = mean_se(log_p.iter().map(|v| (-v - log_volume).exp()));
    assert!((mass - 1.0).abs() < 4.0 * se && se < 0.05, "{mass} ± {se}");
}

/// Known densities within 0.1 nats of what can be reached, with few components in a few hundred
/// steps.
#[test]
fn mixtures_recover_generated_sets() {
    for (name, components) in [("sphere-mixture", 24), ("torus-mixture", 24)] {
        let points = Points::synthetic(name, 4000, 2).unwrap();
        let test = Points::synthetic(name, 4000, 77).unwrap();
        let set = Synthetic::new(name).unwrap();
        let model = fit(&points, quick(components, 400)).unwrap();
        let log_p = model.log_density(test.rows()).unwrap();
        let off = test.rows().rows().zip(&log_p).map(|(x, log_p)| set.log_density(x) - log_p);
        // The mean is a Kullback–Leibler divergence, so not below 0.
        let (loss, se) = mean_se(off.collect::<Vec<_>>().into_iter());
        assert!(loss < 0.1 && loss > -4.0 * se, "{name}: {loss} ± {se}");
    }
}

#[test]
fn the_likelihood_of_the_training_points_rises() {
    let points = Points::synthetic("sphere-multiscale", 1200, 4).unwrap();
    let validation = Points::synthetic("sphere-multiscale", 300, 5).unwrap();
    let after = |steps: u64| {
        let mops = quick(100, steps);
        let train = TrainChoices { validations: Some(1), smoothing: Some(0.0), ..mops.train };
        let request: Request = Mops { train, ..mops }.into();
        let done = Fit::new(request).validation(validation.clone()).run(&points).unwrap();
        assert_eq!(done.outcome.steps, steps);
        mean_log_p(done.model.as_ref(), &points)
    };
    let found: Vec<f64> = [1, 30, 200].into_iter().map(after).collect();
    assert!(found[1] > found[0] + 0.05 && found[2] > found[1] + 0.02, "{found:?}");
}

#[test]
fn threads_do_not_change_a_bit() {
    let points = Points::synthetic("torus-mixture", 500, 6).unwrap();
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| fit(&points, quick(100, 25)).unwrap().files().unwrap())
    };
    let one = on(1);
    for threads in [2, 3] {
        assert!(one == on(threads), "{threads} threads");
    }
}

/// Components on points that all are the same stop at the largest κ.
#[test]
fn repeated_points_do_not_make_infinities() {
    let place = [0.6, 0.0, 0.8];
    let points = Points::new("sphere:2", place.repeat(60)).unwrap();
    let mops = quick(4, 600);
    let train = TrainChoices { smoothing: Some(0.0), ..mops.train };
    let model = fit(&points, Mops { train, ..mops }).unwrap();
    let log_p = model.log_density(Rows::new(&place, 3).unwrap()).unwrap()[0];
    let highest = -PowerSpherical::log_norm(3, 1e7);
    assert!(log_p > highest - 1.0 && log_p <= highest + 1e-6, "{log_p} {highest}");
    let drawn = model.sample(20, 1).unwrap();
    assert!(drawn.iter().all(|x| x.is_finite()));
}

#[test]
fn wrong_choices_get_one_clear_sentence() {
    let points = Points::synthetic("sphere-mixture", 60, 1).unwrap();
    let sentence = |mops: Mops| fit(&points, mops).unwrap_err().to_string();
    assert_eq!(sentence(quick(0, 5)), "components = 0 is not allowed; at least 1");
    assert_eq!(sentence(quick(5, 0)), "train.steps = 0 is not allowed; at least 1");
    let train = TrainChoices { smoothing: Some(-1.0), ..TrainChoices::default() };
    let wrong = sentence(Mops { train, ..Mops::default() });
    assert_eq!(wrong, "train.smoothing = -1 is not allowed; a number of at least 0");
    let wrong = sentence(Mops::default().minutes(0.0));
    assert_eq!(wrong, "train.minutes = 0 is not allowed; a number above 0");
    let plane = Points::synthetic("plane-moons", 60, 1).unwrap();
    assert_eq!(
        fit(&plane, quick(5, 5)).unwrap_err().to_string(),
        "method mops is not known on euclidean:2; it knows spheres, tori and their products"
    );
}
