//! The fixed proposals.

use super::{Proposal, TimeError, check_interval};

/// s uniform on [s_min, T].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Uniform {
    s_min: f64,
    t_end: f64,
}

impl Uniform {
    /// The uniform law on [s_min, T].
    pub fn new(s_min: f64, t_end: f64) -> Result<Self, TimeError> {
        check_interval(s_min, t_end)?;
        Ok(Self { s_min, t_end })
    }
}

impl Proposal for Uniform {
    fn support(&self) -> (f64, f64) {
        (self.s_min, self.t_end)
    }

    fn sample(&self, u: f64) -> f64 {
        (self.s_min + u * (self.t_end - self.s_min)).min(self.t_end)
    }

    fn log_density(&self, s: f64) -> f64 {
        if (self.s_min..=self.t_end).contains(&s) {
            -(self.t_end - self.s_min).ln()
        } else {
            f64::NEG_INFINITY
        }
    }
}

/// ln s uniform on [ln s_min, ln T].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogUniform {
    s_min: f64,
    t_end: f64,
}

impl LogUniform {
    /// The log-uniform law on [s_min, T].
    pub fn new(s_min: f64, t_end: f64) -> Result<Self, TimeError> {
        check_interval(s_min, t_end)?;
        if s_min > 0.0 {
            Ok(Self { s_min, t_end })
        } else {
            Err(TimeError::Interval { s_min, t_end })
        }
    }
}

impl Proposal for LogUniform {
    fn support(&self) -> (f64, f64) {
        (self.s_min, self.t_end)
    }

    fn sample(&self, u: f64) -> f64 {
        let s = self.s_min * (u * (self.t_end / self.s_min).ln()).exp();
        s.clamp(self.s_min, self.t_end)
    }

    fn log_density(&self, s: f64) -> f64 {
        if (self.s_min..=self.t_end).contains(&s) {
            -s.ln() - (self.t_end / self.s_min).ln().ln()
        } else {
            f64::NEG_INFINITY
        }
    }
}
