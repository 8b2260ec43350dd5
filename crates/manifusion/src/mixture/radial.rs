//! Heat kernels of one block in forms that cost a few multiplications: a Gaussian times the
//! exponential of a polynomial while the kernel is narrow, a polynomial in the cosine of the angle
//! (the truncated eigenfunction series) once it is wide.

use std::f64::consts::PI;

use super::space::{QUATERNION_SCALE, Shape};
use crate::heat_kernel::SphereKernel;
use crate::manifold::sphere_log_volume;

/// Largest angle at which the polynomial of a narrow sphere kernel is used: φ² as a function of the
/// squared chord is singular at the antipode.
const SPHERE_LIMIT: f64 = 1.8;
/// The same between unit quaternions, where ±q are one rotation and the cut locus is at a right
/// angle.
const QUOTIENT_LIMIT: f64 = 1.5;
/// Most terms of an eigenfunction series.
const MAX_TERMS: usize = 64;
/// Degree of the polynomial of a narrow kernel, and what is left out of it, in units of the peak.
const DEGREE: usize = 20;
const TOLERANCE: f64 = 1e-13;

/// A block's kernel at one time, relative to its peak.
#[derive(Clone, Debug)]
pub(super) enum RadialForm {
    /// exp(−q/2V + C(2q/q_max − 1)) for squared chords q ≤ q_max, and nothing beyond.
    Narrow { half_precision: f64, q_max: f64, poly: Vec<f64> },
    /// F(t) + εG(t), polynomials in t = cos φ, or in t² on a quotient; εG is the change when V
    /// grows by εV.
    Wide { value: Vec<f64>, change: Vec<f64> },
    /// exp(−|δ|²/2V) of angles δ, or of differences to ρ times the centre on ℝ^d.
    Gauss { precision: f64, decay: f64 },
}

/// The kernels of one block at all times.
#[derive(Clone, Debug)]
pub(super) struct Radial {
    shape: Shape,
    /// Kernels are dropped beyond this many standard deviations.
    reach: f64,
    kernel: Option<SphereKernel>,
    /// Monomial coefficients of the normalised eigenfunctions Rₙ, row n at n(n+1)/2.
    eigenfunctions: Vec<f64>,
}

impl Radial {
    /// Exact to about 1e-10 of the peak.
    pub(super) fn new(shape: Shape, reach: f64) -> Self {
        let (kernel, eigenfunctions) = match shape {
            Shape::Sphere { dim, .. } => (Some(SphereKernel::new(dim)), eigenfunctions(dim)),
            Shape::Circles { .. } => (None, eigenfunctions(1)),
            Shape::Flat { .. } => (None, Vec::new()),
        };
        Self { shape, reach, kernel, eigenfunctions }
    }

    /// Variance at which the narrow form ends: its reach comes to the limit of what it describes.
    fn switch(&self) -> f64 {
        let limit = match self.shape {
            Shape::Sphere { quotient: true, .. } => QUOTIENT_LIMIT,
            Shape::Sphere { .. } => SPHERE_LIMIT,
            Shape::Circles { .. } => PI,
            Shape::Flat { .. } => f64::INFINITY,
        };
        (limit / self.reach).powi(2)
    }

    /// The form at `variance` (in the block's internal metric, on ℝ^d with the centre's factor
    /// `decay`), and the logarithm of its peak with respect to the manifold's volume.
    pub(super) fn form(&self, variance: f64, decay: f64) -> (RadialForm, f64) {
        let gauss = RadialForm::Gauss { precision: 1.0 / variance, decay };
        let peak = |dim: usize| -0.5 * dim as f64 * (2.0 * PI * variance).ln();
        match self.shape {
            Shape::Flat { dim } => (gauss, peak(dim)),
            Shape::Circles { count } if variance < self.switch() => (gauss, peak(count)),
            Shape::Circles { count } => {
                let (form, log_peak) = self.wide(1, false, variance);
                (form, count as f64 * log_peak)
            }
            Shape::Sphere { dim, quotient } => {
                let volume = if quotient { -3.0 * QUATERNION_SCALE.ln() } else { 0.0 };
                if variance >= self.switch() {
                    let (form, log_peak) = self.wide(dim, quotient, variance);
                    return (form, log_peak + volume);
                }
                let (poly, correction) = self.correction(variance);
                let q_max = q_of(self.reach * variance.sqrt());
                let form = RadialForm::Narrow { half_precision: 0.5 / variance, q_max, poly };
                (form, peak(dim) + correction + volume)
            }
        }
    }

    /// C without its constant, and log K(0) + (d/2) log 2πV.
    fn correction(&self, variance: f64) -> (Vec<f64>, f64) {
        let mut coefficients = self.fit(variance);
        let constant = coefficients.pop().unwrap_or(0.0);
        // Narrow kernels feel little of the curvature: most of their coefficients vanish.
        while coefficients.last().is_some_and(|c| c.abs() < TOLERANCE) {
            coefficients.pop();
        }
        (coefficients, constant)
    }

    /// Polynomial in y ∈ [−1, 1], and last the constant log K(0) + (d/2) log 2πV.
    fn fit(&self, variance: f64) -> Vec<f64> {
        let Some(kernel) = &self.kernel else { return vec![0.0] };
        let Shape::Sphere { dim, .. } = self.shape else { return vec![0.0] };
        let normaliser = 0.5 * dim as f64 * (2.0 * PI * variance).ln();
        let q_max = q_of(self.reach * variance.sqrt());
        let peak = kernel.eval(variance, 0.0).log_density;
        let nodes = DEGREE + 1;
        let values: Vec<f64> = (0..nodes)
            .map(|i| {
                let y = ((i as f64 + 0.5) * PI / nodes as f64).cos();
                let q = 0.5 * q_max * (y + 1.0);
                let angle = 2.0 * (0.5 * q.sqrt()).asin();
                kernel.eval(variance, angle).log_density - peak + 0.5 * q / variance
            })
            .collect();
        let mut poly = chebyshev_to_monomials(&chebyshev(&values));
        poly.push(peak + normaliser);
        poly
    }

    /// The eigenfunction series 1 + Σ dimₙ e^{−n(n+d−1)V/2} Rₙ (even n alone on the quotient),
    /// relative to its value at t = 1.
    fn wide(&self, dim: usize, quotient: bool, variance: f64) -> (RadialForm, f64) {
        let d = dim as f64;
        let (mut value, mut change) = (vec![1.0], vec![0.0]);
        let (mut peak, mut multiplicity) = (1.0, 1.0);
        for n in 1..MAX_TERMS {
            let k = n as f64;
            multiplicity *= if n == 1 {
                d + 1.0
            } else {
                (2.0 * k + d - 1.0) / (2.0 * k + d - 3.0) * (k + d - 2.0) / k
            };
            if quotient && n % 2 == 1 {
                continue;
            }
            let rate = 0.5 * k * (k + d - 1.0) * variance;
            let weight = multiplicity * (-rate).exp();
            if weight < TOLERANCE * peak && rate > 1.0 {
                break;
            }
            peak += weight;
            let row = &self.eigenfunctions[n * (n + 1) / 2..(n + 1) * (n + 2) / 2];
            let step = if quotient { 2 } else { 1 };
            value.resize(n / step + 1, 0.0);
            change.resize(n / step + 1, 0.0);
            for (j, r) in row.iter().step_by(step).enumerate() {
                value[j] += weight * r;
                change[j] -= rate * weight * r;
            }
        }
        // When V grows the peak falls, and what is tabulated is relative to the peak at V.
        for c in value.iter_mut().chain(&mut change) {
            *c /= peak;
        }
        let volume = sphere_log_volume(dim) - if quotient { 2f64.ln() } else { 0.0 };
        (RadialForm::Wide { value, change }, peak.ln() - volume)
    }
}

/// Squared chord of an angle.
fn q_of(angle: f64) -> f64 {
    4.0 * (0.5 * angle).sin().powi(2)
}

/// Monomial coefficients of Rₙ, Rₙ(1) = 1, by (n + d − 1) Rₙ₊₁ = (2n + d − 1) t Rₙ − n Rₙ₋₁.
fn eigenfunctions(dim: usize) -> Vec<f64> {
    let d = dim as f64;
    let mut rows: Vec<Vec<f64>> = vec![vec![1.0], vec![0.0, 1.0]];
    for n in 1..MAX_TERMS {
        let k = n as f64;
        let mut next = vec![0.0; n + 2];
        for (j, r) in rows[n].iter().enumerate() {
            next[j + 1] += (2.0 * k + d - 1.0) / (k + d - 1.0) * r;
        }
        for (j, r) in rows[n - 1].iter().enumerate() {
            next[j] -= k / (k + d - 1.0) * r;
        }
        rows.push(next);
    }
    rows.concat()
}

/// Chebyshev coefficients from values at cos((i + ½)π/n).
fn chebyshev(values: &[f64]) -> Vec<f64> {
    let n = values.len() as f64;
    (0..values.len())
        .map(|j| {
            let sum: f64 = values
                .iter()
                .enumerate()
                .map(|(i, v)| v * (j as f64 * (i as f64 + 0.5) * PI / n).cos())
                .sum();
            if j == 0 { sum / n } else { 2.0 * sum / n }
        })
        .collect()
}

fn chebyshev_to_monomials(c: &[f64]) -> Vec<f64> {
    let n = c.len();
    let mut out = vec![0.0; n];
    let (mut previous, mut current) = (vec![0.0; n], vec![0.0; n]);
    previous[0] = 1.0;
    out[0] = c[0];
    if n > 1 {
        current[1] = 1.0;
    }
    for c in c.iter().skip(1) {
        for (out, t) in out.iter_mut().zip(&current) {
            *out += c * t;
        }
        let mut next = vec![0.0; n];
        for j in 0..n {
            next[j] -= previous[j];
            if j + 1 < n {
                next[j + 1] += 2.0 * current[j];
            }
        }
        previous = current;
        current = next;
    }
    out
}
