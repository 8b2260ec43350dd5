//! The activation of one panel of hidden units, forward and in reverse, with tangents.
//!
//! A panel holds n value rows, then n rows of the first tangent, and so on. With z the
//! pre-activation, h = φ(z) and ḣ_j = φ′(z)·ż_j; in reverse
//! z̄ = φ′·h̄ + φ″·Σ_j ż_j·ḣ̄_j and ż̄_j = φ′·ḣ̄_j.

use super::activation::{Activation, Jet, sine, softplus, swish, tanh};
use super::kernel::{LANES, Line};
use super::real::Real;

/// Runs `$body` with `$jet` bound to the activation's function, inlined under runtime dispatch.
macro_rules! with_activation {
    ($activation:expr, |$jet:ident| $body:expr) => {
        pulp::Arch::new().dispatch(
            #[inline(always)]
            || match $activation {
                Activation::Sine => {
                    let $jet = sine;
                    $body
                }
                Activation::Swish => {
                    let $jet = swish;
                    $body
                }
                Activation::Tanh => {
                    let $jet = tanh;
                    $body
                }
                Activation::Softplus => {
                    let $jet = softplus;
                    $body
                }
            },
        )
    };
}

/// One panel of a hidden layer during training.
pub(crate) struct HiddenPanel<'a, T> {
    /// On entry the pre-activations without bias; on exit φ′ in the value rows, ż_j untouched.
    pub(crate) z: &'a mut [Line<T>],
    /// The outputs, all rows.
    pub(crate) h: &'a mut [Line<T>],
    /// φ″, value rows.
    pub(crate) second: &'a mut [Line<T>],
    /// The layer's inputs, if they are added to the outputs.
    pub(crate) skip: Option<&'a [Line<T>]>,
}

/// Activates a panel and keeps what the reverse pass needs.
pub(crate) fn activate_and_keep<T: Real>(
    activation: Activation,
    bias: &Line<T>,
    panel: HiddenPanel<'_, T>,
) {
    let HiddenPanel { z, h, second, skip } = panel;
    with_activation!(activation, |jet| keep(jet, bias, z, h, second));
    if let Some(skip) = skip {
        add_lines(h, skip);
    }
}

#[inline(always)]
fn keep<T: Real>(
    jet: impl Fn(&Line<T>) -> Jet<T>,
    bias: &Line<T>,
    z: &mut [Line<T>],
    h: &mut [Line<T>],
    second: &mut [Line<T>],
) {
    let n = second.len();
    let (z_value, z_tangent) = z.split_at_mut(n);
    let (h_value, h_tangent) = h.split_at_mut(n);
    for i in 0..n {
        let at = jet(&sum(&z_value[i], bias));
        h_value[i] = at.value;
        z_value[i] = at.first;
        second[i] = at.second;
    }
    for (z, h) in z_tangent.chunks_exact(n).zip(h_tangent.chunks_exact_mut(n)) {
        for i in 0..n {
            h[i] = product(&z_value[i], &z[i]);
        }
    }
}

/// Activates a panel in place and keeps nothing.
pub(crate) fn activate<T: Real>(
    activation: Activation,
    bias: &Line<T>,
    n: usize,
    z: &mut [Line<T>],
    skip: Option<&[Line<T>]>,
) {
    with_activation!(activation, |jet| in_place(jet, bias, n, z));
    if let Some(skip) = skip {
        add_lines(z, skip);
    }
}

#[inline(always)]
fn in_place<T: Real>(
    jet: impl Fn(&Line<T>) -> Jet<T>,
    bias: &Line<T>,
    n: usize,
    z: &mut [Line<T>],
) {
    let (value, tangent) = z.split_at_mut(n);
    for i in 0..n {
        let at = jet(&sum(&value[i], bias));
        value[i] = at.value;
        for z in tangent.iter_mut().skip(i).step_by(n) {
            *z = product(&at.first, z);
        }
    }
}

/// Turns the cotangents of a panel's outputs into those of its pre-activations.
pub(crate) fn reverse_activation<T: Real>(
    z: &[Line<T>],
    second: &[Line<T>],
    bar: &mut [Line<T>],
) {
    pulp::Arch::new().dispatch(
        #[inline(always)]
        || {
            let n = second.len();
            let (first, tangent) = z.split_at(n);
            let (value_bar, tangent_bar) = bar.split_at_mut(n);
            for i in 0..n {
                value_bar[i] = product(&first[i], &value_bar[i]);
            }
            for (z, bar) in tangent.chunks_exact(n).zip(tangent_bar.chunks_exact_mut(n)) {
                for i in 0..n {
                    for l in 0..LANES {
                        let b = bar[i].0[l];
                        value_bar[i].0[l] += second[i].0[l] * z[i].0[l] * b;
                        bar[i].0[l] = first[i].0[l] * b;
                    }
                }
            }
        },
    );
}

/// `to ← to + from`.
pub(crate) fn add_lines<T: Real>(to: &mut [Line<T>], from: &[Line<T>]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = sum(to, from);
    }
}

#[inline(always)]
fn sum<T: Real>(a: &Line<T>, b: &Line<T>) -> Line<T> {
    let mut c = *a;
    for (c, b) in c.0.iter_mut().zip(&b.0) {
        *c += *b;
    }
    c
}

#[inline(always)]
fn product<T: Real>(a: &Line<T>, b: &Line<T>) -> Line<T> {
    let mut c = *a;
    for (c, b) in c.0.iter_mut().zip(&b.0) {
        *c = *c * *b;
    }
    c
}
