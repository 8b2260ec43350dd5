//! The Kent distribution on S²: elliptic contours around a mean direction.

use std::sync::LazyLock;

use super::MAX_CONCENTRATION;
use super::bessel::circular_bessel;
use crate::linalg::dot;
use crate::rng::Stream;

/// p(x) = exp(κ⟨γ₁, x⟩ + β(⟨γ₂, x⟩² − ⟨γ₃, x⟩²))/c(κ, β) with orthonormal γ and 0 ≤ 2β < κ.
#[derive(Clone, Debug, PartialEq)]
pub struct Kent {
    axes: [[f64; 3]; 3],
    concentration: f64,
    ovalness: f64,
    /// log c(κ, β) − κ.
    log_scaled_norm: f64,
}

/// β is at most this share of κ: at one half the distribution is flat along a great circle.
const MAX_SHARE: f64 = 0.5 - 1e-6;

impl Kent {
    /// With the axes γ₁ (mean), γ₂ (major) and γ₃ (minor), κ ≥ 0 and 0 ≤ β ≤ κ/2.
    pub fn new(axes: [[f64; 3]; 3], concentration: f64, ovalness: f64) -> Self {
        let log_scaled_norm = KentMoments::of(concentration, ovalness).log_scaled_norm;
        Self { axes, concentration, ovalness, log_scaled_norm }
    }

    /// The distribution of highest likelihood with these axes, for points with the mean ⟨γ₁, x⟩ and
    /// the mean ⟨γ₂, x⟩² − ⟨γ₃, x⟩². κ is at most [`MAX_CONCENTRATION`].
    /// `near` is where the search begins, if something close is known.
    pub fn from_moments(
        axes: [[f64; 3]; 3],
        mean: f64,
        difference: f64,
        near: Option<&Self>,
    ) -> Self {
        let near = near.map(|near| (near.concentration, near.ovalness));
        let (concentration, ovalness) = highest(mean, difference, near);
        Self::new(axes, concentration, ovalness)
    }

    /// γ₁, γ₂, γ₃.
    pub fn axes(&self) -> &[[f64; 3]; 3] {
        &self.axes
    }

    /// κ.
    pub fn concentration(&self) -> f64 {
        self.concentration
    }

    /// β.
    pub fn ovalness(&self) -> f64 {
        self.ovalness
    }

    /// log c(κ, β).
    pub fn log_norm(&self) -> f64 {
        self.log_scaled_norm + self.concentration
    }

    /// log p(x).
    pub fn log_density(&self, x: &[f64]) -> f64 {
        let off: f64 = x.iter().zip(&self.axes[0]).map(|(x, mean)| (x - mean) * (x - mean)).sum();
        let (major, minor) = (dot(x, &self.axes[1]), dot(x, &self.axes[2]));
        -0.5 * self.concentration * off + self.ovalness * (major * major - minor * minor)
            - self.log_scaled_norm
    }

    /// `x ←` a draw, by rejection from exponentials in an equal-area chart (Kent & Hamelryck 2005).
    pub fn sample(&self, stream: &mut Stream, x: &mut [f64]) {
        let (kappa, beta) = (self.concentration, self.ovalness);
        let (a, b, gamma) = (4.0 * (kappa - 2.0 * beta), 4.0 * (kappa + 2.0 * beta), 8.0 * beta);
        let rates = [(a + 2.0 * gamma.sqrt()).sqrt(), b.sqrt()];
        let [major, minor] = loop {
            let r = rates.map(|rate| truncated_exponential(rate, stream));
            let squares = r.map(|r| r * r);
            let first = -0.5 * (a + gamma * squares[0]) * squares[0] - 1.0 + rates[0] * r[0];
            let second = -0.5 * (b - gamma * squares[1]) * squares[1] - 1.0 + rates[1] * r[1];
            let inside = squares[0] + squares[1] < 1.0;
            if inside && stream.uniform().ln() <= first + second {
                break r.map(|r| if stream.uniform() < 0.5 { r } else { -r });
            }
        };
        let s = major * major + minor * minor;
        let chart = [1.0 - 2.0 * s, 2.0 * major * (1.0 - s).sqrt(), 2.0 * minor * (1.0 - s).sqrt()];
        for (i, x) in x.iter_mut().enumerate() {
            *x = (0..3).map(|k| chart[k] * self.axes[k][i]).sum();
        }
        let length = dot(x, x).sqrt();
        for x in x {
            *x /= length;
        }
    }
}

/// A draw of the exponential distribution on [0, 1].
fn truncated_exponential(rate: f64, stream: &mut Stream) -> f64 {
    let u = stream.uniform();
    if rate < 1e-8 { u } else { -(u * (-rate).exp_m1()).ln_1p() / rate }
}

/// c(κ, β), and means and covariances of ⟨γ₁, x⟩ and ⟨γ₂, x⟩² − ⟨γ₃, x⟩².
#[derive(Clone, Copy, Debug)]
pub struct KentMoments {
    /// log c(κ, β) − κ.
    pub log_scaled_norm: f64,
    /// Means.
    pub mean: [f64; 2],
    /// Variances, and the covariance in the middle.
    pub covariance: [f64; 3],
}

/// Step of the tanh–sinh rule.
const STEP: f64 = 1.0 / 64.0;

/// u, 2 − u and du/dt at the nodes of the tanh–sinh rule on [0, 2].
static NODES: LazyLock<Vec<[f64; 3]>> = LazyLock::new(|| {
    let node = |node: i32| {
        let t = f64::from(node) * STEP;
        let turned = std::f64::consts::PI * t.sinh();
        let (u, rest) = (2.0 / (1.0 + (-turned).exp()), 2.0 / (1.0 + turned.exp()));
        [u, rest, 0.5 * u * rest * std::f64::consts::PI * t.cosh()]
    };
    (-256..=256).map(node).collect()
});

impl KentMoments {
    /// By the tanh–sinh rule for c = 2π e^κ ∫₀² e^{−κu} I₀(βu(2−u)) du, u = 1 − ⟨γ₁, x⟩, whose
    /// nodes resolve every scale at both ends.
    pub fn of(kappa: f64, beta: f64) -> Self {
        // Means of 1, u, w, u², uw and w², where w = ⟨γ₂, x⟩² − ⟨γ₃, x⟩².
        let mut sums = [0.0; 6];
        for &[u, rest, weight] in NODES.iter() {
            let z = beta * u * rest;
            let exponent = z - kappa * u;
            // Below double precision, beside what there is at u = 1/κ.
            if weight * (1.0 + kappa) < 1e-17 || exponent < -45.0 {
                continue;
            }
            // cos 2φ has mean I₁/I₀ and square mean ½(1 + I₂/I₀) at this height.
            let [log_scaled, first, second] = circular_bessel(z);
            let density = weight * (exponent + log_scaled).exp();
            let circle = u * rest;
            let terms = [
                1.0,
                u,
                circle * first,
                u * u,
                u * circle * first,
                0.5 * circle * circle * (1.0 + second),
            ];
            for (sum, term) in sums.iter_mut().zip(terms) {
                *sum += density * term;
            }
        }
        let [c, u, w, uu, uw, ww] = sums;
        let (u, w, uu, uw, ww) = (u / c, w / c, uu / c, uw / c, ww / c);
        Self {
            log_scaled_norm: (std::f64::consts::TAU * STEP * c).ln(),
            mean: [1.0 - u, w],
            covariance: [uu - u * u, u * w - uw, ww - w * w],
        }
    }
}

/// κ and β that maximise κ·mean + β·difference − log c(κ, β), a concave function, by Newton's
/// method with halved steps.
fn highest(mean: f64, difference: f64, near: Option<(f64, f64)>) -> (f64, f64) {
    let limited = |kappa: f64, beta: f64| {
        let kappa = kappa.clamp(0.0, MAX_CONCENTRATION);
        (kappa, beta.clamp(0.0, MAX_SHARE * kappa))
    };
    // The normal distribution in the tangent plane.
    let (wide, narrow) = (2.0 - 2.0 * mean - difference, 2.0 - 2.0 * mean + difference);
    let (wide, narrow) = (1.0 / wide.max(1e-9), 1.0 / narrow.max(1e-9));
    let (kappa, beta) = near.unwrap_or((wide + narrow, 0.5 * (wide - narrow)));
    let (mut kappa, mut beta) = limited(kappa, beta);
    // κ·mean − log c = −κ(1 − mean) − (log c − κ).
    let value = |kappa: f64, beta: f64, at: &KentMoments| {
        beta * difference - kappa * (1.0 - mean) - at.log_scaled_norm
    };
    let mut at = KentMoments::of(kappa, beta);
    let mut best = value(kappa, beta, &at);
    for _ in 0..50 {
        let gradient = [mean - at.mean[0], difference - at.mean[1]];
        let [a, b, c] = at.covariance;
        let determinant = a * c - b * b;
        let step = if determinant > 1e-14 * a * c {
            let first = (c * gradient[0] - b * gradient[1]) / determinant;
            [first, (a * gradient[1] - b * gradient[0]) / determinant]
        } else {
            [gradient[0] / a, gradient[1] / c]
        };
        let mut share = 1.0;
        let moved = loop {
            let (k, o) = limited(kappa + share * step[0], beta + share * step[1]);
            let there = KentMoments::of(k, o);
            let found = value(k, o, &there);
            if found > best {
                break Some((k, o, there, found));
            }
            share *= 0.5;
            if share < 1e-4 {
                break None;
            }
        };
        let Some((k, o, there, found)) = moved else { break };
        let gain = found - best;
        (kappa, beta, at, best) = (k, o, there, found);
        if gain < 1e-10 {
            break;
        }
    }
    (kappa, beta)
}
