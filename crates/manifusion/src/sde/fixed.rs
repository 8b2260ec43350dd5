//! A fixed number of equal steps per row.

use super::Stepper;
use crate::error::{ShapeError, SolveError};
use crate::rng::Streams;
use crate::rows::expect_len;

/// Moves row i from `t0[i]` to `t1[i]` in `steps` equal steps. Its noise is drawn from (`first_row`
/// + i, `step` 0).
pub fn integrate_fixed(
    stepper: &mut dyn Stepper,
    streams: &Streams,
    first_row: u64,
    t0: &[f64],
    t1: &[f64],
    steps: usize,
    x: &mut [f64],
) -> Result<(), SolveError> {
    let rows: Vec<u64> = (0..t0.len() as u64).map(|i| first_row + i).collect();
    integrate_fixed_rows(stepper, streams, &rows, t0, t1, &vec![steps; t0.len()], x)
}

/// The same for rows that are numbered one by one and have each its own number of steps, none less
/// than the row after it: those that are under way make a step together.
pub fn integrate_fixed_rows(
    stepper: &mut dyn Stepper,
    streams: &Streams,
    numbers: &[u64],
    t0: &[f64],
    t1: &[f64],
    steps: &[usize],
    x: &mut [f64],
) -> Result<(), SolveError> {
    let (width, noise_dim) = (stepper.width(), stepper.noise_dim());
    let n = t0.len();
    if n == 0 {
        return Err(ShapeError::Empty.into());
    }
    expect_len(t1.len(), n)?;
    expect_len(numbers.len(), n)?;
    expect_len(steps.len(), n)?;
    expect_len(x.len(), n * width)?;
    let (most, least) = (steps[0], steps[n - 1]);
    if least == 0 || !steps.is_sorted_by(|a, b| a >= b) {
        let expected = "at least one is needed, and no row more than those before it";
        return Err(SolveError::Setting { name: "steps", value: least as f64, expected });
    }
    for (row, (&t0, &t1)) in t0.iter().zip(t1).enumerate() {
        if !(t1 >= t0 && t1.is_finite() && t0.is_finite()) {
            let expected = "it must be finite and not before the start";
            return Err(SolveError::Time { row, time: t1, expected });
        }
    }
    // A row's normals are one sequence, drawn for a multiple of four steps at a time because
    // normals come in fours.
    let block = most.next_multiple_of(4).min(128);
    let rows: Vec<usize> = numbers.iter().map(|number| *number as usize).collect();
    let length = |((t0, t1), steps): ((&f64, &f64), &usize)| (t1 - t0) / *steps as f64;
    let dt: Vec<f64> = t0.iter().zip(t1).zip(steps).map(length).collect();
    let mut t = t0.to_vec();
    let mut noise = vec![0.0; n * block * noise_dim];
    let mut db = vec![0.0; n * noise_dim];
    let mut active = n;
    for step in 0..most {
        while steps[active - 1] <= step {
            active -= 1;
        }
        let within = step % block;
        if within == 0 {
            let first = (step * noise_dim / 4) as u32;
            let rows = numbers[..active].iter().zip(noise.chunks_exact_mut(block * noise_dim));
            for (number, z) in rows {
                streams.fill_normal(*number, 0, first, z);
            }
        }
        for i in 0..active {
            let root = dt[i].sqrt();
            let z = &noise[(i * block + within) * noise_dim..][..noise_dim];
            for (db, z) in db[i * noise_dim..(i + 1) * noise_dim].iter_mut().zip(z) {
                *db = root * z;
            }
            t[i] = t0[i] + step as f64 * dt[i];
        }
        let (db, x) = (&db[..active * noise_dim], &mut x[..active * width]);
        stepper.step(&rows[..active], &t[..active], &dt[..active], db, x)?;
    }
    Ok(())
}
