//! The floor of Moser flow.

use manifusion::Points;
use manifusion::methods::network::Recipe;
use manifusion::methods::{Geometry, Moser, MoserMethod, MoserRecipe, Task};
use manifusion::train::Objective;
use manifusion::watch::Watch;

/// max(ε, NaN) is ε: a network that has broken down must not pass for one at the floor.
#[test]
fn a_broken_network_is_no_density_at_the_floor() {
    let points = Points::synthetic("sphere-mixture", 60, 1).unwrap();
    let geometry = Geometry::of(points.manifold()).unwrap();
    let (method, watch) = (MoserMethod::NEW, Watch::default());
    let task =
        Task::new(&method, &serde_json::Value::Null, geometry, points.clone(), points, 1, watch)
            .unwrap();
    let mut choices = Moser::default().steps(5);
    (choices.net.width, choices.net.depth) = (Some(16), Some(2));
    let settings = MoserRecipe::resolve(&choices, &task).unwrap();
    let trainer = MoserRecipe::trainer(&task, &settings, 1).unwrap();
    let broken = vec![f32::NAN; trainer.net().params().len()];
    let net = trainer.net_with(&broken).unwrap();
    let mut objective = trainer.into_objective();
    objective.draw(0).unwrap();
    let (mut workspace, mut losses) = (net.train_workspace(1), vec![0.0; objective.rows()]);
    let refused = objective.gradient(&net, &mut workspace, &mut losses).unwrap_err();
    assert!(refused.to_string().contains("NaN"), "{refused}");
}
