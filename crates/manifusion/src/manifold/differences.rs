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

/// H(x) = Σⱼ D_xP\[eⱼ\] eⱼ by central differences of P along the curves t ↦ π(x + t eⱼ).
///
/// Only first derivatives of the curve at t = 0 matter, so any retraction does; staying on M means
/// that P need not be meaningful elsewhere. Three step sizes are combined to sixth order. The step
/// is shortened until it is small against the radius of curvature that comes out, and where π
/// refuses; NaN if no step will do.
pub(crate) fn mean_curvature<M: Manifold + ?Sized>(manifold: &M, x: &[f64], h: &mut [f64]) {
    let (d, m) = (manifold.dim(), manifold.ambient_dim());
    let mut frame = scratch(d * m);
    manifold.frame(x, &mut frame);
    let mut step = 0.02 * (norm(x) / (m as f64).sqrt()).max(0.1);
    for _ in 0..12 {
        if curvature_sum(manifold, x, &frame, step, h) {
            let bend = norm(h) / (d as f64).sqrt() * step;
            if bend < 0.1 {
                return;
            }
            step *= (0.03 / bend).max(0.1);
        } else {
            step *= 0.2;
        }
    }
    // No value is repaired silently: the caller sees that H is not known here.
    h.fill(f64::NAN);
}

/// The differences with one step; false if π refuses a point.
fn curvature_sum<M: Manifold + ?Sized>(
    manifold: &M,
    x: &[f64],
    frame: &[f64],
    step: f64,
    h: &mut [f64],
) -> bool {
    // Richardson weights of the differences with steps t, t/2, t/4.
    let weights = [(1.0, 1.0 / 45.0), (0.5, -20.0 / 45.0), (0.25, 64.0 / 45.0)];
    h.fill(0.0);
    let mut point = Scratch::from_slice(x);
    let mut value = scratch(x.len());
    for e in frame.chunks_exact(x.len()) {
        for (factor, weight) in weights {
            for side in [factor * step, -factor * step] {
                point.copy_from_slice(x);
                axpy(side, e, &mut point);
                if manifold.project_point(&mut point).is_err() {
                    return false;
                }
                value.copy_from_slice(e);
                manifold.project_tangent(&point, &mut value);
                axpy(weight / (2.0 * side), &value, h);
            }
        }
    }
    true
}

/// The point of M in z + N_xM by the iteration w ← w − P_x(π(w) − z), which contracts while the
/// surface bends little between x and z. Slow convergence counts as failure: for a chain it is a
/// rejected step.
pub(super) fn project_along_normal<M: Manifold + ?Sized>(
    manifold: &M,
    x: &[f64],
    z: &mut [f64],
) -> bool {
    let tolerance = 1e-11 * (1.0 + norm(x));
    let mut w = Scratch::from_slice(z);
    let mut last = f64::INFINITY;
    for _ in 0..60 {
        let mut y = w.clone();
        if manifold.project_point(&mut y).is_err() {
            return false;
        }
        let mut miss = y.clone();
        axpy(-1.0, z, &mut miss);
        manifold.project_tangent(x, &mut miss);
        let size = norm(&miss);
        if size < tolerance {
            z.copy_from_slice(&y);
            return true;
        }
        // Also ends for NaN.
        if !(size < 0.6 * last) {
            return false;
        }
        last = size;
        axpy(-1.0, &miss, &mut w);
    }
    false
}
