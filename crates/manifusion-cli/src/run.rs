//! A run's folder: what is in it, and how it is read and written.
//!
//! Every file is complete or absent: written beside its place, synced and moved. `config.toml` comes last of those that a run
//! needs to start, so a folder that has one can be resumed.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use manifusion::checkpoint::{Arrays, Checkpoint};
use manifusion::manifold::{Manifold, parse};
use manifusion::prior::{Prior, default_prior};
use manifusion_io::Split;
use serde_json::Value;

use crate::settings::Settings;
use crate::source::{Part, indices};

/// The folder of a run.
#[derive(Clone, Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
}

impl RunDir {
    /// A folder for a new run; one that already holds a run, or anything else, is refused.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        if path.join("config.toml").exists() {
            bail!(
                "{} already holds a run; continue it with 'manifusion resume {}' or choose another --out",
                path.display(),
                path.display()
            );
        }
        std::fs::create_dir_all(path).with_context(|| format!("creating {}", path.display()))?;
        Ok(Self { path: path.to_owned() })
    }

    /// The folder of a run that was begun.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        if !path.exists() {
            bail!("{} does not exist", path.display());
        }
        if !path.join("config.toml").is_file() {
            bail!(
                "{} holds no run: it has no config.toml (a run that was stopped before its data were read must be started again)",
                path.display()
            );
        }
        Ok(Self { path: path.to_owned() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.file(name).is_file()
    }

    /// Writes a text file atomically.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.file(name);
        manifusion_io::write_atomic(&path, text.as_bytes())
            .with_context(|| format!("writing {}", path.display()))
    }

    pub(crate) fn read(&self, name: &str) -> Result<String> {
        let path = self.file(name);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    pub(crate) fn settings(&self) -> Result<Settings> {
        Settings::parse(&self.read("config.toml")?, &[])
            .with_context(|| format!("{}", self.file("config.toml").display()))
    }

    pub(crate) fn write_json(&self, name: &str, value: &Value) -> Result<()> {
        self.write(name, &format!("{value:#}\n"))
    }

    pub(crate) fn json(&self, name: &str) -> Result<Value> {
        serde_json::from_str(&self.read(name)?)
            .with_context(|| format!("{} does not parse", self.file(name).display()))
    }

    pub(crate) fn arrays(&self, name: &str) -> Result<Arrays> {
        let path = self.file(name);
        Arrays::read(&path).with_context(|| path.display().to_string())
    }

    pub(crate) fn checkpoint(&self, name: &str) -> Result<Checkpoint<f32>> {
        let path = self.file(name);
        Checkpoint::read(&path).with_context(|| path.display().to_string())
    }

    /// The rows of one part of the data.
    pub(crate) fn part(&self, part: Part) -> Result<Vec<f64>> {
        let (data, split) = (self.arrays("data.safetensors")?, self.split()?);
        let m = data.values.get("width").and_then(Value::as_u64).unwrap_or(0) as usize;
        let points = data.arrays.get("points");
        let points = points.filter(|p| m > 0 && p.len().is_multiple_of(m)).with_context(|| {
            format!("{} holds no points", self.file("data.safetensors").display())
        })?;
        let mut rows = Vec::new();
        for &i in indices(&split, part) {
            let row = points.get(i * m..(i + 1) * m).with_context(|| {
                format!("split.json names row {i}, the data have {}", points.len() / m)
            })?;
            rows.extend_from_slice(row);
        }
        Ok(rows)
    }

    pub(crate) fn split(&self) -> Result<Split> {
        let mut file = self.json("split.json")?;
        let written = file.as_object_mut().and_then(|fields| fields.remove("hash"));
        let split: Split = serde_json::from_value(file)
            .with_context(|| format!("{} does not parse", self.file("split.json").display()))?;
        if written.as_ref().and_then(Value::as_str) != Some(&split.hash()) {
            bail!("{} was changed: its hash does not fit", self.file("split.json").display());
        }
        Ok(split)
    }

    /// Keeps the lines of `metrics.jsonl` up to a step, and opens it to go on from there.
    pub(crate) fn metrics_from(&self, step: u64) -> Result<File> {
        let path = self.file("metrics.jsonl");
        let mut kept = String::new();
        if let Ok(file) = File::open(&path) {
            for line in BufReader::new(file).lines().map_while(Result::ok) {
                let parsed: Option<Value> = serde_json::from_str(&line).ok();
                let at = parsed.as_ref().and_then(|v| v.get("step")?.as_u64());
                if at.is_some_and(|at| at <= step) {
                    kept.push_str(&line);
                    kept.push('\n');
                }
            }
        }
        self.write("metrics.jsonl", &kept)?;
        OpenOptions::new()
            .append(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))
    }
}

/// Manifold and prior of a run.
pub(crate) fn geometry(settings: &Settings) -> Result<(Arc<dyn Manifold>, Arc<dyn Prior>)> {
    let spec = settings.manifold.as_deref().context("the run's configuration has no manifold")?;
    let manifold = parse(spec)?;
    let prior = default_prior(&manifold)?;
    Ok((manifold, prior))
}

/// One line of JSON.
pub(crate) fn append(file: &mut File, value: &Value) -> Result<()> {
    // One call per line: a line is whole or absent unless the system itself dies.
    file.write_all(format!("{value}\n").as_bytes()).context("writing metrics.jsonl")
}
