//! `manifusion evaluate`: every number that a run is judged by, with its error.

use std::path::PathBuf;

use anyhow::Result;
use manifusion::evaluation::Evaluation;
use manifusion::parallel::in_pool;
use manifusion::points::SplitPart;
use manifusion_run::StoredRun;

use crate::common::{Common, End, Output};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder.
    dir: PathBuf,
    /// Which part of the data [default: test, or validation where there are no test rows].
    #[arg(long, value_enum)]
    split: Option<SplitFlag>,
    /// Points that are judged at most, drawn at random, instead of the run's number; 0 for all.
    #[arg(long)]
    points: Option<usize>,
    /// Tolerance of the ODE solver, instead of the run's.
    #[arg(long)]
    tolerance: Option<f64>,
    /// Points on which ELBO and KELBO are computed, instead of the run's number; 0 leaves them out.
    #[arg(long)]
    bound_points: Option<usize>,
    /// Evaluations of the density for its mass, instead of the run's number; 0 leaves it out.
    #[arg(long)]
    mass_points: Option<usize>,
    #[command(flatten)]
    common: Common,
}

/// The parts of the data, as flags name them.
#[derive(Clone, Copy, clap::ValueEnum)]
enum SplitFlag {
    Train,
    Validation,
    Test,
}

impl From<SplitFlag> for SplitPart {
    fn from(part: SplitFlag) -> Self {
        match part {
            SplitFlag::Train => Self::Train,
            SplitFlag::Validation => Self::Validation,
            SplitFlag::Test => Self::Test,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<End> {
    let output = args.common.start()?;
    let run = StoredRun::open(&args.dir)?;
    let mut options = run.settings().evaluate;
    options.points = args.points.unwrap_or(options.points);
    options.tolerance = args.tolerance.unwrap_or(options.tolerance);
    options.bound_points = args.bound_points.unwrap_or(options.bound_points);
    options.mass_points = args.mass_points.unwrap_or(options.mass_points);
    let seed = args.common.seed.unwrap_or(0);
    let part = args.split.map_or_else(|| run.judged_part(), |split| Ok(split.into()))?;
    let found = in_pool(|| run.evaluate(part, &options, seed, &output.watch))?;
    show(&output, &found)?;
    let all = run.split()?.part(part).len();
    if found.n < all {
        output.remark(&format!("{} of {all} points were judged; --points 0 takes all", found.n));
    }
    if found.stopped {
        output.remark("stopped: what is not in the table was not computed");
        return Ok(End::Stopped);
    }
    Ok(End::Done)
}

/// Prints an evaluation, as JSON or as a table.
pub(crate) fn show(output: &Output, found: &Evaluation) -> Result<()> {
    if output.json {
        return output.line(&serde_json::to_string(found)?);
    }
    output.line(&found.to_string())
}
