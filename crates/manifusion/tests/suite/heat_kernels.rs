//! Transition kernels and scores against reference values in high precision, finite differences and
//! quadrature.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use crate::common::{golden, number, rows};
use manifusion::check::sample_points;
use manifusion::error::SolveError;
use manifusion::heat_kernel::{SphereKernel, TransitionKernel, rotation_kernel, wrapped_normal};
use manifusion::manifold::parse;
use manifusion::path::AncestralProcess;
use manifusion::prior::default_prior;
use manifusion::rng::Streams;

/// Samples fall at angles up to 5.3√s but for one in a million, in low dimension.
const REACH: f64 = 5.3;

fn relative(found: f64, expected: f64) -> f64 {
    (found - expected).abs() / expected.abs().max(1e-300)
}

/// S^d for d = 1 … 100 and s from 1e-8 to 50: relative error of the score at most 1e-6 wherever
/// samples fall; beyond, wherever the kernel does not say itself that it cannot.
#[test]
fn sphere_kernels_agree_with_the_reference() {
    let mut kernels = BTreeMap::new();
    let mut refused = 0;
    let all = rows(&golden("heat_kernel_sphere"), "rows");
    for row in &all {
        let (d, s, phi) = (number(row, "d") as usize, number(row, "s"), number(row, "phi"));
        let kernel = kernels.entry(d).or_insert_with(|| SphereKernel::new(d));
        let found = kernel.eval(s, phi);
        if found.error > 1e-6 {
            assert!(phi > REACH * s.sqrt(), "d = {d}, s = {s}, φ = {phi} is refused");
            refused += 1;
            continue;
        }
        let slope = relative(found.slope, number(row, "dlog_k"));
        assert!(slope < 1e-6, "d = {d}, s = {s}, φ = {phi}: slope off by {slope:e}");
        let log = (found.log_density - number(row, "log_k")).abs();
        // φ²/2s carries the rounding of φ itself.
        let rounding = 1e-15 * (phi * phi / s + d as f64 * 100.0);
        assert!(log < 2e-6 + rounding, "d = {d}, s = {s}, φ = {phi}: log off by {log:e}");
    }
    // The reach: all but the approach to the cut locus at small times.
    assert!(refused < all.len() / 15, "{refused} of {} refused", all.len());
}

/// In 50 and 100 dimensions samples fall around √(ds), far beyond 5.3√s: the reach covers them.
#[test]
fn high_dimensional_samples_are_within_reach() {
    for d in [20usize, 50, 100] {
        let kernel = SphereKernel::new(d);
        for k in 0..60 {
            let s = 1e-6 * 1e7f64.powf(f64::from(k) / 59.0);
            // E⟨x,y⟩ = e^{−ds/2} gives the typical angle, with a spread of about √s.
            let typical = (-0.5 * d as f64 * s).exp().acos();
            for c in [-5.0, -2.0, 0.0, 2.0, 5.0] {
                let phi = (typical + c * s.sqrt().min(0.1)).clamp(1e-9, 2.2);
                let error = kernel.eval(s, phi).error;
                assert!(error < 1e-6, "d = {d}, s = {s:e}, φ = {phi}: {error:e}");
            }
        }
    }
}

#[test]
fn rotation_kernel_agrees_with_the_reference() {
    for row in rows(&golden("heat_kernel_so3"), "rows") {
        let (s, omega) = (number(&row, "s"), number(&row, "omega"));
        let found = rotation_kernel(s, omega);
        let (log, slope) = (number(&row, "log_k"), number(&row, "dlog_k"));
        assert!(
            (found.log_density - log).abs() < 1e-11 * log.abs().max(1.0),
            "s = {s}, ω = {omega}"
        );
        assert!(relative(found.slope, slope) < 1e-8, "s = {s}, ω = {omega}");
    }
}

#[test]
fn wrapped_normal_agrees_with_the_reference() {
    for row in rows(&golden("wrapped_normal"), "rows") {
        let (s, x) = (number(&row, "s"), number(&row, "x"));
        let found = wrapped_normal(s, x);
        let (log, slope) = (number(&row, "log_p"), number(&row, "dlog_p"));
        assert!((found.log_density - log).abs() < 1e-12 * log.abs().max(1.0), "s = {s}, x = {x}");
        // Towards ±π the slope turns within s/π, so that the rounding of x counts.
        let rounding = 4e-16 * (1.0 + (PI / s).powi(2) * f64::from(x.abs() > 3.0));
        assert!((found.slope - slope).abs() < 1e-10 * slope.abs() + rounding, "s = {s}, x = {x}");
    }
}

/// K integrates to one: composite Simpson in the angle with the area of the parallel sphere.
#[test]
fn kernels_integrate_to_one() {
    let simpson = |f: &dyn Fn(f64) -> f64, end: f64| {
        let n = 4000;
        let h = end / f64::from(n);
        let weight = |i: i32| {
            if i == 0 || i == n {
                1.0
            } else if i % 2 == 1 {
                4.0
            } else {
                2.0
            }
        };
        (0..=n).map(|i| weight(i) * f(h * f64::from(i))).sum::<f64>() * h / 3.0
    };
    for d in [1usize, 2, 3, 7] {
        let kernel = SphereKernel::new(d);
        let area = manifusion::manifold::sphere_log_volume(d.max(2) - 1).exp();
        let area = if d == 1 { 2.0 } else { area };
        for s in [1e-4f64, 0.01, 0.1, 0.15, 0.3, 1.0, 5.0] {
            // Beyond nine standard deviations nothing is left, and the cut locus is avoided at
            // small times.
            let end = (9.0 * s.sqrt()).min(PI);
            let density = |phi: f64| {
                let k = kernel.eval(s, phi.max(1e-12)).log_density.exp();
                area * k * phi.sin().max(0.0).powi(d as i32 - 1)
            };
            let mass = simpson(&density, end);
            assert!((mass - 1.0).abs() < 1e-6, "S^{d}, s = {s}: {mass}");
        }
    }
    for s in [1e-3f64, 0.1, 1.9, 2.1, 20.0] {
        // Haar measure in the rotation angle: 16√2π²·(1 − cos ω)/π.
        let end = (9.0 * (s / 2.0).sqrt()).min(PI);
        let volume = 16.0 * 2f64.sqrt() * PI * PI;
        let density = |omega: f64| {
            rotation_kernel(s, omega).log_density.exp() * volume * (1.0 - omega.cos()) / PI
        };
        let mass = simpson(&density, end);
        assert!((mass - 1.0).abs() < 1e-6, "SO(3), s = {s}: {mass}");
    }
}

/// Each form hands over to the next without a step.
#[test]
fn forms_agree_where_they_meet() {
    for angle in [0.1, 1.0, 2.0, 3.0] {
        let (below, above) = (wrapped_normal(2.0 - 1e-12, angle), wrapped_normal(2.0, angle));
        assert!(relative(below.slope, above.slope) < 1e-10);
        assert!((below.log_density - above.log_density).abs() < 1e-10);
        let (below, above) = (rotation_kernel(2.0 - 1e-12, angle), rotation_kernel(2.0, angle));
        assert!(relative(below.slope, above.slope) < 1e-10);
        assert!((below.log_density - above.log_density).abs() < 1e-10);
        let three = SphereKernel::new(3);
        let (below, above) = (three.eval(1.0 - 1e-12, angle), three.eval(1.0, angle));
        assert!(relative(below.slope, above.slope) < 1e-9);
        assert!((below.log_density - above.log_density).abs() < 1e-9);
    }
}

/// The score is tangent and is the gradient of the log-density, on products as well.
#[test]
fn scores_are_gradients() {
    for spec in [
        "sphere:2",
        "sphere:1",
        "sphere:3",
        "torus:2",
        "so:3",
        "euclidean:3",
        "sphere:2*torus:1*so:3",
    ] {
        let manifold = parse(spec).unwrap();
        let prior = default_prior(&manifold).unwrap();
        let kernel = TransitionKernel::new(manifold.as_ref(), prior.as_ref()).unwrap();
        let m = manifold.ambient_dim();
        let points = sample_points(manifold.as_ref(), 8, &Streams::new(1, "score")).unwrap();
        for s in [0.3, 1.0, 3.0] {
            for pair in points.chunks_exact(2 * m) {
                let (x, y) = pair.split_at(m);
                let mut score = vec![0.0; m];
                kernel.score(x, y, s, &mut score).unwrap();
                let mut tangential = score.clone();
                manifold.project_tangent(y, &mut tangential);
                let mut frame = vec![0.0; manifold.dim() * m];
                manifold.frame(y, &mut frame);
                for e in frame.chunks_exact(m) {
                    let along = |t: f64| {
                        let mut moved: Vec<f64> = y.iter().zip(e).map(|(y, e)| y + t * e).collect();
                        manifold.project_point(&mut moved).unwrap();
                        kernel.log_density(x, &moved, s).unwrap()
                    };
                    let t = 1e-3;
                    let slope = (8.0 * (along(t) - along(-t)) - (along(2.0 * t) - along(-2.0 * t)))
                        / (12.0 * t);
                    let dot: f64 = score.iter().zip(e).map(|(a, b)| a * b).sum();
                    assert!(
                        (dot - slope).abs() < 1e-6 * (1.0 + slope.abs()),
                        "{spec}, s = {s}: {dot} {slope}"
                    );
                }
                for (a, b) in score.iter().zip(&tangential) {
                    assert!((a - b).abs() < 1e-9, "{spec}: the score is not tangent");
                }
            }
        }
    }
}

#[test]
fn what_cannot_be_known_is_refused() {
    let unknown = parse("so:4").unwrap();
    let prior = default_prior(&unknown).unwrap();
    let error = TransitionKernel::new(unknown.as_ref(), prior.as_ref()).unwrap_err().to_string();
    assert_eq!(error, "the transition kernel is not known on so:4; use the implicit loss");

    let sphere = parse("sphere:2").unwrap();
    let prior = default_prior(&sphere).unwrap();
    let kernel = TransitionKernel::new(sphere.as_ref(), prior.as_ref()).unwrap();
    let antipodal = kernel.log_density(&[0.0, 0.0, 1.0], &[0.0, 0.0, -1.0], 0.01);
    assert!(matches!(antipodal, Err(SolveError::KernelReach { .. })), "{antipodal:?}");
    assert!(kernel.log_density(&[0.0, 1.0], &[0.0, 1.0], 0.1).is_err());
    let nan = kernel.log_density(&[f64::NAN, 0.0, 1.0], &[0.0, 0.0, 1.0], 0.1);
    assert!(matches!(nan, Err(SolveError::NotFinite { .. })), "{nan:?}");
    for s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let refused = kernel.log_density(&[0.0, 0.0, 1.0], &[0.0, 1.0, 0.0], s);
        assert!(matches!(refused, Err(SolveError::Time { .. })), "s = {s}");
    }
}

/// The lineage process behind the exact sampler: distribution function and moments.
#[test]
fn ancestral_process_agrees_with_the_reference() {
    let mut by_series = 0;
    for row in rows(&golden("ancestral_process"), "rows") {
        let (theta, s) = (number(&row, "theta"), number(&row, "s"));
        let process = AncestralProcess::new(theta);
        assert_eq!(
            process.is_series(s),
            number(&row, "largest_term") < 1e6,
            "θ = {theta}, s = {s}"
        );
        if !process.is_series(s) {
            continue;
        }
        by_series += 1;
        let first = number(&row, "first") as usize;
        let mut total = 0.0;
        for (i, p) in crate::common::vector(&row, "pmf").into_iter().enumerate() {
            total += p;
            let found = process.distribution(s, first + i);
            assert!(
                (found - total).abs() < 1e-9,
                "θ = {theta}, s = {s}, m = {}: {found} {total}",
                first + i
            );
        }
    }
    assert!(by_series > 25, "{by_series}");
}
