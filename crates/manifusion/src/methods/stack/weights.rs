//! The weights of a stack's members, by the validation points.

use crate::em;

/// Validation points below which networks are not weighed against a mixture: their likelihood would
/// say less than the pseudo-observations.
pub(super) const LEAST_VALIDATION: usize = 50;

/// Weights of members with these log-densities at the validation points: those that maximise the
/// likelihood of these points, with one pseudo-observation for each member.
pub fn weights(log_p: &[Vec<f64>]) -> Vec<f64> {
    let members = log_p.len();
    let points = log_p.first().map_or(0, Vec::len);
    let mut by_point = Vec::with_capacity(points * members);
    for point in 0..points {
        by_point.extend(log_p.iter().map(|member| member[point]));
    }
    let stop = em::Stop { iterations: 10_000, gain: 1e-10 };
    let mut weights = em::fit(&by_point, &vec![1.0; members], stop).weights;
    let total: f64 = weights.iter().sum();
    for weight in &mut weights {
        *weight /= total;
    }
    weights
}
