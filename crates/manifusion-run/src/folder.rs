//! A run's folder: what is in it, and how it is read and written.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use manifusion::atomic::write_atomic;
use manifusion::checkpoint::Arrays;
use manifusion::methods::{Files, FitError};
use manifusion::train::MetricsRow;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::RunError;

/// The settings; with it a folder holds a run.
pub(crate) const CONFIG: &str = "config.toml";
/// All points, before they are divided.
pub(crate) const DATA: &str = "data.safetensors";
/// What is known of the data beside the points.
pub(crate) const DATA_FACTS: &str = "data.json";
/// The division.
pub(crate) const SPLIT: &str = "split.json";
/// What a prior takes long to compute.
pub(crate) const PRIOR: &str = "prior.safetensors";
/// The kernel mixture of the training points.
pub(crate) const KERNEL: &str = "kernel.safetensors";
/// The record of a training.
pub(crate) const METRICS: &str = "metrics.jsonl";
/// How a run ended.
pub(crate) const SUMMARY: &str = "summary.json";
/// The proposal of times at the end.
pub(crate) const TIMES: &str = "times.json";

/// The folder of a run.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// An error if a folder already holds a run.
    pub fn check_free(path: &Path) -> Result<(), RunError> {
        if path.join(CONFIG).exists() {
            return Err(RunError::Taken { path: path.to_owned() });
        }
        Ok(())
    }

    /// A folder for a new run.
    pub(crate) fn create(path: &Path) -> Result<Self, RunError> {
        Self::check_free(path)?;
        std::fs::create_dir_all(path).map_err(io_error("creating", path))?;
        Ok(Self { path: path.to_owned() })
    }

    /// The folder of a run that was begun.
    pub fn open(path: &Path) -> Result<Self, RunError> {
        if !path.exists() {
            return Err(RunError::Absent { path: path.to_owned() });
        }
        if !path.join(CONFIG).is_file() {
            return Err(RunError::NoRun { path: path.to_owned() });
        }
        Ok(Self { path: path.to_owned() })
    }

    /// A folder that holds something else than one run.
    pub(crate) fn other(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of it is.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether it has a file.
    pub fn has(&self, name: &str) -> bool {
        self.file(name).is_file()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RunError> {
        let path = self.file(name);
        write_atomic(&path, bytes).map_err(io_error("writing", &path))
    }

    /// Removes a file, if there is one.
    pub(crate) fn remove(&self, name: &str) -> Result<(), RunError> {
        let path = self.file(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(io_error("removing", &path)(error))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), RunError> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|e| self.does_not_parse(name, &e.to_string()))?;
        self.write(name, format!("{text}\n").as_bytes())
    }

    pub(crate) fn bytes(&self, name: &str) -> Result<Option<Vec<u8>>, RunError> {
        let path = self.file(name);
        match std::fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_error("reading", &path)(source)),
        }
    }

    pub(crate) fn need(&self, name: &str) -> Result<Vec<u8>, RunError> {
        self.bytes(name)?.ok_or_else(|| RunError::MissingFile { path: self.file(name) })
    }

    pub(crate) fn text(&self, name: &str) -> Result<String, RunError> {
        String::from_utf8(self.need(name)?)
            .map_err(|_| self.does_not_parse(name, "it is not a text"))
    }

    /// A JSON file; none if there is no such file.
    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, RunError> {
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        let value = serde_json::from_slice(&bytes);
        value.map(Some).map_err(|e| self.does_not_parse(name, &e.to_string()))
    }

    pub(crate) fn arrays(&self, name: &str) -> Result<Arrays, RunError> {
        Arrays::from_bytes(&self.need(name)?)
            .map_err(|source| RunError::Damaged { path: self.file(name), source })
    }

    pub(crate) fn does_not_parse(&self, name: &str, problem: &str) -> RunError {
        RunError::Parse { path: self.file(name), problem: problem.to_owned() }
    }

    /// An error about a file of this folder, with its whole path.
    pub(crate) fn located(&self, error: FitError) -> RunError {
        match error {
            FitError::File { name, source } => RunError::Damaged { path: self.file(&name), source },
            FitError::MissingFile { name } => RunError::MissingFile { path: self.file(&name) },
            FitError::Stored { name, source } => {
                RunError::Content { path: self.file(&name), problem: source.to_string() }
            }
            other => other.into(),
        }
    }

    /// Keeps the lines of the record up to a step, and opens it to go on from there.
    pub(crate) fn metrics_from(&self, step: u64) -> Result<File, RunError> {
        let path = self.file(METRICS);
        let mut kept = String::new();
        if let Ok(file) = File::open(&path) {
            for line in BufReader::new(file).lines().map_while(Result::ok) {
                let row: Option<MetricsRow> = serde_json::from_str(&line).ok();
                if row.is_some_and(|row| row.step <= step) {
                    kept.push_str(&line);
                    kept.push('\n');
                }
            }
        }
        self.write(METRICS, kept.as_bytes())?;
        OpenOptions::new().append(true).open(&path).map_err(io_error("opening", &path))
    }
}

/// One line of the record.
pub(crate) fn append(file: &mut File, row: &MetricsRow) -> std::io::Result<()> {
    // One call per line: a line is whole or absent unless the system itself dies.
    file.write_all(format!("{}\n", serde_json::to_string(row)?).as_bytes())
}

/// An error of the file system with what was tried.
pub(crate) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> RunError {
    let path = path.to_owned();
    move |source| RunError::Io { action, path, source }
}

impl Files for RunDir {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FitError> {
        Ok(self.bytes(name)?)
    }
}
