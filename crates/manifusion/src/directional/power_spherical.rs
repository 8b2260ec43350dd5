//! The power spherical distribution on S^d (De Cao & Aziz 2020).

use rand_distr::{Distribution, Gamma};

use super::draw_around;
use crate::rng::Stream;

/// p(x) = (½(1 + ⟨μ, x⟩))^κ/Z(κ), with Z = 2^{2β} π^β Γ(κ + β)/Γ(κ + 2β), β = d/2.
///
/// Near μ it is a normal distribution of variance 2/κ in every direction.
#[derive(Clone, Debug, PartialEq)]
pub struct PowerSpherical {
    mean: Vec<f64>,
    concentration: f64,
    log_norm: f64,
}

impl PowerSpherical {
    /// With the mean direction μ, a unit vector, and κ ≥ 0.
    pub fn new(mean: Vec<f64>, concentration: f64) -> Self {
        let log_norm = Self::log_norm(mean.len(), concentration);
        Self { mean, concentration, log_norm }
    }

    /// log Z(κ) on the unit sphere of ℝ^m.
    pub fn log_norm(m: usize, concentration: f64) -> f64 {
        Self::log_norm_with_slope(m, concentration)[0]
    }

    /// log Z(κ) on the unit sphere of ℝ^m, and its derivative by κ.
    ///
    /// It has Γ(α + β)/Γ(α) at α = κ + β, a product of α, α + 1, … where β is whole. Half a step
    /// more is a series, which has no large logarithms to subtract.
    pub fn log_norm_with_slope(m: usize, concentration: f64) -> [f64; 2] {
        let beta = 0.5 * (m as f64 - 1.0);
        let alpha = concentration + beta;
        let halves = m.is_multiple_of(2);
        let ([mut log, mut slope], first) =
            if halves { (log_half_step(alpha), alpha + 0.5) } else { ([0.0; 2], alpha) };
        let mut product = 1.0;
        for i in 0..(m - 1) / 2 {
            let factor = first + i as f64;
            product *= factor;
            slope += 1.0 / factor;
            // Far from the largest number.
            if product > 1e200 {
                log += f64::ln(product);
                product = 1.0;
            }
        }
        log += product.ln();
        [beta * (4.0 * std::f64::consts::PI).ln() - log, -slope]
    }

    /// μ.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// κ.
    pub fn concentration(&self) -> f64 {
        self.concentration
    }

    /// log p(x); −∞ at −μ, unless κ = 0.
    pub fn log_density(&self, x: &[f64]) -> f64 {
        if self.concentration == 0.0 {
            return -self.log_norm;
        }
        let (mut off, mut sum) = (0.0, 0.0);
        for (x, mean) in x.iter().zip(&self.mean) {
            off += (x - mean) * (x - mean);
            sum += (x + mean) * (x + mean);
        }
        // Without rounding errors at either end.
        let log = if off < sum { (-0.25 * off).ln_1p() } else { (0.25 * sum).ln() };
        self.concentration * log - self.log_norm
    }

    /// `x ←` a draw: ½(1 + ⟨μ, x⟩) has the distribution Beta(κ + β, β).
    pub fn sample(&self, stream: &mut Stream, x: &mut [f64]) {
        let beta = 0.5 * (self.mean.len() as f64 - 1.0);
        let mut gamma = |shape: f64| match Gamma::new(shape, 1.0) {
            Ok(gamma) => gamma.sample(stream),
            // The shapes are half a dimension and more, so positive and finite.
            Err(_) => 1.0,
        };
        let (towards, away): (f64, f64) = (gamma(self.concentration + beta), gamma(beta));
        let deficit = 2.0 * away / (towards + away);
        draw_around(&self.mean, deficit, stream, x);
    }
}

/// log Γ(z + ½)/Γ(z) and its derivative, z > 0.
fn log_half_step(z: f64) -> [f64; 2] {
    /// Where the series begins to serve: its first term that is left out is below 1e-16.
    const FAR: f64 = 16.0;
    /// (B_{2k}(½) − B_{2k})/(2k(2k−1)), the coefficients of z^{1−2k}, from Stirling's series.
    const SERIES: [f64; 5] =
        [-1.0 / 8.0, 1.0 / 192.0, -1.0 / 640.0, 17.0 / 14336.0, -31.0 / 18432.0];
    // Γ(z + ½)/Γ(z) = z/(z + ½) · Γ(z + 1 + ½)/Γ(z + 1).
    let (mut far, mut ratio, mut slope) = (z, 1.0, 0.0);
    while far < FAR {
        ratio *= far / (far + 0.5);
        slope += 0.5 / (far * (far + 0.5));
        far += 1.0;
    }
    let inverse = 1.0 / far;
    let square = inverse * inverse;
    let (mut value, mut derivative) = (0.0, 0.0);
    for (k, c) in SERIES.iter().enumerate().rev() {
        value = value * square + c;
        derivative = derivative * square - (2 * k + 1) as f64 * c;
    }
    let log = f64::ln(ratio * far.sqrt()) + value * inverse;
    [log, slope + 0.5 * inverse + derivative * square]
}

/// ½(1 + ⟨μ, x⟩) and its logarithm, from |x − μ|² and |x + μ|², for unit vectors in L lanes. As
/// accurate as the library's functions, but vectorised where the caller is, and the same bits on
/// every machine. At −μ both are those of the smallest normal number.
#[inline(always)]
pub(crate) fn half_cosine_lanes<const L: usize>(
    off: &[f64; L],
    sum: &[f64; L],
) -> ([f64; L], [f64; L]) {
    /// 2/(2k + 1), highest first: log((1 + s)/(1 − s)) = Σ 2 s^{2k+1}/(2k + 1), here with
    /// |s| < 0.172.
    const SERIES: [f64; 10] = [
        2.0 / 21.0,
        2.0 / 19.0,
        2.0 / 17.0,
        2.0 / 15.0,
        2.0 / 13.0,
        2.0 / 11.0,
        2.0 / 9.0,
        2.0 / 7.0,
        2.0 / 5.0,
        2.0 / 3.0,
    ];
    /// The bits of 1, and of a little less than √½.
    const ONE: u64 = 0x3ff0_0000_0000_0000;
    const ROOT: u64 = 0x3fe6_a09e_0000_0000;
    /// 2⁵² as bits: a whole number in its low bits is added to it.
    const WHOLE: u64 = 0x4330_0000_0000_0000;
    let (mut half, mut log) = ([0.0; L], [0.0; L]);
    for l in 0..L {
        let deficit = -0.25 * off[l];
        let w = if off[l] < sum[l] { 1.0 + deficit } else { 0.25 * sum[l] };
        let w = if w > f64::MIN_POSITIVE { w } else { f64::MIN_POSITIVE };
        // w = 2^k (1 + f) with √½ ≤ 1 + f < √2.
        let shifted = w.to_bits().wrapping_add(ONE - ROOT);
        let k = f64::from_bits((shifted >> 52) | WHOLE) - (4_503_599_627_370_496.0 + 1023.0);
        let scaled = f64::from_bits((shifted & 0x000f_ffff_ffff_ffff).wrapping_add(ROOT));
        // Near μ the deficit has digits that w has lost.
        let f = if w > 0.7072 { deficit } else { scaled - 1.0 };
        let s = f / (2.0 + f);
        let square = s * s;
        let mut series = SERIES[0];
        for c in &SERIES[1..] {
            series = series * square + c;
        }
        half[l] = w;
        log[l] = k * std::f64::consts::LN_2 + (2.0 * s + s * square * series);
    }
    (half, log)
}
