//! Exponential moving average of weights.

use super::{BLOCK, OptimError};
use crate::nn::Real;

/// Steps between two updates of the numbers of tables.
const SELDOM: u64 = 16;

/// w ← d·w + (1 − d)·θ after each step, with a smaller d at first, (1 + t)/(10 + t): the weights
/// that a run starts with are forgotten at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Ema<T> {
    decay: f64,
    weights: Vec<T>,
}

impl<T: Real> Ema<T> {
    /// An average that starts at `params`.
    pub fn new(decay: f64, params: &[T]) -> Result<Self, OptimError> {
        if !(0.0..1.0).contains(&decay) {
            let expected = "a number in [0, 1)";
            return Err(OptimError::Setting { name: "ema decay", value: decay, expected });
        }
        Ok(Self { decay, weights: params.to_vec() })
    }

    /// The decay d.
    pub fn decay(&self) -> f64 {
        self.decay
    }

    /// The averaged weights.
    pub fn weights(&self) -> &[T] {
        &self.weights
    }

    /// One step towards `params`, after `step` others.
    pub fn update(&mut self, params: &[T], step: u64) -> Result<(), OptimError> {
        self.update_often(params, step, params.len())
    }

    /// The same for the first `often` numbers. The others, tables of which a step changes few
    /// entries, take every sixteenth step as if it were sixteen.
    pub fn update_often(
        &mut self,
        params: &[T],
        step: u64,
        often: usize,
    ) -> Result<(), OptimError> {
        let (found, expected) = (params.len(), self.weights.len());
        if found != expected {
            return Err(OptimError::Len { found, expected });
        }
        let rest = T::from_f64(1.0 - self.decay_of(step));
        average(rest, &mut self.weights[..often], &params[..often]);
        if (step + 1).is_multiple_of(SELDOM) {
            let decay: f64 = (step + 1 - SELDOM..=step).map(|step| self.decay_of(step)).product();
            average(T::from_f64(1.0 - decay), &mut self.weights[often..], &params[often..]);
        }
        Ok(())
    }

    fn decay_of(&self, step: u64) -> f64 {
        self.decay.min((1.0 + step as f64) / (10.0 + step as f64))
    }
}

/// w ← w + r·(θ − w): the form that leaves w alone, to the last bit, where θ = w.
fn average<T: Real>(rest: T, weights: &mut [T], params: &[T]) {
    if weights.len() > BLOCK {
        let middle = weights.len() / 2;
        let (w0, w1) = weights.split_at_mut(middle);
        let (p0, p1) = params.split_at(middle);
        rayon::join(|| average(rest, w0, p0), || average(rest, w1, p1));
        return;
    }
    for (w, p) in weights.iter_mut().zip(params) {
        *w += rest * (*p - *w);
    }
}
