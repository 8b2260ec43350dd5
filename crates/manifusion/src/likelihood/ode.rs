//! The exact likelihood of the equivalent ODE, λ = 1 in `eq:equiv-lambda`.
//!
//! dY = (U₀ − ½Pa) ds from the data at s_min to T, and log p(x) = log p₀(Y_T) + ∫ ∇_g·(U₀ − ½Pa) ds.

use std::sync::Mutex;

use crate::divergence::Estimator;
use crate::error::{PointError, SolveError};
use crate::field::FieldValues;
use crate::model::Diffusion;
use crate::ode::{DOPRI5, OdeOptions, OdeStats, OdeSystem, integrate};
use crate::parallel;
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut};

/// How the ODE is solved.
#[derive(Clone, Copy, Debug)]
pub struct OdeLikelihoodOptions {
    /// Tolerances of dopri5.
    pub ode: OdeOptions,
    /// Divergence; a Hutchinson probe stays the same along a row's solve.
    pub estimator: Estimator,
    /// Seed of random probes.
    pub seed: u64,
    /// Rows that are solved together.
    pub chunk: usize,
}

impl Default for OdeLikelihoodOptions {
    fn default() -> Self {
        Self { ode: OdeOptions::default(), estimator: Estimator::Frame, seed: 0, chunk: 64 }
    }
}

/// Log-densities with the work that they took.
#[derive(Clone, Debug)]
pub struct OdeLogDensity {
    /// log p(x) per row, in nats.
    pub log_p: Vec<f64>,
    /// What the solver did.
    pub stats: OdeStats,
}

/// The flow with its log-volume: the state is (y, ∫div).
struct Flow<'a> {
    model: &'a Diffusion,
    values: FieldValues,
    points: Vec<f64>,
    probes: Streams,
}

impl OdeSystem for Flow<'_> {
    fn width(&self) -> usize {
        self.model.manifold.ambient_dim() + 1
    }

    fn eval(
        &mut self,
        rows: &[usize],
        s: &[f64],
        state: Rows<'_>,
        mut out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        let Diffusion { manifold, prior, field, .. } = self.model;
        let m = manifold.ambient_dim();
        self.points.clear();
        for state in state.rows() {
            self.points.extend_from_slice(&state[..m]);
        }
        let x = Rows::new(&self.points, m)?;
        self.values.evaluate(manifold.as_ref(), field.as_ref(), rows, x, s, &self.probes)?;
        for (i, x) in x.rows().enumerate() {
            let out = out.row_mut(i);
            prior.drift(x, &mut out[..m]);
            for (out, a) in out.iter_mut().zip(&self.values.a[i * m..(i + 1) * m]) {
                *out -= 0.5 * a;
            }
            manifold.velocity(x, &mut out[..m]);
            out[m] = prior.drift_divergence(x) - 0.5 * self.values.div[i];
        }
        Ok(())
    }

    fn retract(&self, state: &mut [f64]) -> Result<(), PointError> {
        let m = self.model.manifold.ambient_dim();
        self.model.manifold.project_point(&mut state[..m])
    }
}

/// log p(x) of every row of `x`, in parallel over chunks.
pub fn log_density(
    model: &Diffusion,
    x: Rows<'_>,
    options: &OdeLikelihoodOptions,
) -> Result<OdeLogDensity, SolveError> {
    model.check()?;
    let m = model.manifold.ambient_dim();
    x.expect_width(m)?;
    model.check_points(x.as_slice())?;
    let mut states = Vec::with_capacity(x.len() * (m + 1));
    for x in x.rows() {
        states.extend_from_slice(x);
        states.push(0.0);
    }
    let stats = Mutex::new(OdeStats::default());
    parallel::for_each_chunk(&mut states, m + 1, options.chunk.max(1), |first, chunk| {
        let n = chunk.len() / (m + 1);
        let mut flow = Flow {
            model,
            values: FieldValues::new(options.estimator),
            points: Vec::new(),
            probes: Streams::new(options.seed, "likelihood-probes"),
        };
        let (start, end) = (vec![model.s_min; n], vec![model.t_end; n]);
        let done = integrate(&DOPRI5, &mut flow, first, &start, &end, &options.ode, chunk)?;
        let mut stats = stats.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        stats.evaluations += done.evaluations;
        stats.accepted += done.accepted;
        stats.rejected += done.rejected;
        Ok(())
    })?;
    let log_p = states
        .chunks_exact(m + 1)
        .map(|state| model.prior.log_density(&state[..m]) + state[m])
        .collect();
    let stats = stats.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Ok(OdeLogDensity { log_p, stats })
}
