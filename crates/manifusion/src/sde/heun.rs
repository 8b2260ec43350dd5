//! Stratonovich–Heun with π after every step (paper, appendix "Numerical integration of the SDEs"; Burrage,
//! Burrage & Tian 2004). Converges to the Stratonovich solution; strong order ½ in general, weak order 1.

use super::{Drift, Stepper};
use crate::error::SolveError;
use crate::manifold::Manifold;
use crate::rows::{Rows, RowsMut};

/// Ŷ = Y + f(Y)Δ + σP_Y ΔB,  Y⁺ = π(Y + ½(f(Y) + f(Ŷ))Δ + ½σ(P_Y + P_Ŷ)ΔB).
///
/// The second stage takes P and f at Ŷ itself, not at π(Ŷ): both have the same limit, and this saves a point map.
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
        if self.drift.is_zero() {
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
            let (y, v) = (&mut self.predictor[at.clone()], &mut self.tangent[at.clone()]);
            let (x, db, f) = (&x[at.clone()], &db[at.clone()], &self.first[at]);
            for (v, db) in v.iter_mut().zip(db) {
                *v = self.sigma * db;
            }
            self.manifold.project_tangent(x, v);
            for j in 0..m {
                y[j] = x[j] + f[j] * dt[i] + v[j];
            }
        }
        let (y, f_y) = (Rows::new(&self.predictor, m)?, RowsMut::new(&mut self.second, m)?);
        self.drift.eval(rows, &self.times, y, f_y)?;
        for (i, x) in x.chunks_exact_mut(m).enumerate() {
            let at = i * m..(i + 1) * m;
            let (y, v, db) =
                (&self.predictor[at.clone()], &self.tangent[at.clone()], &db[at.clone()]);
            let (f, f_y) = (&self.first[at.clone()], &mut self.second[at]);
            for j in 0..m {
                x[j] += 0.5 * ((f[j] + f_y[j]) * dt[i] + v[j]);
                // The second drift has been used: its place takes the second noise term.
                f_y[j] = self.sigma * db[j];
            }
            self.manifold.project_tangent(y, f_y);
            for (x, v) in x.iter_mut().zip(f_y) {
                *x += 0.5 * *v;
            }
            self.manifold.project_point(x).map_err(SolveError::at(i, t[i] + dt[i]))?;
        }
        Ok(())
    }
}
