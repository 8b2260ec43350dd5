//! `manifusion plot` and `manifusion report`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use manifusion::density::Density;
use manifusion::rows::Rows;
use manifusion::sample::SampleOptions;
use manifusion_io::Form;
use manifusion_plot::{
    Grid, MetricsRow, Options, PictureKind, PlotSource, ReportInput, TrainingCurves, draw,
    save_geojson, write_report,
};
use serde_json::{Value, json};

use crate::common::{Common, Output};
use crate::evaluate::evaluate;
use crate::model::TrainedModel;
use crate::run::RunDir;
use crate::settings::{Method, file_name};
use crate::source::{DataFile, Part, synthetic_name};

/// Flags that say how a picture looks.
#[derive(clap::Args, Clone, Debug)]
struct PictureArgs {
    /// Width in pixels.
    #[arg(long, default_value_t = 1200)]
    width: u32,
    /// Colours for log-density or density.
    #[arg(long, default_value = "log-density")]
    value: String,
    /// About how many times the density is evaluated for a map; for a guided model a quarter of it, since its guide has the detail in closed form.
    #[arg(long, default_value_t = 10_000)]
    evaluations: usize,
    /// Longitude in the middle of a map, in degrees.
    #[arg(long, default_value_t = 0.0, allow_negative_numbers = true)]
    meridian: f64,
    /// Measure of densities on the hyperbolic plane: lorentz or euclid.
    #[arg(long, default_value = "lorentz")]
    measure: String,
    /// No coastlines, for a sphere that is not the Earth.
    #[arg(long)]
    no_coastlines: bool,
    /// Samples over the density.
    #[arg(long)]
    samples: bool,
    /// No test points over the density.
    #[arg(long)]
    no_data: bool,
}

impl PictureArgs {
    fn options(&self, seed: u64) -> Result<Options> {
        Ok(Options {
            width: self.width,
            value: self.value.parse()?,
            evaluations: self.evaluations,
            central_meridian_deg: self.meridian,
            show_data: !self.no_data,
            show_samples: self.samples,
            measure: self.measure.parse()?,
            seed,
            ..Options::default()
        })
    }
}

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder.
    dir: PathBuf,
    /// mollweide, robinson, equirectangular, orthographic, ramachandran, corner, disk, euler, axes, rotations, plane, distances or curves; the
    /// natural one of the manifold by default.
    #[arg(long)]
    kind: Option<String>,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub(crate) struct ReportArgs {
    /// The run's folder.
    dir: PathBuf,
    #[command(flatten)]
    picture: PictureArgs,
    #[command(flatten)]
    common: Common,
}

/// What pictures are drawn from.
struct Scene {
    model: TrainedModel,
    density: Arc<dyn Density>,
    test: Vec<f64>,
    data: DataFile,
    curves: TrainingCurves,
    title: String,
    geographic: bool,
    axis_names: Vec<String>,
}

impl Scene {
    fn load(dir: &RunDir, coastlines: bool) -> Result<Self> {
        let model = TrainedModel::load(dir)?;
        Self::of(dir, model.rough_density()?, model, coastlines)
    }

    /// For numbers that others calculate with: every one the model's own likelihood, none interpolated.
    fn exact(dir: &RunDir) -> Result<Self> {
        let mut model = TrainedModel::load(dir)?;
        let density = model.density(SampleOptions::default())?;
        model.guide = None;
        Self::of(dir, density, model, false)
    }

    fn of(
        dir: &RunDir,
        density: Arc<dyn Density>,
        model: TrainedModel,
        coastlines: bool,
    ) -> Result<Self> {
        let data: DataFile = serde_json::from_value(dir.json("data.json")?)?;
        let source = model.settings.data.source.clone().unwrap_or_default();
        let on_earth = [Form::LatLon, Form::LonLat];
        let geographic = coastlines
            && synthetic_name(&source).is_none()
            && data.output.form.as_slice().iter().any(|form| on_earth.contains(form));
        let angles = [Form::AnglesDeg, Form::AnglesRad];
        let axis_names = if data.output.form.as_slice().iter().all(|f| angles.contains(f)) {
            data.output.names.clone()
        } else {
            Vec::new()
        };
        let method = match (model.settings.method, model.settings.model.guide) {
            (Method::Kernel, _) => "kernel mixture",
            (Method::Rdm, Some(crate::settings::GuideKind::Kernel)) => "guided diffusion model",
            (Method::Rdm, _) => "diffusion model",
        };
        Ok(Self {
            density,
            test: dir.part(Part::Test)?,
            curves: curves(dir)?,
            title: format!("{} on {}, {method}", file_name(&source), model.manifold.name()),
            geographic,
            axis_names,
            data,
            model,
        })
    }

    fn source(&self) -> Result<PlotSource<'_>> {
        Ok(PlotSource {
            manifold: self.model.manifold.as_ref(),
            density: self.density.as_ref(),
            reference: self.model.guide.as_deref().map(|guide| guide as &dyn Density),
            data: Some(Rows::new(&self.test, self.model.manifold.ambient_dim())?),
            samples: None,
            geographic: self.geographic,
            title: &self.title,
            axis_names: &self.axis_names,
            curves: (!self.curves.is_empty()).then_some(&self.curves),
            grid: None,
        })
    }
}

/// The lines of `metrics.jsonl` and the law of times.
fn curves(dir: &RunDir) -> Result<TrainingCurves> {
    let mut curves = TrainingCurves::default();
    if dir.has("metrics.jsonl") {
        for line in dir.read("metrics.jsonl")?.lines() {
            let row: MetricsRow = serde_json::from_str(line).with_context(|| {
                format!("{} does not parse", dir.file("metrics.jsonl").display())
            })?;
            curves.rows.push(row);
        }
    }
    if dir.has("times.json") {
        let times = dir.json("times.json")?;
        let list = |name: &str| -> Vec<f64> {
            let values = times.get(name).and_then(Value::as_array);
            values.map(|v| v.iter().filter_map(Value::as_f64).collect()).unwrap_or_default()
        };
        curves.proposal = list("s").into_iter().zip(list("q")).map(|(s, q)| [s, q]).collect();
    }
    Ok(curves)
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let output = args.common.start()?;
    let dir = RunDir::open(&args.dir)?;
    let options = args.picture.options(args.common.seed.unwrap_or(0))?;
    let kind = args.kind.as_deref().map(str::parse::<PictureKind>).transpose()?;
    let out = args.common.out.clone().unwrap_or_else(|| dir.file("plot.png"));
    let extension = out.extension().and_then(|e| e.to_str()).unwrap_or_default().to_lowercase();
    if !["png", "svg", "csv", "npy", "geojson"].contains(&extension.as_str()) {
        bail!(
            "{}: the extension says what is written: .png or .svg for a picture, .csv or .npy for the density on a grid, .geojson for \
             contours and regions of highest density",
            out.display()
        );
    }
    let scene = match extension.as_str() {
        "csv" | "npy" => Scene::exact(&dir)?,
        _ => Scene::load(&dir, !args.picture.no_coastlines)?,
    };
    let source = scene.source()?;
    match extension.as_str() {
        "csv" | "npy" => Grid::new(&source, &options)?.save(&out)?,
        "geojson" => save_geojson(&Grid::new(&source, &options)?, &out)?,
        _ => {
            if kind.is_none()
                && let Some(sentence) = PictureKind::without_own_picture(source.manifold)
            {
                output.remark(&sentence);
            }
            let kind = kind.unwrap_or_else(|| PictureKind::natural(source.manifold));
            draw(kind, &source, &options)?.save(&out)?;
        }
    }
    written(&output, &out)
}

fn written(output: &Output, out: &Path) -> Result<bool> {
    if output.json {
        output.line(&json!({ "out": out }).to_string())?;
    } else {
        output.remark(&format!("written to {}", out.display()));
    }
    Ok(true)
}

pub(crate) fn report(args: &ReportArgs) -> Result<bool> {
    let output = args.common.start()?;
    let dir = RunDir::open(&args.dir)?;
    let options = args.picture.options(args.common.seed.unwrap_or(0))?;
    let out = args.common.out.clone().unwrap_or_else(|| dir.file("report.html"));
    make_report(&dir, &options, !args.picture.no_coastlines, &out)?;
    written(&output, &out)
}

/// Writes the report of a run, evaluating it first if that has not been done.
fn make_report(dir: &RunDir, options: &Options, coastlines: bool, out: &Path) -> Result<()> {
    let scene = Scene::load(dir, coastlines)?;
    let eval = if dir.has("eval.json") {
        dir.json("eval.json")?
    } else {
        evaluate(dir, &scene.model, Part::Test, 0)?
    };
    let input = ReportInput {
        source: scene.source()?,
        options,
        eval: &eval,
        findings: &scene.data.findings,
        config: &scene.model.settings.to_toml()?,
        commands: &[
            "manifusion train --config config.toml --out RUN".to_owned(),
            "manifusion evaluate RUN".to_owned(),
            "manifusion report RUN".to_owned(),
        ],
        generator: concat!("manifusion ", env!("CARGO_PKG_VERSION")),
    };
    Ok(write_report(out, &input)?)
}

/// Picture and report of a run in its own folder, with few evaluations.
pub(crate) fn illustrate(dir: &RunDir) -> Result<()> {
    let options = Options { evaluations: 5000, ..Options::default() };
    let scene = Scene::load(dir, true)?;
    let source = scene.source()?;
    draw(PictureKind::natural(source.manifold), &source, &options)?
        .save(&dir.file("density.png"))?;
    make_report(dir, &options, true, &dir.file("report.html"))
}
