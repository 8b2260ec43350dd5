//! Learned features of x on grids of several resolutions (Müller et al. 2022, with smooth
//! interpolation): what a network alone resolves only slowly.
//!
//! Each level is a grid of spacing 1/N over ℝᵐ whose nodes have trained numbers, kept in a hash
//! table. A feature is the quadratic B-spline through them, which has a continuous derivative,
//! times e^{−sN²/2}: what the noise has blurred fades out of the input.

use super::config::GridConfig;
use super::features::{Place, PlaceGradient};
use super::real::Real;
use super::support::WORD;

/// Most coordinates that a grid is laid over: 3ᵐ nodes are looked up for each level.
pub const MAX_DIM: usize = 4;
/// 3 to the power of it.
const MAX_NODES: usize = 81;
/// Numbers of a node, and features of a level.
pub(crate) const FEATURES: usize = 2;
/// What features are multiplied by: the trained numbers move with the rate of the other
/// parameters, which is small for them.
const GAIN: f64 = 10.0;

/// The levels of a grid.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    /// N of each level.
    resolutions: Vec<f64>,
    /// Entries of the table of a level, a power of two.
    entries: usize,
    /// Whether neighbours on the first axis have entries beside each other: they are then in one
    /// line of the cache.
    lines: bool,
}

/// The nodes around a point: entries, weights, and the weights' derivatives by each coordinate.
struct Nodes<T> {
    count: usize,
    entry: [u32; MAX_NODES],
    weight: [T; MAX_NODES],
    slope: [[T; MAX_NODES]; MAX_DIM],
}

/// Value, first and second derivative of the spline's weights of the three nodes around u, in u.
#[inline(always)]
fn spline(u: f64) -> (i64, [[f64; 3]; 3]) {
    let nearest = (u + 0.5).floor();
    let t = u - nearest;
    let (a, b) = (0.5 - t, 0.5 + t);
    (
        nearest as i64,
        [[0.5 * a * a, 0.75 - t * t, 0.5 * b * b], [-a, -2.0 * t, b], [1.0, -2.0, 1.0]],
    )
}

impl Grid {
    pub(crate) fn new(config: GridConfig) -> Self {
        let GridConfig { levels, coarsest, finest, log2_entries, lines } = config;
        let ratio = if levels > 1 { (finest / coarsest).ln() / (levels - 1) as f64 } else { 0.0 };
        let resolutions = (0..levels).map(|l| coarsest * (ratio * l as f64).exp()).collect();
        Self { resolutions, entries: 1 << log2_entries, lines }
    }

    /// A node's coordinate on one axis as a part of its hash.
    #[inline(always)]
    fn part(&self, node: i64, axis: usize) -> u32 {
        const PRIMES: [u32; MAX_DIM] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f];
        if self.lines && axis == 0 { 0 } else { (node as u32).wrapping_mul(PRIMES[axis]) }
    }

    /// The entry of a node, by the sum of its parts and its coordinate on the first axis.
    #[inline(always)]
    fn entry(&self, sum: u32, first: i64) -> u32 {
        let hash = (sum ^ (sum >> 15)).wrapping_mul(0x2c1b_3c6d).rotate_left(13);
        let along = if self.lines { first as u32 } else { 0 };
        hash.wrapping_add(along) & (self.entries - 1) as u32
    }

    fn damping(&self, level: usize) -> f64 {
        0.5 * self.resolutions[level].powi(2)
    }

    /// The part of a table that is a level's.
    fn level<'a, T>(&self, table: &'a [T], level: usize) -> &'a [T] {
        let size = self.entries * FEATURES;
        &table[level * size..(level + 1) * size]
    }

    #[inline(always)]
    fn nodes<T: Real>(&self, level: usize, x: &[f64], nodes: &mut Nodes<T>) {
        let resolution = self.resolutions[level];
        nodes.count = 1;
        let mut sums = [0u32; MAX_NODES];
        let mut first = 0;
        nodes.weight[0] = T::ONE;
        for (axis, x) in x.iter().enumerate() {
            let (nearest, [weight, slope, _]) = spline(x * resolution);
            if axis == 0 {
                first = nearest - 1;
            }
            let count = nodes.count;
            // The last of the three first, so that nothing is overwritten that is still needed.
            for k in (0..3).rev() {
                let part = self.part(nearest + k as i64 - 1, axis);
                let (w, d) = (T::from_f64(weight[k]), T::from_f64(slope[k] * resolution));
                for i in 0..count {
                    let to = k * count + i;
                    sums[to] = sums[i].wrapping_add(part);
                    for slope in &mut nodes.slope[..axis] {
                        slope[to] = slope[i] * w;
                    }
                    nodes.slope[axis][to] = nodes.weight[i] * d;
                    nodes.weight[to] = nodes.weight[i] * w;
                }
            }
            nodes.count = 3 * count;
        }
        // The first axis has the fastest index.
        for i in 0..nodes.count {
            nodes.entry[i] = self.entry(sums[i], first + i as i64 % 3);
        }
    }

    /// Writes the features, from `column` on, of one row and its tangents.
    #[inline(always)]
    pub(crate) fn forward<T: Real>(
        &self,
        table: &[T],
        place: Place<'_>,
        column: usize,
        value: &mut [T],
        tangents: &mut [T],
        stride: usize,
    ) {
        let m = place.x.len();
        let mut nodes = Nodes::<T>::new();
        for level in 0..self.resolutions.len() {
            let size = T::from_f64(GAIN * (-self.damping(level) * place.s).exp());
            let at = column + level * FEATURES;
            if size.to_f64() < 1e-12 {
                for row in std::iter::once(&mut *value).chain(tangents.chunks_exact_mut(stride)) {
                    row[at..at + FEATURES].fill(T::ZERO);
                }
                continue;
            }
            self.nodes(level, place.x, &mut nodes);
            let table = self.level(table, level);
            let mut sum = [T::ZERO; FEATURES];
            let mut gradient = [[T::ZERO; FEATURES]; MAX_DIM];
            for i in 0..nodes.count {
                let first = nodes.entry[i] as usize * FEATURES;
                let numbers = &table[first..first + FEATURES];
                for (sum, number) in sum.iter_mut().zip(numbers) {
                    *sum += nodes.weight[i] * *number;
                }
                if !tangents.is_empty() {
                    for (gradient, slope) in gradient[..m].iter_mut().zip(&nodes.slope) {
                        for (gradient, number) in gradient.iter_mut().zip(numbers) {
                            *gradient += slope[i] * *number;
                        }
                    }
                }
            }
            for (value, sum) in value[at..].iter_mut().zip(sum) {
                *value = size * sum;
            }
            for (j, row) in tangents.chunks_exact_mut(stride).enumerate() {
                let (e, e_s) = place.direction(j);
                let by_time = T::from_f64(-self.damping(level) * e_s);
                for f in 0..FEATURES {
                    let mut along = by_time * sum[f];
                    for (gradient, e) in gradient.iter().zip(e) {
                        along += gradient[f] * T::from_f64(*e);
                    }
                    row[at + f] = size * along;
                }
            }
        }
    }

    /// Levels, and the numbers of each.
    pub(crate) fn levels(&self) -> (usize, usize) {
        (self.resolutions.len(), self.entries * FEATURES)
    }

    /// Adds the gradient of ⟨bar, features⟩ with respect to the tables of the levels from `first`
    /// on, as many as `table_grad` has; `met` gets a bit for each entry that has a part in it.
    #[expect(clippy::too_many_arguments, reason = "a row's place, its cotangents and the tables")]
    pub(crate) fn reverse_table<T: Real>(
        &self,
        place: Place<'_>,
        column: usize,
        bar: &[T],
        stride: usize,
        first: usize,
        table_grad: &mut [T],
        met: &mut [u64],
    ) {
        let (value, tangents) = bar.split_at(stride);
        let mut nodes = Nodes::<T>::new();
        let block = self.entries * FEATURES;
        let levels =
            table_grad.chunks_exact_mut(block).zip(met.chunks_exact_mut(self.entries / WORD));
        for (level, (grad, met)) in (first..).zip(levels) {
            let size = T::from_f64(GAIN * (-self.damping(level) * place.s).exp());
            if size.to_f64() < 1e-12 {
                continue;
            }
            self.nodes(level, place.x, &mut nodes);
            let at = column + level * FEATURES;
            for i in 0..nodes.count {
                let entry = nodes.entry[i] as usize;
                met[entry / WORD] |= 1 << (entry % WORD);
                let first = entry * FEATURES;
                let grad = &mut grad[first..first + FEATURES];
                let weight = size * nodes.weight[i];
                for (grad, bar) in grad.iter_mut().zip(&value[at..]) {
                    *grad += weight * *bar;
                }
                for (j, row) in tangents.chunks_exact(stride).enumerate() {
                    let (e, e_s) = place.direction(j);
                    let mut along = T::from_f64(-self.damping(level) * e_s) * nodes.weight[i];
                    for (slope, e) in nodes.slope.iter().zip(e) {
                        along += slope[i] * T::from_f64(*e);
                    }
                    for (grad, bar) in grad.iter_mut().zip(&row[at..]) {
                        *grad += size * along * *bar;
                    }
                }
            }
        }
    }

    /// Adds the gradient of ⟨bar, features⟩ with respect to one row's place, in f64: this pass
    /// serves checks and maximum-likelihood flows, not the training loop.
    pub(crate) fn reverse<T: Real>(
        &self,
        table: &[T],
        place: Place<'_>,
        column: usize,
        bar: &[T],
        stride: usize,
        grad: &mut PlaceGradient<'_>,
    ) {
        let m = place.x.len();
        let (value, tangents) = bar.split_at(stride);
        for (level, resolution) in self.resolutions.iter().enumerate() {
            let (table, damping) = (self.level(table, level), self.damping(level));
            let size = GAIN * (-damping * place.s).exp();
            let axes: Vec<(i64, [[f64; 3]; 3])> =
                place.x.iter().map(|x| spline(x * resolution)).collect();
            for node in 0..3usize.pow(m as u32) {
                let digit = |axis: usize| node / 3usize.pow(axis as u32) % 3;
                let at = |axis: usize| axes[axis].0 + digit(axis) as i64 - 1;
                let parts = (0..m).map(|axis| self.part(at(axis), axis));
                let sum = parts.fold(0u32, u32::wrapping_add);
                let number = self.entry(sum, at(0)) as usize * FEATURES;
                // The derivative of the node's weight, of the given order in each coordinate.
                let weight = |orders: &dyn Fn(usize) -> usize| -> f64 {
                    let of = |axis: usize| {
                        let order = orders(axis);
                        axes[axis].1[order][digit(axis)] * resolution.powi(order as i32)
                    };
                    (0..m).map(of).product()
                };
                let plain = weight(&|_| 0);
                let slope: Vec<f64> = (0..m).map(|d| weight(&|c| usize::from(c == d))).collect();
                for f in 0..FEATURES {
                    let entry = size * table[number + f].to_f64();
                    let at = column + level * FEATURES + f;
                    let bar = entry * value[at].to_f64();
                    *grad.s -= damping * plain * bar;
                    for d in 0..m {
                        grad.x[d] += slope[d] * bar;
                    }
                    for (j, row) in tangents.chunks_exact(stride).enumerate() {
                        let (e, e_s) = place.direction(j);
                        let bar = entry * row[at].to_f64();
                        let along: f64 = slope.iter().zip(e).map(|(slope, e)| slope * e).sum();
                        *grad.s -= damping * (along - damping * e_s * plain) * bar;
                        for d in 0..m {
                            let bent: f64 = (0..m)
                                .map(|c| {
                                    let order =
                                        |a: usize| usize::from(a == c) + usize::from(a == d);
                                    weight(&order) * e[c]
                                })
                                .sum();
                            grad.x[d] += (bent - damping * e_s * slope[d]) * bar;
                            grad.e[j * m + d] += slope[d] * bar;
                        }
                    }
                }
            }
        }
    }
}

impl<T: Real> Nodes<T> {
    fn new() -> Self {
        Self {
            count: 0,
            entry: [0; MAX_NODES],
            weight: [T::ZERO; MAX_NODES],
            slope: [[T::ZERO; MAX_NODES]; MAX_DIM],
        }
    }
}
