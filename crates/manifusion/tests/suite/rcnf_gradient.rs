//! Continuous normalising flows: the gradient of the likelihood.

use manifusion::Points;
use manifusion::checkpoint::Arrays;
use manifusion::internals;
use manifusion::methods::network::Recipe;
use manifusion::methods::{Geometry, Rcnf, RcnfMethod, RcnfRecipe, Task};
use manifusion::rng::Streams;
use manifusion::rows::Rows;
use manifusion::train::{Learner, Objective};
use manifusion::watch::Watch;

/// The gradient of the adjoint against differences of the exact likelihood.
#[test]
fn the_gradient_is_that_of_the_likelihood() {
    for (set, spec) in [
        ("sphere-mixture", None),
        ("torus-mixture", None),
        ("hyperbolic-wrapped", None),
        ("hyperbolic-wrapped", Some("hyperbolic:2")),
    ] {
        let points = Points::synthetic(set, 64, 1).unwrap();
        let points = match spec {
            Some(spec) => Points::new(spec, points.coordinates().to_vec()).unwrap(),
            None => points,
        };
        let geometry = Geometry::of(points.manifold()).unwrap();
        let method = RcnfMethod::NEW;
        let validation = points.clone();
        let train = points.clone();
        let task = Task::new(
            &method,
            &serde_json::Value::Null,
            geometry,
            train,
            validation,
            1,
            Watch::default(),
        )
        .unwrap();
        let mut choices = Rcnf::default().steps(10);
        choices.net.width = Some(16);
        choices.net.depth = Some(2);
        choices.net.zero_output = Some(false);
        choices.train.batch = Some(48);
        choices.model.solver_steps = Some(64);
        choices.model.smoothness = Some(0.0);
        let settings = RcnfRecipe::resolve(&choices, &task).unwrap();
        let mut trainer = RcnfRecipe::trainer(&task, &settings, 3).unwrap();
        // A step sets ActNorm.
        trainer.step().unwrap();
        let net = trainer.net().clone();
        let mut objective = RcnfRecipe::trainer(&task, &settings, 3).unwrap().into_objective();
        let mut as_kept = Arrays::default();
        as_kept.values.insert("solver_steps".into(), 64.into());
        objective.restore(&mut as_kept).unwrap();
        objective.draw(7).unwrap();
        let x = objective.input().unwrap().x.as_slice().to_vec();
        let mut workspace = net.train_workspace(2);
        let mut losses = vec![0.0; 48];
        let loss = objective.gradient(&net, &mut workspace, &mut losses).unwrap();
        let m = points.manifold().ambient_dim();
        let exact = |params: &[f32]| {
            let mut net = net.clone();
            net.set_params(params).unwrap();
            let density = objective.density(net, 1e-8).unwrap();
            let log_p = density.log_density(Rows::new(&x, m).unwrap()).unwrap();
            -log_p.iter().sum::<f64>() / log_p.len() as f64
        };
        let value = exact(net.params());
        assert!((loss - value).abs() < 1e-3, "{set} {spec:?}: {loss} {value}");
        let gradient = workspace.gradient().to_vec();
        let length = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
        let streams = Streams::new(5, "directions");
        for k in 0..3 {
            // Along the gradient, and along random directions.
            let mut direction = vec![0.0; gradient.len()];
            if k == 0 {
                for (d, g) in direction.iter_mut().zip(&gradient) {
                    *d = f64::from(*g) / length;
                }
            } else {
                streams.fill_normal(k, 0, 0, &mut direction);
                let norm = internals::norm(&direction);
                internals::scale(1.0 / norm, &mut direction);
            }
            let along: f64 = direction.iter().zip(&gradient).map(|(d, g)| d * f64::from(*g)).sum();
            let at = |t: f64| {
                let moved: Vec<f32> = net
                    .params()
                    .iter()
                    .zip(&direction)
                    .map(|(p, d)| (f64::from(*p) + t * d) as f32)
                    .collect();
                exact(&moved)
            };
            let t = 1e-2;
            let slope = (at(t) - at(-t)) / (2.0 * t);
            let close = 5e-3 * length;
            assert!((along - slope).abs() < close, "{set} {spec:?}: {along} {slope} {length}");
        }
    }
}
