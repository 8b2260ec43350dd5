//! The weights of a stack's members, by the validation points.

use crate::em;

/// Validation points below which networks are not weighed against a mixture: their likelihood would
/// say less than the pseudo-observations.
pub(super) const LEAST_VALIDATION: usize = 50;

/// Weights of members with these log-densities at the validation points: those that maximise the
/// likelihood of these points, with one pseudo-observation for each member.
pub(super) fn weights(log_p: &[Vec<f64>]) -> Vec<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two members of which one is right at a third of the points and the other at the rest.
    #[test]
    fn weights_are_shares_of_the_points() {
        let n = 3000;
        let right = |third: bool| {
            let log_p = move |i: usize| if i.is_multiple_of(3) == third { 0.0 } else { -50.0 };
            (0..n).map(log_p).collect::<Vec<f64>>()
        };
        let found = weights(&[right(true), right(false)]);
        let expected = [1001.0 / 3002.0, 2001.0 / 3002.0];
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-8, "{found} {expected}");
        }
        // A member that is nowhere better keeps its pseudo-observation alone.
        let found = weights(&[vec![0.0; n], vec![-9.0; n]]);
        assert!(found[1] < 1.5 / n as f64 && found[1] > 0.0, "{found:?}");
    }
}
