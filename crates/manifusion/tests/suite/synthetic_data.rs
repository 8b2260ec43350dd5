//! The generated sets have the densities that they say: total mass by importance sampling from a
//! wide law, and agreement of draws with the density through test functions.

use std::sync::Arc;

use crate::common::mean_se;
use manifusion::data::{SYNTHETIC_NAMES, Synthetic};
use manifusion::density::Density;
use manifusion::manifold::{Family, Hyperboloid, Lorentz, parse};
use manifusion::mixture::{KernelMixture, MixtureOptions};
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::Rows;

/// Points of a wide law q with log q, for importance sampling.
fn wide_draws(set: &Synthetic, n: usize) -> Vec<(Vec<f64>, f64)> {
    let manifold = set.manifold();
    let m = manifold.ambient_dim();
    let streams = Streams::new(1, "wide");
    let prior = default_prior(manifold).unwrap();
    (0..n)
        .map(|i| {
            let mut stream = streams.stream(i as u64, 0);
            let mut x = vec![0.0; m];
            if let Family::Hyperboloid { dim, curvature, .. } = manifold.family() {
                // exp₀ of a wide Gaussian: the sets reach radius 4.
                let space = Lorentz::new(dim, curvature).unwrap();
                let (origin, std) = (vec![1.0, 0.0, 0.0], [2.2, 2.2]);
                space.sample_wrapped_normal(&origin, &std, &mut stream, &mut x);
                let log_q = space.wrapped_normal_log_density(&origin, &std, &x);
                return (x, log_q);
            }
            prior.sample(&mut stream, &mut x).unwrap();
            let log_q = prior.log_density(&x);
            (x, log_q)
        })
        .collect()
}

/// T⁷ is too large for a uniform proposal: its density is a mixture of products of tested
/// one-dimensional laws. The clusters of `sphere-multiscale` are too small for it; the next test
/// proposes from a kernel mixture.
#[test]
fn densities_integrate_to_one_and_match_the_draws() {
    for name in SYNTHETIC_NAMES {
        let set = Synthetic::new(name).unwrap();
        let m = set.manifold().ambient_dim();
        let data = set.sample(40_000, 3).unwrap();
        for x in data.chunks_exact(m) {
            assert!(set.manifold().check_point(x).is_ok(), "{name}");
            assert!(set.log_density(x).is_finite(), "{name}: a draw with density zero");
        }
        if ["torus7-mixture", "sphere-multiscale"].contains(&name) {
            continue;
        }
        let wide = wide_draws(&set, 200_000);
        let weights: Vec<f64> =
            wide.iter().map(|(x, log_q)| (set.log_density(x) - log_q).exp()).collect();
        let (mass, se) = mean_se(weights.iter().copied());
        assert!((mass - 1.0).abs() < 4.5 * se && se < 0.05, "{name}: mass {mass} ± {se}");
        let functions: [fn(&[f64]) -> f64; 3] =
            [|x| x[x.len() - 1].sin(), |x| (2.0 * x[1]).cos(), |x| (x[1] * x[x.len() - 1]).sin()];
        for f in functions {
            let (drawn, se_drawn) = mean_se(data.chunks_exact(m).map(f));
            let (expected, se) = mean_se(wide.iter().zip(&weights).map(|((x, _), w)| w * f(x)));
            let allowed = 4.5 * se.hypot(se_drawn);
            assert!((drawn - expected).abs() < allowed, "{name}: {drawn} {expected} ± {allowed}");
        }
    }
}

/// With the metric of the paper's model the same law has another density, and no other manifold
/// will do.
#[test]
fn hyperbolic_sets_have_two_metrics() {
    let set = Synthetic::new("hyperbolic-mixture").unwrap();
    let x = set.sample(1, 1).unwrap();
    let euclid = set.clone().on(&parse("hyperbolic:2").unwrap()).unwrap();
    // π rescales with one metric and keeps y with the other: the same draw to rounding.
    let same = euclid.sample(1, 1).unwrap().iter().zip(&x).all(|(a, b)| (a - b).abs() < 1e-12);
    assert!(same, "{x:?}");
    let change = Hyperboloid::new(2, -1.0).unwrap().log_lorentz_over_euclid(&x);
    assert!((set.log_density(&x) - euclid.log_density(&x) - change).abs() < 1e-12);
    let error = set.on(&parse("hyperbolic:2,K=-2").unwrap()).unwrap_err().to_string();
    assert_eq!(
        error,
        "synthetic:hyperbolic-mixture lives on hyperbolic:2,metric=lorentz, not on hyperbolic:2,K=-2"
    );
}

#[test]
fn unknown_names_are_refused_with_the_list() {
    let error = Synthetic::new("blobs").unwrap_err().to_string();
    assert!(error.starts_with("unknown data set 'blobs'; allowed: sphere-mixture, "), "{error}");
    for name in SYNTHETIC_NAMES {
        assert!(error.contains(name), "{name} is not in the list");
    }
}

/// Importance sampling from a widened kernel mixture of other draws, whose density knows nothing of
/// the set's own.
#[test]
fn the_multiscale_set_has_mass_one_and_matches_its_draws() {
    let set = Synthetic::new("sphere-multiscale").unwrap();
    let train = set.sample(3000, 11).unwrap();
    let prior = default_prior(set.manifold()).unwrap();
    let rows = Rows::new(&train, 3).unwrap();
    let manifold = Arc::clone(set.manifold());
    let mixture = KernelMixture::fit(manifold, prior, rows, &MixtureOptions::default()).unwrap();
    let proposal = mixture.localised(&MixtureOptions::default()).unwrap().widened(1.5).unwrap();
    let x = proposal.sample(20_000, 5).unwrap();
    let log_q = proposal.log_density(Rows::new(&x, 3).unwrap()).unwrap();
    let weighted: Vec<(f64, f64)> = x
        .chunks_exact(3)
        .zip(log_q)
        .map(|(x, log_q)| (set.log_density(x), log_q))
        .map(|(log_p, log_q)| ((log_p - log_q).exp(), log_p))
        .collect();
    let (mass, se) = mean_se(weighted.iter().map(|(weight, _)| *weight));
    assert!((mass - 1.0).abs() < 4.5 * se && se < 0.02, "mass {mass} ± {se}");
    let (entropy, se) = mean_se(weighted.iter().map(|(weight, log_p)| -weight * log_p));
    let draws = set.sample(20_000, 12).unwrap();
    let (drawn, se_drawn) = mean_se(draws.chunks_exact(3).map(|x| -set.log_density(x)));
    assert!((entropy - drawn).abs() < 4.5 * se.hypot(se_drawn), "{entropy} {drawn} ± {se}");
}
