//! Flags that every command has, where results go, and how a command ends.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use manifusion::watch::Watch;
use manifusion_io::{Column, FileFormat, table_to_bytes, write_table};

use crate::progress::Display;

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
    /// Print nothing but results: no remarks, no progress.
    #[arg(long)]
    pub(crate) quiet: bool,
}

/// Largest number of threads that makes sense to ask for.
const MAX_THREADS: usize = 1024;

impl Common {
    /// Sets the number of threads, shows progress from now on, and lets Ctrl-C stop the work.
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
        let display = Display::start(self.quiet);
        let watch = display.watch();
        let stopping = watch.clone();
        // Once: finish the step at hand and leave what is done. Twice: at once.
        ctrlc::set_handler(move || {
            if stopping.is_stopped() {
                std::process::exit(i32::from(STOPPED));
            }
            stopping.stop();
        })
        .context("listening for Ctrl-C")?;
        Ok(Output { json: self.json, quiet: self.quiet, watch, display })
    }
}

/// The exit code of a command that was interrupted, by the convention of shells.
const STOPPED: u8 = 130;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As asked.
    Done,
    /// With a negative result, such as a law that does not hold.
    Negative,
    /// Interrupted; what was done is left.
    Stopped,
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        match end {
            End::Done => Self::SUCCESS,
            End::Negative => Self::from(1),
            End::Stopped => Self::from(STOPPED),
        }
    }
}

/// Standard output for results, standard error for remarks and progress.
pub(crate) struct Output {
    pub(crate) json: bool,
    quiet: bool,
    /// Sees progress, and is stopped by Ctrl-C.
    pub(crate) watch: Watch,
    display: Display,
}

impl Output {
    /// A line of the result.
    pub(crate) fn line(&self, text: &str) -> Result<()> {
        self.display.pause(|| writeln!(std::io::stdout(), "{text}"))?;
        Ok(())
    }

    /// A remark, unless they are not wanted.
    #[expect(clippy::print_stderr, reason = "remarks go to the terminal and not into a pipe")]
    pub(crate) fn remark(&self, text: &str) {
        if !self.quiet {
            self.display.pause(|| eprintln!("{text}"));
        }
    }

    /// Columns to a file, or as CSV to standard output.
    pub(crate) fn table(&self, columns: &[Column], path: Option<&Path>) -> Result<()> {
        if let Some(path) = path {
            return Ok(write_table(path, columns)?);
        }
        let bytes = table_to_bytes(columns, FileFormat::Csv)?;
        self.display.pause(|| std::io::stdout().write_all(&bytes))?;
        Ok(())
    }
}
