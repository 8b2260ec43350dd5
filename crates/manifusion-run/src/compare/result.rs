//! One run of a comparison: made or gone on with, judged, timed and kept.

use std::fmt;
use std::path::Path;
use std::time::Instant;

use manifusion::error::SolveError;
use manifusion::evaluation::Evaluation;
use manifusion::points::SplitPart;
use manifusion::sample::SampleOptions;
use manifusion::watch::Watch;
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::Choices;
use crate::error::RunError;
use crate::stored::StoredRun;
use crate::training::{Trained, resume, train};

/// What came of a method on a seed: `results/METHOD-seedN.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// The method.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// How it ended.
    #[serde(flatten)]
    pub ended: Ended,
}

/// How a run of a comparison ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// With a model, which was judged.
    Measured(Box<Measured>),
    /// Without one, for a reason in one sentence.
    Failed(String),
}

/// The numbers of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The evaluation on the test points, as `manifusion evaluate --json` prints it.
    pub evaluation: Evaluation,
    /// Numbers that the model learned from the data; none where the method does not say.
    pub parameters: Option<usize>,
    /// Seconds per 1000 log-densities, at the tolerance of the evaluation.
    pub score_seconds: f64,
    /// Seconds per 1000 draws.
    pub sample_seconds: f64,
    /// Processor threads behind these times.
    pub threads: usize,
    /// log p of every test point, in the order of the split.
    #[serde(deserialize_with = "numbers_or_zero_density")]
    pub log_density: Vec<f64>,
}

/// JSON has no infinities: a density of zero is null there. (One that is not a number never gets
/// that far.)
fn numbers_or_zero_density<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
    let values: Vec<Option<f64>> = Vec::deserialize(from)?;
    Ok(values.into_iter().map(|value| value.unwrap_or(f64::NEG_INFINITY)).collect())
}

impl fmt::Display for RunResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, seed {}: ", self.method, self.seed)?;
        match &self.ended {
            Ended::Measured(measured) => write!(f, "NLL {:.4}", measured.evaluation.nll),
            Ended::Failed(reason) => f.write_str(reason),
        }
    }
}

/// Takes a run from wherever it is to its numbers; none if it was stopped on the way.
pub(super) fn run(
    choices: impl FnOnce() -> Result<Choices, RunError>,
    out: &Path,
    watch: &Watch,
) -> Result<Option<Measured>, RunError> {
    let trained = match StoredRun::open(out) {
        Ok(stored) if stored.is_finished() => None,
        Ok(_) => Some(resume(out, watch)?),
        Err(RunError::Absent { .. } | RunError::NoRun { .. }) => {
            Some(train(choices()?, out, watch, &|_| {})?)
        }
        Err(error) => return Err(error),
    };
    if let Some(Trained::Stopped { .. }) = trained {
        return Ok(None);
    }
    let stored = StoredRun::open(out)?;
    let options = stored.settings().evaluate;
    let evaluation = stored.evaluate(SplitPart::Test, &options, SEED, watch)?;
    if evaluation.stopped {
        return Ok(None);
    }
    let (model, points) = (stored.model()?, stored.points(SplitPart::Test)?);
    let points = options.judged(&points, SEED)?;
    let score =
        || watch.stage("likelihood", || model.log_density_to(points.rows(), options.tolerance));
    let (scored, score_seconds) = timed(score)?;
    let draw = || watch.stage("samples", || model.sample_with(THOUSAND, &SampleOptions::default()));
    let (_, sample_seconds) = timed(draw)?;
    Ok(Some(Measured {
        evaluation,
        parameters: model.parameters(),
        score_seconds: score_seconds * THOUSAND as f64 / points.len() as f64,
        sample_seconds,
        threads: rayon::current_num_threads(),
        log_density: scored.log_p,
    }))
}

/// The seed of `manifusion evaluate`, so that both print the same.
const SEED: u64 = 0;
/// Times are per so many points.
const THOUSAND: usize = 1000;
/// What takes less than this is repeated, in seconds: one call of a formula on a few points would
/// mostly measure the clock.
const ENOUGH: f64 = 0.1;

/// What `work` gives, and the seconds that it takes.
fn timed<T>(work: impl Fn() -> Result<T, SolveError>) -> Result<(T, f64), SolveError> {
    let (start, mut calls) = (Instant::now(), 0.0);
    loop {
        let value = work()?;
        calls += 1.0;
        let seconds = start.elapsed().as_secs_f64();
        if seconds >= ENOUGH {
            return Ok((value, seconds / calls));
        }
    }
}
