//! Brownian motion of the Lorentz metric on hyperbolic space, by Stratonovich–Heun in the chart y.

use super::Stepper;
use crate::error::SolveError;
use crate::linalg::{dot, scratch};
use crate::manifold::{Lorentz, Manifold};

/// dY = ½Σ(∇·A_j)A_j ds + A(Y)∘dB with the frame A of [`Lorentz::apply_frame`]: generator ½Δ of g_L. The state is the
/// ambient point x = (x₀, y), the noise has d numbers per row.
#[derive(Clone, Copy, Debug)]
pub struct LorentzBrownian {
    space: Lorentz,
}

impl LorentzBrownian {
    /// Brownian motion on this space.
    pub fn new(space: Lorentz) -> Self {
        Self { space }
    }

    /// `v ← drift·dt + A(x) db`.
    fn increment(&self, x: &[f64], dt: f64, db: &[f64], v: &mut [f64]) {
        let mut drift = scratch(db.len());
        self.space.brownian_drift(x, &mut drift);
        v.copy_from_slice(db);
        self.space.apply_frame(x, v);
        for (v, drift) in v.iter_mut().zip(drift) {
            *v += drift * dt;
        }
    }
}

impl Stepper for LorentzBrownian {
    fn width(&self) -> usize {
        self.space.dim() + 1
    }

    fn noise_dim(&self) -> usize {
        self.space.dim()
    }

    fn step(
        &mut self,
        _rows: &[usize],
        t: &[f64],
        dt: &[f64],
        db: &[f64],
        x: &mut [f64],
    ) -> Result<(), SolveError> {
        let d = self.space.dim();
        let (mut v, mut w, mut y) = (scratch(d), scratch(d), scratch(d + 1));
        for (i, (x, db)) in x.chunks_exact_mut(d + 1).zip(db.chunks_exact(d)).enumerate() {
            self.increment(x, dt[i], db, &mut v);
            for j in 0..d {
                y[j + 1] = x[j + 1] + v[j];
            }
            y[0] = self.space.points().height(&y[1..]);
            self.increment(&y, dt[i], db, &mut w);
            for j in 0..d {
                x[j + 1] += 0.5 * (v[j] + w[j]);
            }
            let size = dot(&x[1..], &x[1..]);
            if !size.is_finite() {
                let time = t[i] + dt[i];
                return Err(SolveError::NotFinite { row: i, time, quantity: "|y|²", value: size });
            }
            x[0] = self.space.points().height(&x[1..]);
            self.space.points().check_point(x).map_err(SolveError::at(i, t[i] + dt[i]))?;
        }
        Ok(())
    }
}
