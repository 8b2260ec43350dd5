//! Ordinary differential equations on manifolds: embedded Runge–Kutta over a constant tableau, with
//! π after each accepted step.

mod bs3;
mod controller;
mod dopri5;
mod solve;
mod tableau;

pub use bs3::BS3;
pub use dopri5::DOPRI5;
pub use solve::{OdeOptions, OdeStats, integrate, integrate_fixed};
pub use tableau::Tableau;

use crate::error::{PointError, SolveError};
use crate::rows::{Rows, RowsMut};

/// The equation dy/dt = f(t, y) for a batch whose rows have their own times.
pub trait OdeSystem {
    /// Numbers per row.
    fn width(&self) -> usize;

    /// `out ← f(t, y)`. `rows` are the rows' numbers in the whole batch, for what must stay fixed
    /// along a solve (Hutchinson probes).
    fn eval(
        &mut self,
        rows: &[usize],
        t: &[f64],
        y: Rows<'_>,
        out: RowsMut<'_>,
    ) -> Result<(), SolveError>;

    /// The same for a stage that no integral needs. Components whose derivative nothing depends on
    /// (an integral along the path) may be left out.
    fn eval_without_integrals(
        &mut self,
        rows: &[usize],
        t: &[f64],
        y: Rows<'_>,
        out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        self.eval(rows, t, y, out)
    }

    /// A factor on the tolerance of a component at a time.
    fn error_scale(&self, _t: f64, _component: usize) -> f64 {
        1.0
    }

    /// The time that an error names for a time of the solver.
    fn named_time(&self, t: f64) -> f64 {
        t
    }

    /// Brings the part of a state that lives on a manifold back to it.
    fn retract(&self, y: &mut [f64]) -> Result<(), PointError>;

    /// The same for several states; an error with its place among them.
    fn retract_all(&self, y: &mut [f64]) -> Result<(), (usize, PointError)> {
        let mut states = y.chunks_exact_mut(self.width()).enumerate();
        states.try_for_each(|(i, y)| self.retract(y).map_err(|error| (i, error)))
    }
}
