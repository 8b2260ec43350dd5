//! `manifusion plot` and `manifusion report`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use manifusion::methods::WithOptions;
use manifusion::parallel::in_pool;
use manifusion::points::Points;
use manifusion::sample::SampleOptions;
use manifusion_io::Form;
use manifusion_plot::{
    Grid, Options, Picture, PictureKind, PlotSource, ReportInput, TrainingCurves, draw,
    save_geojson, write_report,
};
use manifusion_run::{StoredRun, file_name, synthetic_name};
use serde_json::json;

use crate::common::{Common, End, Output};

/// Flags that say how a picture looks.
#[derive(clap::Args, Clone, Debug)]
struct PictureArgs {
    /// Width in pixels.
    #[arg(long, default_value_t = 1200)]
    width: u32,
    /// Colours for log-density or density.
    #[arg(long, default_value = "log-density")]
    value: String,
    /// About how many times the density is evaluated for a map.
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
            even_spacing: true,
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
    /// mollweide, robinson, equirectangular, orthographic, ramachandran, corner, disk, euler, axes,
    /// rotations, plane, distances or curves; the natural one of the manifold by default.
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
struct RunPictures {
    density: WithOptions,
    test: Points,
    curves: TrainingCurves,
    title: String,
    geographic: bool,
    axis_names: Vec<String>,
}

/// The tolerance of densities in pictures. On floods, eight networks, the error of log p is 0.012
/// on average and 0.07 for one point in a hundred; a step of the colours is 0.04.
const ROUGH: f64 = 3e-2;

impl RunPictures {
    /// For pictures: to fewer digits.
    fn rough(run: &StoredRun, coastlines: bool) -> Result<Self> {
        let model = run.model()?;
        let tolerance = run.settings().evaluate.tolerance.max(ROUGH);
        let sampling = SampleOptions::default();
        Self::of(run, WithOptions { model, tolerance, sampling }, coastlines)
    }

    /// For numbers that others calculate with: each the model's own likelihood, none interpolated.
    fn exact(run: &StoredRun) -> Result<Self> {
        let (model, sampling) = (run.model()?, SampleOptions::default());
        let tolerance = run.settings().evaluate.tolerance;
        Self::of(run, WithOptions { model, tolerance, sampling }, false)
    }

    fn of(run: &StoredRun, density: WithOptions, coastlines: bool) -> Result<Self> {
        let (model, form) = (&density.model, &run.data_facts()?.output);
        let source = run.settings().data.source.as_deref().unwrap_or_default();
        let forms = form.form.as_slice();
        let on_earth = [Form::LatLon, Form::LonLat];
        let angles = [Form::AnglesDeg, Form::AnglesRad];
        let named = forms.iter().all(|form| angles.contains(form));
        let curves = run.curves()?;
        Ok(Self {
            test: run.points(run.judged_part()?)?,
            curves: TrainingCurves { rows: curves.rows, proposal: curves.proposal },
            title: format!(
                "{} on {}, {}",
                file_name(source),
                model.manifold().name(),
                model.title()
            ),
            geographic: coastlines
                && synthetic_name(source).is_none()
                && forms.iter().any(|form| on_earth.contains(form)),
            axis_names: if named { form.names.clone() } else { Vec::new() },
            density,
        })
    }

    fn source(&self) -> PlotSource<'_> {
        PlotSource {
            data: Some(self.test.rows()),
            geographic: self.geographic,
            title: &self.title,
            axis_names: &self.axis_names,
            curves: (!self.curves.is_empty()).then_some(&self.curves),
            ..PlotSource::new(&self.density)
        }
    }
}

/// What an extension asks for.
enum Format {
    Picture,
    Numbers,
    Regions,
}

fn format(out: &Path) -> Result<Format> {
    let extension = out.extension().and_then(|e| e.to_str()).unwrap_or_default();
    Ok(match extension.to_lowercase().as_str() {
        "png" | "svg" => Format::Picture,
        "csv" | "npy" => Format::Numbers,
        "geojson" => Format::Regions,
        _ => bail!(
            "{}: the extension says what is written: .png or .svg for a picture, .csv or .npy for \
             the density on a grid, .geojson for contours and regions of highest density",
            out.display()
        ),
    })
}

pub(crate) fn run(args: &Args) -> Result<End> {
    let output = args.common.start()?;
    let run = StoredRun::open(&args.dir)?;
    let options = args.picture.options(args.common.seed.unwrap_or(0))?;
    let kind = args.kind.as_deref().map(str::parse::<PictureKind>).transpose()?;
    let out = args.common.out.clone().unwrap_or_else(|| run.dir().file("plot.png"));
    let format = format(&out)?;
    // Numbers that others calculate with are each the model's own likelihood, none interpolated.
    let even_spacing = !matches!(format, Format::Numbers);
    let options = Options { even_spacing, ..options };
    in_pool(|| {
        let pictures = match format {
            Format::Numbers => RunPictures::exact(&run)?,
            _ => RunPictures::rough(&run, !args.picture.no_coastlines)?,
        };
        let source = pictures.source();
        let grid = || output.watch.stage("density", || Grid::new(&source, &options));
        match format {
            Format::Numbers => grid()?.save(&out)?,
            Format::Regions => save_geojson(&grid()?, &out)?,
            Format::Picture => {
                if kind.is_none()
                    && let Some(sentence) = PictureKind::without_own_picture(source.manifold)
                {
                    output.remark(&sentence);
                }
                let kind = kind.unwrap_or_else(|| PictureKind::natural(source.manifold));
                output.watch.stage("picture", || draw(kind, &source, &options))?.save(&out)?;
            }
        }
        anyhow::Ok(())
    })?;
    written(&output, &out)
}

fn written(output: &Output, out: &Path) -> Result<End> {
    if output.json {
        output.line(&json!({ "out": out }).to_string())?;
    } else {
        output.remark(&format!("written to {}", out.display()));
    }
    Ok(End::Done)
}

pub(crate) fn report(args: &ReportArgs) -> Result<End> {
    let output = args.common.start()?;
    let run = StoredRun::open(&args.dir)?;
    let options = args.picture.options(args.common.seed.unwrap_or(0))?;
    let out = args.common.out.clone().unwrap_or_else(|| run.dir().file("report.html"));
    let coastlines = !args.picture.no_coastlines;
    in_pool(|| make_report(&run, &options, coastlines, &out, &output))?;
    written(&output, &out)
}

/// Writes the report of a run, evaluating it first if that has not been done.
fn make_report(
    run: &StoredRun,
    options: &Options,
    coastlines: bool,
    out: &Path,
    output: &Output,
) -> Result<()> {
    let pictures = RunPictures::rough(run, coastlines)?;
    let part = run.judged_part()?;
    let evaluation = match run.evaluation(part)? {
        Some(found) => found,
        None => run.evaluate(part, &run.settings().evaluate, 0, &output.watch)?,
    };
    let input = ReportInput {
        source: pictures.source(),
        options,
        evaluation: Some(&evaluation),
        findings: &run.data_facts()?.findings,
        config: &run.settings().to_toml()?,
        commands: &[
            "manifusion train --config config.toml --out RUN".to_owned(),
            "manifusion evaluate RUN".to_owned(),
            "manifusion report RUN".to_owned(),
        ],
        generator: concat!("manifusion ", env!("CARGO_PKG_VERSION")),
    };
    Ok(output.watch.stage("report", || write_report(out, &input))?)
}

/// A run's density under a title, in the natural kind of its manifold unless another one is asked
/// for.
pub(crate) fn panel(
    run: &StoredRun,
    title: &str,
    kind: Option<PictureKind>,
    options: &Options,
) -> Result<Picture> {
    let pictures = RunPictures::rough(run, true)?;
    let source = PlotSource { title, ..pictures.source() };
    let kind = kind.unwrap_or_else(|| PictureKind::natural(source.manifold));
    Ok(draw(kind, &source, options)?)
}

/// Picture and report of a run in its own folder, with few evaluations.
pub(crate) fn illustrate(run: &StoredRun, output: &Output) -> Result<()> {
    let options = Options { evaluations: 5000, even_spacing: true, ..Options::default() };
    let pictures = RunPictures::rough(run, true)?;
    let source = pictures.source();
    let kind = PictureKind::natural(source.manifold);
    let picture = output.watch.stage("picture", || draw(kind, &source, &options))?;
    picture.save(&run.dir().file("density.png"))?;
    make_report(run, &options, true, &run.dir().file("report.html"), output)
}
