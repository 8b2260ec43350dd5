//! The uniform law on any compact manifold, from P and π alone: a Metropolis chain on the manifold,
//! and the volume from the share of the chain that falls into patches of known area.
//!
//! The chain is that of Zappa, Holmes-Cerf & Goodman (2018): a tangent step v, then the point y of
//! M with P_x(y − x) = v, accepted with probability min(1, exp((|v|² − |v'|²)/2σ²)) if the reverse
//! step v' leads back. Its stationary law is exactly uniform on the component that it starts in.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::chains::{Chains, propose_together};
use super::{Langevin, Prior, sample_one_by_one};
use crate::error::{PointError, ShapeError, SolveError};
use crate::linalg::{Scratch, axpy, determinant, distance, dot, norm, scratch};
use crate::manifold::{Manifold, RowMaps, check_points};
use crate::rng::{Stream, Streams};
use crate::rows::Rows;

/// How long the run is.
#[derive(Clone, Copy, Debug)]
pub struct LongRunOptions {
    /// Seed of the run.
    pub seed: u64,
    /// Points kept.
    pub points: usize,
    /// Steps between kept points.
    pub thinning: usize,
}

impl Default for LongRunOptions {
    fn default() -> Self {
        Self { seed: 0, points: 20_000, thinning: 10 }
    }
}

/// Uniform law of a compact manifold by a long run, with the estimated log-volume and its standard
/// error.
///
/// Only the component that holds the first point found is covered.
#[derive(Clone, Debug)]
pub struct LongRun {
    manifold: Arc<dyn Manifold>,
    /// Points of the chain, from which fresh draws continue.
    pool: Vec<f64>,
    step: f64,
    log_volume: f64,
    log_volume_se: f64,
}

pub(super) const PATCHES: usize = 24;
/// Batches for the error of a mean over a correlated chain.
pub(super) const BATCHES: usize = 25;
/// Points per patch for its area.
pub(super) const AREA_POINTS: usize = 400;
/// A chain that gets this many times farther than its start is taken to be on an unbounded set.
pub(super) const UNBOUNDED: f64 = 1e3;

impl LongRun {
    /// Runs the chain; an error if no point is found or the manifold looks unbounded.
    pub fn new(manifold: Arc<dyn Manifold>, options: LongRunOptions) -> Result<Self, SolveError> {
        for (name, value, least) in
            [("points", options.points, 10 * BATCHES), ("thinning", options.thinning, 1)]
        {
            if value < least {
                let expected = "at least 250 points, and a thinning of at least 1";
                return Err(SolveError::Setting { name, value: value as f64, expected });
            }
        }
        let streams = Streams::new(options.seed, "long-run");
        let start = find_point(manifold.as_ref(), &streams)?;
        // Where calls of the manifold's functions are dear, many chains side by side.
        if let Some(maps) = manifold.by_rows() {
            let run = Chains::run(maps, &start, &options, &streams)?;
            let (log_volume, log_volume_se) = run.volume(maps, &streams)?;
            let Chains { pool, sigma: step, .. } = run;
            return Ok(Self { manifold, pool, step, log_volume, log_volume_se });
        }
        let mut chain = Chain::new(manifold.as_ref(), start);
        let mut stream = streams.stream(0, 0);
        chain.tune(&mut stream)?;
        let mut pool = Vec::with_capacity(options.points * manifold.ambient_dim());
        for _ in 0..options.points {
            for _ in 0..options.thinning {
                chain.step(&mut stream)?;
            }
            pool.extend_from_slice(&chain.x);
        }
        // Centres of patches from a stretch of the chain that is not counted: a patch around a
        // counted point would always hold that point.
        let mut centres = Vec::with_capacity(PATCHES * manifold.ambient_dim());
        for _ in 0..PATCHES {
            for _ in 0..100 {
                chain.step(&mut stream)?;
            }
            centres.extend_from_slice(&chain.x);
        }
        let step = chain.sigma;
        let (log_volume, log_volume_se) =
            estimate_volume(manifold.as_ref(), &pool, &centres, &streams)?;
        Ok(Self { manifold, pool, step, log_volume, log_volume_se })
    }

    /// The chain that gave these tensors.
    pub(super) fn from_tensors(
        manifold: Arc<dyn Manifold>,
        tensors: &BTreeMap<String, Vec<f64>>,
    ) -> Result<Self, SolveError> {
        let take = |name: &str| tensors.get(name).map_or(&[][..], Vec::as_slice);
        let (pool, m) = (take("pool").to_vec(), manifold.ambient_dim());
        let &[step, log_volume, log_volume_se] = take("numbers") else {
            return Err(ShapeError::Len { found: take("numbers").len(), expected: 3 }.into());
        };
        Rows::new(&pool, m)?;
        check_points(manifold.as_ref(), &pool)
            .map_err(|(row, error)| SolveError::at(row, 0.0)(error))?;
        Ok(Self { manifold, pool, step, log_volume, log_volume_se })
    }

    /// The draws of [`Prior::sample`] for rows with these streams.
    fn draw_together(&self, maps: &dyn RowMaps, streams: &mut [Stream], x: &mut [f64]) {
        let m = maps.ambient_dim();
        let count = self.pool.len() / m;
        for (stream, x) in streams.iter_mut().zip(x.chunks_exact_mut(m)) {
            let pick = ((stream.uniform() * count as f64) as usize).min(count - 1);
            x.copy_from_slice(&self.pool[pick * m..(pick + 1) * m]);
        }
        for _ in 0..10 {
            propose_together(maps, self.step, streams, x);
        }
    }

    /// Estimated log-volume and its standard error.
    pub fn log_volume(&self) -> (f64, f64) {
        (self.log_volume, self.log_volume_se)
    }
}

impl Prior for LongRun {
    fn ambient_dim(&self) -> Option<usize> {
        Some(self.manifold.ambient_dim())
    }

    fn log_density(&self, _x: &[f64]) -> f64 {
        -self.log_volume
    }

    fn to_tensors(&self) -> BTreeMap<String, Vec<f64>> {
        let numbers = vec![self.step, self.log_volume, self.log_volume_se];
        BTreeMap::from([("pool".to_owned(), self.pool.clone()), ("numbers".to_owned(), numbers)])
    }

    /// A random point of the run, moved on by ten steps of the chain.
    fn sample(&self, stream: &mut Stream, x: &mut [f64]) -> Result<(), PointError> {
        let m = self.manifold.ambient_dim();
        let count = self.pool.len() / m;
        if let Some(maps) = self.manifold.by_rows() {
            self.draw_together(maps, std::slice::from_mut(stream), x);
            return Ok(());
        }
        let pick = ((stream.uniform() * count as f64) as usize).min(count - 1);
        let start = Scratch::from_slice(&self.pool[pick * m..(pick + 1) * m]);
        let mut chain = Chain::new(self.manifold.as_ref(), start);
        chain.sigma = self.step;
        for _ in 0..10 {
            chain.propose(stream);
        }
        x.copy_from_slice(&chain.x);
        Ok(())
    }

    fn sample_rows(
        &self,
        streams: &Streams,
        rows: &[u64],
        x: &mut [f64],
    ) -> Result<(), (usize, PointError)> {
        let Some(maps) = self.manifold.by_rows().filter(|_| !rows.is_empty()) else {
            return sample_one_by_one(self, streams, rows, x);
        };
        let mut own: Vec<Stream> = rows.iter().map(|row| streams.stream(*row, 0)).collect();
        self.draw_together(maps, &mut own, x);
        Ok(())
    }

    fn drift(&self, _x: &[f64], u: &mut [f64]) {
        u.fill(0.0);
    }

    fn drift_divergence(&self, _x: &[f64]) -> f64 {
        0.0
    }

    fn langevin(&self) -> Langevin {
        Langevin::Brownian
    }
}

fn find_point(manifold: &dyn Manifold, streams: &Streams) -> Result<Scratch, SolveError> {
    for attempt in 0..64u64 {
        let mut x = scratch(manifold.ambient_dim());
        streams.fill_normal(attempt, 1, 0, &mut x);
        crate::linalg::scale([1.0, 0.3, 3.0][attempt as usize % 3], &mut x);
        if manifold.project_point(&mut x).is_ok() && manifold.check_point(&x).is_ok() {
            return Ok(x);
        }
    }
    let hint = "its point map accepts no random start; give a prior";
    Err(SolveError::Unsupported { what: "a uniform law", manifold: manifold.name(), hint })
}

struct Chain<'a> {
    manifold: &'a dyn Manifold,
    x: Scratch,
    sigma: f64,
    reach: f64,
}

impl<'a> Chain<'a> {
    fn new(manifold: &'a dyn Manifold, x: Scratch) -> Self {
        let reach = UNBOUNDED * norm(&x).max(1.0);
        Self { manifold, x, sigma: 0.5, reach }
    }

    /// One step; whether it was accepted.
    fn propose(&mut self, stream: &mut Stream) -> bool {
        let m = self.x.len();
        let mut v: Scratch = (0..m).map(|_| self.sigma * stream.normal()).collect();
        let accept_level = stream.uniform();
        self.manifold.project_tangent(&self.x, &mut v);
        let Some(y) = along_normal(self.manifold, &self.x, &v) else { return false };
        let mut back = self.x.clone();
        axpy(-1.0, &y, &mut back);
        self.manifold.project_tangent(&y, &mut back);
        let log_ratio = (dot(&v, &v) - dot(&back, &back)) / (2.0 * self.sigma * self.sigma);
        if accept_level.ln() > log_ratio {
            return false;
        }
        // Reversibility: the same search from y must lead to x.
        match along_normal(self.manifold, &y, &back) {
            Some(x) if distance(&x, &self.x) < 1e-7 * (1.0 + norm(&x)) => {
                self.x = y;
                true
            }
            _ => false,
        }
    }

    fn step(&mut self, stream: &mut Stream) -> Result<bool, SolveError> {
        let accepted = self.propose(stream);
        if norm(&self.x) < self.reach {
            return Ok(accepted);
        }
        let hint = "it seems to be unbounded; give a prior";
        Err(SolveError::Unsupported { what: "a uniform law", manifold: self.manifold.name(), hint })
    }

    /// Finds a step size that is accepted about half of the time, and forgets the start.
    fn tune(&mut self, stream: &mut Stream) -> Result<(), SolveError> {
        for _ in 0..40 {
            let mut accepted = 0;
            for _ in 0..50 {
                accepted += usize::from(self.step(stream)?);
            }
            self.sigma *= if accepted > 25 { 1.15 } else { 0.85 };
        }
        for _ in 0..1000 {
            self.step(stream)?;
        }
        Ok(())
    }
}

/// The point y of M with P_x(y − x) = v.
fn along_normal(manifold: &dyn Manifold, x: &[f64], v: &[f64]) -> Option<Scratch> {
    let mut y = Scratch::from_slice(x);
    axpy(1.0, v, &mut y);
    manifold.project_along_normal(x, &mut y).then_some(y)
}

/// A graph over the tangent ball of radius `radius` at `centre`.
struct Patch {
    centre: Scratch,
    frame: Scratch,
    radius: f64,
}

impl Patch {
    fn contains(&self, manifold: &dyn Manifold, x: &[f64]) -> bool {
        let mut v = Scratch::from_slice(x);
        axpy(-1.0, &self.centre, &mut v);
        if norm(&v) > 4.0 * self.radius {
            return false;
        }
        manifold.project_tangent(&self.centre, &mut v);
        norm(&v) < self.radius
            && along_normal(manifold, &self.centre, &v)
                .is_some_and(|y| distance(&y, x) < 1e-6 * (1.0 + norm(x)))
    }

    /// Area and its variance: the ball's volume times the mean of 1/|det⟨e_i(centre), e_j(y)⟩|.
    /// `None` if the surface is not a graph over the ball, or bends too much.
    fn area(&self, manifold: &dyn Manifold, stream: &mut Stream) -> Option<(f64, f64)> {
        let (d, m) = (manifold.dim(), manifold.ambient_dim());
        let (mut sum, mut squares) = (0.0, 0.0);
        let mut frame = scratch(d * m);
        let mut overlap = scratch(d * d);
        for _ in 0..AREA_POINTS {
            let mut t: Scratch = (0..d).map(|_| stream.normal()).collect();
            let r = self.radius * stream.uniform().powf(1.0 / d as f64) / norm(&t);
            crate::linalg::scale(r, &mut t);
            let mut v = scratch(m);
            for (t, e) in t.iter().zip(self.frame.chunks_exact(m)) {
                axpy(*t, e, &mut v);
            }
            let y = along_normal(manifold, &self.centre, &v)?;
            // Membership uses the distance to the centre as a first test; the patch must pass it.
            if distance(&y, &self.centre) > 4.0 * self.radius {
                return None;
            }
            manifold.frame(&y, &mut frame);
            for i in 0..d {
                for j in 0..d {
                    overlap[i * d + j] =
                        dot(&self.frame[i * m..(i + 1) * m], &frame[j * m..(j + 1) * m]);
                }
            }
            let cosine = determinant(&overlap, d).abs();
            if !(cosine > 0.3) {
                return None;
            }
            sum += 1.0 / cosine;
            squares += 1.0 / (cosine * cosine);
        }
        let n = AREA_POINTS as f64;
        let (mean, mean_square) = (sum / n, squares / n);
        let ball = ball_volume(d, self.radius);
        Some((ball * mean, ball * ball * (mean_square - mean * mean) / n))
    }
}

/// Volume of the d-ball of radius r: π^{d/2} r^d / Γ(d/2 + 1).
pub(super) fn ball_volume(d: usize, r: f64) -> f64 {
    let half = 0.5 * d as f64;
    (half * std::f64::consts::PI.ln() - libm::lgamma(half + 1.0)).exp() * r.powi(d as i32)
}

/// log vol M and its standard error: the patches' total area over the total share of the points in
/// them.
fn estimate_volume(
    manifold: &dyn Manifold,
    pool: &[f64],
    centres: &[f64],
    streams: &Streams,
) -> Result<(f64, f64), SolveError> {
    let m = manifold.ambient_dim();
    let count = pool.len() / m;
    let mut stream = streams.stream(0, 2);
    let (mut area, mut area_variance) = (0.0, 0.0);
    let mut patches = Vec::new();
    for centre in centres.chunks_exact(m) {
        let centre = Scratch::from_slice(centre);
        let mut frame = scratch(manifold.dim() * m);
        manifold.frame(&centre, &mut frame);
        let mut patch = Patch { centre, frame, radius: 1.0 };
        // The largest radius, in steps, over which the surface is a graph; a little less for
        // safety.
        while patch.radius > 1e-4 && patch.area(manifold, &mut stream).is_none() {
            patch.radius *= 0.7;
        }
        patch.radius *= 0.8;
        if let Some((a, variance)) = patch.area(manifold, &mut stream) {
            area += a;
            area_variance += variance;
            patches.push(patch);
        }
    }
    // Per batch of the chain, how often its points lie in patches.
    let mut shares = [0.0; BATCHES];
    for (i, x) in pool.chunks_exact(m).enumerate() {
        let inside = patches.iter().filter(|patch| patch.contains(manifold, x)).count();
        shares[i * BATCHES / count] += inside as f64;
    }
    volume_of(manifold.name(), count, &shares, patches.len(), (area, area_variance))
}

/// The volume from the points of the batches that lie in so many patches of this area and variance.
pub(super) fn volume_of(
    manifold: String,
    count: usize,
    shares: &[f64; BATCHES],
    patches: usize,
    (area, area_variance): (f64, f64),
) -> Result<(f64, f64), SolveError> {
    let total: f64 = shares.iter().sum();
    let share = total / count as f64;
    // A handful of hits has no trustworthy error; in high dimension patches become too small a part
    // of the whole.
    if patches == 0 || total < 10.0 * patches as f64 {
        let hint =
            "too few points fall into smooth patches (the dimension is too high); give a prior";
        return Err(SolveError::Unsupported { what: "the volume", manifold, hint });
    }
    let per_batch = count as f64 / BATCHES as f64;
    let variance = shares.iter().map(|s| (s / per_batch - share).powi(2)).sum::<f64>()
        / (BATCHES * (BATCHES - 1)) as f64;
    let relative = (variance / (share * share) + area_variance / (area * area)).sqrt();
    Ok((area.ln() - share.ln(), relative))
}
