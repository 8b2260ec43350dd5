//! Expectation–maximisation of parametric mixtures.

use manifusion::data::Synthetic;
use manifusion::directional::{Kent, VonMisesFisher};
use manifusion::internals::{Component, Sums, expected};
use manifusion::rows::Rows;

fn objective_rises<C: Component>() {
    let set = Synthetic::new("sphere-mixture").unwrap();
    let x = set.sample(600, 1).unwrap();
    let x = Rows::new(&x, 3).unwrap();
    // Far from a solution: every component owns every fifth point.
    let owner: Vec<usize> = (0..x.len()).map(|i| i % 5).collect();
    let mut mixture = Sums::of_owners::<C>(x, &owner, 5).maximised::<C>(None);
    let mut trace = Vec::new();
    for _ in 0..60 {
        let (objective, sums) = expected(&mixture, x);
        trace.push(objective);
        mixture = sums.maximised(Some(&mixture));
    }
    for pair in trace.windows(2) {
        assert!(pair[1] >= pair[0] - 1e-9, "{pair:?} in {trace:?}");
    }
    assert!(trace[59] > trace[0] + 0.05, "{trace:?}");
}

/// One step against sums over all points, also for components that no point belongs to.
#[test]
fn sums_are_those_of_all_points() {
    let set = Synthetic::new("sphere-mixture").unwrap();
    let x = set.sample(1300, 2).unwrap();
    let x = Rows::new(&x, 3).unwrap();
    let owner: Vec<usize> = (0..x.len()).map(|i| i % 4).collect();
    // The fifth component has no points, and keeps a weight of zero.
    let sums = Sums::of_owners::<VonMisesFisher>(x, &owner, 5);
    let before = sums.maximised::<VonMisesFisher>(None);
    let (objective, sums) = expected(&before, x);
    let after = sums.maximised(Some(&before));

    let mut log_likelihood = 0.0;
    let (mut counts, mut means) = (vec![0.0; 5], vec![[0.0; 3]; 5]);
    for x in x.rows() {
        let terms: Vec<f64> =
            (0..5).map(|k| before.weights[k] * before.components[k].log_density(x).exp()).collect();
        let p: f64 = terms.iter().sum();
        log_likelihood += p.ln();
        for k in 0..5 {
            counts[k] += terms[k] / p;
            (0..3).for_each(|i| means[k][i] += terms[k] / p * x[i]);
        }
    }
    let n = x.len() as f64;
    let norms: f64 = before.components.iter().map(VonMisesFisher::log_norm).sum();
    assert!((objective - (log_likelihood - 0.001 * norms) / n).abs() < 1e-12, "{objective}");
    for k in 0..5 {
        assert!((after.weights[k] - counts[k] / n).abs() < 1e-12, "{k}");
        let length = means[k].iter().map(|v| v * v).sum::<f64>().sqrt();
        for i in 0..3 {
            let off = after.components[k].mean()[i] - means[k][i] / length;
            assert!(counts[k] == 0.0 || off.abs() < 1e-12, "{k}: {off:e}");
        }
    }
}

#[test]
fn the_objective_never_falls() {
    objective_rises::<VonMisesFisher>();
    objective_rises::<Kent>();
}
