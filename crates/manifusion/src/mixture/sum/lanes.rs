//! The formulas of the kernels, each written once for L cells side by side: four where a loop over
//! cells is vectorised, one where a product of blocks is summed cell by cell.

use super::{TINY, wrapped};

/// One number for each of L cells.
pub(super) type Lanes<const L: usize> = [f64; L];

/// `f` of every lane. The library's `array::map` and `array::from_fn` are not always inlined, and
/// then call `f` without the processor's vector instructions.
#[inline(always)]
pub(super) fn lanes<const L: usize>(f: impl Fn(usize) -> f64) -> Lanes<L> {
    let mut out = [0.0; L];
    for l in 0..L {
        out[l] = f(l);
    }
    out
}

#[inline(always)]
pub(super) fn map2<const L: usize>(
    a: &Lanes<L>,
    b: &Lanes<L>,
    f: impl Fn(f64, f64) -> f64,
) -> Lanes<L> {
    lanes(|l| f(a[l], b[l]))
}

/// t = ⟨x, c⟩.
#[inline(always)]
pub(super) fn cosine<const L: usize>(x: &[f64], c: &[Lanes<L>]) -> Lanes<L> {
    let mut t = [0.0; L];
    for (x, c) in x.iter().zip(c) {
        for l in 0..L {
            t[l] += x * c[l];
        }
    }
    t
}

/// q = |x − c|².
#[inline(always)]
pub(super) fn chord2<const L: usize>(x: &[f64], c: &[Lanes<L>]) -> Lanes<L> {
    let mut q = [0.0; L];
    for (x, c) in x.iter().zip(c) {
        for l in 0..L {
            q[l] += (x - c[l]) * (x - c[l]);
        }
    }
    q
}

/// Of ±c, which are one rotation, the one on x's side.
#[inline(always)]
pub(super) fn turn_towards<const L: usize>(x: &[f64], c: &mut [Lanes<L>]) {
    let t = cosine(x, c);
    for c in c {
        for l in 0..L {
            c[l] = if t[l] < 0.0 { -c[l] } else { c[l] };
        }
    }
}

/// 1/(1 + ε), to second order in ε.
#[inline(always)]
fn shrunk(epsilon: f64) -> f64 {
    1.0 - epsilon + epsilon * epsilon
}

/// log K of a variance (1 + ε)V relative to the peak at ε = 0, to second order in ε: a Gaussian in
/// q of half the precision `half`, which has ε in it already, times exp of `correction`.
#[inline(always)]
fn log_gauss(correction: f64, half: f64, q: f64, epsilon: f64, dim: f64) -> f64 {
    correction - half * q - 0.5 * dim * epsilon * (1.0 - 0.5 * epsilon)
}

/// A narrow kernel's log K at squared chords q.
#[inline(always)]
pub(super) fn narrow<const L: usize>(
    (half_precision, q_max, poly): (f64, f64, &[f64]),
    q: &Lanes<L>,
    epsilon: &Lanes<L>,
    dim: f64,
) -> Lanes<L> {
    let per_q = 2.0 / q_max;
    let p = horner::<L>(poly, &lanes(|l| per_q * q[l] - 1.0));
    lanes(|l| log_gauss(p[l], half_precision * shrunk(epsilon[l]), q[l], epsilon[l], dim))
}

/// A wide kernel's K at the cosine t; a polynomial in t² on a quotient.
#[inline(always)]
pub(super) fn wide<const L: usize>(
    (value, change): (&[f64], &[f64]),
    t: &Lanes<L>,
    epsilon: &Lanes<L>,
    quotient: bool,
) -> Lanes<L> {
    let y = if quotient { lanes(|l| t[l] * t[l]) } else { *t };
    let mut k = horner::<L>(value, &y);
    if epsilon.iter().any(|e| *e > 0.0) {
        let g = horner::<L>(change, &y);
        for l in 0..L {
            k[l] += epsilon[l] * g[l];
        }
    }
    k
}

/// K of one circle on which the kernel is wide; points as (cos, sin).
#[inline(always)]
pub(super) fn wide_circle<const L: usize>(
    polynomials: (&[f64], &[f64]),
    x: (f64, f64),
    c: (&Lanes<L>, &Lanes<L>),
    epsilon: &Lanes<L>,
) -> Lanes<L> {
    let t = map2(c.0, c.1, |cos, sin| x.0 * cos + x.1 * sin);
    let k = wide::<L>(polynomials, &t, epsilon, false);
    lanes(|l| if k[l] > TINY { k[l] } else { TINY })
}

/// log K of a Gaussian in the differences of angles, or to `decay` times the centre on ℝ^d.
#[inline(always)]
pub(super) fn gauss<const L: usize>(
    (precision, decay): (f64, Option<f64>),
    x: &[f64],
    c: impl Fn(usize) -> Lanes<L>,
    epsilon: &Lanes<L>,
) -> Lanes<L> {
    let mut q = [0.0; L];
    for (j, &x) in x.iter().enumerate() {
        let c = c(j);
        for l in 0..L {
            let delta = match decay {
                Some(decay) => x - decay * c[l],
                None => wrapped(x - c[l]),
            };
            q[l] += delta * delta;
        }
    }
    let dim = x.len() as f64;
    lanes(|l| log_gauss(0.0, 0.5 * precision * shrunk(epsilon[l]), q[l], epsilon[l], dim))
}

/// A polynomial.
#[inline(always)]
fn horner<const L: usize>(c: &[f64], y: &Lanes<L>) -> Lanes<L> {
    let mut value = [0.0; L];
    for c in c.iter().rev() {
        for l in 0..L {
            value[l] = value[l] * y[l] + c;
        }
    }
    value
}
