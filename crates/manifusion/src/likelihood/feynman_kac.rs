//! The marginal-density theorem `thm:marginal-density` by brute force: a check in low dimension.
//!
//! p(x) = E[p₀(Y_T) exp(−∫ ∇_g·V₀ ds)] along dY = −V₀ ds + P∘dB with V₀ = Pa − U₀: the weights of
//! the bound with no change of measure. The variance grows fast with the dimension, so many paths
//! are needed.

use crate::brownian::{BrownianTree, Clock};
use crate::divergence::Estimator;
use crate::error::SolveError;
use crate::field::FieldValues;
use crate::linalg::log_sum_exp;
use crate::model::Diffusion;
use crate::parallel;
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut, expect_len};
use crate::sde::{Drift, Heun, Stepper, integrate_uniform};

/// log p(x) of one point from `num_paths` paths of 2^`level` steps, equal in log s.
pub fn feynman_kac(
    model: &Diffusion,
    x: &[f64],
    num_paths: usize,
    level: u32,
    seed: u64,
) -> Result<f64, SolveError> {
    model.check()?;
    let m = model.manifold.ambient_dim();
    expect_len(x.len(), m)?;
    model.check_points(x)?;
    if num_paths == 0 {
        let expected = "at least one path is needed";
        return Err(SolveError::Setting { name: "num_paths", value: 0.0, expected });
    }
    let clock = Clock::Log { t0: model.s_min, t1: model.t_end };
    let tree = BrownianTree::new(Streams::new(seed, "feynman-kac"), clock, m);
    let mut states = [x, &[0.0]].concat().repeat(num_paths);
    parallel::for_each_chunk(&mut states, m + 1, 64, |first, chunk| {
        let mut path = ReversedPath {
            model,
            heun: Heun::new(model.manifold.as_ref(), NegativeV0::new(model), 1.0),
            values: FieldValues::new(Estimator::Frame),
            points: Vec::new(),
        };
        integrate_uniform(&mut path, &tree, first as u64, level, chunk)
    })?;
    let weights: Vec<f64> = states
        .chunks_exact(m + 1)
        .map(|state| model.prior.log_density(&state[..m]) + state[m])
        .collect();
    Ok(log_sum_exp(&weights) - (num_paths as f64).ln())
}

/// −V₀ = U₀ − Pa.
struct NegativeV0<'a> {
    model: &'a Diffusion,
    values: FieldValues,
}

impl<'a> NegativeV0<'a> {
    fn new(model: &'a Diffusion) -> Self {
        Self { model, values: FieldValues::new(Estimator::Frame) }
    }
}

impl Drift for NegativeV0<'_> {
    fn eval(
        &mut self,
        _rows: &[usize],
        s: &[f64],
        x: Rows<'_>,
        mut out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        let Diffusion { manifold, prior, field, .. } = self.model;
        self.values.project(manifold.as_ref(), field.as_ref(), x, s)?;
        for (x, out) in x.rows().zip(out.rows_mut()) {
            prior.drift(x, out);
        }
        for (out, a) in out.as_mut_slice().iter_mut().zip(&self.values.a) {
            *out -= a;
        }
        Ok(())
    }
}

/// The state is (y, −∫∇_g·V₀ ds), the integral by the trapezoid rule.
struct ReversedPath<'a> {
    model: &'a Diffusion,
    heun: Heun<'a, dyn crate::manifold::Manifold, NegativeV0<'a>>,
    values: FieldValues,
    points: Vec<f64>,
}

impl ReversedPath<'_> {
    /// `state[m] −= ½ ds ∇_g·(Pa − U₀)` for every row, at `self.points`.
    fn add_half(
        &mut self,
        rows: &[usize],
        s: &[f64],
        ds: &[f64],
        state: &mut [f64],
    ) -> Result<(), SolveError> {
        let Diffusion { manifold, prior, field, .. } = self.model;
        let m = manifold.ambient_dim();
        let x = Rows::new(&self.points, m)?;
        let unused = Streams::new(0, "frame");
        self.values.evaluate(manifold.as_ref(), field.as_ref(), rows, x, s, &unused)?;
        for (i, (x, state)) in x.rows().zip(state.chunks_exact_mut(m + 1)).enumerate() {
            state[m] -= 0.5 * ds[i] * (self.values.div[i] - prior.drift_divergence(x));
        }
        Ok(())
    }
}

impl Stepper for ReversedPath<'_> {
    fn width(&self) -> usize {
        self.model.manifold.ambient_dim() + 1
    }

    fn noise_dim(&self) -> usize {
        self.model.manifold.ambient_dim()
    }

    fn step(
        &mut self,
        rows: &[usize],
        s: &[f64],
        ds: &[f64],
        db: &[f64],
        state: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = self.noise_dim();
        self.points.clear();
        for state in state.chunks_exact(m + 1) {
            self.points.extend_from_slice(&state[..m]);
        }
        self.add_half(rows, s, ds, state)?;
        self.heun.step(rows, s, ds, db, &mut self.points)?;
        let ends: Vec<f64> = s.iter().zip(ds).map(|(s, ds)| s + ds).collect();
        self.add_half(rows, &ends, ds, state)?;
        for (state, point) in state.chunks_exact_mut(m + 1).zip(self.points.chunks_exact(m)) {
            state[..m].copy_from_slice(point);
        }
        Ok(())
    }
}
