//! The activation of one panel of hidden units, forward and in reverse, with tangents.
//!
//! A panel holds n value rows, then n rows of the first tangent, and so on. With z the
//! pre-activation, h = φ(z) and ḣ_j = φ′(z)·ż_j; in reverse
//! z̄ = φ′·h̄ + φ″·Σ_j ż_j·ḣ̄_j and ż̄_j = φ′·ḣ̄_j.

use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

use super::activation::{Activation, Phi, Sine, Softplus, Swish, Tanh, jets, slopes};
use super::matmul::{Line, flat, flat_mut};
use super::real::Real;

/// Dispatches `$Task::<T, φ>` for the activation at hand: one loop per activation and instruction
/// set. The tasks are structs and not closures, because the call of a closure is not inlined
/// into the code for the instruction set, which would leave it without vectors.
macro_rules! dispatch {
    ($activation:expr, $Task:ident { $($field:ident),* }) => {
        match $activation {
            Activation::Sine => dispatch!(@ Sine, $Task { $($field),* }),
            Activation::Swish => dispatch!(@ Swish, $Task { $($field),* }),
            Activation::Tanh => dispatch!(@ Tanh, $Task { $($field),* }),
            Activation::Softplus => dispatch!(@ Softplus, $Task { $($field),* }),
        }
    };
    (@ $Phi:ident, $Task:ident { $($field:ident),* }) => {
        pulp::Arch::new().dispatch($Task::<T, $Phi> { $($field,)* phi: PhantomData })
    };
}

/// One panel of a hidden layer during training.
pub(crate) struct HiddenPanel<'a, T> {
    /// On entry the pre-activations without bias; on exit φ′ in the value rows, ż_j untouched.
    pub(crate) z: &'a mut [Line<T>],
    /// The outputs, all rows.
    pub(crate) h: &'a mut [Line<T>],
    /// φ″, value rows; empty without tangents, which alone need it.
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
    let h_out = &mut *h;
    dispatch!(activation, Keep { bias, z, h_out, second });
    if let Some(skip) = skip {
        add_lines(h, skip);
    }
}

struct Keep<'a, T, P> {
    bias: &'a Line<T>,
    z: &'a mut [Line<T>],
    h_out: &'a mut [Line<T>],
    second: &'a mut [Line<T>],
    phi: PhantomData<P>,
}

impl<T: Real, P: Phi> WithSimd for Keep<'_, T, P> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        if self.second.is_empty() {
            for (h, z) in self.h_out.iter_mut().zip(&*self.z) {
                *h = sum(z, self.bias);
            }
            slopes::<S, P, T>(flat_mut(self.h_out), flat_mut(self.z));
            return;
        }
        let n = self.second.len();
        let (z_value, z_tangent) = self.z.split_at_mut(n);
        let (h_value, h_tangent) = self.h_out.split_at_mut(n);
        for z in z_value.iter_mut() {
            *z = sum(z, self.bias);
        }
        jets::<S, P, T>(flat_mut(z_value), flat_mut(h_value), flat_mut(self.second));
        for (z, h) in z_tangent.chunks_exact(n).zip(h_tangent.chunks_exact_mut(n)) {
            let factors = flat(z_value).iter().zip(flat(z));
            for (h, (first, z)) in flat_mut(h).iter_mut().zip(factors) {
                *h = *first * *z;
            }
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
    let out = &mut *z;
    dispatch!(activation, InPlace { bias, n, out });
    if let Some(skip) = skip {
        add_lines(z, skip);
    }
}

/// Lines whose derivatives wait on the stack for the tangents.
const BLOCK: usize = 16;

struct InPlace<'a, T, P> {
    bias: &'a Line<T>,
    n: usize,
    out: &'a mut [Line<T>],
    phi: PhantomData<P>,
}

impl<T: Real, P: Phi> WithSimd for InPlace<'_, T, P> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let (value, tangent) = self.out.split_at_mut(self.n);
        for (block, value) in value.chunks_mut(BLOCK).enumerate() {
            let mut first = [Line::ZERO; BLOCK];
            let first = &mut first[..value.len()];
            for z in value.iter_mut() {
                *z = sum(z, self.bias);
            }
            slopes::<S, P, T>(flat_mut(value), flat_mut(first));
            for z in tangent.chunks_exact_mut(self.n) {
                let at = block * BLOCK;
                multiply(&mut z[at..at + first.len()], first);
            }
        }
    }
}

/// Replaces what the forward pass kept of a panel by the cotangents of its pre-activations; on
/// entry `bar` has those of its outputs, on exit nothing of use.
pub(crate) fn reverse_activation<T: Real>(
    z: &mut [Line<T>],
    second: &[Line<T>],
    bar: &mut [Line<T>],
) {
    pulp::Arch::new().dispatch(Reverse { z, second, bar });
}

struct Reverse<'a, T> {
    z: &'a mut [Line<T>],
    second: &'a [Line<T>],
    bar: &'a mut [Line<T>],
}

impl<T: Real> WithSimd for Reverse<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let n = if self.second.is_empty() { self.z.len() } else { self.second.len() };
        let (first, tangent) = self.z.split_at_mut(n);
        let (value_bar, tangent_bar) = self.bar.split_at_mut(n);
        if tangent.is_empty() {
            multiply(first, value_bar);
            return;
        }
        multiply(value_bar, first);
        let (first_flat, second) = (flat(first), flat(self.second));
        for (z, bar) in tangent.chunks_exact_mut(n).zip(tangent_bar.chunks_exact(n)) {
            let value_bar = flat_mut(value_bar).iter_mut();
            let rows = value_bar.zip(second).zip(first_flat).zip(flat_mut(z)).zip(flat(bar));
            for ((((value_bar, second), first), z), bar) in rows {
                *value_bar += *second * *z * *bar;
                *z = *first * *bar;
            }
        }
        first.copy_from_slice(value_bar);
    }
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

/// `to ← to·by`, number by number: over lines the compiler would gather across them.
#[inline(always)]
fn multiply<T: Real>(to: &mut [Line<T>], by: &[Line<T>]) {
    for (to, by) in flat_mut(to).iter_mut().zip(flat(by)) {
        *to = *to * *by;
    }
}
