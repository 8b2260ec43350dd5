//! The reverse pass of one shard: gradient of all parameters and, if asked, of the inputs.

use super::core::Core;
use super::features::PlaceGradient;
use super::forward::TrainBuffers;
use super::kernel::{LANES, Line, add_weight_gradient, column_sums, multiply_panel, panels};
use super::layer::{add_lines, reverse_activation};
use super::output::{scale_time_gradient, write_cotangents};
use super::real::Real;
use super::shard::{ShardInput, Stack};

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
    let stack = input.stack();
    let (a_bar, jvp_bar) = (&buffers.a_bar[..n * m], &buffers.jvp_bar[..n * k * m]);
    write_cotangents(core.config.output_scale, input, a_bar, jvp_bar, &mut buffers.out);

    let depth = core.config.depth;
    let last = &buffers.hidden[depth - 1].h;
    layer_gradient(core, depth, last, &buffers.out, stack, grad, fresh);
    hidden_cotangents(core, depth, stack, false, buffers);
    for l in (0..depth).rev() {
        let from = if l == 0 { &buffers.input } else { &buffers.hidden[l - 1].h };
        layer_gradient(core, l, from, &buffers.bar, stack, grad, fresh);
        if l > 0 {
            hidden_cotangents(core, l, stack, core.config.residual, buffers);
        }
    }
    if core.config.actnorm || input_grad.is_some() {
        input_cotangents(core, stack, buffers);
        reverse_input(core, input, buffers, grad, fresh, input_grad);
    }
}

/// Weight and bias gradient of layer `l` from its inputs `h` and its product's cotangents `z`.
fn layer_gradient<T: Real>(
    core: &Core<T>,
    l: usize,
    h: &[Line<T>],
    z: &[Line<T>],
    stack: Stack,
    grad: &mut [T],
    fresh: bool,
) {
    let (weight, bias) = core.layout.layer(l);
    let [inputs, outputs] = weight.shape;
    let target = &mut grad[weight.range()];
    for (p, rows) in target.chunks_mut(LANES * outputs).enumerate() {
        let h = &h[stack.panel(p)];
        for q in 0..panels(outputs) {
            let z = &z[stack.panel(q)];
            add_weight_gradient(h, z, rows, outputs, q * LANES, fresh);
        }
    }
    debug_assert_eq!(target.len(), inputs * outputs);
    for (q, target) in grad[bias.range()].chunks_mut(LANES).enumerate() {
        let sums = column_sums(&z[stack.values(q)]);
        for (g, sum) in target.iter_mut().zip(sums.0) {
            *g = if fresh { sum } else { *g + sum };
        }
    }
}

/// From the cotangents of layer `l`'s product to those of layer `l − 1`'s, in `buffers.bar`.
///
/// With `residual` the outputs of layer `l − 1` also feed the outputs of layer `l` directly.
fn hidden_cotangents<T: Real>(
    core: &Core<T>,
    l: usize,
    stack: Stack,
    residual: bool,
    buffers: &mut TrainBuffers<T>,
) {
    let layer = &core.packed.layers[l];
    let top = l == core.config.depth;
    let kept = &buffers.hidden[l - 1];
    for panel in 0..panels(layer.inputs) {
        let place = stack.panel(panel);
        let bar = &mut buffers.next_bar[place.clone()];
        let from = if top { &buffers.out } else { &buffers.bar };
        multiply_panel(from, stack.rows, layer.outputs, layer.backward(panel), bar);
        if core.config.residual {
            let skip = &mut buffers.skip_bar[place.clone()];
            if residual {
                add_lines(bar, skip);
            }
            skip.copy_from_slice(bar);
        }
        reverse_activation(
            &kept.z[place],
            &kept.second[panel * stack.n..(panel + 1) * stack.n],
            bar,
        );
    }
    std::mem::swap(&mut buffers.bar, &mut buffers.next_bar);
}

/// Cotangents of the first layer's inputs, in `buffers.next_bar`.
fn input_cotangents<T: Real>(core: &Core<T>, stack: Stack, buffers: &mut TrainBuffers<T>) {
    let layer = &core.packed.layers[0];
    for panel in 0..panels(layer.inputs) {
        let bar = &mut buffers.next_bar[stack.panel(panel)];
        multiply_panel(&buffers.bar, stack.rows, layer.outputs, layer.backward(panel), bar);
    }
}

/// Back through ActNorm and the features, one point at a time.
fn reverse_input<T: Real>(
    core: &Core<T>,
    input: &ShardInput<'_>,
    buffers: &mut TrainBuffers<T>,
    grad: &mut [T],
    fresh: bool,
    mut input_grad: Option<ShardInputGradient<'_>>,
) {
    let (n, k, m) = (input.rows(), input.per_row, input.dim);
    let (stride, stack) = (core.input_stride(), input.stack());
    if let (true, Some((shift, log_scale))) = (fresh, core.layout.actnorm()) {
        grad[shift.offset..log_scale.range().end].fill(T::ZERO);
    }
    let (value, bar) = buffers.rows.split_at_mut(stride * (1 + k));
    for i in 0..n {
        gather(&buffers.next_bar, stack, i, stride, &mut bar[..stride * (1 + k)]);
        if core.config.actnorm {
            gather(&buffers.input, stack, i, stride, value);
            reverse_actnorm(core, value, bar, grad);
        }
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
            core.features.reverse(input.place(i), &bar[..stride * (1 + k)], stride, &mut place);
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
