//! Stratonovich–Heun with π after every step (paper, appendix "Numerical integration of the SDEs";
//! Burrage, Burrage & Tian 2004). Converges to the Stratonovich solution; strong order ½ in
//! general, weak order 1.

use super::{Drift, Stepper};
use crate::error::SolveError;
use crate::linalg::axpy;
use crate::manifold::{Manifold, project_points, project_tangents};
use crate::rows::{Rows, RowsMut};

/// Ŷ = Y + f(Y)Δ + σP_Y ΔB,  Y⁺ = π(Y + ½(f(Y) + f(Ŷ))Δ + ½σ(P_Y + P_Ŷ)ΔB).
///
/// On a space whose metric is not induced P and f are followed by V, and f has σ²·½Σ(∇·V_j)V_j
/// added to it.
///
/// The second stage takes P and f at Ŷ itself, not at π(Ŷ): both have the same limit, and this
/// saves a point map.
#[derive(Debug)]
pub struct Heun<'a, M: ?Sized, D> {
    manifold: &'a M,
    drift: D,
    sigma: f64,
    predictor: Vec<f64>,
    tangent: Vec<f64>,
    first: Vec<f64>,
    second: Vec<f64>,
    times: Vec<f64>,
}

impl<'a, M: Manifold + ?Sized, D: Drift> Heun<'a, M, D> {
    /// The scheme for dX = f dt + σ P∘dB.
    pub fn new(manifold: &'a M, drift: D, sigma: f64) -> Self {
        let (predictor, tangent, times) = (Vec::new(), Vec::new(), Vec::new());
        let (first, second) = (Vec::new(), Vec::new());
        Self { manifold, drift, sigma, predictor, tangent, first, second, times }
    }

    /// `v ← V_x(P_x(σ db + σ²·½h dt) + f dt)` for every row.
    fn increments(&self, x: &[f64], f: &[f64], dt: &[f64], db: &[f64], v: &mut [f64]) {
        let m = self.manifold.ambient_dim();
        if self.manifold.metric_is_induced() {
            for (v, db) in v.iter_mut().zip(db) {
                *v = self.sigma * db;
            }
        } else {
            let rows = x.chunks_exact(m).zip(v.chunks_exact_mut(m)).zip(db.chunks_exact(m));
            for (((x, v), db), dt) in rows.zip(dt) {
                self.manifold.mean_curvature(x, v);
                for (v, db) in v.iter_mut().zip(db) {
                    *v = self.sigma * db + 0.5 * self.sigma * self.sigma * dt * *v;
                }
            }
        }
        project_tangents(self.manifold, x, v);
        let rows = x.chunks_exact(m).zip(v.chunks_exact_mut(m)).zip(f.chunks_exact(m));
        for (((x, v), f), dt) in rows.zip(dt) {
            axpy(*dt, f, v);
            self.manifold.velocity(x, v);
        }
    }

    fn step_without_drift(
        &mut self,
        t: &[f64],
        dt: &[f64],
        db: &[f64],
        x: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = self.manifold.ambient_dim();
        if self.manifold.by_rows().is_some() {
            return self.step_together(t, dt, db, x);
        }
        let rows = x.chunks_exact_mut(m).zip(db.chunks_exact(m));
        let scratch = self.predictor.chunks_exact_mut(m).zip(self.tangent.chunks_exact_mut(m));
        for (i, ((x, db), (y, v))) in rows.zip(scratch).enumerate() {
            brownian_step(self.manifold, self.sigma, x, db, y, v)
                .map_err(SolveError::at(i, t[i] + dt[i]))?;
        }
        Ok(())
    }

    /// A driftless step of all rows, each call with all of them.
    fn step_together(
        &mut self,
        t: &[f64],
        dt: &[f64],
        db: &[f64],
        x: &mut [f64],
    ) -> Result<(), SolveError> {
        let (y, v) = (&mut self.predictor[..], &mut self.tangent[..]);
        v.iter_mut().zip(db).for_each(|(v, db)| *v = self.sigma * db);
        project_tangents(self.manifold, x, v);
        for i in 0..x.len() {
            y[i] = x[i] + v[i];
            x[i] += 0.5 * v[i];
            v[i] = self.sigma * db[i];
        }
        project_tangents(self.manifold, y, v);
        axpy(0.5, v, x);
        project_points(self.manifold, x)
            .map_err(|(row, error)| SolveError::at(row, t[row] + dt[row])(error))
    }
}

/// One driftless step of one row, with scratch `y` and `v`.
#[inline]
fn brownian_step<M: Manifold + ?Sized>(
    manifold: &M,
    sigma: f64,
    x: &mut [f64],
    db: &[f64],
    y: &mut [f64],
    v: &mut [f64],
) -> Result<(), crate::error::PointError> {
    for (v, db) in v.iter_mut().zip(db) {
        *v = sigma * db;
    }
    manifold.project_tangent(x, v);
    for i in 0..x.len() {
        y[i] = x[i] + v[i];
        x[i] += 0.5 * v[i];
        v[i] = sigma * db[i];
    }
    manifold.project_tangent(y, v);
    for (x, v) in x.iter_mut().zip(v) {
        *x += 0.5 * *v;
    }
    manifold.project_point(x)
}

impl<M: Manifold + ?Sized, D: Drift> Stepper for Heun<'_, M, D> {
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
        for buffer in [&mut self.predictor, &mut self.tangent] {
            buffer.resize(x.len(), 0.0);
        }
        if self.drift.is_zero() && self.manifold.metric_is_induced() {
            return self.step_without_drift(t, dt, db, x);
        }
        for buffer in [&mut self.first, &mut self.second] {
            buffer.resize(x.len(), 0.0);
        }
        self.times.clear();
        self.times.extend(t.iter().zip(dt).map(|(t, dt)| t + dt));

        self.drift.eval(rows, t, Rows::new(x, m)?, RowsMut::new(&mut self.first, m)?)?;
        let mut tangent = std::mem::take(&mut self.tangent);
        self.increments(x, &self.first, dt, db, &mut tangent);
        for (y, (x, v)) in self.predictor.iter_mut().zip(x.iter().zip(&tangent)) {
            *y = x + *v;
        }
        self.tangent = tangent;
        let (y, f_y) = (Rows::new(&self.predictor, m)?, RowsMut::new(&mut self.second, m)?);
        self.drift.eval(rows, &self.times, y, f_y)?;
        // The first drift has been used: its place takes the second increment.
        let mut first = std::mem::take(&mut self.first);
        self.increments(&self.predictor, &self.second, dt, db, &mut first);
        axpy(0.5, &self.tangent, x);
        axpy(0.5, &first, x);
        self.first = first;
        project_points(self.manifold, x)
            .map_err(|(row, error)| SolveError::at(row, t[row] + dt[row])(error))
    }
}
