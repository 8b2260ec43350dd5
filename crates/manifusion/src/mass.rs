//! The total mass ∫p of a density, which must be one.
//!
//! By quadrature on circles, T², T³ and S² where two grids agree, which they do for smooth
//! densities. Else with draws of a law q of mass one: by importance sampling, E_q[p/q], or by
//! bridge sampling between these draws and draws of p, whichever has the smaller error. Where q
//! misses a part of p, few of the draws of q carry that part or none does, and an error that is
//! estimated from them alone is too small: draws of p tell.

use std::f64::consts::{PI, TAU};
use std::ops::Range;

use crate::density::Density;
use crate::error::SolveError;
use crate::manifold::{Family, Manifold};
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::Rows;
use crate::stats;

/// A mass with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mass {
    /// ∫p.
    pub value: f64,
    /// Standard error, or the difference between two grids.
    pub se: f64,
    /// How it was found.
    pub kind: MassKind,
}

/// Ways to a mass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MassKind {
    /// Two grids that agree.
    Quadrature,
    /// A bridge between draws of p and of a law of mass one.
    Bridge,
    /// Draws of a law of mass one, weighed by p.
    Importance,
}

/// Grids that differ by less than this are believed.
const AGREEMENT: f64 = 2e-3;

/// ∫p with about `budget` evaluations of p, and with a density close to p where there is one: by
/// quadrature where that is possible and the grids agree, else by [`bridge_or_importance`].
pub fn total_mass(
    density: &dyn Density,
    near: Option<&dyn Density>,
    prior: &dyn Prior,
    budget: usize,
    seed: u64,
) -> Result<Mass, SolveError> {
    match agreed_quadrature(density, near, budget)? {
        Some(mass) => Ok(mass),
        None => bridge_or_importance(density, near, prior, budget, seed),
    }
}

/// ∫p by quadrature, where grids agree and can be trusted.
pub fn agreed_quadrature(
    density: &dyn Density,
    near: Option<&dyn Density>,
    budget: usize,
) -> Result<Option<Mass>, SolveError> {
    let resolved = |mass: &Mass| mass.se <= AGREEMENT;
    // Two grids also agree on a peak that both miss: they must see the mass of `near`, which is one
    // and cheap to compute.
    let known = near.map(|near| quadrature(near, budget)).transpose()?.flatten();
    if known.is_none_or(|known| resolved(&known) && (known.value - 1.0).abs() <= AGREEMENT) {
        return Ok(quadrature(density, budget)?.filter(resolved));
    }
    Ok(None)
}

/// ∫p by two grids, of two thirds and one third of the budget; none on manifolds without a grid.
pub fn quadrature(density: &dyn Density, budget: usize) -> Result<Option<Mass>, SolveError> {
    let manifold = density.manifold().as_ref();
    let (Some(fine), Some(coarse)) = (grid(manifold, 2 * budget / 3), grid(manifold, budget / 3))
    else {
        return Ok(None);
    };
    let integral = |(points, weights): (Vec<f64>, Vec<f64>)| -> Result<f64, SolveError> {
        let log_p = density.log_density(Rows::new(&points, manifold.ambient_dim())?)?;
        Ok(log_p.iter().zip(&weights).map(|(log_p, w)| log_p.exp() * w).sum())
    };
    let value = integral(fine)?;
    let se = (value - integral(coarse)?).abs();
    Ok(Some(Mass { value, se, kind: MassKind::Quadrature }))
}

/// Draws of q, the law that has a share of the prior and one of `near`.
struct Proposal<'a> {
    near: Option<&'a dyn Density>,
    prior: &'a dyn Prior,
    /// Draws of the prior, then of `near`, row by row.
    points: Vec<f64>,
    from_prior: usize,
    from_near: usize,
}

/// What is known at a point.
#[derive(Clone, Copy)]
struct Known {
    /// p/q.
    ratio: f64,
    /// near/q, whose mean over q is known to be one; one where there is no `near`.
    control: f64,
}

impl<'a> Proposal<'a> {
    /// `count` draws: all of the prior, or half of each.
    fn draw(
        m: usize,
        near: Option<&'a dyn Density>,
        prior: &'a dyn Prior,
        count: usize,
        seed: u64,
    ) -> Result<Self, SolveError> {
        let from_near = if near.is_some() { count / 2 } else { 0 };
        let from_prior = count - from_near;
        let mut points = vec![0.0; from_prior * m];
        let streams = Streams::new(seed, "mass");
        for (i, x) in points.chunks_exact_mut(m).enumerate() {
            prior.sample(&mut streams.stream(i as u64, 0), x).map_err(SolveError::at(i, 0.0))?;
        }
        if let Some(near) = near {
            points.extend(near.sample(from_near, seed)?);
        }
        Ok(Self { near, prior, points, from_prior, from_near })
    }

    fn len(&self) -> usize {
        self.from_prior + self.from_near
    }

    /// The share of `near` in q.
    fn share(&self) -> f64 {
        self.from_near as f64 / self.len() as f64
    }

    fn known_at(&self, density: &dyn Density, points: &[f64]) -> Result<Vec<Known>, SolveError> {
        let x = Rows::new(points, density.manifold().ambient_dim())?;
        let log_p = density.log_density(x)?;
        let log_near = self.near.map(|near| near.log_density(x)).transpose()?;
        let known = |(i, log_p): (usize, &f64)| {
            let log_prior = self.prior.log_density(x.row(i));
            let Some(log_near) = log_near.as_ref().map(|log_near| log_near[i]) else {
                return Known { ratio: (log_p - log_prior).exp(), control: 1.0 };
            };
            let (share, top) = (self.share(), log_prior.max(log_near));
            let sum = (1.0 - share) * (log_prior - top).exp() + share * (log_near - top).exp();
            let log_q = top + sum.ln();
            Known { ratio: (log_p - log_q).exp(), control: (log_near - log_q).exp() }
        };
        Ok(log_p.iter().enumerate().map(known).collect())
    }

    /// The draws of each of the two laws. Their numbers are fixed, so that errors add without the
    /// variance between them.
    fn strata(&self) -> impl Iterator<Item = Range<usize>> {
        [0..self.from_prior, self.from_prior..self.len()]
            .into_iter()
            .filter(|part| !part.is_empty())
    }

    /// The mean over q of values at its draws, and its standard error.
    fn mean(&self, values: &[f64]) -> (f64, f64) {
        let (mut value, mut variance) = (0.0, 0.0);
        for part in self.strata() {
            let share = part.len() as f64 / values.len() as f64;
            let part = stats::mean(&values[part]);
            value += share * part.value;
            variance += (share * part.se).powi(2);
        }
        (value, variance.sqrt())
    }

    /// E_q[p/q] from what is known at the draws: what these get wrong about `near` they get wrong
    /// about a p close to it, so the error shrinks by β(near/q − 1), β by least squares. Gives β
    /// too.
    fn importance(&self, known: &[Known]) -> (Mass, f64) {
        let (mut together, mut alone) = (0.0, 0.0);
        for part in self.strata() {
            let mean_of = |of: fn(&Known) -> f64| {
                known[part.clone()].iter().map(of).sum::<f64>() / part.len() as f64
            };
            let (ratio, control) = (mean_of(|known| known.ratio), mean_of(|known| known.control));
            for known in &known[part] {
                together += (known.ratio - ratio) * (known.control - control);
                alone += (known.control - control).powi(2);
            }
        }
        let beta = if alone > 0.0 { together / alone } else { 0.0 };
        let values: Vec<f64> = known.iter().map(|known| known.controlled(beta)).collect();
        let (value, se) = self.mean(&values);
        (Mass { value, se, kind: MassKind::Importance }, beta)
    }

    /// The standard error of [`importance`](Self::importance) with the second moments that draws of
    /// p give beside those of q, each weighed by the density of all draws together (the balance
    /// heuristic): no weight is large, so that a part of p that few draws of q met is seen.
    fn importance_error(&self, at_q: &[Known], at_p: &[Known], beta: f64, mass: f64) -> f64 {
        let (own, others) = (at_p.len() as f64 / mass, self.len() as f64);
        let laws = [(self.from_prior, false), (self.from_near, true)];
        let variance = |(count, is_near): (usize, bool)| {
            let (mut weights, mut first, mut second) = (0.0, 0.0, 0.0);
            for known in at_q.iter().chain(at_p) {
                // The law's density over q.
                let law = match (self.near, is_near) {
                    (None, _) => 1.0,
                    (_, true) => known.control,
                    (_, false) => (1.0 - self.share() * known.control) / (1.0 - self.share()),
                };
                let (weight, value) = (law / (others + own * known.ratio), known.controlled(beta));
                weights += weight;
                first += weight * value;
                second += weight * value * value;
            }
            let share = count as f64 / others;
            // Divided by the sum of weights, whose mean is one: the error of a constant is zero.
            let variance = (second / weights - (first / weights).powi(2)).max(0.0);
            share * share * variance / count as f64
        };
        laws.into_iter().filter(|(count, _)| *count > 0).map(variance).sum::<f64>().sqrt()
    }

    /// ∫p = E_q[p α]/E_p[q α] for every α (Meng & Wong 1996), with draws of p that are distributed
    /// as p/∫p. The best α is one over the density of all draws together: both averages are then of
    /// bounded numbers, so that their errors can be trusted, and parts that only one of p and q has
    /// do no harm.
    fn bridge(&self, at_q: &[Known], at_p: &[Known]) -> Mass {
        let share = at_p.len() as f64 / (at_p.len() + at_q.len()) as f64;
        let estimate = |mass: f64| {
            let alpha = |known: &Known| 1.0 / (1.0 - share + share * known.ratio / mass);
            let p: Vec<f64> = at_q.iter().map(|known| known.ratio * alpha(known)).collect();
            let q: Vec<f64> = at_p.iter().map(alpha).collect();
            let ((p, p_se), q) = (self.mean(&p), stats::mean(&q));
            let value = p / q.value;
            Mass { value, se: value * (p_se / p).hypot(q.se / q.value), kind: MassKind::Bridge }
        };
        // estimate(m)/m falls with m and is 1 at the fixed point.
        let (mut below, mut above) = (-300.0, 300.0);
        while above - below > SETTLED {
            let middle = 0.5 * (below + above);
            if estimate(middle.exp()).value > middle.exp() {
                below = middle;
            } else {
                above = middle;
            }
        }
        estimate((0.5 * (below + above)).exp())
    }
}

impl Known {
    fn controlled(&self, beta: f64) -> f64 {
        self.ratio - beta * (self.control - 1.0)
    }
}

/// The logarithm of a bridge's fixed point is found to this.
const SETTLED: f64 = 1e-9;

/// ∫p by draws of p, a third of the budget, and of q, half the prior and half `near`: by bridge or
/// importance sampling, whichever has the smaller error.
pub fn bridge_or_importance(
    density: &dyn Density,
    near: Option<&dyn Density>,
    prior: &dyn Prior,
    budget: usize,
    seed: u64,
) -> Result<Mass, SolveError> {
    let m = density.manifold().ambient_dim();
    let proposal = Proposal::draw(m, near, prior, budget - budget / 3, seed)?;
    // Not the draws of a `near` of the same kind.
    let own = density.sample(budget / 3, seed.wrapping_add(1))?;
    let at_q = proposal.known_at(density, &proposal.points)?;
    let at_p = proposal.known_at(density, &own)?;
    let bridge = proposal.bridge(&at_q, &at_p);
    let (importance, beta) = proposal.importance(&at_q);
    let se = proposal.importance_error(&at_q, &at_p, beta, bridge.value);
    Ok(if se < bridge.se { Mass { se, ..importance } } else { bridge })
}

/// E_q[p/q] with q half the prior, half `near`; its error is that of the draws of q alone.
pub fn importance(
    density: &dyn Density,
    near: Option<&dyn Density>,
    prior: &dyn Prior,
    budget: usize,
    seed: u64,
) -> Result<Mass, SolveError> {
    let m = density.manifold().ambient_dim();
    let proposal = Proposal::draw(m, near, prior, budget, seed)?;
    let known = proposal.known_at(density, &proposal.points)?;
    Ok(proposal.importance(&known).0)
}

/// Points and weights of a rule with at most about `budget` points.
fn grid(manifold: &dyn Manifold, budget: usize) -> Option<(Vec<f64>, Vec<f64>)> {
    match manifold.family() {
        Family::Torus { dim } if dim <= 3 => Some(torus_grid(dim, budget)),
        Family::Sphere { dim: 1 } => Some(torus_grid(1, budget)),
        Family::Sphere { dim: 2 } => Some(sphere_grid(budget)),
        _ => None,
    }
}

/// The trapezoid rule, which converges faster than any power for smooth periodic functions.
fn torus_grid(dim: usize, budget: usize) -> (Vec<f64>, Vec<f64>) {
    let side = ((budget as f64).powf(1.0 / dim as f64) as usize).max(2);
    let count = side.pow(dim as u32);
    let mut points = Vec::with_capacity(2 * dim * count);
    for i in 0..count {
        let mut rest = i;
        for _ in 0..dim {
            let (sin, cos) = (TAU * (rest % side) as f64 / side as f64).sin_cos();
            points.extend([cos, sin]);
            rest /= side;
        }
    }
    (points, vec![(TAU / side as f64).powi(dim as i32); count])
}

/// Gauss–Legendre in z times the trapezoid rule in longitude: exact for spherical harmonics up to
/// the grid's degree.
fn sphere_grid(budget: usize) -> (Vec<f64>, Vec<f64>) {
    let rows = ((budget as f64 / 2.0).sqrt() as usize).max(2);
    let columns = 2 * rows;
    let (mut points, mut weights) = (Vec::new(), Vec::new());
    for (z, w) in gauss_legendre(rows) {
        let r = (1.0 - z * z).sqrt();
        for j in 0..columns {
            let (sin, cos) = (TAU * j as f64 / columns as f64).sin_cos();
            points.extend([r * cos, r * sin, z]);
            weights.push(w * TAU / columns as f64);
        }
    }
    (points, weights)
}

/// Nodes and weights on [−1, 1] by Newton's method on the Legendre polynomial.
fn gauss_legendre(n: usize) -> Vec<(f64, f64)> {
    let node = |i: usize| {
        let mut x = (PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        let mut slope = 1.0;
        for _ in 0..100 {
            let (mut p, mut before) = (x, 1.0);
            for k in 2..=n {
                let k = k as f64;
                (p, before) = (((2.0 * k - 1.0) * x * p - (k - 1.0) * before) / k, p);
            }
            slope = n as f64 * (x * p - before) / (x * x - 1.0);
            let step = p / slope;
            x -= step;
            if step.abs() < 1e-15 {
                break;
            }
        }
        (x, 2.0 / ((1.0 - x * x) * slope * slope))
    };
    (0..n).map(node).collect()
}
