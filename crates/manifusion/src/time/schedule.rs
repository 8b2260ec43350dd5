//! Times of a noise schedule: t uniform on [0, 1], s = ∫₀ᵗ β with β linear.

use super::{Proposal, TimeError, check_interval};

/// s = β₀t + (β₁ − β₀)t²/2 with t uniform between the times of s_min and T: what score-based models
/// with a linear schedule of the noise train on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearSchedule {
    beta_min: f64,
    beta_max: f64,
    s_min: f64,
    t_end: f64,
}

impl LinearSchedule {
    /// The schedule whose β rises from `beta_min` at 0 to `beta_max` at 1, on [s_min, T].
    pub fn new(beta_min: f64, beta_max: f64, s_min: f64, t_end: f64) -> Result<Self, TimeError> {
        check_interval(s_min, t_end)?;
        for (name, value, least) in [("beta_min", beta_min, 0.0), ("beta_max", beta_max, beta_min)]
        {
            if !(value >= least && value > 0.0 && value.is_finite()) {
                let expected = "0 < beta_min <= beta_max";
                return Err(TimeError::Setting { name, value, expected });
            }
        }
        Ok(Self { beta_min, beta_max, s_min, t_end })
    }

    /// ∫₀ᵗ β.
    pub fn noise(&self, t: f64) -> f64 {
        t * (self.beta_min + 0.5 * (self.beta_max - self.beta_min) * t)
    }

    /// The t of a noising time, by the root that does not cancel.
    fn clock(&self, s: f64) -> f64 {
        let slope = self.beta_max - self.beta_min;
        2.0 * s / (self.beta_min + (self.beta_min.powi(2) + 2.0 * slope * s).sqrt())
    }
}

impl Proposal for LinearSchedule {
    fn support(&self) -> (f64, f64) {
        (self.s_min, self.t_end)
    }

    fn sample(&self, u: f64) -> f64 {
        let (first, last) = (self.clock(self.s_min), self.clock(self.t_end));
        self.noise(first + u * (last - first)).clamp(self.s_min, self.t_end)
    }

    fn log_density(&self, s: f64) -> f64 {
        if !(self.s_min..=self.t_end).contains(&s) {
            return f64::NEG_INFINITY;
        }
        let (first, last) = (self.clock(self.s_min), self.clock(self.t_end));
        let rate = self.beta_min + (self.beta_max - self.beta_min) * self.clock(s);
        -(rate * (last - first)).ln()
    }
}
