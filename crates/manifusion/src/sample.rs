//! Sampling: the λ-family of marginally equivalent processes `eq:equiv-lambda-reverse`.
//!
//! dX = ((1 − λ/2)S − U₀)dt + √(1−λ) P∘dB from X₀ ~ p₀, with the field in place of the score S and
//! s = T − t. λ = 0 is the reverse SDE, λ = 1 an ODE, λ < 0 more noise.

use crate::brownian::{BrownianTree, Clock};
use crate::divergence::Estimator;
use crate::error::{ShapeError, SolveError};
use crate::field::FieldValues;
use crate::flow_density::{FlowOptions, draw_prior};
use crate::manifold::chunk_rows;
use crate::model::Diffusion;
use crate::ode::OdeOptions;
use crate::parallel;
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut};
use crate::sde::{AdaptiveOptions, Drift, Heun, integrate_adaptive, integrate_uniform};

/// How the generative process is run.
#[derive(Clone, Copy, Debug)]
pub struct SampleOptions {
    /// λ ≤ 1.
    pub lambda: f64,
    /// The time grid.
    pub steps: Steps,
    /// Seed of prior draws and noise.
    pub seed: u64,
    /// The number of the first row: draws are the rows from here on of all that the seed gives.
    pub first_row: usize,
    /// Rows that are run together.
    pub chunk: usize,
}

/// The time grid of a sampler.
#[derive(Clone, Copy, Debug)]
pub enum Steps {
    /// 512 Heun steps for λ < 1; dopri5 to a tolerance that samples do not show for λ = 1.
    Automatic,
    /// 2^level Heun steps, equal in log s, for every λ.
    Fixed {
        /// log₂ of the number of steps.
        level: u32,
    },
    /// Step doubling for λ < 1; dopri5 with the same tolerances for λ = 1.
    Adaptive(AdaptiveOptions),
}

/// log₂ of the steps that are made where nothing else was asked for.
const AUTOMATIC_LEVEL: u32 = 9;

impl Default for SampleOptions {
    fn default() -> Self {
        Self { lambda: 1.0, steps: Steps::Automatic, seed: 0, first_row: 0, chunk: 64 }
    }
}

impl Steps {
    /// Adaptive steps with one tolerance, relative and absolute.
    pub fn to_tolerance(tolerance: f64) -> Self {
        let (rtol, atol) = (tolerance, tolerance);
        Self::Adaptive(AdaptiveOptions { rtol, atol, ..AdaptiveOptions::default() })
    }
}

/// (1 − λ/2)Pa − U₀ at s = T − t.
struct Generative<'a> {
    model: &'a Diffusion,
    lambda: f64,
    values: FieldValues,
    s: Vec<f64>,
}

impl<'a> Generative<'a> {
    fn new(model: &'a Diffusion, lambda: f64) -> Self {
        Self { model, lambda, values: FieldValues::new(Estimator::Frame), s: Vec::new() }
    }
}

impl Drift for Generative<'_> {
    fn eval(
        &mut self,
        _rows: &[usize],
        t: &[f64],
        x: Rows<'_>,
        mut out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        let Diffusion { manifold, prior, field, s_min, t_end } = self.model;
        self.s.clear();
        // Rounding of T − t must not lead below the times that the field knows.
        self.s.extend(t.iter().map(|t| (t_end - t).max(*s_min)));
        self.values.project(manifold.as_ref(), field.as_ref(), x, &self.s)?;
        let m = x.width();
        for (i, x) in x.rows().enumerate() {
            let out = out.row_mut(i);
            prior.drift(x, out);
            for (out, a) in out.iter_mut().zip(&self.values.a[i * m..(i + 1) * m]) {
                *out = (1.0 - 0.5 * self.lambda) * a - *out;
            }
        }
        Ok(())
    }
}

/// `n` draws from the model, row by row.
pub fn sample(
    model: &Diffusion,
    n: usize,
    options: &SampleOptions,
) -> Result<Vec<f64>, SolveError> {
    model.check()?;
    if n == 0 {
        return Err(ShapeError::Empty.into());
    }
    let lambda = options.lambda;
    if !(lambda <= 1.0 && lambda.is_finite()) {
        let expected = "a finite number of at most 1";
        return Err(SolveError::Setting { name: "lambda", value: lambda, expected });
    }
    let m = model.manifold.ambient_dim();
    let mut x = vec![0.0; n * m];
    let clock = Clock::LogBackwards { end: model.t_end, s_min: model.s_min };
    let tree = BrownianTree::new(Streams::new(options.seed, "sample-noise"), clock, m);
    let mut flow = model.flow(FlowOptions::default());
    if let Steps::Adaptive(AdaptiveOptions { rtol, atol, .. }) = options.steps {
        flow.sampling = OdeOptions { rtol, atol, ..OdeOptions::default() };
    }
    let chunk = chunk_rows(model.manifold.as_ref(), options.chunk);
    parallel::for_each_chunk(&mut x, m, chunk, |first, chunk| {
        let first = options.first_row + first;
        draw_prior(model.prior.as_ref(), m, options.seed, first, chunk)?;
        let drift = Generative::new(model, lambda);
        // Without noise for λ = 1: Heun's scheme for the ODE.
        let mut heun = Heun::new(model.manifold.as_ref(), drift, (1.0 - lambda).sqrt());
        match options.steps {
            Steps::Automatic | Steps::Adaptive(_) if lambda >= 1.0 => {
                flow.carry_to_data(first, chunk).map(|_| ())
            }
            Steps::Automatic => {
                integrate_uniform(&mut heun, &tree, first as u64, AUTOMATIC_LEVEL, chunk)
            }
            Steps::Fixed { level } => {
                integrate_uniform(&mut heun, &tree, first as u64, level, chunk)
            }
            Steps::Adaptive(adaptive) => {
                integrate_adaptive(&mut heun, &tree, first as u64, &adaptive, chunk, None)
                    .map(|_| ())
            }
        }
    })?;
    Ok(x)
}
