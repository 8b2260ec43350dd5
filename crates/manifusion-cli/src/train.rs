//! `manifusion train` and `manifusion resume`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::builder::{PossibleValue, PossibleValuesParser};
use manifusion::methods::METHODS;
use manifusion::methods::rdm::{Loss, Preset};
use manifusion::watch::duration;
use manifusion_run::{Choices, Config, Trained, resume as go_on, train};
use serde_json::json;

use crate::common::{Common, End, Output};
use crate::data::{DataArgs, DivisionArgs};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// How the density is learned.
    #[arg(long, value_parser = methods())]
    method: Option<String>,
    /// Networks of a stack; by default as many as the time is enough for, one to eight.
    #[arg(long)]
    members: Option<u32>,
    /// The form of the bound that is trained.
    #[arg(long, value_parser = names(Loss::NAMES))]
    loss: Option<String>,
    #[command(flatten)]
    division: DivisionArgs,
    /// Divide the data as this file says: columns row (from 0) and part (train, validation, test).
    #[arg(long, value_name = "FILE")]
    split: Option<String>,
    /// A TOML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, for example train.batch=256; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A bundle of settings [default: fast].
    #[arg(long, value_parser = names(Preset::NAMES))]
    preset: Option<String>,
    #[command(flatten)]
    budget: BudgetArgs,
    #[command(flatten)]
    common: Common,
}

/// How long a training goes on.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct BudgetArgs {
    /// Time that fits, training and validations may take; turned into steps by measuring [default:
    /// 5].
    #[arg(long, allow_negative_numbers = true)]
    minutes: Option<f64>,
    /// Steps to train for.
    #[arg(long, conflicts_with = "minutes")]
    steps: Option<u64>,
}

impl BudgetArgs {
    /// Overrides what a configuration says.
    pub(crate) fn apply(&self, config: &mut Config) -> Result<()> {
        if let Some(minutes) = self.minutes {
            config.put("train.minutes", minutes);
            config.leave_open("train.steps");
        }
        if let Some(steps) = self.steps {
            config.put("train.steps", i64::try_from(steps).context("--steps")?);
            config.leave_open("train.minutes");
        }
        Ok(())
    }
}

/// The names of all methods, from the registry.
pub(crate) fn methods() -> PossibleValuesParser {
    let values = METHODS.iter().map(|method| {
        let info = method.info();
        PossibleValue::new(info.name).help(info.help)
    });
    PossibleValuesParser::new(values)
}

/// The names of a setting's values, with their explanations.
fn names(names: &'static [(&'static str, &'static str)]) -> PossibleValuesParser {
    let value = |(name, help): &(&'static str, &'static str)| PossibleValue::new(*name).help(*help);
    PossibleValuesParser::new(names.iter().map(value))
}

pub(crate) fn run(args: &Args) -> Result<End> {
    let output = args.common.start()?;
    let out = args.common.out.as_deref().context("--out DIR is needed: the folder of the run")?;
    let trained = train(choices(args)?, out, &output.watch, &|text| output.remark(text))?;
    show(&output, &trained, out)
}

/// File, then `--set`, then the flags.
fn choices(args: &Args) -> Result<Choices> {
    let mut config = written(args.config.as_deref(), &args.set)?;
    args.data.apply(&mut config);
    for (path, value) in [
        ("method", &args.method),
        ("train.loss", &args.loss),
        ("preset", &args.preset),
        ("data.split_file", &args.split),
    ] {
        if let Some(value) = value {
            config.put(path, value.as_str());
        }
    }
    if let Some(members) = args.members {
        config.put("members", i64::from(members));
    }
    args.division.apply(&mut config);
    if let Some(seed) = args.common.seed {
        config.put("seed", i64::try_from(seed).context("--seed")?);
    }
    args.budget.apply(&mut config)?;
    let choices = config.choices()?;
    args.data.check(choices.data.source.as_deref())?;
    Ok(choices)
}

/// A file of settings with changes on top of it.
pub(crate) fn written(file: Option<&Path>, changes: &[String]) -> Result<Config> {
    let mut config = match file {
        None => Config::default(),
        Some(path) => {
            let text = std::fs::read_to_string(path);
            Config::parse(&text.with_context(|| format!("reading {}", path.display()))?)?
        }
    };
    for change in changes {
        config.set(change)?;
    }
    Ok(config)
}

/// How far a budget of time may be overrun before a remark says so.
const OVERRUN: f64 = 1.1;

/// Says how a training ended.
fn show(output: &Output, trained: &Trained, dir: &Path) -> Result<End> {
    let path = dir.display();
    let outcome = match trained {
        Trained::Stopped { step, total } => {
            output.remark(&format!(
                "stopped at step {step} of {total}; 'manifusion resume {path}' goes on"
            ));
            return Ok(End::Stopped);
        }
        Trained::Done(outcome) => outcome,
    };
    let took = duration(outcome.train_seconds);
    match outcome.validation_nll {
        Some(nll) => {
            let end = if outcome.stopped_early { "stopped early" } else { "done" };
            output.remark(&format!(
                "{end} after {} steps and {took}; best validation NLL {nll:.4} at step {}",
                outcome.steps, outcome.best_step
            ));
        }
        None => output.remark(&format!("done in {took}")),
    }
    if let Some(budget) = outcome.budget_seconds
        && outcome.train_seconds > OVERRUN * budget
    {
        output.remark(&format!(
            "that is longer than the {} asked for: the machine was busier than when the steps were \
             planned",
            duration(budget)
        ));
    }
    if output.json {
        output.line(&json!({ "out": path.to_string() }).to_string())?;
    } else {
        output.remark(&format!("next: manifusion evaluate {path}"));
    }
    Ok(End::Done)
}

#[derive(clap::Args)]
pub(crate) struct ResumeArgs {
    /// The run's folder.
    dir: PathBuf,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn resume(args: &ResumeArgs) -> Result<End> {
    let output = args.common.start()?;
    let trained = go_on(&args.dir, &output.watch)?;
    show(&output, &trained, &args.dir)
}
