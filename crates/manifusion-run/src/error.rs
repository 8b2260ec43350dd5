//! What can go wrong with a run's folder.

use std::path::PathBuf;

use manifusion::checkpoint::CheckpointError;
use manifusion::error::{SolveError, SpecError};
use manifusion::methods::FitError;
use manifusion::points::{PointsError, SplitError};
use manifusion_io::{DataError, IoError};
use thiserror::Error;

/// Why a run could not be begun, continued or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no such folder.
    #[error("{} does not exist", path.display())]
    Absent {
        /// The folder.
        path: PathBuf,
    },
    /// A folder that holds something else.
    #[error(
        "{} holds no run: it has no config.toml (a run that was stopped before its training began \
         must be started again)", path.display()
    )]
    NoRun {
        /// The folder.
        path: PathBuf,
    },
    /// A folder that is taken.
    #[error(
        "{0} already holds a run; continue it with 'manifusion resume {0}' or choose another --out",
        path.display()
    )]
    Taken {
        /// The folder.
        path: PathBuf,
    },
    /// A run without a model.
    #[error(
        "{0} has no model yet: its run was not finished; go on with 'manifusion resume {0}'",
        path.display()
    )]
    Unfinished {
        /// The folder.
        path: PathBuf,
    },
    /// A run that is done.
    #[error("the run in {} is finished; nothing to do", path.display())]
    Finished {
        /// The folder.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file whose text does not parse.
    #[error("{} does not parse: {problem}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What the parser said.
        problem: String,
    },
    /// A file with numbers that is damaged.
    #[error("{}: {source}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: CheckpointError,
    },
    /// A file that a run needs.
    #[error("{} is missing", path.display())]
    MissingFile {
        /// The file.
        path: PathBuf,
    },
    /// A file whose content does not fit.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A split that does not have its hash any more.
    #[error("{} was changed: its hash does not fit", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// A model that could not be loaded again.
    #[error("the model has {what}, which a folder cannot keep; save its files yourself")]
    NotLoadable {
        /// What a folder cannot keep.
        what: &'static str,
    },
    /// A folder with a comparison that was asked for otherwise.
    #[error(
        "{} holds a comparison with {key} = {before}, and this call has {now}; repeat its arguments \
         or choose another --out", path.display()
    )]
    OtherPlan {
        /// The folder.
        path: PathBuf,
        /// The first setting that differs.
        key: String,
        /// What the folder was made with.
        before: String,
        /// What is asked for now.
        now: String,
    },
    /// Threads that the system does not give.
    #[error("starting {count} threads: {problem}")]
    Threads {
        /// How many.
        count: usize,
        /// What the system said.
        problem: String,
    },
    /// Settings that make no sense.
    #[error("{0}")]
    Settings(String),
    /// Something is not given, and what to do about it.
    #[error("{0}")]
    NotGiven(&'static str),
    /// New rows of another manifold.
    #[error("{name} has points of {found} coordinates, the model needs {expected}")]
    Width {
        /// The file.
        name: String,
        /// Coordinates found.
        found: usize,
        /// Coordinates needed.
        expected: usize,
    },
    /// A data file.
    #[error(transparent)]
    Data(#[from] IoError),
    /// Columns and forms.
    #[error(transparent)]
    Form(#[from] DataError),
    /// Rows that cannot be divided.
    #[error("{name}: {source}")]
    Split {
        /// The data.
        name: String,
        /// Why.
        source: SplitError,
    },
    /// A manifold or a generated set.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Points.
    #[error(transparent)]
    Points(#[from] PointsError),
    /// Learning and loading.
    #[error(transparent)]
    Fit(FitError),
    /// Likelihoods and samples.
    #[error(transparent)]
    Solve(#[from] SolveError),
}

impl RunError {
    /// Whether the work was stopped from outside.
    pub fn is_stopped(&self) -> bool {
        matches!(
            self,
            Self::Solve(SolveError::Stopped) | Self::Fit(FitError::Solve(SolveError::Stopped))
        )
    }
}

impl RunError {
    /// Whether it is the method that cannot do what was asked, and not the data, a file or the
    /// machine.
    pub(crate) fn is_of_method(&self) -> bool {
        match self {
            Self::Solve(_) => true,
            Self::Fit(error) => !matches!(error, FitError::Storage(_)),
            _ => false,
        }
    }
}

impl From<FitError> for RunError {
    /// An error of a run's own storage comes back as itself.
    fn from(error: FitError) -> Self {
        match error {
            FitError::Storage(source) => match source.downcast::<Self>() {
                Ok(own) => *own,
                Err(other) => Self::Fit(FitError::Storage(other)),
            },
            other => Self::Fit(other),
        }
    }
}

impl From<RunError> for FitError {
    fn from(error: RunError) -> Self {
        Self::Storage(Box::new(error))
    }
}
