//! Geometry against reference values computed in other ways, in high precision (`reference/`).

use std::sync::Arc;

use crate::common::{golden, number, rows, vector};
use manifusion::divergence::{Estimator, Probes};
use manifusion::manifold::{Hyperboloid, Lorentz, Manifold, Metric, Orthogonal, Stiefel, parse};
use manifusion::prior::{HyperbolicNormal, LongRun, LongRunOptions, Prior, Uniform, default_prior};
use manifusion::rng::Streams;
use manifusion::rows::Rows;
use serde_json::Value;

fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    let error = (found - expected).abs() / (1.0 + expected.abs());
    assert!(error < tolerance, "{what}: {found} instead of {expected} (off by {error:e})");
}

fn close_all(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (found, expected) in found.iter().zip(expected) {
        close(*found, *expected, tolerance, what);
    }
}

/// The string form of a row's manifold.
fn spec(row: &Value) -> String {
    let whole = |key: &str| number(row, key) as usize;
    match row["manifold"].as_str().unwrap() {
        "sphere" => format!("sphere:{}", whole("d")),
        "torus" => format!("torus:{}", whole("d")),
        "stiefel" => format!("stiefel:{},{}", whole("n"), whole("k")),
        "ellipsoid" => "level:x^2+y^2/4+z^2-1".into(),
        "torus_of_revolution" => "level:((x^2+y^2)^0.5-2)^2+z^2-0.25".into(),
        name => format!("{name}:{}", whole("n")),
    }
}

/// The reference scripts' field: with or without its sine.
fn field(x: &[f64], sine: f64) -> Vec<f64> {
    let m = x.len();
    (0..m)
        .map(|i| {
            let k = i as f64;
            (0.3 + 0.1 * k) * x[(i + 1) % m] + 0.2 * x[i] * x[i] - 0.1 * x[i] * x[(i + 2) % m]
                + 0.05 * (k + 1.0)
                + sine * (x[(i + 1) % m] + 0.5 * k).sin()
        })
        .collect()
}

fn field_derivative(x: &[f64], e: &[f64], sine: f64) -> Vec<f64> {
    let m = x.len();
    (0..m)
        .map(|i| {
            let (k, next, other) = (i as f64, (i + 1) % m, (i + 2) % m);
            (0.3 + 0.1 * k) * e[next] + 0.4 * x[i] * e[i]
                - 0.1 * (e[i] * x[other] + x[i] * e[other])
                + sine * (x[next] + 0.5 * k).cos() * e[next]
        })
        .collect()
}

fn divergence(manifold: &dyn Manifold, estimator: Estimator, x: &[f64], sine: f64) -> f64 {
    let m = x.len();
    let mut probes = Probes::default();
    probes
        .fill(manifold, estimator, Rows::new(x, m).unwrap(), &Streams::new(1, "probes"), 0, 0)
        .unwrap();
    let f = field(x, sine);
    let jf: Vec<f64> =
        probes.velocities().chunks_exact(m).flat_map(|e| field_derivative(x, e, sine)).collect();
    let mut div = [0.0];
    probes.divergence(Rows::new(&f, m).unwrap(), Rows::new(&jf, m).unwrap(), &mut div).unwrap();
    div[0]
}

#[test]
fn divergences_and_mean_curvatures() {
    for row in rows(&golden("divergence"), "rows") {
        let (spec, x) = (spec(&row), vector(&row, "x"));
        let manifold = parse(&spec).unwrap();
        close_all(&field(&x, 0.4), &vector(&row, "f"), 1e-12, &spec);
        let mut h = vec![0.0; x.len()];
        manifold.mean_curvature(&x, &mut h);
        close_all(&h, &vector(&row, "h"), 1e-9, &spec);
        for estimator in [
            Estimator::Frame,
            Estimator::RandomFrame,
            Estimator::ClosestPoint,
            Estimator::Intrinsic,
        ] {
            if estimator.check(manifold.as_ref()).is_ok() {
                let found = divergence(manifold.as_ref(), estimator, &x, 0.4);
                close(found, number(&row, "div"), 1e-8, &format!("{spec}, {estimator:?}"));
            }
        }
    }
}

#[test]
fn volumes() {
    for row in rows(&golden("volumes"), "rows") {
        let spec = spec(&row);
        // The string form of k = n is o:N; the type has it still.
        let square = spec.strip_prefix("stiefel:").and_then(|rest| rest.split_once(','));
        let square = square.filter(|(n, k)| n == k).map(|(n, _)| n.parse().unwrap());
        let manifold: Arc<dyn Manifold> = match square {
            Some(n) => Arc::new(Stiefel::new(n, n).unwrap()),
            None => parse(&spec).unwrap(),
        };
        if let Some(log_volume) = manifold.log_volume() {
            close(log_volume, number(&row, "log_volume"), 1e-13, &spec);
        } else {
            assert!(spec.starts_with("level"), "{spec} has no volume");
        }
    }
}

/// The long run's area of the ellipsoid, within 4 of its own standard errors, which must be small.
#[test]
fn a_long_run_finds_the_area_of_the_ellipsoid() {
    let all = rows(&golden("volumes"), "rows");
    let row = all.iter().find(|row| row["manifold"] == "ellipsoid").unwrap();
    let manifold = parse(&spec(row)).unwrap();
    let options = LongRunOptions { points: 8000, ..LongRunOptions::default() };
    let run = LongRun::new(Arc::clone(&manifold), options).unwrap();
    let (log_volume, se) = run.log_volume();
    assert!(se < 0.05, "standard error {se}");
    assert!((log_volume - number(row, "log_volume")).abs() < 4.0 * se, "{log_volume} ± {se}");
    // Its draws: E y² on the ellipsoid, by quadrature of the area element, is 1.5226 (semi-axes 1,
    // 2, 1).
    let n = 4000;
    let streams = Streams::new(3, "draws");
    let squares: Vec<f64> = (0..n)
        .map(|i| {
            let mut x = [0.0; 3];
            run.sample(&mut streams.stream(i, 0), &mut x).unwrap();
            assert!(manifold.check_point(&x).is_ok());
            x[1] * x[1]
        })
        .collect();
    let (mean, se) = crate::common::mean_se(squares.iter().copied());
    let expected = mean_square_of_long_axis();
    // Draws start from a pool that is itself correlated: twice the standard error.
    assert!((mean - expected).abs() < 8.0 * se, "E y² = {mean} ± {se}, expected {expected}");
}

/// Unit spheres as level sets: no bias from counting a patch's own centre, and a refusal where the
/// dimension leaves too few points in patches.
#[test]
fn a_long_run_is_honest_in_higher_dimension() {
    let sphere = |d: usize| {
        let squares: Vec<String> = (1..=d + 1).map(|i| format!("x{i}^2")).collect();
        parse(&format!("level:{}-1", squares.join("+"))).unwrap()
    };
    for d in [3, 5] {
        let run = LongRun::new(sphere(d), LongRunOptions::default()).unwrap();
        let (log_volume, se) = run.log_volume();
        let exact = manifusion::manifold::sphere_log_volume(d);
        assert!(
            (log_volume - exact).abs() < 4.0 * se && se < 0.1,
            "S^{d}: {log_volume} ± {se}, {exact}"
        );
    }
    let error = LongRun::new(sphere(10), LongRunOptions::default()).unwrap_err().to_string();
    assert!(error.contains("the dimension is too high"), "{error}");
    let none = LongRunOptions { points: 0, ..LongRunOptions::default() };
    assert!(
        LongRun::new(sphere(2), none)
            .unwrap_err()
            .to_string()
            .starts_with("points = 0 is not allowed")
    );
}

/// E y² under the uniform law of x² + y²/4 + z² = 1: a surface of revolution about y, y = 2 cos u,
/// radius sin u.
fn mean_square_of_long_axis() -> f64 {
    let n = 20_000;
    let (mut area, mut moment) = (0.0, 0.0);
    for i in 0..n {
        let u = std::f64::consts::PI * (f64::from(i) + 0.5) / f64::from(n);
        let element = u.sin() * (u.cos().powi(2) + 4.0 * u.sin().powi(2)).sqrt();
        area += element;
        moment += element * (2.0 * u.cos()).powi(2);
    }
    moment / area
}

#[test]
fn polar_factors() {
    for row in rows(&golden("polar"), "rows") {
        let (n, k) = (number(&row, "rows") as usize, number(&row, "cols") as usize);
        let (a, sigma) = (vector(&row, "a"), vector(&row, "sigma"));
        let kind = row["kind"].as_str().unwrap();
        // What double precision can reach, from the reference; the refusal below 1e-13 is checked
        // too.
        let reach = |gap: f64| 2e-14 * sigma[0] / gap;
        let singular = sigma[k - 1] / sigma[0] < 1e-13;
        let manifold = if n == k { format!("o:{n}") } else { format!("stiefel:{n},{k}") };
        let mut x = a.clone();
        match parse(&manifold).unwrap().project_point(&mut x) {
            Ok(()) => close_all(
                &x,
                &vector(&row, "polar"),
                reach(number(&row, "gap_polar")).max(1e-14),
                kind,
            ),
            Err(error) => assert!(singular, "{kind}: {error}"),
        }
        if n == k && number(&row, "gap_rotation") > 1e-9 * sigma[0] && !singular {
            let mut x = a.clone();
            Orthogonal::special(n).unwrap().project_point(&mut x).unwrap();
            close_all(
                &x,
                &vector(&row, "rotation"),
                reach(number(&row, "gap_rotation")).max(1e-14),
                kind,
            );
        }
    }
}

#[test]
fn hyperbolic_prior_curvature_and_divergences() {
    for row in rows(&golden("hyperbolic_prior"), "points") {
        let (d, k, y) = (number(&row, "d") as usize, number(&row, "k"), vector(&row, "y"));
        let space = Hyperboloid::new(d, k).unwrap();
        let prior = HyperbolicNormal::new(space);
        let mut x = vec![space.height(&y)];
        x.extend_from_slice(&y);
        let what = format!("d = {d}, K = {k}, y = {y:?}");
        close(prior.log_density(&x), number(&row, "log_p0"), 1e-12, &what);
        let (mut u0, mut h) = (vec![0.0; d + 1], vec![0.0; d + 1]);
        prior.drift(&x, &mut u0);
        close_all(&u0, &vector(&row, "u0"), 1e-12, &what);
        close(prior.drift_divergence(&x), number(&row, "div_u0"), 1e-11, &what);
        space.mean_curvature(&x, &mut h);
        close_all(&h, &vector(&row, "h"), 1e-12, &what);
        close(space.log_area_euclid(&x), number(&row, "half_log_ge"), 1e-13, &what);
        close(space.log_area_lorentz(&x), number(&row, "half_log_gl"), 1e-13, &what);
        let ratio = number(&row, "half_log_ge") - number(&row, "half_log_gl");
        close(space.log_lorentz_over_euclid(&x), ratio, 1e-13, &what);
        let euclid = divergence(&space, Estimator::Frame, &x, 0.0);
        close(euclid, number(&row, "div_e"), 1e-10, &what);
        let mut tangent = field(&x, 0.0);
        space.project_tangent(&x, &mut tangent);
        let lorentz = Lorentz::new(d, k).unwrap();
        let found = lorentz.divergence_from_euclid(&x, &tangent, euclid);
        close(found, number(&row, "div_le"), 1e-10, &what);
        // In internal coordinates, by differences of the chart components ṽ(y) of the same field.
        let flat: f64 = (0..d)
            .map(|i| {
                let component = |t: f64| {
                    let mut moved = y.clone();
                    moved[i] += t;
                    let mut x = vec![space.height(&moved)];
                    x.extend_from_slice(&moved);
                    let mut v = field(&x, 0.0);
                    space.project_tangent(&x, &mut v);
                    v[1 + i]
                };
                let t = 1e-3 * (1.0 + y[i].abs());
                (8.0 * (component(t) - component(-t)) - (component(2.0 * t) - component(-2.0 * t)))
                    / (12.0 * t)
            })
            .sum();
        let found = lorentz.divergence_from_chart(&x, &tangent, flat);
        close(found, number(&row, "div_le"), 1e-7, &what);
    }
}

/// With g_L: the divergence from coefficients and the frame's own divergences is that of the
/// velocities in internal coordinates; U₀ is half the gradient of log p₀, and its divergence that
/// of its velocities.
#[test]
fn the_lorentz_metric_has_its_own_divergence_and_prior() {
    for (d, k) in [(1, -1.0), (2, -1.0), (3, -0.5), (4, -3.0)] {
        let space = Hyperboloid::new(d, k).unwrap().with_metric(Metric::Lorentz);
        let lorentz = Lorentz::on(space);
        let manifold: Arc<dyn Manifold> = Arc::new(space);
        let prior = default_prior(&manifold).unwrap();
        let streams = Streams::new(5, "lorentz-points");
        for row in 0..12 {
            let size = [1e-9, 3e-3, 0.3, 1.0, 3.0, 20.0][row % 6];
            let mut y = vec![0.0; d];
            streams.fill_normal(row as u64, d as u64, 0, &mut y);
            for y in &mut y {
                *y *= size;
            }
            let point = |y: &[f64]| [&[space.height(y)], y].concat();
            let x = point(&y);
            let what = format!("d = {d}, K = {k}, y = {y:?}");
            // ∂f/∂yᵢ, by differences of fourth order.
            let slope = |f: &dyn Fn(&[f64]) -> f64, i: usize| {
                let h = 1e-3 * (1.0 + y[i].abs());
                let at = |t: f64| {
                    let mut moved = y.clone();
                    moved[i] += t * h;
                    f(&point(&moved))
                };
                (8.0 * (at(1.0) - at(-1.0)) - (at(2.0) - at(-2.0))) / (12.0 * h)
            };
            let drift = |x: &[f64]| {
                let mut u = vec![0.0; d + 1];
                prior.drift(x, &mut u);
                u
            };
            let chart_divergence = |coefficients: &dyn Fn(&[f64]) -> Vec<f64>| {
                let velocity = |x: &[f64]| {
                    let mut u = coefficients(x);
                    u[0] = 0.0;
                    space.velocity(x, &mut u);
                    u
                };
                let flat: f64 = (0..d).map(|i| slope(&|x| velocity(x)[1 + i], i)).sum();
                lorentz.divergence_from_chart(&x, &velocity(&x), flat)
            };
            let found = divergence(&space, Estimator::Frame, &x, 0.0);
            close(found, chart_divergence(&|x| field(x, 0.0)), 1e-7, &what);
            close(prior.drift_divergence(&x), chart_divergence(&drift), 1e-7, &what);
            // ⟨U₀, e_j⟩ = ½ V_j(log p₀).
            let gradient: Vec<f64> = (0..d).map(|i| slope(&|x| prior.log_density(x), i)).collect();
            for j in 0..d {
                let mut e = vec![0.0; d + 1];
                e[1 + j] = 1.0;
                space.velocity(&x, &mut e);
                let along: f64 = gradient.iter().zip(&e[1..]).map(|(g, e)| g * e).sum();
                close(drift(&x)[1 + j], 0.5 * along, 1e-7, &what);
            }
        }
    }
}

#[test]
fn hyperbolic_maps_and_closest_points() {
    let file = golden("hyperbolic_prior");
    for row in rows(&file, "maps") {
        let (d, k) = (number(&row, "d") as usize, number(&row, "k"));
        let space = Lorentz::new(d, k).unwrap();
        let what = format!("d = {d}, K = {k}");
        let (v, w) = (vector(&row, "v"), vector(&row, "w"));
        let (mut x, mut z) = (vec![0.0; d + 1], vec![0.0; d + 1]);
        space.exp_origin(&v, &mut x);
        space.exp_origin(&w, &mut z);
        close_all(&x, &vector(&row, "exp_v"), 1e-13, &what);
        close_all(&z, &vector(&row, "exp_w"), 1e-13, &what);
        let mut back = vec![0.0; d];
        space.log_origin(&x, &mut back);
        close_all(&back, &v, 1e-12, &what);
        // Coordinates grow like e^r, and so does what their rounding does to distances.
        let size = x[0].max(z[0]);
        close(space.distance(&x, &z), number(&row, "dist_vw"), 1e-14 * size * size + 1e-12, &what);
        let mut round = vec![0.0; d];
        let distance = space.log_transported(&z, &x, &mut round);
        close(distance, number(&row, "dist_vw"), 1e-14 * size * size + 1e-12, &what);
        if size < 50.0 {
            let mut again = vec![0.0; d + 1];
            space.exp_transported(&z, &round, &mut again);
            close_all(&again, &x, 1e-10, &what);
        }
    }
    for row in rows(&file, "closest") {
        let (d, k) = (number(&row, "d") as usize, number(&row, "k"));
        let space = Hyperboloid::new(d, k).unwrap().with_closest_point();
        let mut x = vector(&row, "q");
        if x[0] <= 0.0 {
            assert!(space.project_point(&mut x).is_err());
            continue;
        }
        let what = format!("d = {d}, K = {k}, q = {x:?}");
        match space.project_point(&mut x) {
            Ok(()) => close_all(&x, &vector(&row, "x"), 1e-10, &what),
            // Refused only on the axis, where the closest point is not unique.
            Err(error) => assert!(x[1..].iter().all(|v| v.abs() < 1e-9), "{what}: {error}"),
        }
    }
}

/// The wrapped normal integrates to one over H² (polar coordinates about its mean) and its draws
/// have its entropy.
#[test]
fn wrapped_normals_are_normalised() {
    for k in [-1.0, -0.5] {
        let space = Lorentz::new(2, k).unwrap();
        let root = (-k).sqrt();
        let (mut mu, std) = (vec![0.0; 3], [0.5, 0.9]);
        space.exp_origin(&[0.7, -0.4], &mut mu);
        let (n, m) = (2000, 160);
        let mut mass = 0.0;
        for i in 0..n {
            let r = 8.0 * (f64::from(i) + 0.5) / f64::from(n);
            for j in 0..m {
                let angle = std::f64::consts::TAU * f64::from(j) / f64::from(m);
                let mut x = vec![0.0; 3];
                space.exp_transported(&mu, &[r * angle.cos(), r * angle.sin()], &mut x);
                let density = space.wrapped_normal_log_density(&mu, &std, &x).exp();
                mass += density * (root * r).sinh() / root;
            }
        }
        mass *= 8.0 / f64::from(n) * std::f64::consts::TAU / f64::from(m);
        close(mass, 1.0, 1e-6, "mass");
        let streams = Streams::new(2, "wrapped");
        let values: Vec<f64> = (0..20_000)
            .map(|i| {
                let mut x = vec![0.0; 3];
                space.sample_wrapped_normal(&mu, &std, &mut streams.stream(i, 0), &mut x);
                space.wrapped_normal_log_density(&mu, &std, &x)
            })
            .collect();
        // E log p = −entropy of N(0, Σ) − E log(sinh r/r).
        let gauss = -(1.0 + std::f64::consts::TAU.ln() + (std[0] * std[1]).ln());
        let jacobian: Vec<f64> = (0..20_000)
            .map(|i| {
                let mut stream = streams.stream(i, 1);
                let r = (std[0] * stream.normal()).hypot(std[1] * stream.normal());
                space.log_exp_jacobian(r)
            })
            .collect();
        let ((mean, se), (shift, shift_se)) = (
            crate::common::mean_se(values.iter().copied()),
            crate::common::mean_se(jacobian.iter().copied()),
        );
        assert!(
            (mean - (gauss - shift)).abs() < 4.0 * se.hypot(shift_se),
            "{mean} {}",
            gauss - shift
        );
    }
}

/// Uniform laws: mean zero and second moments of a Haar matrix, and the weights of O(n)'s
/// components.
#[test]
fn uniform_laws_have_their_moments() {
    for spec in ["sphere:2", "sphere:6", "torus:2", "so:3", "so:4", "o:3", "stiefel:4,2"] {
        let manifold = parse(spec).unwrap();
        let uniform = Uniform::new(Arc::clone(&manifold)).unwrap();
        let (m, n) = (manifold.ambient_dim(), 20_000);
        let streams = Streams::new(4, "uniform");
        let mut x = vec![0.0; n * m];
        for (i, x) in x.chunks_exact_mut(m).enumerate() {
            uniform.sample(&mut streams.stream(i as u64, 0), x).unwrap();
            assert!(manifold.check_point(x).is_ok());
        }
        let size: f64 = x[..m].iter().map(|v| v * v).sum();
        for i in 0..m {
            let (mean, se) = crate::common::mean_se(x.chunks_exact(m).map(|x| x[i]));
            assert!(mean.abs() < 4.5 * se, "{spec}: E x_{i} = {mean} ± {se}");
            let (square, se) = crate::common::mean_se(x.chunks_exact(m).map(|x| x[i] * x[i]));
            assert!((square - size / m as f64).abs() < 4.5 * se, "{spec}: E x_{i}² = {square}");
        }
        close(uniform.log_density(&x[..m]), -manifold.log_volume().unwrap(), 1e-14, spec);
    }
    let group = parse("o:3").unwrap();
    let weighted = Uniform::new(Arc::clone(&group)).unwrap().with_rotation_share(0.9).unwrap();
    let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    close(
        weighted.log_density(&identity),
        1.8f64.ln() - group.log_volume().unwrap(),
        1e-14,
        "share",
    );
    let streams = Streams::new(5, "weighted");
    let rotations = (0..10_000)
        .filter(|&i| {
            let mut x = [0.0; 9];
            weighted.sample(&mut streams.stream(i, 0), &mut x).unwrap();
            parse("so:3").unwrap().check_point(&x).is_ok()
        })
        .count();
    assert!((rotations as f64 / 1e4 - 0.9).abs() < 4.0 * 0.003, "{rotations}");
    assert!(Uniform::new(parse("sphere:2").unwrap()).unwrap().with_rotation_share(0.5).is_err());
    assert!(Uniform::new(parse("hyperbolic:2").unwrap()).is_err());
}
