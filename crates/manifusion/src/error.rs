//! Errors of batches, points, descriptions of manifolds, and solvers, with the numbers that a user
//! needs to act. The network, the optimiser, proposals of times, checkpoints, points, fits and
//! training have their own, each beside its code.

use thiserror::Error;

/// A batch whose shape does not fit.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// No rows at all.
    #[error("the batch is empty")]
    Empty,
    /// Not a whole number of rows.
    #[error("{len} numbers do not make rows of {width}")]
    Ragged {
        /// Numbers given.
        len: usize,
        /// Numbers per row.
        width: usize,
    },
    /// Rows of the wrong width.
    #[error("rows have {found} numbers, expected {expected}")]
    Width {
        /// Numbers per row given.
        found: usize,
        /// Numbers per row needed.
        expected: usize,
    },
    /// The wrong number of rows.
    #[error("{found} rows given, expected {expected}")]
    Len {
        /// Rows given.
        found: usize,
        /// Rows needed.
        expected: usize,
    },
}

/// A point that a manifold cannot accept.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PointError {
    /// A coordinate is NaN or infinite.
    #[error("coordinate {index} is {value}")]
    NotFinite {
        /// Index of the coordinate.
        index: usize,
        /// Its value.
        value: f64,
    },
    /// Too far from the manifold.
    #[error("the point is off {manifold}: residual {residual:.3e}, allowed {tolerance:.1e}")]
    OffManifold {
        /// The manifold.
        manifold: String,
        /// Constraint violation.
        residual: f64,
        /// Largest violation accepted.
        tolerance: f64,
    },
    /// The point map π is not defined there.
    #[error("no point of {manifold} belongs to it: {reason} = {value:.3e}")]
    NoProjection {
        /// The manifold.
        manifold: String,
        /// The quantity that has the wrong value.
        reason: &'static str,
        /// Its value.
        value: f64,
    },
    /// The iteration for π stopped before it reached the manifold.
    #[error(
        "projection on {manifold} did not converge: residual {residual:.3e} after {iterations} iterations"
    )]
    NoConvergence {
        /// The manifold.
        manifold: String,
        /// Constraint violation at the end.
        residual: f64,
        /// Iterations made.
        iterations: usize,
    },
    /// Wrong number of coordinates.
    #[error("the point has {found} coordinates, {manifold} needs {expected}")]
    Width {
        /// The manifold.
        manifold: String,
        /// Coordinates given.
        found: usize,
        /// Coordinates needed.
        expected: usize,
    },
}

/// A manifold that cannot be made from what was asked.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The name before the colon is not known.
    #[error("unknown manifold '{name}'; allowed: {allowed}")]
    UnknownName {
        /// What was given.
        name: String,
        /// The forms that are understood.
        allowed: &'static str,
    },
    /// No generated data set has this name.
    #[error("unknown data set '{name}'; allowed: {allowed}")]
    UnknownData {
        /// What was given.
        name: String,
        /// The names that are understood.
        allowed: &'static str,
    },
    /// A generated data set was asked for on another manifold.
    #[error("synthetic:{name} lives on {own}, not on {found}")]
    DataLiesOn {
        /// The set.
        name: &'static str,
        /// Its manifold.
        own: String,
        /// What was asked for.
        found: String,
    },
    /// The part after the colon does not parse.
    #[error("'{spec}': {problem}; expected {expected}")]
    Malformed {
        /// The factor's text.
        spec: String,
        /// What is wrong with it.
        problem: String,
        /// The form that is understood.
        expected: &'static str,
    },
    /// A dimension of zero or beyond what is sensible.
    #[error("dimension {found} of {manifold} is out of range; allowed: {min} to {max}")]
    Dimension {
        /// Name of the family.
        manifold: &'static str,
        /// The dimension asked for.
        found: usize,
        /// Smallest allowed.
        min: usize,
        /// Largest allowed.
        max: usize,
    },
    /// The curvature of a hyperbolic space must be negative and finite.
    #[error("curvature K = {found} is not allowed; a hyperbolic space needs a finite K < 0")]
    Curvature {
        /// The curvature asked for.
        found: f64,
    },
    /// An expression of a level set does not parse.
    #[error("expression '{expression}', position {position}: {problem}")]
    Expression {
        /// The whole text.
        expression: String,
        /// Where, counted in characters from 1.
        position: usize,
        /// What is wrong.
        problem: String,
    },
    /// A level set on which no regular point was found.
    #[error("no regular point found on {manifold}: {problem}")]
    NoPoint {
        /// The manifold.
        manifold: String,
        /// Why.
        problem: String,
    },
}

/// Why a solver, a path or a density could not go on.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SolveError {
    /// Stopped from outside, by [`crate::watch::Watch::stop`].
    #[error("stopped before it was done")]
    Stopped,
    /// Batches that do not fit together.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A row could not be brought back to the manifold, or was not on it.
    #[error("row {row} at time {time:.6e}: {source}")]
    Point {
        /// Row of the batch.
        row: usize,
        /// Time of the failure.
        time: f64,
        /// What happened.
        source: PointError,
    },
    /// A quantity became NaN or infinite.
    #[error("row {row} at time {time:.6e}: {quantity} is {value}")]
    NotFinite {
        /// Row of the batch.
        row: usize,
        /// Time of the failure.
        time: f64,
        /// Which quantity.
        quantity: &'static str,
        /// Its value.
        value: f64,
    },
    /// The step size fell below the smallest allowed.
    #[error(
        "row {row} at time {time:.6e}: step {step:.3e} is below the smallest allowed {min_step:.3e} \
         (error estimate {error_ratio:.2} of the tolerance); try a larger tolerance"
    )]
    StepTooSmall {
        /// Row of the batch.
        row: usize,
        /// Time of the failure.
        time: f64,
        /// Step that would have been needed.
        step: f64,
        /// Smallest allowed.
        min_step: f64,
        /// Error estimate divided by the tolerance.
        error_ratio: f64,
    },
    /// Too many steps.
    #[error(
        "row {row} at time {time:.6e}: {steps} steps were not enough; raise max_steps or the tolerance"
    )]
    TooManySteps {
        /// Row of the batch.
        row: usize,
        /// Time reached.
        time: f64,
        /// Steps made.
        steps: usize,
    },
    /// A time that is negative, zero where it must be positive, or not finite.
    #[error("row {row}: time {time} is not allowed; {expected}")]
    Time {
        /// Row of the batch.
        row: usize,
        /// The time given.
        time: f64,
        /// What is allowed.
        expected: &'static str,
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
    /// Something that is not known on this manifold.
    #[error("{what} is not known on {manifold}; {hint}")]
    Unsupported {
        /// The operation.
        what: &'static str,
        /// The manifold.
        manifold: String,
        /// What to do instead.
        hint: &'static str,
    },
    /// A prior of another space.
    #[error("the prior's points have {found} numbers, those of {manifold} have {expected}")]
    PriorWidth {
        /// Of the prior.
        found: usize,
        /// Of the manifold.
        expected: usize,
        /// The manifold.
        manifold: String,
    },
    /// A network that is not ready to be evaluated.
    #[error("the network cannot be evaluated: {problem}")]
    Network {
        /// What is missing, in the network layer's words.
        problem: String,
    },
    /// Bandwidths in the wrong order.
    #[error("the smallest bandwidth, {smallest}, must not be above the largest, {largest}")]
    Bandwidths {
        /// The smallest, as asked for.
        smallest: f64,
        /// The largest.
        largest: f64,
    },
    /// Arrays that are not those of a kernel mixture.
    #[error("the stored kernel mixture cannot be used: {problem}")]
    StoredMixture {
        /// What is wrong, with the numbers.
        problem: String,
    },
    /// A kernel asked for where double precision cannot give it.
    #[error(
        "row {row}: the heat kernel of {manifold} at s = {s:.3e}, angle {angle:.4} is beyond double \
         precision (estimated relative error {error:.1e})"
    )]
    KernelReach {
        /// Row of the batch.
        row: usize,
        /// The manifold.
        manifold: String,
        /// Time.
        s: f64,
        /// Angle in radians.
        angle: f64,
        /// Estimated relative error of the score.
        error: f64,
    },
}

impl SolveError {
    /// Attaches row and time to a point's error.
    pub fn at(row: usize, time: f64) -> impl FnOnce(PointError) -> Self {
        move |source| Self::Point { row, time, source }
    }

    /// The row at fault, if there is one.
    pub fn row(&self) -> Option<usize> {
        match *self {
            Self::Point { row, .. }
            | Self::NotFinite { row, .. }
            | Self::StepTooSmall { row, .. }
            | Self::TooManySteps { row, .. }
            | Self::Time { row, .. }
            | Self::KernelReach { row, .. } => Some(row),
            Self::Stopped
            | Self::Shape(_)
            | Self::Setting { .. }
            | Self::Unsupported { .. }
            | Self::PriorWidth { .. }
            | Self::Network { .. }
            | Self::Bandwidths { .. }
            | Self::StoredMixture { .. } => None,
        }
    }

    /// Renumbers the row of an error, from a part's numbering to the whole batch's.
    #[must_use]
    pub fn map_row(mut self, number: impl FnOnce(usize) -> usize) -> Self {
        match &mut self {
            Self::Point { row, .. }
            | Self::NotFinite { row, .. }
            | Self::StepTooSmall { row, .. }
            | Self::TooManySteps { row, .. }
            | Self::Time { row, .. }
            | Self::KernelReach { row, .. } => *row = number(*row),
            Self::Stopped
            | Self::Shape(_)
            | Self::Setting { .. }
            | Self::Unsupported { .. }
            | Self::PriorWidth { .. }
            | Self::Network { .. }
            | Self::Bandwidths { .. }
            | Self::StoredMixture { .. } => {}
        }
        self
    }
}
