//! What can go wrong between a density and a file.

use std::path::PathBuf;

use manifusion::error::{ShapeError, SolveError};
use manifusion_io::DataError;
use thiserror::Error;

/// Why a picture, an export or a report could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlotError {
    /// A width that cannot be drawn.
    #[error("a picture of {found} pixels {side} cannot be made; allowed: {min} to {max}")]
    Size {
        /// Pixels asked for, or that follow from what was asked.
        found: u32,
        /// `wide` or `high`.
        side: &'static str,
        /// Smallest allowed.
        min: u32,
        /// Largest allowed.
        max: u32,
    },
    /// A file name whose ending names no format of the picture.
    #[error("'{}' ends in no known format; allowed: {allowed}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Endings that are understood.
        allowed: &'static str,
    },
    /// A file that cannot be written.
    #[error("cannot write '{}': {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A name that is not a kind of picture, a projection or a measure.
    #[error("unknown {what} '{name}'; allowed: {allowed}")]
    UnknownName {
        /// What was looked for.
        what: &'static str,
        /// The name given.
        name: String,
        /// The names that are understood.
        allowed: &'static str,
    },
    /// A kind of picture that a manifold does not have.
    #[error("a {kind} picture needs {needs}; this model lives on {manifold}")]
    WrongManifold {
        /// The kind asked for.
        kind: String,
        /// The manifold it needs.
        needs: &'static str,
        /// The manifold given.
        manifold: String,
    },
    /// A picture of something that was not given.
    #[error("a {kind} picture needs {needs}, and there are none")]
    Missing {
        /// The kind asked for.
        kind: String,
        /// What is missing.
        needs: &'static str,
    },
    /// Too few or too many evaluations of the density.
    #[error("{found} evaluations of the density cannot make a grid; allowed: {min} to {max}")]
    Evaluations {
        /// Number asked for.
        found: usize,
        /// Smallest allowed.
        min: usize,
        /// Largest allowed.
        max: usize,
    },
    /// A density that is NaN or +∞ at a point of the grid.
    #[error("the log-density at grid point {index} is {value}")]
    NotADensity {
        /// Index of the point.
        index: usize,
        /// The value.
        value: f64,
    },
    /// A density without mass on the whole grid.
    #[error("the density is zero at all {points} points of the grid")]
    NoMass {
        /// Number of points.
        points: usize,
    },
    /// The density could not be evaluated or sampled.
    #[error(transparent)]
    Density(#[from] SolveError),
    /// Points of the wrong shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A grid that cannot be written as a table.
    #[error(transparent)]
    Table(#[from] DataError),
    /// The picture could not be turned into pixels.
    #[error("the picture cannot be rasterised: {0}")]
    Raster(String),
    /// A value that cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

pub(crate) type Result<T> = std::result::Result<T, PlotError>;

/// An error unless a file of this name can be written; one that exists keeps its content.
pub(crate) fn check_writable(path: &std::path::Path) -> Result<()> {
    std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .map(drop)
        .map_err(|source| PlotError::Write { path: path.to_path_buf(), source })
}

/// Writes a whole file, naming it when that fails.
pub(crate) fn write_file(path: &std::path::Path, content: &[u8]) -> Result<()> {
    std::fs::write(path, content)
        .map_err(|source| PlotError::Write { path: path.to_path_buf(), source })
}
