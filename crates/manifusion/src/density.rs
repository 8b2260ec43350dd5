//! What every method of density estimation gives in the end.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::SolveError;
use crate::manifold::{Chart, Manifold};
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

/// A density of the coordinates of a chart as a density of its manifold.
#[derive(Debug)]
pub struct ChartDensity {
    /// The density of z.
    pub image: Box<dyn Density>,
    /// z as coordinates of x.
    pub chart: Arc<dyn Chart>,
}

impl Density for ChartDensity {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.chart.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        let z = project_rows(self.chart.as_ref(), x)?;
        let z = Rows::new(&z, self.chart.manifold().dim())?;
        let mut log_p = self.image.log_density(z)?;
        add_stretch(self.chart.as_ref(), z, &mut log_p);
        Ok(log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        lift_rows(self.chart.as_ref(), &self.image.sample(n, seed)?)
    }
}

/// The coordinates of rows of points, row by row; an error for one off the manifold or without
/// coordinates.
pub fn project_rows(chart: &dyn Chart, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
    let (manifold, d) = (chart.manifold(), chart.manifold().dim());
    let mut z = vec![0.0; x.len() * d];
    for (row, (x, z)) in x.rows().zip(z.chunks_exact_mut(d)).enumerate() {
        let projected = manifold.check_point(x).and_then(|()| chart.project(x, z));
        projected.map_err(SolveError::at(row, 0.0))?;
    }
    Ok(z)
}

/// The points with these coordinates, row by row; an error for one that is too far out to be a
/// point in double precision.
pub fn lift_rows(chart: &dyn Chart, z: &[f64]) -> Result<Vec<f64>, SolveError> {
    let manifold = chart.manifold();
    let (d, m) = (manifold.dim(), manifold.ambient_dim());
    let mut x = vec![0.0; z.len() / d * m];
    for (row, (z, x)) in z.chunks_exact(d).zip(x.chunks_exact_mut(m)).enumerate() {
        chart.lift(z, x);
        manifold.check_point(x).map_err(SolveError::at(row, 0.0))?;
    }
    Ok(x)
}

/// Log-densities of coordinates become those of their points.
pub fn add_stretch(chart: &dyn Chart, z: Rows<'_>, log_p: &mut [f64]) {
    for (log_p, z) in log_p.iter_mut().zip(z.rows()) {
        *log_p += chart.log_stretch(z);
    }
}
