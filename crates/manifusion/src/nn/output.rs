//! From the last layer's panels to doubles and back, with the factor 1/σ(s).

use super::config::OutputScale;
use super::matmul::{LANES, Line};
use super::packed::PackedLayer;
use super::real::Real;
use super::shard::{ShardInput, Stack};

impl OutputScale {
    /// The factor r(s) with its first two derivatives. With v = 1 − e^{−s}: r = v^{−1/2}.
    pub(crate) fn jet(self, s: f64) -> [f64; 3] {
        match self {
            Self::One => [1.0, 0.0, 0.0],
            Self::InverseNoise => {
                let v = -(-s).exp_m1();
                let decay = (-s).exp();
                let r = v.sqrt().recip();
                let first = -0.5 * decay * r / v;
                [r, first, decay * r / v * (0.75 * decay / v + 0.5)]
            }
        }
    }
}

/// Entry of row `i` of tangent `j` (0 for the value) in a matrix stored by panels.
#[inline]
fn entry<T: Real>(lines: &[Line<T>], stack: Stack, j: usize, i: usize, column: usize) -> f64 {
    lines[stack.line(column / LANES, j, i)].0[column % LANES].to_f64()
}

#[inline]
fn set_entry<T: Real>(
    lines: &mut [Line<T>],
    stack: Stack,
    j: usize,
    i: usize,
    column: usize,
    value: f64,
) {
    lines[stack.line(column / LANES, j, i)].0[column % LANES] = T::from_f64(value);
}

/// `a = r·f` and `ȧ_j = r·ḟ_j + r′·e_s·f` of one shard, from the last layer's product `out`.
pub(crate) fn read_output<T: Real>(
    scale: OutputScale,
    layer: &PackedLayer<T>,
    out: &[Line<T>],
    input: &ShardInput<'_>,
    stack: Stack,
    a: &mut [f64],
    jvp: &mut [f64],
) {
    let (n, k, m) = (input.rows(), input.per_row, layer.outputs);
    for i in 0..n {
        let [r, dr, _] = scale.jet(input.s(i));
        for c in 0..m {
            let bias = layer.bias(c / LANES).0[c % LANES].to_f64();
            let f = entry(out, stack, 0, i, c) + bias;
            a[i * m + c] = r * f;
            for j in 0..k {
                let f_dot = entry(out, stack, j + 1, i, c);
                jvp[(i * k + j) * m + c] = r * f_dot + dr * input.e_s(i, j) * f;
            }
        }
    }
}

/// Cotangents of the last layer's product from those of a and ȧ.
pub(crate) fn write_cotangents<T: Real>(
    scale: OutputScale,
    input: &ShardInput<'_>,
    stack: Stack,
    a_bar: &[f64],
    jvp_bar: &[f64],
    out: &mut [Line<T>],
) {
    let (n, k, m) = (input.rows(), input.per_row, input.dim);
    for i in 0..n {
        let [r, dr, _] = scale.jet(input.s(i));
        for c in 0..m {
            let mut f_bar = r * a_bar[i * m + c];
            for j in 0..k {
                let bar = jvp_bar[(i * k + j) * m + c];
                f_bar += dr * input.e_s(i, j) * bar;
                set_entry(out, stack, j + 1, i, c, r * bar);
            }
            set_entry(out, stack, 0, i, c, f_bar);
        }
    }
}

/// What the factor r(s) contributes to the gradient with respect to s of row `i`:
/// ⟨ā, r′f⟩ + Σ_j ⟨ǡ_j, r′ḟ_j + r″ e_s f⟩.
pub(crate) fn scale_time_gradient(
    scale: OutputScale,
    input: &ShardInput<'_>,
    i: usize,
    values: [&[f64]; 2],
    bars: [&[f64]; 2],
) -> f64 {
    if scale == OutputScale::One {
        return 0.0;
    }
    let (k, m) = (input.per_row, input.dim);
    let [r, dr, ddr] = scale.jet(input.s(i));
    let mut sum = 0.0;
    for c in 0..m {
        let f = values[0][i * m + c] / r;
        sum += bars[0][i * m + c] * dr * f;
        for j in 0..k {
            let at = (i * k + j) * m + c;
            let e_s = input.e_s(i, j);
            let f_dot = (values[1][at] - dr * e_s * f) / r;
            sum += bars[1][at] * (dr * f_dot + ddr * e_s * f);
        }
    }
    sum
}
