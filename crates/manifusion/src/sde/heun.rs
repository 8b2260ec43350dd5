//! Stratonovich–Heun with π after every step (paper, appendix "Numerical integration of the SDEs";
//! Burrage, Burrage & Tian 2004). Converges to the Stratonovich solution; strong order ½ in
//! general, weak order 1.

use super::{Drift, Stepper};
use crate::error::SolveError;
use crate::linalg::axpy;
use crate::manifold::Manifold;
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

    /// `v ← V_x(P_x(σ db + σ²·½h dt) + f dt)`.
    fn increment(&self, x: &[f64], f: &[f64], dt: f64, db: &[f64], v: &mut [f64]) {
        if self.manifold.metric_is_induced() {
            for (v, db) in v.iter_mut().zip(db) {
                *v = self.sigma * db;
            }
        } else {
            self.manifold.mean_curvature(x, v);
            for (v, db) in v.iter_mut().zip(db) {
                *v = self.sigma * db + 0.5 * self.sigma * self.sigma * dt * *v;
            }
        }
        self.manifold.project_tangent(x, v);
        axpy(dt, f, v);
        self.manifold.velocity(x, v);
    }

    fn step_without_drift(
        &mut self,
        t: &[f64],
        dt: &[f64],
        db: &[f64],
        x: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = self.manifold.ambient_dim();
        let rows = x.chunks_exact_mut(m).zip(db.chunks_exact(m));
        let scratch = self.predictor.chunks_exact_mut(m).zip(self.tangent.chunks_exact_mut(m));
        for (i, ((x, db), (y, v))) in rows.zip(scratch).enumerate() {
            brownian_step(self.manifold, self.sigma, x, db, y, v)
                .map_err(SolveError::at(i, t[i] + dt[i]))?;
        }
        Ok(())
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
        for i in 0..t.len() {
            let at = i * m..(i + 1) * m;
            let mut tangent = std::mem::take(&mut self.tangent);
            let v = &mut tangent[at.clone()];
            let (x, db, f) = (&x[at.clone()], &db[at.clone()], &self.first[at.clone()]);
            self.increment(x, f, dt[i], db, v);
            for (y, (x, v)) in self.predictor[at].iter_mut().zip(x.iter().zip(v)) {
                *y = x + *v;
            }
            self.tangent = tangent;
        }
        let (y, f_y) = (Rows::new(&self.predictor, m)?, RowsMut::new(&mut self.second, m)?);
        self.drift.eval(rows, &self.times, y, f_y)?;
        for (i, x) in x.chunks_exact_mut(m).enumerate() {
            let at = i * m..(i + 1) * m;
            // The first drift has been used: its place takes the second increment.
            let mut first = std::mem::take(&mut self.first);
            let (y, db, f_y) =
                (&self.predictor[at.clone()], &db[at.clone()], &self.second[at.clone()]);
            self.increment(y, f_y, dt[i], db, &mut first[at.clone()]);
            axpy(0.5, &self.tangent[at.clone()], x);
            axpy(0.5, &first[at], x);
            self.first = first;
            self.manifold.project_point(x).map_err(SolveError::at(i, t[i] + dt[i]))?;
        }
        Ok(())
    }
}
