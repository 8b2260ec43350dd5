//! The forward pass of one shard, with and without what the reverse pass needs.

use super::core::Core;
use super::layer::{HiddenPanel, activate, activate_and_keep};
use super::matmul::{Line, panels};
use super::output::read_output;
use super::product::Operand;
use super::real::Real;
use super::shard::{Block, ShardInput, Stack};

/// Buffers of an evaluation; they grow to the largest shard seen and are then reused.
#[derive(Clone, Debug)]
pub(crate) struct EvalBuffers<T> {
    rows: Vec<T>,
    current: Vec<Line<T>>,
    next: Vec<Line<T>>,
    /// Sums of quadrants of the rows.
    sums: Vec<Line<T>>,
}

impl<T: Real> EvalBuffers<T> {
    pub(crate) fn new() -> Self {
        Self { rows: Vec::new(), current: Vec::new(), next: Vec::new(), sums: Vec::new() }
    }

    fn grow(&mut self, core: &Core<T>, input: &ShardInput<'_>) {
        let stack = input.stack();
        let lines = stack.lines(widest(core));
        grow(&mut self.rows, core.input_stride() * (1 + input.per_row), T::ZERO);
        grow(&mut self.current, lines, Line::ZERO);
        grow(&mut self.next, lines, Line::ZERO);
        grow(&mut self.sums, lines, Line::ZERO);
    }
}

/// Panels of the widest matrix of a pass.
pub(crate) fn widest<T: Real>(core: &Core<T>) -> usize {
    let config = &core.config;
    panels(config.input_width()).max(panels(config.width)).max(panels(config.ambient_dim))
}

/// Makes a buffer at least this long.
pub(crate) fn grow<U: Clone>(buffer: &mut Vec<U>, len: usize, fill: U) {
    if buffer.len() < len {
        buffer.resize(len, fill);
    }
}

/// Value and tangents of one shard.
pub(crate) fn evaluate<T: Real>(
    core: &Core<T>,
    input: &ShardInput<'_>,
    buffers: &mut EvalBuffers<T>,
    a: &mut [f64],
    jvp: &mut [f64],
) {
    buffers.grow(core, input);
    let EvalBuffers { rows, current, next, sums } = buffers;
    let stack = input.stack();
    let rows = &mut rows[..core.input_stride() * (1 + input.per_row)];
    core.fill_input(input, stack, rows, current);
    let last = core.packed.layers.len() - 1;
    for (l, layer) in core.packed.layers.iter().enumerate() {
        let operand = Operand::new(current, stack, &layer.forward, sums);
        operand.multiply(&layer.forward, next, |panel, z| {
            if l < last {
                let skip = (core.config.residual && l > 0).then(|| &current[stack.panel(panel)]);
                activate(core.config.activation, layer.bias(panel), input.rows(), z, skip);
            }
        });
        std::mem::swap(current, next);
    }
    let layer = &core.packed.layers[last];
    read_output(core.config.output_scale, layer, current, input, stack, a, jvp);
}

/// What one hidden layer keeps for the reverse pass.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept<T> {
    /// Outputs.
    pub(crate) h: Vec<Line<T>>,
    /// φ′ in the value rows, ż_j in the tangent rows; after the reverse pass the cotangents of the
    /// layer's product.
    pub(crate) z: Vec<Line<T>>,
    /// φ″ of the value rows; nothing without tangents.
    pub(crate) second: Vec<Line<T>>,
}

/// Buffers of a training pass over rows that one thread takes through the network.
#[derive(Clone, Debug)]
pub(crate) struct TrainBuffers<T> {
    pub(crate) rows: Vec<T>,
    pub(crate) input: Vec<Line<T>>,
    pub(crate) hidden: Vec<Kept<T>>,
    /// The last layer's product, then its cotangent.
    pub(crate) out: Vec<Line<T>>,
    /// Cotangents of a layer's inputs; in the end those of the first layer.
    pub(crate) bar: Vec<Line<T>>,
    /// Cotangents of a layer's outputs, kept for the residual connection.
    pub(crate) skip_bar: Vec<Line<T>>,
    /// Sums of quadrants of a product's left operand.
    pub(crate) sums: Vec<Line<T>>,
    pub(crate) a: Vec<f64>,
    pub(crate) jvp: Vec<f64>,
    pub(crate) a_bar: Vec<f64>,
    pub(crate) jvp_bar: Vec<f64>,
    pub(crate) losses: Vec<f64>,
    /// The gradient by x, s and e, where it is asked for.
    pub(crate) by_input: [Vec<f64>; 3],
}

impl<T: Real> TrainBuffers<T> {
    pub(crate) fn new(depth: usize) -> Self {
        let kept = Kept { h: Vec::new(), z: Vec::new(), second: Vec::new() };
        Self {
            rows: Vec::new(),
            input: Vec::new(),
            hidden: vec![kept; depth],
            out: Vec::new(),
            bar: Vec::new(),
            skip_bar: Vec::new(),
            sums: Vec::new(),
            a: Vec::new(),
            jvp: Vec::new(),
            a_bar: Vec::new(),
            jvp_bar: Vec::new(),
            losses: Vec::new(),
            by_input: [Vec::new(), Vec::new(), Vec::new()],
        }
    }

    pub(crate) fn grow(&mut self, core: &Core<T>, input: &ShardInput<'_>, stack: Stack) {
        let (n, k, m) = (input.rows(), input.per_row, input.dim);
        let hidden = panels(core.config.width);
        // Twice: the reverse pass gathers a row of inputs and one of cotangents.
        grow(&mut self.rows, 2 * core.input_stride() * (1 + k), T::ZERO);
        grow(&mut self.input, stack.lines(panels(core.config.input_width())), Line::ZERO);
        for kept in &mut self.hidden {
            grow(&mut kept.h, stack.lines(hidden), Line::ZERO);
            grow(&mut kept.z, stack.lines(hidden), Line::ZERO);
            grow(&mut kept.second, stack.bend_panel(hidden).start, Line::ZERO);
        }
        grow(&mut self.out, stack.lines(panels(m)), Line::ZERO);
        grow(&mut self.bar, stack.lines(widest(core)), Line::ZERO);
        if core.config.residual {
            grow(&mut self.skip_bar, stack.lines(hidden), Line::ZERO);
        }
        grow(&mut self.sums, stack.lines(widest(core)), Line::ZERO);
        grow(&mut self.losses, n, 0.0);
        grow(&mut self.a, n * m, 0.0);
        grow(&mut self.jvp, n * k * m, 0.0);
        grow(&mut self.a_bar, n * m, 0.0);
        grow(&mut self.jvp_bar, n * k * m, 0.0);
    }
}

/// The forward pass that fills `buffers` with everything the reverse pass reads.
pub(crate) fn forward_and_keep<T: Real>(
    core: &Core<T>,
    input: &ShardInput<'_>,
    stack: Stack,
    buffers: &mut TrainBuffers<T>,
) {
    let (n, k, m) = (input.rows(), input.per_row, input.dim);
    let rows = &mut buffers.rows[..core.input_stride() * (1 + k)];
    core.fill_input(input, stack, rows, &mut buffers.input);
    let sums = &mut buffers.sums;
    for l in 0..core.config.depth {
        let (before, after) = buffers.hidden.split_at_mut(l);
        let from = before.last().map_or(&buffers.input, |kept| &kept.h);
        hidden_layer(core, l, stack, from, sums, &mut after[0]);
    }
    let layer = &core.packed.layers[core.config.depth];
    let from = buffers.hidden.last().map_or(&buffers.input, |kept| &kept.h);
    let operand = Operand::new(from, stack, &layer.forward, sums);
    operand.multiply(&layer.forward, &mut buffers.out, |_, _| {});
    let (a, jvp) = (&mut buffers.a[..n * m], &mut buffers.jvp[..n * k * m]);
    read_output(core.config.output_scale, layer, &buffers.out, input, stack, a, jvp);
}

fn hidden_layer<T: Real>(
    core: &Core<T>,
    l: usize,
    stack: Stack,
    from: &[Line<T>],
    sums: &mut [Line<T>],
    kept: &mut Kept<T>,
) {
    let layer = &core.packed.layers[l];
    let residual = core.config.residual && l > 0;
    let Kept { h, z, second } = kept;
    let operand = Operand::new(from, stack, &layer.forward, sums);
    operand.multiply(&layer.forward, z, |panel, z| {
        let h = &mut h[stack.panel(panel)];
        let second = &mut second[stack.bend_panel(panel)];
        let skip = residual.then(|| &from[stack.panel(panel)]);
        for Block { rows, bends, .. } in stack.blocks() {
            let block = HiddenPanel {
                z: &mut z[rows.clone()],
                h: &mut h[rows.clone()],
                second: &mut second[bends],
                skip: skip.map(|skip| &skip[rows]),
            };
            activate_and_keep(core.config.activation, layer.bias(panel), block);
        }
    });
}
