//! Weights packed for the products: once per update, read by every shard.

use rayon::prelude::*;

use super::kernel::{LANES, Line, panels};
use super::params::ParamLayout;
use super::real::Real;

/// Both packings of one layer's weight W, inputs × outputs.
#[derive(Clone, Debug)]
pub(crate) struct PackedLayer<T> {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    /// Panels of W by 16 columns; line k of a panel is `W[k, 16p..]`.
    forward: Vec<Line<T>>,
    /// Panels of Wᵀ by 16 columns; line n of a panel is `W[16p.., n]`.
    backward: Vec<Line<T>>,
    /// The bias by panels.
    bias: Vec<Line<T>>,
}

impl<T: Real> PackedLayer<T> {
    fn new(inputs: usize, outputs: usize) -> Self {
        Self {
            inputs,
            outputs,
            forward: vec![Line::ZERO; panels(outputs) * inputs],
            backward: vec![Line::ZERO; panels(inputs) * outputs],
            bias: vec![Line::ZERO; panels(outputs)],
        }
    }

    /// The panel of W for output columns `16·panel..`.
    pub(crate) fn forward(&self, panel: usize) -> &[Line<T>] {
        &self.forward[panel * self.inputs..(panel + 1) * self.inputs]
    }

    /// The panel of Wᵀ for input columns `16·panel..`.
    pub(crate) fn backward(&self, panel: usize) -> &[Line<T>] {
        &self.backward[panel * self.outputs..(panel + 1) * self.outputs]
    }

    pub(crate) fn bias(&self, panel: usize) -> &Line<T> {
        &self.bias[panel]
    }

    fn pack(&mut self, weight: &[T], bias: &[T]) {
        let (inputs, outputs) = (self.inputs, self.outputs);
        for (line, bias) in self.bias.iter_mut().zip(bias.chunks(LANES)) {
            line.0[..bias.len()].copy_from_slice(bias);
        }
        self.forward.par_chunks_mut(inputs).enumerate().for_each(|(panel, lines)| {
            for (line, row) in lines.iter_mut().zip(weight.chunks_exact(outputs)) {
                let row = &row[panel * LANES..];
                // A whole line is copied in registers; a part of one needs a call.
                match row.first_chunk::<LANES>() {
                    Some(whole) => line.0 = *whole,
                    None => line.0[..row.len()].copy_from_slice(row),
                }
            }
        });
        self.backward.par_chunks_mut(outputs).enumerate().for_each(|(panel, lines)| {
            let rows = LANES.min(inputs - panel * LANES);
            transpose(&weight[panel * LANES * outputs..][..rows * outputs], lines);
        });
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
        for (l, layer) in self.layers.iter_mut().enumerate() {
            let (weight, bias) = layout.layer(l);
            layer.pack(&params[weight.range()], &params[bias.range()]);
        }
    }
}
