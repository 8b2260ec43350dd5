//! `manifusion sample`: draws from a trained model, in the form and format of its data.

use std::path::PathBuf;

use anyhow::{Result, bail};
use manifusion::error::SolveError;
use manifusion::parallel::in_pool;
use manifusion::sample::{SampleOptions, Steps};
use manifusion_run::StoredRun;
use serde_json::json;

use crate::common::{Common, End, Output};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder.
    dir: PathBuf,
    /// How many.
    #[arg(long, default_value_t = 1000)]
    num: usize,
    /// 1: the ODE, whose density is what `score` and `evaluate` print; 0: the reverse SDE; below 0:
    /// more noise.
    #[arg(long, default_value_t = 1.0, allow_negative_numbers = true)]
    lambda: f64,
    /// Number of Heun steps, rounded up to a power of two; by default 512 for lambda < 1, and
    /// adaptive steps of dopri5 for lambda = 1.
    #[arg(long, conflicts_with = "tolerance")]
    steps: Option<u32>,
    /// Adaptive steps with this tolerance instead of a fixed number.
    #[arg(long)]
    tolerance: Option<f64>,
    #[command(flatten)]
    common: Common,
}

/// Most steps and most samples that one call takes.
const MAX_STEPS: u32 = 1 << 20;
const MAX_SAMPLES: usize = 100_000_000;
/// Samples that are drawn between two looks at what is done.
const BLOCK: usize = 2048;

pub(crate) fn run(args: &Args) -> Result<End> {
    let output = args.common.start()?;
    let run = StoredRun::open(&args.dir)?;
    if !(1..=MAX_SAMPLES).contains(&args.num) {
        bail!("--num {} is not allowed; 1 to {MAX_SAMPLES}", args.num);
    }
    let (options, out) = (sample_options(args)?, args.common.out.as_deref());
    let points = in_pool(|| draw(&run, args.num, &options, &output))?;
    let drawn = points.len() / run.geometry()?.manifold.ambient_dim();
    if drawn == 0 {
        return Err(SolveError::Stopped.into());
    }
    output.table(&run.point_columns(&points, &[])?, out)?;
    if let Some(path) = out {
        if output.json {
            let report = json!({ "out": path, "num": drawn, "seed": options.seed });
            output.line(&report.to_string())?;
        } else {
            output.remark(&format!("{drawn} samples written to {}", path.display()));
        }
    }
    if drawn < args.num {
        output.remark(&format!("stopped after {drawn} of {} samples", args.num));
        return Ok(End::Stopped);
    }
    Ok(End::Done)
}

/// Samples, as far as it comes before it is stopped.
fn draw(run: &StoredRun, num: usize, options: &SampleOptions, output: &Output) -> Result<Vec<f64>> {
    let model = run.model()?;
    let mut points = Vec::new();
    for first_row in (0..num).step_by(BLOCK) {
        let (n, options) = (BLOCK.min(num - first_row), SampleOptions { first_row, ..*options });
        let drawn = || model.sample_with(n, &options);
        match output.watch.part("samples", num as u64, first_row as u64, drawn) {
            Ok(drawn) => points.extend(drawn),
            Err(SolveError::Stopped) => break,
            Err(error) => return Err(error.map_row(|row| row + first_row).into()),
        }
    }
    Ok(points)
}

fn sample_options(args: &Args) -> Result<SampleOptions> {
    let steps = match (args.steps, args.tolerance) {
        (None, None) => Steps::Automatic,
        (Some(steps), _) if (1..=MAX_STEPS).contains(&steps) => {
            Steps::Fixed { level: steps.next_power_of_two().ilog2() }
        }
        (Some(steps), _) => bail!("--steps {steps} is not allowed; 1 to {MAX_STEPS}"),
        (None, Some(tolerance)) if tolerance > 0.0 && tolerance.is_finite() => {
            Steps::to_tolerance(tolerance)
        }
        (None, Some(tolerance)) => {
            bail!("--tolerance {tolerance} is not allowed; a number above 0")
        }
    };
    let seed = args.common.seed.unwrap_or(0);
    Ok(SampleOptions { lambda: args.lambda, steps, seed, ..SampleOptions::default() })
}
