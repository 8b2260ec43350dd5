//! Embedded Riemannian manifolds: one trait, one file per space.
//!
//! A manifold M ⊂ ℝᵐ carries the metric induced by the ambient inner product (Frobenius for
//! matrices), as in the paper's section 2.2. Two functions define it, the tangent projection P_x
//! and a point map π; everything else has a default that is derived from these two, and a closed
//! form where one is known.
//!
//! One space has another metric, hyperbolic space with g_L. There a vector is given by its
//! coefficients in a g-orthonormal frame field V, so that norms and projections remain those of ℝᵐ,
//! and [`Manifold::velocity`] says how fast the point moves.

mod by_rows;
mod chart;
mod differences;
mod euclidean;
mod generators;
mod geodesic;
mod hyperboloid;
mod level_set;
mod log_coordinates;
mod lorentz;
mod orthogonal;
mod parametrised;
mod product;
mod spec;
mod sphere;
mod stiefel;
mod torus;

use std::fmt::Debug;
use std::sync::Arc;

pub(crate) use by_rows::chunk_rows;
pub use by_rows::{
    ByRows, RowFault, RowMaps, check_points, frames_at, project_points, project_tangents,
};
pub use chart::{Chart, NormalCoordinates, Stereographic};
pub(crate) use differences::mean_curvature as mean_curvature_by_differences;
pub(crate) use differences::{NormalSearch, along_normals, frames, mean_curvatures};
pub use euclidean::Euclidean;
pub use generators::Generators;
pub use geodesic::Geodesics;
pub use hyperboloid::{Hyperboloid, Metric};
pub use level_set::{Constraints, Expressions, LevelSet, Real};
pub use log_coordinates::LogCoordinates;
pub use lorentz::Lorentz;
pub use orthogonal::Orthogonal;
pub use parametrised::{Parametrisation, Parametrised};
pub use product::Product;
pub use spec::{SPEC_FORMS, parse};
pub use sphere::{Sphere, sphere_log_volume};
pub use stiefel::Stiefel;
pub use torus::Torus;

use crate::error::{PointError, SpecError};
use crate::rng::Stream;

/// A `d`-dimensional submanifold of ℝᵐ with the metric induced by the ambient inner product.
///
/// Implement the five functions without a body and the rest follows. Functions write into slices
/// that the caller owns; points and vectors have `ambient_dim` coordinates.
pub trait Manifold: Debug + Send + Sync {
    /// The string form, such as `sphere:2`.
    fn name(&self) -> String;

    /// d.
    fn dim(&self) -> usize;

    /// m.
    fn ambient_dim(&self) -> usize;

    /// `u ← P_x u`, the orthogonal projection on the tangent space (in the ambient product).
    ///
    /// Solvers also call it a little off the manifold (at the predictor Ŷ of Heun's scheme): it
    /// must be smooth in a neighbourhood of M.
    fn project_tangent(&self, x: &[f64], u: &mut [f64]);

    /// `x ← π(x)`: a smooth map of a neighbourhood onto M that fixes M (a retraction). It need not
    /// be the closest point; see [`Manifold::projects_to_closest`].
    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError>;

    /// Constraint violation at `x`, zero on the manifold and of the order of the distance to it.
    fn residual(&self, x: &[f64]) -> f64 {
        let mut y = crate::linalg::Scratch::from_slice(x);
        match self.project_point(&mut y) {
            Ok(()) => crate::linalg::distance(x, &y),
            Err(_) => f64::INFINITY,
        }
    }

    /// Largest [`Manifold::residual`] that counts as being on the manifold.
    fn tolerance(&self) -> f64 {
        1e-6
    }

    /// `h ← H(x) = Σⱼ D_xP[eⱼ] eⱼ`, the mean-curvature vector (a sum, not an average); normal to M.
    ///
    /// Default: central differences of P along π(x ± t eⱼ), extrapolated to sixth order.
    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        differences::mean_curvature(self, x, h);
    }

    /// `e ←` an orthonormal basis of T_xM, `dim` rows of `ambient_dim`.
    ///
    /// Default: the projected coordinate vectors, orthonormalised with pivoting.
    fn frame(&self, x: &[f64], e: &mut [f64]) {
        differences::pivoted_frame(self, x, e);
    }

    /// Whether the metric is that of the ambient product. If not, vectors are coefficients in an
    /// orthonormal frame field V, [`Manifold::velocity`] applies it, and
    /// [`Manifold::mean_curvature`] is the vector of the divergences ∇_g·V_j: what makes ∇_g·(Va) =
    /// Σⱼ V_j(aⱼ) + ⟨h, a⟩ true on either kind of space.
    fn metric_is_induced(&self) -> bool {
        true
    }

    /// `u ← V_x u`: the velocity in ℝᵐ of a point that moves along the tangent vector u. Nothing to
    /// do for an induced metric.
    fn velocity(&self, _x: &[f64], _u: &mut [f64]) {}

    /// log of the Riemannian volume, where it is finite and known in closed form.
    fn log_volume(&self) -> Option<f64> {
        None
    }

    /// Whether π is the Euclidean closest point.
    fn projects_to_closest(&self) -> bool {
        false
    }

    /// Draws from the uniform law if an exact way is known; `Ok(false)` if none is.
    fn sample_uniform(&self, _stream: &mut Stream, _x: &mut [f64]) -> Result<bool, PointError> {
        Ok(false)
    }

    /// `z ←` the point of M near z in the affine normal space z + N_xM of another point x; false if
    /// it is not found. Chains that sample the uniform law step with it.
    ///
    /// Default: corrections of the argument of π until the tangential part at x fits.
    fn project_along_normal(&self, x: &[f64], z: &mut [f64]) -> bool {
        differences::project_along_normal(self, x, z)
    }

    /// Which space this is, for what only holds on particular ones (exact noise, kernels, priors).
    fn family(&self) -> Family {
        Family::Other
    }

    /// The factors of a product, in order of their coordinates; empty for everything else.
    fn factors(&self) -> &[Arc<dyn Manifold>] {
        &[]
    }

    /// The same two functions on whole batches, where a call costs far more than a row of it; see
    /// [`ByRows`].
    fn by_rows(&self) -> Option<&dyn RowMaps> {
        None
    }

    /// An error unless `x` has the right width, is finite and lies on the manifold.
    fn check_point(&self, x: &[f64]) -> Result<(), PointError> {
        check_finite(self, x)?;
        let (residual, tolerance) = (self.residual(x), self.tolerance());
        // Negated so that a NaN residual is refused as well.
        if !(residual <= tolerance) {
            return Err(PointError::OffManifold { manifold: self.name(), residual, tolerance });
        }
        Ok(())
    }
}

/// The spaces about which more is known than their projection.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Family {
    /// The unit sphere S^d.
    Sphere {
        /// d
        dim: usize,
    },
    /// The torus T^d ⊂ ℝ^{2d} of d unit circles.
    Torus {
        /// d
        dim: usize,
    },
    /// The hyperboloid H^d_K.
    Hyperboloid {
        /// d
        dim: usize,
        /// K < 0
        curvature: f64,
        /// g_E or g_L.
        metric: Metric,
    },
    /// SO(n), or O(n) when not special.
    Orthogonal {
        /// n
        n: usize,
        /// det = 1 only.
        special: bool,
    },
    /// ℝ^d.
    Euclidean {
        /// d
        dim: usize,
    },
    /// A product of [`Manifold::factors`].
    Product,
    /// Anything else.
    Other,
}

#[inline]
fn check_width<M: Manifold + ?Sized>(manifold: &M, x: &[f64]) -> Result<(), PointError> {
    let expected = manifold.ambient_dim();
    if x.len() == expected {
        return Ok(());
    }
    Err(PointError::Width { manifold: manifold.name(), found: x.len(), expected })
}

fn check_finite<M: Manifold + ?Sized>(manifold: &M, x: &[f64]) -> Result<(), PointError> {
    check_width(manifold, x)?;
    match x.iter().position(|v| !v.is_finite()) {
        Some(index) => Err(PointError::NotFinite { index, value: x[index] }),
        None => Ok(()),
    }
}

/// Largest dimension of the families that have one parameter.
const MAX_DIM: usize = 4096;
/// Largest n of the matrix manifolds, whose points have n² coordinates.
const MAX_MATRIX: usize = 64;

fn check_dim(
    manifold: &'static str,
    found: usize,
    min: usize,
    max: usize,
) -> Result<usize, SpecError> {
    if (min..=max).contains(&found) {
        Ok(found)
    } else {
        Err(SpecError::Dimension { manifold, found, min, max })
    }
}

/// π of a Gaussian: uniform wherever π commutes with a transitive group of isometries of ℝᵐ, as on
/// spheres, tori and Stiefel manifolds.
fn project_gaussian<M: Manifold + ?Sized>(
    manifold: &M,
    stream: &mut Stream,
    x: &mut [f64],
) -> Result<bool, PointError> {
    for x in x.iter_mut() {
        *x = stream.normal();
    }
    manifold.project_point(x)?;
    Ok(true)
}
