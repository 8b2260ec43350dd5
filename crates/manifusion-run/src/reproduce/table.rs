//! Tables from a folder of results: ours, what was published, and paired differences.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use manifusion::evaluation::Evaluation;
use manifusion::stats::{Mean, mean};

use super::kinds::{Block, BothSettings, Number, Set, Table, Variant};
use super::variance::LEARNED;
use super::{TimeVariance, VarianceCurve, VariantRun, bounds_id, bounds_name};
use crate::compare::{
    Comparison, Ended, MethodRow, RunResult, Standing, paired_difference, results_in,
};
use crate::error::RunError;
use crate::folder::RunDir;

/// A table as Markdown, from a folder that has one folder of results for each set and way to run
/// it. What has no result is left open.
pub fn table_markdown(title: &str, table: &Table, results: &Path) -> Result<String, RunError> {
    let mut text = format!("# {title}\n\n");
    text += "Test negative log-likelihood in nats per point, mean ± standard deviation over the \
             seeds; lower is better. **Bold**: the best of ours, what is at most two paired \
             standard errors from it, and what is better on the seeds that both have.\n";
    let differing = table.sets.iter().filter_map(|set| Some((set.id, set.differs?)));
    for (id, differs) in differing {
        let _ = write!(text, "\n- {id}: {differs}.");
    }
    text += "\n";
    for block in table.blocks {
        let compared: Result<Vec<Option<Comparison>>, RunError> =
            table.sets.iter().map(|set| comparison(set, block, results)).collect();
        text += &block_markdown(table, block, &compared?);
        text += &bounds_markdown(table, block, results)?;
    }
    text += "\n## Notes\n\n";
    for note in table.notes {
        let _ = writeln!(text, "- {note}");
    }
    Ok(text)
}

/// What the results of a set say; none without any.
fn comparison(set: &Set, block: &Block, results: &Path) -> Result<Option<Comparison>, RunError> {
    let found = results_of(set, block.variant, results)?;
    Ok(if found.is_empty() { None } else { Some(Comparison::of(&found)?) })
}

/// The results of a set for one way to run it.
fn results_of(set: &Set, variant: &Variant, results: &Path) -> Result<Vec<RunResult>, RunError> {
    let folder = results.join(format!("{}{}", set.id, variant.suffix));
    if folder.is_dir() { results_in(&folder) } else { Ok(Vec::new()) }
}

fn line(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<String> = cells.into_iter().collect();
    format!("| {} |\n", cells.join(" | "))
}

/// Ours, then what was published; then each set's comparison.
fn block_markdown(table: &Table, block: &Block, compared: &[Option<Comparison>]) -> String {
    let mut text = format!("\n## {}\n\n", block.title);
    if compared.iter().all(Option::is_none) {
        return text + "No results yet.\n";
    }
    let heads = table.sets.iter().map(|set| set.id.to_owned());
    let words = |texts: [&str; 2]| texts.map(str::to_owned);
    let first = [String::from("method")].into_iter();
    text += &line(first.chain(heads).chain(words(["likelihood", "source"])));
    let sides = table.sets.iter().map(|_| String::from("---:"));
    text += &line([String::from("---")].into_iter().chain(sides).chain(words(["---", "---"])));
    let mut methods: Vec<&str> = Vec::new();
    for row in compared.iter().flatten().flat_map(|found| &found.methods) {
        if !methods.contains(&row.method.as_str()) {
            methods.push(&row.method);
        }
    }
    for method in &methods {
        let row = |found: &Option<Comparison>| {
            let found = found.as_ref()?;
            let row = found.methods.iter().find(|row| row.method == **method)?;
            // A mean over fewer seeds may lack the hard ones.
            let fewer = match row.seeds {
                seeds if seeds == found.seeds.len() || seeds == 0 => String::new(),
                seeds => format!(" ({seeds} of {} seeds)", found.seeds.len()),
            };
            Some(cell(row) + &fewer)
        };
        let cells = compared.iter().map(|found| row(found).unwrap_or_else(nothing));
        let name = [format!("`{method}`")];
        text += &line(name.into_iter().chain(cells).chain(words(["exact", "here"])));
        let network = |found: &Option<Comparison>| {
            let mut rows = found.as_ref()?.methods.iter();
            Some(three(rows.find(|row| row.method == **method)?.network_nll?))
        };
        let cells: Vec<Option<String>> = compared.iter().map(network).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| cell.unwrap_or_else(nothing));
            let name = [format!("first network of `{method}`")];
            text += &line(name.into_iter().chain(cells).chain(words(["exact", "here"])));
        }
    }
    let counts = |value: &dyn Fn(&Comparison) -> String| {
        let cells = compared.iter().map(|found| found.as_ref().map_or_else(nothing, value));
        cells.collect::<Vec<String>>()
    };
    let truth = counts(&|found| found.truth.map_or_else(nothing, three));
    let is_known = truth.iter().any(|cell| *cell != nothing());
    let truth = is_known.then_some(("truth", truth));
    let rows = [
        ("seeds", counts(&|found| found.seeds.len().to_string())),
        ("test points", counts(&|found| test_points(&found.test_points))),
    ];
    for (name, cells) in truth.into_iter().chain(rows) {
        text += &line([name.to_owned()].into_iter().chain(cells).chain(words(["", "here"])));
    }
    for published in block.published {
        let cells = published.values.iter().map(number);
        let last = [published.kind.text().to_owned(), published.source.to_owned()];
        text += &line([published.method.to_owned()].into_iter().chain(cells).chain(last));
    }
    for (set, found) in table.sets.iter().zip(compared) {
        if let Some(found) = found {
            let _ = write!(text, "\n### {}, {}\n\n", set.id, block.title.to_lowercase());
            text += &found.to_markdown();
        }
    }
    text
}

/// Bounds beside the exact values on the same points.
fn bounds_markdown(table: &Table, block: &Block, results: &Path) -> Result<String, RunError> {
    let mut rows = String::new();
    let Some(bounds) = &block.bounds else { return Ok(rows) };
    for set in table.sets {
        let dir = RunDir::other(&results.join(bounds_id(set, block.variant)));
        for method in bounds.methods {
            for seed in 0..bounds.seeds {
                for paths in bounds.paths_of(set, seed) {
                    let name = format!("{}.json", bounds_name(method, seed, paths));
                    let Some(found) = dir.json::<Evaluation>(&name)? else { continue };
                    rows += &bounds_row(set, &found);
                }
            }
        }
    }
    if rows.is_empty() {
        return Ok(rows);
    }
    let heads = [
        "set",
        "method",
        "seed",
        "points",
        "K",
        "exact (ODE)",
        "KELBO",
        "− exact",
        "with doubled steps",
        "ELBO",
    ];
    let mut text =
        format!("\n### Bounds beside exact likelihoods, {}\n\n", block.title.to_lowercase());
    text += "NLL in nats per point on the same test points; a bound is not below the NLL of its own, \
             stochastic model, which is that of the ODE only where the score is exact.\n\n";
    text += &line(heads.map(str::to_owned));
    text += &line(heads.map(|_| String::from("---:")));
    Ok(text + &rows)
}

fn bounds_row(set: &Set, found: &Evaluation) -> String {
    let with = |value: Option<f64>, se: Option<f64>| {
        with_error(value.map(|value| Mean { value, se: se.unwrap_or(f64::NAN), n: found.n }))
    };
    line([
        set.id.to_owned(),
        format!("`{}`", found.method),
        found.seed.map_or_else(nothing, |seed| seed.to_string()),
        found.bound_points.to_string(),
        found.kelbo_k.map_or_else(nothing, |k| k.to_string()),
        with(found.nll_on_bound_points, None),
        with(found.kelbo_nll, found.kelbo_nll_se),
        with(found.kelbo_gap(), found.kelbo_gap_se),
        with(found.kelbo_nll_doubled_steps, None),
        with(found.elbo_nll, found.elbo_nll_se),
    ])
}

/// Runs that differ in a setting, as Markdown: likelihoods over the seeds, the loss of the first
/// seed in the second half of the training, and times of training.
pub fn variants_markdown(title: &str, runs: &[VariantRun]) -> Result<String, RunError> {
    let mut text = format!("# {title}\n\n");
    text += "Test negative log-likelihood in nats per point, mean ± standard deviation over the \
             seeds; all runs have as many training steps. Training loss: mean over the second half \
             of the steps, seed 0, and its difference to the first run over the same steps, with \
             the standard error over the stretches that it is recorded for.\n\n";
    let heads =
        ["run", "seeds", "test NLL", "training loss", "− that of the first", "training (s)"];
    text += &line(heads.map(str::to_owned));
    text += &line(heads.map(|_| String::from("---:")));
    let mut first: Option<BTreeMap<u64, f64>> = None;
    for run in runs {
        let losses = late_losses(run)?;
        let loss = average(losses.values().copied());
        let difference = first.as_ref().and_then(|first| {
            let both = losses.iter().filter_map(|(step, loss)| Some(loss - first.get(step)?));
            average(both)
        });
        first.get_or_insert(losses);
        for row in &run.comparison.methods {
            let seconds = row.train_seconds.map_or_else(nothing, |s| format!("{s:.1}"));
            let nll = MethodRow { standing: Standing::Worse, ..row.clone() };
            text += &line([
                run.title.to_owned(),
                row.seeds.to_string(),
                cell(&nll),
                with_error(loss),
                with_error(difference),
                seconds,
            ]);
        }
    }
    Ok(text)
}

/// The losses that are recorded in the second half of a training, by their steps.
fn late_losses(run: &VariantRun) -> Result<BTreeMap<u64, f64>, RunError> {
    let rows = run.stored.curves()?.rows;
    let half = rows.last().map_or(0, |row| row.step / 2);
    Ok(rows.iter().filter_map(|row| Some((row.step, row.loss?))).filter(|r| r.0 > half).collect())
}

/// The mean of what there is.
fn average(values: impl Iterator<Item = f64>) -> Option<Mean> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| mean(&values))
}

/// Runs of a method with our settings and with the paper's, as Markdown, from a folder that has one
/// folder of results for each set and way to run it. Sets without both are left out.
pub fn settings_markdown(
    title: &str,
    method: &str,
    sets: &[BothSettings],
    results: &Path,
) -> Result<String, RunError> {
    let mut text = format!("# {title}\n\n");
    text += "Test negative log-likelihood in nats per point of seed 0, the paired difference with \
             its standard error over the test points, and seconds of training.\n\n";
    let heads = [
        "set",
        "our settings",
        "the paper's settings",
        "− ours",
        "training (s), ours",
        "the paper's",
    ];
    text += &line(heads.map(str::to_owned));
    text += &line(heads.map(|_| String::from("---:")));
    for BothSettings { set, ours, paper } in sets {
        let of = |variant| -> Result<Vec<RunResult>, RunError> {
            let mut found = results_of(set, variant, results)?;
            found.retain(|result| result.method == method && result.seed == 0);
            Ok(found)
        };
        let (ours, paper) = (of(ours)?, of(paper)?);
        let ([our_run], [paper_run]) = (&ours[..], &paper[..]) else { continue };
        let nll = |run: &RunResult| match &run.ended {
            Ended::Measured(run) => finite(run.evaluation.nll),
            Ended::Failed(_) => String::from("failed"),
        };
        let seconds = |run: &RunResult| match &run.ended {
            Ended::Measured(run) => {
                run.evaluation.train_seconds.map_or_else(nothing, |s| format!("{s:.0}"))
            }
            Ended::Failed(_) => nothing(),
        };
        text += &line([
            set.id.to_owned(),
            nll(our_run),
            nll(paper_run),
            with_error(paired_difference(&paper, &ours)?),
            seconds(our_run),
            seconds(paper_run),
        ]);
    }
    Ok(text)
}

/// Variances of several losses, each with one measurement for every seed, as Markdown.
pub fn time_variance_markdown(title: &str, found: &[(&Variant, Vec<TimeVariance>)]) -> String {
    let mut text = format!(
        "# {title}\n\nVariance of ℓ(s, Y_s)/q(s), s ~ q, on the network that is trained with the \
         learned q, by quadrature in log s. Losses by the same quadrature, and test NLL by the ODE, \
         of networks that are trained with each q. Least: what no q falls below. Means over the \
         seeds, with standard errors; differences are paired.\n"
    );
    for (variant, seeds) in found {
        let _ = write!(text, "\n## {}\n\n{}", variant.title, time_variance_table(seeds));
    }
    text
}

/// Variances at the end and over the training, and how many times the least possible one they are.
fn time_variance_table(seeds: &[TimeVariance]) -> String {
    let Some(first) = seeds.first() else { return String::new() };
    let steps = first.steps.last().copied().unwrap_or(0);
    let TimeVariance { nodes, paths, s_min, t_end, batch, .. } = first;
    let mut text = format!(
        "{nodes} nodes from s = {s_min} to {t_end}, {paths} paths at each; {steps} steps of {batch} \
         rows; seeds: {}.\n\n",
        seeds.len()
    );
    let heads = [
        "times",
        "variance at the end (nats²)",
        "× the least possible",
        "× learned",
        "the same, mean over the training",
        "loss at the end (nats)",
        "− that of learned",
        "test NLL",
        "− that of learned",
    ];
    text += &line(heads.map(str::to_owned));
    text += &line(heads.map(|_| String::from("---:")));
    for (place, curve) in first.variances.iter().enumerate() {
        let over = |value: &dyn Fn(&TimeVariance) -> Option<f64>| -> Option<Mean> {
            average(seeds.iter().filter_map(value))
        };
        let last = |curve: Option<&VarianceCurve>| curve?.values.last().copied();
        let own = |one: &TimeVariance| last(one.variances.get(place));
        let learned = |one: &TimeVariance| one.variances.iter().position(|c| c.name == LEARNED);
        let loss = |one: &TimeVariance, place: usize| last(one.losses.get(place));
        let nll = |one: &TimeVariance, place: usize| one.test_nll.get(place).copied();
        let along = |one: &TimeVariance| {
            let (own, learned) =
                (&one.variances[place].values, &one.variances[learned(one)?].values);
            let ratios: f64 = own.iter().zip(learned).map(|(own, learned)| own / learned).sum();
            Some(ratios / own.len() as f64)
        };
        let is_learned = curve.name == LEARNED;
        text += &line([
            curve.name.clone(),
            over(&own).map_or_else(nothing, |v| format!("{:.4e}", v.value)),
            with_error(over(&|one| Some(own(one)? / last(one.variances.last())?))),
            with_error(over(&|one| Some(own(one)? / last(one.variances.get(learned(one)?))?))),
            with_error(over(&along)),
            with_error(over(&|one| loss(one, place))),
            with_error(over(&|one| {
                Some(loss(one, place)? - loss(one, learned(one)?)?).filter(|_| !is_learned)
            })),
            with_error(over(&|one| nll(one, place))),
            with_error(over(&|one| {
                Some(nll(one, place)? - nll(one, learned(one)?)?).filter(|_| !is_learned)
            })),
        ]);
    }
    text
}

/// A mean with its standard error where it has one.
fn with_error(found: Option<Mean>) -> String {
    match found {
        Some(found) if found.se.is_finite() => format!("{} ± {:.3}", three(found.value), found.se),
        Some(found) => three(found.value),
        None => nothing(),
    }
}

fn nothing() -> String {
    String::from("–")
}

/// An NLL, which is infinite for a density of zero.
fn finite(nll: f64) -> String {
    if nll.is_finite() { three(nll) } else { String::from("∞") }
}

/// Three decimals and a minus sign.
fn three(value: f64) -> String {
    format!("{value:.3}").replace('-', "−")
}

fn cell(row: &MethodRow) -> String {
    let Some(nll) = row.nll else { return String::from("failed") };
    let value = finite(nll);
    let value = match row.standing {
        Standing::Best | Standing::Better | Standing::Tie => format!("**{value}**"),
        Standing::Worse | Standing::Failed => value,
    };
    match row.nll_std.filter(|std| std.is_finite()) {
        Some(std) => format!("{value} ± {std:.3}"),
        None => value,
    }
}

/// A published number, with two decimals as it is printed (three where the spread has them).
fn number(value: &Number) -> String {
    match value {
        None => nothing(),
        Some((mean, None)) => format!("{mean:.2}").replace('-', "−"),
        Some((mean, Some(std))) => {
            let digits = if (std * 100.0 - (std * 100.0).round()).abs() > 1e-9 { 3 } else { 2 };
            format!("{mean:.2} ± {std:.digits$}").replace('-', "−")
        }
    }
}

fn test_points(counts: &[usize]) -> String {
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least == most => most.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => nothing(),
    }
}
