//! What follows from P and π alone: a frame, and the mean curvature by differences.

use super::Manifold;
use crate::linalg::{Scratch, axpy, dot, norm, scale, scratch};

/// Orthonormal tangent frame from the projected coordinate vectors: Gram–Schmidt that takes the
/// longest remaining vector each time, so that no choice of basis can fail.
pub(super) fn pivoted_frame<M: Manifold + ?Sized>(manifold: &M, x: &[f64], e: &mut [f64]) {
    let m = manifold.ambient_dim();
    let mut candidates = scratch(m * m);
    for (i, row) in candidates.chunks_exact_mut(m).enumerate() {
        row[i] = 1.0;
        manifold.project_tangent(x, row);
    }
    for j in 0..manifold.dim() {
        let longest = (0..m)
            .max_by(|&a, &b| {
                let length = |i: usize| norm(&candidates[i * m..(i + 1) * m]);
                length(a).total_cmp(&length(b))
            })
            .unwrap_or(0);
        let chosen = &mut e[j * m..(j + 1) * m];
        chosen.copy_from_slice(&candidates[longest * m..(longest + 1) * m]);
        scale(1.0 / norm(chosen), chosen);
        for candidate in candidates.chunks_exact_mut(m) {
            // Twice: once loses digits when the vectors are nearly parallel.
            for _ in 0..2 {
                axpy(-dot(chosen, candidate), chosen, candidate);
            }
        }
    }
}

/// H(x) = Σⱼ D_xP[eⱼ] eⱼ by central differences of P along the curves t ↦ π(x + t eⱼ).
///
/// Only first derivatives of the curve at t = 0 matter, so any retraction does; staying on M means
/// that P need not be meaningful elsewhere. Three step sizes are combined to sixth order:
/// truncation about t⁶ and rounding about ε/t are both near 1e-12 at t = 0.01·scale.
pub(crate) fn mean_curvature<M: Manifold + ?Sized>(manifold: &M, x: &[f64], h: &mut [f64]) {
    let (d, m) = (manifold.dim(), manifold.ambient_dim());
    let mut frame = scratch(d * m);
    manifold.frame(x, &mut frame);
    let step = 0.02 * (norm(x) / (m as f64).sqrt()).max(0.1);
    // Richardson weights of the differences with steps t, t/2, t/4.
    let weights = [(1.0, 1.0 / 45.0), (0.5, -20.0 / 45.0), (0.25, 64.0 / 45.0)];
    h.fill(0.0);
    let mut point = Scratch::from_slice(x);
    let mut value = scratch(m);
    for e in frame.chunks_exact(m) {
        for (factor, weight) in weights {
            let t = factor * step;
            for side in [t, -t] {
                point.copy_from_slice(x);
                axpy(side, e, &mut point);
                if manifold.project_point(&mut point).is_err() {
                    // No value is repaired silently: the caller sees that H is not known here.
                    h.fill(f64::NAN);
                    return;
                }
                value.copy_from_slice(e);
                manifold.project_tangent(&point, &mut value);
                axpy(weight / (2.0 * side), &value, h);
            }
        }
    }
}
