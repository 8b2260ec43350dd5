//! A level set in a few lines: the ellipsoid x² + y²/4 + z² = 1 from its equation alone.
//! Projection, curvature and point map are derived by automatic differentiation; the self-checks
//! then vouch for them.

use std::sync::Arc;

use manifusion::check::{CheckOptions, check_manifold};
use manifusion::manifold::{Constraints, LevelSet, Manifold, Real};

#[derive(Debug)]
struct Ellipsoid {
    semi_axes: [f64; 3],
}

impl Constraints for Ellipsoid {
    fn name(&self) -> String {
        "ellipsoid".into()
    }

    fn ambient_dim(&self) -> usize {
        3
    }

    fn count(&self) -> usize {
        1
    }

    fn eval<R: Real>(&self, x: &[R], c: &mut [R]) {
        c[0] = R::from(-1.0);
        for (x, a) in x.iter().zip(self.semi_axes) {
            c[0] += *x * *x / (a * a);
        }
    }
}

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ellipsoid: Arc<dyn Manifold> =
        Arc::new(LevelSet::new(Ellipsoid { semi_axes: [1.0, 2.0, 1.0] })?);
    for check in check_manifold(&ellipsoid, &CheckOptions::default())?.checks {
        println!("{:55} {:9.1e} (allowed {:.1e})", check.law, check.value, check.tolerance);
    }
    Ok(())
}
