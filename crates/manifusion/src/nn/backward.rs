//! The reverse pass of one shard: gradient of all parameters and, if asked, of the inputs.

use super::core::Core;
use super::features::PlaceGradient;
use super::forward::TrainBuffers;
use super::layer::{add_lines, reverse_activation};
use super::matmul::{LANES, Line};
use super::output::{scale_time_gradient, write_cotangents};
use super::product::Operand;
use super::real::Real;
use super::shard::{Block, ShardInput, Stack};

/// Where the gradient with respect to the inputs of a shard goes.
pub(crate) struct ShardInputGradient<'a> {
    pub(crate) x: &'a mut [f64],
    pub(crate) s: &'a mut [f64],
    pub(crate) e: &'a mut [f64],
}

/// Adds the gradient of ⟨ā, a⟩ + ⟨ǡ, ȧ⟩ to `grad`, or overwrites it if `fresh`; the cotangents
/// are in `buffers`, filled by the forward pass and by the loss.
pub(crate) fn reverse<T: Real>(
    core: &Core<T>,
    input: &ShardInput<'_>,
    buffers: &mut TrainBuffers<T>,
    grad: &mut [T],
    fresh: bool,
    input_grad: Option<ShardInputGradient<'_>>,
) {
    let (n, k, m) = (input.rows(), input.per_row, input.dim);
    let stack = input.halved_stack();
    let (a_bar, jvp_bar) = (&buffers.a_bar[..n * m], &buffers.jvp_bar[..n * k * m]);
    write_cotangents(core.config.output_scale, input, stack, a_bar, jvp_bar, &mut buffers.out);

    let depth = core.config.depth;
    for l in (0..=depth).rev() {
        reverse_layer(core, l, stack, buffers, grad, fresh);
    }
    if core.config.actnorm || core.config.grid.is_some() || input_grad.is_some() {
        input_cotangents(core, stack, buffers);
        reverse_input(core, input, stack, buffers, grad, fresh, input_grad);
    }
}

/// The gradient of layer `l` from the cotangents of its product, and those of layer `l − 1`'s
/// product, which replace them in `buffers.bar`.
fn reverse_layer<T: Real>(
    core: &Core<T>,
    l: usize,
    stack: Stack,
    buffers: &mut TrainBuffers<T>,
    grad: &mut [T],
    fresh: bool,
) {
    let layer = &core.packed.layers[l];
    let top = l == core.config.depth;
    let [h_sums, z_sums] = &mut buffers.sums;
    let bar = if top { &buffers.out } else { &buffers.bar };
    let operand = Operand::new(bar, stack, &layer.backward, z_sums);
    let h = if l == 0 { &buffers.input } else { &buffers.hidden[l - 1].h };
    let (weight, bias) = core.layout.layer(l);
    operand.add_gradient(h, layer.inputs, h_sums, &mut grad[weight.range()], fresh);
    operand.add_bias_gradient(&mut grad[bias.range()], fresh);
    if l == 0 {
        return;
    }
    let kept = &buffers.hidden[l - 1];
    let skip_bar = &mut buffers.skip_bar;
    operand.multiply(&layer.backward, &mut buffers.next_bar, |panel, bar| {
        let place = stack.panel(panel);
        if core.config.residual {
            let skip = &mut skip_bar[place.clone()];
            // The outputs of layer l − 1 also feed the outputs of layer l directly.
            if !top {
                add_lines(bar, skip);
            }
            skip.copy_from_slice(bar);
        }
        let (z, second) = (&kept.z[place], &kept.second[stack.bend_panel(panel)]);
        for Block { rows, bends, .. } in stack.blocks() {
            reverse_activation(&z[rows.clone()], &second[bends], &mut bar[rows]);
        }
    });
    std::mem::swap(&mut buffers.bar, &mut buffers.next_bar);
}

/// Cotangents of the first layer's inputs, in `buffers.next_bar`.
fn input_cotangents<T: Real>(core: &Core<T>, stack: Stack, buffers: &mut TrainBuffers<T>) {
    let layer = &core.packed.layers[0];
    let [_, sums] = &mut buffers.sums;
    let operand = Operand::new(&buffers.bar, stack, &layer.backward, sums);
    operand.multiply(&layer.backward, &mut buffers.next_bar, |_, _| {});
}

/// Back through ActNorm and the features, one point at a time.
fn reverse_input<T: Real>(
    core: &Core<T>,
    input: &ShardInput<'_>,
    stack: Stack,
    buffers: &mut TrainBuffers<T>,
    grad: &mut [T],
    fresh: bool,
    mut input_grad: Option<ShardInputGradient<'_>>,
) {
    let (n, k, m) = (input.rows(), input.per_row, input.dim);
    let stride = core.input_stride();
    if let (true, Some((shift, log_scale))) = (fresh, core.layout.actnorm()) {
        grad[shift.offset..log_scale.range().end].fill(T::ZERO);
    }
    let table = core.layout.grid();
    if fresh {
        grad[table.clone()].fill(T::ZERO);
    }
    let (value, bar) = buffers.rows.split_at_mut(stride * (1 + k));
    for i in 0..n {
        gather(&buffers.next_bar, stack, i, stride, &mut bar[..stride * (1 + k)]);
        if core.config.actnorm {
            gather(&buffers.input, stack, i, stride, value);
            reverse_actnorm(core, value, bar, grad);
        }
        let bar = &bar[..stride * (1 + k)];
        core.features.reverse_table(input.place(i), bar, stride, &mut grad[table.clone()]);
        if let Some(to) = &mut input_grad {
            let mut place = PlaceGradient {
                x: &mut to.x[i * m..(i + 1) * m],
                s: &mut to.s[i],
                e: &mut to.e[i * k * m..(i + 1) * k * m],
            };
            place.x.fill(0.0);
            place.e.fill(0.0);
            *place.s = scale_time_gradient(
                core.config.output_scale,
                input,
                i,
                [&buffers.a, &buffers.jvp],
                [&buffers.a_bar, &buffers.jvp_bar],
            );
            core.features.reverse(core.table(), input.place(i), bar, stride, &mut place);
        }
    }
}

/// The 1 + k rows of point `i` from a matrix stored by panels.
fn gather<T: Real>(lines: &[Line<T>], stack: Stack, i: usize, stride: usize, rows: &mut [T]) {
    for (j, row) in rows.chunks_exact_mut(stride).enumerate() {
        for (panel, chunk) in row.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            *chunk = lines[stack.line(panel, j, i)].0;
        }
    }
}

/// With y = (u + shift)·scale: the shift's gradient is ȳ·scale, the log-scale's ȳ·y + Σ_j ẏ̄_j·ẏ_j;
/// `bar` becomes the cotangent of u.
fn reverse_actnorm<T: Real>(core: &Core<T>, value: &[T], bar: &mut [T], grad: &mut [T]) {
    let Some((shift, log_scale)) = core.layout.actnorm() else { return };
    let scale = core.actnorm_scale();
    let stride = scale.len();
    for (j, (y, bar)) in value.chunks_exact(stride).zip(bar.chunks_exact_mut(stride)).enumerate() {
        for (c, g) in grad[log_scale.range()].iter_mut().enumerate() {
            *g += bar[c] * y[c];
        }
        for (bar, scale) in bar.iter_mut().zip(scale) {
            *bar = *bar * *scale;
        }
        if j == 0 {
            for (g, bar) in grad[shift.range()].iter_mut().zip(bar.iter()) {
                *g += *bar;
            }
        }
    }
}
