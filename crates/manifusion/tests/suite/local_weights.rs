//! The kernel mixture with weights of the centres' own.

use std::sync::Arc;

use crate::common::mean_se;
use manifusion::check::sample_points;
use manifusion::density::Density;
use manifusion::heat_kernel::TransitionKernel;
use manifusion::manifold::parse;
use manifusion::mixture::{KernelMixture, MixtureOptions};
use manifusion::path::{NoisingPath, PathChoice};
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};

/// The log-density by its definition: every kernel of every centre. Kernels too far away to be
/// known are nothing.
fn brute_force(mixture: &KernelMixture, centres: Rows<'_>, x: &[f64]) -> f64 {
    let prior = default_prior(mixture.manifold()).unwrap();
    let kernel = TransitionKernel::new(mixture.manifold().as_ref(), prior.as_ref()).unwrap();
    let bands = mixture.bandwidths().len();
    let mut terms = vec![mixture.prior_weight().ln() + prior.log_density(x)];
    for (i, centre) in centres.rows().enumerate() {
        for (k, sigma) in mixture.bandwidths().iter().enumerate() {
            let weight =
                mixture.local_weights().map_or(mixture.weights()[k], |local| local[i * bands + k]);
            if let Ok(log_k) = kernel.log_density(centre, x, sigma * sigma) {
                terms.push((weight / centres.len() as f64).ln() + log_k);
            }
        }
    }
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + terms.iter().map(|term| (term - largest).exp()).sum::<f64>().ln()
}

/// Tight clusters on one half of the sphere, a smooth law on the other: no common weights suit
/// both.
#[test]
fn local_weights_suit_uneven_data() {
    let manifold = parse("sphere:2").unwrap();
    let prior = default_prior(&manifold).unwrap();
    let path =
        NoisingPath::new(Arc::clone(&manifold), Arc::clone(&prior), PathChoice::Exact).unwrap();
    let uneven = |n: usize, seed: u64| {
        let places = sample_points(manifold.as_ref(), 40, &Streams::new(1, "places")).unwrap();
        let streams = Streams::new(seed, "uneven");
        let (mut starts, mut times) = (Vec::new(), Vec::new());
        for i in 0..n {
            let mut stream = streams.stream(i as u64, 0);
            if stream.uniform() < 0.5 {
                let at = 3 * ((stream.uniform() * 40.0) as usize).min(39);
                starts.extend([places[at], places[at + 1], places[at + 2].abs()]);
                times.push(1e-5);
            } else {
                starts.extend([0.0, 0.0, -1.0]);
                times.push(0.3);
            }
        }
        let mut x = starts.clone();
        let rows = (Rows::new(&starts, 3).unwrap(), RowsMut::new(&mut x, 3).unwrap());
        path.sample(rows.0, &times, &streams.part(1), 0, rows.1).unwrap();
        x
    };
    let (train, test) = (uneven(1500, 1), uneven(1500, 2));
    let (rows, options) = (Rows::new(&train, 3).unwrap(), MixtureOptions::default());
    let common =
        KernelMixture::fit(Arc::clone(&manifold), Arc::clone(&prior), rows, &options).unwrap();
    let local = common.localised(&options).unwrap();
    let test = Rows::new(&test, 3).unwrap();
    let gains: Vec<f64> = local
        .log_density(test)
        .unwrap()
        .iter()
        .zip(common.log_density(test).unwrap())
        .map(|(local, common)| local - common)
        .collect();
    let (gain, se) = mean_se(gains.into_iter());
    assert!(gain - 4.0 * se > 0.05, "{gain} ± {se}");
    let judged = common.leave_one_out_nll() - local.leave_one_out_nll();
    assert!((judged - gain).abs() < 0.1, "leave-one-out promised {judged}, the test gave {gain}");
    // Draws have the law: E_p q/(p + q) = E_q p/(p + q) = ∫ pq/(p + q), both of bounded terms (q/p
    // itself is large between clusters, where p has hardly any draws).
    let overlap = |of: &KernelMixture, other: &KernelMixture, seed: u64| {
        let draws = of.sample(40_000, seed).unwrap();
        let draws = Rows::new(&draws, 3).unwrap();
        let (p, q) = (of.log_density(draws).unwrap(), other.log_density(draws).unwrap());
        mean_se(p.into_iter().zip(q).map(|(p, q)| 1.0 / (1.0 + (p - q).exp())))
    };
    let (of_local, se_local) = overlap(&local, &common, 3);
    let (of_common, se_common) = overlap(&common, &local, 4);
    let allowed = 4.0 * se_local.hypot(se_common);
    assert!((of_local - of_common).abs() < allowed, "{of_local}, {of_common}, allowed {allowed}");
    for mixture in [&common, &local] {
        let draws = mixture.sample(30, 5).unwrap();
        let found = mixture.log_density(Rows::new(&draws, 3).unwrap()).unwrap();
        for (x, found) in draws.chunks_exact(3).zip(found) {
            let expected = brute_force(mixture, rows, x);
            assert!((found - expected).abs() < 1e-8, "{found}, {expected} at {x:?}");
        }
    }
    let again = KernelMixture::from_tensors(manifold, prior, &local.to_tensors()).unwrap();
    assert_eq!(again.log_density(test).unwrap(), local.log_density(test).unwrap());
    let mut broken = local.to_tensors();
    broken.get_mut("local_weights").unwrap()[3] += 0.1;
    let error = KernelMixture::from_tensors(
        Arc::clone(local.manifold()),
        default_prior(local.manifold()).unwrap(),
        &broken,
    );
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("the local weights of centre") && error.contains("instead of"),
        "{error}"
    );
}
