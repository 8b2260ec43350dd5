//! Learning rates as functions of the step.

use serde::{Deserialize, Serialize};

/// What follows the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decay {
    /// The base rate throughout.
    #[default]
    Constant,
    /// From the base rate to `floor` times it along half a cosine.
    Cosine,
}

/// A linear warm-up from 0, then a constant or a cosine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// The rate after the warm-up.
    pub base: f64,
    /// Steps of the warm-up.
    pub warmup: u64,
    /// What follows.
    pub decay: Decay,
    /// All steps of the run; a cosine ends here.
    pub total: u64,
    /// The last rate of a cosine, as a fraction of the base rate.
    pub floor: f64,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { base: 1e-3, warmup: 0, decay: Decay::Constant, total: 1, floor: 0.0 }
    }
}

impl Schedule {
    /// The rate of step 0, 1, …; beyond `total` a cosine stays at its floor.
    pub fn rate(&self, step: u64) -> f64 {
        if step < self.warmup {
            return self.base * (step + 1) as f64 / self.warmup as f64;
        }
        match self.decay {
            Decay::Constant => self.base,
            Decay::Cosine => {
                let span = self.total.saturating_sub(self.warmup).max(1) as f64;
                let done = ((step - self.warmup) as f64 / span).min(1.0);
                let cosine = 0.5 * (1.0 + (std::f64::consts::PI * done).cos());
                self.base * (self.floor + (1.0 - self.floor) * cosine)
            }
        }
    }
}
