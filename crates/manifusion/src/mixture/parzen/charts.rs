//! Normal coordinates: where a point lies as seen from another one, along the geodesic between
//! them and in an orthonormal frame.

use std::f64::consts::{FRAC_PI_2, PI, TAU};

use crate::linalg::{axpy, dot, norm, rotation_matrix, scale};
use crate::mixture::space::{QUATERNION_SCALE, Shape, Space};

/// Normal coordinates around every point of a space.
#[derive(Clone, Debug)]
pub(super) struct Charts {
    pub(super) space: Space,
}

/// The angle on a sphere beyond which no kernel reaches.
const FARTHEST: f64 = 0.95 * PI;

/// An angle in [−π, π].
fn wrapped(angle: f64) -> f64 {
    angle - TAU * (angle / TAU).round()
}

/// `v ← H v` for the reflection H that takes the unit vector x to ±e_last: of a vector tangent at x
/// the other entries are then its coefficients in an orthonormal frame.
fn reflect(x: &[f64], v: &mut [f64]) {
    let last = x.len() - 1;
    let sign = if x[last] < 0.0 { -1.0 } else { 1.0 };
    let along = (dot(x, v) + sign * v[last]) / (1.0 + x[last].abs());
    axpy(-along, x, v);
    v[last] -= sign * along;
}

impl Charts {
    /// The dimension, that of the coordinates.
    pub(super) fn dim(&self) -> usize {
        self.space.dim
    }

    /// The largest standard deviation of a normal in these coordinates of whose mass at most 1e-8
    /// lies where they are not one to one, or where [`Charts::chord2`] says that nothing reaches.
    pub(super) fn widest(&self) -> f64 {
        // Beyond √d + 4.8 standard deviations lies less than 1e-8 of a normal in d dimensions.
        let within = |dim: usize| (dim as f64).sqrt() + 4.8;
        let widest = |shape| match shape {
            Shape::Sphere { dim, quotient: true } => QUATERNION_SCALE * FRAC_PI_2 / within(dim),
            Shape::Sphere { dim, .. } => FARTHEST / within(dim),
            // An interval for every circle, and many circles.
            Shape::Circles { .. } => PI / 6.2,
            Shape::Flat { .. } => f64::INFINITY,
        };
        self.space.blocks.iter().map(|block| widest(block.shape)).fold(f64::INFINITY, f64::min)
    }

    /// The squared length of the straight line between two points in internal coordinates: at most
    /// the square of their distance, and cheap. Infinite next to the antipode on a sphere, where
    /// coordinates end and densities in them are divided by almost nothing.
    #[inline]
    pub(super) fn chord2(&self, x: &[f64], y: &[f64]) -> f64 {
        let mut sum = 0.0;
        for block in &self.space.blocks {
            let (x, y) = (&x[block.inner.clone()], &y[block.inner.clone()]);
            let apart = |x: &[f64], y: &[f64]| -> f64 {
                x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum()
            };
            sum += match block.shape {
                Shape::Sphere { quotient: true, .. } => {
                    // The nearer one of ±y.
                    QUATERNION_SCALE * QUATERNION_SCALE * (2.0 - 2.0 * dot(x, y).abs())
                }
                // Cosines and sines stand behind the angles.
                Shape::Circles { count } => apart(&x[count..], &y[count..]),
                Shape::Sphere { .. } if dot(x, y) < FARTHEST.cos() => return f64::INFINITY,
                Shape::Sphere { .. } | Shape::Flat { .. } => apart(x, y),
            };
        }
        sum
    }

    /// `v ←` the normal coordinates of y around x, both in internal coordinates; the logarithm of
    /// what volumes of coordinates are multiplied by there.
    #[inline]
    pub(super) fn coordinates(&self, x: &[f64], y: &[f64], v: &mut [f64]) -> f64 {
        let (mut at, mut log_volume) = (0, 0.0);
        let mut towards = crate::linalg::scratch(0);
        for block in &self.space.blocks {
            let (x, y) = (&x[block.inner.clone()], &y[block.inner.clone()]);
            match block.shape {
                Shape::Sphere { dim, quotient } => {
                    let mut cos = dot(x, y);
                    let sign = if quotient && cos < 0.0 { -1.0 } else { 1.0 };
                    cos *= sign;
                    towards.clear();
                    towards.extend(x.iter().zip(y).map(|(x, y)| sign * y - cos * x));
                    let sin = norm(&towards);
                    let angle = sin.atan2(cos);
                    if sin == 0.0 && cos < 0.0 {
                        // The antipode, for which every direction is as good.
                        v[at..at + dim].fill(0.0);
                        v[at] = PI;
                        at += dim;
                        continue;
                    }
                    if sin > 0.0 {
                        log_volume += (dim as f64 - 1.0) * (sin / angle).ln();
                        let unit = if quotient { QUATERNION_SCALE } else { 1.0 };
                        scale(unit * angle / sin, &mut towards);
                    }
                    reflect(x, &mut towards);
                    v[at..at + dim].copy_from_slice(&towards[..dim]);
                    at += dim;
                }
                Shape::Circles { count } => {
                    for (v, (x, y)) in v[at..].iter_mut().zip(x[..count].iter().zip(y)) {
                        *v = wrapped(y - x);
                    }
                    at += count;
                }
                Shape::Flat { dim } => {
                    for (v, (x, y)) in v[at..].iter_mut().zip(x.iter().zip(y)) {
                        *v = y - x;
                    }
                    at += dim;
                }
            }
        }
        log_volume
    }

    /// `out ←` the point of the manifold with normal coordinates v around x, which is in internal
    /// coordinates.
    pub(super) fn point(&self, x: &[f64], v: &[f64], out: &mut [f64]) {
        let mut at = 0;
        for block in &self.space.blocks {
            let (x, out) = (&x[block.inner.clone()], &mut out[block.ambient.clone()]);
            match block.shape {
                Shape::Sphere { dim, quotient } => {
                    let mut towards = v[at..at + dim].to_vec();
                    towards.push(0.0);
                    reflect(x, &mut towards);
                    let unit = if quotient { QUATERNION_SCALE } else { 1.0 };
                    let angle = norm(&towards) / unit;
                    let mut point = x.to_vec();
                    scale(angle.cos(), &mut point);
                    if angle > 0.0 {
                        axpy(angle.sin() / (angle * unit), &towards, &mut point);
                    }
                    let length = norm(&point);
                    scale(1.0 / length, &mut point);
                    if quotient {
                        out.copy_from_slice(&rotation_matrix([
                            point[0], point[1], point[2], point[3],
                        ]));
                    } else {
                        out.copy_from_slice(&point);
                    }
                    at += dim;
                }
                Shape::Circles { count } => {
                    for j in 0..count {
                        let (sin, cos) = (x[j] + v[at + j]).sin_cos();
                        (out[2 * j], out[2 * j + 1]) = (cos, sin);
                    }
                    at += count;
                }
                Shape::Flat { dim } => {
                    for j in 0..dim {
                        out[j] = x[j] + v[at + j];
                    }
                    at += dim;
                }
            }
        }
    }
}
