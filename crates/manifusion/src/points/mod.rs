//! Points on a manifold: what every method learns from and is judged on.

mod duplicates;
mod split;

use std::sync::Arc;

use thiserror::Error;

pub use duplicates::{DuplicateReport, duplicates};
pub(crate) use split::HELD_OUT;
pub use split::{Split, SplitError, SplitPart, SplitSettings, hold_out};

use crate::data::Synthetic;
use crate::error::{PointError, ShapeError, SpecError};
use crate::manifold::{Manifold, check_points, parse};
use crate::rows::Rows;

/// Why points could not be made.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PointsError {
    /// A manifold or a generated set that is not known.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A row that is not on the manifold.
    #[error("row {row}: {source}")]
    Point {
        /// The row.
        row: usize,
        /// What is wrong with it.
        source: PointError,
    },
    /// Coordinates that do not fill rows.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A generated set that could not be drawn.
    #[error("drawing a generated set: {0}")]
    Generated(PointError),
    /// One weight, group or row of context per point is needed.
    #[error("there are {found} {what} for {points} points")]
    Count {
        /// What was given.
        what: &'static str,
        /// How many.
        found: usize,
        /// Points.
        points: usize,
    },
    /// Weights are not negative, finite, and not all zero.
    #[error("weight {row} is {value}; weights are finite, not negative and not all zero")]
    Weight {
        /// Row of the first such weight.
        row: usize,
        /// Its value.
        value: f64,
    },
}

/// Covariates of points: columns of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Context {
    /// Names of the columns.
    pub names: Vec<String>,
    /// One row of numbers per point.
    pub values: Vec<f64>,
}

/// Points on a manifold, one row each, with what belongs to them where it is given.
#[derive(Clone, Debug)]
pub struct Points {
    manifold: Arc<dyn Manifold>,
    coordinates: Vec<f64>,
    weights: Option<Vec<f64>>,
    groups: Option<Vec<String>>,
    context: Option<Context>,
}

impl Points {
    /// Points from the coordinates of all rows, each on the manifold.
    pub fn on(
        manifold: Arc<dyn Manifold>,
        coordinates: impl Into<Vec<f64>>,
    ) -> Result<Self, PointsError> {
        let coordinates = coordinates.into();
        let m = manifold.ambient_dim();
        Rows::new(&coordinates, m)?;
        check_points(manifold.as_ref(), &coordinates)
            .map_err(|(row, source)| PointsError::Point { row, source })?;
        Ok(Self { manifold, coordinates, weights: None, groups: None, context: None })
    }

    /// The same on the manifold of a string form such as `sphere:2`.
    pub fn new(spec: &str, coordinates: impl Into<Vec<f64>>) -> Result<Self, PointsError> {
        Self::on(parse(spec)?, coordinates)
    }

    /// `n` points of a generated set such as `sphere-mixture` ([`crate::data::SYNTHETIC_NAMES`]).
    pub fn synthetic(name: &str, n: usize, seed: u64) -> Result<Self, PointsError> {
        let set = Synthetic::new(name)?;
        let drawn = set.sample(n, seed).map_err(PointsError::Generated)?;
        Self::on(Arc::clone(set.manifold()), drawn)
    }

    /// The same points, each counting as much as its weight says.
    pub fn with_weights(self, weights: Vec<f64>) -> Result<Self, PointsError> {
        self.expect("weights", weights.len())?;
        let allowed = |w: &f64| *w >= 0.0 && w.is_finite();
        let bad = weights.iter().position(|w| !allowed(w));
        if let Some(row) = bad.or_else(|| weights.iter().all(|w| *w == 0.0).then_some(0)) {
            return Err(PointsError::Weight { row, value: weights[row] });
        }
        Ok(Self { weights: Some(weights), ..self })
    }

    /// The same points, those of a group kept together wherever points are divided.
    pub fn with_groups(self, groups: Vec<String>) -> Result<Self, PointsError> {
        self.expect("groups", groups.len())?;
        Ok(Self { groups: Some(groups), ..self })
    }

    /// The same points with covariates.
    pub fn with_context(self, context: Context) -> Result<Self, PointsError> {
        let columns = context.names.len().max(1);
        let whole = context.values.len().is_multiple_of(columns);
        self.expect("rows of context", if whole { context.values.len() / columns } else { 0 })?;
        Ok(Self { context: Some(context), ..self })
    }

    fn expect(&self, what: &'static str, found: usize) -> Result<(), PointsError> {
        let points = self.len();
        if found == points { Ok(()) } else { Err(PointsError::Count { what, found, points }) }
    }

    /// Where they live.
    pub fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.manifold
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.coordinates.len() / self.manifold.ambient_dim()
    }

    /// Never true: there is at least one.
    pub fn is_empty(&self) -> bool {
        self.coordinates.is_empty()
    }

    /// Their coordinates, row by row.
    pub fn coordinates(&self) -> &[f64] {
        &self.coordinates
    }

    /// Their coordinates as rows.
    pub fn rows(&self) -> Rows<'_> {
        Rows::of_whole(&self.coordinates, self.manifold.ambient_dim())
    }

    /// The first rows, at most so many.
    pub fn first_rows(&self, limit: usize) -> Rows<'_> {
        let m = self.manifold.ambient_dim();
        Rows::of_whole(&self.coordinates[..self.len().min(limit.max(1)) * m], m)
    }

    /// What each point counts, if not all the same.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// The groups of the points, if they have any.
    pub fn groups(&self) -> Option<&[String]> {
        self.groups.as_deref()
    }

    /// The covariates of the points, if they have any.
    pub fn context(&self) -> Option<&Context> {
        self.context.as_ref()
    }

    /// So many of the points, drawn at random without replacement.
    pub(crate) fn some(&self, n: usize, seed: u64) -> Result<Self, ShapeError> {
        let mut rows: Vec<usize> = (0..self.len()).collect();
        split::shuffle(&mut rows, seed, split::SOME);
        rows.truncate(n);
        self.select(&rows)
    }

    /// The points of these rows, in this order; an error if there are none, or no such row.
    pub fn select(&self, rows: &[usize]) -> Result<Self, ShapeError> {
        if rows.is_empty() {
            return Err(ShapeError::Empty);
        }
        if let Some(&found) = rows.iter().find(|row| **row >= self.len()) {
            return Err(ShapeError::Len { found: found + 1, expected: self.len() });
        }
        let of = |values: &[f64], width: usize| -> Vec<f64> {
            rows.iter().flat_map(|i| &values[i * width..(i + 1) * width]).copied().collect()
        };
        Ok(Self {
            manifold: Arc::clone(&self.manifold),
            coordinates: of(&self.coordinates, self.manifold.ambient_dim()),
            weights: self.weights.as_ref().map(|weights| of(weights, 1)),
            groups: self
                .groups
                .as_ref()
                .map(|groups| rows.iter().map(|i| groups[*i].clone()).collect()),
            context: self.context.as_ref().map(|context| Context {
                names: context.names.clone(),
                values: of(&context.values, context.names.len()),
            }),
        })
    }
}
