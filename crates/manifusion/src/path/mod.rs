//! The noising path: draws Y_s given Y_0 = y, one time per row (inference SDE
//! `eq:fixed-inference`).

mod ancestral;
mod exact;
mod heun;
mod smoothing;
mod sphere_walk;
mod two_sphere;

use std::sync::Arc;

pub use ancestral::AncestralProcess;
pub use smoothing::Smoothing;

use crate::error::{ShapeError, SolveError};
use crate::heat_kernel::check_time;
use crate::linalg::scale;
use crate::manifold::{Family, Geodesics, Manifold, Metric, check_points, chunk_rows};
use crate::parallel;
use crate::prior::{Prior, check_width};
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut, expect_len};
use crate::sde::{Heun, NoDrift, PriorDrift, integrate_fixed_rows};

/// How Y_s is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathChoice {
    /// Exact where a law is known, else Heun with 100 steps, the paper's number `tab:elbo_steps`.
    Auto,
    /// Exact, or an error where no law is known.
    Exact,
    /// Stratonovich–Heun with this many steps.
    Heun {
        /// Steps from 0 to each row's own s.
        steps: usize,
    },
    /// A geodesic random walk with this many steps, for noise without drift where geodesics are
    /// known.
    GeodesicWalk {
        /// Steps from 0 to each row's own s.
        steps: usize,
    },
}

/// Draws Y_s | Y_0, in parallel over rows.
#[derive(Clone, Debug)]
pub struct NoisingPath {
    manifold: Arc<dyn Manifold>,
    prior: Arc<dyn Prior>,
    scheme: Scheme,
}

#[derive(Clone, Debug)]
enum Scheme {
    Exact(exact::ExactNoise),
    /// At least `steps`, and more where a step would be longer than `max_step`.
    Heun {
        steps: usize,
        max_step: f64,
    },
    Walk {
        steps: usize,
        geodesics: Geodesics,
    },
}

/// Longest step that the automatic choice takes on a manifold of moderate curvature.
const MAX_STEP: f64 = 0.05;

/// Rows that one thread walks at a time: enough to overlap their latencies, few enough for the
/// first-level cache.
const HEUN_CHUNK: usize = 16;
/// Rows that one thread draws exactly at a time: a draw takes a few steps' time, and a task should
/// be worth handing over.
const EXACT_CHUNK: usize = 32;

impl NoisingPath {
    /// The path of a manifold's noise towards `prior`.
    pub fn new(
        manifold: Arc<dyn Manifold>,
        prior: Arc<dyn Prior>,
        choice: PathChoice,
    ) -> Result<Self, SolveError> {
        check_width(manifold.as_ref(), prior.as_ref())?;
        let exact = || exact::ExactNoise::new(manifold.as_ref(), prior.as_ref());
        let scheme = match choice {
            PathChoice::Auto => {
                let max_step = longest_step(manifold.as_ref());
                exact().map_or(Scheme::Heun { steps: 100, max_step }, Scheme::Exact)
            }
            PathChoice::Exact => Scheme::Exact(exact().ok_or_else(|| SolveError::Unsupported {
                what: "exact noising",
                manifold: manifold.name(),
                hint: "use Heun steps",
            })?),
            PathChoice::Heun { steps: 0 } | PathChoice::GeodesicWalk { steps: 0 } => {
                let expected = "at least one is needed";
                return Err(SolveError::Setting { name: "steps", value: 0.0, expected });
            }
            PathChoice::Heun { steps } => Scheme::Heun { steps, max_step: f64::INFINITY },
            PathChoice::GeodesicWalk { steps } => {
                let geodesics = Geodesics::new(manifold.as_ref())
                    .filter(|_| prior.is_driftless() && manifold.metric_is_induced());
                let geodesics = geodesics.ok_or_else(|| SolveError::Unsupported {
                    what: "a geodesic random walk",
                    manifold: manifold.name(),
                    hint: "use Heun steps",
                })?;
                Scheme::Walk { steps, geodesics }
            }
        };
        Ok(Self { manifold, prior, scheme })
    }

    /// Whether draws are exact in law.
    pub fn is_exact(&self) -> bool {
        matches!(self.scheme, Scheme::Exact(_))
    }

    /// `ys ← Y_s` for every row, with noise from (`first_row` + row). Starting points must lie on
    /// the manifold.
    pub fn sample(
        &self,
        y: Rows<'_>,
        s: &[f64],
        streams: &Streams,
        first_row: u64,
        ys: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        self.sample_smoothed(y, s, None, streams, first_row, ys)
    }

    /// The same from starting points that are drawn around y first.
    pub fn sample_smoothed(
        &self,
        y: Rows<'_>,
        s: &[f64],
        smoothing: Option<Smoothing<'_>>,
        streams: &Streams,
        first_row: u64,
        mut ys: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        let m = self.manifold.ambient_dim();
        y.expect_width(m)?;
        ys.expect_width(m)?;
        expect_len(ys.len(), y.len())?;
        expect_len(s.len(), y.len())?;
        expect_len(smoothing.map_or(y.len(), |smoothing| smoothing.times.len()), y.len())?;
        if y.is_empty() {
            return Err(ShapeError::Empty.into());
        }
        ys.as_mut_slice().copy_from_slice(y.as_slice());
        let usual = if self.is_exact() { EXACT_CHUNK } else { HEUN_CHUNK };
        let rows_per_chunk = chunk_rows(self.manifold.as_ref(), usual);
        parallel::for_each_chunk(ys.as_mut_slice(), m, rows_per_chunk, |first, chunk| {
            let times = &s[first..first + chunk.len() / m];
            for (row, &s) in times.iter().enumerate() {
                check_time(row, s)?;
            }
            check_points(self.manifold.as_ref(), chunk)
                .map_err(|(row, error)| SolveError::at(row, 0.0)(error))?;
            let row = first_row + first as u64;
            let smoothing = smoothing.map(|smoothing| smoothing.rows(first, times.len()));
            if let Some(smoothing) = smoothing {
                smoothing.check()?;
            }
            match &self.scheme {
                Scheme::Exact(noise) => {
                    let finite = smoothing.map(|smoothing| smoothing.finite_times());
                    noise.apply_rows(streams, row, times, finite.as_deref(), chunk);
                }
                Scheme::Walk { steps, geodesics } => {
                    if let Some(smoothing) = smoothing {
                        smoothing.displace(self.manifold.as_ref(), row, chunk)?;
                    }
                    self.walk_geodesics(*steps, geodesics, streams, row, times, chunk);
                }
                Scheme::Heun { steps, max_step } => {
                    if let Some(smoothing) = smoothing {
                        smoothing.displace(self.manifold.as_ref(), row, chunk)?;
                    }
                    self.walk(*steps, *max_step, streams, row, times, chunk)?;
                }
            }
            // Noise leaves the prior as it is.
            smoothing
                .map_or(Ok(()), |smoothing| smoothing.draw_prior(self.prior.as_ref(), row, chunk))
        })
    }

    fn walk_geodesics(
        &self,
        steps: usize,
        geodesics: &Geodesics,
        streams: &Streams,
        first_row: u64,
        times: &[f64],
        chunk: &mut [f64],
    ) {
        let m = self.manifold.ambient_dim();
        let mut z = vec![0.0; m];
        for (i, (y, s)) in chunk.chunks_exact_mut(m).zip(times).enumerate() {
            let size = (s / steps as f64).sqrt();
            for step in 0..steps {
                streams.fill_normal(first_row + i as u64, step as u64, 0, &mut z);
                self.manifold.project_tangent(y, &mut z);
                scale(size, &mut z);
                geodesics.exp(y, &z);
            }
        }
    }

    fn walk(
        &self,
        steps: usize,
        max_step: f64,
        streams: &Streams,
        row: u64,
        times: &[f64],
        chunk: &mut [f64],
    ) -> Result<(), SolveError> {
        let (manifold, prior) = (self.manifold.as_ref(), self.prior.as_ref());
        if times.iter().all(|s| s / steps as f64 <= max_step) {
            return heun::walk(manifold, prior, steps, streams, row, times, chunk);
        }
        // Each row its own number of steps, so that it does not depend on the rows beside it.
        let m = manifold.ambient_dim();
        if manifold.by_rows().is_some() {
            return self.walk_together(steps, max_step, streams, row, times, chunk);
        }
        for (i, (y, &s)) in chunk.chunks_exact_mut(m).zip(times).enumerate() {
            let own = steps.max((s / max_step).ceil() as usize);
            heun::walk(manifold, prior, own, streams, row + i as u64, &[s], y)
                .map_err(|error| error.map_row(|_| i))?;
        }
        Ok(())
    }
}

impl NoisingPath {
    /// The same where calls are dear: all rows that are under way make a step together.
    fn walk_together(
        &self,
        steps: usize,
        max_step: f64,
        streams: &Streams,
        first_row: u64,
        times: &[f64],
        chunk: &mut [f64],
    ) -> Result<(), SolveError> {
        let (manifold, prior) = (self.manifold.as_ref(), self.prior.as_ref());
        let m = manifold.ambient_dim();
        let own = |i: &usize| steps.max((times[*i] / max_step).ceil() as usize);
        let mut rows: Vec<usize> = (0..times.len()).collect();
        rows.sort_by_key(|i| std::cmp::Reverse(own(i)));
        let numbers: Vec<u64> = rows.iter().map(|i| first_row + *i as u64).collect();
        let (start, s): (Vec<f64>, Vec<f64>) = rows.iter().map(|i| (0.0, times[*i])).unzip();
        let steps: Vec<usize> = rows.iter().map(own).collect();
        let of = |i: &usize| chunk[i * m..(i + 1) * m].iter().copied();
        let mut y: Vec<f64> = rows.iter().flat_map(of).collect();
        let walked = if prior.is_driftless() {
            let mut heun = Heun::new(manifold, NoDrift, 1.0);
            integrate_fixed_rows(&mut heun, streams, &numbers, &start, &s, &steps, &mut y)
        } else {
            let mut heun = Heun::new(manifold, PriorDrift(prior), 1.0);
            integrate_fixed_rows(&mut heun, streams, &numbers, &start, &s, &steps, &mut y)
        };
        walked.map_err(|error| error.map_row(|row| rows[row]))?;
        for (i, y) in rows.into_iter().zip(y.chunks_exact(m)) {
            chunk[i * m..(i + 1) * m].copy_from_slice(y);
        }
        Ok(())
    }
}

/// Steps of the automatic choice: a hyperboloid's noise must stay well inside the light cone, whose
/// width near the apex is 1/√|K|; with g_L there is no cone, and a step must be small against the
/// curvature's time 1/|K|.
fn longest_step(manifold: &dyn Manifold) -> f64 {
    match manifold.family() {
        Family::Hyperboloid { curvature, metric: Metric::Euclidean, .. } => {
            0.02 / (1.0 - curvature)
        }
        Family::Hyperboloid { curvature, metric: Metric::Lorentz, .. } => 0.1 / (1.0 - curvature),
        Family::Product => manifold
            .factors()
            .iter()
            .map(|factor| longest_step(factor.as_ref()))
            .fold(MAX_STEP, f64::min),
        _ => MAX_STEP,
    }
}
