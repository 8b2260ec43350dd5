//! Densities of flows, against flows that are known in closed form.

use std::sync::Arc;

use crate::common::kolmogorov_smirnov;
use manifusion::density::Density;
use manifusion::error::SolveError;
use manifusion::field::Field;
use manifusion::flow_density::{FieldVelocity, FlowClock, FlowDensity, FlowOptions};
use manifusion::manifold::parse;
use manifusion::ode::OdeOptions;
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::Rows;

/// A linear field a(x) = A x, whose derivative along e is A e.
#[derive(Debug)]
struct Linear(Vec<Vec<f64>>);

impl Linear {
    fn apply(&self, x: &[f64], out: &mut [f64]) {
        for (out, row) in out.iter_mut().zip(&self.0) {
            *out = row.iter().zip(x).map(|(a, x)| a * x).sum();
        }
    }
}

impl Field for Linear {
    fn eval(
        &self,
        x: Rows<'_>,
        _s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = x.width();
        for (x, a) in x.rows().zip(a.chunks_exact_mut(m)) {
            self.apply(x, a);
        }
        if per_row > 0 {
            for (e, out) in e.chunks_exact(m).zip(jvp.chunks_exact_mut(m)) {
                self.apply(e, out);
            }
        }
        Ok(())
    }
}

fn flow(spec: &str, field: impl Field + 'static, start: f64, end: f64) -> FlowDensity {
    let manifold = parse(spec).unwrap();
    let prior = default_prior(&manifold).unwrap();
    let velocity = Arc::new(FieldVelocity(Arc::new(field)));
    FlowDensity {
        options: FlowOptions::with_tolerance(1e-9),
        sampling: OdeOptions { rtol: 1e-6, atol: 1e-6, ..OdeOptions::default() },
        ..FlowDensity::new(manifold, prior, velocity, start, end)
    }
}

fn gradient_of_height(c: f64) -> Constant {
    Constant(vec![0.0, 0.0, c])
}

/// a(x) = b: on a sphere, P b is the gradient of ⟨b, x⟩.
#[derive(Debug)]
struct Constant(Vec<f64>);

impl Field for Constant {
    fn eval(
        &self,
        _x: Rows<'_>,
        _s: &[f64],
        _per_row: usize,
        _e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        for a in a.chunks_exact_mut(self.0.len()) {
            a.copy_from_slice(&self.0);
        }
        jvp.fill(0.0);
        Ok(())
    }
}

/// dY/ds = A Y on ℝ² stretches one axis by e^{0.7} and the other by e^{−0.4}.
#[test]
fn a_linear_flow_of_the_plane_has_a_normal_density() {
    let stretch = [0.7f64, -0.4];
    let field = Linear(vec![vec![stretch[0], 0.0], vec![0.0, stretch[1]]]);
    let density = flow("euclidean:2", field, 0.0, 1.0);
    let x = [0.3, -0.2, 1.5, 2.0, 0.0, 0.0];
    let found = density.log_density(Rows::new(&x, 2).unwrap()).unwrap();
    for (x, found) in x.chunks_exact(2).zip(found) {
        let carried: f64 = x.iter().zip(stretch).map(|(x, r)| (x * r.exp()).powi(2)).sum();
        let expected = -0.5 * carried - std::f64::consts::TAU.ln() + stretch.iter().sum::<f64>();
        assert!((found - expected).abs() < 1e-7, "{found} {expected}");
    }
    // Samples: normal with standard deviations e^{−0.7} and e^{0.4}.
    let n = 4000;
    let drawn = density.sample(n, 1).unwrap();
    for (axis, rate) in stretch.into_iter().enumerate() {
        let variance = drawn.iter().skip(axis).step_by(2).map(|x| x * x).sum::<f64>() / n as f64;
        let expected = (-2.0 * rate).exp();
        let se = expected * (2.0 / n as f64).sqrt();
        assert!((variance - expected).abs() < 4.0 * se, "{variance} {expected} ± {se}");
    }
}

/// The gradient of c z on S² moves heights along z ↦ tanh(artanh z + c s) and leaves longitudes, so
/// that p(x) = (1/4π)(1 − z_T²)/(1 − z²). Both directions of time.
#[test]
fn the_gradient_flow_of_height_on_the_sphere() {
    let (c, time) = (0.8f64, 1.5);
    for (start, end, clock) in [
        (0.0, time, FlowClock::Time),
        (time, 0.0, FlowClock::Time),
        (2.0, 2.0 + time, FlowClock::Time),
        (1e-6, 1e-6 + time, FlowClock::LogTime),
        (1e-6 + time, 1e-6, FlowClock::LogTime),
    ] {
        let sign = if end > start { 1.0 } else { -1.0 };
        let field = gradient_of_height(sign * c);
        let density = FlowDensity { clock, ..flow("sphere:2", field, start, end) };
        let moved = |z: f64| (z.atanh() + c * time).tanh();
        let mut x = Vec::new();
        for z in [-0.95f64, -0.5, 0.0, 0.3, 0.9] {
            let radius = (1.0 - z * z).sqrt();
            x.extend([radius * z.cos(), radius * z.sin(), z]);
        }
        let found = density.log_density(Rows::new(&x, 3).unwrap()).unwrap();
        for (x, found) in x.chunks_exact(3).zip(found) {
            let (z, end) = (x[2], moved(x[2]));
            let expected = ((1.0 - end * end) / (1.0 - z * z) / (4.0 * std::f64::consts::PI)).ln();
            assert!((found - expected).abs() < 1e-6, "z = {z}: {found} {expected}");
        }
        // Heights of samples: those of the uniform density, moved back.
        let mut drawn: Vec<f64> =
            density.sample(3000, 5).unwrap().chunks_exact(3).map(|x| x[2]).collect();
        let mut stream = Streams::new(6, "heights").stream(0, 0);
        let mut expected: Vec<f64> =
            (0..3000).map(|_| ((2.0 * stream.uniform() - 1.0).atanh() - c * time).tanh()).collect();
        let (worst, allowed) = kolmogorov_smirnov(&mut drawn, &mut expected);
        assert!(worst < allowed, "{worst} > {allowed}");
    }
}

/// A rotation carries the uniform density into itself.
#[test]
fn a_rotation_changes_nothing() {
    let field = Linear(vec![vec![0.0, -2.0, 0.0], vec![2.0, 0.0, 0.0], vec![0.0; 3]]);
    let density = flow("sphere:2", field, 0.0, 1.0);
    let found = density.log_density(Rows::new(&[0.6, 0.0, 0.8], 3).unwrap()).unwrap();
    assert!((found[0] + (4.0 * std::f64::consts::PI).ln()).abs() < 1e-9);
}

#[test]
fn a_flow_without_time_is_refused() {
    let density = flow("sphere:2", gradient_of_height(1.0), 1.0, 1.0);
    let error = density.sample(1, 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        "end - start = 0 is not allowed; a flow takes a finite time from the data to the prior"
    );
    let field = gradient_of_height(1.0);
    let density = FlowDensity { clock: FlowClock::LogTime, ..flow("sphere:2", field, 0.0, 1.0) };
    assert_eq!(
        density.sample(1, 0).unwrap_err().to_string(),
        "start = 0 is not allowed; times must be positive where the clock is logarithmic"
    );
}

/// A field that ends at s = 0.01.
#[derive(Debug)]
struct Ending;

impl Field for Ending {
    fn eval(
        &self,
        _x: Rows<'_>,
        s: &[f64],
        _per_row: usize,
        _e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        a.fill(if s.iter().any(|s| *s > 0.01) { f64::NAN } else { 0.0 });
        jvp.fill(0.0);
        Ok(())
    }
}

/// Errors name the flow's time, not the place on the solver's clock.
#[test]
fn errors_name_the_time_of_the_flow() {
    let density = FlowDensity { clock: FlowClock::LogTime, ..flow("sphere:2", Ending, 1e-4, 1.0) };
    let x = [0.6, 0.0, 0.8];
    let error = density.log_density(Rows::new(&x, 3).unwrap()).unwrap_err();
    let SolveError::NotFinite { time, .. } = error else { panic!("{error}") };
    assert!((0.01..1.0).contains(&time), "{time}");
}
