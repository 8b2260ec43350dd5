//! The mixture where the heat kernel is known.

use super::space::Space;
use super::sum::{Accuracy, Centres, Kernels, Workspace};
use super::tree::{CellWeights, Tree};
use crate::error::SolveError;
use crate::manifold::Manifold;
use crate::parallel;
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::Rows;

/// Rows that one thread takes at a time.
const CHUNK: usize = 16;
/// Cells that are merged when bandwidths are weighted, in standard deviations.
const FIT_MERGE: f64 = 0.08;
/// Points whose nearest neighbours tell the data's resolution.
const RESOLUTION_POINTS: usize = 5000;

/// Centres in internal coordinates, with their tree.
#[derive(Clone, Debug)]
pub(super) struct Heat {
    pub(super) space: Space,
    pub(super) tree: Tree,
    pub(super) weights: CellWeights,
    /// The centres in the tree's coordinates.
    pub(super) metric: Vec<f64>,
}

impl Heat {
    pub(super) fn new(
        manifold: &dyn Manifold,
        prior: &dyn Prior,
        centres: Rows<'_>,
    ) -> Result<Self, SolveError> {
        let space = Space::new(manifold, prior)?;
        let width = space.metric_width();
        let mut metric = Vec::with_capacity(centres.len() * width);
        let mut inner = vec![0.0; space.width];
        for x in centres.rows() {
            space.locate(x, &mut inner);
            space.metric(&inner, &mut metric);
        }
        let tree = Tree::new(&space, &metric);
        let weights = tree.cell_weights(&space, &metric, None);
        Ok(Self { space, tree, weights, metric })
    }

    /// The same centres with weights of their own, centres × bandwidths.
    pub(super) fn with_weights(&self, local: &[f64]) -> Self {
        let weights = self.tree.cell_weights(&self.space, &self.metric, Some(local));
        Self { weights, ..self.clone() }
    }

    pub(super) fn centres(&self) -> Centres<'_> {
        Centres { space: &self.space, tree: &self.tree, weights: &self.weights }
    }

    /// Root mean square deviation of the coordinates on ℝ^d from their mean; `None` on other
    /// spaces, which have a scale of their own.
    pub(super) fn spread(&self) -> Option<f64> {
        use super::space::Shape;
        let flat = |shape| matches!(shape, Shape::Flat { .. });
        let spread = self.tree.nodes[0].rms / (self.space.dim as f64).sqrt();
        self.space.blocks.iter().all(|b| flat(b.shape)).then_some(spread)
    }

    /// A quarter of the first percentile of nearest-neighbour distances; `None` if points coincide.
    pub(super) fn resolution(&self, seed: u64) -> Option<f64> {
        let width = self.space.metric_width();
        let n = self.metric.len() / width;
        let leaves = self.tree.nodes.iter().filter(|node| node.is_leaf()).count();
        if leaves < n {
            return None;
        }
        let streams = Streams::new(seed, "mixture-resolution");
        let mut nearest: Vec<f64> = (0..n.min(RESOLUTION_POINTS))
            .map(|i| {
                let pick = if n <= RESOLUTION_POINTS {
                    i
                } else {
                    ((streams.stream(i as u64, 0).uniform() * n as f64) as usize).min(n - 1)
                };
                self.tree.nearest2(&self.metric, width, pick).sqrt()
            })
            .collect();
        nearest.sort_by(f64::total_cmp);
        Some(0.25 * nearest[nearest.len() / 100])
    }

    /// log of the prior's density and of every bandwidth's leave-one-out density at the judges, n ×
    /// (1 + bandwidths); with the centres' own weights in it where they have any (`local`).
    pub(super) fn leave_one_out(
        &self,
        prior: &dyn Prior,
        centres: Rows<'_>,
        bandwidths: &[f64],
        local: Option<&[f64]>,
        judges: &[usize],
    ) -> Result<Vec<f64>, SolveError> {
        let squares: Vec<f64> = bandwidths.iter().map(|b| b * b).collect();
        let accuracy = Accuracy::merged(self.space.dim, FIT_MERGE);
        let ones = vec![1.0; squares.len()];
        let kernels = Kernels::new(&self.space, accuracy, &squares, &ones, 1.0, local);
        let noised = kernels.at(&self.space, 0.0);
        let columns = 1 + squares.len();
        let mut out = vec![0.0; judges.len() * columns];
        parallel::for_each_chunk(&mut out, columns, CHUNK, |first, chunk| {
            let mut work = Workspace::default();
            for (i, out) in chunk.chunks_exact_mut(columns).enumerate() {
                let judge = judges[first + i];
                let x = centres.row(judge);
                work.x.resize(self.space.width, 0.0);
                self.space.locate(x, &mut work.x);
                out[0] = prior.log_density(x);
                let own = local
                    .map(|local| &local[judge * bandwidths.len()..(judge + 1) * bandwidths.len()]);
                noised.leave_one_out(self.centres(), own, &mut work, &mut out[1..]);
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// log p of every row after noise for time s, every centre by itself.
    pub(super) fn log_density(
        &self,
        prior: &dyn Prior,
        kernels: &Kernels,
        x: Rows<'_>,
        s: f64,
    ) -> Result<Vec<f64>, SolveError> {
        let noised = kernels.at(&self.space, s);
        let mut out = vec![0.0; x.len()];
        parallel::for_each_chunk(&mut out, 1, CHUNK, |first, chunk| {
            let mut work = Workspace::default();
            for (i, out) in chunk.iter_mut().enumerate() {
                let x = x.row(first + i);
                work.x.resize(self.space.width, 0.0);
                self.space.locate(x, &mut work.x);
                *out = noised.log_density(self.centres(), prior, x, &mut work);
            }
            Ok(())
        })?;
        Ok(out)
    }
}

/// All rows, or a random choice of `most` without repetition if there are more.
pub fn random_choice(n: usize, most: usize, seed: u64) -> Vec<usize> {
    if n <= most {
        return (0..n).collect();
    }
    let streams = Streams::new(seed, "mixture-judges");
    let mut keyed: Vec<(f64, usize)> =
        (0..n).map(|row| (streams.stream(row as u64, 0).uniform(), row)).collect();
    let by_key = |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0);
    keyed.select_nth_unstable_by(most, by_key);
    keyed.truncate(most);
    keyed.sort_by(by_key);
    keyed.into_iter().map(|(_, row)| row).collect()
}
