//! Fixed dyadic grids along a Brownian path.

use super::Stepper;
use crate::brownian::{BrownianTree, Dyadic, MAX_LEVEL};
use crate::error::{ShapeError, SolveError};
use crate::rows::expect_len;

/// Moves every row along the whole clock in 2^`level` steps that are equal on the clock's axis. Row
/// i of `x` uses the path of row `first_row` + i.
pub fn integrate_uniform(
    stepper: &mut dyn Stepper,
    tree: &BrownianTree,
    first_row: u64,
    level: u32,
    x: &mut [f64],
) -> Result<(), SolveError> {
    if x.is_empty() {
        return Err(ShapeError::Empty.into());
    }
    let (width, m) = (stepper.width(), stepper.noise_dim());
    expect_len(x.len() % width, 0)?;
    expect_len(tree.dim(), m)?;
    if !tree.clock().is_valid() {
        let time = tree.clock().time(1.0);
        let expected = "the clock must run between finite times, and logarithms start above 0";
        return Err(SolveError::Time { row: 0, time, expected });
    }
    if level >= MAX_LEVEL {
        let expected = "2^level steps, with a level below 43";
        return Err(SolveError::Setting { name: "level", value: f64::from(level), expected });
    }
    let rows: Vec<usize> = (0..x.len() / width).map(|row| first_row as usize + row).collect();
    let (mut db, mut halves) = (vec![0.0; rows.len() * m], vec![0.0; 2 * m]);
    for index in 0..1u64 << level {
        let at = Dyadic { level, index };
        for (db, &row) in db.chunks_exact_mut(m).zip(&rows) {
            tree.increments(row as u64, at, db, &mut halves);
        }
        let (t, dt) = tree.interval(at);
        stepper.step(&rows, &vec![t; rows.len()], &vec![dt; rows.len()], &db, x)?;
    }
    Ok(())
}
