//! The heat kernel of SO(3) in the Frobenius metric: Brownian motion on S³ (unit quaternions) for
//! time s/8, summed over the two quaternions of a rotation. Known as IGSO(3) with ε² = s/2.

use std::f64::consts::PI;

use super::RadialKernel;
use super::theta::{image_correction, inverse_minus_cot, log_phi_over_sin};

/// S³ time above which characters are used.
const SWITCH: f64 = 0.25;

/// Kernel at rotation angle ω ∈ [0, π] and time s, with respect to the Frobenius volume (total
/// 16√2π²); the slope is d log K/dω.
pub fn rotation_kernel(s: f64, omega: f64) -> RadialKernel {
    let t = s / 8.0;
    // |dR|² = 8|dq|², so volumes differ by 8^{3/2}.
    let volume = 1.5 * 8f64.ln();
    if t < SWITCH {
        let phi = 0.5 * omega;
        let (correction, slope) = image_correction(t, phi, PI, -1.0);
        let log_density = 0.5 * t - 1.5 * (2.0 * PI * t).ln() - 0.5 * phi * phi / t
            + log_phi_over_sin(phi)
            + correction
            - volume;
        // Half, because φ = ω/2.
        let slope = 0.5 * (-phi / t + inverse_minus_cot(phi) + slope);
        return RadialKernel { log_density, slope, error: 1e-14 };
    }
    let (density, slope) = characters(s, omega);
    let total = 0.5 * 2f64.ln() + 16f64.ln() + 2.0 * PI.ln();
    RadialKernel { log_density: density.ln() - total, slope: slope / density, error: 1e-14 }
}

/// Σ_l (2l+1) e^{−l(l+1)s/4} χ_l(ω), relative to uniform, and its derivative; χ_l =
/// sin((l+½)ω)/sin(ω/2) = 1 + 2Σ_{j≤l} cos jω, a sum that is smooth at ω = 0.
fn characters(s: f64, omega: f64) -> (f64, f64) {
    let (mut sum, mut slope) = (1.0, 0.0);
    let (mut chi, mut chi_slope) = (1.0, 0.0);
    for l in 1..=20 {
        let l = f64::from(l);
        let (sin, cos) = (l * omega).sin_cos();
        chi += 2.0 * cos;
        chi_slope -= 2.0 * l * sin;
        let weight = (2.0 * l + 1.0) * (-0.25 * l * (l + 1.0) * s).exp();
        sum += weight * chi;
        slope += weight * chi_slope;
        if weight * l * l * l < 1e-18 {
            break;
        }
    }
    (sum, slope)
}

/// sin ω·n and cos ω of the rotation XᵀY by ω about n.
pub(super) fn relative_rotation(x: &[f64], y: &[f64]) -> ([f64; 3], f64) {
    // a_ij = Σ_k x_ki y_kj
    let a = |i: usize, j: usize| (0..3).map(|k| x[3 * k + i] * y[3 * k + j]).sum::<f64>();
    let vector = [0.5 * (a(2, 1) - a(1, 2)), 0.5 * (a(0, 2) - a(2, 0)), 0.5 * (a(1, 0) - a(0, 1))];
    (vector, 0.5 * (a(0, 0) + a(1, 1) + a(2, 2) - 1.0))
}

/// `out ← factor·Y[v]×`.
pub(super) fn times_cross(y: &[f64], v: &[f64; 3], factor: f64, out: &mut [f64]) {
    for (row, out) in y.chunks_exact(3).zip(out.chunks_exact_mut(3)) {
        // A row r times [v]× is r × v read as a row: (r[v]×)_j = Σ_i r_i [v]×_ij.
        out[0] = factor * (row[1] * v[2] - row[2] * v[1]);
        out[1] = factor * (row[2] * v[0] - row[0] * v[2]);
        out[2] = factor * (row[0] * v[1] - row[1] * v[0]);
    }
}
