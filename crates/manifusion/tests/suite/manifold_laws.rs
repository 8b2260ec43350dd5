//! The law suite: every manifold, built in or user-defined, through the same checks.

use std::sync::Arc;

use manifusion::check::{CheckOptions, check_manifold, sample_points};
use manifusion::error::PointError;
use manifusion::manifold::{Manifold, Parametrisation, Parametrised, Product, Real, parse};
use manifusion::rng::Streams;

const SPECS: [&str; 27] = [
    "sphere:1",
    "sphere:2",
    "sphere:3",
    "sphere:7",
    "torus:1",
    "torus:2",
    "torus:7",
    "hyperbolic:1",
    "hyperbolic:2",
    "hyperbolic:3,K=-0.5",
    "hyperbolic:2,K=-2,pi=closest",
    "hyperbolic:2,K=-25",
    "hyperbolic:2,metric=lorentz",
    "hyperbolic:3,K=-0.5,metric=lorentz*sphere:2",
    "sphere:60",
    "level:x^2+y^2+z^2-0.0001",
    "level:x^2+y^2-0.01",
    "level:x^6+y^6-1",
    "so:2",
    "so:3",
    "o:3",
    "so:4",
    "stiefel:4,2",
    "stiefel:5,1",
    "euclidean:4",
    "level:x^2+y^2/4+z^2-1",
    "level:x1^2+x2^2+x3^2+x4^2-1;x1*x2-x3*x4",
];

fn assert_laws(manifold: &Arc<dyn Manifold>) {
    let report = check_manifold(manifold, &CheckOptions::default()).expect("random points exist");
    for check in &report.checks {
        assert!(
            check.passed(),
            "{}: {}: {:e} exceeds {:e}",
            report.manifold,
            check.law,
            check.value,
            check.tolerance
        );
    }
}

#[test]
fn built_in_manifolds() {
    for spec in SPECS {
        assert_laws(&parse(spec).unwrap());
    }
}

#[test]
fn products() {
    for spec in ["sphere:2*torus:3", "so:3*euclidean:3", "hyperbolic:2*sphere:1*stiefel:3,2"] {
        assert_laws(&parse(spec).unwrap());
    }
}

#[derive(Debug)]
struct Doughnut;

impl Parametrisation for Doughnut {
    fn name(&self) -> String {
        "doughnut".into()
    }
    fn dim(&self) -> usize {
        2
    }
    fn ambient_dim(&self) -> usize {
        3
    }
    fn map<R: Real>(&self, u: &[R], x: &mut [R]) {
        let radius = u[1].cos() * 0.7 + 2.0;
        x[0] = u[0].cos() * radius;
        x[1] = u[0].sin() * radius;
        x[2] = u[1].sin() * 0.7;
    }
    fn coordinates(&self, x: &[f64], u: &mut [f64]) {
        u[0] = x[1].atan2(x[0]);
        u[1] = x[2].atan2(x[0].hypot(x[1]) - 2.0);
    }
}

#[test]
fn a_parametrised_surface() {
    let surface: Arc<dyn Manifold> = Arc::new(Parametrised::new(Doughnut).unwrap());
    assert_laws(&surface);
}

/// A sphere that gives nothing but P and π: frame and H are the provided defaults.
#[derive(Debug)]
struct BareSphere;

impl Manifold for BareSphere {
    fn name(&self) -> String {
        "bare sphere".into()
    }
    fn dim(&self) -> usize {
        2
    }
    fn ambient_dim(&self) -> usize {
        3
    }
    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        let xx: f64 = x.iter().map(|x| x * x).sum();
        let c: f64 = x.iter().zip(&*u).map(|(x, u)| x * u).sum::<f64>() / xx;
        for (u, x) in u.iter_mut().zip(x) {
            *u -= c * x;
        }
    }
    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        let length = x.iter().map(|x| x * x).sum::<f64>().sqrt();
        for x in x {
            *x /= length;
        }
        Ok(())
    }
}

#[test]
fn a_type_with_projection_and_point_map_only() {
    let sphere: Arc<dyn Manifold> = Arc::new(BareSphere);
    assert_laws(&sphere);
    let x = [0.6, 0.0, 0.8];
    let mut h = [0.0; 3];
    BareSphere.mean_curvature(&x, &mut h);
    for (h, x) in h.iter().zip(x) {
        assert!((h + 2.0 * x).abs() < 1e-11, "H by differences: {h} instead of {}", -2.0 * x);
    }
}

/// The classic mistake: the Lorentz projection is idempotent but not symmetric. The suite must
/// catch it.
#[derive(Debug)]
struct LorentzProjection(Arc<dyn Manifold>);

impl Manifold for LorentzProjection {
    fn name(&self) -> String {
        "wrong".into()
    }
    fn dim(&self) -> usize {
        2
    }
    fn ambient_dim(&self) -> usize {
        3
    }
    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        let product = |u: &[f64]| u[1] * x[1] + u[2] * x[2] - u[0] * x[0];
        let c = product(u) / product(x);
        for (u, x) in u.iter_mut().zip(x) {
            *u -= c * x;
        }
    }
    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        self.0.project_point(x)
    }
    fn family(&self) -> manifusion::manifold::Family {
        self.0.family()
    }
}

#[test]
fn the_lorentz_projection_is_caught() {
    let wrong: Arc<dyn Manifold> = Arc::new(LorentzProjection(parse("hyperbolic:2").unwrap()));
    let report =
        check_manifold(&wrong, &CheckOptions { draws: 200, ..Default::default() }).unwrap();
    let failed: Vec<_> = report.checks.iter().filter(|c| !c.passed()).map(|c| c.law).collect();
    assert!(failed.contains(&"P = P^T (ambient product)"), "{failed:?}");
    assert!(report.checks.iter().any(|c| c.law == "P P = P" && c.passed()));
}

/// A factor ½ lost in H.
#[derive(Debug)]
struct HalfCurvature(Arc<dyn Manifold>);

impl Manifold for HalfCurvature {
    fn name(&self) -> String {
        "half".into()
    }
    fn dim(&self) -> usize {
        self.0.dim()
    }
    fn ambient_dim(&self) -> usize {
        self.0.ambient_dim()
    }
    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        self.0.project_tangent(x, u);
    }
    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        self.0.project_point(x)
    }
    fn velocity(&self, x: &[f64], u: &mut [f64]) {
        self.0.velocity(x, u);
    }
    fn metric_is_induced(&self) -> bool {
        self.0.metric_is_induced()
    }
    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        self.0.mean_curvature(x, h);
        for h in h {
            *h *= 0.5;
        }
    }
    fn family(&self) -> manifusion::manifold::Family {
        self.0.family()
    }
}

#[test]
fn a_lost_factor_in_the_curvature_is_caught() {
    for (spec, law) in [
        ("sphere:2", "H against second differences of pi"),
        ("hyperbolic:2,metric=lorentz", "Laplacian of the coordinates: d|K| x"),
    ] {
        let wrong: Arc<dyn Manifold> = Arc::new(HalfCurvature(parse(spec).unwrap()));
        let options = CheckOptions { draws: 200, ..CheckOptions::default() };
        let report = check_manifold(&wrong, &options).unwrap();
        let failed: Vec<_> = report.checks.iter().filter(|c| !c.passed()).map(|c| c.law).collect();
        assert!(failed.contains(&law), "{spec}: {failed:?}");
    }
}

/// T² and S¹ × S¹ are the same manifold in the same coordinates.
#[test]
fn a_torus_is_a_product_of_circles() {
    let torus = parse("torus:2").unwrap();
    let circle = parse("sphere:1").unwrap();
    let product = Product::new(vec![circle.clone(), circle]).unwrap();
    let streams = Streams::new(3, "torus");
    let points = sample_points(torus.as_ref(), 10, &streams).unwrap();
    for x in points.chunks_exact(4) {
        let mut u = vec![0.3, -1.0, 2.0, 0.7];
        let mut v = u.clone();
        torus.project_tangent(x, &mut u);
        product.project_tangent(x, &mut v);
        assert_eq!(u, v);
    }
    assert!((torus.log_volume().unwrap() - product.log_volume().unwrap()).abs() < 1e-12);
}

/// A NaN residual of one factor must not vanish among the others'.
#[test]
fn products_refuse_what_a_factor_refuses() {
    let product = parse("hyperbolic:2*sphere:1").unwrap();
    assert!(product.check_point(&[1.0, 0.0, 0.0, 1.0, 0.0]).is_ok());
    assert!(product.check_point(&[1.0, 1e200, 0.0, 1.0, 0.0]).is_err());
    for spec in ["sphere:2", "torus:2", "sphere:2*torus:1", "so:3"] {
        let error = parse(spec).unwrap().project_point(&mut [1.0, 0.5]).unwrap_err();
        assert!(matches!(error, PointError::Width { found: 2, .. }), "{spec}: {error}");
    }
}
