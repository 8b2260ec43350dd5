//! The heat kernel of S^d, a function of the angle φ between two points.
//!
//! Two forms, each with an estimate of its own error; the better one is returned.
//! - Gegenbauer series: K = (1/vol) Σₙ dimₙ e^{−n(n+d−1)s/2} Rₙ(cos φ), Rₙ the Gegenbauer
//!   polynomial normalised to Rₙ(1) = 1. Accurate while the sum is not much smaller than its terms.
//! - Small times: K = (2πs)^{−d/2} e^{−φ²/2s} (φ/sin φ)^{(d−1)/2} e^{ℓ(s,φ)}. Inserting this into
//!   the heat equation gives ∂ₛℓ + (φ/s)ℓ' = ½(ℓ'' + (d−1)ℓ'/φ + ℓ'²) + W(φ), W = ½[κ² +
//!   κ(1−κ)(1/sin²φ − 1/φ²)], κ = (d−1)/2, which the double power series ℓ = Σ bₙⱼ sⁿ φ^{2j} solves
//!   by recursion. On S³ it is one term, ℓ = s/2.

use std::f64::consts::{PI, TAU};

use super::theta::{image_correction, inverse_minus_cot, log_phi_over_sin};
use super::{RadialKernel, wrapped_normal};
use crate::manifold::sphere_log_volume;

/// Powers of s, and of φ², in ℓ.
const ORDERS: usize = 10;
const POWERS: usize = 40;

/// K_s on the unit sphere S^d.
#[derive(Clone, Debug)]
pub struct SphereKernel {
    dim: usize,
    /// bₙⱼ for n = 1 …, j = 0 ….
    coefficients: Vec<[f64; POWERS]>,
}

impl SphereKernel {
    /// The kernel of S^`dim`, dim ≥ 1.
    pub fn new(dim: usize) -> Self {
        Self { dim, coefficients: small_time_coefficients(dim as f64) }
    }

    /// log K_s and its slope at angle φ ∈ [0, π], with the estimated relative error of the slope.
    pub fn eval(&self, s: f64, phi: f64) -> RadialKernel {
        match self.dim {
            1 => wrapped_normal(s, phi),
            3 if s < 1.0 => three_sphere(s, phi),
            _ => {
                let small = self.small_time(s, phi);
                if small.error < 1e-9 {
                    return small;
                }
                let series = self.gegenbauer(s, phi);
                if series.error < small.error { series } else { small }
            }
        }
    }

    /// The small-time form; its error is judged by the last power of s and of φ².
    fn small_time(&self, s: f64, phi: f64) -> RadialKernel {
        let (d, z) = (self.dim as f64, phi * phi);
        let kappa = 0.5 * (d - 1.0);
        let (mut value, mut slope, mut last_order, mut last_power) = (0.0, 0.0, 0.0, 0.0);
        let mut time = 1.0;
        for row in &self.coefficients {
            time *= s;
            let (mut order_value, mut order_slope, mut power) = (0.0, 0.0, 1.0);
            let mut term = 0.0;
            for (j, b) in row.iter().enumerate() {
                order_value += b * power;
                // d/dφ of b φ^{2j}, divided by φ.
                if j > 0 {
                    term = 2.0 * j as f64 * b * power / z;
                    order_slope += term;
                }
                power *= z;
                // Rounding in the highest powers cannot matter once they vanish.
                if power < 1e-300 {
                    term = 0.0;
                    break;
                }
            }
            value += time * order_value;
            slope += time * order_slope;
            last_order = time * order_slope;
            last_power += (time * term).abs();
        }
        if z < 1e-290 {
            slope = self.coefficients.iter().zip(1..).map(|(b, n)| 2.0 * b[1] * s.powi(n)).sum();
        }
        let main = -1.0 / s + kappa * inverse_minus_cot(phi) / phi.max(1e-150);
        let total = main + slope;
        // The geodesic around the other side, which this form leaves out.
        let image = (1.0 + TAU * TAU / s) * (-TAU * (PI - phi) / s).exp();
        let relative = (last_order.abs() + last_power) / total.abs() + image;
        // An asymptotic series: when its terms stop falling it says nothing.
        let error = if relative.is_finite() { relative + 1e-15 } else { f64::INFINITY };
        let log_density =
            -0.5 * (d * (TAU * s).ln() + z / s) + kappa * log_phi_over_sin(phi) + value;
        RadialKernel { log_density, slope: phi * total, error }
    }

    /// The Gegenbauer series and, by Rₙ' = n(n+d−1)/d · R^{(d+2)}ₙ₋₁, its derivative.
    fn gegenbauer(&self, s: f64, phi: f64) -> RadialKernel {
        const MAX_TERMS: usize = 4000;
        let d = self.dim as f64;
        let (cos, sin) = (phi.cos(), phi.sin());
        let (mut r, mut r_next) = (1.0, cos);
        let (mut q, mut q_next) = (1.0, cos);
        let (mut sum, mut size, mut slope, mut slope_size) = (1.0, 1.0, 0.0, 0.0);
        let mut log_dimension = 0.0;
        let mut finished = false;
        let mut terms = 0;
        for n in 1..MAX_TERMS {
            let n = n as f64;
            // dimₙ/dimₙ₋₁ = (2n+d−1)/(2n+d−3)·(n+d−2)/n; for n = 1 the factor d−1 cancels.
            log_dimension += if n < 1.5 {
                (d + 1.0).ln()
            } else {
                ((2.0 * n + d - 1.0) / (2.0 * n + d - 3.0) * (n + d - 2.0) / n).ln()
            };
            let eigenvalue = n * (n + d - 1.0);
            let weight = (log_dimension - 0.5 * eigenvalue * s).exp();
            let gradient = weight * eigenvalue / d;
            sum += weight * r_next;
            size += weight * r_next.abs();
            slope += gradient * q;
            slope_size += gradient * q.abs();
            terms = n as usize;
            if gradient < 1e-18 * slope_size.max(1e-300) && weight < 1e-18 * size {
                finished = true;
                break;
            }
            // (n + d − 1) Rₙ₊₁ = (2n + d − 1) cos φ Rₙ − n Rₙ₋₁, and the same with d + 2.
            (r, r_next) = (r_next, ((2.0 * n + d - 1.0) * cos * r_next - n * r) / (n + d - 1.0));
            let step = n - 1.0;
            if n < 1.5 {
                q = q_next;
                q_next = ((2.0 + d + 1.0) * cos * q_next - 1.0) / (2.0 + d);
            } else {
                let k = step + 1.0;
                (q, q_next) =
                    (q_next, ((2.0 * k + d + 1.0) * cos * q_next - k * q) / (k + d + 1.0));
            }
        }
        let rounding = 2e-16 * (8.0 + terms as f64 / 4.0);
        let error = rounding * (size / sum.abs() + slope_size / slope.abs().max(1e-300));
        let error = if finished && sum > 0.0 { error } else { f64::INFINITY };
        RadialKernel {
            log_density: sum.ln() - sphere_log_volume(self.dim),
            slope: -sin * slope / sum,
            error,
        }
    }
}

/// S³ by images; the kernel that the small-time form has there, with the images put in.
fn three_sphere(s: f64, phi: f64) -> RadialKernel {
    let (correction, slope) = image_correction(s, phi, TAU, 1.0);
    RadialKernel {
        log_density: 0.5 * s - 1.5 * (TAU * s).ln() - 0.5 * phi * phi / s
            + log_phi_over_sin(phi)
            + correction,
        slope: -phi / s + inverse_minus_cot(phi) + slope,
        // Towards the antipode φ/sin φ grows against the images.
        error: 1e-14 + 1e-15 / (PI - phi).max(1e-30).powi(2),
    }
}

/// bₙⱼ by (n + 2j) bₙⱼ = W_j δₙ₁ + (j+1)(2j + d) bₙ₋₁,ⱼ₊₁ + 2 Σ i·l·b_pi b_ql over p + q = n − 1, i
/// + l = j + 1.
fn small_time_coefficients(d: f64) -> Vec<[f64; POWERS]> {
    let width = POWERS + ORDERS + 1;
    let kappa = 0.5 * (d - 1.0);
    let mut b: Vec<Vec<f64>> = Vec::new();
    for n in 1..=ORDERS {
        let mut row = vec![0.0; width];
        let used = width - n;
        for (j, value) in row.iter_mut().enumerate().take(used) {
            let mut total = 0.0;
            if n == 1 {
                total += 0.5 * kappa * (1.0 - kappa) * cosecant_coefficient(j + 1);
                if j == 0 {
                    total += 0.5 * kappa * kappa;
                }
            } else {
                total += (j as f64 + 1.0) * (2.0 * j as f64 + d) * b[n - 2][j + 1];
            }
            for p in 1..n.saturating_sub(1) {
                let q = n - 1 - p;
                for i in 1..=j {
                    let l = j + 1 - i;
                    total += 2.0 * (i * l) as f64 * b[p - 1][i] * b[q - 1][l];
                }
            }
            *value = total / (n + 2 * j) as f64;
        }
        b.push(row);
    }
    b.into_iter().map(|row| std::array::from_fn(|j| row[j])).collect()
}

/// Coefficient of φ^{2k−2} in 1/sin²φ − 1/φ²: 2(2k−1)ζ(2k)/π^{2k}.
fn cosecant_coefficient(k: usize) -> f64 {
    let power = 2 * k as i32;
    let zeta: f64 = if k == 1 {
        PI * PI / 6.0
    } else {
        (1..4000).rev().map(|n| f64::from(n).powi(-power)).sum()
    };
    2.0 * (2.0 * k as f64 - 1.0) * zeta / PI.powi(power)
}
