//! A budget of minutes turned into steps, by measuring.

use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::TrainingSettings;
use crate::error::SolveError;
use crate::field::Field;
use crate::methods::{FitError, Task};
use crate::nn::FieldInput;
use crate::rows::Rows;
use crate::train::{Learner, NetworkTrainer, Objective};

/// Field evaluations that a point's likelihood takes in a trained model.
const TYPICAL_EVALUATIONS: f64 = 200.0;
/// The share of the budget that validations are planned to take, at most.
const VALIDATION_SHARE: f64 = 0.2;
/// So many points are worth that share. More of them choose better among weights that are nearly as
/// good, which is worth the second one.
const WORTH_POINTS: usize = 500;
const CHEAP_SHARE: f64 = 0.1;
/// Fewer points and fewer validations than these say too little.
const LEAST_POINTS: usize = 50;
const LEAST_VALIDATIONS: u64 = 4;
/// The share of the measured pace that is relied on: caches are warm in a measurement.
const CAUTION: f64 = 0.98;

/// What fits into the budget.
pub(super) struct Plan {
    pub(super) steps: u64,
    pub(super) validations: u64,
    pub(super) validation_points: usize,
}

/// Plans runs side by side with the pace of trial runs, which are used up. `passes` is what one
/// evaluation of the model costs, in evaluations of its network with a divergence.
pub(super) fn plan<O: Objective>(
    mut trials: Vec<NetworkTrainer<O>>,
    task: &Task,
    train: &TrainingSettings,
    passes: f64,
) -> Result<Plan, FitError> {
    const WARM_UP: u64 = 5;
    let budget = 60.0 * train.minutes;
    // A long measurement of a short run would be a part of it that trains nothing.
    let measured = Duration::from_secs_f64((0.01 * budget).clamp(0.2, 1.5));
    task.watch.begin("planning", 0, 0);
    let mut step = || -> Result<(), FitError> {
        let steps = trials.par_iter_mut().map(|trial| trial.step().map(|_| ()));
        Ok(steps.collect::<Result<(), _>>()?)
    };
    for _ in 0..WARM_UP {
        step()?;
    }
    let (start, mut steps) = (Instant::now(), 0u32);
    while start.elapsed() < measured || steps < 5 {
        step()?;
        steps += 1;
        if task.watch.is_stopped() {
            return Err(SolveError::Stopped.into());
        }
    }
    let per_step = start.elapsed().as_secs_f64() / f64::from(steps);
    // Members take turns at validations: all threads work on each.
    let mut per_point = 0.0;
    for trial in &trials {
        per_point += passes * TYPICAL_EVALUATIONS * seconds_per_evaluation(trial, task)?;
    }
    let most = VALIDATION_SHARE * budget;
    let points = task.validation.len().min(train.validation_points);
    let affordable = |points: usize| most / (points as f64 * per_point);
    // First fewer points, then fewer validations.
    let fitting = |share: f64| (share * budget / (train.validations as f64 * per_point)) as usize;
    let worth = fitting(VALIDATION_SHARE).clamp(LEAST_POINTS, WORTH_POINTS);
    let validation_points = points.min(worth.max(fitting(CHEAP_SHARE)));
    let least = train.validations.min(LEAST_VALIDATIONS);
    let validations = train.validations.min(affordable(validation_points) as u64).max(least);
    let validating = (validations as f64 * validation_points as f64 * per_point).min(most);
    let left = (budget - task.began.elapsed().as_secs_f64() - validating) * CAUTION;
    let steps = ((left / per_step) as u64).max(1);
    Ok(Plan { steps, validations: validations.min(steps), validation_points })
}

/// The time of one evaluation of the network with its exact divergence at one point, in a batch of
/// many: at points of its last batch, along any directions.
fn seconds_per_evaluation<O: Objective>(
    trial: &NetworkTrainer<O>,
    task: &Task,
) -> Result<f64, FitError> {
    const POINTS: usize = 128;
    let per_row = task.geometry.manifold.dim();
    let FieldInput { x, s, .. } = trial.objective().input()?;
    let (m, n) = (x.width(), x.len().min(POINTS));
    let (x, s) = (Rows::new(&x.as_slice()[..n * m], m)?, &s[..n]);
    let mut e = vec![0.0; n * per_row * m];
    for (k, e) in e.chunks_exact_mut(m).enumerate() {
        e[k % m] = 1.0;
    }
    let (mut a, mut jvp) = (vec![0.0; n * m], vec![0.0; n * per_row * m]);
    let (start, mut calls) = (Instant::now(), 0);
    while calls < 3 || start.elapsed() < Duration::from_millis(100) {
        Field::eval(trial.net(), x, s, per_row, &e, &mut a, &mut jvp)?;
        calls += 1;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(calls * n as u32))
}
