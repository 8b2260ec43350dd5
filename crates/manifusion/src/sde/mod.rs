//! Stochastic differential equations dX = f dt + σ P_X∘dB: one-step schemes, a fixed grid and an
//! adaptive one. Where the metric is not that of the ambient product, the noise is σ V_X∘dB in the
//! frame field V, and the scheme adds the drift that makes it Brownian.
//!
//! A [`Stepper`] owns its scratch and nothing else: noise, step size and output belong to the
//! caller. Every row has its own time and step. Steppers and integrators work on one batch in one
//! thread; parallelism lives in [`crate::parallel`], over chunks of rows.

mod adaptive;
mod along_path;
mod euler_maruyama;
mod fixed;
mod heun;

pub use adaptive::{Accepted, AdaptiveOptions, AdaptiveStats, AtMinStep, integrate_adaptive};
pub use along_path::integrate_uniform;
pub use euler_maruyama::EulerMaruyama;
pub use fixed::{integrate_fixed, integrate_fixed_rows};
pub use heun::Heun;

use std::ops::Range;

use crate::error::SolveError;
use crate::prior::Prior;
use crate::rows::{Rows, RowsMut};

/// The drift f(x, t).
pub trait Drift {
    /// `out ← f(x, t)` for every row, tangent. `rows` are the rows' numbers in the whole batch.
    fn eval(
        &mut self,
        rows: &[usize],
        t: &[f64],
        x: Rows<'_>,
        out: RowsMut<'_>,
    ) -> Result<(), SolveError>;

    /// Whether f = 0, so that the scheme can leave it out.
    fn is_zero(&self) -> bool {
        false
    }
}

/// f = 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDrift;

impl Drift for NoDrift {
    fn eval(
        &mut self,
        _: &[usize],
        _: &[f64],
        _: Rows<'_>,
        mut out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        out.as_mut_slice().fill(0.0);
        Ok(())
    }

    fn is_zero(&self) -> bool {
        true
    }
}

/// f = U₀ of a prior: the inference SDE `eq:fixed-inference`.
#[derive(Clone, Copy, Debug)]
pub struct PriorDrift<'a>(pub &'a dyn Prior);

impl Drift for PriorDrift<'_> {
    fn eval(
        &mut self,
        _: &[usize],
        _: &[f64],
        x: Rows<'_>,
        mut out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        for (x, out) in x.rows().zip(out.rows_mut()) {
            self.0.drift(x, out);
        }
        Ok(())
    }

    fn is_zero(&self) -> bool {
        self.0.is_driftless()
    }
}

/// One step of a scheme for a set of rows.
pub trait Stepper {
    /// Numbers per row of the state.
    fn width(&self) -> usize;

    /// Numbers per row of the Brownian motion.
    fn noise_dim(&self) -> usize;

    /// The components whose error decides how long an adaptive step is; all of them by default.
    fn controlled(&self) -> Range<usize> {
        0..self.width()
    }

    /// Moves every row from t to t + dt along the increment `db` of a standard Brownian motion
    /// (variance dt). `rows` are the rows' numbers in the whole batch; errors count rows from the
    /// start of `x`.
    fn step(
        &mut self,
        rows: &[usize],
        t: &[f64],
        dt: &[f64],
        db: &[f64],
        x: &mut [f64],
    ) -> Result<(), SolveError>;
}
