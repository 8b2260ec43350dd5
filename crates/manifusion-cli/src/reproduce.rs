//! `manifusion reproduce`: the paper's tables and figures.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::builder::{PossibleValue, PossibleValuesParser};
use manifusion::atomic::write_atomic;
use manifusion::parallel::in_pool;
use manifusion::train::MetricsRow;
use manifusion_plot::{
    AxisScale, Chart, ChartLine, LINE_COLOURS, Options, Picture, PictureKind, PlotError,
    Projections, draw_charts, draw_projections,
};
use manifusion_run::StoredRun;
use manifusion_run::reproduce::{
    Content, Figure, PanelKind, PanelRun, Reproduction, Set, TARGETS, Target, TimeVariance,
    VarianceCurve, Variant, VariantRun, Wanted, data_folder, settings_markdown, targets,
    time_variance_markdown, variants_markdown,
};
use serde_json::json;

use crate::common::{Common, End, Output};
use crate::plot::panel;
use crate::train::methods;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to reproduce.
    #[arg(value_parser = names())]
    target: String,
    /// Minutes of each training.
    #[arg(long, value_name = "M", default_value_t = 10.0, allow_negative_numbers = true)]
    budget_minutes: f64,
    /// Seeds from 0 on, each with a split of its own; no more than a table (5 or 3) or a figure (3)
    /// has.
    #[arg(long, value_name = "N", default_value_t = 5)]
    seeds: u64,
    /// The folder of the data files [default: MANIFUSION_DATA, else ../shared/data].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only these methods of a table, separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = methods())]
    methods: Vec<String>,
    /// Only these sets, separated by commas.
    #[arg(long, value_delimiter = ',')]
    sets: Vec<String>,
    /// Runs side by side, which share the threads [default: one per thread].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    common: Common,
}

/// The targets, and all of them.
fn names() -> PossibleValuesParser {
    let each = TARGETS.iter().map(|target| PossibleValue::new(target.name).help(target.title));
    PossibleValuesParser::new(each.chain([PossibleValue::new("all").help("Everything")]))
}

pub(crate) fn run(args: &Args) -> Result<End> {
    if args.common.seed.is_some() {
        bail!("--seed has no meaning here: the seeds are 0 to N − 1 of --seeds N");
    }
    let output = args.common.start()?;
    let out = args.common.out.clone().context("--out DIR is needed: the folder of the results")?;
    let environment = std::env::var_os("MANIFUSION_DATA").map(PathBuf::from);
    let wanted = Wanted {
        data: data_folder(args.data.clone(), environment),
        out,
        minutes: args.budget_minutes,
        seeds: args.seeds,
        methods: args.methods.clone(),
        sets: args.sets.clone(),
        jobs: args.jobs,
    };
    let remark = |text: &str| output.remark(text);
    let mut work = Reproduction::new(&wanted, &output.watch, &remark)?;
    let mut written = Vec::new();
    let wanted_targets = targets(&args.target);
    let ids = || wanted_targets.iter().flat_map(|target| target.sets()).map(|set| set.id);
    if !wanted.sets.is_empty() && ids().all(|id| !wanted.sets.iter().any(|own| own == id)) {
        let has: Vec<&str> = ids().collect();
        let has = if has.is_empty() { String::from("none") } else { has.join(", ") };
        bail!(
            "--sets {}: {} has none of them; its sets: {has}",
            wanted.sets.join(","),
            args.target
        );
    }
    for target in wanted_targets {
        if work.is_stopped() {
            break;
        }
        let files = make(&mut work, target, &wanted, &output)?;
        for file in &files {
            output.remark(&format!("written: {}", wanted.out.join(file).display()));
        }
        written.extend(files);
    }
    if output.json {
        let found = json!({ "out": wanted.out, "written": written, "left_out": work.left_out });
        output.line(&found.to_string())?;
    }
    if work.is_stopped() {
        output.remark("stopped; the same call goes on");
        return Ok(End::Stopped);
    }
    Ok(if work.left_out.is_empty() { End::Done } else { End::Negative })
}

/// Makes a target; the names of its files.
fn make(
    work: &mut Reproduction<'_>,
    target: &'static Target,
    wanted: &Wanted,
    output: &Output,
) -> Result<Vec<String>> {
    let save = |name: String, bytes: &[u8]| -> Result<String> {
        let path = wanted.out.join(&name);
        write_atomic(&path, bytes).with_context(|| format!("writing {}", path.display()))?;
        Ok(name)
    };
    let (picture, numbers) = match &target.content {
        Content::Table(table) => {
            let text = work.table(target, table)?;
            if !output.json {
                output.line(text.trim_end())?;
            }
            return Ok(vec![format!("{}.md", target.name)]);
        }
        Content::Figure(Figure::Densities { method, variant, sets, kind, columns }) => {
            let runs = work.density_runs(method, variant, sets)?;
            if runs.is_empty() || work.is_stopped() {
                return Ok(Vec::new());
            }
            let drawn =
                output.watch.stage("pictures", || densities(target, &runs, *kind, *columns));
            (drawn?, None)
        }
        Content::Figure(Figure::TimeVariance { set, variants }) => {
            let mut found = Vec::new();
            for variant in *variants {
                let Some(seeds) = work.time_variance(target, set, variant)? else {
                    return Ok(Vec::new());
                };
                found.push((variant, seeds));
            }
            let numbers = time_variance_markdown(target.title, &found);
            (time_variance(target, &found)?, Some(numbers))
        }
        Content::Figure(Figure::Variants { set, method, variants }) => {
            let runs = work.variant_runs(set, method, variants)?;
            if runs.is_empty() || work.is_stopped() {
                return Ok(Vec::new());
            }
            (curves(target, &runs)?, Some(variants_markdown(target.title, &runs)?))
        }
        Content::Figure(Figure::Settings { method, sets }) => {
            let runs = work.settings_runs(method, sets)?;
            if runs.is_empty() || work.is_stopped() {
                return Ok(Vec::new());
            }
            let numbers = settings_markdown(target.title, method, sets, &work.results())?;
            (settings(target, &runs)?, Some(numbers))
        }
        Content::Figure(Figure::Projection { point }) => {
            let found = Projections::of(*point)?;
            (draw_projections(target.title, &found, WIDTH)?, None)
        }
    };
    let mut files = vec![save(format!("{}.png", target.name), &picture.to_png()?)?];
    if let Some(text) = numbers {
        if !output.json {
            output.line(text.trim_end())?;
        }
        files.push(save(format!("{}.md", target.name), text.as_bytes())?);
    }
    Ok(files)
}

/// Width of a picture in pixels, and of one with panels side by side.
const WIDTH: u32 = 1350;
const WIDE: u32 = 2000;
/// Evaluations of a density for a panel.
const EVALUATIONS: usize = 10_000;

/// One picture of the densities of runs.
fn densities(
    target: &Target,
    runs: &[PanelRun],
    kind: PanelKind,
    columns: usize,
) -> Result<Picture> {
    let options = Options {
        width: WIDTH,
        evaluations: EVALUATIONS,
        even_spacing: true,
        ..Options::default()
    };
    let mut panels = Vec::new();
    for run in runs {
        let stored = StoredRun::open(&run.folder)?;
        // A figure of one panel has one title.
        let title = if runs.len() == 1 { target.title } else { &run.title };
        let kind = match kind {
            PanelKind::Natural => None,
            PanelKind::Euler => Some(PictureKind::Euler),
        };
        panels.push(in_pool(|| panel(&stored, title, kind, &options))?);
    }
    if panels.len() == 1 {
        return Ok(panels.remove(0));
    }
    // Disks leave a third of their width free.
    let margin = if columns > 2 { 140.0 } else { 0.0 };
    let width = if columns > 2 { WIDE * 5 / 4 } else { WIDE };
    Ok(Picture::side_by_side(target.title, &panels, columns, margin, width)?)
}

/// Proposals of times beside the least possible variance, which comes last.
const PROPOSALS: usize = 3;

fn line(place: usize, name: &str, points: Vec<[f64; 2]>) -> ChartLine {
    let colour = LINE_COLOURS[place % LINE_COLOURS.len()];
    ChartLine { name: name.to_owned(), colour, points }
}

/// Charts of each loss, of its first seed.
fn time_variance(target: &Target, found: &[(&Variant, Vec<TimeVariance>)]) -> Result<Picture> {
    let first = found.iter().filter_map(|(variant, seeds)| Some((variant, seeds.first()?)));
    let panels: Result<Vec<Picture>, PlotError> = first
        .map(|(variant, found)| draw_charts(variant.title, &variance_charts(found), WIDTH))
        .collect();
    Ok(Picture::side_by_side(target.title, &panels?, 2, 0.0, WIDE)?)
}

/// Variances and losses over training, and the proposal that was learned.
fn variance_charts(found: &TimeVariance) -> [Chart; 4] {
    let of = |curves: &[VarianceCurve], divided_by: Option<&VarianceCurve>| -> Vec<ChartLine> {
        let value = |i: usize, value: f64| match divided_by {
            Some(other) => value / other.values[i],
            None => value,
        };
        let points = |values: &[f64]| {
            let steps = found.steps.iter().zip(values).enumerate();
            steps.map(|(i, (step, v))| [*step as f64, value(i, *v)]).collect()
        };
        let lines = curves.iter().enumerate();
        lines.map(|(i, curve)| line(i, &curve.name, points(&curve.values))).collect()
    };
    let per_decade: Vec<[f64; 2]> = found.proposal.iter().map(|[s, q]| [*s, s * q]).collect();
    let span = found.t_end - found.s_min;
    let uniform = found.proposal.iter().map(|[s, _]| [*s, s / span]).collect();
    let logarithmic = 1.0 / (found.t_end / found.s_min).ln();
    let log_uniform = found.proposal.iter().map(|[s, _]| [*s, logarithmic]).collect();
    let chart = |title: &str, y: &str, y_scale, lines| Chart {
        title: title.to_owned(),
        x: String::from("step"),
        y: y.to_owned(),
        x_scale: AxisScale::Linear,
        y_scale,
        noisy: false,
        lines,
    };
    [
        chart(
            "Variance of the estimator",
            "nats², log scale",
            AxisScale::Logarithmic,
            of(&found.variances, None),
        ),
        chart(
            "Variance over the least possible",
            "ratio, log scale",
            AxisScale::Logarithmic,
            of(&found.variances[..PROPOSALS], found.variances.last()),
        ),
        chart(
            "Loss of a network for each q",
            "nats, by quadrature",
            AxisScale::Linear,
            of(&found.losses, None),
        ),
        Chart {
            x: String::from("s, log scale"),
            x_scale: AxisScale::Logarithmic,
            ..chart(
                "Proposals at the end",
                "s·q(s)",
                AxisScale::FromZero,
                vec![
                    line(0, "uniform", uniform),
                    line(1, "log-uniform", log_uniform),
                    line(2, "learned", per_decade),
                ],
            )
        },
    ]
}

/// Validation over time with our settings and with the paper's.
fn settings(target: &Target, runs: &[(&Set, [VariantRun; 2])]) -> Result<Picture> {
    let mut charts = Vec::new();
    for (set, both) in runs {
        let mut lines = Vec::new();
        for (i, run) in both.iter().enumerate() {
            let rows = run.stored.curves()?.rows;
            let validation = |row: &MetricsRow| Some([row.seconds, row.validation_nll?]);
            lines.push(line(i, run.title, rows.iter().filter_map(validation).collect()));
        }
        charts.push(Chart {
            title: set.title.to_owned(),
            x: String::from("seconds since the start"),
            y: String::from("validation NLL, nats per point"),
            x_scale: AxisScale::Linear,
            y_scale: AxisScale::Linear,
            noisy: false,
            lines,
        });
    }
    Ok(draw_charts(target.title, &charts, WIDTH)?)
}

/// Loss and validation of runs over steps and over time.
fn curves(target: &Target, runs: &[VariantRun]) -> Result<Picture> {
    let mut rows = Vec::new();
    for run in runs {
        rows.push(run.stored.curves()?.rows);
    }
    let lines = |value: &dyn Fn(&MetricsRow) -> Option<[f64; 2]>| -> Vec<ChartLine> {
        let each = runs.iter().zip(&rows).enumerate();
        each.map(|(i, (run, rows))| line(i, run.title, rows.iter().filter_map(value).collect()))
            .collect()
    };
    let chart = |title: &str, x: &str, y: &str, noisy, lines| Chart {
        title: title.to_owned(),
        x: x.to_owned(),
        y: y.to_owned(),
        x_scale: AxisScale::Linear,
        y_scale: AxisScale::Linear,
        noisy,
        lines,
    };
    let charts = [
        chart("Loss", "step", "nats", true, lines(&|row| Some([row.step as f64, row.loss?]))),
        chart(
            "Validation NLL",
            "step",
            "nats per point",
            false,
            lines(&|row| Some([row.step as f64, row.validation_nll?])),
        ),
        chart(
            "Loss",
            "seconds since the start",
            "nats",
            true,
            lines(&|row| Some([row.seconds, row.loss?])),
        ),
        chart(
            "Validation NLL",
            "seconds since the start",
            "nats per point",
            false,
            lines(&|row| Some([row.seconds, row.validation_nll?])),
        ),
    ];
    Ok(draw_charts(target.title, &charts, WIDTH)?)
}
