//! Modified Bessel functions of the first kind.

/// log(e^{−z} I_ν(z)) for ν ≥ 0 and z ≥ 0.
///
/// The power series, whose terms are all positive, from its largest term outwards; Hankel's
/// asymptotic series where z is large beside ν².
pub(super) fn log_scaled_bessel(order: f64, z: f64) -> f64 {
    if z == 0.0 {
        return if order == 0.0 { 0.0 } else { f64::NEG_INFINITY };
    }
    if z < order.mul_add(order, 30.0) { series(order, z) } else { asymptotic(order, z) }
}

/// Σ (z/2)^{2k+ν} / (k! Γ(k+ν+1)).
fn series(order: f64, z: f64) -> f64 {
    let quarter = 0.25 * z * z;
    let largest = (0.5 * (order.hypot(z) - order)).floor();
    let log_largest = (2.0 * largest + order) * (0.5 * z).ln()
        - libm::lgamma(largest + 1.0)
        - libm::lgamma(largest + order + 1.0);
    let (mut sum, mut term, mut k) = (1.0, 1.0, largest);
    while term > 1e-18 * sum {
        k += 1.0;
        term *= quarter / (k * (k + order));
        sum += term;
    }
    (term, k) = (1.0, largest);
    while k > 0.0 && term > 1e-18 * sum {
        term *= k * (k + order) / quarter;
        k -= 1.0;
        sum += term;
    }
    log_largest + sum.ln() - z
}

/// Σ (−1)^k Π_{j≤k} (4ν² − (2j−1)²)/(8jz), over √(2πz).
fn asymptotic(order: f64, z: f64) -> f64 {
    let (mut sum, mut term, mut k) = (1.0, 1.0, 1.0f64);
    loop {
        let odd = 2.0 * k - 1.0;
        let next = -term * (4.0 * order * order - odd * odd) / (8.0 * k * z);
        // Past its smallest term the series diverges.
        if next.abs() >= f64::abs(term) || next.abs() < 1e-18 {
            break;
        }
        term = next;
        sum += term;
        k += 1.0;
    }
    sum.ln() - 0.5 * (std::f64::consts::TAU * z).ln()
}

/// I_ν(z)/I_{ν−1}(z), in [0, 1).
pub(super) fn bessel_ratio(order: f64, z: f64) -> f64 {
    if z == 0.0 {
        return 0.0;
    }
    (log_scaled_bessel(order, z) - log_scaled_bessel(order - 1.0, z)).exp()
}

/// log(e^{−z} I₀(z)), I₁(z)/I₀(z) and I₂(z)/I₀(z).
pub(super) fn circular_bessel(z: f64) -> [f64; 3] {
    if z >= 30.0 {
        let log_scaled = asymptotic(0.0, z);
        let first = (asymptotic(1.0, z) - log_scaled).exp();
        return [log_scaled, first, 1.0 - 2.0 * first / z];
    }
    // Σ q^k/(k!)², Σ q^k/(k!(k+1)!) and Σ q^k/(k!(k+2)!) with q = z²/4.
    let q = 0.25 * z * z;
    let (mut sums, mut term, mut k) = ([1.0, 1.0, 0.5], 1.0, 0.0);
    while term > 1e-17 * sums[0] {
        k += 1.0;
        term *= q / (k * k);
        sums[0] += term;
        sums[1] += term / (k + 1.0);
        sums[2] += term / ((k + 1.0) * (k + 2.0));
    }
    [sums[0].ln() - z, 0.5 * z * sums[1] / sums[0], q * sums[2] / sums[0]]
}
