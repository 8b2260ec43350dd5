//! Numerical self-checks of a manifold: the laws that every other layer relies on, measured.
//!
//! [`check_manifold`] is what `manifusion check` prints and what the test suite runs on every
//! manifold; run it on your own type before you train on it.

mod field;
mod laws;
mod noise;

use std::sync::Arc;

use crate::error::{PointError, SolveError};
use crate::linalg::scale;
use crate::manifold::{Family, Hyperboloid, Manifold};
use crate::prior::{HyperbolicNormal, Prior};
use crate::rng::{Stream, Streams};

/// One measured law.
#[derive(Clone, Debug)]
pub struct Check {
    /// What is compared.
    pub law: &'static str,
    /// Largest deviation found.
    pub value: f64,
    /// Largest deviation allowed; for statistical checks bias bound + 4 standard errors.
    pub tolerance: f64,
    /// The error that kept the law from being measured.
    pub problem: Option<SolveError>,
}

impl Check {
    fn new(law: &'static str, value: f64, tolerance: f64) -> Self {
        Self { law, value, tolerance, problem: None }
    }

    fn failed(law: &'static str, problem: SolveError) -> Self {
        Self { law, value: f64::INFINITY, tolerance: 0.0, problem: Some(problem) }
    }

    /// Whether the law holds; never for NaN.
    pub fn passed(&self) -> bool {
        self.value <= self.tolerance
    }
}

/// All checks of one manifold.
#[derive(Clone, Debug)]
pub struct Report {
    /// String form of the manifold.
    pub manifold: String,
    /// d.
    pub dim: usize,
    /// m.
    pub ambient_dim: usize,
    /// The checks, in order.
    pub checks: Vec<Check>,
}

impl Report {
    /// Whether every law holds.
    pub fn passed(&self) -> bool {
        self.checks.iter().all(Check::passed)
    }
}

/// Size of a check.
#[derive(Clone, Copy, Debug)]
pub struct CheckOptions {
    /// Seed of the points and probes.
    pub seed: u64,
    /// Points at which the laws are measured.
    pub points: usize,
    /// Draws for the statistical checks.
    pub draws: usize,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { seed: 0, points: 20, draws: 40_000 }
    }
}

/// Runs every check that applies to the manifold.
pub fn check_manifold(
    manifold: &Arc<dyn Manifold>,
    options: &CheckOptions,
) -> Result<Report, SolveError> {
    let streams = Streams::new(options.seed, "check");
    let points = sample_points(manifold.as_ref(), options.points.max(1), &streams)?;
    let mut checks = laws::check(manifold.as_ref(), &points, &streams);
    let fields = field::check(manifold.as_ref(), &points, options.draws, &streams);
    let noise = noise::check(manifold, &points, options.draws, &streams);
    for (law, part) in [("divergence: could be computed", fields), ("noise: could be drawn", noise)]
    {
        match part {
            Ok(part) => checks.extend(part),
            Err(problem) => checks.push(Check::failed(law, problem)),
        }
    }
    Ok(Report {
        manifold: manifold.name(),
        dim: manifold.dim(),
        ambient_dim: manifold.ambient_dim(),
        checks,
    })
}

/// `n` random points of a manifold, row by row: from its uniform law or prior where there is one,
/// else projected Gaussians.
pub fn sample_points(
    manifold: &dyn Manifold,
    n: usize,
    streams: &Streams,
) -> Result<Vec<f64>, SolveError> {
    let m = manifold.ambient_dim();
    let mut points = vec![0.0; n * m];
    for (row, x) in points.chunks_exact_mut(m).enumerate() {
        let mut stream = streams.stream(row as u64, 0);
        sample_point(manifold, &mut stream, x).map_err(SolveError::at(row, 0.0))?;
    }
    Ok(points)
}

fn sample_point(
    manifold: &dyn Manifold,
    stream: &mut Stream,
    x: &mut [f64],
) -> Result<(), PointError> {
    match manifold.family() {
        Family::Product => {
            let mut at = 0;
            for factor in manifold.factors() {
                let end = at + factor.ambient_dim();
                sample_point(factor.as_ref(), stream, &mut x[at..end])?;
                at = end;
            }
            return Ok(());
        }
        Family::Hyperboloid { dim, curvature, metric } => {
            let space = Hyperboloid::valid(dim, curvature, metric);
            return HyperbolicNormal::new(space).sample(stream, x);
        }
        _ => {}
    }
    if manifold.sample_uniform(stream, x)? {
        return Ok(());
    }
    // A point map need not accept every start.
    let mut last = Ok(());
    for attempt in 0..32 {
        for x in x.iter_mut() {
            *x = stream.normal();
        }
        scale([1.0, 0.5, 2.0][attempt % 3], x);
        last = manifold.project_point(x).and_then(|()| manifold.check_point(x));
        if last.is_ok() {
            break;
        }
    }
    last
}
