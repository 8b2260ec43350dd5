//! The number of lineages A_∞^θ(s) of Kingman's coalescent with mutation, from which Brownian motion on S^d (θ = d) is
//! drawn in one step (Mijatović, Mramor & Uribe Bravo; Jenkins & Spanò 2017).

use crate::rng::Stream;

/// A_∞^θ for one θ.
#[derive(Clone, Copy, Debug)]
pub struct AncestralProcess {
    theta: f64,
    /// Time above which the alternating series loses fewer than six digits.
    series_from: f64,
}

/// Largest term of the series that is accepted: it leaves an error of 1e-10 in a probability.
const LARGEST_TERM: f64 = 1e6;

impl AncestralProcess {
    /// The process with parameter θ ≥ 1.
    pub fn new(theta: f64) -> Self {
        // The largest term falls with s: bisection on a logarithmic scale.
        let (mut low, mut high) = (1e-6f64, 1.0f64);
        for _ in 0..30 {
            let middle = (low * high).sqrt();
            if largest_term(theta, middle) > LARGEST_TERM { low = middle } else { high = middle }
        }
        Self { theta, series_from: high }
    }

    /// Draws the number of lineages at time s > 0, as a float because it grows like 2/s.
    pub fn sample(&self, s: f64, stream: &mut Stream) -> f64 {
        if s >= self.series_from {
            self.invert(s, stream.uniform())
        } else {
            let (mean, variance) = self.approximate_moments(s);
            (mean + variance.sqrt() * stream.normal()).round().max(0.0)
        }
    }

    /// Whether draws at time s come from the series rather than from the normal approximation.
    pub fn is_series(&self, s: f64) -> bool {
        s >= self.series_from
    }

    /// P(M = m) by the alternating series Σ_{k≥m} (−1)^{k−m} b_k(m); meaningful where [`Self::is_series`].
    pub fn probability(&self, s: f64, m: u32) -> f64 {
        let mut diagonal = Diagonal::new(self.theta, s);
        for _ in 0..m {
            diagonal.advance();
        }
        diagonal.probability()
    }

    /// The smallest m with P(M ≤ m) ≥ u.
    fn invert(&self, s: f64, u: f64) -> f64 {
        let mut diagonal = Diagonal::new(self.theta, s);
        let mut cumulative = 0.0;
        loop {
            let probability = diagonal.probability();
            cumulative += probability;
            // The second test ends the search where rounding keeps the sum below u.
            if u <= cumulative || (cumulative > 0.5 && probability < 1e-16) {
                return diagonal.m;
            }
            diagonal.advance();
        }
    }

    /// Mean and variance of Griffiths' normal approximation, with the corrections −1/6 and +1/45 for the rounding to
    /// integers. Moments of the sphere's law are then right to about 0.03 s² relative.
    fn approximate_moments(&self, s: f64) -> (f64, f64) {
        let beta = 0.5 * (self.theta - 1.0) * s;
        let (eta, shape) = if beta < 0.02 {
            let eta = 1.0 - beta / 2.0 + beta * beta / 12.0 - beta.powi(4) / 720.0;
            (eta, 1.0 / 3.0 - beta / 6.0 + 2.0 * beta * beta / 45.0 - beta.powi(3) / 120.0)
        } else {
            let eta = beta / beta.exp_m1();
            (eta, (1.0 + (-beta).exp() - 2.0 * eta) / (beta * beta))
        };
        let rate = 2.0 * eta / s;
        (rate - 1.0 / 6.0, rate * (eta + beta).powi(2) * shape + 1.0 / 45.0)
    }
}

/// The first term b_m(m) of the series for m = 0, 1, …
struct Diagonal {
    theta: f64,
    /// e^{−s} and e^{−θs/2}.
    decay: f64,
    start: f64,
    m: f64,
    term: f64,
    /// e^{−ms}
    power: f64,
}

impl Diagonal {
    fn new(theta: f64, s: f64) -> Self {
        let (decay, start) = ((-s).exp(), (-0.5 * theta * s).exp());
        Self { theta, decay, start, m: 0.0, term: 1.0, power: 1.0 }
    }

    /// b_{m+1}(m+1)/b_m(m) = (θ+2m+1)(θ+2m)/((m+1)(θ+m)) · e^{−(2m+θ)s/2}
    fn advance(&mut self) {
        let (theta, m) = (self.theta, self.m);
        self.term *= (theta + 2.0 * m + 1.0) * (theta + 2.0 * m) / ((m + 1.0) * (theta + m))
            * self.start
            * self.power;
        self.m += 1.0;
        self.power *= self.decay;
    }

    /// Σ_{k≥m} (−1)^{k−m} b_k(m), with b_{k+1}/b_k = (θ+2k+1)/(θ+2k−1)·(θ+m+k−1)/(k+1−m)·e^{−(2k+θ)s/2}.
    fn probability(&self) -> f64 {
        let mut sum = 0.0;
        self.for_each_term(|k_minus_m, term| {
            sum += if k_minus_m % 2 == 0 { term } else { -term };
        });
        sum
    }

    fn for_each_term(&self, mut visit: impl FnMut(u32, f64)) {
        let (theta, m) = (self.theta, self.m);
        let mut term = self.term;
        let mut factor = self.start * self.power;
        for i in 0..10_000u32 {
            visit(i, term);
            let k = m + f64::from(i);
            let growth = if k == 0.0 {
                // (θ−1)/(θ−1) = 1, also at θ = 1.
                theta + 1.0
            } else {
                (theta + 2.0 * k + 1.0) / (theta + 2.0 * k - 1.0) * (theta + m + k - 1.0)
                    / (k + 1.0 - m)
            };
            let ratio = growth * factor;
            term *= ratio;
            factor *= self.decay;
            if term < 1e-18 && ratio < 1.0 {
                return;
            }
        }
    }
}

/// The largest b_k(m) over all k and m.
fn largest_term(theta: f64, s: f64) -> f64 {
    let mut diagonal = Diagonal::new(theta, s);
    let mut largest = 0.0f64;
    loop {
        let mut here = 0.0f64;
        diagonal.for_each_term(|_, term| here = here.max(term));
        largest = largest.max(here);
        // Past the peak the first terms fall for good.
        if here < 1e-3 * largest || largest > 1e12 || diagonal.m > 1e4 {
            return largest;
        }
        diagonal.advance();
    }
}
