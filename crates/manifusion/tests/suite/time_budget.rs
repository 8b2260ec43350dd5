//! A run with a budget of time ends with it, whatever its pace does. Work is sleeping here, so that
//! the load of the machine hardly counts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use manifusion::Points;
use manifusion::checkpoint::{Arrays, Checkpoint};
use manifusion::density::Density;
use manifusion::error::SolveError;
use manifusion::manifold::{Manifold, parse};
use manifusion::nn::{Mlp, NetConfig};
use manifusion::rows::Rows;
use manifusion::train::{
    Learner, LoopSettings, NetworkRun, Outcome, RestoreError, StepReport, TimeReport, TrainError,
};
use manifusion::watch::Watch;

/// Seconds that a step takes.
type Pace = fn(u64) -> f64;

/// Sleeps instead of learning: `pace(step)` seconds a step, `validation` seconds a validation.
struct Sleeper {
    pace: Pace,
    validation: f64,
    /// The mean log-density of the validation points after so many steps.
    log_p: fn(u64) -> f64,
    step: u64,
    weights: Vec<f32>,
}

#[derive(Debug)]
struct SleepingDensity {
    manifold: Arc<dyn Manifold>,
    seconds: f64,
    log_p: f64,
}

impl Density for SleepingDensity {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        std::thread::sleep(Duration::from_secs_f64(self.seconds));
        Ok((0..x.len()).map(|i| self.log_p + if i % 2 == 0 { 1.0 } else { -1.0 }).collect())
    }

    fn sample(&self, _n: usize, _seed: u64) -> Result<Vec<f64>, SolveError> {
        Ok(Vec::new())
    }
}

impl Learner for Sleeper {
    fn step(&mut self) -> Result<StepReport, TrainError> {
        std::thread::sleep(Duration::from_secs_f64((self.pace)(self.step)));
        self.step += 1;
        let times = TimeReport::default();
        Ok(StepReport { step: self.step, loss: 1.0, gradient: 1.0, times, skipped: 0 })
    }

    fn steps_done(&self) -> u64 {
        self.step
    }

    fn set_total_steps(&mut self, _total: u64) {}

    fn averaged_weights(&self) -> &[f32] {
        &self.weights
    }

    fn density(&self, _tolerance: f64) -> Result<Box<dyn Density>, TrainError> {
        let manifold = parse("sphere:1").unwrap();
        let (seconds, log_p) = (self.validation, (self.log_p)(self.step));
        Ok(Box::new(SleepingDensity { manifold, seconds, log_p }))
    }

    fn checkpoint(&self, _own: Arrays) -> Checkpoint<f32> {
        let net = NetConfig { ambient_dim: 2, depth: 1, width: 4, ..NetConfig::default() };
        Checkpoint::new(Mlp::new(net, 0).unwrap())
    }

    fn restore(&mut self, _checkpoint: Checkpoint<f32>) -> Result<Arrays, RestoreError> {
        Ok(Arrays::default())
    }
}

const BUDGET: LoopSettings = LoopSettings {
    steps: 1000,
    seconds: 4.0,
    most_steps: u64::MAX,
    validations: 3,
    patience: u64::MAX,
    fresh_steps: 0,
};

/// Runs for a budget of 4 seconds that was planned as 1000 steps; how it ended, and the share of
/// the time that went into validations.
fn run(pace: Pace, validation: f64, validations: u64) -> (Outcome, f64) {
    let settings = LoopSettings { validations, ..BUDGET };
    let points = Points::new("sphere:1", [1.0, 0.0]).unwrap();
    let learner = Sleeper { pace, validation, log_p: |_| 0.0, step: 0, weights: vec![0.0] };
    let mut run = NetworkRun::new(learner, settings, points, 0.0);
    let (watch, mut validating) = (Watch::default(), 0.0);
    while !run.is_done() {
        let start = Instant::now();
        let rows = run.advance(&watch).unwrap();
        if rows.iter().any(|row| row.validation_nll.is_some()) {
            validating += start.elapsed().as_secs_f64();
        }
    }
    (run.finish().unwrap().1, validating / 4.0)
}

#[test]
fn a_budget_is_kept_whatever_the_pace_does() {
    let cases: [(Pace, f64, u64); 5] = [
        // As planned.
        (|_| 0.0035, 0.02, 20),
        // Twice as slow as planned, and three times as fast.
        (|_| 0.008, 0.02, 20),
        (|_| 0.0012, 0.02, 20),
        // Another load from the middle on.
        (|step| if step < 500 { 0.003 } else { 0.007 }, 0.02, 20),
        // Validations that take far longer than planned.
        (|_| 0.003, 0.4, 20),
    ];
    std::thread::scope(|scope| {
        let runs = cases
            .map(|(pace, validation, count)| scope.spawn(move || run(pace, validation, count)));
        for (case, run) in runs.into_iter().enumerate() {
            let (outcome, validating) = run.join().unwrap();
            let share = outcome.train_seconds / 4.0;
            assert!((0.9..1.1).contains(&share), "case {case}: {share} of the budget, {outcome:?}");
            assert!(validating <= 0.27, "case {case}: validations took {validating}");
            assert!(outcome.validation_nll.is_some());
        }
    });
}

/// What happens before the first step, such as writing many points, is not taken for a slow pace.
#[test]
fn work_before_the_first_step_is_no_pace() {
    let points = Points::new("sphere:1", [1.0, 0.0]).unwrap();
    let learner =
        Sleeper { pace: |_| 0.003, validation: 0.0, log_p: |_| 0.0, step: 0, weights: vec![0.0] };
    let mut run = NetworkRun::new(learner, BUDGET, points, 0.0);
    std::thread::sleep(std::time::Duration::from_millis(600));
    while !run.is_done() {
        run.advance(&Watch::default()).unwrap();
    }
    let outcome = run.finish().unwrap().1;
    assert!(outcome.steps > 500 && outcome.train_seconds < 4.4, "{outcome:?}");
}

/// A budget is not used for more steps than are of use, whether the first plan has more or the pace
/// would allow for more.
#[test]
fn a_budget_has_a_most_of_steps() {
    for steps in [1000, 50] {
        let settings = LoopSettings { steps, most_steps: 200, ..BUDGET };
        let points = Points::new("sphere:1", [1.0, 0.0]).unwrap();
        let learner = Sleeper {
            pace: |_| 0.003,
            validation: 0.0,
            log_p: |_| 0.0,
            step: 0,
            weights: vec![0.0],
        };
        let mut run = NetworkRun::new(learner, settings, points, 0.0);
        while !run.is_done() {
            run.advance(&Watch::default()).unwrap();
        }
        assert_eq!(run.finish().unwrap().1.steps, 200, "planned as {steps}");
    }
}

/// Without a budget the number of steps is what was asked for.
#[test]
fn steps_are_steps() {
    let settings = LoopSettings { steps: 250, seconds: f64::INFINITY, most_steps: 100, ..BUDGET };
    let points = Points::new("sphere:1", [1.0, 0.0]).unwrap();
    let learner =
        Sleeper { pace: |_| 0.0, validation: 0.0, log_p: |_| 0.0, step: 0, weights: vec![0.0] };
    let mut run = NetworkRun::new(learner, settings, points, 0.0);
    while !run.is_done() {
        run.advance(&Watch::default()).unwrap();
    }
    let (_, outcome) = run.finish().unwrap();
    assert_eq!((outcome.steps, outcome.budget_seconds), (250, None));
    assert_eq!(outcome.first_planned_steps, None);
}

/// Validation values of points that were seen a few times only differ by noise: the last weights
/// are kept, but not ones that are worse beyond the error, and not where points can be learned by
/// heart.
#[test]
fn noise_does_not_choose_among_weights_of_fresh_points() {
    let points = Points::new("sphere:1", [1.0, 0.0].repeat(100)).unwrap();
    let best_step = |log_p, fresh_steps| {
        let seconds = f64::INFINITY;
        let settings = LoopSettings { steps: 100, seconds, validations: 10, fresh_steps, ..BUDGET };
        let learner =
            Sleeper { pace: |_| 0.0, validation: 0.0, log_p, step: 0, weights: vec![0.0] };
        let mut run = NetworkRun::new(learner, settings, points.clone(), 0.0);
        while !run.is_done() {
            run.advance(&Watch::default()).unwrap();
        }
        run.finish().unwrap().1.best_step
    };
    // The error of the mean of 100 values of ±1 is 0.1.
    let noise = |step: u64| if step == 30 { 0.05 } else { 0.0 };
    let collapse = |step: u64| if step > 50 { -1.0 } else { 0.0 };
    assert_eq!(best_step(noise, 0), 30);
    assert_eq!(best_step(noise, 100), 100);
    assert_eq!(best_step(noise, 60), 60);
    assert_eq!(best_step(collapse, 100), 50);
    // Each validation is worse than the last one by less than the error, all together by more.
    let decline = |step: u64| if step < 30 { 0.0 } else { -0.0018 * (step - 30) as f64 };
    assert_eq!(best_step(decline, 100), 80);
}
