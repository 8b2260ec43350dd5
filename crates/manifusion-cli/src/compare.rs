//! `manifusion compare`: methods beside each other over several seeds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use manifusion::atomic::write_atomic;
use manifusion_plot::{ComparedMethod, Picture, draw_comparison};
use manifusion_run::{Comparison, MethodRow, Plan, Standing, compare};

use crate::common::{Common, End};
use crate::data::{DataArgs, DivisionArgs};
use crate::train::{BudgetArgs, methods, written};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    division: DivisionArgs,
    /// The methods, separated by commas.
    #[arg(long, required = true, value_delimiter = ',', value_parser = methods())]
    methods: Vec<String>,
    /// How many seeds, each with a split of its own [default: 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=10_000))]
    seeds: Option<u64>,
    /// Splits to use instead, one file per seed: columns row (from 0) and part (train, validation,
    /// test).
    #[arg(long, value_name = "FILE", num_args = 1..)]
    splits: Vec<PathBuf>,
    /// A TOML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, of every method that has it (train.batch=256) or of one (rdm.train.batch=256);
    /// may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    budget: BudgetArgs,
    /// Runs side by side, which share the threads [default: one per thread].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    common: Common,
}

/// Seeds where nothing else is said.
const SEEDS: u64 = 3;

pub(crate) fn run(args: &Args) -> Result<End> {
    let output = args.common.start()?;
    let out = args.common.out.as_deref().context("--out DIR is needed: the folder of the runs")?;
    let found = compare(&plan(args)?, out, &output.watch, &|text| output.remark(text))?;
    let drawn = draw(&found, out)?;
    if output.json {
        output.line(&serde_json::to_string(&found)?)?;
    } else if !found.methods.is_empty() {
        output.line(&found.to_string())?;
    }
    let place = out.display();
    if found.runs_left > 0 {
        output
            .remark(&format!("stopped with {} runs left; the same call goes on", found.runs_left));
        return Ok(End::Stopped);
    }
    let pictures = if drawn { " .png .svg" } else { "" };
    output.remark(&format!("tables in {place}: comparison.md .csv .json{pictures}"));
    Ok(End::Done)
}

/// File, then `--set`, then the flags.
fn plan(args: &Args) -> Result<Plan> {
    let mut config = written(args.config.as_deref(), &args.set)?;
    args.data.apply(&mut config);
    args.division.apply(&mut config);
    args.budget.apply(&mut config)?;
    args.data.check(args.data.data.as_deref())?;
    let count = match (args.seeds, args.splits.len() as u64) {
        (Some(seeds), 0) => seeds,
        (None, 0) => SEEDS,
        (Some(seeds), files) if seeds != files => {
            bail!("--seeds {seeds} and {files} split files do not fit; one file per seed")
        }
        (_, files) => files,
    };
    let first = args.common.seed.unwrap_or(0);
    let end = first.checked_add(count).context("--seed")?;
    Ok(Plan {
        config,
        methods: args.methods.clone(),
        seeds: (first..end).collect(),
        splits: args.splits.clone(),
        jobs: args.jobs,
    })
}

/// Width of the picture in pixels.
const WIDTH: u32 = 1350;

/// Draws the table, if any method has a result.
fn draw(found: &Comparison, out: &Path) -> Result<bool> {
    let entries: Vec<ComparedMethod> = found.methods.iter().filter_map(entry).collect();
    if entries.is_empty() {
        return Ok(false);
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let title = format!("{} on {}", text(&found.dataset), text(&found.manifold));
    let picture: Picture = draw_comparison(&title, &entries, WIDTH)?;
    for (name, bytes) in
        [("comparison.svg", picture.to_svg().into_bytes()), ("comparison.png", picture.to_png()?)]
    {
        let path = out.join(name);
        write_atomic(&path, &bytes).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(true)
}

/// What the picture shows of a method.
fn entry(row: &MethodRow) -> Option<ComparedMethod> {
    Some(ComparedMethod {
        name: row.method.clone(),
        nll: row.nll?,
        nll_std: row.nll_std,
        nll_of_seeds: row.nll_of_seeds.clone(),
        difference: row.difference?,
        difference_se: row.difference_se,
        is_best: matches!(row.standing, Standing::Best | Standing::Better),
        is_tie: row.standing == Standing::Tie,
    })
}
