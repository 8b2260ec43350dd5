//! The mixture on hyperbolic space: wrapped normals of the Lorentz metric, whose heat kernel is not
//! used (the model's noise has a drift to the prior, and with it no kernel is known).

use super::MixtureOptions;
use super::heat::random_choice;
use crate::error::SolveError;
use crate::linalg::log_sum_exp;
use crate::manifold::Lorentz;
use crate::parallel;
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::Rows;

/// Rows that one thread takes at a time.
const CHUNK: usize = 16;

/// Points that judge the weights, at most: every one is compared with all centres.
const JUDGES: usize = 2000;
/// Kernels this much smaller than the nearest centre's, in nats, are left out.
const NEGLIGIBLE: f64 = 40.0;

/// log of the prior's density and of every bandwidth's leave-one-out density at every judge, for
/// the volume of the space's own metric.
pub(super) fn leave_one_out(
    space: &Lorentz,
    prior: &dyn Prior,
    centres: Rows<'_>,
    bandwidths: &[f64],
    options: &MixtureOptions,
) -> Result<Vec<f64>, SolveError> {
    let columns = 1 + bandwidths.len();
    let judges = random_choice(centres.len(), options.judges.min(JUDGES), options.seed);
    let mut out = vec![0.0; judges.len() * columns];
    parallel::for_each_chunk(&mut out, columns, CHUNK, |first, chunk| {
        for (i, out) in chunk.chunks_exact_mut(columns).enumerate() {
            let row = judges[first + i];
            let x = centres.row(row);
            out[0] = prior.log_density(x);
            component_logs(space, centres, x, Some(row), bandwidths, &mut out[1..]);
        }
        Ok(())
    })?;
    Ok(out)
}

/// log of the mean of every bandwidth's kernels (isotropic wrapped normals of g_L) at x, without
/// the centre `skip`, for the volume of the space's own metric.
fn component_logs(
    space: &Lorentz,
    centres: Rows<'_>,
    x: &[f64],
    skip: Option<usize>,
    bandwidths: &[f64],
    out: &mut [f64],
) {
    // Half squared distances and the densities of the exponential map, which no bandwidth changes.
    let kernels: Vec<(f64, f64)> = (0..centres.len())
        .filter(|j| Some(*j) != skip)
        .map(|j| {
            let r = space.distance(centres.row(j), x);
            (0.5 * r * r, (-space.log_exp_jacobian(r)).exp())
        })
        .collect();
    let nearest = kernels.iter().map(|k| k.0).fold(f64::INFINITY, f64::min);
    let change = space.points().log_lorentz_over_own(x) + (kernels.len() as f64).ln();
    let d = space.dim() as f64;
    for (out, std) in out.iter_mut().zip(bandwidths) {
        let rate = 1.0 / (std * std);
        let sum: f64 = kernels
            .iter()
            .map(|(half, density)| ((half - nearest) * rate, density))
            .filter(|(fall, _)| *fall < NEGLIGIBLE)
            .map(|(fall, density)| density * (-fall).exp())
            .sum();
        let log_norm = d * (std.ln() + 0.5 * std::f64::consts::TAU.ln());
        *out = sum.ln() - nearest * rate - log_norm - change;
    }
}

/// log p of every row, for the volume of the space's own metric.
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
