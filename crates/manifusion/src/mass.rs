//! The total mass ∫p of a density, which must be one.
//!
//! By quadrature on circles, T², T³ and S² where two grids agree, which they do for smooth
//! densities; else by importance sampling, E_q[p/q], from a proposal q whose density is known, with
//! the other known masses as a control.

use std::f64::consts::{PI, TAU};

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
    /// Standard error of importance sampling, or the difference between two grids.
    pub se: f64,
    /// How it was found.
    pub kind: MassKind,
}

/// Ways to a mass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MassKind {
    /// Two grids that agree.
    Quadrature,
    /// Importance sampling.
    Importance,
}

/// Grids that differ by less than this are believed.
const AGREEMENT: f64 = 2e-3;

/// ∫p with about `budget` evaluations of p: by quadrature where that is possible and the grids
/// agree, else by importance sampling from half the prior and half `near`, a density close to p.
pub fn total_mass(
    density: &dyn Density,
    near: Option<&dyn Density>,
    prior: &dyn Prior,
    budget: usize,
    seed: u64,
) -> Result<Mass, SolveError> {
    let resolved = |mass: &Mass| mass.se <= AGREEMENT;
    // Two grids also agree on a peak that both miss: they must see the mass of `near`, which is one
    // and cheap to compute.
    let known = near.map(|near| quadrature(near, budget)).transpose()?.flatten();
    if known.is_none_or(|known| resolved(&known) && (known.value - 1.0).abs() <= AGREEMENT)
        && let Some(mass) = quadrature(density, budget)?.filter(resolved)
    {
        return Ok(mass);
    }
    importance(density, near, prior, budget, seed)
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

/// E_q[p/q] with q half the prior, half `near`, whose own masses E_q[near/q] = 1 and E_q[p₀/q] = 1
/// are known: what the draws get wrong about `near` they get wrong about a p close to it, so the
/// error shrinks by β(near/q − 1), β by least squares.
pub fn importance(
    density: &dyn Density,
    near: Option<&dyn Density>,
    prior: &dyn Prior,
    budget: usize,
    seed: u64,
) -> Result<Mass, SolveError> {
    let m = density.manifold().ambient_dim();
    let from_near = if near.is_some() { budget / 2 } else { 0 };
    let mut points = vec![0.0; (budget - from_near) * m];
    let streams = Streams::new(seed, "mass");
    for (i, x) in points.chunks_exact_mut(m).enumerate() {
        prior.sample(&mut streams.stream(i as u64, 0), x).map_err(SolveError::at(i, 0.0))?;
    }
    if let Some(near) = near {
        points.extend(near.sample(from_near, seed)?);
    }
    let x = Rows::new(&points, m)?;
    let log_p = density.log_density(x)?;
    let log_near = near.map(|near| near.log_density(x)).transpose()?;
    // p/q and near/q of every draw.
    let (mut ratios, mut controls) = (Vec::with_capacity(budget), Vec::with_capacity(budget));
    for (i, log_p) in log_p.iter().enumerate() {
        let log_prior = prior.log_density(x.row(i));
        let Some(log_near) = &log_near else {
            ratios.push((log_p - log_prior).exp());
            controls.push(1.0);
            continue;
        };
        let share = from_near as f64 / budget as f64;
        let top = log_prior.max(log_near[i]);
        let sum = (1.0 - share) * (log_prior - top).exp() + share * (log_near[i] - top).exp();
        let log_q = top + sum.ln();
        ratios.push((log_p - log_q).exp());
        controls.push((log_near[i] - log_q).exp());
    }
    // Stratified: the two parts have fixed sizes, so their errors add without the variance between
    // them.
    let strata = [0..budget - from_near, budget - from_near..budget];
    let strata = || strata.iter().filter(|part| !part.is_empty());
    let (mut together, mut alone) = (0.0, 0.0);
    for part in strata() {
        let (p, near) = (stats::mean(&ratios[part.clone()]), stats::mean(&controls[part.clone()]));
        for i in part.clone() {
            together += (ratios[i] - p.value) * (controls[i] - near.value);
            alone += (controls[i] - near.value).powi(2);
        }
    }
    let beta = if alone > 0.0 { together / alone } else { 0.0 };
    let (mut value, mut variance) = (0.0, 0.0);
    for part in strata() {
        let controlled: Vec<f64> =
            part.clone().map(|i| ratios[i] - beta * (controls[i] - 1.0)).collect();
        let (share, part) = (part.len() as f64 / budget as f64, stats::mean(&controlled));
        value += share * part.value;
        variance += (share * part.se).powi(2);
    }
    Ok(Mass { value, se: variance.sqrt(), kind: MassKind::Importance })
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
