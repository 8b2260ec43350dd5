//! Weights packed for the products: once per update, read by every shard.

use rayon::prelude::*;

use super::matmul::{LANES, Line, WeightPanels, panels, weight_sums};
use super::params::ParamLayout;
use super::real::Real;

/// The smallest sides of a weight that is multiplied by Strassen–Winograd: below, the sums cost
/// more than the eighth product.
const STRASSEN_SIDE: usize = 192;

/// A matrix, depth × columns, in panels of 16 columns with a line per unit of depth.
#[derive(Clone, Debug)]
pub(crate) struct PackedMatrix<T> {
    pub(crate) depth: usize,
    pub(crate) columns: usize,
    lines: Vec<Line<T>>,
    /// For each panel of the first half of the columns the sums of quadrants for Strassen–Winograd;
    /// empty if the matrix is multiplied plainly.
    sums: Vec<Line<T>>,
}

impl<T: Real> PackedMatrix<T> {
    fn new(depth: usize, columns: usize) -> Self {
        let lines = vec![Line::ZERO; panels(columns) * depth];
        let whole = |side: usize| side >= STRASSEN_SIDE && side.is_multiple_of(2 * LANES);
        let strassen = whole(depth) && whole(columns);
        let sums = if strassen { lines.clone() } else { Vec::new() };
        Self { depth, columns, lines, sums }
    }

    pub(crate) fn panels(&self) -> usize {
        panels(self.columns)
    }

    /// Whether it is multiplied by Strassen–Winograd.
    pub(crate) fn is_strassen(&self) -> bool {
        !self.sums.is_empty()
    }

    /// The panel of columns `16·panel..`.
    pub(crate) fn panel(&self, panel: usize) -> &[Line<T>] {
        &self.lines[panel * self.depth..(panel + 1) * self.depth]
    }

    /// A panel of the first half of the columns with its partner in the second.
    pub(crate) fn panel_pair(&self, panel: usize) -> WeightPanels<'_, T> {
        let size = 2 * self.depth;
        WeightPanels {
            first: self.panel(panel),
            second: self.panel(panel + self.panels() / 2),
            sums: &self.sums[panel * size..(panel + 1) * size],
        }
    }

    /// Writes all panels, then their sums.
    fn fill(&mut self, write: impl Fn(usize, &mut [Line<T>]) + Sync) {
        let (depth, half) = (self.depth, self.panels() / 2);
        if !self.is_strassen() {
            let panels = self.lines.par_chunks_mut(depth).enumerate();
            panels.for_each(|(panel, lines)| write(panel, lines));
            return;
        }
        let (first, second) = self.lines.split_at_mut(half * depth);
        let pairs = first.par_chunks_mut(depth).zip(second.par_chunks_mut(depth));
        pairs.zip(self.sums.par_chunks_mut(2 * depth)).enumerate().for_each(
            |(panel, ((first, second), sums))| {
                write(panel, first);
                write(panel + half, second);
                weight_sums(first, second, sums);
            },
        );
    }
}

/// Both packings of one layer's weight W, inputs × outputs.
#[derive(Clone, Debug)]
pub(crate) struct PackedLayer<T> {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// W.
    pub(crate) forward: PackedMatrix<T>,
    /// Wᵀ.
    pub(crate) backward: PackedMatrix<T>,
    /// The bias by panels.
    bias: Vec<Line<T>>,
}

impl<T: Real> PackedLayer<T> {
    fn new(inputs: usize, outputs: usize) -> Self {
        Self {
            inputs,
            outputs,
            forward: PackedMatrix::new(inputs, outputs),
            backward: PackedMatrix::new(outputs, inputs),
            bias: vec![Line::ZERO; panels(outputs)],
        }
    }

    pub(crate) fn bias(&self, panel: usize) -> &Line<T> {
        &self.bias[panel]
    }

    fn pack(&mut self, weight: &[T], bias: &[T]) {
        let (inputs, outputs) = (self.inputs, self.outputs);
        for (line, bias) in self.bias.iter_mut().zip(bias.chunks(LANES)) {
            line.0[..bias.len()].copy_from_slice(bias);
        }
        let forward = |panel: usize, lines: &mut [Line<T>]| {
            for (line, row) in lines.iter_mut().zip(weight.chunks_exact(outputs)) {
                let row = &row[panel * LANES..];
                // A whole line is copied in registers; a part of one needs a call.
                match row.first_chunk::<LANES>() {
                    Some(whole) => line.0 = *whole,
                    None => line.0[..row.len()].copy_from_slice(row),
                }
            }
        };
        let backward = |panel: usize, lines: &mut [Line<T>]| {
            let rows = LANES.min(inputs - panel * LANES);
            transpose(&weight[panel * LANES * outputs..][..rows * outputs], lines);
        };
        rayon::join(|| self.forward.fill(forward), || self.backward.fill(backward));
    }
}

/// `lines[n][l] ← rows[l][n]`, in blocks that stay in the cache; rows are as long as `lines`.
fn transpose<T: Real>(rows: &[T], lines: &mut [Line<T>]) {
    let length = lines.len();
    for (block, lines) in lines.chunks_mut(LANES).enumerate() {
        for (l, row) in rows.chunks_exact(length).enumerate() {
            for (line, w) in lines.iter_mut().zip(&row[block * LANES..]) {
                line.0[l] = *w;
            }
        }
    }
}

/// All layers, in order.
#[derive(Clone, Debug)]
pub(crate) struct Packed<T> {
    pub(crate) layers: Vec<PackedLayer<T>>,
}

impl<T: Real> Packed<T> {
    pub(crate) fn new(layout: &ParamLayout, params: &[T]) -> Self {
        let shapes = (0..layout.layers()).map(|l| layout.layer(l).0.shape);
        let layers = shapes.map(|[inputs, outputs]| PackedLayer::new(inputs, outputs)).collect();
        let mut packed = Self { layers };
        packed.update(layout, params);
        packed
    }

    /// Packs new parameters in place.
    pub(crate) fn update(&mut self, layout: &ParamLayout, params: &[T]) {
        self.layers.par_iter_mut().enumerate().for_each(|(l, layer)| {
            let (weight, bias) = layout.layer(l);
            layer.pack(&params[weight.range()], &params[bias.range()]);
        });
    }
}
