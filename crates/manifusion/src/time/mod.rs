//! The proposal q(s) of training times: uniform, log-uniform, or a learned deep sigmoidal flow.
//!
//! The bound's integrand is I = ℓ(s)/q(s), s ~ q \[eq:ct-elbo-time2\]; q only changes its variance.

mod layer;
mod schedule;
mod sigmoidal_flow;
mod uniform;

use thiserror::Error;

use crate::rng::Streams;
pub use schedule::LinearSchedule;
pub use sigmoidal_flow::{Draw, FlowConfig, FlowScale, SigmoidalFlow};
pub use uniform::{LogUniform, Uniform};

/// What a proposal cannot accept.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum TimeError {
    /// An interval that is empty or, where logarithms are taken, touches 0.
    #[error("the interval [{s_min}, {t_end}] is not allowed; s_min < T, and s_min > 0 for log s")]
    Interval {
        /// Its lower end.
        s_min: f64,
        /// Its upper end, T.
        t_end: f64,
    },
    /// A setting out of its range.
    #[error("{name} = {value} is not allowed; {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// The value given.
        value: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// Slices that do not fit.
    #[error("{found} numbers given, expected {expected}")]
    Len {
        /// Numbers given.
        found: usize,
        /// Numbers needed.
        expected: usize,
    },
}

/// A density on [s_min, T] that can be sampled.
pub trait Proposal: Send + Sync {
    /// s_min and T.
    fn support(&self) -> (f64, f64);

    /// The time that a uniform number u in (0, 1] stands for.
    fn sample(&self, u: f64) -> f64;

    /// ln q(s), and −∞ outside the support.
    fn log_density(&self, s: f64) -> f64;

    /// Times and log-densities for a batch, stratified: row i takes u from ((i, i + 1]/n).
    ///
    /// The order follows u, so the rows they are given to must be in random order.
    fn fill(&self, streams: &Streams, step: u64, s: &mut [f64], log_q: &mut [f64]) {
        let n = s.len() as f64;
        for (i, (s, log_q)) in s.iter_mut().zip(log_q).enumerate() {
            let u = (i as f64 + streams.stream(i as u64, step).uniform()) / n;
            *s = self.sample(u);
            *log_q = self.log_density(*s);
        }
    }
}

fn check_interval(s_min: f64, t_end: f64) -> Result<(), TimeError> {
    let ok = s_min >= 0.0 && t_end > s_min && t_end.is_finite();
    if ok { Ok(()) } else { Err(TimeError::Interval { s_min, t_end }) }
}
