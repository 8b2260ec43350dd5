//! Euler–Maruyama with π after every step. The Itô form of dX = f dt + σP∘dB has the drift f +
//! ½σ²H, and here H is made explicit: without it the scheme relies on π to supply the curvature,
//! which only a closest point does (on H^d with the Lorentz π it converges to a wrong law).

use super::{Drift, Stepper};
use crate::error::SolveError;
use crate::linalg::axpy;
use crate::manifold::Manifold;
use crate::rows::{Rows, RowsMut};

/// Y⁺ = π(Y + (f(Y) + ½σ²H(Y))Δ + σP_Y ΔB). Strong order ½, weak order 1.
#[derive(Debug)]
pub struct EulerMaruyama<'a, M: ?Sized, D> {
    manifold: &'a M,
    drift: D,
    sigma: f64,
    drift_values: Vec<f64>,
    scratch: Vec<f64>,
}

impl<'a, M: Manifold + ?Sized, D: Drift> EulerMaruyama<'a, M, D> {
    /// The scheme for dX = f dt + σ P∘dB.
    pub fn new(manifold: &'a M, drift: D, sigma: f64) -> Self {
        Self { manifold, drift, sigma, drift_values: Vec::new(), scratch: Vec::new() }
    }
}

impl<M: Manifold + ?Sized, D: Drift> Stepper for EulerMaruyama<'_, M, D> {
    fn width(&self) -> usize {
        self.manifold.ambient_dim()
    }

    fn noise_dim(&self) -> usize {
        self.manifold.ambient_dim()
    }

    fn step(
        &mut self,
        rows: &[usize],
        t: &[f64],
        dt: &[f64],
        db: &[f64],
        x: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = self.width();
        if !self.manifold.metric_is_induced() {
            return Err(SolveError::Unsupported {
                what: "Euler–Maruyama",
                manifold: self.manifold.name(),
                hint: "its Itô drift is not known for this metric; use Heun",
            });
        }
        self.drift_values.resize(x.len(), 0.0);
        self.scratch.resize(m, 0.0);
        self.drift.eval(rows, t, Rows::new(x, m)?, RowsMut::new(&mut self.drift_values, m)?)?;
        let drifts = self.drift_values.chunks_exact_mut(m);
        for (i, ((x, db), f)) in
            x.chunks_exact_mut(m).zip(db.chunks_exact(m)).zip(drifts).enumerate()
        {
            self.manifold.mean_curvature(x, &mut self.scratch);
            axpy(0.5 * self.sigma * self.sigma, &self.scratch, f);
            for (v, db) in self.scratch.iter_mut().zip(db) {
                *v = self.sigma * db;
            }
            self.manifold.project_tangent(x, &mut self.scratch);
            axpy(dt[i], f, x);
            axpy(1.0, &self.scratch, x);
            self.manifold.project_point(x).map_err(SolveError::at(i, t[i] + dt[i]))?;
        }
        Ok(())
    }
}
