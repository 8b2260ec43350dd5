//! The chain of [`super::LongRun`] many times side by side, for manifolds whose functions take
//! whole batches: the same steps and the same patches, with a call for all of them.

use super::LongRunOptions;
use super::long_run::{AREA_POINTS, BATCHES, PATCHES, UNBOUNDED, ball_volume, volume_of};
use crate::error::SolveError;
use crate::linalg::{axpy, determinant, distance, dot, norm, scale, scratch};
use crate::manifold::{NormalSearch, RowMaps, along_normals, frames};
use crate::rng::{Stream, Streams};

/// Chains that run side by side, of which each batch of the error's estimate has as many.
const CHAINS: usize = 20 * BATCHES;
/// Steps of every chain after the step size is found, to forget the common start.
const FORGET: usize = 200;

/// Points of a finished run.
pub(super) struct Chains {
    /// Chain after chain.
    pub(super) pool: Vec<f64>,
    /// Centres of patches, which are not counted.
    centres: Vec<f64>,
    /// The size of steps.
    pub(super) sigma: f64,
}

/// One step of every chain, with the stream of each; how many were accepted.
pub(super) fn propose_together(
    maps: &dyn RowMaps,
    sigma: f64,
    streams: &mut [Stream],
    x: &mut [f64],
) -> usize {
    let m = maps.ambient_dim();
    let mut v = vec![0.0; x.len()];
    let mut levels = Vec::with_capacity(streams.len());
    for (stream, v) in streams.iter_mut().zip(v.chunks_exact_mut(m)) {
        v.fill_with(|| sigma * stream.normal());
        levels.push(stream.uniform().ln());
    }
    maps.tangents(x, &mut v);
    let mut y: Vec<f64> = x.iter().zip(&v).map(|(x, v)| x + v).collect();
    let mut good = along_normals(maps, x, &mut y, NormalSearch::QUICK);
    let mut back: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x - y).collect();
    maps.tangents(&y, &mut back);
    for (i, good) in good.iter_mut().enumerate() {
        let (v, back) = (&v[i * m..(i + 1) * m], &back[i * m..(i + 1) * m]);
        *good &= levels[i] <= (dot(v, v) - dot(back, back)) / (2.0 * sigma * sigma);
    }
    // Reversibility: the same search from y must lead to x.
    let rows: Vec<usize> = (0..good.len()).filter(|i| good[*i]).collect();
    let of = |a: &[f64]| -> Vec<f64> {
        rows.iter().flat_map(|i| &a[i * m..(i + 1) * m]).copied().collect()
    };
    let from = of(&y);
    let mut again: Vec<f64> = from.iter().zip(of(&back)).map(|(y, back)| y + back).collect();
    let found = match rows.len() {
        0 => Vec::new(),
        _ => along_normals(maps, &from, &mut again, NormalSearch::QUICK),
    };
    let mut accepted = 0;
    for (k, i) in rows.into_iter().enumerate() {
        let (x, again) = (&mut x[i * m..(i + 1) * m], &again[k * m..(k + 1) * m]);
        if found[k] && distance(again, x) < 1e-7 * (1.0 + norm(again)) {
            x.copy_from_slice(&from[k * m..(k + 1) * m]);
            accepted += 1;
        }
    }
    accepted
}

impl Chains {
    /// Runs the chains from one point.
    pub(super) fn run(
        maps: &dyn RowMaps,
        start: &[f64],
        options: &LongRunOptions,
        streams: &Streams,
    ) -> Result<Self, SolveError> {
        let m = maps.ambient_dim();
        let mut own: Vec<Stream> = (0..CHAINS as u64).map(|i| streams.stream(i, 0)).collect();
        let (mut x, mut sigma) = (start.repeat(CHAINS), 0.5);
        let reach = UNBOUNDED * norm(start).max(1.0);
        let mut step = |x: &mut [f64], sigma: f64| -> Result<usize, SolveError> {
            let accepted = propose_together(maps, sigma, &mut own, x);
            if x.chunks_exact(m).all(|x| norm(x) < reach) {
                return Ok(accepted);
            }
            let hint = "it seems to be unbounded; give a prior";
            Err(SolveError::Unsupported { what: "a uniform law", manifold: maps.name(), hint })
        };
        // A step size that is accepted about half of the time.
        for _ in 0..40 {
            let accepted = step(&mut x, sigma)?;
            sigma *= if 2 * accepted > CHAINS { 1.15 } else { 0.85 };
        }
        for _ in 0..FORGET {
            step(&mut x, sigma)?;
        }
        let rounds = options.points.div_ceil(CHAINS);
        let mut pool = vec![0.0; rounds * x.len()];
        for round in 0..rounds {
            for _ in 0..options.thinning {
                step(&mut x, sigma)?;
            }
            for (chain, x) in x.chunks_exact(m).enumerate() {
                pool[(chain * rounds + round) * m..][..m].copy_from_slice(x);
            }
        }
        // Centres of patches from a stretch that is not counted: a patch around a counted point
        // would always hold that point.
        for _ in 0..100 {
            step(&mut x, sigma)?;
        }
        x.truncate(PATCHES * m);
        Ok(Self { pool, centres: x, sigma })
    }

    /// log vol M and its standard error; batches of whole chains are independent.
    pub(super) fn volume(
        &self,
        maps: &dyn RowMaps,
        streams: &Streams,
    ) -> Result<(f64, f64), SolveError> {
        let (d, m) = (maps.dim(), maps.ambient_dim());
        let count = self.pool.len() / m;
        let mut stream = streams.stream(0, 2);
        let mut bases = vec![0.0; self.centres.len() * d];
        frames(maps, &self.centres, &mut bases);
        let (mut area, mut variance, mut patches) = (0.0, 0.0, 0);
        let mut shares = [0.0; BATCHES];
        for (centre, frame) in self.centres.chunks_exact(m).zip(bases.chunks_exact(d * m)) {
            let mut patch = Patch { maps, centre, frame, radius: 1.0 };
            while patch.radius > 1e-4 && patch.area(&mut stream).is_none() {
                patch.radius *= 0.7;
            }
            patch.radius *= 0.8;
            let Some((own, own_variance)) = patch.area(&mut stream) else { continue };
            (area, variance, patches) = (area + own, variance + own_variance, patches + 1);
            for row in patch.inside(&self.pool) {
                shares[row * BATCHES / count] += 1.0;
            }
        }
        volume_of(maps.name(), count, &shares, patches, (area, variance))
    }
}

/// A graph over the tangent ball of radius `radius` at `centre`.
struct Patch<'a> {
    maps: &'a dyn RowMaps,
    centre: &'a [f64],
    frame: &'a [f64],
    radius: f64,
}

impl Patch<'_> {
    /// The points of M over tangent vectors v at the centre, and which there are.
    fn over(&self, v: &[f64]) -> (Vec<f64>, Vec<bool>) {
        let places = self.centre.repeat(v.len() / self.centre.len());
        let mut y: Vec<f64> = places.iter().zip(v).map(|(x, v)| x + v).collect();
        let found = along_normals(self.maps, &places, &mut y, NormalSearch::QUICK);
        (y, found)
    }

    /// The rows of `points` that lie in the patch.
    fn inside(&self, points: &[f64]) -> Vec<usize> {
        let m = self.centre.len();
        let away = |row: usize| distance(&points[row * m..(row + 1) * m], self.centre);
        let near = (0..points.len() / m).filter(|row| away(*row) <= 4.0 * self.radius);
        let rows: Vec<usize> = near.collect();
        if rows.is_empty() {
            return rows;
        }
        let own = |row: &usize| points[row * m..(row + 1) * m].iter().zip(self.centre);
        let mut v: Vec<f64> = rows.iter().flat_map(|row| own(row).map(|(x, c)| x - c)).collect();
        self.maps.tangents(&self.centre.repeat(rows.len()), &mut v);
        let (y, found) = self.over(&v);
        let lies = |(k, row): &(usize, usize)| {
            let (x, y) = (&points[row * m..(row + 1) * m], &y[k * m..(k + 1) * m]);
            norm(&v[k * m..(k + 1) * m]) < self.radius
                && found[*k]
                && distance(y, x) < 1e-6 * (1.0 + norm(x))
        };
        rows.into_iter().enumerate().filter(lies).map(|(_, row)| row).collect()
    }

    /// Area and its variance: the ball's volume times the mean of 1/|det⟨e_i(centre), e_j(y)⟩|.
    /// `None` if the surface is not a graph over the ball, or bends too much.
    fn area(&self, stream: &mut Stream) -> Option<(f64, f64)> {
        let (d, m) = (self.maps.dim(), self.centre.len());
        let mut v = vec![0.0; AREA_POINTS * m];
        let mut t = scratch(d);
        for v in v.chunks_exact_mut(m) {
            t.fill_with(|| stream.normal());
            let r = self.radius * stream.uniform().powf(1.0 / d as f64) / norm(&t);
            scale(r, &mut t);
            for (t, e) in t.iter().zip(self.frame.chunks_exact(m)) {
                axpy(*t, e, v);
            }
        }
        let (y, found) = self.over(&v);
        let far = |y: &[f64]| distance(y, self.centre) > 4.0 * self.radius;
        if found.contains(&false) || y.chunks_exact(m).any(far) {
            return None;
        }
        let mut bases = vec![0.0; y.len() * d];
        frames(self.maps, &y, &mut bases);
        let (mut sum, mut squares, mut overlap) = (0.0, 0.0, scratch(d * d));
        for basis in bases.chunks_exact(d * m) {
            for (i, e) in self.frame.chunks_exact(m).enumerate() {
                for (j, own) in basis.chunks_exact(m).enumerate() {
                    overlap[i * d + j] = dot(e, own);
                }
            }
            let cosine = determinant(&overlap, d).abs();
            if !(cosine > 0.3) {
                return None;
            }
            sum += 1.0 / cosine;
            squares += 1.0 / (cosine * cosine);
        }
        let (mean, mean_square) = (sum / AREA_POINTS as f64, squares / AREA_POINTS as f64);
        let ball = ball_volume(d, self.radius);
        Some((ball * mean, ball * ball * (mean_square - mean * mean) / AREA_POINTS as f64))
    }
}
