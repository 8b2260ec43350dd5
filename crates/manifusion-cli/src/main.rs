//! The `manifusion` command.

mod check;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Learn, sample, score and draw probability densities on curved spaces.
#[derive(Parser)]
#[command(name = "manifusion", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the numerical self-checks of a manifold.
    Check(check::Args),
}

/// 0: done; 1: the result is negative; 2: the call was wrong or could not be carried out.
fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Check(args) => check::run(&args),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&error);
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::print_stderr, reason = "the one place where errors reach the terminal")]
fn report(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}

/// A reader such as `head` that stops early is no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
