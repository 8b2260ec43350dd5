//! Expectation–maximisation for mixtures of parametric components.

use rayon::prelude::*;

use super::{Component, Mixture};
use crate::mixture::random_choice;
use crate::rows::Rows;
use crate::watch::Watch;

/// Observations without a direction that every component is given: a component on a single place,
/// such as a repeated point, would become infinitely sharp.
const PSEUDO_OBSERVATIONS: f64 = 1e-3;
/// Gain of the objective per point, in nats, below which it has converged.
const GAIN: f64 = 1e-5;
const MAX_ITERATIONS: usize = 300;
/// Components at most, where their number is chosen.
const MAX_COMPONENTS: usize = 512;

/// The number of components that is best for the validation points, in powers of two, until two in
/// a row are worse than the best.
pub(super) fn fit_best<C: Component>(
    train: Rows<'_>,
    validation: Rows<'_>,
    seed: u64,
    watch: &Watch,
) -> Mixture<C> {
    let nll = |mixture: &Mixture<C>| -> f64 {
        -mixture.log_density(validation).iter().sum::<f64>() / validation.len() as f64
    };
    let mut best = fit::<C>(train, 1, seed);
    let (mut least, mut worse, mut count) = (nll(&best), 0, 2);
    while worse < 2 && count <= MAX_COMPONENTS.min(train.len() / 2) && !watch.is_stopped() {
        let found = fit::<C>(train, count, seed);
        let value = nll(&found);
        if value < least {
            (best, least, worse) = (found, value, 0);
        } else {
            worse += 1;
        }
        count *= 2;
    }
    best
}

/// A mixture of `count` components, from as many points chosen at random.
pub(super) fn fit<C: Component>(x: Rows<'_>, count: usize, seed: u64) -> Mixture<C> {
    let n = x.len();
    let seeds = random_choice(n, count, seed);
    let count = seeds.len();
    // Every point belongs to the nearest seed at first.
    let owner: Vec<usize> = (0..n)
        .into_par_iter()
        .map(|i| {
            let off = |k: &usize| crate::linalg::distance(x.row(seeds[*k]), x.row(i));
            (0..count).min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(0)
        })
        .collect();
    let mut responsibility = vec![0.0; count * n];
    for (i, k) in owner.into_iter().enumerate() {
        responsibility[k * n + i] = 1.0;
    }
    let mut mixture = maximised::<C>(x, &responsibility, None);
    let mut last = f64::NEG_INFINITY;
    for _ in 0..MAX_ITERATIONS {
        let objective = expected(&mixture, x, &mut responsibility);
        if objective - last < GAIN {
            break;
        }
        last = objective;
        mixture = maximised(x, &responsibility, Some(&mixture));
    }
    mixture
}

/// Weights and components for given responsibilities, component by component.
pub fn maximised<C: Component>(
    x: Rows<'_>,
    responsibility: &[f64],
    before: Option<&Mixture<C>>,
) -> Mixture<C> {
    let n = x.len();
    let weights =
        responsibility.chunks_exact(n).map(|r| r.iter().sum::<f64>() / n as f64).collect();
    let one = |(k, responsibility): (usize, &[f64])| {
        let before = before.map(|before| &before.components[k]);
        C::estimate(x, responsibility, PSEUDO_OBSERVATIONS, before)
    };
    let components = responsibility.par_chunks_exact(n).enumerate().map(one).collect();
    Mixture { weights, components }
}

/// Responsibilities of a mixture, component by component, and its objective: the mean
/// log-likelihood less the pseudo-observations' share of the normalisers.
pub fn expected<C: Component>(
    mixture: &Mixture<C>,
    x: Rows<'_>,
    responsibility: &mut [f64],
) -> f64 {
    let (n, count) = (x.len(), mixture.components.len());
    let rows: Vec<(f64, Vec<f64>)> = (0..n)
        .into_par_iter()
        .map(|i| {
            let mut terms = vec![0.0; count];
            mixture.log_terms(x.row(i), &mut terms);
            let log_p = crate::linalg::log_sum_exp(&terms);
            for term in &mut terms {
                *term = (*term - log_p).exp();
            }
            (log_p, terms)
        })
        .collect();
    let mut total = 0.0;
    for (i, (log_p, terms)) in rows.iter().enumerate() {
        total += log_p;
        for (k, term) in terms.iter().enumerate() {
            responsibility[k * n + i] = *term;
        }
    }
    let norms: f64 = mixture.components.iter().map(C::log_norm).sum();
    (total - PSEUDO_OBSERVATIONS * norms) / n as f64
}
