//! Expectation–maximisation for mixtures of parametric components.

use std::ops::Range;

use rayon::prelude::*;

use super::{Component, Mixture};
use crate::linalg::axpy;
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
/// Points whose terms are kept at a time: part of the arithmetic.
const PART: usize = 512;
/// Parts whose sums are kept at a time, 14 MB of the largest mixtures.
const PARTS: usize = 256;
/// A responsibility with a logarithm below this counts as none.
const NEGLIGIBLE: f64 = -40.0;

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
    let mut best = fit::<C>(train, 1, seed, watch);
    let (mut least, mut worse, mut count) = (nll(&best), 0, 2);
    while worse < 2 && count <= MAX_COMPONENTS.min(train.len() / 2) && !watch.is_stopped() {
        let found = fit::<C>(train, count, seed, watch);
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

/// A mixture of `count` components, from as many points chosen at random; where the iteration had
/// come to if it is stopped.
pub(super) fn fit<C: Component>(x: Rows<'_>, count: usize, seed: u64, watch: &Watch) -> Mixture<C> {
    let seeds = random_choice(x.len(), count, seed);
    // Every point belongs to the nearest seed at first.
    let owner: Vec<usize> = (0..x.len())
        .into_par_iter()
        .map(|i| {
            let off = |k: &usize| crate::linalg::distance(x.row(seeds[*k]), x.row(i));
            (0..seeds.len()).min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or(0)
        })
        .collect();
    let mut mixture = Sums::of_owners::<C>(x, &owner, seeds.len()).maximised::<C>(None);
    let mut last = f64::NEG_INFINITY;
    for _ in 0..MAX_ITERATIONS {
        let (objective, sums) = expected(&mixture, x);
        if objective - last < GAIN || watch.is_stopped() {
            break;
        }
        last = objective;
        mixture = sums.maximised(Some(&mixture));
    }
    mixture
}

/// Σ r and Σ r t(x) of every component, with the responsibilities r of the points and the
/// statistics t of the components.
#[derive(Clone, Debug)]
pub struct Sums {
    points: usize,
    /// Numbers of one component, Σ r first.
    width: usize,
    numbers: Vec<f64>,
}

impl Sums {
    fn zero<C: Component>(m: usize, count: usize) -> Self {
        let width = 1 + C::statistics_len(m);
        Self { points: 0, width, numbers: vec![0.0; count * width] }
    }

    /// Of points that belong to one component each.
    pub fn of_owners<C: Component>(x: Rows<'_>, owner: &[usize], count: usize) -> Self {
        let mut sums = Self::zero::<C>(x.width(), count);
        let width = sums.width;
        let mut statistics = vec![1.0; width];
        for (x, k) in x.rows().zip(owner) {
            C::statistics(x, &mut statistics[1..]);
            axpy(1.0, &statistics, &mut sums.numbers[k * width..(k + 1) * width]);
        }
        sums.points = owner.len();
        sums
    }

    fn add(&mut self, other: &Self) {
        self.points += other.points;
        axpy(1.0, &other.numbers, &mut self.numbers);
    }

    /// Weights and components that these sums are best for, or that are better than `before`.
    pub fn maximised<C: Component>(&self, before: Option<&Mixture<C>>) -> Mixture<C> {
        let one = |(k, numbers): (usize, &[f64])| {
            let before = before.map(|before| &before.components[k]);
            C::estimate(numbers[0], &numbers[1..], PSEUDO_OBSERVATIONS, before)
        };
        let of_components = self.numbers.par_chunks_exact(self.width);
        let weight = |numbers: &[f64]| numbers[0] / self.points as f64;
        Mixture {
            weights: self.numbers.chunks_exact(self.width).map(weight).collect(),
            components: of_components.enumerate().map(one).collect(),
        }
    }
}

/// The objective of a mixture, which is the mean log-likelihood less the pseudo-observations' share
/// of the normalisers, and the sums for its responsibilities.
pub fn expected<C: Component>(mixture: &Mixture<C>, x: Rows<'_>) -> (f64, Sums) {
    let mut all = Sums::zero::<C>(x.width(), mixture.components.len());
    let mut total = 0.0;
    let parts: Vec<usize> = (0..x.len().div_ceil(PART)).collect();
    for parts in parts.chunks(PARTS) {
        let found: Vec<(f64, Sums)> = parts
            .par_iter()
            .map(|part| part_expected(mixture, x, part * PART..((part + 1) * PART).min(x.len())))
            .collect();
        // In the order of the points, whatever the threads.
        for (log_likelihood, sums) in &found {
            total += log_likelihood;
            all.add(sums);
        }
    }
    let norms: f64 = mixture.components.iter().map(C::log_norm).sum();
    ((total - PSEUDO_OBSERVATIONS * norms) / x.len() as f64, all)
}

/// The log-likelihood of some of the points, and their sums, component by component: memory is read
/// in order.
fn part_expected<C: Component>(
    mixture: &Mixture<C>,
    x: Rows<'_>,
    rows: Range<usize>,
) -> (f64, Sums) {
    let n = rows.len();
    let mut sums = Sums::zero::<C>(x.width(), mixture.components.len());
    sums.points = n;
    let mut terms = vec![0.0; mixture.components.len() * n];
    let mut highest = vec![f64::NEG_INFINITY; n];
    let components = mixture.weights.iter().zip(&mixture.components);
    for ((weight, component), terms) in components.zip(terms.chunks_exact_mut(n)) {
        let log_weight = weight.ln();
        for ((term, highest), row) in terms.iter_mut().zip(&mut highest).zip(rows.clone()) {
            *term = log_weight + component.log_density(x.row(row));
            *highest = highest.max(*term);
        }
    }
    let mut scale = vec![0.0; n];
    for terms in terms.chunks_exact_mut(n) {
        for ((term, highest), scale) in terms.iter_mut().zip(&highest).zip(&mut scale) {
            let below = *term - highest;
            *term = if below > NEGLIGIBLE { below.exp() } else { 0.0 };
            *scale += *term;
        }
    }
    let width = sums.width;
    let mut statistics = vec![1.0; n * width];
    for (row, statistics) in rows.zip(statistics.chunks_exact_mut(width)) {
        C::statistics(x.row(row), &mut statistics[1..]);
    }
    for (terms, sums) in terms.chunks_exact(n).zip(sums.numbers.chunks_exact_mut(width)) {
        let of_points = terms.iter().zip(&scale).zip(statistics.chunks_exact(width));
        for ((term, scale), statistics) in of_points {
            if *term > 0.0 {
                axpy(term / scale, statistics, sums);
            }
        }
    }
    let log_likelihood = highest.iter().zip(&scale).map(|(highest, scale)| highest + scale.ln());
    (log_likelihood.sum(), sums)
}
