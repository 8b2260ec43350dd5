//! Runs in folders: configurations, formats, what is kept and what is read.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cite;
mod comparison;
mod configuration;
mod documentation;
mod folder;
mod format_1;
mod fuzz;
mod memory;
mod reproduction;
mod variance;

use std::path::{Path, PathBuf};

use manifusion::watch::Watch;
use manifusion_run::{Config, Trained, train};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Trains in a folder with these settings, `key=value` each.
fn train_in(out: &Path, settings: &[&str]) -> Trained {
    let mut config = Config::default();
    for setting in settings {
        config.set(setting).unwrap();
    }
    train(config.choices().unwrap(), out, &Watch::default(), &|_| {}).unwrap()
}

/// A network that is trained in a moment.
const SMALL: [&str; 9] = [
    "method=rdm",
    "data.source=synthetic:sphere-mixture",
    "data.rows=80",
    "net.width=8",
    "net.depth=1",
    "net.fourier=2",
    "train.batch=16",
    "train.steps=20",
    "train.validations=2",
];
