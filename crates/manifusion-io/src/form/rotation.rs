//! Rotations of space in their usual coordinates. Quaternions are (w, x, y, z) and turn v into q v
//! q*.

use manifusion::linalg::unit_quaternion;

/// The unit quaternion of a rotation matrix whose first component that is not zero is positive.
pub(super) fn quaternion_of_matrix(r: &[f64]) -> [f64; 4] {
    let q = unit_quaternion(r);
    let negative = q.iter().find(|v| v.abs() > 1e-12).is_some_and(|v| *v < 0.0);
    q.map(|v| if negative { -v } else { v })
}

pub(super) fn length(v: &[f64]) -> f64 {
    v.iter().map(|v| v * v).sum::<f64>().sqrt()
}

/// R_z(φ₁)R_x(Φ)R_z(φ₂), radians.
pub(super) fn quaternion_of_bunge([first, middle, last]: [f64; 3]) -> [f64; 4] {
    let (sin, cos) = (middle / 2.0).sin_cos();
    let (sin_sum, cos_sum) = ((first + last) / 2.0).sin_cos();
    let (sin_difference, cos_difference) = ((first - last) / 2.0).sin_cos();
    [cos * cos_sum, sin * cos_difference, sin * sin_difference, cos * sin_sum]
}

/// φ₁ ∈ [0, 2π), Φ ∈ [0, π], φ₂ ∈ [0, 2π). The quaternion gives φ₁ ± φ₂ directly, so that the
/// rotation comes back exactly also near Φ = 0 and π, where only one of the two is determined.
pub(super) fn bunge_of_quaternion([w, x, y, z]: [f64; 4]) -> [f64; 3] {
    use std::f64::consts::TAU;
    let (half_sum, half_difference) = (z.atan2(w), y.atan2(x));
    let middle = 2.0 * x.hypot(y).atan2(w.hypot(z));
    let wrap = |angle: f64| {
        let turned = angle.rem_euclid(TAU);
        if turned >= TAU { 0.0 } else { turned }
    };
    [wrap(half_sum + half_difference), middle, wrap(half_sum - half_difference)]
}

/// The rotation by |v| radians about v.
pub(super) fn quaternion_of_rotvec(v: [f64; 3]) -> [f64; 4] {
    let angle = length(&v);
    // sin(a/2)/a, whose series begins 1/2 − a²/48.
    let factor =
        if angle < 1e-4 { 0.5 - angle * angle / 48.0 } else { (angle / 2.0).sin() / angle };
    [(angle / 2.0).cos(), factor * v[0], factor * v[1], factor * v[2]]
}

/// The rotation vector of length at most π.
pub(super) fn rotvec_of_quaternion(q: [f64; 4]) -> [f64; 3] {
    let [w, x, y, z] = if q[0] < 0.0 { q.map(|v| -v) } else { q };
    let sine = length(&[x, y, z]);
    // a/sin(a/2) with a = 2 atan2(sine, w).
    let factor = if sine < 1e-8 { 2.0 } else { 2.0 * sine.atan2(w) / sine };
    [factor * x, factor * y, factor * z]
}
