//! A hierarchy of cells over the centres: range searches for narrow kernels, and merged centres for
//! wide ones.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::space::Space;
use crate::linalg::distance;

/// A binary tree over points; nodes in depth-first order, so that the left child of node i is node
/// i + 1.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Points in the order of the leaves.
    order: Vec<u32>,
    /// Mean of each cell in metric coordinates.
    means: Vec<f64>,
}

/// A cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    /// Right child; 0 for a leaf, whose points all coincide.
    pub(super) right: u32,
    /// Its points are `order[start..end]`.
    start: u32,
    end: u32,
    /// Largest and root mean square distance of its points from their mean.
    radius: f64,
    pub(super) rms: f64,
    /// 2 log rms.
    pub(super) log_square: f64,
    /// A radius around the mean moved to the manifold that holds all of its points.
    pub(super) reach: f64,
    /// Logarithm of the number of its points.
    pub(super) log_mass: f64,
}

/// Every cell as one kernel: mass, mean and variance of its points.
#[derive(Clone, Debug)]
pub(super) struct CellWeights {
    /// Internal coordinates of the mean.
    pub(super) inner: Vec<f64>,
    /// Number of points.
    pub(super) mass: Vec<f64>,
    /// Variance per dimension.
    pub(super) variance: Vec<f64>,
    /// Points in all.
    pub(super) total: f64,
    /// Where centres have weights of their own, the sums of these over each cell, cells ×
    /// bandwidths.
    local: Vec<f64>,
    bandwidths: usize,
}

impl CellWeights {
    /// Number of a cell's points, or their weight in a bandwidth.
    #[inline]
    pub(super) fn mass_of(&self, cell: usize, band: usize) -> f64 {
        if self.local.is_empty() {
            self.mass[cell]
        } else {
            self.local[cell * self.bandwidths + band]
        }
    }
}

/// A distance that can be compared.
#[derive(Clone, Copy, PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Node {
    pub(super) fn is_leaf(&self) -> bool {
        self.right == 0
    }
}

impl Tree {
    /// The tree of points in [`Space::metric`] coordinates, split in the middle of the longest
    /// side.
    pub(super) fn new(space: &Space, metric: &[f64]) -> Self {
        let width = space.metric_width();
        let n = metric.len() / width;
        let (mut inner, mut moved) = (vec![0.0; space.width], Vec::with_capacity(width));
        let mut order: Vec<u32> = (0..n as u32).collect();
        let mut nodes: Vec<Node> = Vec::with_capacity(2 * n);
        let mut means = Vec::with_capacity(2 * n * width);
        // (start, end, the parent whose right child it is)
        let mut open = vec![(0, n, None)];
        while let Some((start, end, parent)) = open.pop() {
            let index = nodes.len();
            if let Some(parent) = parent {
                let parent: &mut Node = &mut nodes[parent];
                parent.right = index as u32;
            }
            let points = &mut order[start..end];
            let row = |i: u32| &metric[i as usize * width..(i as usize + 1) * width];
            let mut mean = vec![0.0; width];
            let mut low = vec![f64::INFINITY; width];
            let mut high = vec![f64::NEG_INFINITY; width];
            for &i in points.iter() {
                for (j, &v) in row(i).iter().enumerate() {
                    mean[j] += v;
                    low[j] = low[j].min(v);
                    high[j] = high[j].max(v);
                }
            }
            for mean in &mut mean {
                *mean /= points.len() as f64;
            }
            let (mut radius, mut squares) = (0.0f64, 0.0);
            for &i in points.iter() {
                let r = distance(row(i), &mean);
                radius = radius.max(r);
                squares += r * r;
            }
            let mut axis = 0;
            for j in 1..width {
                if high[j] - low[j] > high[axis] - low[axis] {
                    axis = j;
                }
            }
            let leaf = !(high[axis] > low[axis]);
            let rms = if leaf { 0.0 } else { (squares / points.len() as f64).sqrt() };
            let radius = if leaf { 0.0 } else { radius };
            space.locate_metric(&mean, &mut inner);
            moved.clear();
            space.metric(&inner, &mut moved);
            let reach = radius + distance(&moved, &mean);
            means.extend_from_slice(&mean);
            let log_mass = (points.len() as f64).ln();
            nodes.push(Node {
                right: 0,
                start: start as u32,
                end: end as u32,
                radius,
                rms,
                log_square: 2.0 * rms.ln(),
                reach,
                log_mass,
            });
            if leaf {
                continue;
            }
            // Rounding may put the middle on the upper end, which must not empty the right side.
            let middle = low[axis] + 0.5 * (high[axis] - low[axis]);
            let is_left = |i: u32| row(i)[axis] <= middle && row(i)[axis] < high[axis];
            points.sort_by_key(|&i| !is_left(i));
            let split = start + points.partition_point(|&i| is_left(i));
            open.push((split, end, Some(index)));
            open.push((start, split, None));
        }
        Self { nodes, order, means }
    }

    /// Mean and variance of every cell; `local` are the points' own weights, points × bandwidths.
    /// Means and variances count every point alike: weights vary little within cells that are small
    /// enough to be merged.
    pub(super) fn cell_weights(
        &self,
        space: &Space,
        metric: &[f64],
        local: Option<&[f64]>,
    ) -> CellWeights {
        let width = space.metric_width();
        let count = self.nodes.len();
        let mut mean = vec![0.0; count * width];
        let mut mass = vec![0.0; count];
        let mut squares = vec![0.0; count];
        for index in (0..count).rev() {
            let node = &self.nodes[index];
            if node.is_leaf() {
                let points = &self.order[node.start as usize..node.end as usize];
                mass[index] = points.len() as f64;
                let first = points[0] as usize * width;
                mean[index * width..(index + 1) * width]
                    .copy_from_slice(&metric[first..first + width]);
                continue;
            }
            let (left, right) = (index + 1, node.right as usize);
            let total = mass[left] + mass[right];
            mass[index] = total;
            let share = mass[right] / total;
            let mut apart = 0.0;
            for j in 0..width {
                let (a, b) = (mean[left * width + j], mean[right * width + j]);
                mean[index * width + j] = a + share * (b - a);
                apart += (b - a) * (b - a);
            }
            squares[index] = squares[left] + squares[right] + mass[left] * share * apart;
        }
        let mut inner = vec![0.0; count * space.width];
        for (metric, inner) in mean.chunks_exact(width).zip(inner.chunks_exact_mut(space.width)) {
            space.locate_metric(metric, inner);
        }
        let variance = squares
            .iter()
            .zip(&mass)
            .map(|(squares, mass)| squares / mass / space.dim as f64)
            .collect();
        let bandwidths = local.map_or(0, |local| local.len() * width / metric.len());
        let local = local.map_or_else(Vec::new, |local| self.summed(local, bandwidths));
        CellWeights { inner, total: mass[0], mass, variance, local, bandwidths }
    }

    /// The sums of points' weights over each cell.
    fn summed(&self, local: &[f64], columns: usize) -> Vec<f64> {
        let mut sums = vec![0.0; self.nodes.len() * columns];
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let (head, tail) = sums.split_at_mut((index + 1) * columns);
            let own = &mut head[index * columns..];
            if node.is_leaf() {
                for &i in &self.order[node.start as usize..node.end as usize] {
                    let weights = &local[i as usize * columns..(i as usize + 1) * columns];
                    crate::linalg::axpy(1.0, weights, own);
                }
            } else {
                let right = (node.right as usize - index - 1) * columns;
                for k in 0..columns {
                    own[k] = tail[k] + tail[right + k];
                }
            }
        }
        sums
    }

    /// The `count` points nearest to point `i` (itself among them) of those that `keep` takes, in
    /// metric coordinates; fewer if there are not so many.
    pub(super) fn neighbours(
        &self,
        metric: &[f64],
        width: usize,
        i: usize,
        count: usize,
        keep: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let x = &metric[i * width..(i + 1) * width];
        // Distances with their points, the farthest first.
        let mut found: BinaryHeap<(Ordered, u32)> = BinaryHeap::with_capacity(count + 1);
        let apart = |index: u32| {
            let at = index as usize * width;
            let radius = self.nodes[index as usize].radius;
            (distance(x, &self.means[at..at + width]) - radius).max(0.0)
        };
        let mut open = vec![(0u32, apart(0))];
        while let Some((index, distance)) = open.pop() {
            let full = found.len() == count;
            if full && found.peek().is_some_and(|(farthest, _)| distance >= farthest.0) {
                continue;
            }
            let node = &self.nodes[index as usize];
            if node.is_leaf() {
                for &j in &self.order[node.start as usize..node.end as usize] {
                    if keep(j as usize) {
                        found.push((Ordered(distance), j));
                        if found.len() > count {
                            found.pop();
                        }
                    }
                }
                continue;
            }
            let mut children = [(index + 1, apart(index + 1)), (node.right, apart(node.right))];
            // The nearer child is searched first.
            children.sort_by(|a, b| b.1.total_cmp(&a.1));
            open.extend(children);
        }
        found.into_iter().map(|(_, j)| j as usize).collect()
    }

    /// Squared distance from point `i` to the nearest other point, in metric coordinates.
    pub(super) fn nearest2(&self, metric: &[f64], width: usize, i: usize) -> f64 {
        self.nearest_leaf(&metric[i * width..(i + 1) * width], |points, apart| {
            let own = points.iter().any(|&j| j as usize == i);
            (points.len() > usize::from(own)).then_some(apart * apart)
        })
    }

    /// Squared distance from point `i` to the nearest one that is farther than `coincident`
    /// (squared).
    pub(super) fn nearest_distinct2(
        &self,
        metric: &[f64],
        width: usize,
        i: usize,
        coincident: f64,
    ) -> f64 {
        let x = &metric[i * width..(i + 1) * width];
        self.nearest_leaf(x, |points, _| {
            // From the point itself: a mean of equal numbers may be off by a rounding.
            let at = points[0] as usize * width;
            let y = &metric[at..at + width];
            let square = x.iter().zip(y).map(|(x, y)| (x - y) * (x - y)).sum::<f64>();
            (square > coincident).then_some(square)
        })
    }

    /// The least of what `leaf` makes of the leaves' points and their distance to x; it must not be
    /// less than the square of that. Infinite if it takes none of them.
    fn nearest_leaf(&self, x: &[f64], leaf: impl Fn(&[u32], f64) -> Option<f64>) -> f64 {
        let (means, width) = (&self.means, x.len());
        let mut best = f64::INFINITY;
        let mut open = vec![0u32];
        while let Some(index) = open.pop() {
            let node = &self.nodes[index as usize];
            let at = index as usize * width;
            let apart = (distance(x, &means[at..at + width]) - node.radius).max(0.0);
            if apart * apart >= best {
                continue;
            }
            if node.is_leaf() {
                let points = &self.order[node.start as usize..node.end as usize];
                best = leaf(points, apart).map_or(best, |found| found.min(best));
                continue;
            }
            let (left, right) = (index + 1, node.right);
            let to = |child: u32| {
                let at = child as usize * width;
                distance(x, &means[at..at + width]) - self.nodes[child as usize].radius
            };
            // The nearer child is searched first.
            if to(left) < to(right) {
                open.extend([right, left]);
            } else {
                open.extend([left, right]);
            }
        }
        best
    }
}
