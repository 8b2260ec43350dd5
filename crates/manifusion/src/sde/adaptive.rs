//! Adaptive steps by step doubling on a Brownian path that does not change under rejection.
//!
//! Steps are dyadic intervals of the path's clock, so the path is looked up, never redrawn. Each
//! row has its own step: the result of a row does not depend on which rows it is batched with, and
//! a stiff row does not slow the others down; the active rows are still evaluated together.

use std::ops::Range;

use super::Stepper;
use crate::brownian::{BrownianTree, Dyadic, MAX_LEVEL};
use crate::error::{ShapeError, SolveError};
use crate::rows::expect_len;

/// Tolerances and limits. The defaults are the paper's `tab:adaptive-detail`.
#[derive(Clone, Copy, Debug)]
pub struct AdaptiveOptions {
    /// Relative tolerance per component.
    pub rtol: f64,
    /// Absolute tolerance per component.
    pub atol: f64,
    /// Smallest step, on the clock's own axis (time, or log time).
    pub min_step: f64,
    /// What to do when the smallest step still misses the tolerance.
    pub at_min_step: AtMinStep,
    /// Level of the first step, 2^−level of the clock.
    pub first_level: u32,
    /// Largest step has this level.
    pub min_level: u32,
    /// Steps (accepted and rejected) per row before giving up.
    pub max_steps: usize,
}

/// What happens when the tolerance asks for less than the smallest step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtMinStep {
    /// An error that names row, time and step.
    Fail,
    /// Take the smallest step all the same, and count it (torchsde's behaviour, which the paper
    /// used).
    Accept,
}

impl Default for AdaptiveOptions {
    fn default() -> Self {
        Self {
            rtol: 1e-3,
            atol: 1e-3,
            min_step: 1e-5,
            at_min_step: AtMinStep::Fail,
            first_level: 6,
            min_level: 2,
            max_steps: 1_000_000,
        }
    }
}

/// What a solve did, summed over rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdaptiveStats {
    /// Accepted steps.
    pub accepted: usize,
    /// Rejected steps.
    pub rejected: usize,
    /// Steps taken at the smallest size although they missed the tolerance.
    pub forced: usize,
}

struct Row {
    number: usize,
    at: Dyadic,
    steps: usize,
}

impl Row {
    /// The first half of the interval that was too long.
    fn reject(&mut self) {
        self.at = Dyadic { level: self.at.level + 1, index: 2 * self.at.index };
    }
}

/// Told of every accepted interval: the row of `x`, and its state after one step and after two
/// halves, of which the second is kept.
pub type Accepted<'a> = &'a mut dyn FnMut(usize, &[f64], &[f64]);

/// Moves every row along the whole clock of `tree`. Row i of `x` uses the path of row `first_row` +
/// i.
pub fn integrate_adaptive(
    stepper: &mut dyn Stepper,
    tree: &BrownianTree,
    first_row: u64,
    options: &AdaptiveOptions,
    x: &mut [f64],
    mut accepted: Option<Accepted<'_>>,
) -> Result<AdaptiveStats, SolveError> {
    let width = stepper.width();
    expect_len(tree.dim(), stepper.noise_dim())?;
    check_input(tree, options, width, x)?;
    let max_level = deepest_level(tree, options);
    let first_level = options.first_level.clamp(options.min_level, max_level);
    let mut active: Vec<Row> = (0..x.len() / width)
        .map(|number| Row { number, at: Dyadic { level: first_level, index: 0 }, steps: 0 })
        .collect();
    let mut batch = Batch::new(active.len(), width, stepper.noise_dim());
    let mut stats = AdaptiveStats::default();
    while !active.is_empty() {
        batch.load(&active, tree, first_row, x);
        if let Err(error) = batch.advance(stepper) {
            // A step that is far too long may leave the domain of π: that row tries a shorter one.
            let Some(i) = error.row().filter(|&i| active[i].at.level < max_level) else {
                return Err(error.map_row(|i| active[i].number));
            };
            stats.rejected += 1;
            active[i].reject();
            continue;
        }
        for (i, row) in active.iter_mut().enumerate() {
            let error = batch.error(i, stepper.controlled(), options);
            let (t, dt) = (batch.t[i], batch.dt[i]);
            row.steps += 1;
            if row.steps > options.max_steps {
                return Err(SolveError::TooManySteps {
                    row: row.number,
                    time: t,
                    steps: row.steps,
                });
            }
            if !(error <= 1.0) && row.at.level < max_level {
                stats.rejected += 1;
                row.reject();
                continue;
            }
            if !error.is_finite() {
                let quantity = "the error estimate";
                return Err(SolveError::NotFinite {
                    row: row.number,
                    time: t,
                    quantity,
                    value: error,
                });
            }
            if error > 1.0 {
                if options.at_min_step == AtMinStep::Fail {
                    return Err(SolveError::StepTooSmall {
                        row: row.number,
                        time: t,
                        step: 0.5 * dt,
                        min_step: options.min_step,
                        error_ratio: error,
                    });
                }
                stats.forced += 1;
            }
            stats.accepted += 1;
            if let Some(accepted) = accepted.as_deref_mut() {
                accepted(row.number, batch.coarse_row(i), batch.fine_row(i));
            }
            x[row.number * width..(row.number + 1) * width].copy_from_slice(batch.fine_row(i));
            row.at = next_interval(row.at, error, options.min_level);
        }
        active.retain(|row| row.at.index >> row.at.level == 0);
    }
    Ok(stats)
}

fn check_input(
    tree: &BrownianTree,
    options: &AdaptiveOptions,
    width: usize,
    x: &[f64],
) -> Result<(), SolveError> {
    if x.is_empty() {
        return Err(ShapeError::Empty.into());
    }
    expect_len(x.len() % width, 0)?;
    if !tree.clock().is_valid() {
        let time = tree.clock().time(1.0);
        let expected =
            "the clock must run forward between finite times, from above 0 if logarithmic";
        return Err(SolveError::Time { row: 0, time, expected });
    }
    if options.min_level > MAX_LEVEL - 3 {
        let (name, value) = ("min_level", f64::from(options.min_level));
        return Err(SolveError::Setting { name, value, expected: "at most 40" });
    }
    for (name, value) in
        [("rtol", options.rtol), ("atol", options.atol), ("min_step", options.min_step)]
    {
        if !(value > 0.0 && value.is_finite()) {
            return Err(SolveError::Setting { name, value, expected: "it must be positive" });
        }
    }
    Ok(())
}

/// The deepest level whose steps are not below the smallest.
fn deepest_level(tree: &BrownianTree, options: &AdaptiveOptions) -> u32 {
    let ratio = tree.clock().length() / options.min_step;
    (ratio.max(1.0).log2().floor() as u32).clamp(options.min_level, MAX_LEVEL - 3)
}

/// After an accepted step: the next interval, doubled where the error allows it and the grid is
/// aligned.
fn next_interval(at: Dyadic, error: f64, min_level: u32) -> Dyadic {
    let mut next = Dyadic { level: at.level, index: at.index + 1 };
    // Local errors of Heun on a path scale like Δ or better: a doubled step is tried when half the
    // tolerance is left.
    if error < 0.35 && next.level > min_level && next.index.is_multiple_of(2) {
        next = Dyadic { level: next.level - 1, index: next.index / 2 };
    }
    next
}

/// Buffers for the active rows: one full step beside two halves.
struct Batch {
    width: usize,
    noise_dim: usize,
    rows: Vec<usize>,
    t: Vec<f64>,
    dt: Vec<f64>,
    t_half: Vec<f64>,
    dt_first: Vec<f64>,
    dt_second: Vec<f64>,
    db: Vec<f64>,
    db_first: Vec<f64>,
    db_second: Vec<f64>,
    halves: Vec<f64>,
    coarse: Vec<f64>,
    fine: Vec<f64>,
}

impl Batch {
    fn new(n: usize, width: usize, noise_dim: usize) -> Self {
        let numbers = || Vec::with_capacity(n);
        let noise = || Vec::with_capacity(n * noise_dim);
        Self {
            width,
            noise_dim,
            rows: Vec::with_capacity(n),
            t: numbers(),
            dt: numbers(),
            t_half: numbers(),
            dt_first: numbers(),
            dt_second: numbers(),
            db: noise(),
            db_first: noise(),
            db_second: noise(),
            halves: vec![0.0; 2 * noise_dim],
            coarse: Vec::with_capacity(n * width),
            fine: Vec::with_capacity(n * width),
        }
    }

    fn load(&mut self, active: &[Row], tree: &BrownianTree, first_row: u64, x: &[f64]) {
        let (n, m) = (active.len(), self.noise_dim);
        self.rows.clear();
        for buffer in
            [&mut self.t, &mut self.dt, &mut self.t_half, &mut self.dt_first, &mut self.dt_second]
        {
            buffer.clear();
        }
        for buffer in [&mut self.db, &mut self.db_first, &mut self.db_second] {
            buffer.resize(n * m, 0.0);
        }
        self.coarse.clear();
        for (i, row) in active.iter().enumerate() {
            let (t, dt) = tree.interval(row.at);
            let (_, first) =
                tree.interval(Dyadic { level: row.at.level + 1, index: 2 * row.at.index });
            let number = first_row + row.number as u64;
            let noise = i * m..(i + 1) * m;
            tree.increments(number, row.at, &mut self.db[noise.clone()], &mut self.halves);
            self.db_first[noise.clone()].copy_from_slice(&self.halves[..m]);
            self.db_second[noise].copy_from_slice(&self.halves[m..]);
            self.rows.push(number as usize);
            self.t.push(t);
            self.dt.push(dt);
            self.t_half.push(t + first);
            self.dt_first.push(first);
            self.dt_second.push(dt - first);
            let at = row.number * self.width..(row.number + 1) * self.width;
            self.coarse.extend_from_slice(&x[at]);
        }
        self.fine.clear();
        self.fine.extend_from_slice(&self.coarse);
    }

    fn advance(&mut self, stepper: &mut dyn Stepper) -> Result<(), SolveError> {
        let rows = &self.rows;
        stepper.step(rows, &self.t, &self.dt, &self.db, &mut self.coarse)?;
        stepper.step(rows, &self.t, &self.dt_first, &self.db_first, &mut self.fine)?;
        stepper.step(rows, &self.t_half, &self.dt_second, &self.db_second, &mut self.fine)
    }

    fn coarse_row(&self, i: usize) -> &[f64] {
        &self.coarse[i * self.width..(i + 1) * self.width]
    }

    fn fine_row(&self, i: usize) -> &[f64] {
        &self.fine[i * self.width..(i + 1) * self.width]
    }

    /// Root mean square over some components of the difference between one step and two, relative
    /// to the tolerance.
    fn error(&self, i: usize, components: Range<usize>, options: &AdaptiveOptions) -> f64 {
        let (coarse, fine) = (self.coarse_row(i), self.fine_row(i));
        let (coarse, fine) = (&coarse[components.clone()], &fine[components]);
        let mut sum = 0.0;
        for (a, b) in coarse.iter().zip(fine) {
            let tolerance = options.atol + options.rtol * a.abs().max(b.abs());
            sum += ((a - b) / tolerance).powi(2);
        }
        (sum / coarse.len() as f64).sqrt()
    }
}
