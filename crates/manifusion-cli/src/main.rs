//! The `manifusion` command.

mod check;
mod cite;
mod common;
mod compare;
mod data;
mod demo;
mod evaluate;
mod info;
mod plot;
mod progress;
mod reproduce;
mod sample;
mod score;
mod train;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use manifusion::error::SolveError;
use manifusion_run::RunError;

use common::End;

/// Learn, sample, score and draw probability densities on curved spaces.
#[derive(Parser)]
#[command(name = "manifusion", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train on a generated data set with a known density, evaluate and sample it: the whole
    /// product in two minutes.
    Demo(demo::Args),
    /// Learn a density from a file.
    Train(Box<train::Args>),
    /// Go on with a run that was stopped.
    Resume(train::ResumeArgs),
    /// Compare methods over several seeds: one table and one picture.
    Compare(Box<compare::Args>),
    /// Regenerate the tables and figures of the paper behind this program.
    Reproduce(reproduce::Args),
    /// Judge a trained model on its test points.
    Evaluate(evaluate::Args),
    /// Log-densities of the rows of a file.
    Score(score::Args),
    /// Draw points from a trained model.
    Sample(sample::Args),
    /// Draw a trained model, or write its density for other programs.
    Plot(plot::Args),
    /// One HTML file with everything about a run.
    Report(plot::ReportArgs),
    /// What a run's folder holds.
    Info(info::Args),
    /// What to cite for a run, as BibTeX.
    Cite(cite::Args),
    /// Data sets: what there is, and what is in one.
    Data(data::Args),
    /// Run the numerical self-checks of a manifold.
    Check(check::Args),
}

/// 0: done; 1: the result is negative; 2: the call was wrong or could not be carried out; 130:
/// interrupted.
fn main() -> ExitCode {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // A damaged file that the Parquet decoder gives up on becomes an error with its name.
        if !manifusion_io::is_decoding() {
            usual(panic);
        }
    }));
    let result = match Cli::parse().command {
        Command::Demo(args) => demo::run(&args),
        Command::Train(args) => train::run(&args),
        Command::Resume(args) => train::resume(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Sample(args) => sample::run(&args),
        Command::Plot(args) => plot::run(&args),
        Command::Report(args) => plot::report(&args),
        Command::Info(args) => info::run(&args),
        Command::Cite(args) => cite::run(&args),
        Command::Data(args) => data::run(&args),
        Command::Check(args) => check::run(&args),
    };
    match result {
        Ok(end) => end.into(),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            if is_stopped(&error) { End::Stopped.into() } else { ExitCode::from(2) }
        }
    }
}

#[expect(clippy::print_stderr, reason = "the one place where errors reach the terminal")]
fn report(error: &anyhow::Error) {
    // Some errors have their cause in their own sentence.
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    eprintln!("error: {text}");
}

/// Interrupted before there was anything to leave.
fn is_stopped(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(SolveError::Stopped))
            || cause.downcast_ref().is_some_and(RunError::is_stopped)
    })
}

/// A reader such as `head` that stops early is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
