//! What every method of density estimation gives in the end.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::SolveError;
use crate::manifold::Manifold;
use crate::rows::Rows;

/// A probability density on a manifold, with respect to the manifold's own volume, that can be
/// evaluated and sampled.
pub trait Density: Debug + Send + Sync {
    /// The manifold it lives on.
    fn manifold(&self) -> &Arc<dyn Manifold>;

    /// log p(x) of every row, in nats.
    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError>;

    /// `n` draws, row by row.
    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError>;
}
