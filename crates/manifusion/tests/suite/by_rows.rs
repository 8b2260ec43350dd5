//! Manifolds whose functions take whole batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use manifusion::check::{CheckOptions, check_manifold};
use manifusion::fit::Fit;
use manifusion::manifold::{ByRows, Manifold, RowMaps, parse};
use manifusion::methods::rdm::Rdm;
use manifusion::path::{NoisingPath, PathChoice};
use manifusion::points::Points;
use manifusion::prior::Prior as _;
use manifusion::prior::{LongRun, LongRunOptions, default_prior};
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};

/// A built-in manifold through the door of batches, with calls and rows counted.
#[derive(Debug)]
struct Counted {
    manifold: Arc<dyn Manifold>,
    calls: AtomicUsize,
    rows: AtomicUsize,
}

impl Counted {
    fn new(spec: &str) -> Self {
        let (calls, rows) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { manifold: parse(spec).unwrap(), calls, rows }
    }

    fn count(&self, numbers: usize) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(numbers / self.ambient_dim(), Ordering::Relaxed);
    }
}

/// Shared with the test, which reads the counts.
#[derive(Debug)]
struct Shared(Arc<Counted>);

impl RowMaps for Shared {
    fn name(&self) -> String {
        format!("rows of {}", self.0.manifold.name())
    }

    fn dim(&self) -> usize {
        self.0.manifold.dim()
    }

    fn ambient_dim(&self) -> usize {
        self.0.ambient_dim()
    }

    fn tangents(&self, x: &[f64], u: &mut [f64]) {
        self.0.count(u.len());
        let m = self.ambient_dim();
        for (x, u) in x.chunks_exact(m).zip(u.chunks_exact_mut(m)) {
            self.0.manifold.project_tangent(x, u);
        }
    }

    fn points(&self, x: &mut [f64]) {
        self.0.count(x.len());
        for x in x.chunks_exact_mut(self.ambient_dim()) {
            if self.0.manifold.project_point(x).is_err() {
                x.fill(f64::NAN);
            }
        }
    }
}

impl Counted {
    fn ambient_dim(&self) -> usize {
        self.manifold.ambient_dim()
    }
}

fn by_rows(spec: &str) -> (Arc<dyn Manifold>, Arc<Counted>) {
    let counted = Arc::new(Counted::new(spec));
    (Arc::new(ByRows(Shared(Arc::clone(&counted)))), counted)
}

#[test]
fn the_laws_hold() {
    for spec in ["sphere:2", "torus:2", "stiefel:4,2", "level:x^2+y^2/4+z^2-1"] {
        let (manifold, _) = by_rows(spec);
        let report = check_manifold(&manifold, &CheckOptions::default()).unwrap();
        for check in &report.checks {
            assert!(check.passed(), "{spec}: {}: {:e}", check.law, check.value);
        }
    }
}

/// What is derived row by row and what is derived for all rows together is the same.
#[test]
fn derived_functions_are_those_of_single_rows() {
    #[derive(Debug)]
    struct OneByOne(Arc<dyn Manifold>);
    impl Manifold for OneByOne {
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
            self.0.project_tangent(x, u);
        }
        fn project_point(&self, x: &mut [f64]) -> Result<(), manifusion::error::PointError> {
            self.0.project_point(x)
        }
    }
    for spec in ["sphere:3", "level:x^2+y^2/4+z^2-1"] {
        let (manifold, counted) = by_rows(spec);
        let single = OneByOne(Arc::clone(&counted.manifold));
        let (d, m) = (single.dim(), single.ambient_dim());
        let streams = Streams::new(1, "by-rows");
        for row in 0..20 {
            let mut x = vec![0.0; m];
            streams.fill_normal(row, 0, 0, &mut x);
            single.project_point(&mut x).unwrap();
            let (mut one, mut other) = (vec![0.0; d * m], vec![0.0; d * m]);
            single.frame(&x, &mut one);
            manifold.frame(&x, &mut other);
            assert_eq!(one, other);
            let (mut one, mut other) = (vec![0.0; m], vec![0.0; m]);
            single.mean_curvature(&x, &mut one);
            manifold.mean_curvature(&x, &mut other);
            assert_eq!(one, other);
            let mut z: Vec<f64> = x.iter().map(|x| 1.1 * x + 0.02).collect();
            let mut w = z.clone();
            let found = single.project_along_normal(&x, &mut z);
            assert_eq!(manifold.project_along_normal(&x, &mut w), found);
            assert_eq!(z, w);
        }
    }
}

/// The same walk as on the manifold that has its own functions, in calls that hold many rows.
#[test]
fn noise_is_the_same_in_few_calls() {
    let (manifold, counted) = by_rows("stiefel:4,2");
    let native = Arc::clone(&counted.manifold);
    // Of the native manifold: the path needs no more of it than that it is driftless.
    let prior = default_prior(&native).unwrap();
    let (n, m, steps) = (300, 8, 20);
    let mut start = vec![0.0; n * m];
    for (row, x) in start.chunks_exact_mut(m).enumerate() {
        let mut stream = Streams::new(2, "start").stream(row as u64, 0);
        prior.sample(&mut stream, x).unwrap();
    }
    let times: Vec<f64> = (0..n).map(|i| 0.001 * (1 + i) as f64).collect();
    let noised = |manifold: Arc<dyn Manifold>| {
        let path = NoisingPath::new(manifold, Arc::clone(&prior), PathChoice::Heun { steps });
        let mut out = vec![0.0; n * m];
        let (from, streams) = (Rows::new(&start, m).unwrap(), Streams::new(3, "noise"));
        let out_rows = RowsMut::new(&mut out, m).unwrap();
        path.unwrap().sample(from, &times, &streams, 0, out_rows).unwrap();
        out
    };
    assert_eq!(noised(native), noised(manifold));
    // Three calls per step and one that checks the points, each with all rows.
    assert_eq!(counted.calls.load(Ordering::Relaxed), 3 * steps + 1);
    assert_eq!(counted.rows.load(Ordering::Relaxed), (3 * steps + 1) * n);
}

/// Rows of the automatic choice have each their own number of steps, and still go together.
#[test]
fn long_noise_is_the_same_in_few_calls() {
    let (manifold, counted) = by_rows("stiefel:4,2");
    let native = Arc::clone(&counted.manifold);
    let prior = default_prior(&native).unwrap();
    let (n, m) = (40, 8);
    let mut start = vec![0.0; n * m];
    for (row, x) in start.chunks_exact_mut(m).enumerate() {
        prior.sample(&mut Streams::new(2, "start").stream(row as u64, 0), x).unwrap();
    }
    let times: Vec<f64> = (0..n).map(|i| 0.2 * ((7 * i) % n + 1) as f64).collect();
    let noised = |manifold: Arc<dyn Manifold>| {
        let path = NoisingPath::new(manifold, Arc::clone(&prior), PathChoice::Auto).unwrap();
        let mut out = vec![0.0; n * m];
        let (from, streams) = (Rows::new(&start, m).unwrap(), Streams::new(3, "noise"));
        path.sample(from, &times, &streams, 0, RowsMut::new(&mut out, m).unwrap()).unwrap();
        out
    };
    assert_eq!(noised(native), noised(manifold));
    // The longest of 8 takes 160 steps of 0.05.
    assert_eq!(counted.calls.load(Ordering::Relaxed), 3 * 160 + 1);
}

#[test]
fn the_uniform_law_and_the_volume() {
    let (manifold, counted) = by_rows("sphere:2");
    let prior = LongRun::new(Arc::clone(&manifold), LongRunOptions::default()).unwrap();
    let (log_volume, error) = prior.log_volume();
    let expected = (4.0 * std::f64::consts::PI).ln();
    assert!(error < 0.05 && (log_volume - expected).abs() < 4.0 * error, "{log_volume} {error}");
    let calls = counted.calls.load(Ordering::Relaxed);
    assert!(calls < 100_000, "{calls} calls");
    // Draws of rows are those of single rows, and uniform: the mean of z has variance 1/3.
    let (streams, rows): (_, Vec<u64>) = (Streams::new(5, "draws"), (0..2000).collect());
    let mut x = vec![0.0; 3 * rows.len()];
    prior.sample_rows(&streams, &rows, &mut x).unwrap();
    let mut one = [0.0; 3];
    prior.sample(&mut streams.stream(7, 0), &mut one).unwrap();
    assert!(one.iter().zip(&x[21..24]).all(|(a, b)| a.to_bits() == b.to_bits()));
    let mean = x.iter().skip(2).step_by(3).sum::<f64>() / 2000.0;
    assert!(mean.abs() < 4.0 * (1.0 / 3.0f64 / 2000.0).sqrt(), "{mean}");
}

/// A training, a score and draws, with far fewer calls than rows.
#[test]
fn a_model_is_learned_on_it() {
    let (manifold, counted) = by_rows("sphere:2");
    let mut coordinates = vec![0.0; 3 * 200];
    let sphere = &counted.manifold;
    for (row, x) in coordinates.chunks_exact_mut(3).enumerate() {
        Streams::new(4, "cloud").fill_normal(row as u64, 0, 0, x);
        x.iter_mut().zip([0.0, 0.0, 1.0]).for_each(|(x, pole)| *x = pole + 0.3 * *x);
        sphere.project_point(x).unwrap();
    }
    let points = Points::on(Arc::clone(&manifold), coordinates).unwrap();
    let mut rdm = Rdm::default();
    rdm.train.steps = Some(30);
    rdm.net.width = Some(16);
    let finished = Fit::new(rdm).run(&points).unwrap();
    let model = finished.model;
    let log_p = model.log_density(points.rows()).unwrap();
    assert!(log_p.iter().all(|log_p| log_p.is_finite()));
    let drawn = model.sample(50, 1).unwrap();
    assert!(drawn.chunks_exact(3).all(|x| manifold.check_point(x).is_ok()));
    let (calls, rows) =
        (counted.calls.load(Ordering::Relaxed), counted.rows.load(Ordering::Relaxed));
    assert!(rows > 50 * calls, "{calls} calls for {rows} rows");
}
