//! The mixture on hyperbolic space: wrapped normals of the Lorentz metric, whose heat kernel is not used (the model's noise is that
//! of the Euclidean metric, in which no kernel is known).

use crate::error::SolveError;
use crate::linalg::log_sum_exp;
use crate::manifold::Lorentz;
use crate::parallel;
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::Rows;

/// Rows that one thread takes at a time.
const CHUNK: usize = 16;

/// log density of the isotropic wrapped normal at distance r, for the volume of g_L.
fn log_kernel(space: &Lorentz, r: f64, std: f64) -> f64 {
    let d = space.dim() as f64;
    -0.5 * (r / std).powi(2)
        - d * (std.ln() + 0.5 * std::f64::consts::TAU.ln())
        - space.log_exp_jacobian(r)
}

/// log of the prior's density and of every bandwidth's leave-one-out density at every centre, for the volume of g_E.
pub(super) fn leave_one_out(
    space: &Lorentz,
    prior: &dyn Prior,
    centres: Rows<'_>,
    bandwidths: &[f64],
) -> Result<Vec<f64>, SolveError> {
    let columns = 1 + bandwidths.len();
    let mut out = vec![0.0; centres.len() * columns];
    parallel::for_each_chunk(&mut out, columns, CHUNK, |first, chunk| {
        for (i, out) in chunk.chunks_exact_mut(columns).enumerate() {
            let row = first + i;
            let x = centres.row(row);
            out[0] = prior.log_density(x);
            component_logs(space, centres, x, Some(row), bandwidths, &mut out[1..]);
        }
        Ok(())
    })?;
    Ok(out)
}

/// log of the mean of every bandwidth's kernels at x, without the centre `skip`, for the volume of g_E.
fn component_logs(
    space: &Lorentz,
    centres: Rows<'_>,
    x: &[f64],
    skip: Option<usize>,
    bandwidths: &[f64],
    out: &mut [f64],
) {
    let distances: Vec<f64> = (0..centres.len())
        .filter(|j| Some(*j) != skip)
        .map(|j| space.distance(centres.row(j), x))
        .collect();
    let change = space.points().log_lorentz_over_euclid(x) + (distances.len() as f64).ln();
    let mut terms = vec![0.0; distances.len()];
    for (out, std) in out.iter_mut().zip(bandwidths) {
        for (term, r) in terms.iter_mut().zip(&distances) {
            *term = log_kernel(space, *r, *std);
        }
        *out = log_sum_exp(&terms) - change;
    }
}

/// log p of every row, for the volume of g_E.
pub(super) fn log_density(
    space: &Lorentz,
    prior: &dyn Prior,
    centres: Rows<'_>,
    bandwidths: &[f64],
    weights: &[f64],
    x: Rows<'_>,
) -> Result<Vec<f64>, SolveError> {
    let mut out = vec![0.0; x.len()];
    parallel::for_each_chunk(&mut out, 1, CHUNK, |first, chunk| {
        let mut logs = vec![0.0; weights.len()];
        for (i, out) in chunk.iter_mut().enumerate() {
            let x = x.row(first + i);
            logs[0] = prior.log_density(x);
            component_logs(space, centres, x, None, bandwidths, &mut logs[1..]);
            for (log, weight) in logs.iter_mut().zip(weights) {
                *log += weight.ln();
            }
            *out = log_sum_exp(&logs);
        }
        Ok(())
    })?;
    Ok(out)
}

/// A quarter of the first percentile of nearest-neighbour distances; `None` if points coincide.
pub(super) fn resolution(space: &Lorentz, centres: Rows<'_>, seed: u64) -> Option<f64> {
    const POINTS: usize = 1000;
    let n = centres.len();
    let streams = Streams::new(seed, "mixture-resolution");
    let mut nearest: Vec<f64> = (0..n.min(POINTS))
        .map(|i| {
            let pick = if n <= POINTS {
                i
            } else {
                ((streams.stream(i as u64, 0).uniform() * n as f64) as usize).min(n - 1)
            };
            let to = |j: usize| space.distance(centres.row(pick), centres.row(j));
            (0..n).filter(|j| *j != pick).map(to).fold(f64::INFINITY, f64::min)
        })
        .collect();
    nearest.sort_by(f64::total_cmp);
    let smallest = nearest[nearest.len() / 100];
    (nearest[0] > 0.0).then_some(0.25 * smallest)
}
