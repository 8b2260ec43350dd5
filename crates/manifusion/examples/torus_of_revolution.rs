//! A parametrised surface: the torus of revolution in ℝ³, with P = J(JᵀJ)⁻¹Jᵀ from ψ, and its area
//! by a long run.

use std::sync::Arc;

use manifusion::manifold::{Manifold, Parametrisation, Parametrised, Real};
use manifusion::prior::{LongRun, LongRunOptions};

#[derive(Debug)]
struct Doughnut {
    ring: f64,
    tube: f64,
}

impl Parametrisation for Doughnut {
    fn name(&self) -> String {
        "torus of revolution".into()
    }

    fn dim(&self) -> usize {
        2
    }

    fn ambient_dim(&self) -> usize {
        3
    }

    fn map<R: Real>(&self, u: &[R], x: &mut [R]) {
        let radius = u[1].cos() * self.tube + self.ring;
        x[0] = u[0].cos() * radius;
        x[1] = u[0].sin() * radius;
        x[2] = u[1].sin() * self.tube;
    }

    fn coordinates(&self, x: &[f64], u: &mut [f64]) {
        u[0] = x[1].atan2(x[0]);
        u[1] = x[2].atan2(x[0].hypot(x[1]) - self.ring);
    }
}

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (ring, tube) = (2.0, 0.7);
    let surface: Arc<dyn Manifold> = Arc::new(Parametrised::new(Doughnut { ring, tube })?);
    let uniform = LongRun::new(surface, LongRunOptions::default())?;
    let (log_area, error) = uniform.log_volume();
    let exact = 4.0 * std::f64::consts::PI.powi(2) * ring * tube;
    println!("area {:.3} ± {:.3}, exactly {exact:.3}", log_area.exp(), error * log_area.exp());
    Ok(())
}
