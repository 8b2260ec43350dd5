//! The sum of one component's kernels over the cells that a walk has chosen: value, gradient and
//! Hessian. On one sphere or one torus four cells go side by side; products go cell by cell.

use pulp::{Simd, WithSimd};
use smallvec::{SmallVec, smallvec};

use super::lanes::{
    Lanes, add_derivatives, chord2, cosine, exp, gauss, lanes, map2, narrow, turn_towards, wide,
    wide_circle,
};
use super::{Component, Order, Sums, TINY};
use crate::mixture::radial::RadialForm;
use crate::mixture::space::{Point, QUATERNION_SCALE, Shape, Space};
use crate::mixture::tree::CellWeights;

/// What is summed, and where to.
pub(super) struct Terms<'a> {
    pub(super) component: &'a Component,
    pub(super) view: &'a CellWeights,
    pub(super) point: &'a Point,
    /// Cells with their masses.
    pub(super) cells: &'a [(u32, f64)],
    pub(super) order: Order,
    pub(super) sums: &'a mut Sums,
}

/// A way to fill the sums of some terms, compiled once for each order of derivatives.
pub(super) trait Sum: Sized {
    fn order(&self) -> Order;

    fn run<const ORDER: usize>(self);

    #[inline(always)]
    fn fill(self) {
        match self.order() {
            Order::Value => self.run::<0>(),
            Order::Score => self.run::<1>(),
            Order::Hessian => self.run::<2>(),
        }
    }
}

/// A sum with the instructions that the processor has.
pub(super) struct Vectorised<S>(pub(super) S);

impl<T: Sum> WithSimd for Vectorised<T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.0.fill();
    }
}

/// Cells side by side.
const LANES: usize = 4;

/// The sum on one sphere of dimension D; with QUOTIENT, of unit quaternions up to sign.
pub(super) struct SphereSum<'a, const D: usize, const W: usize, const QUOTIENT: bool>(
    pub(super) Terms<'a>,
);

impl<const D: usize, const W: usize, const QUOTIENT: bool> Sum for SphereSum<'_, D, W, QUOTIENT> {
    #[inline(always)]
    fn order(&self) -> Order {
        self.0.order
    }

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
                RadialForm::Narrow { half_precision, q_max, poly } => {
                    if QUOTIENT {
                        turn_towards(&x, &mut c);
                    }
                    let mut q = chord2(&x, &c);
                    for l in 0..LANES {
                        weight[l] = if q[l] <= *q_max { weight[l] } else { 0.0 };
                        q[l] = q[l].min(*q_max);
                    }
                    t = lanes(|l| 1.0 - 0.5 * q[l]);
                    let form = (*half_precision, *q_max, &poly[..]);
                    let log = narrow::<ORDER, LANES>(form, &q, &epsilon, D as f64);
                    k = map2(&weight, &exp(&log.value), |w, e| w * e);
                    k1 = map2(&k, &log.first, |k, l1| l1 * k);
                    k2 = lanes(|l| (log.first[l] * log.first[l] + log.second[l]) * k[l]);
                }
                RadialForm::Wide { value, change } => {
                    t = cosine(&x, &c);
                    let p = wide::<ORDER, LANES>((value, change), &t, &epsilon, QUOTIENT);
                    k = map2(&weight, &p.value, |w, p| w * p);
                    k1 = map2(&weight, &p.first, |w, p| w * p);
                    k2 = map2(&weight, &p.second, |w, p| w * p);
                }
                RadialForm::Gauss { .. } => return,
            }
            for l in 0..LANES {
                value[l] += k[l];
            }
            if ORDER == 0 {
                continue;
            }
            let mut along = [[0.0; LANES]; D];
            for a in 0..D {
                along[a] = cosine(&frame[a], &c);
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

/// The sum on a torus of at most [`MAX_CIRCLES`] circles.
pub(super) struct CirclesSum<'a> {
    pub(super) count: usize,
    pub(super) terms: Terms<'a>,
}

pub(super) const MAX_CIRCLES: usize = 8;

impl Sum for CirclesSum<'_> {
    #[inline(always)]
    fn order(&self) -> Order {
        self.terms.order
    }

    #[inline(always)]
    fn run<const ORDER: usize>(self) {
        let Self { count, terms: Terms { component, view, point, cells, sums, .. } } = self;
        let per_variance = component.per_variance[0];
        let (width, x) = (3 * count, &point.inner[..3 * count]);
        let mut value = [0.0; LANES];
        let mut first = [[0.0; LANES]; MAX_CIRCLES];
        let mut second = [[0.0; LANES]; MAX_CIRCLES * MAX_CIRCLES];
        for cells in cells.chunks(LANES) {
            // Lanes beyond the last cell repeat it without weight.
            let cell: [usize; LANES] =
                std::array::from_fn(|l| cells[l.min(cells.len() - 1)].0 as usize);
            let mut k: Lanes<LANES> = lanes(|l| if l < cells.len() { cells[l].1 } else { 0.0 });
            let epsilon = lanes(|l| view.variance[cell[l]] * per_variance);
            let gather = |j: usize| -> Lanes<LANES> { lanes(|l| view.inner[cell[l] * width + j]) };
            // ∇ log K and the diagonal of its derivative.
            let (mut slope, mut bend) = ([[0.0; LANES]; MAX_CIRCLES], [[0.0; LANES]; MAX_CIRCLES]);
            let (slope, bend) = (&mut slope[..count], &mut bend[..count]);
            match &component.forms[0] {
                RadialForm::Gauss { precision, .. } => {
                    let own = &x[..count];
                    let form = (*precision, None);
                    let log = gauss::<ORDER, LANES>(form, own, gather, &epsilon, slope, bend);
                    k = map2(&k, &exp(&log), |k, e| k * e);
                }
                RadialForm::Wide { value, change } => {
                    for j in 0..count {
                        let own = (x[count + j], x[2 * count + j]);
                        let (cos, sin) = (gather(count + j), gather(2 * count + j));
                        let circle = wide_circle::<ORDER, LANES>(
                            (value, change),
                            own,
                            (&cos, &sin),
                            &epsilon,
                        );
                        k = map2(&k, &circle.value, |k, p| k * p);
                        if ORDER > 0 {
                            (slope[j], bend[j]) = (circle.first, circle.second);
                        }
                    }
                }
                RadialForm::Narrow { .. } => return,
            }
            for l in 0..LANES {
                value[l] += k[l];
            }
            if ORDER > 0 {
                add_derivatives::<ORDER, LANES>(&k, slope, bend, &mut first, &mut second);
            }
        }
        sums.value = total(&value);
        for a in 0..count {
            sums.first[a] = total(&first[a]);
            for b in 0..=a {
                sums.second[a * count + b] = total(&second[a * count + b]);
            }
        }
    }
}

#[inline(always)]
fn total(lanes: &Lanes<LANES>) -> f64 {
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

/// The sum on any product.
pub(super) struct ProductSum<'a> {
    pub(super) space: &'a Space,
    pub(super) terms: Terms<'a>,
}

impl Sum for ProductSum<'_> {
    fn order(&self) -> Order {
        self.terms.order
    }

    // Not part of its caller, whose walk over the cells is a hot loop itself.
    #[inline(never)]
    fn run<const ORDER: usize>(self) {
        let Self { space, terms: Terms { component, view, point, cells, sums, .. } } = self;
        let d = space.dim;
        // ∇ log K, and the diagonal of its derivative; a sphere block has a full square more.
        let mut slope: SmallVec<[Lanes<1>; 64]> = smallvec![[0.0]; d];
        let (mut bend, mut along) = (slope.clone(), slope.clone());
        let mut turned: SmallVec<[Lanes<1>; 16]> = SmallVec::new();
        'cells: for &(index, mass) in cells {
            let i = index as usize;
            let centre = &view.inner[i * space.width..(i + 1) * space.width];
            let (mut factor, mut exponent) = (mass, 0.0);
            let mut squares: SmallVec<[f64; 4]> = SmallVec::new();
            for (b, block) in space.blocks.iter().enumerate() {
                let (x, c) = (&point.inner[block.inner.clone()], &centre[block.inner.clone()]);
                let mut c = c.as_chunks::<1>().0;
                let at = block.tangent.clone();
                let epsilon = [view.variance[i] * component.per_variance[b]];
                let mut square = 0.0;
                match (&component.forms[b], block.shape) {
                    (RadialForm::Gauss { precision, decay }, shape) => {
                        let circles = matches!(shape, Shape::Circles { .. });
                        let form = (*precision, (!circles).then_some(*decay));
                        let (slope, bend) = (&mut slope[at.clone()], &mut bend[at]);
                        exponent += gauss::<ORDER, 1>(form, x, |j| c[j], &epsilon, slope, bend)[0];
                    }
                    (RadialForm::Wide { value, change }, Shape::Circles { count }) => {
                        for (j, a) in at.enumerate() {
                            let own = (x[count + j], x[2 * count + j]);
                            let other = (&c[count + j], &c[2 * count + j]);
                            let circle =
                                wide_circle::<ORDER, 1>((value, change), own, other, &epsilon);
                            factor *= circle.value[0];
                            (slope[a], bend[a]) = (circle.first, circle.second);
                        }
                    }
                    (form, Shape::Sphere { dim, quotient }) => {
                        // Derivatives of log K in t.
                        let (t, l1, l2);
                        match form {
                            RadialForm::Narrow { half_precision, q_max, poly } => {
                                if quotient {
                                    turned.clear();
                                    turned.extend_from_slice(c);
                                    turn_towards(x, &mut turned);
                                    c = &turned;
                                }
                                let q = chord2(x, c);
                                if q[0] > *q_max {
                                    continue 'cells;
                                }
                                t = 1.0 - 0.5 * q[0];
                                let form = (*half_precision, *q_max, &poly[..]);
                                let log = narrow::<ORDER, 1>(form, &q, &epsilon, dim as f64);
                                factor *= log.value[0].exp();
                                (l1, l2) = (log.first[0], log.second[0]);
                            }
                            RadialForm::Wide { value, change } => {
                                let cosine = cosine(x, c);
                                let p =
                                    wide::<ORDER, 1>((value, change), &cosine, &epsilon, quotient);
                                t = cosine[0];
                                let k = p.value[0].max(TINY);
                                factor *= k;
                                l1 = p.first[0] / k;
                                l2 = p.second[0] / k - l1 * l1;
                            }
                            RadialForm::Gauss { .. } => continue,
                        }
                        square = l2;
                        let unit = if quotient { 1.0 / QUATERNION_SCALE } else { 1.0 };
                        let frame = &point.frame[block.frame..];
                        for (a, e) in at.zip(frame.chunks_exact(dim + 1)) {
                            along[a] = cosine(e, c).map(|v| unit * v);
                            slope[a] = along[a].map(|v| l1 * v);
                            bend[a] = [-t * l1 * unit * unit];
                        }
                    }
                    _ => {}
                }
                squares.push(square);
            }
            let k = factor * exponent.exp();
            sums.value += k;
            if ORDER == 0 {
                continue;
            }
            let (first, second) = (sums.first.as_chunks_mut().0, sums.second.as_chunks_mut().0);
            add_derivatives::<ORDER, 1>(&[k], &slope, &bend, first, second);
            if ORDER == 2 {
                for (block, square) in space.blocks.iter().zip(&squares) {
                    if let Shape::Sphere { .. } = block.shape {
                        for a in block.tangent.clone() {
                            for b in block.tangent.start..=a {
                                sums.second[a * d + b] += k * square * along[a][0] * along[b][0];
                            }
                        }
                    }
                }
            }
        }
    }
}
