//! Manifolds whose two functions work on whole batches: where a call is dear and a row is cheap, as
//! for functions in another language.

use std::fmt::Debug;

use super::{Manifold, check_finite, differences};
use crate::error::PointError;
use crate::linalg::distance;

/// The tangent projection and the point map on batches, which a [`ByRows`] makes a manifold of.
/// Arrays are rows of `ambient_dim` numbers.
pub trait RowMaps: Debug + Send + Sync {
    /// The string form.
    fn name(&self) -> String;

    /// d.
    fn dim(&self) -> usize;

    /// m.
    fn ambient_dim(&self) -> usize;

    /// `u ← P_x u` for every row of x and u, as [`Manifold::project_tangent`].
    fn tangents(&self, x: &[f64], u: &mut [f64]);

    /// `x ← π(x)` for every row, as [`Manifold::project_point`]; NaN where there is no such point.
    fn points(&self, x: &mut [f64]);
}

/// A manifold from two functions on batches. Solvers, losses and the uniform law give it as many
/// rows at once as they have.
#[derive(Clone, Debug)]
pub struct ByRows<F>(pub F);

/// An error of one row of a batch, with the row.
pub type RowFault = (usize, PointError);

/// Rows of one call, at least, where there are so many.
const ROWS_PER_CALL: usize = 512;

impl<F: RowMaps> Manifold for ByRows<F> {
    fn name(&self) -> String {
        self.0.name()
    }

    fn dim(&self) -> usize {
        self.0.dim()
    }

    fn ambient_dim(&self) -> usize {
        self.0.ambient_dim()
    }

    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        self.0.tangents(x, u);
    }

    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        project_points(self, x).map_err(|(_, error)| error)
    }

    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        differences::mean_curvatures(&self.0, x, h);
    }

    fn frame(&self, x: &[f64], e: &mut [f64]) {
        differences::frames(&self.0, x, e);
    }

    fn project_along_normal(&self, x: &[f64], z: &mut [f64]) -> bool {
        differences::along_normals(&self.0, x, z, differences::NormalSearch::EXACT)[0]
    }

    fn by_rows(&self) -> Option<&dyn RowMaps> {
        Some(&self.0)
    }
}

/// Rows that are worked on together: `usual`, or more where calls are dear.
pub(crate) fn chunk_rows(manifold: &dyn Manifold, usual: usize) -> usize {
    if manifold.by_rows().is_some() { usual.max(ROWS_PER_CALL) } else { usual.max(1) }
}

/// `u ← P_x u` for every row.
pub fn project_tangents<M: Manifold + ?Sized>(manifold: &M, x: &[f64], u: &mut [f64]) {
    if let Some(maps) = manifold.by_rows() {
        maps.tangents(x, u);
        return;
    }
    let m = manifold.ambient_dim();
    for (x, u) in x.chunks_exact(m).zip(u.chunks_exact_mut(m)) {
        manifold.project_tangent(x, u);
    }
}

/// `e ←` an orthonormal basis of the tangent space at every row of x.
pub fn frames_at<M: Manifold + ?Sized>(manifold: &M, x: &[f64], e: &mut [f64]) {
    let (d, m) = (manifold.dim(), manifold.ambient_dim());
    let Some(maps) = manifold.by_rows() else {
        let rows = x.chunks_exact(m).zip(e.chunks_exact_mut(d * m));
        return rows.for_each(|(x, e)| manifold.frame(x, e));
    };
    differences::frames(maps, x, e);
}

/// `x ← π(x)` for every row; the error of the first row without a point.
pub fn project_points<M: Manifold + ?Sized>(manifold: &M, x: &mut [f64]) -> Result<(), RowFault> {
    let m = manifold.ambient_dim();
    let Some(maps) = manifold.by_rows() else {
        let mut rows = x.chunks_exact_mut(m).enumerate();
        return rows
            .try_for_each(|(row, x)| manifold.project_point(x).map_err(|error| (row, error)));
    };
    maps.points(x);
    match x.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => {
            let (manifold, reason) = (maps.name(), "a coordinate of its point");
            Err((at / m, PointError::NoProjection { manifold, reason, value: x[at] }))
        }
    }
}

/// [`Manifold::check_point`] of every row.
pub fn check_points<M: Manifold + ?Sized>(manifold: &M, x: &[f64]) -> Result<(), RowFault> {
    let m = manifold.ambient_dim();
    let Some(maps) = manifold.by_rows() else {
        let mut rows = x.chunks_exact(m).enumerate();
        return rows.try_for_each(|(row, x)| manifold.check_point(x).map_err(|error| (row, error)));
    };
    for (row, x) in x.chunks_exact(m).enumerate() {
        check_finite(manifold, x).map_err(|error| (row, error))?;
    }
    let mut y = x.to_vec();
    maps.points(&mut y);
    let tolerance = manifold.tolerance();
    for (row, (x, y)) in x.chunks_exact(m).zip(y.chunks_exact(m)).enumerate() {
        let residual = distance(x, y);
        // Negated so that a NaN residual is refused as well.
        if !(residual <= tolerance) {
            let manifold = maps.name();
            return Err((row, PointError::OffManifold { manifold, residual, tolerance }));
        }
    }
    Ok(())
}
