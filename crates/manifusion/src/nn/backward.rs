//! The reverse pass of rows that one thread takes through the network: cotangents of every layer's
//! product, and the gradient of the inputs if asked. What they make of the parameters is
//! `weights`, on the way where one thread has the whole shard.

use super::core::Core;
use super::features::PlaceGradient;
use super::forward::{TrainBuffers, grow};
use super::layer::{add_lines, reverse_activation};
use super::matmul::{LANES, Line};
use super::output::{scale_time_gradient, write_cotangents};
use super::product::Operand;
use super::real::Real;
use super::shard::{Block, ShardInput, Stack};
use super::weights::LayerGradients;

/// Replaces what the forward pass kept of each layer by the cotangents of its product, those of the
/// loss ⟨ā, a⟩ + ⟨ǡ, ȧ⟩ whose ā and ǡ are in `buffers`.
pub(crate) fn reverse<T: Real>(
    core: &Core<T>,
    input: &ShardInput<'_>,
    stack: Stack,
    buffers: &mut TrainBuffers<T>,
    by_input: bool,
    mut gradient: Option<LayerGradients<'_, T>>,
) {
    let (n, k, m) = (input.rows(), input.per_row, input.dim);
    let (a_bar, jvp_bar) = (&buffers.a_bar[..n * m], &buffers.jvp_bar[..n * k * m]);
    write_cotangents(core.config.output_scale, input, stack, a_bar, jvp_bar, &mut buffers.out);
    for l in (1..=core.config.depth).rev() {
        reverse_layer(core, l, stack, buffers, gradient.as_mut());
    }
    reverse_first(core, stack, buffers, gradient.as_mut(), by_input);
    if by_input {
        reverse_input(core, input, stack, buffers);
    }
}

/// The cotangents of layer `l − 1`'s product from those of layer `l`'s.
fn reverse_layer<T: Real>(
    core: &Core<T>,
    l: usize,
    stack: Stack,
    buffers: &mut TrainBuffers<T>,
    gradient: Option<&mut LayerGradients<'_, T>>,
) {
    let layer = &core.packed.layers[l];
    let TrainBuffers { hidden, out, bar, skip_bar, sums, .. } = buffers;
    let (before, after) = hidden.split_at_mut(l);
    let from = after.first().map_or(&*out, |kept| &kept.z);
    let kept = &mut before[l - 1];
    let operand = Operand::new(from, stack, &layer.backward, sums);
    if let Some(gradient) = gradient {
        gradient.add(core, l, &operand, &kept.h);
    }
    operand.multiply(&layer.backward, bar, |panel, bar| {
        let place = stack.panel(panel);
        if core.config.residual {
            let skip = &mut skip_bar[place.clone()];
            // The outputs of layer l − 1 also feed the outputs of layer l directly.
            if l < core.config.depth {
                add_lines(bar, skip);
            }
            skip.copy_from_slice(bar);
        }
        let (z, second) = (&mut kept.z[place], &kept.second[stack.bend_panel(panel)]);
        for Block { rows, bends, .. } in stack.blocks() {
            reverse_activation(&mut z[rows.clone()], &second[bends], &mut bar[rows]);
        }
    });
}

/// Cotangents of the first layer's inputs, in `buffers.bar`, where they are needed.
fn reverse_first<T: Real>(
    core: &Core<T>,
    stack: Stack,
    buffers: &mut TrainBuffers<T>,
    gradient: Option<&mut LayerGradients<'_, T>>,
    by_input: bool,
) {
    let is_needed = core.config.actnorm || core.config.grid.is_some() || by_input;
    if gradient.is_none() && !is_needed {
        return;
    }
    let layer = &core.packed.layers[0];
    let TrainBuffers { input, hidden, out, bar, sums, .. } = buffers;
    let from = hidden.first().map_or(&*out, |kept| &kept.z);
    let operand = Operand::new(from, stack, &layer.backward, sums);
    if let Some(gradient) = gradient {
        gradient.add(core, 0, &operand, input);
    }
    if is_needed {
        operand.multiply(&layer.backward, bar, |_, _| {});
    }
}

/// Back through ActNorm and the features, one point at a time.
fn reverse_input<T: Real>(
    core: &Core<T>,
    input: &ShardInput<'_>,
    stack: Stack,
    buffers: &mut TrainBuffers<T>,
) {
    let (n, k, m) = (input.rows(), input.per_row, input.dim);
    let stride = core.input_stride();
    let [x, s, e] = &mut buffers.by_input;
    grow(x, n * m, 0.0);
    grow(s, n, 0.0);
    grow(e, n * k * m, 0.0);
    let bar = &mut buffers.rows[..stride * (1 + k)];
    for i in 0..n {
        gather(&buffers.bar, stack, i, stride, bar);
        scale_cotangents(core, bar);
        let mut place = PlaceGradient {
            x: &mut x[i * m..(i + 1) * m],
            s: &mut s[i],
            e: &mut e[i * k * m..(i + 1) * k * m],
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

/// The 1 + k rows of point `i` from a matrix stored by panels.
pub(crate) fn gather<T: Real>(
    lines: &[Line<T>],
    stack: Stack,
    i: usize,
    stride: usize,
    rows: &mut [T],
) {
    for (j, row) in rows.chunks_exact_mut(stride).enumerate() {
        for (panel, chunk) in row.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            *chunk = lines[stack.line(panel, j, i)].0;
        }
    }
}

/// The cotangents of ActNorm's inputs from those of its outputs: y = (u + shift)·scale.
pub(crate) fn scale_cotangents<T: Real>(core: &Core<T>, bar: &mut [T]) {
    let scale = core.actnorm_scale();
    if scale.is_empty() {
        return;
    }
    for row in bar.chunks_exact_mut(scale.len()) {
        for (bar, scale) in row.iter_mut().zip(scale) {
            *bar = *bar * *scale;
        }
    }
}
