//! Densities with known values, shared by the tests and the gallery.

use std::sync::Arc;

use manifusion::data::Synthetic;
use manifusion::density::Density;
use manifusion::error::SolveError;
use manifusion::manifold::Manifold;
use manifusion::rows::Rows;

/// A generated data set as the density that it is drawn from.
#[derive(Debug)]
pub(crate) struct Exact(pub(crate) Synthetic);

impl Density for Exact {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.0.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(x.rows().map(|x| self.0.log_density(x)).collect())
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.0.sample(n, seed).map_err(SolveError::at(0, 0.0))
    }
}
