//! Flags that every command has, and where results go.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

/// Flags of every command.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Common {
    /// Seed of everything random.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Threads; all cores by default. Results do not depend on it.
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// Where results are written.
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print nothing but results.
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Largest number of threads that makes sense to ask for.
const MAX_THREADS: usize = 1024;

impl Common {
    /// Sets the number of threads and says where results go.
    pub(crate) fn start(&self) -> Result<Output> {
        if let Some(threads) = self.threads {
            if !(1..=MAX_THREADS).contains(&threads) {
                bail!("--threads {threads} is not allowed; 1 to {MAX_THREADS}");
            }
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build_global()
                .context("starting the threads")?;
        }
        Ok(Output { json: self.json, quiet: self.quiet })
    }
}

/// Standard output for results, standard error for remarks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
}

impl Output {
    /// A line of the result.
    #[expect(clippy::unused_self, reason = "results and remarks are written alike")]
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        writeln!(std::io::stdout(), "{text}")?;
        Ok(())
    }

    /// A remark, unless they are not wanted.
    #[expect(clippy::print_stderr, reason = "remarks go to the terminal and not into a pipe")]
    pub(crate) fn remark(&self, text: &str) {
        if !self.quiet {
            eprintln!("{text}");
        }
    }
}
