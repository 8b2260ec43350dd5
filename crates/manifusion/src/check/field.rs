//! The divergence of a test field, by every estimator.

use super::Check;
use crate::divergence::{Estimator, ProbeLaw, Probes};
use crate::error::SolveError;
use crate::linalg::dot;
use crate::manifold::Manifold;
use crate::rng::Streams;
use crate::rows::Rows;

/// fᵢ(x) = sin(⟨Aᵢ, x⟩ + bᵢ), smooth, not tangent and without symmetry.
struct TestField {
    a: Vec<f64>,
    b: Vec<f64>,
}

impl TestField {
    fn new(m: usize, streams: &Streams) -> Self {
        let (mut a, mut b) = (vec![0.0; m * m], vec![0.0; m]);
        streams.fill_normal(0, 10, 0, &mut a);
        streams.fill_normal(0, 11, 0, &mut b);
        // Arguments of size one in any dimension.
        crate::linalg::scale(1.0 / (m as f64).sqrt(), &mut a);
        Self { a, b }
    }

    fn value(&self, x: &[f64], f: &mut Vec<f64>) {
        f.extend(self.a.chunks_exact(x.len()).zip(&self.b).map(|(a, b)| (dot(a, x) + b).sin()));
    }

    fn derivative(&self, x: &[f64], e: &[f64], f: &mut Vec<f64>) {
        let rows = self.a.chunks_exact(x.len()).zip(&self.b);
        f.extend(rows.map(|(a, b)| (dot(a, x) + b).cos() * dot(a, e)));
    }

    /// ∇_g·(Pf) at every point by one estimator.
    fn divergence(
        &self,
        manifold: &dyn Manifold,
        estimator: Estimator,
        points: &[f64],
        streams: &Streams,
    ) -> Result<Vec<f64>, SolveError> {
        let m = manifold.ambient_dim();
        let x = Rows::new(points, m)?;
        let mut probes = Probes::default();
        probes.fill(manifold, estimator, x, streams, 0, 12)?;
        let (mut f, mut jf_e) = (Vec::new(), Vec::new());
        for (x, e) in x.rows().zip(probes.e.chunks_exact(probes.per_row * m)) {
            self.value(x, &mut f);
            for e in e.chunks_exact(m) {
                self.derivative(x, e, &mut jf_e);
            }
        }
        let mut div = vec![0.0; x.len()];
        probes.divergence(Rows::new(&f, m)?, Rows::new(&jf_e, m)?, &mut div)?;
        Ok(div)
    }
}

pub(super) fn check(
    manifold: &dyn Manifold,
    points: &[f64],
    draws: usize,
    streams: &Streams,
) -> Result<Vec<Check>, SolveError> {
    let m = manifold.ambient_dim();
    let field = TestField::new(m, streams);
    let exact = field.divergence(manifold, Estimator::Frame, points, streams)?;
    let deviation = |estimator| -> Result<f64, SolveError> {
        let other = field.divergence(manifold, estimator, points, streams)?;
        let terms = exact.iter().zip(&other);
        Ok(terms.map(|(a, b)| (a - b).abs() / (1.0 + a.abs())).fold(0.0, f64::max))
    };
    let mut checks = vec![Check::new(
        "divergence: random frame (QR) against frame",
        deviation(Estimator::RandomFrame)?,
        1e-8,
    )];
    for (estimator, law) in [
        (Estimator::ClosestPoint, "divergence: closest point against frame"),
        (Estimator::Intrinsic, "divergence: intrinsic coordinates against frame"),
    ] {
        if estimator.check(manifold).is_ok() {
            checks.push(Check::new(law, deviation(estimator)?, 1e-6));
        }
    }
    for (law, probe) in [
        ("divergence: Hutchinson, Gaussian", ProbeLaw::Gaussian),
        ("divergence: Hutchinson, Rademacher", ProbeLaw::Rademacher),
    ] {
        // Many probes of one point: the mean and its standard error.
        let n = (draws / 10).max(100);
        let copies = points[..m].repeat(n);
        let one = Estimator::Hutchinson { probes: 1, law: probe };
        let values = field.divergence(manifold, one, &copies, streams)?;
        let mean = values.iter().sum::<f64>() / n as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
        let tolerance = 4.0 * (variance / n as f64).sqrt() + 1e-10;
        checks.push(Check::new(law, (mean - exact[0]).abs(), tolerance));
    }
    Ok(checks)
}
