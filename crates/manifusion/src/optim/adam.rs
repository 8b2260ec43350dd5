//! Adam (Kingma & Ba 2015) and AdamW (Loshchilov & Hutter 2019).

use pulp::{Simd, WithSimd};
use serde::{Deserialize, Serialize};

use super::{BLOCK, OptimError};
use crate::nn::{Real, Support};

/// Settings of Adam; the learning rate comes with each step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdamConfig {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub epsilon: f64,
    /// AdamW's decay: θ ← θ − lr·weight_decay·θ; 0 is Adam.
    pub weight_decay: f64,
}

impl Default for AdamConfig {
    /// The paper's β₁ = 0.9 and β₂ = 0.999 \[tab:exp-optimization-detail\], no weight decay.
    fn default() -> Self {
        Self { beta1: 0.9, beta2: 0.999, epsilon: 1e-8, weight_decay: 0.0 }
    }
}

impl AdamConfig {
    fn validate(&self) -> Result<(), OptimError> {
        let check = |name, value: f64, ok: bool, expected| {
            if ok { Ok(()) } else { Err(OptimError::Setting { name, value, expected }) }
        };
        let unit = 0.0..1.0;
        check("beta1", self.beta1, unit.contains(&self.beta1), "a number in [0, 1)")?;
        check("beta2", self.beta2, unit.contains(&self.beta2), "a number in [0, 1)")?;
        let positive = self.epsilon > 0.0 && self.epsilon.is_finite();
        check("epsilon", self.epsilon, positive, "a number above 0")?;
        let decay = self.weight_decay >= 0.0 && self.weight_decay.is_finite();
        check("weight_decay", self.weight_decay, decay, "a number of at least 0")
    }
}

/// The moments of Adam for one flat buffer of parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Adam<T> {
    config: AdamConfig,
    first: Vec<T>,
    second: Vec<T>,
    steps: u64,
}

/// The numbers of one step, in the network's type.
#[derive(Clone, Copy)]
struct Step<T> {
    beta1: T,
    rest1: T,
    beta2: T,
    rest2: T,
    rate: T,
    unbias2: T,
    epsilon: T,
    keep: T,
}

impl<T: Real> Adam<T> {
    /// Zero moments for `len` parameters.
    pub fn new(config: AdamConfig, len: usize) -> Result<Self, OptimError> {
        config.validate()?;
        Ok(Self { config, first: vec![T::ZERO; len], second: vec![T::ZERO; len], steps: 0 })
    }

    /// Moments read from a checkpoint.
    pub fn from_moments(
        config: AdamConfig,
        first: Vec<T>,
        second: Vec<T>,
        steps: u64,
    ) -> Result<Self, OptimError> {
        config.validate()?;
        check_len(second.len(), first.len())?;
        Ok(Self { config, first, second, steps })
    }

    /// The settings.
    pub fn config(&self) -> &AdamConfig {
        &self.config
    }

    /// Steps made so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// First and second moments.
    pub fn moments(&self) -> (&[T], &[T]) {
        (&self.first, &self.second)
    }

    /// One step: m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g²,
    /// θ ← (1 − lr·wd)·θ − lr·m̂/(√v̂ + ε), with m̂ and v̂ corrected for their start at 0.
    pub fn step(&mut self, params: &mut [T], grad: &[T], lr: f64) -> Result<(), OptimError> {
        self.step_on(params, grad, &Support::whole(grad.len()), lr)
    }

    /// The same for a gradient that is zero outside its support: there parameters and moments stay
    /// as they are.
    pub fn step_on(
        &mut self,
        params: &mut [T],
        grad: &[T],
        support: &Support,
        lr: f64,
    ) -> Result<(), OptimError> {
        check_len(params.len(), self.first.len())?;
        check_len(grad.len(), self.first.len())?;
        self.steps += 1;
        let step = self.numbers(lr);
        let (first, second) = (&mut self.first, &mut self.second);
        let all = ..support.dense();
        update(step, &mut params[all], &grad[all], &mut first[all], &mut second[all]);
        for run in support.runs() {
            let (m, v) = (&mut first[run.clone()], &mut second[run.clone()]);
            move_along(step, &mut params[run.clone()], &grad[run], m, v);
        }
        Ok(())
    }

    /// The numbers of the present step.
    fn numbers(&self, lr: f64) -> Step<T> {
        let AdamConfig { beta1, beta2, epsilon, weight_decay } = self.config;
        let steps = self.steps as f64;
        Step {
            beta1: T::from_f64(beta1),
            rest1: T::from_f64(1.0 - beta1),
            beta2: T::from_f64(beta2),
            rest2: T::from_f64(1.0 - beta2),
            rate: T::from_f64(lr / (1.0 - beta1.powf(steps))),
            unbias2: T::from_f64((1.0 - beta2.powf(steps)).sqrt().recip()),
            epsilon: T::from_f64(epsilon),
            keep: T::from_f64(1.0 - lr * weight_decay),
        }
    }

    /// First moments, for a change of the coordinates that they are in.
    pub(super) fn first_mut(&mut self) -> &mut [T] {
        &mut self.first
    }

    /// The first half of a step: moments take the gradient, which becomes m̂/(√v̂ + ε).
    pub(super) fn direction(
        &mut self,
        grad: &mut [T],
        support: &Support,
    ) -> Result<(), OptimError> {
        check_len(grad.len(), self.first.len())?;
        self.steps += 1;
        let step = self.numbers(1.0);
        let (first, second) = (&mut self.first, &mut self.second);
        let all = ..support.dense();
        direct(step, &mut grad[all], &mut first[all], &mut second[all]);
        for run in support.runs() {
            direct_along(step, &mut grad[run.clone()], &mut first[run.clone()], &mut second[run]);
        }
        Ok(())
    }

    /// The second half: θ ← (1 − lr·wd)·θ − lr·direction.
    pub(super) fn descend(
        &self,
        params: &mut [T],
        direction: &[T],
        support: &Support,
        lr: f64,
    ) -> Result<(), OptimError> {
        check_len(params.len(), direction.len())?;
        let keep = T::from_f64(1.0 - lr * self.config.weight_decay);
        let lr = T::from_f64(lr);
        for run in std::iter::once(0..support.dense()).chain(support.runs()) {
            for (p, d) in params[run.clone()].iter_mut().zip(&direction[run]) {
                *p = keep * *p - lr * *d;
            }
        }
        Ok(())
    }
}

fn check_len(found: usize, expected: usize) -> Result<(), OptimError> {
    if found == expected { Ok(()) } else { Err(OptimError::Len { found, expected }) }
}

fn update<T: Real>(step: Step<T>, params: &mut [T], grad: &[T], first: &mut [T], second: &mut [T]) {
    if params.len() <= BLOCK {
        pulp::Arch::new().dispatch(Update { step, params, grad, first, second });
        return;
    }
    let middle = params.len() / 2;
    let (p0, p1) = params.split_at_mut(middle);
    let (g0, g1) = grad.split_at(middle);
    let (m0, m1) = first.split_at_mut(middle);
    let (v0, v1) = second.split_at_mut(middle);
    rayon::join(|| update(step, p0, g0, m0, v0), || update(step, p1, g1, m1, v1));
}

fn direct<T: Real>(step: Step<T>, grad: &mut [T], first: &mut [T], second: &mut [T]) {
    if grad.len() <= BLOCK {
        pulp::Arch::new().dispatch(Direction { step, grad, first, second });
        return;
    }
    let middle = grad.len() / 2;
    let (g0, g1) = grad.split_at_mut(middle);
    let (m0, m1) = first.split_at_mut(middle);
    let (v0, v1) = second.split_at_mut(middle);
    rayon::join(|| direct(step, g0, m0, v0), || direct(step, g1, m1, v1));
}

struct Direction<'a, T> {
    step: Step<T>,
    grad: &'a mut [T],
    first: &'a mut [T],
    second: &'a mut [T],
}

impl<T: Real> WithSimd for Direction<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        direct_along(self.step, self.grad, self.first, self.second);
    }
}

#[inline(always)]
fn direct_along<T: Real>(step: Step<T>, grad: &mut [T], first: &mut [T], second: &mut [T]) {
    for ((g, m), v) in grad.iter_mut().zip(first).zip(second) {
        *m = step.beta1 * *m + step.rest1 * *g;
        *v = step.beta2 * *v + step.rest2 * *g * *g;
        let size = v.root() * step.unbias2 + step.epsilon;
        *g = step.rate * *m / size;
    }
}

struct Update<'a, T> {
    step: Step<T>,
    params: &'a mut [T],
    grad: &'a [T],
    first: &'a mut [T],
    second: &'a mut [T],
}

impl<T: Real> WithSimd for Update<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        move_along(self.step, self.params, self.grad, self.first, self.second);
    }
}

#[inline(always)]
fn move_along<T: Real>(
    step: Step<T>,
    params: &mut [T],
    grad: &[T],
    first: &mut [T],
    second: &mut [T],
) {
    for (((p, g), m), v) in params.iter_mut().zip(grad).zip(first).zip(second) {
        *m = step.beta1 * *m + step.rest1 * *g;
        *v = step.beta2 * *v + step.rest2 * *g * *g;
        let size = v.root() * step.unbias2 + step.epsilon;
        *p = step.keep * *p - step.rate * *m / size;
    }
}
