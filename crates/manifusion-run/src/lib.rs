//! Runs kept in folders: settings, data, checkpoints, the model and its evaluation.
//!
//! A folder is self-contained, and its state is never in doubt: every file is complete or absent
//! (written beside its place, synced and moved), `config.toml` is the last that a start needs, and
//! `model.safetensors` the last of the end. A run that is killed goes on with [`resume`]; nothing
//! here prints.
//!
//! ```
//! use manifusion::watch::Watch;
//! use manifusion_run::{Config, StoredRun, train};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let out = folder.path().join("run");
//! let mut config = Config::default();
//! config.set("method=kernel")?;
//! config.set("data.source=synthetic:sphere-mixture")?;
//! config.set("data.rows=200")?;
//! train(config.choices()?, &out, &Watch::default(), &|_| {})?;
//!
//! let run = StoredRun::open(&out)?;
//! let samples = run.model()?.sample(5, 0)?;
//! assert_eq!(samples.len(), 15);
//! # Ok(())
//! # }
//! ```

mod cite;
mod compare;
mod config;
mod data;
mod error;
mod folder;
#[doc(hidden)]
pub mod internals;
mod memory;
mod new_rows;
pub mod reproduce;
mod split_file;
mod stored;
mod training;

pub use cite::{MANIFUSION, references};
pub use compare::{
    COLUMNS, ColumnInfo, Comparison, Ended, Measured, MethodRow, Plan, RunResult, Standing,
    compare, compare_run, paired_difference, read_results,
};
pub use config::{Choices, Config, DataSettings, FORMAT, RunSettings, file_name, synthetic_name};
pub use data::{Data, DataFile};
pub use error::RunError;
pub use folder::RunDir;
pub use memory::MemoryRun;
pub use new_rows::{NewRows, RowsRequest};
pub use stored::{Curves, StoredRun, load, save};
pub use training::{Trained, resume, train};
