//! The gradient of a mixture of power spherical distributions.

use manifusion::directional::PowerSpherical;
use manifusion::internals::{Learning, sphere_blocks};
use manifusion::linalg::log_sum_exp;
use manifusion::manifold::parse;
use manifusion::methods::mops::{Mops, TrainChoices};
use manifusion::rng::Streams;
use manifusion::rows::Rows;

/// A mixture in learning, and its points.
fn learning(spec: &str) -> (Learning, Vec<f64>) {
    let manifold = parse(spec).unwrap();
    let m = manifold.ambient_dim();
    let mut data = vec![0.0; 40 * m];
    let streams = Streams::new(8, "data");
    for (row, x) in data.chunks_exact_mut(m).enumerate() {
        let mut stream = streams.stream(row as u64, 0);
        x.fill_with(|| 1.0 + stream.normal());
        manifold.project_point(x).unwrap();
    }
    let train = TrainChoices {
        steps: Some(9),
        batch: Some(40),
        smoothing: Some(0.0),
        ..TrainChoices::default()
    };
    let settings = Mops { components: Some(11), train }.resolved(40);
    let blocks = sphere_blocks(manifold.as_ref()).unwrap();
    let x = Rows::new(&data, m).unwrap();
    (Learning::new(manifold, blocks, x, None, &settings, 3).unwrap(), data)
}

/// The mean of −log p, from the distributions themselves.
fn objective(learning: &Learning, data: &[f64]) -> f64 {
    let components = learning.components();
    let (m, blocks) = (components.width(), components.blocks.len());
    let n = data.len() / m;
    let one = |k: usize, x: &[f64]| {
        let (mut log_p, mut from) = (components.weights[k].ln(), 0);
        for (block, width) in components.blocks.iter().enumerate() {
            let mean = components.means[k * m + from..k * m + from + width].to_vec();
            let kappa = components.concentrations[k * blocks + block];
            log_p += PowerSpherical::new(mean, kappa).log_density(&x[from..from + width]);
            from += width;
        }
        log_p
    };
    let log_p = |x: &[f64]| {
        let terms: Vec<f64> = (0..components.weights.len()).map(|k| one(k, x)).collect();
        log_sum_exp(&terms)
    };
    -data.chunks_exact(m).map(log_p).sum::<f64>() / n as f64
}

#[test]
fn gradients_are_those_of_the_objective() {
    for spec in ["sphere:2", "sphere:3", "torus:3", "sphere:1*sphere:2"] {
        let (mut learning, data) = learning(spec);
        // Away from the start, where weights are equal.
        let streams = Streams::new(1, "perturbed");
        for (i, value) in learning.parameters_mut().iter_mut().enumerate() {
            *value += 0.3 * streams.stream(i as u64, 0).normal() as f32;
        }
        learning.draw();
        let loss = learning.loss_gradient().unwrap();
        let found = learning.gradient().to_vec();
        let scale = manifusion::optim::norm(&found);
        assert!((loss - objective(&learning, &data)).abs() < 1e-12 * (1.0 + loss.abs()));
        for i in 0..found.len() {
            let value = learning.parameters_mut()[i];
            let mut at = |moved: f32| {
                learning.parameters_mut()[i] = moved;
                (f64::from(moved), objective(&learning, &data))
            };
            let (right, left) = (at(value + 1e-3), at(value - 1e-3));
            learning.parameters_mut()[i] = value;
            let expected = (right.1 - left.1) / (right.0 - left.0);
            // The third derivative counts with h²/6 = 2e-7, single precision with 6e-8.
            let error = (f64::from(found[i]) - expected).abs();
            assert!(error < 1e-5 * scale, "{spec}, {i}: {} {expected}", found[i]);
        }
    }
}
