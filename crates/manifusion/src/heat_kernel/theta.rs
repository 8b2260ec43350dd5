//! Image sums of odd spheres: Θ(φ) = Σₖ σᵏ (φ + kp) exp(−(φ + kp)²/2s), the numerator of the heat
//! kernel of S³ (p = 2π, σ = 1) and, with p = π and σ = −1, of its quotient SO(3).

/// log(Θ(φ)/(φ e^{−φ²/2s})) and its derivative in φ, for φ ∈ [0, p/2].
///
/// The images ±k are taken together, with E± = exp(−kp(kp ± 2φ)/2s) and c = kp:
/// r_k = σᵏ [(E₊ + E₋) + c(E₊ − E₋)/φ], which is smooth at φ = 0.
pub(super) fn image_correction(s: f64, phi: f64, period: f64, sign: f64) -> (f64, f64) {
    let (mut sum, mut slope) = (1.0, 0.0);
    let mut sigma = 1.0;
    for k in 1..=4 {
        sigma *= sign;
        let c = f64::from(k) * period;
        let plus = (-c * (c + 2.0 * phi) / (2.0 * s)).exp();
        let minus = (-c * (c - 2.0 * phi) / (2.0 * s)).exp();
        if minus < 1e-18 {
            break;
        }
        let (total, difference) = (plus + minus, plus - minus);
        // a = cφ/s; for small a: (E₊ − E₋)/φ = −2(c/s) e^{−c²/2s} sinh(a)/a.
        let a = c * phi / s;
        if a < 1e-3 {
            let base = (-c * c / (2.0 * s)).exp();
            let sinhc = 1.0 + a * a / 6.0 + a.powi(4) / 120.0;
            sum += sigma * (total - 2.0 * c * (c / s) * base * sinhc);
            // d/dφ: (a cosh a − sinh a)/a² = a/3 + a³/30.
            let bend = a / 3.0 + a.powi(3) / 30.0;
            slope += sigma * (-(c / s) * difference - 2.0 * c * (c / s).powi(2) * base * bend);
        } else {
            sum += sigma * (total + c * difference / phi);
            slope += sigma
                * (-(c / s) * difference
                    - c * (c / s) * total / phi
                    - c * difference / (phi * phi));
        }
    }
    (sum.ln(), slope / sum)
}

/// 1/φ − cot φ, without cancellation near 0.
pub(super) fn inverse_minus_cot(phi: f64) -> f64 {
    if phi < 0.1 {
        let z = phi * phi;
        phi * (1.0 / 3.0
            + z * (1.0 / 45.0 + z * (2.0 / 945.0 + z * (1.0 / 4725.0 + z * (2.0 / 93_555.0)))))
    } else {
        1.0 / phi - 1.0 / phi.tan()
    }
}

/// log(φ/sin φ), without cancellation near 0.
pub(super) fn log_phi_over_sin(phi: f64) -> f64 {
    if phi < 0.1 {
        let z = phi * phi;
        z * (1.0 / 6.0 + z * (1.0 / 180.0 + z * (1.0 / 2835.0 + z * (1.0 / 37_800.0))))
    } else {
        (phi / phi.sin()).ln()
    }
}
