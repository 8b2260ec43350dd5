//! The wrapped normal: Brownian motion on the circle.

use std::f64::consts::TAU;

use super::RadialKernel;

/// Image sum below, Fourier series above: both have a handful of terms here.
const SWITCH: f64 = 2.0;

/// Density of the angle of variance `s`, with respect to dθ, at `angle` ∈ [−π, π].
pub fn wrapped_normal(s: f64, angle: f64) -> RadialKernel {
    if s < SWITCH { images(s, angle) } else { fourier(s, angle) }
}

/// Σₖ exp(−(θ + 2πk)²/2s)/√(2πs), relative to its largest term.
fn images(s: f64, angle: f64) -> RadialKernel {
    let (mut sum, mut slope) = (1.0, 0.0);
    for k in 1..=3 {
        for image in [f64::from(k) * TAU, -f64::from(k) * TAU] {
            // ((θ + c)² − θ²)/2s = c(2θ + c)/2s
            let weight = (-image * (2.0 * angle + image) / (2.0 * s)).exp();
            sum += weight;
            slope += image * weight;
        }
    }
    RadialKernel {
        log_density: -0.5 * ((TAU * s).ln() + angle * angle / s) + sum.ln(),
        slope: -(angle + slope / sum) / s,
        error: 1e-15,
    }
}

/// (1 + 2Σₙ e^{−n²s/2} cos nθ)/2π.
fn fourier(s: f64, angle: f64) -> RadialKernel {
    let (mut sum, mut slope) = (1.0, 0.0);
    for n in 1..=7 {
        let n = f64::from(n);
        let weight = 2.0 * (-0.5 * n * n * s).exp();
        let (sin, cos) = (n * angle).sin_cos();
        sum += weight * cos;
        slope -= n * weight * sin;
    }
    RadialKernel { log_density: sum.ln() - TAU.ln(), slope: slope / sum, error: 1e-15 }
}
