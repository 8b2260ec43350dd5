//! `manifusion evaluate`: every number that a run is judged by, with its error.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use manifusion::data::Synthetic;
use manifusion::density::Density;
use manifusion::likelihood::{BoundOptions, bounds, log_density};
use manifusion::manifold::{Family, Hyperboloid, Manifold, Metric};
use manifusion::mass::{MassKind, total_mass};
use manifusion::model::Diffusion;
use manifusion::rows::Rows;
use manifusion::sample::SampleOptions;
use manifusion::stats::{Mean, bootstrap_interval, mean};
use serde_json::{Map, Value, json};

use crate::common::{Common, Output};
use crate::model::TrainedModel;
use crate::run::RunDir;
use crate::settings::{GuideKind, Method, file_name};
use crate::source::{Part, synthetic_name};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder.
    dir: PathBuf,
    /// Which part of the data.
    #[arg(long, value_enum, default_value_t = Part::Test)]
    split: Part,
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

pub(crate) fn run(args: &Args) -> Result<bool> {
    let output = args.common.start()?;
    let dir = RunDir::open(&args.dir)?;
    let mut model = TrainedModel::load(&dir)?;
    let choices = &mut model.settings.evaluate;
    choices.tolerance = args.tolerance.unwrap_or(choices.tolerance);
    choices.bound_points = args.bound_points.unwrap_or(choices.bound_points);
    choices.mass_points = args.mass_points.unwrap_or(choices.mass_points);
    let report = evaluate(&dir, &model, args.split, args.common.seed.unwrap_or(0))?;
    show(&output, &report)?;
    Ok(true)
}

/// Evaluates a run and writes `eval.json` (for another part than the test points, `eval-PART.json`).
pub(crate) fn evaluate(dir: &RunDir, model: &TrainedModel, part: Part, seed: u64) -> Result<Value> {
    let start = Instant::now();
    let (settings, split) = (&model.settings, dir.split()?);
    let m = model.manifold.ambient_dim();
    let points = dir.part(part)?;
    let x = Rows::new(&points, m)?;
    let mut report = Map::new();
    let mut put = |name: &str, value: Value| {
        report.insert(name.to_owned(), value);
    };
    let source = settings.data.source.as_deref().unwrap_or_default();
    put("method", json!(settings.method));
    put("manifold", json!(settings.manifold));
    put("dataset", json!(file_name(source)));
    put("split", json!(part));
    put("seed", json!(settings.seed));
    put("dedup", json!(settings.data.dedup));
    put("n", json!(x.len()));
    let nll_of = |log_p: &[f64]| log_p.iter().map(|v| -v).collect::<Vec<f64>>();
    let negated = if let Some(diffusion) = &model.diffusion {
        let found = log_density(diffusion, x, &model.likelihood())?;
        put("nll_kind", json!("ode"));
        put("evaluations", json!(found.stats.evaluations as f64 / x.len() as f64));
        nll_of(&found.log_p)
    } else {
        put("nll_kind", json!("closed-form"));
        put("evaluations", json!(1.0));
        nll_of(&model.density(SampleOptions::default())?.log_density(x)?)
    };
    let nll = mean(&negated);
    let interval = bootstrap_interval(&negated, 0.95, settings.evaluate.bootstrap, seed);
    put("nll", json!(nll.value));
    put("nll_se", json!(nll.se));
    put("nll_interval_95", json!([interval.0, interval.1]));
    let is_rdm = settings.method == Method::Rdm;
    put("guide", json!(settings.model.guide.unwrap_or(GuideKind::None)));
    put("loss", if is_rdm { json!(settings.train.loss) } else { Value::Null });
    put("s_min", if is_rdm { json!(settings.model.s_min) } else { Value::Null });
    put("t_end", if is_rdm { json!(settings.model.t_end) } else { Value::Null });
    put("tolerance", if is_rdm { json!(settings.evaluate.tolerance) } else { Value::Null });
    if let Some(diffusion) = &model.diffusion {
        for (name, value) in bound_values(diffusion, x, &negated, model, seed)? {
            put(&name, value);
        }
    } else {
        for name in ["kelbo_k"].into_iter().chain(BOUNDS) {
            put(name, Value::Null);
        }
    }
    for (name, value) in mass_values(model, seed)? {
        put(&name, value);
    }
    put("measure", json!(measure(model.manifold.as_ref())));
    if let Some((name, change)) = other_measure(model.manifold.as_ref(), x)? {
        put("other_measure", json!(name));
        put("nll_other_measure", json!(nll.value - change));
    }
    put("uniform_nll", json!(model.manifold.log_volume()));
    let kernel = model.kernel.as_ref().map(|kernel| kernel.log_density(x)).transpose()?;
    let kernel = kernel.map(|log_p| mean(&nll_of(&log_p)));
    put("kernel_nll", json!(kernel.map(|k| k.value)));
    put("kernel_nll_se", json!(kernel.map(|k| k.se)));
    let guide = model.guide.as_ref().map(|guide| guide.log_density(x)).transpose()?;
    put("guide_nll", json!(guide.map(|log_p| mean(&nll_of(&log_p)).value)));
    let truth = synthetic_name(source).map(|name| -> Result<Mean> {
        let set = Synthetic::new(name)?.on(&model.manifold)?;
        Ok(mean(&x.rows().map(|x| -set.log_density(x)).collect::<Vec<_>>()))
    });
    put("true_nll", json!(truth.transpose()?.map(|t| t.value)));
    put("test_in_train", json!(split.test_in_train_share()));
    let summary = dir.json("summary.json").unwrap_or(Value::Null);
    put("train_seconds", summary.get("train_seconds").cloned().unwrap_or(Value::Null));
    put("train_threads", summary.get("threads").cloned().unwrap_or(Value::Null));
    put("threads", json!(rayon::current_num_threads()));
    // Of the run, whatever this evaluation was asked for beyond it.
    put("config_hash", json!(dir.settings()?.hash()?));
    put("split_hash", json!(split.hash()));
    put("eval_seconds", json!(start.elapsed().as_secs_f64()));
    put("version", json!(env!("CARGO_PKG_VERSION")));
    let report = Value::Object(report);
    let name = match part {
        Part::Test => String::from("eval.json"),
        other => format!("eval-{other}.json"),
    };
    dir.write_json(&name, &report)?;
    Ok(report)
}

/// The bounds, negated.
const BOUNDS: [&str; 3] = ["elbo_nll", "kelbo_nll", "kelbo_nll_halved_steps"];

/// ELBO and KELBO on a part of the points, and the ODE's value on the same part.
fn bound_values(
    diffusion: &Diffusion,
    x: Rows<'_>,
    negated: &[f64],
    model: &TrainedModel,
    seed: u64,
) -> Result<Vec<(String, Value)>> {
    let wanted = model.settings.evaluate.bound_points.min(x.len());
    let mut out = Vec::new();
    let mut put = |name: &str, value: Value| out.push((name.to_owned(), value));
    put("bound_points", json!(wanted));
    put("kelbo_k", json!(model.settings.evaluate.kelbo_paths));
    if wanted == 0 {
        for name in BOUNDS {
            put(name, Value::Null);
        }
        return Ok(out);
    }
    // Test points are in random order already.
    let some = Rows::new(&x.as_slice()[..wanted * x.width()], x.width())?;
    let num_paths = model.settings.evaluate.kelbo_paths;
    let options = BoundOptions { num_paths, seed, ..BoundOptions::default() };
    let found = bounds(diffusion, some, &options)?;
    let halved = found.kelbo_halved.unwrap_or_default();
    for (name, values) in BOUNDS.into_iter().zip([found.elbo, found.kelbo, halved]) {
        let value = mean(&values.iter().map(|v| -v).collect::<Vec<_>>());
        put(name, json!(value.value));
        put(&format!("{name}_se"), json!(value.se));
    }
    put("nll_on_bound_points", json!(mean(&negated[..wanted]).value));
    Ok(out)
}

fn mass_values(model: &TrainedModel, seed: u64) -> Result<Vec<(String, Value)>> {
    let budget = model.settings.evaluate.mass_points;
    if budget == 0 {
        return Ok(["mass", "mass_se", "mass_kind"].map(|n| (n.to_owned(), Value::Null)).into());
    }
    let density = model.density(SampleOptions::default())?;
    // A mixture checked by itself would have mass one whatever it is.
    let wide = match (&model.diffusion, &model.kernel) {
        (None, Some(kernel)) => Some(Arc::new(kernel.widened(1.5)?)),
        _ => None,
    };
    let near = wide.as_ref().or(model.guide.as_ref()).or(model.kernel.as_ref());
    let near = near.map(|kernel| kernel.as_ref() as &dyn Density);
    let mass = total_mass(density.as_ref(), near, model.prior.as_ref(), budget, seed)?;
    let kind = match mass.kind {
        MassKind::Quadrature => "quadrature",
        MassKind::Importance => "importance sampling",
    };
    Ok(vec![
        ("mass".into(), json!(mass.value)),
        ("mass_se".into(), json!(mass.se)),
        ("mass_kind".into(), json!(kind)),
    ])
}

const G_E: &str = "volume of the metric induced from the Euclidean space (g_E)";
const G_L: &str = "volume of the Lorentz metric (g_L)";

/// The measure that densities refer to.
pub(crate) fn measure(manifold: &dyn Manifold) -> &'static str {
    match manifold.family() {
        Family::Sphere { .. } => "area of the unit sphere",
        Family::Torus { .. } => "product of angles in radians",
        Family::Hyperboloid { metric: Metric::Euclidean, .. } => G_E,
        Family::Hyperboloid { metric: Metric::Lorentz, .. } => G_L,
        Family::Orthogonal { .. } => "volume of the metric induced from matrices (Frobenius)",
        Family::Euclidean { .. } => "Lebesgue measure",
        _ => "Riemannian volume of the induced metric",
    }
}

/// The other usual measure of a manifold, and the mean change of log p into it.
fn other_measure(manifold: &dyn Manifold, x: Rows<'_>) -> Result<Option<(&'static str, f64)>> {
    Ok(match manifold.family() {
        Family::Hyperboloid { dim, curvature, metric } => {
            let space = Hyperboloid::new(dim, curvature)?;
            let changes: Vec<f64> = x.rows().map(|x| space.log_lorentz_over_euclid(x)).collect();
            let change = mean(&changes).value;
            Some(match metric {
                Metric::Euclidean => (G_L, change),
                Metric::Lorentz => (G_E, -change),
            })
        }
        // A rotation by ω moves a matrix by √2 ω, in each of three directions.
        Family::Orthogonal { n: 3, .. } => {
            Some(("volume of the rotation-angle metric, total 8 pi^2", 1.5 * 2f64.ln()))
        }
        _ => None,
    })
}

/// Prints a report, as JSON or as a table.
pub(crate) fn show(output: &Output, report: &Value) -> Result<()> {
    if output.json {
        return output.line(&report.to_string());
    }
    let number = |name: &str| report.get(name).and_then(Value::as_f64);
    let text = |name: &str| report.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
    output.line(&format!(
        "{} on {}, {} points of {} ({})",
        text("method"),
        text("manifold"),
        report.get("n").and_then(Value::as_u64).unwrap_or(0),
        text("dataset"),
        text("split"),
    ))?;
    let with_se = |name: &str| {
        let value = number(name)?;
        let se = number(&format!("{name}_se"));
        Some(se.map_or(format!("{value:9.4}"), |se| format!("{value:9.4} ± {se:.4}")))
    };
    let bound_note = number("nll_on_bound_points")
        .map(|nll| {
            let n = report.get("bound_points").and_then(Value::as_u64).unwrap_or(0);
            format!("on {n} points, where the exact value is {nll:.4}")
        })
        .unwrap_or_default();
    let kind = match text("nll_kind").as_str() {
        "ode" => {
            format!("exact, by the ODE (tolerance {:e})", number("tolerance").unwrap_or(f64::NAN))
        }
        _ => String::from("exact, closed form"),
    };
    let off = |mass: f64, se: f64| (mass - 1.0).abs() > 3.0 * se + 0.005;
    let mass_note = match (number("mass"), number("mass_se")) {
        (Some(mass), Some(se)) if off(mass, se) => {
            "; not 1 within its error: there is mass where few points were tried, or the model is poor"
        }
        _ => "",
    };
    let rows = [
        ("NLL", "nll", kind),
        ("KELBO", "kelbo_nll", bound_note.clone()),
        ("  with halved steps", "kelbo_nll_halved_steps", String::new()),
        ("ELBO", "elbo_nll", bound_note),
        ("NLL, other measure", "nll_other_measure", text("other_measure")),
        ("kernel mixture", "kernel_nll", String::from("same points, no network")),
        ("uniform", "uniform_nll", String::new()),
        ("truth", "true_nll", String::from("of the law that made the data")),
        ("mass", "mass", text("mass_kind") + mass_note),
    ];
    for (label, name, note) in rows {
        if let Some(value) = with_se(name) {
            output.line(format!("  {label:<20} {value:<20} {note}").trim_end())?;
        }
    }
    output.line(&format!("  in nats per point; measure: {}", text("measure")))
}
