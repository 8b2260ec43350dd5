//! The integrator: per-row adaptive steps, evaluated together.

use super::controller::PiController;
use super::{OdeSystem, Tableau};
use crate::error::{ShapeError, SolveError};
use crate::rows::{Rows, RowsMut, expect_len};

/// Tolerances and limits.
#[derive(Clone, Copy, Debug)]
pub struct OdeOptions {
    /// Relative tolerance per component.
    pub rtol: f64,
    /// Absolute tolerance per component.
    pub atol: f64,
    /// Longest step.
    pub max_step: f64,
    /// Steps (accepted and rejected) per row before giving up.
    pub max_steps: usize,
}

impl Default for OdeOptions {
    fn default() -> Self {
        Self { rtol: 1e-6, atol: 1e-6, max_step: f64::INFINITY, max_steps: 10_000 }
    }
}

/// What a solve did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OdeStats {
    /// Row evaluations of the right-hand side, summed over rows.
    pub evaluations: usize,
    /// Accepted steps, summed over rows.
    pub accepted: usize,
    /// Rejected steps, summed over rows.
    pub rejected: usize,
}

/// The state of one row that is still under way.
struct Row {
    number: usize,
    t: f64,
    end: f64,
    step: f64,
    steps: usize,
    controller: PiController,
}

/// Solves every row of `y` from `t0[i]` to `t1[i]` (forwards or backwards) to the tolerance. Row i
/// of the batch is number `first_row` + i for the system.
///
/// Each row controls its own step: its result does not depend on the rows beside it.
pub fn integrate<const S: usize>(
    tableau: &Tableau<S>,
    system: &mut dyn OdeSystem,
    first_row: usize,
    t0: &[f64],
    t1: &[f64],
    options: &OdeOptions,
    y: &mut [f64],
) -> Result<OdeStats, SolveError> {
    let width = system.width();
    check_input(t0, t1, width, y)?;
    for (name, value) in [("rtol", options.rtol), ("atol", options.atol)] {
        if !(value > 0.0 && value.is_finite()) {
            return Err(SolveError::Setting { name, value, expected: "it must be positive" });
        }
    }
    let mut active: Vec<Row> =
        (0..t0.len()).map(|i| Row::new(i, t0[i], t1[i])).filter(|row| !row.is_done()).collect();
    let mut stages = Stages::<S>::new(first_row, t0.len(), width);
    let mut stats = OdeStats::default();
    // The derivative at every row's current state: the last stage of a step is the first of the
    // next.
    let mut derivative = vec![0.0; y.len()];
    if !active.is_empty() {
        stages.load(&active, y, &derivative);
        stages.first_derivative(system).map_err(|e| e.map_row(|i| active[i].number))?;
        stats.evaluations += active.len();
        for (i, row) in active.iter_mut().enumerate() {
            let (state, slope) = (stages.row(&stages.y, i), stages.row(&stages.k[0], i));
            check_finite("the derivative", row.number, system.named_time(row.t), slope)?;
            row.first_step(options, state, slope);
            derivative[row.range(width)].copy_from_slice(slope);
        }
    }
    let (mut moved, mut states) = (Vec::new(), Vec::new());
    while !active.is_empty() {
        moved.clear();
        states.clear();
        stages.load(&active, y, &derivative);
        stages.run(tableau, system).map_err(|e| e.map_row(|i| active[i].number))?;
        stats.evaluations += (S - 1) * active.len();
        for (i, row) in active.iter_mut().enumerate() {
            let error = stages.error(tableau, i, options, system);
            if error <= 1.0 {
                stats.accepted += 1;
                row.t = if row.step.to_bits() == (row.end - row.t).to_bits() {
                    row.end
                } else {
                    row.t + row.step
                };
                moved.push((row.number, system.named_time(row.t)));
                states.extend_from_slice(stages.row(&stages.argument, i));
                // Taken before π, which moves the state by less than the tolerance.
                derivative[row.range(width)].copy_from_slice(stages.row(&stages.k[S - 1], i));
            } else {
                stats.rejected += 1;
            }
            row.next_step(tableau.order, error, options, system)?;
        }
        system.retract_all(&mut states).map_err(|(i, error)| {
            let (row, time) = moved[i];
            SolveError::at(row, time)(error)
        })?;
        for ((row, _), state) in moved.iter().zip(states.chunks_exact(width)) {
            y[row * width..(row + 1) * width].copy_from_slice(state);
        }
        active.retain(|row| !row.is_done());
    }
    Ok(stats)
}

/// `steps` equal steps without error control, for order measurements and cheap sampling.
pub fn integrate_fixed<const S: usize>(
    tableau: &Tableau<S>,
    system: &mut dyn OdeSystem,
    first_row: usize,
    t0: &[f64],
    t1: &[f64],
    steps: usize,
    y: &mut [f64],
) -> Result<OdeStats, SolveError> {
    let width = system.width();
    check_input(t0, t1, width, y)?;
    if steps == 0 {
        let expected = "at least one is needed";
        return Err(SolveError::Setting { name: "steps", value: 0.0, expected });
    }
    let mut stages = Stages::<S>::new(first_row, t0.len(), width);
    let mut rows: Vec<Row> = (0..t0.len()).map(|i| Row::new(i, t0[i], t1[i])).collect();
    let derivative = vec![0.0; y.len()];
    for step in 0..steps {
        for (i, row) in rows.iter_mut().enumerate() {
            row.step = (t1[i] - t0[i]) / steps as f64;
            row.t = t0[i] + step as f64 * row.step;
        }
        stages.load(&rows, y, &derivative);
        stages.first_derivative(system)?;
        stages.run(tableau, system)?;
        y.copy_from_slice(&stages.argument);
        for (row, state) in rows.iter().zip(y.chunks_exact_mut(width)) {
            system.retract(state).map_err(SolveError::at(row.number, row.t + row.step))?;
            check_finite("the state", row.number, row.t + row.step, state)?;
        }
    }
    let accepted = steps * rows.len();
    Ok(OdeStats { evaluations: S * accepted, accepted, rejected: 0 })
}

fn check_input(t0: &[f64], t1: &[f64], width: usize, y: &[f64]) -> Result<(), SolveError> {
    if t0.is_empty() {
        return Err(ShapeError::Empty.into());
    }
    expect_len(t1.len(), t0.len())?;
    expect_len(y.len(), t0.len() * width)?;
    for times in [t0, t1] {
        if let Some(row) = times.iter().position(|t| !t.is_finite()) {
            let expected = "it must be finite";
            return Err(SolveError::Time { row, time: times[row], expected });
        }
    }
    for (row, y) in y.chunks_exact(width).enumerate() {
        check_finite("the initial state", row, t0[row], y)?;
    }
    Ok(())
}

fn check_finite(
    quantity: &'static str,
    row: usize,
    time: f64,
    values: &[f64],
) -> Result<(), SolveError> {
    match values.iter().find(|v| !v.is_finite()) {
        Some(&value) => Err(SolveError::NotFinite { row, time, quantity, value }),
        None => Ok(()),
    }
}

/// Root mean square of v relative to the tolerance at states of size |y|.
fn scaled_norm(v: &[f64], size: impl Fn(usize) -> f64, options: &OdeOptions) -> f64 {
    let terms = v.iter().enumerate().map(|(j, v)| {
        let tolerance = options.atol + options.rtol * size(j);
        (v / tolerance).powi(2)
    });
    (terms.sum::<f64>() / v.len() as f64).sqrt()
}

impl Row {
    fn new(number: usize, t: f64, end: f64) -> Self {
        Self { number, t, end, step: 0.0, steps: 0, controller: PiController::new() }
    }

    fn is_done(&self) -> bool {
        self.t.to_bits() == self.end.to_bits()
    }

    /// Where the row's state stands in the batch.
    fn range(&self, width: usize) -> std::ops::Range<usize> {
        self.number * width..(self.number + 1) * width
    }

    /// A first step by Hairer, Nørsett & Wanner (II.4) without the second evaluation, which the
    /// controller makes up for.
    fn first_step(&mut self, options: &OdeOptions, y: &[f64], slope: &[f64]) {
        let size = scaled_norm(y, |j| y[j].abs(), options);
        let slope = scaled_norm(slope, |j| y[j].abs(), options);
        let span = self.end - self.t;
        let guess = if size > 1e-5 && slope > 1e-5 { 0.01 * size / slope } else { 1e-6 };
        let longest = span.abs().min(options.max_step);
        self.step = span.signum() * guess.max(1e-8 * span.abs()).min(longest);
    }

    fn next_step(
        &mut self,
        order: u32,
        error: f64,
        options: &OdeOptions,
        system: &dyn OdeSystem,
    ) -> Result<(), SolveError> {
        if self.is_done() {
            return Ok(());
        }
        let (row, time) = (self.number, system.named_time(self.t));
        self.steps += 1;
        if self.steps >= options.max_steps {
            return Err(SolveError::TooManySteps { row, time, steps: self.steps });
        }
        let wanted = self.step.abs() * self.controller.factor(error, order);
        self.step = wanted.min(options.max_step).copysign(self.step);
        let left = self.end - self.t;
        // Stretches a last step that would leave a sliver behind.
        if self.step.abs() > 0.999 * left.abs() {
            self.step = left;
        }
        let min_step = 1e-14 * self.t.abs().max(self.end.abs());
        if self.step.abs() < min_step {
            let step = self.step.abs();
            return Err(SolveError::StepTooSmall { row, time, step, min_step, error_ratio: error });
        }
        Ok(())
    }
}

/// Stage buffers for the active rows, reused between steps.
struct Stages<const S: usize> {
    first_row: usize,
    width: usize,
    rows: Vec<usize>,
    t: Vec<f64>,
    step: Vec<f64>,
    stage_t: Vec<f64>,
    y: Vec<f64>,
    /// The argument of the current stage; after the last stage, the new state.
    argument: Vec<f64>,
    k: [Vec<f64>; S],
}

impl<const S: usize> Stages<S> {
    fn new(first_row: usize, n: usize, width: usize) -> Self {
        let numbers = || Vec::with_capacity(n);
        let states = || Vec::with_capacity(n * width);
        Self {
            first_row,
            width,
            rows: Vec::with_capacity(n),
            t: numbers(),
            step: numbers(),
            stage_t: numbers(),
            y: states(),
            argument: states(),
            k: std::array::from_fn(|_| states()),
        }
    }

    fn row<'a>(&self, buffer: &'a [f64], i: usize) -> &'a [f64] {
        &buffer[i * self.width..(i + 1) * self.width]
    }

    /// Gathers the active rows' states and derivatives.
    fn load(&mut self, active: &[Row], y: &[f64], derivative: &[f64]) {
        self.rows.clear();
        for buffer in [&mut self.t, &mut self.step, &mut self.y, &mut self.k[0]] {
            buffer.clear();
        }
        for row in active {
            self.rows.push(self.first_row + row.number);
            self.t.push(row.t);
            self.step.push(row.step);
            self.y.extend_from_slice(&y[row.range(self.width)]);
            self.k[0].extend_from_slice(&derivative[row.range(self.width)]);
        }
        let len = self.y.len();
        self.argument.resize(len, 0.0);
        for k in &mut self.k {
            k.resize(len, 0.0);
        }
    }

    fn first_derivative(&mut self, system: &mut dyn OdeSystem) -> Result<(), SolveError> {
        let y = Rows::new(&self.y, self.width)?;
        system.eval(&self.rows, &self.t, y, RowsMut::new(&mut self.k[0], self.width)?)
    }

    /// Stages 2 to S from the derivative in `k[0]`.
    fn run(&mut self, tableau: &Tableau<S>, system: &mut dyn OdeSystem) -> Result<(), SolveError> {
        for stage in 1..S {
            self.argument.copy_from_slice(&self.y);
            for (j, k) in self.k[..stage].iter().enumerate() {
                let a = tableau.a[stage][j];
                if a == 0.0 {
                    continue;
                }
                let rows =
                    self.argument.chunks_exact_mut(self.width).zip(k.chunks_exact(self.width));
                for ((argument, k), step) in rows.zip(&self.step) {
                    crate::linalg::axpy(step * a, k, argument);
                }
            }
            self.stage_t.clear();
            let c = tableau.c[stage];
            self.stage_t.extend(self.t.iter().zip(&self.step).map(|(t, h)| t + c * h));
            let argument = Rows::new(&self.argument, self.width)?;
            let k = RowsMut::new(&mut self.k[stage], self.width)?;
            if tableau.b[stage] == 0.0 && tableau.e[stage] == 0.0 {
                system.eval_without_integrals(&self.rows, &self.stage_t, argument, k)?;
            } else {
                system.eval(&self.rows, &self.stage_t, argument, k)?;
            }
        }
        Ok(())
    }

    /// Error estimate of row i relative to the tolerance.
    fn error(
        &self,
        tableau: &Tableau<S>,
        i: usize,
        options: &OdeOptions,
        system: &dyn OdeSystem,
    ) -> f64 {
        let (old, new) = (self.row(&self.y, i), self.row(&self.argument, i));
        let end = self.t[i] + self.step[i];
        let mut sum = 0.0;
        for j in 0..self.width {
            let at = i * self.width + j;
            let difference: f64 = (0..S).map(|s| tableau.e[s] * self.k[s][at]).sum();
            let tolerance = options.atol + options.rtol * old[j].abs().max(new[j].abs());
            let tolerance = tolerance * system.error_scale(end, j);
            sum += (self.step[i] * difference / tolerance).powi(2);
        }
        (sum / self.width as f64).sqrt()
    }
}
