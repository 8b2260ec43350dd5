//! Expectation–maximisation of parametric mixtures.

use manifusion::data::Synthetic;
use manifusion::directional::{Kent, VonMisesFisher};
use manifusion::internals::{Component, expected, maximised};
use manifusion::rows::Rows;

fn objective_rises<C: Component>() {
    let set = Synthetic::new("sphere-mixture").unwrap();
    let x = set.sample(600, 1).unwrap();
    let x = Rows::new(&x, 3).unwrap();
    let n = x.len();
    // Far from a solution: every component owns every fifth point.
    let mut responsibility: Vec<f64> =
        (0..5 * n).map(|i| if (i % n) % 5 == i / n { 1.0 } else { 0.0 }).collect();
    let mut mixture = maximised::<C>(x, &responsibility, None);
    let mut trace = Vec::new();
    for _ in 0..60 {
        trace.push(expected(&mixture, x, &mut responsibility));
        mixture = maximised(x, &responsibility, Some(&mixture));
    }
    for pair in trace.windows(2) {
        assert!(pair[1] >= pair[0] - 1e-9, "{pair:?} in {trace:?}");
    }
    assert!(trace[59] > trace[0] + 0.05, "{trace:?}");
}

#[test]
fn the_objective_never_falls() {
    objective_rises::<VonMisesFisher>();
    objective_rises::<Kent>();
}
