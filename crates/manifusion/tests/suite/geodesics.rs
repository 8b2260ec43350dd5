//! Geodesics in closed form, and divergence-free fields.

use manifusion::manifold::{Generators, Geodesics, parse};
use manifusion::prior::default_prior;
use manifusion::rng::Streams;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

const SPECS: [&str; 9] = [
    "sphere:1",
    "sphere:2",
    "sphere:5",
    "torus:3",
    "so:3",
    "euclidean:2",
    "hyperbolic:2",
    "hyperbolic:3,K=-0.5,metric=lorentz",
    "sphere:2*torus:1*so:3",
];

#[test]
fn geodesics_join_their_ends_at_constant_speed() {
    for spec in SPECS {
        let manifold = parse(spec).unwrap();
        let geodesics = Geodesics::new(manifold.as_ref()).unwrap();
        let prior = default_prior(&manifold).unwrap();
        let m = manifold.ambient_dim();
        let streams = Streams::new(5, "geodesics");
        for row in 0..20 {
            let (mut x, mut z) = (vec![0.0; m], vec![0.0; m]);
            prior.sample(&mut streams.stream(row, 0), &mut x).unwrap();
            prior.sample(&mut streams.stream(row, 1), &mut z).unwrap();
            let at = |t: f64| {
                let (mut y, mut v) = (vec![0.0; m], vec![0.0; m]);
                geodesics.between(&x, &z, t, &mut y, &mut v);
                (y, v)
            };
            assert!(distance(&at(0.0).0, &x) < 1e-7, "{spec}");
            assert!(distance(&at(1.0).0, &z) < 1e-6, "{spec}");
            let speed = norm(&at(0.5).1);
            for t in [0.1, 0.3, 0.7, 0.95] {
                let (y, v) = at(t);
                assert!(manifold.check_point(&y).is_ok(), "{spec}");
                let mut tangent = v.clone();
                manifold.project_tangent(&y, &mut tangent);
                assert!(distance(&v, &tangent) < 1e-7, "{spec}: not tangent");
                // Norms of coefficients are those of g_L, not of the Euclidean metric.
                if spec != "hyperbolic:2" {
                    assert!((norm(&v) - speed).abs() < 1e-6 * (1.0 + speed), "{spec}");
                }
                // The velocity is the derivative of the point.
                let h = 1e-5;
                let (before, after) = (at(t - h).0, at(t + h).0);
                let mut moved = v.clone();
                manifold.velocity(&y, &mut moved);
                for i in 0..m {
                    let slope = (after[i] - before[i]) / (2.0 * h);
                    let close = 1e-6 * (1.0 + norm(&moved));
                    assert!((slope - moved[i]).abs() < close, "{spec}: {slope} {}", moved[i]);
                }
            }
        }
    }
    assert!(Geodesics::new(parse("stiefel:4,2").unwrap().as_ref()).is_none());
    assert!(Geodesics::new(parse("sphere:2*o:3").unwrap().as_ref()).is_none());
}

#[test]
fn exp_follows_the_geodesic() {
    for spec in SPECS {
        let manifold = parse(spec).unwrap();
        let geodesics = Geodesics::new(manifold.as_ref()).unwrap();
        let prior = default_prior(&manifold).unwrap();
        let m = manifold.ambient_dim();
        let streams = Streams::new(6, "geodesics");
        for row in 0..20 {
            let (mut x, mut z) = (vec![0.0; m], vec![0.0; m]);
            prior.sample(&mut streams.stream(row, 0), &mut x).unwrap();
            prior.sample(&mut streams.stream(row, 1), &mut z).unwrap();
            let (mut y, mut v) = (vec![0.0; m], vec![0.0; m]);
            geodesics.between(&x, &z, 0.0, &mut y, &mut v);
            let mut end = x.clone();
            geodesics.exp(&mut end, &v);
            assert!(distance(&end, &z) < 1e-6, "{spec}: {end:?} {z:?}");
        }
    }
}

#[test]
fn half_turns_and_antipodes_have_some_geodesic() {
    let sphere = Geodesics::new(parse("sphere:2").unwrap().as_ref()).unwrap();
    let (mut y, mut v) = ([0.0; 3], [0.0; 3]);
    sphere.between(&[0.0, 0.0, 1.0], &[0.0, 0.0, -1.0], 0.5, &mut y, &mut v);
    assert!((norm(&y) - 1.0).abs() < 1e-12 && y[2].abs() < 1e-12);
    assert!((norm(&v) - std::f64::consts::PI).abs() < 1e-12);
    let rotations = Geodesics::new(parse("so:3").unwrap().as_ref()).unwrap();
    let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    for half_turn in [
        [1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, -1.0],
        [-1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, -1.0],
        [-1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0],
    ] {
        let (mut y, mut v) = ([0.0; 9], [0.0; 9]);
        rotations.between(&identity, &half_turn, 1.0, &mut y, &mut v);
        assert!(distance(&y, &half_turn) < 1e-12);
        assert!((norm(&v) - 2f64.sqrt() * std::f64::consts::PI).abs() < 1e-12);
    }
}

#[test]
fn generators_are_tangent_span_and_have_no_divergence() {
    for spec in ["sphere:1", "sphere:2", "torus:3", "so:3", "sphere:2*torus:1*so:3"] {
        let manifold = parse(spec).unwrap();
        let generators = Generators::new(manifold.as_ref()).unwrap();
        let (m, d) = (manifold.ambient_dim(), manifold.dim());
        let mut x = vec![0.0; m];
        let mut stream = Streams::new(2, "generators").stream(0, 0);
        default_prior(&manifold).unwrap().sample(&mut stream, &mut x).unwrap();
        let mut frame = vec![0.0; d * m];
        manifold.frame(&x, &mut frame);
        let (mut field, mut back) = (vec![0.0; m], vec![0.0; m]);
        for k in 0..m {
            let mut g = vec![0.0; m];
            g[k] = 1.0;
            generators.apply(&x, &g, &mut field);
            let mut tangent = field.clone();
            manifold.project_tangent(&x, &mut tangent);
            assert!(distance(&tangent, &field) < 1e-12, "{spec} {k}");
            // Σ_j ⟨e_j, V_k(e_j)⟩, V_k being linear.
            let mut trace = 0.0;
            for e in frame.chunks_exact(m) {
                let mut moved = vec![0.0; m];
                generators.apply(e, &g, &mut moved);
                trace += dot(e, &moved);
            }
            assert!(trace.abs() < 1e-12, "{spec} {k}: {trace}");
        }
        for e in frame.chunks_exact(m) {
            generators.transposed(&x, e, &mut back);
            assert!(norm(&back) > 0.5, "{spec}: {e:?} is not reached");
            let mut g = vec![0.0; m];
            Streams::new(4, "g").fill_normal(0, 0, 0, &mut g);
            generators.apply(&x, &g, &mut field);
            assert!((dot(&field, e) - dot(&g, &back)).abs() < 1e-12, "{spec}");
        }
    }
    assert!(Generators::new(parse("sphere:3").unwrap().as_ref()).is_none());
}
