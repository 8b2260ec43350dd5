//! What can go wrong in the network layer.

use thiserror::Error;

use crate::error::ShapeError;

/// Why a network could not be built, evaluated or read.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum NnError {
    /// Batches that do not fit together.
    #[error("{what}: {source}")]
    Shape {
        /// Which batch.
        what: &'static str,
        /// How it does not fit.
        source: ShapeError,
    },
    /// A setting out of its range.
    #[error("{name} = {value} is not allowed; {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// The value given.
        value: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// A time at which the network is not defined.
    #[error("row {row}: time s = {s} is not allowed; the network needs a finite s > 0")]
    Time {
        /// Row of the batch.
        row: usize,
        /// The time given.
        s: f64,
    },
    /// A quantity became NaN or infinite.
    #[error("row {row} at time s = {s:.6e}: {quantity} is {value}")]
    NotFinite {
        /// Row of the batch.
        row: usize,
        /// Time of the row.
        s: f64,
        /// Which quantity.
        quantity: &'static str,
        /// Its value.
        value: f64,
    },
    /// ActNorm was asked for but has not seen a batch yet.
    #[error("ActNorm is not initialised; call init_actnorm with one noised batch first")]
    ActNormNotReady,
    /// A parameter name that the network does not have.
    #[error("the network has no parameter '{name}'")]
    UnknownParameter {
        /// The name asked for.
        name: String,
    },
}

impl NnError {
    /// Attaches the batch's name to a shape error.
    pub(crate) fn shape(what: &'static str) -> impl FnOnce(ShapeError) -> Self {
        move |source| Self::Shape { what, source }
    }

    /// An error unless `found` equals `expected`.
    pub(crate) fn check_len(what: &'static str, found: usize, expected: usize) -> Result<(), Self> {
        crate::rows::expect_len(found, expected).map_err(Self::shape(what))
    }
}
