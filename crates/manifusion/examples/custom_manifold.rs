//! Your own manifold from a projection and a point map: Stiefel V(4, 2) written from scratch and
//! compared with the built-in one. Frame, mean curvature, divergence, noise and uniform law follow
//! by default.

use std::sync::Arc;

use manifusion::check::{CheckOptions, check_manifold};
use manifusion::error::PointError;
use manifusion::manifold::{Manifold, Stiefel};
use nalgebra::{Matrix4x2, MatrixView4x2};

/// {X ∈ ℝ^{4×2} : XᵀX = I}, stored column by column.
#[derive(Debug)]
struct Frames;

impl Manifold for Frames {
    fn name(&self) -> String {
        "2-frames in R^4".into()
    }

    fn dim(&self) -> usize {
        5
    }

    fn ambient_dim(&self) -> usize {
        8
    }

    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        let (x, v) = (MatrixView4x2::from_slice(x), Matrix4x2::from_column_slice(u));
        let product = x.transpose() * v;
        let tangent = v - x * (product + product.transpose()) * 0.5;
        u.copy_from_slice(tangent.as_slice());
    }

    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        let svd = Matrix4x2::from_column_slice(x).svd(true, true);
        let (Some(u), Some(v)) = (svd.u, svd.v_t) else {
            return Err(PointError::NoProjection {
                manifold: self.name(),
                reason: "svd",
                value: f64::NAN,
            });
        };
        x.copy_from_slice((u * v).as_slice());
        Ok(())
    }
}

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manifolds: [Arc<dyn Manifold>; 2] = [Arc::new(Frames), Arc::new(Stiefel::new(4, 2)?)];
    for manifold in manifolds {
        let report = check_manifold(&manifold, &CheckOptions::default())?;
        println!(
            "{}: {}",
            report.manifold,
            if report.passed() { "every law holds" } else { "broken" }
        );
    }
    Ok(())
}
