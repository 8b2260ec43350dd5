//! The gradient of all parameters from the activations and cotangents of rows.
//!
//! Threads that work on the same shards share it by parameters, not by rows: each entry is the sum
//! over the rows of a shard, in order, and then over shards, whoever forms it.

use smallvec::SmallVec;
use std::ops::Range;

use super::backward::{gather, scale_cotangents};
use super::core::Core;
use super::forward::{TrainBuffers, grow};
use super::matmul::{LANES, Line, add_columns, panels};
use super::product::{HalvedColumns, Operand};
use super::real::Real;
use super::shard::{ShardInput, Stack};
use super::support::{Gradient, forget};
use super::task::{RowTask, Shard};

/// What one thread needs beside the rows.
#[derive(Clone, Debug)]
pub(crate) struct Scratch<T> {
    /// Matrices of a shard that was cut into several tasks.
    joined: [Vec<Line<T>>; 2],
    /// Sums of quadrants of h and z.
    pub(crate) sums: [Vec<Line<T>>; 2],
    rows: Vec<T>,
}

impl<T: Real> Scratch<T> {
    pub(crate) fn new() -> Self {
        let none = || [Vec::new(), Vec::new()];
        Self { joined: none(), sums: none(), rows: Vec::new() }
    }
}

/// What all threads read: rows that were taken forward and back.
#[derive(Clone, Copy)]
pub(crate) struct Activations<'a, T> {
    pub(crate) core: &'a Core<T>,
    pub(crate) input: &'a ShardInput<'a>,
    pub(crate) shards: &'a [Shard],
    pub(crate) tasks: &'a [RowTask<T>],
}

/// Adds the gradient of these rows to `grad`, or overwrites it if `fresh`; on as many threads as
/// there is scratch.
pub(crate) fn add_parameter_gradient<T: Real>(
    rows: Activations<'_, T>,
    grad: &mut Gradient<T>,
    fresh: bool,
    scratch: &mut [Scratch<T>],
) {
    run(rows, Parts::all(rows.core, grad), fresh, scratch);
}

/// The same for what is not a layer: ActNorm and the tables of grids.
pub(crate) fn add_input_gradient<T: Real>(
    rows: Activations<'_, T>,
    grad: &mut Gradient<T>,
    fresh: bool,
    scratch: &mut Scratch<T>,
) {
    for part in Parts::all(rows.core, grad).0 {
        if !matches!(part, Part::Layer(_)) {
            part.add(rows, fresh, scratch);
        }
    }
}

fn run<T: Real>(
    rows: Activations<'_, T>,
    parts: Parts<'_, T>,
    fresh: bool,
    scratch: &mut [Scratch<T>],
) {
    if let [scratch] = scratch {
        for part in parts.0 {
            part.add(rows, fresh, scratch);
        }
        return;
    }
    let (left, right) = scratch.split_at_mut(scratch.len() / 2);
    let share = left.len() as f64 / (left.len() + right.len()) as f64;
    let (first, second) = parts.split(rows, share);
    rayon::join(|| run(rows, first, fresh, left), || run(rows, second, fresh, right));
}

/// Parameters whose gradient one thread forms.
enum Part<'a, T> {
    Layer(LayerPart<'a, T>),
    /// Shift and log-scale.
    ActNorm(&'a mut [T]),
    Tables(TablesPart<'a, T>),
}

/// Tables of the levels from `first` on.
struct TablesPart<'a, T> {
    first: usize,
    numbers: &'a mut [T],
    /// A bit for each entry that rows have met.
    met: &'a mut [u64],
}

/// Rows of a layer's weight, and its bias beside the first of them.
struct LayerPart<'a, T> {
    layer: usize,
    /// Panels of inputs, of the first half if there are two.
    panels: Range<usize>,
    /// The rows of these panels, and of as many in the second half if the layer is multiplied by
    /// Strassen–Winograd.
    weight: [&'a mut [T]; 2],
    bias: &'a mut [T],
}

/// Parts in the order of the parameters. Deeper networks than usual need an allocation.
struct Parts<'a, T>(SmallVec<[Part<'a, T>; 12]>);

impl<'a, T: Real> Parts<'a, T> {
    fn all(core: &Core<T>, grad: &'a mut Gradient<T>) -> Self {
        let mut parts = SmallVec::new();
        let Gradient { values, support } = grad;
        let mut rest = &mut values[..];
        let mut take = |len: usize| rest.split_off_mut(..len).unwrap_or_default();
        if let Some((shift, log_scale)) = core.layout.actnorm() {
            parts.push(Part::ActNorm(take(shift.len() + log_scale.len())));
        }
        for (layer, packed) in core.packed.layers.iter().enumerate() {
            let (weight, bias) = core.layout.layer(layer);
            let count = panels(packed.inputs);
            let (panels, first) = if packed.backward.is_strassen() {
                (0..count / 2, weight.len() / 2)
            } else {
                (0..count, weight.len())
            };
            let weight = [take(first), take(weight.len() - first)];
            parts.push(Part::Layer(LayerPart { layer, panels, weight, bias: take(bias.len()) }));
        }
        if !core.layout.grid().is_empty() {
            let numbers = take(core.layout.grid().len());
            parts.push(Part::Tables(TablesPart { first: 0, numbers, met: support.met_mut() }));
        }
        Self(parts)
    }

    /// Two parts, of which the first has about this share of the work.
    fn split(self, rows: Activations<'_, T>, share: f64) -> (Self, Self) {
        let cost = |part: &Part<'_, T>| part.units(rows.core) as f64 * part.unit_cost(rows);
        let mut left = share * self.0.iter().map(cost).sum::<f64>();
        let (mut before, mut after) = (SmallVec::new(), SmallVec::new());
        for part in self.0 {
            let units = part.units(rows.core);
            let taken = (left / part.unit_cost(rows)).round().clamp(0.0, units as f64) as usize;
            left -= taken as f64 * part.unit_cost(rows);
            match taken {
                0 => after.push(part),
                taken if taken == units => before.push(part),
                taken => {
                    let (first, second) = part.split(rows.core, taken);
                    before.push(first);
                    after.push(second);
                }
            }
        }
        (Self(before), Self(after))
    }
}

impl<T: Real> Part<'_, T> {
    /// Units that can be separated.
    fn units(&self, core: &Core<T>) -> usize {
        match self {
            Self::Layer(part) => part.panels.len(),
            Self::ActNorm(_) => 1,
            Self::Tables(part) => part.numbers.len() / core.features.table_levels().1,
        }
    }

    /// The work of a unit for one point, in multiply-adds of a matrix product.
    fn unit_cost(&self, rows: Activations<'_, T>) -> f64 {
        /// Sums of single numbers take about as long as so many in a product.
        const SCALAR: usize = 16;
        let (core, stacked) = (rows.core, 1 + rows.input.per_row);
        let cost = match self {
            Self::Layer(part) => {
                let halves = if part.weight[1].is_empty() { 1 } else { 2 };
                stacked * halves * LANES * core.packed.layers[part.layer].outputs
            }
            Self::ActNorm(numbers) => stacked * numbers.len(),
            Self::Tables(_) => stacked * 4 * SCALAR * 3usize.pow(rows.input.dim as u32),
        };
        cost as f64
    }

    fn split(self, core: &Core<T>, units: usize) -> (Self, Self) {
        match self {
            Self::ActNorm(_) => unreachable!("one unit"),
            Self::Tables(TablesPart { first, numbers, met }) => {
                let levels = numbers.len() / core.features.table_levels().1;
                let (met_low, met_high) = met.split_at_mut(units * met.len() / levels);
                let (low, high) = numbers.split_at_mut(units * core.features.table_levels().1);
                (
                    Self::Tables(TablesPart { first, numbers: low, met: met_low }),
                    Self::Tables(TablesPart { first: first + units, numbers: high, met: met_high }),
                )
            }
            Self::Layer(LayerPart { layer, panels, weight, bias }) => {
                let cut = units * LANES * core.packed.layers[layer].outputs;
                let [top, bottom] = weight;
                let (t0, t1) = top.split_at_mut(cut);
                let (b0, b1) = bottom.split_at_mut(cut.min(bottom.len()));
                let middle = panels.start + units;
                let before =
                    LayerPart { layer, panels: panels.start..middle, weight: [t0, b0], bias };
                let after = LayerPart {
                    layer,
                    panels: middle..panels.end,
                    weight: [t1, b1],
                    bias: &mut [],
                };
                (Self::Layer(before), Self::Layer(after))
            }
        }
    }

    fn add(self, rows: Activations<'_, T>, fresh: bool, scratch: &mut Scratch<T>) {
        match self {
            Self::Layer(mut part) => {
                for (i, shard) in rows.shards.iter().enumerate() {
                    part.add(rows, shard, fresh && i == 0, scratch);
                }
            }
            Self::ActNorm(numbers) => {
                if fresh {
                    numbers.fill(T::ZERO);
                }
                for shard in rows.shards {
                    add_actnorm(rows, shard, numbers, &mut scratch.rows);
                }
            }
            Self::Tables(mut part) => {
                if fresh {
                    forget(part.numbers, part.met);
                }
                for shard in rows.shards {
                    part.add(rows, shard, &mut scratch.rows);
                }
            }
        }
    }
}

impl<T: Real> LayerPart<'_, T> {
    fn add(
        &mut self,
        rows: Activations<'_, T>,
        shard: &Shard,
        fresh: bool,
        scratch: &mut Scratch<T>,
    ) {
        let (layer, stack) = (self.layer, shard.stack);
        let packed = &rows.core.packed.layers[layer];
        let tasks = &rows.tasks[shard.tasks.clone()];
        let strassen = packed.backward.is_strassen();
        let half = self.panels.len();
        for sums in &mut scratch.sums {
            let widest = panels(packed.inputs).max(panels(packed.outputs));
            grow(sums, stack.lines(if strassen { widest } else { 0 }), Line::ZERO);
        }
        let second = panels(packed.inputs) / 2;
        let [h_joined, z_joined] = &mut scratch.joined;
        let (h, z) = if let [task] = tasks {
            let h = &inputs(&task.buffers, layer)[stack.lines(self.panels.start)..];
            (HalvedColumns { lines: h, half, second }, cotangents(&task.buffers, layer))
        } else {
            let outputs = panels(packed.outputs);
            grow(h_joined, stack.lines(2 * half), Line::ZERO);
            grow(z_joined, stack.lines(outputs), Line::ZERO);
            let bottom =
                if strassen { second + self.panels.start..second + self.panels.end } else { 0..0 };
            let wanted = self.panels.clone().chain(bottom);
            join(tasks, |buffers| inputs(buffers, layer), wanted, stack, h_joined);
            join(tasks, |buffers| cotangents(buffers, layer), 0..outputs, stack, z_joined);
            (HalvedColumns { lines: h_joined, half, second: half }, &z_joined[..])
        };
        let [top, bottom] = &mut self.weight;
        let weight = [&mut **top, &mut **bottom];
        let [h_sums, z_sums] = &mut scratch.sums;
        let operand = Operand::new(z, stack, &packed.backward, z_sums);
        operand.add_gradient(h, h_sums, weight, fresh);
        let rows = tasks.iter().map(|task| (task.stack, cotangents(&task.buffers, layer)));
        add_bias(&rows, self.bias, fresh);
    }
}

/// The inputs of a layer.
fn inputs<T>(buffers: &TrainBuffers<T>, layer: usize) -> &[Line<T>] {
    if layer == 0 { &buffers.input } else { &buffers.hidden[layer - 1].h }
}

/// The cotangents of a layer's product.
fn cotangents<T>(buffers: &TrainBuffers<T>, layer: usize) -> &[Line<T>] {
    buffers.hidden.get(layer).map_or(&buffers.out, |kept| &kept.z)
}

/// Panels of a shard's matrix from those of its tasks.
fn join<'a, T: Real>(
    tasks: &'a [RowTask<T>],
    matrix: impl Fn(&'a TrainBuffers<T>) -> &'a [Line<T>],
    panels: impl Iterator<Item = usize>,
    stack: Stack,
    to: &mut [Line<T>],
) {
    for (panel, to) in panels.zip(to.chunks_exact_mut(stack.rows())) {
        let mut to = to;
        for run in 0..stack.runs() {
            for task in tasks {
                let from = &matrix(&task.buffers)[task.stack.panel(panel)];
                let n = task.stack.block_points();
                let (lines, rest) = to.split_at_mut(n);
                lines.copy_from_slice(&from[run * n..(run + 1) * n]);
                to = rest;
            }
        }
    }
}

/// `g ← [g] + Σ_r z[r, ·]` over the value rows of a shard that was cut into tasks, first those of
/// the first blocks, then those of the second.
fn add_bias<'a, T: Real>(
    tasks: &(impl Iterator<Item = (Stack, &'a [Line<T>])> + Clone),
    g: &mut [T],
    fresh: bool,
) {
    for (q, target) in g.chunks_mut(LANES).enumerate() {
        let mut sums = [Line::ZERO; 2];
        let mut blocks = 0;
        for (stack, lines) in tasks.clone() {
            blocks = stack.block_count();
            for (sum, block) in sums.iter_mut().zip(stack.blocks()) {
                add_columns(sum, &lines[stack.panel(q)][block.values]);
            }
        }
        for (block, sum) in sums[..blocks].iter().enumerate() {
            for (g, sum) in target.iter_mut().zip(sum.0) {
                *g = if fresh && block == 0 { sum } else { *g + sum };
            }
        }
    }
}

/// The gradient of layers on the way of a reverse pass, by the thread that has all rows of a shard:
/// what [`add_parameter_gradient`] does of the layers, while cotangents are in the cache.
pub(crate) struct LayerGradients<'a, T> {
    pub(crate) grad: &'a mut [T],
    pub(crate) fresh: bool,
    /// For the sums of quadrants of a layer's inputs.
    pub(crate) sums: &'a mut Vec<Line<T>>,
}

impl<T: Real> LayerGradients<'_, T> {
    /// Adds that of layer `l` with the inputs `h`, from the cotangents of its product.
    pub(crate) fn add(&mut self, core: &Core<T>, l: usize, z: &Operand<'_, T>, h: &[Line<T>]) {
        let (weight, bias) = core.layout.layer(l);
        let packed = &core.packed.layers[l];
        let is_strassen = packed.backward.is_strassen();
        let (stack, lines) = z.rows();
        let cut = if is_strassen { weight.len() / 2 } else { weight.len() };
        grow(
            self.sums,
            if is_strassen { stack.lines(panels(packed.inputs)) } else { 0 },
            Line::ZERO,
        );
        let halves = self.grad[weight.range()].split_at_mut(cut);
        let h = HalvedColumns::whole(h, packed.inputs);
        z.add_gradient(h, self.sums, halves.into(), self.fresh);
        let rows = std::iter::once((stack, lines));
        add_bias(&rows, &mut self.grad[bias.range()], self.fresh);
    }
}

/// The tasks of a shard and the indices of their points, in the order of the batch.
fn points<T: Real>(tasks: &[RowTask<T>]) -> impl Iterator<Item = (&RowTask<T>, usize)> {
    (0..tasks[0].stack.block_count()).flat_map(move |block| {
        tasks.iter().flat_map(move |task| {
            let n = task.stack.block_points();
            (block * n..(block + 1) * n).map(move |i| (task, i))
        })
    })
}

/// With y = (u + shift)·scale: the shift's gradient is ȳ·scale, the log-scale's ȳ·y + Σ_j ẏ̄_j·ẏ_j.
fn add_actnorm<T: Real>(
    rows: Activations<'_, T>,
    shard: &Shard,
    g: &mut [T],
    scratch: &mut Vec<T>,
) {
    let core = rows.core;
    let stride = core.input_stride();
    let size = stride * (1 + rows.input.per_row);
    grow(scratch, 2 * size, T::ZERO);
    let (value, bar) = scratch.split_at_mut(size);
    let bar = &mut bar[..size];
    let (shift, log_scale) = g.split_at_mut(g.len() / 2);
    for (task, i) in points(&rows.tasks[shard.tasks.clone()]) {
        gather(&task.buffers.bar, task.stack, i, stride, bar);
        gather(&task.buffers.input, task.stack, i, stride, value);
        for (y, bar) in value.chunks_exact(stride).zip(bar.chunks_exact(stride)) {
            for ((g, y), bar) in log_scale.iter_mut().zip(y).zip(bar) {
                *g += *bar * *y;
            }
        }
        scale_cotangents(core, bar);
        for (g, bar) in shift.iter_mut().zip(&*bar) {
            *g += *bar;
        }
    }
}

impl<T: Real> TablesPart<'_, T> {
    fn add(&mut self, rows: Activations<'_, T>, shard: &Shard, scratch: &mut Vec<T>) {
        let core = rows.core;
        let stride = core.input_stride();
        let size = stride * (1 + rows.input.per_row);
        grow(scratch, size, T::ZERO);
        let bar = &mut scratch[..size];
        let Self { first, numbers, met } = self;
        for (task, i) in points(&rows.tasks[shard.tasks.clone()]) {
            gather(&task.buffers.bar, task.stack, i, stride, bar);
            scale_cotangents(core, bar);
            let place = task.input(rows.input).place(i);
            core.features.reverse_table(place, bar, stride, *first, numbers, met);
        }
    }
}
