//! The formulas of the kernels, each written once for L cells side by side: four where a loop over
//! cells is vectorised, one where a product of blocks is summed cell by cell. Derivatives beyond
//! ORDER are not computed and come back as zeros.

use super::{TINY, wrapped};

/// One number for each of L cells.
pub(super) type Lanes<const L: usize> = [f64; L];

/// A function with its first and second derivative.
pub(super) struct Jet<const L: usize> {
    pub(super) value: Lanes<L>,
    pub(super) first: Lanes<L>,
    pub(super) second: Lanes<L>,
}

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

/// A narrow kernel's log K and its derivatives in t = 1 − q/2.
#[inline(always)]
pub(super) fn narrow<const ORDER: usize, const L: usize>(
    (half_precision, q_max, poly): (f64, f64, &[f64]),
    q: &Lanes<L>,
    epsilon: &Lanes<L>,
    dim: f64,
) -> Jet<L> {
    let per_q = 2.0 / q_max;
    let p = horner::<ORDER, L>(poly, &lanes(|l| per_q * q[l] - 1.0));
    let half: Lanes<L> = lanes(|l| half_precision * shrunk(epsilon[l]));
    Jet {
        value: lanes(|l| log_gauss(p.value[l], half[l], q[l], epsilon[l], dim)),
        // dq/dt = −2
        first: lanes(|l| -2.0 * (per_q * p.first[l] - half[l])),
        second: lanes(|l| 4.0 * (per_q * per_q * p.second[l])),
    }
}

/// A wide kernel's K and its derivatives in t; a polynomial in t² on a quotient.
#[inline(always)]
pub(super) fn wide<const ORDER: usize, const L: usize>(
    (value, change): (&[f64], &[f64]),
    t: &Lanes<L>,
    epsilon: &Lanes<L>,
    quotient: bool,
) -> Jet<L> {
    let y = if quotient { lanes(|l| t[l] * t[l]) } else { *t };
    let mut k = horner::<ORDER, L>(value, &y);
    if epsilon.iter().any(|e| *e > 0.0) {
        let g = horner::<ORDER, L>(change, &y);
        for l in 0..L {
            k.value[l] += epsilon[l] * g.value[l];
            k.first[l] += epsilon[l] * g.first[l];
            k.second[l] += epsilon[l] * g.second[l];
        }
    }
    if quotient {
        // d/dt of a function of t²
        for l in 0..L {
            k.second[l] = 2.0 * k.first[l] + 4.0 * y[l] * k.second[l];
            k.first[l] *= 2.0 * t[l];
        }
    }
    k
}

/// K of one circle on which the kernel is wide, with the derivatives of log K in the angle; points
/// as (cos, sin).
#[inline(always)]
pub(super) fn wide_circle<const ORDER: usize, const L: usize>(
    polynomials: (&[f64], &[f64]),
    x: (f64, f64),
    c: (&Lanes<L>, &Lanes<L>),
    epsilon: &Lanes<L>,
) -> Jet<L> {
    let t = map2(c.0, c.1, |cos, sin| x.0 * cos + x.1 * sin);
    let sin = map2(c.0, c.1, |cos, sin| x.1 * cos - x.0 * sin);
    let mut out = wide::<ORDER, L>(polynomials, &t, epsilon, false);
    for l in 0..L {
        let (k1, k2) = (out.first[l], out.second[l]);
        let k = if out.value[l] > TINY { out.value[l] } else { TINY };
        out.value[l] = k;
        if ORDER > 0 {
            let slope = -sin[l] * k1 / k;
            out.first[l] = slope;
            out.second[l] = (sin[l] * sin[l] * k2 - t[l] * k1) / k - slope * slope;
        }
    }
    out
}

/// log K of a Gaussian in the differences of angles, or to `decay` times the centre on ℝ^d; its
/// gradient goes to `slope`, the diagonal of the gradient's derivative to `bend`.
#[inline(always)]
pub(super) fn gauss<const ORDER: usize, const L: usize>(
    (precision, decay): (f64, Option<f64>),
    x: &[f64],
    c: impl Fn(usize) -> Lanes<L>,
    epsilon: &Lanes<L>,
    slope: &mut [Lanes<L>],
    bend: &mut [Lanes<L>],
) -> Lanes<L> {
    let precision: Lanes<L> = lanes(|l| precision * shrunk(epsilon[l]));
    let mut q = [0.0; L];
    for (j, (&x, (slope, bend))) in x.iter().zip(slope.iter_mut().zip(bend)).enumerate() {
        let c = c(j);
        for l in 0..L {
            let delta = match decay {
                Some(decay) => x - decay * c[l],
                None => wrapped(x - c[l]),
            };
            q[l] += delta * delta;
            if ORDER > 0 {
                slope[l] = -precision[l] * delta;
                bend[l] = -precision[l];
            }
        }
    }
    let dim = slope.len() as f64;
    lanes(|l| log_gauss(0.0, 0.5 * precision[l], q[l], epsilon[l], dim))
}

/// Adds the derivatives of K, whose logarithm has the gradient `slope` and the second derivative
/// diag `bend`, to the sums of gradients and Hessians (lower triangle, row by row).
#[inline(always)]
pub(super) fn add_derivatives<const ORDER: usize, const L: usize>(
    k: &Lanes<L>,
    slope: &[Lanes<L>],
    bend: &[Lanes<L>],
    first: &mut [Lanes<L>],
    second: &mut [Lanes<L>],
) {
    let d = slope.len();
    for a in 0..d {
        let scaled = map2(k, &slope[a], |k, slope| k * slope);
        for l in 0..L {
            first[a][l] += scaled[l];
        }
        if ORDER == 2 {
            for (second, slope) in second[a * d..=a * d + a].iter_mut().zip(slope) {
                for l in 0..L {
                    second[l] += scaled[l] * slope[l];
                }
            }
            for l in 0..L {
                second[a * d + a][l] += k[l] * bend[a][l];
            }
        }
    }
}

/// A polynomial.
#[inline(always)]
fn horner<const ORDER: usize, const L: usize>(c: &[f64], y: &Lanes<L>) -> Jet<L> {
    let (mut value, mut first, mut second) = ([0.0; L], [0.0; L], [0.0; L]);
    for c in c.iter().rev() {
        for l in 0..L {
            if ORDER > 1 {
                second[l] = second[l] * y[l] + first[l];
            }
            if ORDER > 0 {
                first[l] = first[l] * y[l] + value[l];
            }
            value[l] = value[l] * y[l] + c;
        }
    }
    Jet { value, first, second: lanes(|l| 2.0 * second[l]) }
}

/// exp for arguments up to 700, to 2e-15; 0 below −700. Vectorised, unlike the library's.
#[inline(always)]
pub(super) fn exp<const L: usize>(x: &Lanes<L>) -> Lanes<L> {
    /// 1/n!, highest first.
    const TAYLOR: [f64; 13] = [
        1.0 / 479_001_600.0,
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    // 1.5·2⁵²: adding it rounds to an integer, which then stands in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let mut out = [0.0; L];
    for l in 0..L {
        let clamped = if x[l] > -700.0 { x[l] } else { -700.0 };
        let shifted = clamped * std::f64::consts::LOG2_E + ROUND;
        let k = shifted - ROUND;
        // ln 2 in two parts, the first with 32 bits, so that k times it is exact.
        let r = (clamped - k * 0.693_147_180_369_123_8) - k * 1.908_214_929_270_587_7e-10;
        let mut sum = TAYLOR[0];
        for c in &TAYLOR[1..] {
            sum = sum * r + c;
        }
        let power = f64::from_bits(shifted.to_bits().wrapping_add(1023) << 52);
        out[l] = if x[l] > -700.0 { sum * power } else { 0.0 };
    }
    out
}
