//! Fixed dyadic grids along a Brownian path, and a finer look at one that was chosen adaptively.

use super::Stepper;
use crate::brownian::{BrownianTree, Dyadic, MAX_LEVEL};
use crate::error::{ShapeError, SolveError};
use crate::rows::expect_len;

/// Moves every row along the whole clock in 2^`level` steps that are equal on the clock's axis.
pub fn integrate_uniform(
    stepper: &mut dyn Stepper,
    tree: &BrownianTree,
    first_row: u64,
    level: u32,
    x: &mut [f64],
) -> Result<(), SolveError> {
    let n = check(stepper, tree, x)?;
    if level >= MAX_LEVEL {
        let expected = "2^level steps, with a level below 43";
        return Err(SolveError::Setting { name: "level", value: f64::from(level), expected });
    }
    let rows: Vec<usize> = (0..n).collect();
    let mut walk = Walk::new(stepper, tree, first_row, n);
    for index in 0..1u64 << level {
        walk.step(&rows, Dyadic { level, index }, x)?;
    }
    Ok(())
}

/// Moves every row along the intervals of an adaptive solve's trace, each in four equal parts where
/// the solve took two: the value under halved steps, along the same path.
pub fn integrate_halved(
    stepper: &mut dyn Stepper,
    tree: &BrownianTree,
    first_row: u64,
    trace: &[(usize, Dyadic)],
    x: &mut [f64],
) -> Result<(), SolveError> {
    let n = check(stepper, tree, x)?;
    let mut own: Vec<Vec<Dyadic>> = vec![Vec::new(); n];
    for &(row, at) in trace {
        if row >= n || at.level + 2 >= MAX_LEVEL {
            return Err(ShapeError::Len { found: row + 1, expected: n }.into());
        }
        for quarter in 0..4 {
            own[row].push(Dyadic { level: at.level + 2, index: 4 * at.index + quarter });
        }
    }
    let longest = own.iter().map(Vec::len).max().unwrap_or(0);
    let mut walk = Walk::new(stepper, tree, first_row, n);
    let mut batch = Vec::new();
    for i in 0..longest {
        batch.clear();
        batch.extend((0..n).filter(|&row| i < own[row].len()));
        walk.step_each(&batch, |row| own[row][i], x)?;
    }
    Ok(())
}

fn check(stepper: &dyn Stepper, tree: &BrownianTree, x: &[f64]) -> Result<usize, SolveError> {
    if x.is_empty() {
        return Err(ShapeError::Empty.into());
    }
    expect_len(x.len() % stepper.width(), 0)?;
    expect_len(tree.dim(), stepper.noise_dim())?;
    if !tree.clock().is_valid() {
        let time = tree.clock().time(1.0);
        let expected = "the clock must run between finite times, and logarithms start above 0";
        return Err(SolveError::Time { row: 0, time, expected });
    }
    Ok(x.len() / stepper.width())
}

/// Steps of a batch along a tree, with the buffers that they need.
struct Walk<'a> {
    stepper: &'a mut dyn Stepper,
    tree: &'a BrownianTree,
    first_row: u64,
    numbers: Vec<usize>,
    t: Vec<f64>,
    dt: Vec<f64>,
    db: Vec<f64>,
    halves: Vec<f64>,
    state: Vec<f64>,
}

impl<'a> Walk<'a> {
    fn new(stepper: &'a mut dyn Stepper, tree: &'a BrownianTree, first_row: u64, n: usize) -> Self {
        let m = stepper.noise_dim();
        let width = stepper.width();
        Self {
            stepper,
            tree,
            first_row,
            numbers: Vec::with_capacity(n),
            t: Vec::with_capacity(n),
            dt: Vec::with_capacity(n),
            db: Vec::with_capacity(n * m),
            halves: vec![0.0; 2 * m],
            state: Vec::with_capacity(n * width),
        }
    }

    fn step(&mut self, rows: &[usize], at: Dyadic, x: &mut [f64]) -> Result<(), SolveError> {
        self.step_each(rows, |_| at, x)
    }

    /// One step of each of `rows` along its own interval.
    fn step_each(
        &mut self,
        rows: &[usize],
        at: impl Fn(usize) -> Dyadic,
        x: &mut [f64],
    ) -> Result<(), SolveError> {
        let (width, m) = (self.stepper.width(), self.stepper.noise_dim());
        self.numbers.clear();
        for buffer in [&mut self.t, &mut self.dt, &mut self.state] {
            buffer.clear();
        }
        self.db.resize(rows.len() * m, 0.0);
        for (db, &row) in self.db.chunks_exact_mut(m).zip(rows) {
            let number = self.first_row + row as u64;
            let (t, dt) = self.tree.interval(at(row));
            self.tree.increments(number, at(row), db, &mut self.halves);
            self.numbers.push(number as usize);
            self.t.push(t);
            self.dt.push(dt);
            self.state.extend_from_slice(&x[row * width..(row + 1) * width]);
        }
        self.stepper
            .step(&self.numbers, &self.t, &self.dt, &self.db, &mut self.state)
            .map_err(|error| error.map_row(|i| rows[i]))?;
        for (state, &row) in self.state.chunks_exact(width).zip(rows) {
            x[row * width..(row + 1) * width].copy_from_slice(state);
        }
        Ok(())
    }
}
