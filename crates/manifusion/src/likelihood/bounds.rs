//! The Riemannian CT-ELBO `eq:ct-elbo-time2` along whole paths, and its K-sample form, the KELBO
//! (`sec:kelbo`).
//!
//! log L = log p₀(Y_T) − ∫ [½|Pa|² + ∇_g·(Pa − U₀)] ds − ∫ a·dB̂ along the inference path; ELBO = E
//! log L and KELBO_K = E log (1/K)Σ L_i. The quadrature decides whether these are bounds at all:
//! the integrands grow like 1/s, so the clock is logarithmic in s, the Itô integral is summed with
//! the increments that drove the path (see [`ItoRule`]), and the error of log L controls the step
//! doubling.

use std::ops::Range;
use std::sync::Mutex;

use crate::brownian::{BrownianTree, Clock};
use crate::divergence::Estimator;
use crate::error::SolveError;
use crate::field::FieldValues;
use crate::linalg::{axpy, dot, log_sum_exp};
use crate::manifold::chunk_rows;
use crate::model::Diffusion;
use crate::parallel;
use crate::rng::Streams;
use crate::rows::Rows;
use crate::sde::{
    AdaptiveOptions, AdaptiveStats, AtMinStep, Heun, PriorDrift, Stepper, integrate_adaptive,
};

/// How paths are drawn and integrated.
#[derive(Clone, Copy, Debug)]
pub struct BoundOptions {
    /// K.
    pub num_paths: usize,
    /// Tolerances of log L along an interval.
    pub adaptive: AdaptiveOptions,
    /// Divergence; Hutchinson probes differ between paths and stay the same along each.
    pub estimator: Estimator,
    /// How the stochastic integral is summed.
    pub rule: ItoRule,
    /// Seed of paths and probes.
    pub seed: u64,
}

/// Sums for the Itô integral ∫ a·dB̂.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItoRule {
    /// Σ a(Y_k)·ΔB_k, as in the paper. Its mean is zero at any step, its error per step of order Δ.
    LeftPoint,
    /// The same integral in Stratonovich form, ∫ a∘dB̂ − ½∫∇_g·(Pa) ds (with ΣV_j(aⱼ) for the
    /// divergence where the metric is not induced), by Simpson's rule along the curve that each
    /// increment drives, together with the ds-integral. For an exact score the two are a line
    /// integral of d log p_s: the noise of the sums cancels, and what is left is the error of
    /// Simpson's rule.
    Simpson,
}

impl Default for BoundOptions {
    fn default() -> Self {
        let adaptive = AdaptiveOptions {
            rtol: 1e-3,
            atol: 3e-2,
            min_step: 1e-4,
            at_min_step: AtMinStep::Accept,
            first_level: 5,
            min_level: 4,
            ..AdaptiveOptions::default()
        };
        let (estimator, rule) = (Estimator::Frame, ItoRule::Simpson);
        Self { num_paths: 100, adaptive, estimator, rule, seed: 0 }
    }
}

/// Both bounds for every point.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Mean of log L over the paths: unbiased for the ELBO.
    pub elbo: Vec<f64>,
    /// log of the mean of L over the paths.
    pub kelbo: Vec<f64>,
    /// The KELBO with steps twice as long, for an idea of the error: log L is that of one step
    /// along each interval on which it was made of two.
    pub kelbo_doubled: Vec<f64>,
    /// What the integrator did.
    pub stats: AdaptiveStats,
}

/// Paths that are walked together: enough for the network, and few enough that progress is seen.
const CHUNK: usize = 64;

/// ELBO and KELBO of every row of `x`.
pub fn bounds(
    model: &Diffusion,
    x: Rows<'_>,
    options: &BoundOptions,
) -> Result<Bounds, SolveError> {
    model.check()?;
    let (m, k) = (model.manifold.ambient_dim(), options.num_paths);
    x.expect_width(m)?;
    model.check_points(x.as_slice())?;
    if k == 0 {
        let expected = "at least one path is needed";
        return Err(SolveError::Setting { name: "num_paths", value: 0.0, expected });
    }
    let clock = Clock::Log { t0: model.s_min, t1: model.t_end };
    let streams = Streams::new(options.seed, "bound-paths");
    let tree = BrownianTree::new(streams, clock, m);
    // Rows of two numbers: log L, and log L with doubled steps.
    let mut log_l = vec![0.0; 2 * x.len() * k];
    let stats = Mutex::new(AdaptiveStats::default());
    let chunk = chunk_rows(model.manifold.as_ref(), CHUNK);
    parallel::for_each_chunk(&mut log_l, 2, chunk, |first, chunk| {
        let paths = chunk.len() / 2;
        let mut states = Vec::with_capacity(paths * (m + 1));
        for path in first..first + paths {
            states.extend_from_slice(x.row(path / k));
            states.push(0.0);
        }
        let mut stepper = WeightedPath::new(model, options);
        let mut doubled = |path: usize, one: &[f64], two: &[f64]| {
            chunk[2 * path + 1] += one[m] - two[m];
        };
        let done = integrate_adaptive(
            &mut stepper,
            &tree,
            first as u64,
            &options.adaptive,
            &mut states,
            Some(&mut doubled),
        )?;
        for (state, out) in states.chunks_exact(m + 1).zip(chunk.chunks_exact_mut(2)) {
            out[0] = model.prior.log_density(&state[..m]) + state[m];
            out[1] += out[0];
        }
        let mut stats = stats.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        stats.accepted += done.accepted;
        stats.rejected += done.rejected;
        stats.forced += done.forced;
        Ok(())
    })
    // A failing row is a path; its point is what the user knows.
    .map_err(|error| error.map_row(|row| row / k))?;
    let of_point = |column: usize| -> Vec<Vec<f64>> {
        log_l
            .chunks_exact(2 * k)
            .map(|p| p.iter().skip(column).step_by(2).copied().collect())
            .collect()
    };
    let kelbo = |paths: &Vec<f64>| log_sum_exp(paths) - (k as f64).ln();
    let paths = of_point(0);
    Ok(Bounds {
        elbo: paths.iter().map(|p| p.iter().sum::<f64>() / k as f64).collect(),
        kelbo: paths.iter().map(kelbo).collect(),
        kelbo_doubled: of_point(1).iter().map(kelbo).collect(),
        stats: stats.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner),
    })
}

/// The field at one state of one path.
#[derive(Clone, Debug)]
struct Seen {
    time: f64,
    point: Vec<f64>,
    /// P a.
    a: Vec<f64>,
    /// ½|Pa|² + ∇_g·(Pa − U₀), without the half of the trace that the Stratonovich form takes out.
    integrand: f64,
}

/// Stratonovich–Heun for Y with log L beside it: the state is (y, log L).
struct WeightedPath<'a> {
    model: &'a Diffusion,
    heun: Heun<'a, dyn crate::manifold::Manifold, PriorDrift<'a>>,
    values: FieldValues,
    probes: Streams,
    rule: ItoRule,
    points: Vec<f64>,
    /// The last states of each row at which the field was evaluated: a step starts where another
    /// one ended, or where a rejected one started.
    seen: std::collections::HashMap<usize, Vec<Seen>>,
}

/// Heun steps along half of the curve that one increment drives: they cost little beside the field.
const CURVE_STEPS: usize = 4;

/// States remembered per row: the start, then middle and end of a long step and of its two halves.
const MEMORY: usize = 8;

impl<'a> WeightedPath<'a> {
    fn new(model: &'a Diffusion, options: &BoundOptions) -> Self {
        Self {
            model,
            heun: Heun::new(model.manifold.as_ref(), PriorDrift(model.prior.as_ref()), 1.0),
            values: FieldValues::new(options.estimator),
            probes: Streams::new(options.seed, "bound-probes"),
            rule: options.rule,
            points: Vec::new(),
            seen: std::collections::HashMap::new(),
        }
    }

    /// Evaluates the field at those of the states (rows of `points`) that have not been seen.
    fn look(&mut self, rows: &[usize], s: &[f64], points: &[f64]) -> Result<(), SolveError> {
        let m = self.model.manifold.ambient_dim();
        let mut wanted = Vec::new();
        for (i, (row, point)) in rows.iter().zip(points.chunks_exact(m)).enumerate() {
            if self.find(*row, s[i], point).is_none() {
                wanted.push(i);
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        let numbers: Vec<usize> = wanted.iter().map(|&i| rows[i]).collect();
        let times: Vec<f64> = wanted.iter().map(|&i| s[i]).collect();
        let x: Vec<f64> =
            wanted.iter().flat_map(|&i| points[i * m..(i + 1) * m].iter().copied()).collect();
        let Diffusion { manifold, prior, field, .. } = self.model;
        self.values
            .evaluate(
                manifold.as_ref(),
                field.as_ref(),
                &numbers,
                Rows::new(&x, m)?,
                &times,
                &self.probes,
            )
            .map_err(|error| error.map_row(|j| wanted[j]))?;
        for (j, (point, a)) in x.chunks_exact(m).zip(self.values.a.chunks_exact(m)).enumerate() {
            let taken = match self.rule {
                ItoRule::Simpson => 0.5 * self.values.trace[j],
                ItoRule::LeftPoint => 0.0,
            };
            let div = self.values.div[j] - taken - prior.drift_divergence(point);
            let integrand = 0.5 * self.values.norm2(j) + div;
            let seen = self.seen.entry(numbers[j]).or_default();
            if seen.len() == MEMORY {
                seen.remove(0);
            }
            seen.push(Seen { time: times[j], point: point.to_vec(), a: a.to_vec(), integrand });
        }
        Ok(())
    }

    /// Takes shares of a·ΔB and of integrand·Δs at these points off log L, the last component of
    /// each state.
    fn add(
        &mut self,
        rows: &[usize],
        s: &[f64],
        points: &[f64],
        (ito_share, db): (f64, &[f64]),
        (time_share, ds): (f64, &[f64]),
        state: &mut [f64],
    ) -> Result<(), SolveError> {
        self.look(rows, s, points)?;
        let m = self.model.manifold.ambient_dim();
        for (i, point) in points.chunks_exact(m).enumerate() {
            let seen = self.found(i, rows[i], s[i], point)?;
            let ito = ito_share * dot(&seen.a, &db[i * m..(i + 1) * m]);
            state[i * (m + 1) + m] -= ito + time_share * ds[i] * seen.integrand;
        }
        Ok(())
    }

    /// The field where it was just looked at. A state that is not found again is not equal to
    /// itself: it has a NaN.
    fn found(&self, i: usize, row: usize, s: f64, point: &[f64]) -> Result<&Seen, SolveError> {
        self.find(row, s, point).ok_or(SolveError::NotFinite {
            row: i,
            time: s,
            quantity: "a coordinate of the path",
            value: f64::NAN,
        })
    }

    fn find(&self, row: usize, s: f64, point: &[f64]) -> Option<&Seen> {
        // The end of one interval and the start of the next may differ by a rounding.
        let same = |seen: &&Seen| (seen.time - s).abs() <= 1e-12 * s && seen.point == point;
        self.seen.get(&row)?.iter().rev().find(same)
    }
}

impl Stepper for WeightedPath<'_> {
    fn width(&self) -> usize {
        self.model.manifold.ambient_dim() + 1
    }

    fn noise_dim(&self) -> usize {
        self.model.manifold.ambient_dim()
    }

    /// log L alone: where its error is small, it does not matter which of the Brownian paths near
    /// this one was walked.
    fn controlled(&self) -> Range<usize> {
        self.width() - 1..self.width()
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
        let mut points = std::mem::take(&mut self.points);
        points.clear();
        for state in state.chunks_exact(m + 1) {
            points.extend_from_slice(&state[..m]);
        }
        match self.rule {
            ItoRule::LeftPoint => {
                self.add(rows, s, &points, (1.0, db), (0.5, ds), state)?;
                self.heun.step(rows, s, ds, db, &mut points)?;
                let ends: Vec<f64> = s.iter().zip(ds).map(|(s, ds)| s + ds).collect();
                self.add(rows, &ends, &points, (0.0, db), (0.5, ds), state)?;
            }
            ItoRule::Simpson => {
                let part = 0.5 / CURVE_STEPS as f64;
                let part_ds: Vec<f64> = ds.iter().map(|ds| part * ds).collect();
                let part_db: Vec<f64> = db.iter().map(|db| part * db).collect();
                let mut times = s.to_vec();
                self.add(rows, s, &points, (1.0 / 6.0, db), (1.0 / 6.0, ds), state)?;
                for share in [4.0 / 6.0, 1.0 / 6.0] {
                    for _ in 0..CURVE_STEPS {
                        self.heun.step(rows, &times, &part_ds, &part_db, &mut points)?;
                        axpy(1.0, &part_ds, &mut times);
                    }
                    self.add(rows, &times, &points, (share, db), (share, ds), state)?;
                }
            }
        }
        for (state, point) in state.chunks_exact_mut(m + 1).zip(points.chunks_exact(m)) {
            state[..m].copy_from_slice(point);
        }
        self.points = points;
        Ok(())
    }
}
