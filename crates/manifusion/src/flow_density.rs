//! The density that a flow carries from a prior: manifold + prior + velocity → log p and samples by
//! an ordinary differential equation.
//!
//! dY/ds = v(Y, s) takes data at time `start` to the prior at time `end`, so that
//! log p(x) = log p₀(Y_end) + ∫ ∇_g·v ds along the path from x. Samples run the same path
//! backwards. The diffusion model at λ = 1 is one case ([`ProbabilityFlow`]); a learned velocity is
//! another ([`FieldVelocity`]).

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use crate::density::Density;
use crate::divergence::Estimator;
use crate::error::{PointError, ShapeError, SolveError};
use crate::field::{Field, FieldValues};
use crate::linalg::scale;
use crate::manifold::{Manifold, check_points, chunk_rows, project_points};
use crate::ode::{self, BS3, DOPRI5, OdeOptions, OdeStats, OdeSystem};
use crate::parallel;
use crate::prior::{Prior, check_width};
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut};

/// Where a velocity is asked for.
#[derive(Clone, Copy, Debug)]
pub struct FlowPlaces<'a> {
    /// M.
    pub manifold: &'a dyn Manifold,
    /// Numbers of the rows: a random probe of a row stays the same along its path.
    pub rows: &'a [usize],
    /// Points.
    pub x: Rows<'a>,
    /// Times, one per row.
    pub s: &'a [f64],
    /// Streams of random probes.
    pub probes: &'a Streams,
}

/// A velocity v(x, s) on a manifold, with its divergence.
pub trait Velocity: Debug + Send + Sync {
    /// `v ← v(x, s)`, tangent vectors row by row, and ∇_g·v where it is asked for. `values` are
    /// buffers for a field.
    fn eval(
        &self,
        places: FlowPlaces<'_>,
        values: &mut FieldValues,
        v: &mut [f64],
        divergence: Option<&mut [f64]>,
    ) -> Result<(), SolveError>;
}

impl FlowPlaces<'_> {
    /// P a in `values`, and its divergence if that is asked for.
    pub fn field(
        &self,
        field: &dyn Field,
        with_divergence: bool,
        values: &mut FieldValues,
    ) -> Result<(), SolveError> {
        if with_divergence {
            values.evaluate(self.manifold, field, self.rows, self.x, self.s, self.probes)
        } else {
            values.project(self.manifold, field, self.x, self.s)
        }
    }
}

/// v = P a: the field is the velocity itself.
#[derive(Clone, Debug)]
pub struct FieldVelocity(pub Arc<dyn Field>);

impl Velocity for FieldVelocity {
    fn eval(
        &self,
        places: FlowPlaces<'_>,
        values: &mut FieldValues,
        v: &mut [f64],
        divergence: Option<&mut [f64]>,
    ) -> Result<(), SolveError> {
        places.field(self.0.as_ref(), divergence.is_some(), values)?;
        v.copy_from_slice(&values.a);
        if let Some(divergence) = divergence {
            divergence.copy_from_slice(&values.div);
        }
        Ok(())
    }
}

/// v = U₀ − ½P a: the equivalent ODE of a diffusion model with the score a, λ = 1 in
/// `eq:equiv-lambda`.
#[derive(Clone, Debug)]
pub struct ProbabilityFlow {
    /// The score a(x, s).
    pub score: Arc<dyn Field>,
    /// The prior, whose drift is U₀.
    pub prior: Arc<dyn Prior>,
}

impl Velocity for ProbabilityFlow {
    fn eval(
        &self,
        places: FlowPlaces<'_>,
        values: &mut FieldValues,
        v: &mut [f64],
        divergence: Option<&mut [f64]>,
    ) -> Result<(), SolveError> {
        places.field(self.score.as_ref(), divergence.is_some(), values)?;
        let m = places.x.width();
        for (x, v) in places.x.rows().zip(v.chunks_exact_mut(m)) {
            self.prior.drift(x, v);
        }
        for (v, a) in v.iter_mut().zip(&values.a) {
            *v -= 0.5 * a;
        }
        if let Some(divergence) = divergence {
            for ((x, out), div_a) in places.x.rows().zip(divergence).zip(&values.div) {
                *out = self.prior.drift_divergence(x) - 0.5 * div_a;
            }
        }
        Ok(())
    }
}

/// Tolerances from here on are met with fewer evaluations by a method of third order.
const FEW_DIGITS: f64 = 1e-2;

/// How the ODE is solved.
#[derive(Clone, Copy, Debug)]
pub struct FlowOptions {
    /// Tolerances; of dopri5, or of a method of third order where they are 1e-2 or more.
    pub ode: OdeOptions,
    /// Divergence; a Hutchinson probe stays the same along a row's solve.
    pub estimator: Estimator,
    /// Seed of random probes.
    pub seed: u64,
    /// Rows that are solved together.
    pub chunk: usize,
}

impl Default for FlowOptions {
    fn default() -> Self {
        Self { ode: OdeOptions::default(), estimator: Estimator::Frame, seed: 0, chunk: 64 }
    }
}

impl FlowOptions {
    /// The defaults with this relative and absolute tolerance.
    pub fn with_tolerance(tolerance: f64) -> Self {
        let ode = OdeOptions { rtol: tolerance, atol: tolerance, ..OdeOptions::default() };
        Self { ode, ..Self::default() }
    }
}

/// Log-densities with the work that they took.
#[derive(Clone, Debug)]
pub struct FlowLogDensity {
    /// log p(x) per row, in nats.
    pub log_p: Vec<f64>,
    /// What the solver did.
    pub stats: OdeStats,
}

/// A density given by a flow.
#[derive(Clone, Debug)]
pub struct FlowDensity {
    /// M.
    pub manifold: Arc<dyn Manifold>,
    /// p₀.
    pub prior: Arc<dyn Prior>,
    /// v.
    pub velocity: Arc<dyn Velocity>,
    /// The time at which the data are.
    pub start: f64,
    /// The time at which the prior is; before or after `start`.
    pub end: f64,
    /// The axis on which steps are chosen.
    pub clock: FlowClock,
    /// How log p is computed.
    pub options: FlowOptions,
    /// How samples are drawn.
    pub sampling: OdeOptions,
}

/// The axis along which a flow is solved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowClock {
    /// The time s itself.
    Time,
    /// log s, for flows whose structure at s is of the size √s, such as a diffusion's: equal steps
    /// are equal factors of s. Both times must be positive.
    LogTime,
}

impl FlowClock {
    fn at(self, s: f64) -> f64 {
        match self {
            Self::Time => s,
            Self::LogTime => s.ln(),
        }
    }

    fn time(self, u: f64) -> f64 {
        match self {
            Self::Time => u,
            Self::LogTime => u.exp(),
        }
    }

    /// ds/du.
    fn rate(self, s: f64) -> f64 {
        match self {
            Self::Time => 1.0,
            Self::LogTime => s,
        }
    }

    /// The longest step that is tried. Where s is far below all structure of the data nothing
    /// happens, and steps would grow until several are rejected or structure is stepped over.
    fn max_step(self) -> f64 {
        match self {
            Self::Time => f64::INFINITY,
            Self::LogTime => 2.0,
        }
    }
}

/// The flow along its clock. The state is y, with ∫div beside it where `volume`.
struct AlongFlow<'a> {
    density: &'a FlowDensity,
    volume: bool,
    values: FieldValues,
    probes: Streams,
    points: Vec<f64>,
    s: Vec<f64>,
    moved: Vec<f64>,
    divergence: Vec<f64>,
}

impl<'a> AlongFlow<'a> {
    fn new(density: &'a FlowDensity, volume: bool) -> Self {
        Self {
            density,
            volume,
            values: FieldValues::new(density.options.estimator),
            probes: Streams::new(density.options.seed, "likelihood-probes"),
            points: Vec::new(),
            s: Vec::new(),
            moved: Vec::new(),
            divergence: Vec::new(),
        }
    }

    /// The derivative by the clock, of the volume too if `with_volume`.
    fn derivative(
        &mut self,
        with_volume: bool,
        rows: &[usize],
        u: &[f64],
        state: Rows<'_>,
        mut out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        let FlowDensity { manifold, velocity, start, end, clock, .. } = self.density;
        let m = manifold.ambient_dim();
        self.points.clear();
        for state in state.rows() {
            self.points.extend_from_slice(&state[..m]);
        }
        let x = Rows::new(&self.points, m)?;
        self.s.clear();
        // Rounding must not lead beyond the times that the field knows.
        let (first, last) = (start.min(*end), start.max(*end));
        self.s.extend(u.iter().map(|u| clock.time(*u).clamp(first, last)));
        let (s, values, probes) = (self.s.as_slice(), &mut self.values, &self.probes);
        self.moved.resize(self.points.len(), 0.0);
        self.divergence.resize(x.len(), 0.0);
        let divergence = with_volume.then_some(&mut self.divergence[..]);
        let places = FlowPlaces { manifold: manifold.as_ref(), rows, x, s, probes };
        velocity.eval(places, values, &mut self.moved, divergence)?;
        for (i, (x, v)) in x.rows().zip(self.moved.chunks_exact(m)).enumerate() {
            let (moved, volume) = out.row_mut(i).split_at_mut(m);
            moved.copy_from_slice(v);
            manifold.velocity(x, moved);
            scale(clock.rate(s[i]), moved);
            if let (Some(volume), true) = (volume.first_mut(), with_volume) {
                *volume = clock.rate(s[i]) * self.divergence[i];
            }
        }
        Ok(())
    }
}

impl OdeSystem for AlongFlow<'_> {
    fn width(&self) -> usize {
        self.density.manifold.ambient_dim() + usize::from(self.volume)
    }

    fn eval(
        &mut self,
        rows: &[usize],
        u: &[f64],
        state: Rows<'_>,
        out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        self.derivative(self.volume, rows, u, state, out)
    }

    fn eval_without_integrals(
        &mut self,
        rows: &[usize],
        u: &[f64],
        state: Rows<'_>,
        out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        self.derivative(false, rows, u, state, out)
    }

    /// Noised data have structure of the size √s, and log p changes by about |δy|/√s where y is off
    /// by δy.
    fn error_scale(&self, u: f64, component: usize) -> f64 {
        let FlowDensity { manifold, clock, .. } = self.density;
        match clock {
            FlowClock::LogTime if component < manifold.ambient_dim() => {
                clock.time(u).sqrt().min(1.0)
            }
            _ => 1.0,
        }
    }

    fn named_time(&self, u: f64) -> f64 {
        self.density.clock.time(u)
    }

    fn retract(&self, state: &mut [f64]) -> Result<(), PointError> {
        let manifold = &self.density.manifold;
        manifold.project_point(&mut state[..manifold.ambient_dim()])
    }

    fn retract_all(&self, states: &mut [f64]) -> Result<(), (usize, PointError)> {
        let (manifold, width) = (self.density.manifold.as_ref(), self.width());
        let m = manifold.ambient_dim();
        if width == m {
            return project_points(manifold, states);
        }
        if manifold.by_rows().is_none() {
            let mut states = states.chunks_exact_mut(width).enumerate();
            return states.try_for_each(|(i, y)| self.retract(y).map_err(|error| (i, error)));
        }
        let mut x: Vec<f64> = states.chunks_exact(width).flat_map(|y| &y[..m]).copied().collect();
        project_points(manifold, &mut x)?;
        for (state, x) in states.chunks_exact_mut(width).zip(x.chunks_exact(m)) {
            state[..m].copy_from_slice(x);
        }
        Ok(())
    }
}

impl FlowDensity {
    /// The density of a flow that takes data at one time to the prior at another: solved in time
    /// itself with the default tolerance, and samples drawn with a coarser one, which an energy
    /// test does not tell from a fine one. Every field can be changed:
    /// `FlowDensity { clock, ..FlowDensity::new(…) }`.
    pub fn new(
        manifold: Arc<dyn Manifold>,
        prior: Arc<dyn Prior>,
        velocity: Arc<dyn Velocity>,
        start: f64,
        end: f64,
    ) -> Self {
        let (clock, options) = (FlowClock::Time, FlowOptions::default());
        let sampling = OdeOptions { rtol: 1e-3, atol: 1e-3, ..OdeOptions::default() };
        Self { manifold, prior, velocity, start, end, clock, options, sampling }
    }

    /// An error unless the prior is one of the manifold's width and the times are finite and
    /// differ.
    pub fn check(&self) -> Result<(), SolveError> {
        check_width(self.manifold.as_ref(), self.prior.as_ref())?;
        let (start, end) = (self.start, self.end);
        if !((end - start).is_finite() && (end - start).abs() > 0.0) {
            let expected = "a flow takes a finite time from the data to the prior";
            return Err(SolveError::Setting { name: "end - start", value: end - start, expected });
        }
        if self.clock == FlowClock::LogTime && !(start.min(end) > 0.0) {
            let expected = "times must be positive where the clock is logarithmic";
            return Err(SolveError::Setting { name: "start", value: start.min(end), expected });
        }
        Ok(())
    }

    /// Solves for the states in `y`, rows `first_row` and on of a batch, from one time to another.
    fn solve(
        &self,
        volume: bool,
        first_row: usize,
        (from, to): (f64, f64),
        options: &OdeOptions,
        y: &mut [f64],
    ) -> Result<OdeStats, SolveError> {
        let mut flow = AlongFlow::new(self, volume);
        let rows = y.len() / flow.width();
        let (from, to) = (vec![self.clock.at(from); rows], vec![self.clock.at(to); rows]);
        let max_step = options.max_step.min(self.clock.max_step());
        let options = OdeOptions { max_step, ..*options };
        if options.rtol >= FEW_DIGITS {
            ode::integrate(&BS3, &mut flow, first_row, &from, &to, &options, y)
        } else {
            ode::integrate(&DOPRI5, &mut flow, first_row, &from, &to, &options, y)
        }
    }

    /// log p(x) of every row, in parallel over chunks, with the work that it took.
    pub fn log_density_with_stats(&self, x: Rows<'_>) -> Result<FlowLogDensity, SolveError> {
        self.check()?;
        let m = self.manifold.ambient_dim();
        x.expect_width(m)?;
        let mut states = Vec::with_capacity(x.len() * (m + 1));
        let manifold = self.manifold.as_ref();
        check_points(manifold, x.as_slice()).map_err(|(row, e)| SolveError::at(row, 0.0)(e))?;
        for x in x.rows() {
            states.extend_from_slice(x);
            states.push(0.0);
        }
        let FlowOptions { ode: options, chunk, .. } = self.options;
        let stats = Mutex::new(OdeStats::default());
        let chunk = chunk_rows(manifold, chunk);
        parallel::for_each_chunk(&mut states, m + 1, chunk, |first, chunk| {
            let done = self.solve(true, first, (self.start, self.end), &options, chunk)?;
            let mut stats = stats.lock().unwrap_or_else(PoisonError::into_inner);
            stats.evaluations += done.evaluations;
            stats.accepted += done.accepted;
            stats.rejected += done.rejected;
            Ok(())
        })?;
        let log_p = states
            .chunks_exact(m + 1)
            .map(|state| self.prior.log_density(&state[..m]) + state[m])
            .collect();
        let stats = stats.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(FlowLogDensity { log_p, stats })
    }

    /// The rows from `first_row` on of the draws of a seed.
    pub(crate) fn sample_from(
        &self,
        first_row: usize,
        n: usize,
        seed: u64,
    ) -> Result<Vec<f64>, SolveError> {
        self.check()?;
        let m = self.manifold.ambient_dim();
        let mut x = vec![0.0; n * m];
        if n == 0 {
            return Err(ShapeError::Empty.into());
        }
        let chunk = chunk_rows(self.manifold.as_ref(), SAMPLE_CHUNK);
        parallel::for_each_chunk(&mut x, m, chunk, |first, chunk| {
            draw_prior(self.prior.as_ref(), m, seed, first_row + first, chunk)?;
            self.carry_to_data(first_row + first, chunk).map(|_| ())
        })?;
        Ok(x)
    }

    /// Carries prior draws in `x`, rows `first_row` and on of a batch, to the data.
    pub(crate) fn carry_to_data(
        &self,
        first_row: usize,
        x: &mut [f64],
    ) -> Result<OdeStats, SolveError> {
        self.solve(false, first_row, (self.end, self.start), &self.sampling, x)
    }
}

/// Rows that are drawn together.
const SAMPLE_CHUNK: usize = 64;

impl Density for FlowDensity {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(self.log_density_with_stats(x)?.log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_from(0, n, seed)
    }
}

/// `x ←` draws from the prior, rows `first_row` and on of the batch of this seed.
pub(crate) fn draw_prior(
    prior: &dyn Prior,
    m: usize,
    seed: u64,
    first_row: usize,
    x: &mut [f64],
) -> Result<(), SolveError> {
    let streams = Streams::new(seed, "sample-prior");
    let rows: Vec<u64> = (first_row..first_row + x.len() / m).map(|row| row as u64).collect();
    prior.sample_rows(&streams, &rows, x).map_err(|(i, error)| SolveError::at(i, 0.0)(error))
}
