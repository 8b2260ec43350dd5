//! The gradient of ∇·v + ⟨α, v⟩ against differences.

use manifusion::divergence::Estimator;
use manifusion::field::FieldValues;
use manifusion::internals::{Places, Transport, axpy, dot};
use manifusion::manifold::{Manifold, parse};
use manifusion::nn::{Activation, Mlp, NetConfig, TimeConditioning};
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::Rows;

/// F by the ordinary divergence, at one point.
fn value(manifold: &dyn Manifold, net: &Mlp<f32>, x: &[f64], alpha: &[f64]) -> f64 {
    let mut values = FieldValues::new(Estimator::Frame);
    let rows = Rows::new(x, x.len()).unwrap();
    let probes = Streams::new(0, "none");
    values.evaluate(manifold, net, &[0], rows, &[0.3], &probes).unwrap();
    let mut moved = values.a.clone();
    manifold.velocity(x, &mut moved);
    values.div[0] + dot(alpha, &moved)
}

#[test]
fn the_gradient_is_that_of_the_divergence_and_the_product() {
    for spec in [
        "sphere:2",
        "sphere:3",
        "torus:2",
        "so:3",
        "hyperbolic:2",
        "hyperbolic:2,metric=lorentz",
        "euclidean:2",
        "sphere:2*torus:1",
    ] {
        let manifold = parse(spec).unwrap();
        let m = manifold.ambient_dim();
        let config = NetConfig {
            ambient_dim: m,
            depth: 2,
            width: 16,
            activation: Activation::Swish,
            time: TimeConditioning::Concat,
            ..NetConfig::paper_torus(m)
        };
        let net = Mlp::<f32>::new(config, 3).unwrap();
        let mut workspace = net.train_workspace(2);
        let prior = default_prior(&manifold).unwrap();
        let n = 5;
        let (mut x, mut alpha) = (vec![0.0; n * m], vec![0.0; n * m]);
        let streams = Streams::new(9, "transport");
        for (i, (x, alpha)) in x.chunks_exact_mut(m).zip(alpha.chunks_exact_mut(m)).enumerate() {
            prior.sample(&mut streams.stream(i as u64, 0), x).unwrap();
            streams.fill_normal(i as u64, 1, 0, alpha);
            manifold.project_tangent(x, alpha);
        }
        let rows = Rows::new(&x, m).unwrap();
        let mut transport = Transport::default();
        let s = vec![0.3; n];
        let places = Places { x: rows, s: &s, alpha: &alpha };
        transport.eval(manifold.as_ref(), &net, places, 0.7, &mut workspace).unwrap();
        for (i, x) in rows.rows().enumerate() {
            let (own, d) = (i * m..(i + 1) * m, manifold.dim());
            let alpha = &alpha[own.clone()];
            let mut frame = vec![0.0; d * m];
            manifold.frame(x, &mut frame);
            let plain = value(manifold.as_ref(), &net, x, &vec![0.0; m]);
            let found = transport.divergence[i];
            assert!((found - plain).abs() < 1e-4 * (1.0 + plain.abs()), "{spec}: {found} {plain}");
            for e in frame.chunks_exact(m) {
                let h = 3e-3;
                let at = |t: f64| {
                    let mut place = x.to_vec();
                    axpy(t, e, &mut place);
                    manifold.project_point(&mut place).unwrap();
                    value(manifold.as_ref(), &net, &place, alpha)
                };
                let slope = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
                let found = dot(&transport.gradient[own.clone()], e);
                // Single precision over the step.
                let close = 2e-3 * (1.0 + slope.abs());
                assert!((found - slope).abs() < close, "{spec}: {found} {slope}");
            }
        }
    }
}
