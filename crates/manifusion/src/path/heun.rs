//! Heun steps for a chunk of rows, with the manifold known at compile time where that pays.

use crate::error::SolveError;
use crate::manifold::{Kind, Manifold, Sphere, Torus};
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
    // The projections are a few instructions on these two: through a virtual call they would cost as much again.
    match manifold.kind() {
        Kind::Sphere { dim } if prior.is_driftless() => {
            if let Ok(sphere) = Sphere::new(dim) {
                return run(&sphere, steps, streams, first_row, s, y);
            }
        }
        Kind::Torus { dim } if prior.is_driftless() => {
            if let Ok(torus) = Torus::new(dim) {
                return run(&torus, steps, streams, first_row, s, y);
            }
        }
        _ => {}
    }
    if prior.is_driftless() {
        return run(manifold, steps, streams, first_row, s, y);
    }
    let mut heun = Heun::new(manifold, PriorDrift(prior), 1.0);
    let start = vec![0.0; s.len()];
    integrate_fixed(&mut heun, streams, first_row, &start, s, steps, y)
}

fn run<M: Manifold + ?Sized>(
    manifold: &M,
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
