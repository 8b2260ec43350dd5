//! Two errors of published evaluators of likelihoods, which ours must not have.

use std::f64::consts::PI;
use std::sync::Arc;

use manifusion::density::Density;
use manifusion::error::SolveError;
use manifusion::evaluation::EvaluationOptions;
use manifusion::field::Field;
use manifusion::flow_density::{FieldVelocity, FlowDensity, FlowOptions};
use manifusion::manifold::parse;
use manifusion::prior::default_prior;
use manifusion::rows::Rows;

/// b + c(x, s) x on the sphere, with c = size (1 + x₀ + s x₁): a tangent part P b and a normal
/// part.
#[derive(Debug)]
struct WithNormalPart {
    b: [f64; 3],
    size: f64,
}

impl WithNormalPart {
    fn factor(&self, x: &[f64], s: f64) -> f64 {
        self.size * (1.0 + x[0] + s * x[1])
    }

    /// The derivative of the factor along e.
    fn factor_along(&self, e: &[f64], s: f64) -> f64 {
        self.size * (e[0] + s * e[1])
    }
}

impl Field for WithNormalPart {
    fn eval(
        &self,
        x: Rows<'_>,
        s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        for (i, (x, a)) in x.rows().zip(a.chunks_exact_mut(3)).enumerate() {
            let c = self.factor(x, s[i]);
            for k in 0..3 {
                a[k] = self.b[k] + c * x[k];
            }
            for j in 0..per_row {
                let at = 3 * (i * per_row + j)..3 * (i * per_row + j + 1);
                let (e, out) = (&e[at.clone()], &mut jvp[at]);
                let along = self.factor_along(e, s[i]);
                for k in 0..3 {
                    out[k] = along * x[k] + c * e[k];
                }
            }
        }
        Ok(())
    }
}

fn flow(field: WithNormalPart, end: f64, tolerance: f64) -> FlowDensity {
    let manifold = parse("sphere:2").unwrap();
    let prior = default_prior(&manifold).unwrap();
    let velocity = Arc::new(FieldVelocity(Arc::new(field)));
    let options = FlowOptions::with_tolerance(tolerance);
    FlowDensity { options, ..FlowDensity::new(manifold, prior, velocity, 0.0, end) }
}

/// Points around the sphere.
fn places() -> Vec<f64> {
    let place = |i: i32| {
        let (z, t) = (-0.9 + 0.2 * f64::from(i), 2.4 * f64::from(i));
        let r = (1.0 - z * z).sqrt();
        [r * t.cos(), r * t.sin(), z]
    };
    (0..10).flat_map(place).collect()
}

/// A network on the ambient space has a normal part that no loss sees. An evaluator that takes the
/// ambient trace of P a, without moving off the sphere along the normal, counts −2⟨a, x⟩ of it.
#[test]
fn a_normal_part_of_the_field_changes_no_likelihood() {
    let (b, end, size) = ([0.4, -0.3, 0.9], 1.2, 40.0);
    let x = places();
    let rows = Rows::new(&x, 3).unwrap();
    let log_p = |size: f64| flow(WithNormalPart { b, size }, end, 1e-9).log_density(rows).unwrap();
    let (without, with) = (log_p(0.0), log_p(size));
    for (without, with) in without.iter().zip(&with) {
        assert!((without - with).abs() < 1e-6, "{without} {with}");
    }
    // What that evaluator would add at the first step alone is not small.
    let field = WithNormalPart { b, size };
    let wrong: f64 = rows.rows().map(|x| 2.0 * field.factor(x, 0.0).abs()).fold(0.0, f64::max);
    assert!(wrong * 0.01 > 1.0, "{wrong}");
}

/// The gradient of c z moves heights along z ↦ tanh(artanh z + c s) with the divergence −2 c z, so
/// that p(x) = (1/4π)(1 − z_T²)/(1 − z²): a peak of e^{2cT}/4π at the south pole, which the flow
/// spreads. Likelihoods by Euler steps with Σ a·dt in place of Σ log(1 + a·dt) flatter there.
#[test]
fn a_strong_flow_has_the_likelihood_of_its_closed_form() {
    let (c, end) = (4.0, 1.0);
    let exact = |z: f64| {
        let to = (z.atanh() + c * end).tanh();
        ((1.0 - to * to) / (1.0 - z * z)).ln() - (4.0 * PI).ln()
    };
    let heights: [f64; 6] = [-0.999999, -0.9999, -0.9993, -0.99, -0.5, 0.3];
    let x: Vec<f64> = heights.iter().flat_map(|z| [(1.0 - z * z).sqrt(), 0.0, *z]).collect();
    let rows = Rows::new(&x, 3).unwrap();
    let field = WithNormalPart { b: [0.0, 0.0, c], size: 0.0 };
    // The tolerance of evaluations.
    let tolerance = EvaluationOptions::default().tolerance;
    let found = flow(field, end, tolerance).log_density(rows).unwrap();
    let mut ours = 0.0f64;
    for (z, found) in heights.iter().zip(&found) {
        ours = ours.max((found - exact(*z)).abs());
    }
    assert!(ours < 2e-3, "largest error {ours}");
    // Left points with a hundred steps, the height itself moved exactly: too large at the peak.
    let steps = 100;
    let dt = end / f64::from(steps);
    let left = |z: f64| {
        let at = |k: i32| (z.atanh() + c * dt * f64::from(k)).tanh();
        (0..steps).map(|k| -2.0 * c * at(k) * dt).sum::<f64>() - (4.0 * PI).ln()
    };
    let flattered = left(heights[1]) - exact(heights[1]);
    assert!(flattered > 10.0 * ours.max(1e-3), "{flattered} {ours}");
}
