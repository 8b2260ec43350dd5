//! `manifusion demo`: the whole of the product on a generated data set, with nothing but this
//! program.

use std::f64::consts::{PI, TAU};
use std::path::{Path, PathBuf};

use anyhow::Result;
use manifusion::density::Density;
use manifusion::error::SolveError;
use manifusion::parallel::in_pool;
use manifusion::points::SplitPart;
use manifusion::rows::Rows;
use manifusion_run::{Config, StoredRun, Trained, train};

use crate::common::{Common, End, Output};
use crate::evaluate::show;
use crate::plot::illustrate;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Minutes of training.
    #[arg(long, default_value_t = 0.85)]
    minutes: f64,
    #[command(flatten)]
    common: Common,
}

const SETTINGS: &str = r#"
method = "rdm"
manifold = "sphere:2"
data.source = "synthetic:sphere-mixture"
data.rows = 12000
rdm.net.width = 128
rdm.train.validations = 8
evaluate.bound_points = 12
evaluate.mass_points = 6000
"#;

/// Cells of the density table in latitude and longitude.
const TABLE: (usize, usize) = (36, 72);

pub(crate) fn run(args: &Args) -> Result<End> {
    let output = args.common.start()?;
    let out = args.common.out.clone().unwrap_or_else(|| PathBuf::from("manifusion-demo"));
    let mut config = Config::parse(SETTINGS)?;
    config.put("seed", i64::try_from(args.common.seed.unwrap_or(0))?);
    config.put("train.minutes", args.minutes);
    output.remark(&format!(
        "12 000 points of a known density on the sphere; training for {} min, then evaluating",
        args.minutes
    ));
    let trained = train(config.choices()?, &out, &output.watch, &|text| output.remark(text))?;
    if let Trained::Stopped { .. } = trained {
        return Err(SolveError::Stopped.into());
    }
    in_pool(|| rest(&out, &output))
}

/// Everything that follows the training.
fn rest(out: &Path, output: &Output) -> Result<End> {
    let run = StoredRun::open(out)?;
    let (model, watch, options) = (run.model()?, &output.watch, run.settings().evaluate);
    let found = run.evaluate(SplitPart::Test, &options, 0, watch)?;
    let samples = watch.stage("samples", || model.sample(1000, 0))?;
    output.table(&run.point_columns(&samples, &[])?, Some(&run.dir().file("samples.csv")))?;
    write_density(&run, model.as_ref(), output)?;
    illustrate(&run, output)?;
    show(output, &found)?;
    let file = |name: &str| run.dir().file(name).display().to_string();
    output.remark(&format!(
        "picture  {}\nreport   {}\nsamples  {}\ndensity  {}",
        file("density.png"),
        file("report.html"),
        file("samples.csv"),
        file("density.csv")
    ));
    Ok(End::Done)
}

/// The density at the middles of cells of equal angles.
fn write_density(run: &StoredRun, density: &dyn Density, output: &Output) -> Result<()> {
    let (rows, columns) = TABLE;
    let middle = |i: usize, cells: usize| (i as f64 + 0.5) / cells as f64 - 0.5;
    let mut points = Vec::new();
    for i in 0..rows {
        let (height, radius) = (PI * middle(i, rows)).sin_cos();
        for j in 0..columns {
            let (sin, cos) = (TAU * middle(j, columns)).sin_cos();
            points.extend([radius * cos, radius * sin, height]);
        }
    }
    let log_p = output.watch.stage("density", || density.log_density(Rows::new(&points, 3)?))?;
    let columns = run.point_columns(&points, &[("log_density", &log_p)])?;
    output.table(&columns, Some(&run.dir().file("density.csv")))
}
