//! Products of manifolds, each factor in its own block of coordinates.

use std::sync::Arc;

use super::{Family, Manifold};
use crate::error::{PointError, SpecError};
use crate::rng::Stream;

/// M₁ × M₂ × … ⊂ ℝ^{m₁+m₂+…} with the product metric.
#[derive(Clone, Debug)]
pub struct Product {
    factors: Vec<Arc<dyn Manifold>>,
}

impl Product {
    /// The product of at least one factor, in order.
    pub fn new(factors: Vec<Arc<dyn Manifold>>) -> Result<Self, SpecError> {
        super::check_dim("product (factors)", factors.len(), 1, super::MAX_DIM)?;
        let ambient = factors.iter().map(|f| f.ambient_dim()).sum();
        super::check_dim("product (ambient)", ambient, 1, 4 * super::MAX_DIM)?;
        Ok(Self { factors })
    }

    /// Each factor with the start of its block.
    fn blocks(&self) -> impl Iterator<Item = (usize, &dyn Manifold)> {
        self.factors.iter().scan(0, |start, factor| {
            let at = *start;
            *start += factor.ambient_dim();
            Some((at, factor.as_ref()))
        })
    }
}

fn block(manifold: &dyn Manifold, start: usize) -> std::ops::Range<usize> {
    start..start + manifold.ambient_dim()
}

impl Manifold for Product {
    fn name(&self) -> String {
        self.factors.iter().map(|f| f.name()).collect::<Vec<_>>().join("*")
    }

    fn dim(&self) -> usize {
        self.factors.iter().map(|f| f.dim()).sum()
    }

    fn ambient_dim(&self) -> usize {
        self.factors.iter().map(|f| f.ambient_dim()).sum()
    }

    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        for (start, factor) in self.blocks() {
            let at = block(factor, start);
            factor.project_tangent(&x[at.clone()], &mut u[at]);
        }
    }

    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        super::check_finite(self, x)?;
        for (start, factor) in self.blocks() {
            factor.project_point(&mut x[block(factor, start)])?;
        }
        Ok(())
    }

    fn residual(&self, x: &[f64]) -> f64 {
        // In units of each factor's own tolerance; a NaN stays one, where `max` would drop it.
        let scaled =
            self.blocks().map(|(start, f)| f.residual(&x[block(f, start)]) / f.tolerance());
        let worst =
            scaled.fold(0.0, |worst, now| if now > worst || now.is_nan() { now } else { worst });
        worst * self.tolerance()
    }

    fn tolerance(&self) -> f64 {
        self.factors.iter().map(|f| f.tolerance()).fold(f64::INFINITY, f64::min)
    }

    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        for (start, factor) in self.blocks() {
            let at = block(factor, start);
            factor.mean_curvature(&x[at.clone()], &mut h[at]);
        }
    }

    fn frame(&self, x: &[f64], e: &mut [f64]) {
        let m = self.ambient_dim();
        e.fill(0.0);
        let mut row = 0;
        for (start, factor) in self.blocks() {
            let (d, own) = (factor.dim(), factor.ambient_dim());
            let mut frame = crate::linalg::scratch(d * own);
            factor.frame(&x[block(factor, start)], &mut frame);
            for vector in frame.chunks_exact(own) {
                e[row * m + start..row * m + start + own].copy_from_slice(vector);
                row += 1;
            }
        }
    }

    fn metric_is_induced(&self) -> bool {
        self.factors.iter().all(|f| f.metric_is_induced())
    }

    fn velocity(&self, x: &[f64], u: &mut [f64]) {
        for (start, factor) in self.blocks() {
            let at = block(factor, start);
            factor.velocity(&x[at.clone()], &mut u[at]);
        }
    }

    fn log_volume(&self) -> Option<f64> {
        self.factors.iter().map(|f| f.log_volume()).sum()
    }

    fn projects_to_closest(&self) -> bool {
        self.factors.iter().all(|f| f.projects_to_closest())
    }

    fn sample_uniform(&self, stream: &mut Stream, x: &mut [f64]) -> Result<bool, PointError> {
        for (start, factor) in self.blocks() {
            if !factor.sample_uniform(stream, &mut x[block(factor, start)])? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn family(&self) -> Family {
        Family::Product
    }

    fn factors(&self) -> &[Arc<dyn Manifold>] {
        &self.factors
    }
}
