//! `manifusion demo`: the whole of the product on a generated data set, with nothing but this program.

use std::path::PathBuf;

use anyhow::Result;
use manifusion::density::Density;
use manifusion::rows::Rows;
use manifusion::sample::SampleOptions;

use crate::common::{Common, Output};
use crate::evaluate::{evaluate, show};
use crate::model::TrainedModel;
use crate::plot::illustrate;
use crate::recipe::Preset;
use crate::run::RunDir;
use crate::settings::Settings;
use crate::source::{Part, write_points};
use crate::train::{begin, finish};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Minutes of training.
    #[arg(long, default_value_t = 0.85)]
    minutes: f64,
    #[command(flatten)]
    common: Common,
}

const SETTINGS: &str = r#"
manifold = "sphere:2"
data.source = "synthetic:sphere-mixture"
data.rows = 12000
model.guide = "none"
net.width = 128
train.validations = 8
evaluate.bound_points = 12
evaluate.mass_points = 6000
"#;

/// Cells of the density table in latitude and longitude.
const TABLE: (usize, usize) = (36, 72);

pub(crate) fn run(args: &Args) -> Result<bool> {
    let output = args.common.start()?;
    let out = args.common.out.clone().unwrap_or_else(|| PathBuf::from("manifusion-demo"));
    let mut settings = Settings::parse(SETTINGS, &[])?;
    settings.seed = args.common.seed.unwrap_or(0);
    settings.train.minutes = Some(args.minutes);
    output.remark(&format!(
        "12 000 points of a known density on the sphere; training for {} min, then evaluating",
        args.minutes
    ));
    let dir = begin(settings, Preset::Fast, &out, &output)?;
    finish(dir.clone(), &Output { json: false, quiet: true })?;
    let model = TrainedModel::load(&dir)?;
    let report = evaluate(&dir, &model, Part::Test, 0)?;
    let density = model.density(SampleOptions::default())?;
    write_points(&dir, &density.sample(1000, 0)?, &[], Some(&dir.file("samples.csv")))?;
    write_table(&dir, density.as_ref())?;
    illustrate(&dir)?;
    show(&output, &report)?;
    output.remark(&format!(
        "picture  {}\nreport   {}\nsamples  {}\ndensity  {}",
        dir.file("density.png").display(),
        dir.file("report.html").display(),
        dir.file("samples.csv").display(),
        dir.file("density.csv").display()
    ));
    Ok(true)
}

/// The density at the middles of cells of equal angles.
fn write_table(dir: &RunDir, density: &dyn Density) -> Result<()> {
    let (rows, columns) = TABLE;
    let mut points = Vec::new();
    for i in 0..rows {
        let latitude = ((i as f64 + 0.5) / rows as f64 - 0.5) * std::f64::consts::PI;
        for j in 0..columns {
            let longitude = ((j as f64 + 0.5) / columns as f64 - 0.5) * std::f64::consts::TAU;
            let (sin, cos) = longitude.sin_cos();
            points.extend([latitude.cos() * cos, latitude.cos() * sin, latitude.sin()]);
        }
    }
    let log_p = density.log_density(Rows::new(&points, 3)?)?;
    write_points(dir, &points, &[("log_density", &log_p)], Some(&dir.file("density.csv")))
}
