//! Heun steps for a chunk of rows, with the manifold known at compile time where that pays.

use super::sphere_walk;
use crate::error::SolveError;
use crate::manifold::{Family, Manifold};
use crate::prior::Prior;
use crate::rng::Streams;
use crate::sde::{Heun, NoDrift, PriorDrift, integrate_fixed};

/// Moves each row of `y` from time 0 to its own `s` in `steps` steps.
pub(super) fn walk(
    manifold: &dyn Manifold,
    prior: &dyn Prior,
    steps: usize,
    streams: &Streams,
    first_row: u64,
    s: &[f64],
    y: &mut [f64],
) -> Result<(), SolveError> {
    // Where a step is a few dozen instructions it pays to know the manifold at compile time.
    if prior.is_driftless() {
        match manifold.family() {
            Family::Sphere { dim: 1 } | Family::Torus { dim: 1 } => {
                sphere_walk::walk::<2>(steps, streams, first_row, s, y);
                return check_finite(s, 2, y);
            }
            Family::Sphere { dim: 2 } => {
                sphere_walk::walk::<3>(steps, streams, first_row, s, y);
                return check_finite(s, 3, y);
            }
            Family::Sphere { dim: 3 } => {
                sphere_walk::walk::<4>(steps, streams, first_row, s, y);
                return check_finite(s, 4, y);
            }
            _ => {}
        }
    }
    if prior.is_driftless() {
        return brownian_walk(manifold, steps, streams, first_row, s, y);
    }
    let mut heun = Heun::new(manifold, PriorDrift(prior), 1.0);
    let start = vec![0.0; s.len()];
    integrate_fixed(&mut heun, streams, first_row, &start, s, steps, y)
}

/// Brownian motion, whatever the prior.
pub(super) fn brownian_walk(
    manifold: &dyn Manifold,
    steps: usize,
    streams: &Streams,
    first_row: u64,
    s: &[f64],
    y: &mut [f64],
) -> Result<(), SolveError> {
    let mut heun = Heun::new(manifold, NoDrift, 1.0);
    let start = vec![0.0; s.len()];
    integrate_fixed(&mut heun, streams, first_row, &start, s, steps, y)
}

/// The lanes do not stop at a bad row; it is found afterwards.
fn check_finite(s: &[f64], width: usize, y: &[f64]) -> Result<(), SolveError> {
    for (row, y) in y.chunks_exact(width).enumerate() {
        if let Some(&value) = y.iter().find(|y| !y.is_finite()) {
            let quantity = "a coordinate";
            return Err(SolveError::NotFinite { row, time: s[row], quantity, value });
        }
    }
    Ok(())
}
