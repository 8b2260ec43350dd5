//! Why nothing could be learned, or a model not be loaded.

use thiserror::Error;

use crate::checkpoint::CheckpointError;
use crate::error::{ShapeError, SolveError};
use crate::nn::NnError;
use crate::points::{PointsError, SplitError};
use crate::train::{RestoreError, TrainError};

/// Why nothing could be learned, or what was learned not be loaded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FitError {
    /// A method that there is not.
    #[error("unknown method '{name}'; allowed: {allowed}")]
    UnknownMethod {
        /// The name given.
        name: String,
        /// The names there are.
        allowed: String,
    },
    /// A manifold that the method does not know.
    #[error("method {method} is not known on {manifold}; it knows {known}")]
    Unsupported {
        /// The method.
        method: &'static str,
        /// The manifold.
        manifold: String,
        /// What it knows.
        known: &'static str,
    },
    /// Weights or context that the method cannot use.
    #[error("method {method} does not take {what} yet; leave them out")]
    Refused {
        /// The method.
        method: &'static str,
        /// What was given with the points.
        what: &'static str,
    },
    /// Settings that do not parse.
    #[error("configuration: {problem}")]
    Settings {
        /// What is wrong.
        problem: String,
    },
    /// A setting that no run could have.
    #[error("{name} = {value} is not allowed; {expected}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// Settings of a stored run that lack one.
    #[error("the run's configuration has no {name}; start the run again")]
    Incomplete {
        /// The first that is missing.
        name: &'static str,
    },
    /// A file that a stored model needs.
    #[error("{name} is missing")]
    MissingFile {
        /// Its name.
        name: String,
    },
    /// A file that is damaged.
    #[error("{name}: {source}")]
    File {
        /// Its name.
        name: String,
        /// What is wrong with it.
        source: CheckpointError,
    },
    /// A file whose content does not fit.
    #[error("{name}: {source}")]
    Stored {
        /// Its name.
        name: String,
        /// What does not fit.
        source: SolveError,
    },
    /// A file that could not be read or written.
    #[error(transparent)]
    Storage(Box<dyn std::error::Error + Send + Sync>),
    /// Points that do not fit together.
    #[error(transparent)]
    Points(#[from] PointsError),
    /// Rows that do not fit together.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Points that cannot be divided.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// Noise, kernels or likelihoods.
    #[error(transparent)]
    Solve(#[from] SolveError),
    /// Training.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The network.
    #[error(transparent)]
    Network(#[from] NnError),
    /// A checkpoint of another run.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// A checkpoint that cannot be written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
}
