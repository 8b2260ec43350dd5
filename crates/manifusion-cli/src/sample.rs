//! `manifusion sample`: draws from a trained model, in the form and format of its data.

use std::path::PathBuf;

use anyhow::{Result, bail};
use manifusion::sample::{SampleOptions, Steps};
use manifusion::sde::AdaptiveOptions;
use serde_json::json;

use crate::common::Common;
use crate::model::TrainedModel;
use crate::run::RunDir;
use crate::source::write_points;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder.
    dir: PathBuf,
    /// How many.
    #[arg(long, default_value_t = 1000)]
    num: usize,
    /// 0: the reverse SDE; 1: the ODE; below 0: more noise.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    lambda: f64,
    /// Number of steps, rounded up to a power of two.
    #[arg(long, default_value_t = 512, conflicts_with = "tolerance")]
    steps: u32,
    /// Adaptive steps with this tolerance instead of a fixed number.
    #[arg(long)]
    tolerance: Option<f64>,
    #[command(flatten)]
    common: Common,
}

/// Most steps and most samples that one call takes.
const MAX_STEPS: u32 = 1 << 20;
const MAX_SAMPLES: usize = 100_000_000;

pub(crate) fn run(args: &Args) -> Result<bool> {
    let output = args.common.start()?;
    let dir = RunDir::open(&args.dir)?;
    let model = TrainedModel::load(&dir)?;
    if !(1..=MAX_SAMPLES).contains(&args.num) {
        bail!("--num {} is not allowed; 1 to {MAX_SAMPLES}", args.num);
    }
    let seed = args.common.seed.unwrap_or(0);
    let density = model.density(sample_options(args)?)?;
    let points = density.sample(args.num, seed)?;
    match &args.common.out {
        Some(path) => {
            write_points(&dir, &points, &[], Some(path))?;
            if output.json {
                output.line(&json!({ "out": path, "num": args.num, "seed": seed }).to_string())?;
            } else {
                output.remark(&format!("{} samples written to {}", args.num, path.display()));
            }
        }
        None => write_points(&dir, &points, &[], None)?,
    }
    Ok(true)
}

fn sample_options(args: &Args) -> Result<SampleOptions> {
    if !(1..=MAX_STEPS).contains(&args.steps) {
        bail!("--steps {} is not allowed; 1 to {MAX_STEPS}", args.steps);
    }
    let steps = match args.tolerance {
        None => Steps::Fixed { level: args.steps.next_power_of_two().ilog2() },
        Some(tolerance) if tolerance > 0.0 && tolerance.is_finite() => {
            Steps::Adaptive(AdaptiveOptions {
                rtol: tolerance,
                atol: tolerance,
                ..AdaptiveOptions::default()
            })
        }
        Some(tolerance) => bail!("--tolerance {tolerance} is not allowed; a number above 0"),
    };
    Ok(SampleOptions { lambda: args.lambda, steps, ..SampleOptions::default() })
}
