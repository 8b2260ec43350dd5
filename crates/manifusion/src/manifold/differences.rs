//! What follows from P and π alone: a frame, and the mean curvature by differences.

use super::{Manifold, RowMaps};
use crate::linalg::{Scratch, axpy, dot, norm, scale, scratch};

/// Orthonormal tangent frame from the projected coordinate vectors: Gram–Schmidt that takes the
/// longest remaining vector each time, so that no choice of basis can fail.
pub(super) fn pivoted_frame<M: Manifold + ?Sized>(manifold: &M, x: &[f64], e: &mut [f64]) {
    let m = manifold.ambient_dim();
    let mut candidates = scratch(m * m);
    for (i, row) in candidates.chunks_exact_mut(m).enumerate() {
        row[i] = 1.0;
        manifold.project_tangent(x, row);
    }
    pivot(&mut candidates, m, e);
}

/// The same at every row of x, with one call.
pub(crate) fn frames(maps: &dyn RowMaps, x: &[f64], e: &mut [f64]) {
    let (d, m) = (maps.dim(), maps.ambient_dim());
    let places = repeated(x, m, m);
    let mut candidates = vec![0.0; places.len()];
    for (i, row) in candidates.chunks_exact_mut(m).enumerate() {
        row[i % m] = 1.0;
    }
    maps.tangents(&places, &mut candidates);
    for (candidates, e) in candidates.chunks_exact_mut(m * m).zip(e.chunks_exact_mut(d * m)) {
        pivot(candidates, m, e);
    }
}

/// Every row of x so many times.
fn repeated(x: &[f64], m: usize, times: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(x.len() * times);
    for x in x.chunks_exact(m) {
        for _ in 0..times {
            out.extend_from_slice(x);
        }
    }
    out
}

fn pivot(candidates: &mut [f64], m: usize, e: &mut [f64]) {
    for j in 0..e.len() / m {
        let longest = (0..m)
            .max_by(|&a, &b| {
                let length = |i: usize| norm(&candidates[i * m..(i + 1) * m]);
                length(a).total_cmp(&length(b))
            })
            .unwrap_or(0);
        let chosen = &mut e[j * m..(j + 1) * m];
        chosen.copy_from_slice(&candidates[longest * m..(longest + 1) * m]);
        scale(1.0 / norm(chosen), chosen);
        for candidate in candidates.chunks_exact_mut(m) {
            // Twice: once loses digits when the vectors are nearly parallel.
            for _ in 0..2 {
                axpy(-dot(chosen, candidate), chosen, candidate);
            }
        }
    }
}

/// H(x) = Σⱼ D_xP\[eⱼ\] eⱼ by central differences of P along the curves t ↦ π(x + t eⱼ).
///
/// Only first derivatives of the curve at t = 0 matter, so any retraction does; staying on M means
/// that P need not be meaningful elsewhere. Three step sizes are combined to sixth order. The step
/// is shortened until it is small against the radius of curvature that comes out, and where π
/// refuses; NaN if no step will do.
pub(crate) fn mean_curvature<M: Manifold + ?Sized>(manifold: &M, x: &[f64], h: &mut [f64]) {
    let (d, m) = (manifold.dim(), manifold.ambient_dim());
    let mut frame = scratch(d * m);
    manifold.frame(x, &mut frame);
    let mut step = Step::first(x);
    for _ in 0..ATTEMPTS {
        let defined = curvature_sum(manifold, x, &frame, step.0, h);
        if step.is_good(defined, d, h) {
            return;
        }
    }
    // No value is repaired silently: the caller sees that H is not known here.
    h.fill(f64::NAN);
}

const ATTEMPTS: usize = 12;

/// The step of a row's differences.
struct Step(f64);

impl Step {
    fn first(x: &[f64]) -> Self {
        Self(0.02 * (norm(x) / (x.len() as f64).sqrt()).max(0.1))
    }

    /// Whether differences with this step will do, π being `defined` at their points; if not, the
    /// step is shorter afterwards.
    fn is_good(&mut self, defined: bool, d: usize, h: &[f64]) -> bool {
        if !defined {
            self.0 *= 0.2;
            return false;
        }
        let bend = norm(h) / (d as f64).sqrt() * self.0;
        if bend < 0.1 {
            return true;
        }
        self.0 *= (0.03 / bend).max(0.1);
        false
    }
}

/// Richardson weights of the differences with steps t, t/2, t/4.
const WEIGHTS: [(f64, f64); 3] = [(1.0, 1.0 / 45.0), (0.5, -20.0 / 45.0), (0.25, 64.0 / 45.0)];

/// The mean curvature at every row of x, with two calls for all rows that a step will do for.
pub(crate) fn mean_curvatures(maps: &dyn RowMaps, x: &[f64], h: &mut [f64]) {
    let (d, m) = (maps.dim(), maps.ambient_dim());
    let per_row = d * 2 * WEIGHTS.len();
    let mut frame = vec![0.0; x.len() * d];
    frames(maps, x, &mut frame);
    let mut active: Vec<(usize, Step)> = x.chunks_exact(m).map(Step::first).enumerate().collect();
    let (mut points, mut values, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ATTEMPTS {
        for part in [&mut points, &mut values, &mut weights] {
            part.clear();
        }
        for (row, step) in &active {
            let x = &x[row * m..(row + 1) * m];
            for e in frame[row * d * m..(row + 1) * d * m].chunks_exact(m) {
                for (factor, weight) in WEIGHTS {
                    for side in [factor * step.0, -factor * step.0] {
                        points.extend(x.iter().zip(e).map(|(x, e)| x + side * e));
                        values.extend_from_slice(e);
                        weights.push(weight / (2.0 * side));
                    }
                }
            }
        }
        maps.points(&mut points);
        maps.tangents(&points, &mut values);
        let mut block = 0;
        active.retain_mut(|(row, step)| {
            let h = &mut h[*row * m..(*row + 1) * m];
            h.fill(0.0);
            let own = block * per_row..(block + 1) * per_row;
            block += 1;
            let defined = points[own.start * m..own.end * m].iter().all(|x| x.is_finite());
            let rows = values[own.start * m..own.end * m].chunks_exact(m);
            rows.zip(&weights[own]).for_each(|(value, weight)| axpy(*weight, value, h));
            !step.is_good(defined, d, h)
        });
        if active.is_empty() {
            return;
        }
    }
    for (row, _) in active {
        h[row * m..(row + 1) * m].fill(f64::NAN);
    }
}

/// The differences with one step; false if π refuses a point.
fn curvature_sum<M: Manifold + ?Sized>(
    manifold: &M,
    x: &[f64],
    frame: &[f64],
    step: f64,
    h: &mut [f64],
) -> bool {
    h.fill(0.0);
    let mut point = Scratch::from_slice(x);
    let mut value = scratch(x.len());
    for e in frame.chunks_exact(x.len()) {
        for (factor, weight) in WEIGHTS {
            for side in [factor * step, -factor * step] {
                point.copy_from_slice(x);
                axpy(side, e, &mut point);
                if manifold.project_point(&mut point).is_err() {
                    return false;
                }
                value.copy_from_slice(e);
                manifold.project_tangent(&point, &mut value);
                axpy(weight / (2.0 * side), &value, h);
            }
        }
    }
    true
}

/// When [`project_along_normal`] ends: relative tolerance, and least rate of convergence.
#[derive(Clone, Copy)]
pub(crate) struct NormalSearch {
    pub(crate) tolerance: f64,
    pub(crate) rate: f64,
}

impl NormalSearch {
    /// To rounding.
    pub(crate) const EXACT: Self = Self { tolerance: 1e-11, rate: 0.6 };
    /// In 23 iterations at most, for chains: a search that is given up is a rejected step.
    pub(crate) const QUICK: Self = Self { tolerance: 1e-9, rate: 0.4 };
}

const NORMAL_ITERATIONS: usize = 60;

/// [`project_along_normal`] for every row, all rows that are under way together; which were found.
pub(crate) fn along_normals(
    maps: &dyn RowMaps,
    x: &[f64],
    z: &mut [f64],
    until: NormalSearch,
) -> Vec<bool> {
    struct Search {
        row: usize,
        w: Scratch,
        last: f64,
    }
    let m = maps.ambient_dim();
    let mut found = vec![false; x.len() / m];
    let start =
        |(row, z): (usize, &[f64])| Search { row, w: Scratch::from_slice(z), last: f64::INFINITY };
    let mut active: Vec<Search> = z.chunks_exact(m).enumerate().map(start).collect();
    let (mut y, mut miss, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..NORMAL_ITERATIONS {
        for part in [&mut y, &mut miss, &mut places] {
            part.clear();
        }
        for search in &active {
            y.extend_from_slice(&search.w);
            places.extend_from_slice(&x[search.row * m..(search.row + 1) * m]);
        }
        maps.points(&mut y);
        for (search, y) in active.iter().zip(y.chunks_exact(m)) {
            miss.extend(y.iter().zip(&z[search.row * m..]).map(|(y, z)| y - z));
        }
        maps.tangents(&places, &mut miss);
        let mut rows = y.chunks_exact(m).zip(miss.chunks_exact(m));
        active.retain_mut(|search| {
            let Some((y, miss)) = rows.next() else { return false };
            let own = search.row * m..(search.row + 1) * m;
            let size = norm(miss);
            if size < until.tolerance * (1.0 + norm(&x[own.clone()])) {
                z[own].copy_from_slice(y);
                found[search.row] = true;
                return false;
            }
            // Also ends for NaN.
            if !(size < until.rate * search.last) {
                return false;
            }
            search.last = size;
            axpy(-1.0, miss, &mut search.w);
            true
        });
        if active.is_empty() {
            break;
        }
    }
    found
}

/// The point of M in z + N_xM by the iteration w ← w − P_x(π(w) − z), which contracts while the
/// surface bends little between x and z. Slow convergence counts as failure: for a chain it is a
/// rejected step.
pub(super) fn project_along_normal<M: Manifold + ?Sized>(
    manifold: &M,
    x: &[f64],
    z: &mut [f64],
) -> bool {
    let NormalSearch { tolerance, rate } = NormalSearch::EXACT;
    let tolerance = tolerance * (1.0 + norm(x));
    let mut w = Scratch::from_slice(z);
    let mut last = f64::INFINITY;
    for _ in 0..NORMAL_ITERATIONS {
        let mut y = w.clone();
        if manifold.project_point(&mut y).is_err() {
            return false;
        }
        let mut miss = y.clone();
        axpy(-1.0, z, &mut miss);
        manifold.project_tangent(x, &mut miss);
        let size = norm(&miss);
        if size < tolerance {
            z.copy_from_slice(&y);
            return true;
        }
        // Also ends for NaN.
        if !(size < rate * last) {
            return false;
        }
        last = size;
        axpy(-1.0, &miss, &mut w);
    }
    false
}
