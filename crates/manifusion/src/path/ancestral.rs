//! The number of lineages A_∞^θ(s) of Kingman's coalescent with mutation, from which Brownian
//! motion on S^d (θ = d) is drawn in one step (Mijatović, Mramor & Uribe Bravo; Jenkins & Spanò
//! 2017).
//!
//! With ρ_k = e^{−k(k+θ−1)s/2}, P(M = m) = Σ_{k≥m} (−1)^{k−m} b_k(m), and summing over m gives a
//! single series for the distribution function, which is what draws are made from:
//!
//! P(M ≤ m) = 1 + Σ_{k>m} (−1)^{k−m} c_k(m),  c_k(m) = (θ+2k−1)/(k!(θ+k−1)) · C(k−1,m) ·
//! Γ(θ+m+k)/Γ(θ+m) · ρ_k.
//!
//! The series alternates; where its terms are too large for double precision, M is drawn from a
//! normal of its mean and variance.

use crate::rng::Stream;

/// A_∞^θ for one θ.
#[derive(Clone, Debug)]
pub struct AncestralProcess {
    theta: f64,
    /// Time from which the series loses at most six digits.
    series_from: f64,
    /// log c_{m+1}(m) without its factor ρ, for every m that can occur from `series_from` on.
    log_first: Vec<f64>,
}

/// Largest term of the series that is accepted: it leaves an error of 1e-10 in a probability.
const LARGEST_TERM: f64 = 1e6;

impl AncestralProcess {
    /// The process with parameter θ ≥ 1.
    pub fn new(theta: f64) -> Self {
        // The largest term falls with s: bisection on a logarithmic scale.
        let mut process = Self { theta, series_from: 1.0, log_first: Vec::new() };
        let (mut low, mut high) = (1e-6f64, 1.0f64);
        for _ in 0..30 {
            let middle = (low * high).sqrt();
            if process.largest_term(middle) > LARGEST_TERM {
                low = middle;
            } else {
                high = middle;
            }
        }
        process.series_from = high;
        let (mean, variance) = process.moments(high);
        let most = (mean + 12.0 * variance.sqrt() + 20.0) as u32;
        process.log_first = (0..most).map(|m| process.log_first_term(f64::from(m))).collect();
        process
    }

    /// Draws the number of lineages at time s > 0, as a float because it grows like 2/s.
    pub fn sample(&self, s: f64, stream: &mut Stream) -> f64 {
        if self.is_series(s) {
            self.invert(s, stream.uniform())
        } else {
            self.nearly_normal(s, stream.normal())
        }
    }

    /// Whether draws at time s come from the series rather than from the normal approximation.
    pub fn is_series(&self, s: f64) -> bool {
        s >= self.series_from
    }

    /// M from a standard normal, for small times: the total variation distance is about 1e-4 at s =
    /// 0.1 and falls with s.
    pub(super) fn nearly_normal(&self, s: f64, z: f64) -> f64 {
        let (mean, variance) = self.moments(s);
        (mean + variance.sqrt() * z).round().max(0.0)
    }

    /// The smallest m with P(M ≤ m) ≥ u.
    pub(super) fn invert(&self, s: f64, u: f64) -> f64 {
        let last = self.log_first.len() - 1;
        // A guess near the answer saves evaluations and changes nothing else: a logistic stands in
        // for the normal quantile.
        let (mean, variance) = self.asymptotic_moments(s);
        let guess = mean + variance.max(0.0).sqrt() * 0.55 * (u / (1.0 - u)).ln();
        let mut m = (guess.clamp(0.0, last as f64) + 0.5) as usize;
        m = m.min(last);
        if u <= self.distribution(s, m) {
            while m > 0 && u <= self.distribution(s, m - 1) {
                m -= 1;
            }
        } else {
            while m < last {
                m += 1;
                if u <= self.distribution(s, m) {
                    break;
                }
            }
        }
        m as f64
    }

    /// P(M ≤ m); meaningful where [`Self::is_series`], and 1 beyond the range that can occur there.
    pub fn distribution(&self, s: f64, m: usize) -> f64 {
        let Some(log_first) = self.log_first.get(m) else { return 1.0 };
        let (theta, first) = (self.theta, m as f64 + 1.0);
        let mut term = (log_first - 0.5 * first * (first + theta - 1.0) * s).exp();
        let mut sum = 1.0;
        let mut sign = -1.0;
        self.for_each_ratio(s, m as f64, |ratio| {
            sum += sign * term;
            sign = -sign;
            term *= ratio;
            term > 1e-14 || ratio > 1.0
        });
        sum
    }

    /// Visits c_{k+1}(m)/c_k(m) for k = m + 1, …, while the visitor asks for more.
    fn for_each_ratio(&self, s: f64, m: f64, mut more: impl FnMut(f64) -> bool) {
        let theta = self.theta;
        let (decay, mut k) = ((-s).exp(), m + 1.0);
        let mut factor = (-(k + 0.5 * theta) * s).exp();
        loop {
            let numerator = (theta + 2.0 * k + 1.0) * (theta + k - 1.0) * k * (theta + m + k);
            let denominator = (theta + 2.0 * k - 1.0) * (theta + k) * (k + 1.0) * (k - m);
            if !more(numerator / denominator * factor) || k > 1e6 {
                return;
            }
            factor *= decay;
            k += 1.0;
        }
    }

    /// log c_{m+1}(m) without ρ.
    fn log_first_term(&self, m: f64) -> f64 {
        let theta = self.theta;
        (theta + 2.0 * m + 1.0).ln() - (theta + m).ln() - libm::lgamma(m + 2.0)
            + libm::lgamma(theta + 2.0 * m + 1.0)
            - libm::lgamma(theta + m)
    }

    /// The largest c_k(m) over all k and m.
    fn largest_term(&self, s: f64) -> f64 {
        let mut largest = f64::NEG_INFINITY;
        for m in 0..100_000u32 {
            let m = f64::from(m);
            let first = m + 1.0;
            let mut log_term =
                self.log_first_term(m) - 0.5 * first * (first + self.theta - 1.0) * s;
            let mut here = log_term;
            self.for_each_ratio(s, m, |ratio| {
                log_term += ratio.ln();
                here = here.max(log_term);
                ratio > 1.0
            });
            if here < largest - 7.0 {
                break;
            }
            largest = largest.max(here);
        }
        largest.exp()
    }

    /// Mean and variance of M. Exact, by E M = Σ_{k≥1} (θ+2k−1)ρ_k and E M(M−1) = Σ_{k≥2}
    /// (θ+2k−1)(k−1)(k+θ)ρ_k, while that takes few terms; below, Griffiths' asymptotic form with
    /// the corrections −1/6 and +1/45, whose error vanishes there.
    fn moments(&self, s: f64) -> (f64, f64) {
        if s >= 0.05 || self.theta * s >= 0.1 {
            self.exact_moments(s)
        } else {
            self.asymptotic_moments(s)
        }
    }

    fn exact_moments(&self, s: f64) -> (f64, f64) {
        let theta = self.theta;
        let decay = (-s).exp();
        // ρ_{k+1}/ρ_k = e^{−(2k+θ)s/2}
        let mut ratio = (-0.5 * theta * s).exp();
        let (mut rho, mut k) = (ratio, 1.0);
        let (mut mean, mut factorial) = (0.0, 0.0);
        loop {
            let weight = (theta + 2.0 * k - 1.0) * rho;
            let second = weight * (k - 1.0) * (k + theta);
            mean += weight;
            factorial += second;
            if weight <= 1e-17 * mean && second <= 1e-17 * factorial {
                return (mean, (factorial + mean - mean * mean).max(0.0));
            }
            ratio *= decay;
            rho *= ratio;
            k += 1.0;
        }
    }

    fn asymptotic_moments(&self, s: f64) -> (f64, f64) {
        let beta = 0.5 * (self.theta - 1.0) * s;
        // β/(e^β − 1), and (1 + e^{−β} − 2η)/β², by their series: β is below 0.05 here.
        let eta = 1.0 - beta / 2.0 + beta * beta / 12.0 - beta.powi(4) / 720.0;
        let shape = 1.0 / 3.0 - beta / 6.0 + 2.0 * beta * beta / 45.0 - beta.powi(3) / 120.0;
        let rate = 2.0 * eta / s;
        (rate - 1.0 / 6.0, rate * (eta + beta).powi(2) * shape + 1.0 / 45.0)
    }
}
