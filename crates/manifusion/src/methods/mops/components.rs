//! Mixtures of products of power spherical distributions: log p and its gradient, with the
//! components in vector lanes.

use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use crate::directional::{PowerSpherical, half_cosine_lanes};
use crate::error::SolveError;
use crate::linalg::{exp_lanes, norm};
use crate::manifold::{Family, Manifold};
use crate::parallel::for_each_chunk;
use crate::rng::Stream;
use crate::rows::Rows;

/// Components side by side.
const LANES: usize = 8;
/// One number for each of them.
type Lanes = [f64; LANES];
/// Terms of log p that are smaller than the largest by so much are left out: 4096 of them are less
/// than 1e-13 of it.
const REACH: f64 = 40.0;

/// The numbers of coordinates of the spheres that a manifold is a product of; none if it is no such
/// product.
pub fn sphere_blocks(manifold: &dyn Manifold) -> Option<Vec<usize>> {
    match manifold.family() {
        Family::Sphere { dim } => Some(vec![dim + 1]),
        Family::Torus { dim } => Some(vec![2; dim]),
        Family::Product => {
            let factors = manifold.factors().iter().map(|factor| sphere_blocks(factor.as_ref()));
            Some(factors.collect::<Option<Vec<_>>>()?.concat())
        }
        _ => None,
    }
}

/// Weights and parameters of the components.
#[derive(Clone, Debug, PartialEq)]
pub struct Components {
    /// Coordinates of each block.
    pub blocks: Vec<usize>,
    /// Weights, which sum to one.
    pub weights: Vec<f64>,
    /// Unit vectors, components × coordinates.
    pub means: Vec<f64>,
    /// κ, components × blocks.
    pub concentrations: Vec<f64>,
}

impl Components {
    /// Coordinates of a point.
    pub fn width(&self) -> usize {
        self.blocks.iter().sum()
    }

    /// The same with half the concentrations.
    pub(super) fn widened(&self) -> Self {
        let concentrations = self.concentrations.iter().map(|kappa| 0.5 * kappa).collect();
        Self { concentrations, ..self.clone() }
    }

    /// `x ←` a draw.
    pub(super) fn sample(&self, stream: &mut Stream, x: &mut [f64]) {
        let mut level = stream.uniform();
        let below = |weight: &f64| {
            level -= weight;
            level <= 0.0
        };
        let pick = self.weights.iter().position(below).unwrap_or(self.weights.len() - 1);
        let mut at = pick * self.width();
        let mut rest = x;
        for (block, &m) in self.blocks.iter().enumerate() {
            let kappa = self.concentrations[pick * self.blocks.len() + block];
            let (own, after) = rest.split_at_mut(m);
            PowerSpherical::new(self.means[at..at + m].to_vec(), kappa).sample(stream, own);
            (rest, at) = (after, at + m);
        }
    }

    /// The form in which sums are taken.
    pub(super) fn packed(&self) -> Packed {
        let (m, blocks) = (self.width(), &self.blocks);
        let stride = 1 + blocks.len() + m;
        let chunks = self.weights.len().div_ceil(LANES);
        let mut lanes = vec![[0.0; LANES]; chunks * stride];
        let mut slopes = vec![[0.0; LANES]; chunks * blocks.len()];
        let fill = |(chunk, (lanes, slopes)): (usize, (&mut [Lanes], &mut [Lanes]))| {
            for l in 0..LANES {
                let k = chunk * LANES + l;
                // What is beyond the last component has no weight.
                lanes[0][l] = f64::NEG_INFINITY;
                let Some(weight) = self.weights.get(k) else { continue };
                let (mut log, mut at, mut from) = (weight.ln(), 1, k * m);
                for (block, &m) in blocks.iter().enumerate() {
                    let kappa = self.concentrations[k * blocks.len() + block];
                    let [log_norm, slope] = PowerSpherical::log_norm_with_slope(m, kappa);
                    log -= log_norm;
                    slopes[block][l] = slope;
                    lanes[at][l] = kappa;
                    for j in 0..m {
                        lanes[at + 1 + j][l] = self.means[from + j];
                    }
                    (at, from) = (at + 1 + m, from + m);
                }
                lanes[0][l] = log;
            }
        };
        let slopes_of = slopes.par_chunks_mut(blocks.len());
        lanes.par_chunks_mut(stride).zip(slopes_of).enumerate().with_min_len(64).for_each(fill);
        Packed { blocks: blocks.clone(), stride, lanes, slopes }
    }
}

/// Components in lanes: for each chunk of them log w − Σ log Z, then κ and μ of every block.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    blocks: Vec<usize>,
    /// Lanes of a chunk.
    stride: usize,
    lanes: Vec<Lanes>,
    /// d log Z/dκ, chunks × blocks.
    slopes: Vec<Lanes>,
}

impl Packed {
    fn chunks(&self) -> usize {
        self.lanes.len() / self.stride
    }

    /// log p of every row.
    pub(super) fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        const ROWS: usize = 16;
        let mut out = vec![0.0; x.len()];
        for_each_chunk(&mut out, 1, ROWS, |first, out| {
            let x = x.range(first..first + out.len())?;
            pulp::Arch::new().dispatch(Densities { packed: self, x, out });
            Ok(())
        })?;
        Ok(out)
    }

    /// log w p(x) of every component, and the largest. Chunks that are farther below it than
    /// [`REACH`] may be −∞ instead.
    #[inline(always)]
    fn log_terms(&self, x: &[f64], terms: &mut [Lanes]) -> f64 {
        let mut largest = f64::NEG_INFINITY;
        for (own, term) in self.lanes.chunks_exact(self.stride).zip(terms) {
            // log ½(1 + t) ≤ ½(1 + t) − 1 = −¼|x − μ|²: most chunks need no logarithms.
            let (mut bound, mut at, mut from) = (own[0], 1, 0);
            for &m in &self.blocks {
                let off = chord2(&x[from..from + m], &own[at + 1..at + 1 + m]);
                for l in 0..LANES {
                    bound[l] -= 0.25 * own[at][l] * off[l];
                }
                (at, from) = (at + 1 + m, from + m);
            }
            *term = [f64::NEG_INFINITY; LANES];
            if !any_above(&bound, largest - REACH) {
                continue;
            }
            let (mut sum, mut at, mut from) = (own[0], 1, 0);
            for &m in &self.blocks {
                let (_, log) = block_cosine(&x[from..from + m], &own[at + 1..at + 1 + m]);
                for l in 0..LANES {
                    sum[l] += own[at][l] * log[l];
                }
                (at, from) = (at + 1 + m, from + m);
            }
            *term = sum;
            for l in 0..LANES {
                largest = if sum[l] > largest { sum[l] } else { largest };
            }
        }
        largest
    }

    /// log p(x). The terms become exponentials over the largest, and `near` the chunks that count.
    #[inline(always)]
    fn log_sum(&self, x: &[f64], terms: &mut [Lanes], near: &mut Vec<usize>) -> (f64, f64) {
        let largest = self.log_terms(x, terms);
        near.clear();
        let mut sums = [0.0; LANES];
        for (chunk, term) in terms.iter_mut().enumerate() {
            if !any_above(term, largest - REACH) {
                continue;
            }
            near.push(chunk);
            let mut lanes = [0.0; LANES];
            for l in 0..LANES {
                lanes[l] = term[l] - largest;
            }
            *term = exp_lanes(&lanes);
            for l in 0..LANES {
                sums[l] += term[l];
            }
        }
        let sum: f64 = sums.iter().sum();
        (largest + sum.ln(), sum)
    }
}

/// Whether one of the lanes is above a level.
#[inline(always)]
fn any_above(lanes: &Lanes, level: f64) -> bool {
    let mut any = false;
    for l in 0..LANES {
        any |= lanes[l] > level;
    }
    any
}

/// |x − μ|².
#[inline(always)]
fn chord2(x: &[f64], mean: &[Lanes]) -> Lanes {
    let mut off = [0.0; LANES];
    for (x, mean) in x.iter().zip(mean) {
        for l in 0..LANES {
            off[l] += (x - mean[l]) * (x - mean[l]);
        }
    }
    off
}

/// ½(1 + ⟨μ, x⟩) and its logarithm.
#[inline(always)]
fn block_cosine(x: &[f64], mean: &[Lanes]) -> (Lanes, Lanes) {
    let (off, mut sum) = (chord2(x, mean), [0.0; LANES]);
    for (x, mean) in x.iter().zip(mean) {
        for l in 0..LANES {
            sum[l] += (x + mean[l]) * (x + mean[l]);
        }
    }
    half_cosine_lanes(&off, &sum)
}

struct Densities<'a> {
    packed: &'a Packed,
    x: Rows<'a>,
    out: &'a mut [f64],
}

impl WithSimd for Densities<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let mut terms = vec![[0.0; LANES]; self.packed.chunks()];
        let mut near = Vec::new();
        for (x, out) in self.x.rows().zip(self.out) {
            (*out, _) = self.packed.log_sum(x, &mut terms, &mut near);
        }
    }
}

/// Sums over points, with the responsibilities r of the components for them: Σ r, and for every
/// block Σ r log ½(1 + ⟨μ, x⟩) and Σ r x/(½(1 + ⟨μ, x⟩)), in the places of log w, κ and μ.
#[derive(Clone, Debug)]
pub(super) struct Sums {
    lanes: Vec<Lanes>,
    /// Σ log p.
    pub(super) log_p: f64,
    terms: Vec<Lanes>,
    near: Vec<usize>,
}

impl Sums {
    /// Room for the sums of a mixture of this size.
    pub(super) fn new(count: usize, blocks: &[usize]) -> Self {
        let chunks = count.div_ceil(LANES);
        let stride = 1 + blocks.len() + blocks.iter().sum::<usize>();
        let lanes = vec![[0.0; LANES]; chunks * stride];
        Self { lanes, log_p: 0.0, terms: vec![[0.0; LANES]; chunks], near: Vec::new() }
    }

    /// The sums over these points.
    pub(super) fn fill(&mut self, packed: &Packed, x: Rows<'_>) {
        self.lanes.fill([0.0; LANES]);
        self.log_p = 0.0;
        pulp::Arch::new().dispatch(Summing { packed, x, sums: self });
    }
}

struct Summing<'a> {
    packed: &'a Packed,
    x: Rows<'a>,
    sums: &'a mut Sums,
}

impl WithSimd for Summing<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { packed, x, sums: Sums { lanes, log_p, terms, near } } = self;
        let stride = packed.stride;
        for x in x.rows() {
            let (log_density, sum) = packed.log_sum(x, terms, near);
            *log_p += log_density;
            let per_sum = 1.0 / sum;
            for &chunk in near.iter() {
                let own = &packed.lanes[chunk * stride..(chunk + 1) * stride];
                let to = &mut lanes[chunk * stride..(chunk + 1) * stride];
                let mut share = terms[chunk];
                for l in 0..LANES {
                    share[l] *= per_sum;
                    to[0][l] += share[l];
                }
                let (mut at, mut from) = (1, 0);
                for &m in &packed.blocks {
                    let x = &x[from..from + m];
                    let (half, log) = block_cosine(x, &own[at + 1..at + 1 + m]);
                    let mut scaled = [0.0; LANES];
                    for l in 0..LANES {
                        to[at][l] += share[l] * log[l];
                        scaled[l] = share[l] / half[l];
                    }
                    for (x, to) in x.iter().zip(&mut to[at + 1..at + 1 + m]) {
                        for l in 0..LANES {
                            to[l] += scaled[l] * x;
                        }
                    }
                    (at, from) = (at + 1 + m, from + m);
                }
            }
        }
    }
}

/// Gradients of the mean of log p over `points` points, whose sums are in `parts`.
#[derive(Clone, Debug)]
pub(super) struct Gradient {
    /// By log w before their normalisation, for each component.
    pub(super) logits: Vec<f64>,
    /// By the mean directions, projected to the tangent spaces, components × coordinates.
    pub means: Vec<f64>,
    /// By log κ, components × blocks.
    pub(super) log_concentrations: Vec<f64>,
}

impl Gradient {
    /// From the sums over parts of the points, added in their order.
    pub(super) fn new(
        components: &Components,
        packed: &Packed,
        parts: &[Sums],
        points: usize,
    ) -> Self {
        let (m, blocks, stride) = (components.width(), &components.blocks, packed.stride);
        let count = components.weights.len();
        let per_point = 1.0 / points as f64;
        let mut logits = vec![0.0; count];
        let mut means = vec![0.0; count * m];
        let mut log_concentrations = vec![0.0; count * blocks.len()];
        let one = |k: usize, logit: &mut f64, mean: &mut [f64], log: &mut [f64]| {
            let (chunk, l) = (k / LANES, k % LANES);
            let sum = |place: usize| -> f64 {
                parts.iter().map(|part| part.lanes[chunk * stride + place][l]).sum::<f64>()
                    * per_point
            };
            let share = sum(0);
            *logit = share - components.weights[k];
            let (mut at, mut from) = (1, 0);
            for (block, &width) in blocks.iter().enumerate() {
                let kappa = components.concentrations[k * blocks.len() + block];
                let slope = packed.slopes[chunk * blocks.len() + block][l];
                log[block] = kappa * (sum(at) - share * slope);
                let own = &components.means[k * m + from..k * m + from + width];
                let out = &mut mean[from..from + width];
                for (j, out) in out.iter_mut().enumerate() {
                    // κ/(1 + t) is κ/2 over ½(1 + t).
                    *out = 0.5 * kappa * sum(at + 1 + j);
                }
                let along = crate::linalg::dot(own, out);
                crate::linalg::axpy(-along, own, out);
                (at, from) = (at + 1 + width, from + width);
            }
        };
        logits
            .par_iter_mut()
            .zip(means.par_chunks_mut(m))
            .zip(log_concentrations.par_chunks_mut(blocks.len()))
            .enumerate()
            .with_min_len(512)
            .for_each(|(k, ((logit, mean), log))| one(k, logit, mean, log));
        Self { logits, means, log_concentrations }
    }
}

/// `out ← v/|v|` in every block, and the lengths.
pub(super) fn normalised(blocks: &[usize], v: &[f32], out: &mut [f64], lengths: &mut [f64]) {
    let mut from = 0;
    for (&m, length) in blocks.iter().zip(lengths) {
        let out = &mut out[from..from + m];
        for (out, v) in out.iter_mut().zip(&v[from..from + m]) {
            *out = f64::from(*v);
        }
        *length = norm(out);
        for out in out {
            *out /= *length;
        }
        from += m;
    }
}
