//! The von Mises–Fisher distribution on S^d.

use rand_distr::{Distribution, Gamma};

use super::bessel::{bessel_ratio, log_scaled_bessel};
use super::{MAX_CONCENTRATION, draw_around};
use crate::linalg::{distance, norm};
use crate::rng::Stream;

/// p(x) = e^{κ⟨μ, x⟩}/Z(κ), with Z = (2π)^{(d+1)/2} κ^{−ν} I_ν(κ), ν = (d−1)/2.
#[derive(Clone, Debug, PartialEq)]
pub struct VonMisesFisher {
    mean: Vec<f64>,
    concentration: f64,
    /// log Z(κ) − κ.
    log_scaled_norm: f64,
}

impl VonMisesFisher {
    /// With the mean direction μ, a unit vector, and κ ≥ 0.
    pub fn new(mean: Vec<f64>, concentration: f64) -> Self {
        let log_scaled_norm = Self::log_scaled_norm(mean.len(), concentration);
        Self { mean, concentration, log_scaled_norm }
    }

    /// log Z(κ) − κ on the unit sphere of ℝ^m.
    pub fn log_scaled_norm(m: usize, concentration: f64) -> f64 {
        let half = 0.5 * m as f64;
        if concentration == 0.0 {
            // The area of the sphere.
            return 2f64.ln() + half * std::f64::consts::PI.ln() - libm::lgamma(half);
        }
        let order = half - 1.0;
        half * std::f64::consts::TAU.ln() + log_scaled_bessel(order, concentration)
            - order * concentration.ln()
    }

    /// The distribution of highest likelihood, for points whose mean is `mean`: its concentration
    /// solves I_{ν+1}(κ)/I_ν(κ) = |mean|, and is at most [`MAX_CONCENTRATION`].
    pub fn from_mean(mean: &[f64]) -> Self {
        let length = norm(mean);
        let mut direction = vec![0.0; mean.len()];
        if length > 0.0 {
            for (out, mean) in direction.iter_mut().zip(mean) {
                *out = mean / length;
            }
        } else {
            direction[0] = 1.0;
        }
        Self::new(direction, concentration_of(mean.len(), length))
    }

    /// μ.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// κ.
    pub fn concentration(&self) -> f64 {
        self.concentration
    }

    /// log p(x).
    pub fn log_density(&self, x: &[f64]) -> f64 {
        // ⟨μ, x⟩ − 1, without its rounding error where x is near μ.
        let off = distance(x, &self.mean);
        -0.5 * self.concentration * off * off - self.log_scaled_norm
    }

    /// `x ←` a draw.
    pub fn sample(&self, stream: &mut Stream, x: &mut [f64]) {
        let deficit = self.draw_deficit(stream);
        draw_around(&self.mean, deficit, stream, x);
    }

    /// 1 − ⟨μ, x⟩ of a draw: in closed form on S², by rejection else (Wood 1994).
    fn draw_deficit(&self, stream: &mut Stream) -> f64 {
        let (m, kappa) = (self.mean.len() as f64, self.concentration);
        if self.mean.len() == 3 && kappa > 1e-8 {
            let u = stream.uniform();
            return (-(u + (1.0 - u) * (-2.0 * kappa).exp()).ln() / kappa).min(2.0);
        }
        let d = m - 1.0;
        let b = d / (2.0 * kappa + (4.0 * kappa).mul_add(kappa, d * d).sqrt());
        let start = (1.0 - b) / (1.0 + b);
        let c = kappa * start + d * (1.0 - start * start).ln();
        loop {
            let z = symmetric_beta(0.5 * d, stream);
            // 1 − w for w = (1 − (1+b)z)/(1 − (1−b)z).
            let deficit = 2.0 * b * z / (1.0 - (1.0 - b) * z);
            let w = 1.0 - deficit;
            if kappa * w + d * (1.0 - start * w).ln() - c >= stream.uniform().ln() {
                return deficit;
            }
        }
    }
}

/// A draw of Beta(a, a).
fn symmetric_beta(a: f64, stream: &mut Stream) -> f64 {
    // The shape is half a dimension, so positive and finite.
    let Ok(gamma) = Gamma::new(a, 1.0) else { return 0.5 };
    let (x, y): (f64, f64) = (gamma.sample(stream), gamma.sample(stream));
    x / (x + y)
}

/// κ with I_{ν+1}(κ)/I_ν(κ) = `resultant` on the unit sphere of ℝ^m, by Newton's method between
/// bounds.
fn concentration_of(m: usize, resultant: f64) -> f64 {
    let (p, half) = (m as f64, 0.5 * m as f64);
    if resultant <= 0.0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, MAX_CONCENTRATION);
    if bessel_ratio(half, high) <= resultant {
        return high;
    }
    // Banerjee et al. (2005).
    let mut kappa = (resultant * (p - resultant * resultant) / (1.0 - resultant * resultant))
        .clamp(1e-12, 0.99 * high);
    for _ in 0..100 {
        let ratio = bessel_ratio(half, kappa);
        let error = ratio - resultant;
        if error > 0.0 {
            high = kappa;
        } else {
            low = kappa;
        }
        let slope = 1.0 - ratio * ratio - (p - 1.0) / kappa * ratio;
        let newton = kappa - error / slope;
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        if (next - kappa).abs() <= 1e-13 * kappa {
            return next;
        }
        kappa = next;
    }
    kappa
}
