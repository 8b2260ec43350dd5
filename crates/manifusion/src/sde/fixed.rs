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
    let (width, noise_dim) = (stepper.width(), stepper.noise_dim());
    let n = t0.len();
    if n == 0 {
        return Err(ShapeError::Empty.into());
    }
    expect_len(t1.len(), n)?;
    expect_len(x.len(), n * width)?;
    if steps == 0 {
        let expected = "at least one is needed";
        return Err(SolveError::Setting { name: "steps", value: 0.0, expected });
    }
    for (row, (&t0, &t1)) in t0.iter().zip(t1).enumerate() {
        if !(t1 >= t0 && t1.is_finite() && t0.is_finite()) {
            let expected = "it must be finite and not before the start";
            return Err(SolveError::Time { row, time: t1, expected });
        }
    }
    // A row's normals are one sequence, drawn for a multiple of four steps at a time because
    // normals come in fours.
    let block = steps.next_multiple_of(4).min(128);
    let rows: Vec<usize> = (0..n).map(|i| first_row as usize + i).collect();
    let dt: Vec<f64> = t0.iter().zip(t1).map(|(t0, t1)| (t1 - t0) / steps as f64).collect();
    let mut t = t0.to_vec();
    let mut noise = vec![0.0; n * block * noise_dim];
    let mut db = vec![0.0; n * noise_dim];
    for step in 0..steps {
        let within = step % block;
        if within == 0 {
            let first = (step * noise_dim / 4) as u32;
            for (row, z) in noise.chunks_exact_mut(block * noise_dim).enumerate() {
                streams.fill_normal(first_row + row as u64, 0, first, z);
            }
        }
        for i in 0..n {
            let root = dt[i].sqrt();
            let z = &noise[(i * block + within) * noise_dim..][..noise_dim];
            for (db, z) in db[i * noise_dim..(i + 1) * noise_dim].iter_mut().zip(z) {
                *db = root * z;
            }
            t[i] = t0[i] + step as f64 * dt[i];
        }
        stepper.step(&rows, &t, &dt, &db, x)?;
    }
    Ok(())
}
