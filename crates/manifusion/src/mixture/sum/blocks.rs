//! The sum of one component's kernels over the cells that a walk has chosen: value, gradient and Hessian.

use pulp::{Simd, WithSimd};

use super::{Component, Order, Sums, TINY, wrapped};
use crate::linalg::{dot, scratch};
use crate::mixture::radial::{Form, horner};
use crate::mixture::space::{Point, QUATERNION_SCALE, Shape, Space};
use crate::mixture::tree::View;

/// What is summed, and where to.
pub(super) struct Terms<'a> {
    pub(super) component: &'a Component,
    pub(super) view: &'a View,
    pub(super) point: &'a Point,
    /// Cells with their masses.
    pub(super) cells: &'a [(u32, f64)],
    pub(super) order: Order,
    pub(super) sums: &'a mut Sums,
}

/// The sum on one sphere of dimension D (of unit quaternions, up to sign, with QUOTIENT), four cells at a time.
pub(super) struct SphereSum<'a, const D: usize, const W: usize, const QUOTIENT: bool>(
    pub(super) Terms<'a>,
);

const LANES: usize = 4;
type Lanes = [f64; LANES];

impl<const D: usize, const W: usize, const QUOTIENT: bool> WithSimd
    for SphereSum<'_, D, W, QUOTIENT>
{
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        match self.0.order {
            Order::Value => self.run::<0>(),
            Order::Score => self.run::<1>(),
            Order::Hessian => self.run::<2>(),
        }
    }
}

impl<const D: usize, const W: usize, const QUOTIENT: bool> SphereSum<'_, D, W, QUOTIENT> {
    #[inline(always)]
    fn run<const ORDER: usize>(self) {
        let Terms { component, view, point, cells, sums, .. } = self.0;
        let x: [f64; W] = std::array::from_fn(|j| point.inner[j]);
        let frame: [[f64; W]; D] =
            std::array::from_fn(|a| std::array::from_fn(|j| point.frame[a * W + j]));
        let per_variance = component.per_variance[0];
        let mut value = [0.0; LANES];
        let mut first = [[0.0; LANES]; D];
        let mut second = [[[0.0; LANES]; D]; D];
        for cells in cells.chunks(LANES) {
            let mut c = [[0.0; LANES]; W];
            let (mut epsilon, mut weight) = ([0.0; LANES], [0.0; LANES]);
            for l in 0..LANES {
                // Lanes beyond the last cell repeat it without weight.
                let (index, mass) = cells[l.min(cells.len() - 1)];
                let i = index as usize;
                for j in 0..W {
                    c[j][l] = view.inner[i * W + j];
                }
                epsilon[l] = view.variance[i] * per_variance;
                weight[l] = if l < cells.len() { mass } else { 0.0 };
            }
            // K and its first and second derivative in t = ⟨x, c⟩.
            let (k, k1, k2, t);
            match &component.forms[0] {
                Form::Narrow { half_precision, q_max, poly } => {
                    if QUOTIENT {
                        let mut t = [0.0; LANES];
                        for j in 0..W {
                            for l in 0..LANES {
                                t[l] += x[j] * c[j][l];
                            }
                        }
                        for j in 0..W {
                            for l in 0..LANES {
                                c[j][l] = if t[l] < 0.0 { -c[j][l] } else { c[j][l] };
                            }
                        }
                    }
                    let mut q = [0.0; LANES];
                    for j in 0..W {
                        for l in 0..LANES {
                            q[l] += (x[j] - c[j][l]) * (x[j] - c[j][l]);
                        }
                    }
                    for l in 0..LANES {
                        weight[l] = if q[l] <= *q_max { weight[l] } else { 0.0 };
                        q[l] = q[l].min(*q_max);
                    }
                    let per_q = 2.0 / q_max;
                    let y = q.map(|q| per_q * q - 1.0);
                    let (p, p1, p2) = horner_lanes::<ORDER>(poly, &y);
                    let mut exponent = [0.0; LANES];
                    let (mut l1, mut l2) = ([0.0; LANES], [0.0; LANES]);
                    for l in 0..LANES {
                        // The variance is (1 + ε)V, to second order in ε.
                        let e = epsilon[l];
                        let precision = half_precision * (1.0 - e + e * e);
                        exponent[l] =
                            p[l] - precision * q[l] - 0.5 * D as f64 * e * (1.0 - 0.5 * e);
                        l1[l] = per_q * p1[l] - precision;
                        l2[l] = per_q * per_q * p2[l];
                    }
                    let e = exp_lanes(&exponent);
                    t = q.map(|q| 1.0 - 0.5 * q);
                    k = map2(&weight, &e, |w, e| w * e);
                    // dq/dt = −2
                    k1 = map2(&k, &l1, |k, l1| -2.0 * l1 * k);
                    let mut both = [0.0; LANES];
                    for l in 0..LANES {
                        both[l] = 4.0 * (l1[l] * l1[l] + l2[l]) * k[l];
                    }
                    k2 = both;
                }
                Form::Wide { value, change } => {
                    let mut cosine = [0.0; LANES];
                    for j in 0..W {
                        for l in 0..LANES {
                            cosine[l] += x[j] * c[j][l];
                        }
                    }
                    let y = if QUOTIENT { cosine.map(|t| t * t) } else { cosine };
                    let (mut p, mut p1, mut p2) = horner_lanes::<ORDER>(value, &y);
                    if epsilon.iter().any(|e| *e > 0.0) {
                        let (g, g1, g2) = horner_lanes::<ORDER>(change, &y);
                        for l in 0..LANES {
                            p[l] += epsilon[l] * g[l];
                            p1[l] += epsilon[l] * g1[l];
                            p2[l] += epsilon[l] * g2[l];
                        }
                    }
                    if QUOTIENT {
                        // d/dt of a function of t²
                        for l in 0..LANES {
                            p2[l] = 2.0 * p1[l] + 4.0 * y[l] * p2[l];
                            p1[l] *= 2.0 * cosine[l];
                        }
                    }
                    t = cosine;
                    k = map2(&weight, &p, |w, p| w * p);
                    k1 = map2(&weight, &p1, |w, p| w * p);
                    k2 = map2(&weight, &p2, |w, p| w * p);
                }
                Form::Gauss { .. } => return,
            }
            for l in 0..LANES {
                value[l] += k[l];
            }
            if ORDER == 0 {
                continue;
            }
            let mut along = [[0.0; LANES]; D];
            for a in 0..D {
                for j in 0..W {
                    for l in 0..LANES {
                        along[a][l] += frame[a][j] * c[j][l];
                    }
                }
                for l in 0..LANES {
                    first[a][l] += k1[l] * along[a][l];
                }
            }
            if ORDER == 2 {
                for a in 0..D {
                    for b in 0..=a {
                        for l in 0..LANES {
                            second[a][b][l] += k2[l] * along[a][l] * along[b][l];
                        }
                    }
                    for l in 0..LANES {
                        second[a][a][l] -= t[l] * k1[l];
                    }
                }
            }
        }
        // Lengths of rotations are √8 times those of quaternions.
        let unit: f64 = if QUOTIENT { 1.0 / QUATERNION_SCALE } else { 1.0 };
        sums.value = total(&value);
        for a in 0..D {
            sums.first[a] = unit * total(&first[a]);
            for b in 0..=a {
                sums.second[a * D + b] = unit * unit * total(&second[a][b]);
            }
        }
    }
}

/// The sum on a torus of at most [`MAX_CIRCLES`] circles, four cells at a time.
pub(super) struct CirclesSum<'a> {
    pub(super) count: usize,
    pub(super) terms: Terms<'a>,
}

pub(super) const MAX_CIRCLES: usize = 8;

impl WithSimd for CirclesSum<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        match self.terms.order {
            Order::Value => self.run::<0>(),
            Order::Score => self.run::<1>(),
            Order::Hessian => self.run::<2>(),
        }
    }
}

impl CirclesSum<'_> {
    #[inline(always)]
    fn run<const ORDER: usize>(self) {
        let Self { count, terms: Terms { component, view, point, cells, sums, .. } } = self;
        let per_variance = component.per_variance[0];
        let (width, x) = (3 * count, &point.inner[..3 * count]);
        let mut value = [0.0; LANES];
        let mut first = [[0.0; LANES]; MAX_CIRCLES];
        let mut second = [[[0.0; LANES]; MAX_CIRCLES]; MAX_CIRCLES];
        for cells in cells.chunks(LANES) {
            // Lanes beyond the last cell repeat it without weight.
            let cell: [usize; LANES] =
                std::array::from_fn(|l| cells[l.min(cells.len() - 1)].0 as usize);
            let mut k: Lanes =
                std::array::from_fn(|l| if l < cells.len() { cells[l].1 } else { 0.0 });
            let epsilon = cell.map(|i| view.variance[i] * per_variance);
            let gather = |j: usize| -> Lanes { cell.map(|i| view.inner[i * width + j]) };
            // ∇ log K and the diagonal of its derivative.
            let (mut slope, mut bend) = ([[0.0; LANES]; MAX_CIRCLES], [[0.0; LANES]; MAX_CIRCLES]);
            match &component.forms[0] {
                Form::Gauss { precision, .. } => {
                    let precision = epsilon.map(|e| precision * (1.0 - e + e * e));
                    let mut q = [0.0; LANES];
                    for j in 0..count {
                        let c = gather(j);
                        for l in 0..LANES {
                            let delta = wrapped(x[j] - c[l]);
                            q[l] += delta * delta;
                            slope[j][l] = -precision[l] * delta;
                            bend[j][l] = -precision[l];
                        }
                    }
                    let exponent = std::array::from_fn(|l| {
                        let e = epsilon[l];
                        -0.5 * (precision[l] * q[l] + count as f64 * e * (1.0 - 0.5 * e))
                    });
                    k = map2(&k, &exp_lanes(&exponent), |k, e| k * e);
                }
                Form::Wide { value, change } => {
                    let merged = epsilon.iter().any(|e| *e > 0.0);
                    for j in 0..count {
                        let (cos, sin) = (gather(count + j), gather(2 * count + j));
                        let (own_cos, own_sin) = (x[count + j], x[2 * count + j]);
                        let t = map2(&cos, &sin, |cos, sin| own_cos * cos + own_sin * sin);
                        let sin = map2(&cos, &sin, |cos, sin| own_sin * cos - own_cos * sin);
                        let (mut p, mut p1, mut p2) = horner_lanes::<ORDER>(value, &t);
                        if merged {
                            let (g, g1, g2) = horner_lanes::<ORDER>(change, &t);
                            for l in 0..LANES {
                                p[l] += epsilon[l] * g[l];
                                p1[l] += epsilon[l] * g1[l];
                                p2[l] += epsilon[l] * g2[l];
                            }
                        }
                        for l in 0..LANES {
                            let p = if p[l] > TINY { p[l] } else { TINY };
                            k[l] *= p;
                            slope[j][l] = -sin[l] * p1[l] / p;
                            bend[j][l] = (sin[l] * sin[l] * p2[l] - t[l] * p1[l]) / p
                                - slope[j][l] * slope[j][l];
                        }
                    }
                }
                Form::Narrow { .. } => return,
            }
            for l in 0..LANES {
                value[l] += k[l];
            }
            if ORDER == 0 {
                continue;
            }
            for a in 0..count {
                let scaled = map2(&k, &slope[a], |k, v| k * v);
                for l in 0..LANES {
                    first[a][l] += scaled[l];
                }
                if ORDER == 2 {
                    for b in 0..=a {
                        for l in 0..LANES {
                            second[a][b][l] += scaled[l] * slope[b][l];
                        }
                    }
                    for l in 0..LANES {
                        second[a][a][l] += k[l] * bend[a][l];
                    }
                }
            }
        }
        sums.value = total(&value);
        for a in 0..count {
            sums.first[a] = total(&first[a]);
            for b in 0..=a {
                sums.second[a * count + b] = total(&second[a][b]);
            }
        }
    }
}

#[inline(always)]
fn total(lanes: &Lanes) -> f64 {
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

#[inline(always)]
fn map2(a: &Lanes, b: &Lanes, f: impl Fn(f64, f64) -> f64) -> Lanes {
    std::array::from_fn(|l| f(a[l], b[l]))
}

/// Value and, up to ORDER, derivatives of a polynomial.
#[inline(always)]
fn horner_lanes<const ORDER: usize>(c: &[f64], y: &Lanes) -> (Lanes, Lanes, Lanes) {
    let (mut value, mut first, mut second) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    for c in c.iter().rev() {
        for l in 0..LANES {
            if ORDER > 1 {
                second[l] = second[l] * y[l] + first[l];
            }
            if ORDER > 0 {
                first[l] = first[l] * y[l] + value[l];
            }
            value[l] = value[l] * y[l] + c;
        }
    }
    (value, first, second.map(|v| 2.0 * v))
}

/// exp for arguments up to 700, to 2e-15; 0 below −700. Vectorised, unlike the library's.
#[inline(always)]
fn exp_lanes(x: &Lanes) -> Lanes {
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
    let mut out = [0.0; LANES];
    for l in 0..LANES {
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

/// K relative to the peak at ε = 0, d log K/dq and d² log K/dq²; the variance is (1 + ε)V, to second order in ε.
#[inline]
fn narrow(
    half_precision: f64,
    q_max: f64,
    poly: &[f64],
    q: f64,
    epsilon: f64,
    dim: f64,
) -> (f64, f64, f64) {
    let per_q = 2.0 / q_max;
    let (c, c1, c2) = horner(poly, per_q * q - 1.0);
    let precision = half_precision * (1.0 - epsilon + epsilon * epsilon);
    let spread = 0.5 * dim * epsilon * (1.0 - 0.5 * epsilon);
    ((c - precision * q - spread).exp(), per_q * c1 - precision, per_q * per_q * c2)
}

/// K relative to the peak at ε = 0, and its derivatives in t.
#[inline]
fn wide(value: &[f64], change: &[f64], t: f64, epsilon: f64, quotient: bool) -> (f64, f64, f64) {
    let y = if quotient { t * t } else { t };
    let (mut k, mut k1, mut k2) = horner(value, y);
    if epsilon > 0.0 {
        let (g, g1, g2) = horner(change, y);
        k += epsilon * g;
        k1 += epsilon * g1;
        k2 += epsilon * g2;
    }
    if quotient {
        // d/dt of a function of t²
        k2 = 2.0 * k1 + 4.0 * y * k2;
        k1 *= 2.0 * t;
    }
    (k, k1, k2)
}

/// The sum on any product.
pub(super) fn product_sum(space: &Space, terms: Terms<'_>) {
    let Terms { component, view, point, cells, order, sums } = terms;
    let d = space.dim;
    // ∇ log K, and the diagonal of its derivative; a sphere block has a full square more.
    let (mut slope, mut bend) = (scratch(d), scratch(d));
    let mut along = scratch(d);
    'cells: for &(index, mass) in cells {
        let i = index as usize;
        let centre = &view.inner[i * space.width..(i + 1) * space.width];
        let (mut factor, mut exponent) = (mass, 0.0);
        let mut squares: smallvec::SmallVec<[f64; 4]> = smallvec::SmallVec::new();
        for (b, block) in space.blocks.iter().enumerate() {
            let (x, c) = (&point.inner[block.inner.clone()], &centre[block.inner.clone()]);
            let at = block.tangent.clone();
            let epsilon = view.variance[i] * component.per_variance[b];
            let mut square = 0.0;
            match (&component.forms[b], block.shape) {
                (Form::Gauss { precision, decay }, shape) => {
                    let precision = precision * (1.0 - epsilon + epsilon * epsilon);
                    let circles = matches!(shape, Shape::Circles { .. });
                    let mut q = 0.0;
                    for (j, a) in at.clone().enumerate() {
                        let delta =
                            if circles { wrapped(x[j] - c[j]) } else { x[j] - decay * c[j] };
                        q += delta * delta;
                        slope[a] = -precision * delta;
                        bend[a] = -precision;
                    }
                    exponent -=
                        0.5 * (precision * q + at.len() as f64 * epsilon * (1.0 - 0.5 * epsilon));
                }
                (Form::Wide { value, change }, Shape::Circles { count }) => {
                    for (j, a) in at.clone().enumerate() {
                        let (cos, sin) = (c[count + j], c[2 * count + j]);
                        let (own_cos, own_sin) = (x[count + j], x[2 * count + j]);
                        let t = own_cos * cos + own_sin * sin;
                        let sin = own_sin * cos - own_cos * sin;
                        let (k, k1, k2) = wide(value, change, t, epsilon, false);
                        let k = k.max(TINY);
                        factor *= k;
                        slope[a] = -sin * k1 / k;
                        bend[a] = (sin * sin * k2 - t * k1) / k - slope[a] * slope[a];
                    }
                }
                (form, Shape::Sphere { dim, quotient }) => {
                    let unit = if quotient { 1.0 / QUATERNION_SCALE } else { 1.0 };
                    let mut t = dot(x, c);
                    let (sign, l1, l2);
                    match form {
                        Form::Narrow { half_precision, q_max, poly } => {
                            sign = if quotient && t < 0.0 { -1.0 } else { 1.0 };
                            let q: f64 = x.iter().zip(c).map(|(x, c)| (x - sign * c).powi(2)).sum();
                            if q > *q_max {
                                continue 'cells;
                            }
                            t = 1.0 - 0.5 * q;
                            let (k, q1, q2) =
                                narrow(*half_precision, *q_max, poly, q, epsilon, dim as f64);
                            factor *= k;
                            (l1, l2) = (-2.0 * q1, 4.0 * q2);
                        }
                        Form::Wide { value, change } => {
                            sign = 1.0;
                            let (k, k1, k2) = wide(value, change, t, epsilon, quotient);
                            let k = k.max(TINY);
                            factor *= k;
                            (l1, l2) = (k1 / k, k2 / k - (k1 / k).powi(2));
                        }
                        Form::Gauss { .. } => continue,
                    }
                    square = l2;
                    let frame = &point.frame[block.frame..];
                    for (a, e) in at.clone().zip(frame.chunks_exact(dim + 1)) {
                        along[a] = sign * unit * dot(e, c);
                        slope[a] = l1 * along[a];
                        bend[a] = -t * l1 * unit * unit;
                    }
                }
                _ => {}
            }
            squares.push(square);
        }
        let k = factor * exponent.exp();
        sums.value += k;
        if order == Order::Value {
            continue;
        }
        crate::linalg::axpy(k, &slope, &mut sums.first);
        if order == Order::Hessian {
            for a in 0..d {
                let scaled = k * slope[a];
                for (second, slope) in sums.second[a * d..=a * d + a].iter_mut().zip(&slope) {
                    *second += scaled * slope;
                }
                sums.second[a * d + a] += k * bend[a];
            }
            for (block, square) in space.blocks.iter().zip(&squares) {
                if let Shape::Sphere { .. } = block.shape {
                    for a in block.tangent.clone() {
                        for b in block.tangent.start..=a {
                            sums.second[a * d + b] += k * square * along[a] * along[b];
                        }
                    }
                }
            }
        }
    }
}
