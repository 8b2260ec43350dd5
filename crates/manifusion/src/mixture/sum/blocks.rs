//! The sum of one component's kernels over the cells that a walk has chosen. On one sphere or one
//! torus four cells go side by side; products go cell by cell.

use pulp::{Simd, WithSimd};
use smallvec::SmallVec;

use super::lanes::{
    Lanes, chord2, cosine, gauss, lanes, map2, narrow, turn_towards, wide, wide_circle,
};
use super::{Component, TINY};
use crate::linalg::exp_lanes as exp;
use crate::mixture::radial::RadialForm;
use crate::mixture::space::{Shape, Space};
use crate::mixture::tree::CellWeights;

/// What is summed.
pub(super) struct Terms<'a> {
    pub(super) component: &'a Component,
    pub(super) weights: &'a CellWeights,
    /// The point, in internal coordinates.
    pub(super) x: &'a [f64],
    /// Cells with their masses.
    pub(super) cells: &'a [(u32, f64)],
}

/// Cells side by side.
const LANES: usize = 4;

/// The sum on one sphere of dimension D; with QUOTIENT, of unit quaternions up to sign. With the
/// instructions that the processor has.
pub(super) struct SphereSum<'a, const D: usize, const W: usize, const QUOTIENT: bool>(
    pub(super) Terms<'a>,
);

impl<const D: usize, const W: usize, const QUOTIENT: bool> WithSimd
    for SphereSum<'_, D, W, QUOTIENT>
{
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let Terms { component, weights, x, cells } = self.0;
        let x: [f64; W] = std::array::from_fn(|j| x[j]);
        let per_variance = component.per_variance[0];
        let mut value = [0.0; LANES];
        for cells in cells.chunks(LANES) {
            let mut c = [[0.0; LANES]; W];
            let (mut epsilon, mut weight) = ([0.0; LANES], [0.0; LANES]);
            for l in 0..LANES {
                // Lanes beyond the last cell repeat it without weight.
                let (index, mass) = cells[l.min(cells.len() - 1)];
                let i = index as usize;
                for j in 0..W {
                    c[j][l] = weights.inner[i * W + j];
                }
                epsilon[l] = weights.variance[i] * per_variance;
                weight[l] = if l < cells.len() { mass } else { 0.0 };
            }
            let k = match &component.forms[0] {
                RadialForm::Narrow { half_precision, q_max, poly } => {
                    if QUOTIENT {
                        turn_towards(&x, &mut c);
                    }
                    let mut q = chord2(&x, &c);
                    for l in 0..LANES {
                        weight[l] = if q[l] <= *q_max { weight[l] } else { 0.0 };
                        q[l] = q[l].min(*q_max);
                    }
                    let form = (*half_precision, *q_max, &poly[..]);
                    exp(&narrow::<LANES>(form, &q, &epsilon, D as f64))
                }
                RadialForm::Wide { value, change } => {
                    wide::<LANES>((value, change), &cosine(&x, &c), &epsilon, QUOTIENT)
                }
                RadialForm::Gauss { .. } => return 0.0,
            };
            for l in 0..LANES {
                value[l] += weight[l] * k[l];
            }
        }
        total(&value)
    }
}

/// The sum on a torus. With the instructions that the processor has.
pub(super) struct CirclesSum<'a> {
    pub(super) count: usize,
    pub(super) terms: Terms<'a>,
}

impl WithSimd for CirclesSum<'_> {
    type Output = f64;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> f64 {
        let Self { count, terms: Terms { component, weights, x, cells } } = self;
        let per_variance = component.per_variance[0];
        let width = 3 * count;
        let mut value = [0.0; LANES];
        for cells in cells.chunks(LANES) {
            // Lanes beyond the last cell repeat it without weight.
            let cell: [usize; LANES] =
                std::array::from_fn(|l| cells[l.min(cells.len() - 1)].0 as usize);
            let mut k: Lanes<LANES> = lanes(|l| if l < cells.len() { cells[l].1 } else { 0.0 });
            let epsilon = lanes(|l| weights.variance[cell[l]] * per_variance);
            let gather =
                |j: usize| -> Lanes<LANES> { lanes(|l| weights.inner[cell[l] * width + j]) };
            match &component.forms[0] {
                RadialForm::Gauss { precision, .. } => {
                    let log = gauss::<LANES>((*precision, None), &x[..count], gather, &epsilon);
                    k = map2(&k, &exp(&log), |k, e| k * e);
                }
                RadialForm::Wide { value, change } => {
                    for j in 0..count {
                        let own = (x[count + j], x[2 * count + j]);
                        let other = (&gather(count + j), &gather(2 * count + j));
                        let circle = wide_circle::<LANES>((value, change), own, other, &epsilon);
                        k = map2(&k, &circle, |k, p| k * p);
                    }
                }
                RadialForm::Narrow { .. } => return 0.0,
            }
            for l in 0..LANES {
                value[l] += k[l];
            }
        }
        total(&value)
    }
}

#[inline(always)]
fn total(lanes: &Lanes<LANES>) -> f64 {
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3])
}

/// The sum on any product. Not part of its caller, whose walk over the cells is a hot loop itself.
#[inline(never)]
pub(super) fn product_sum(space: &Space, terms: &Terms<'_>) -> f64 {
    let Terms { component, weights, x, cells } = *terms;
    let mut turned: SmallVec<[Lanes<1>; 16]> = SmallVec::new();
    let mut sum = 0.0;
    'cells: for &(index, mass) in cells {
        let i = index as usize;
        let centre = &weights.inner[i * space.width..(i + 1) * space.width];
        let (mut factor, mut exponent) = (mass, 0.0);
        for (b, block) in space.blocks.iter().enumerate() {
            let (x, c) = (&x[block.inner.clone()], &centre[block.inner.clone()]);
            let mut c = c.as_chunks::<1>().0;
            let epsilon = [weights.variance[i] * component.per_variance[b]];
            match (&component.forms[b], block.shape) {
                (RadialForm::Gauss { precision, .. }, Shape::Circles { count }) => {
                    let log = gauss::<1>((*precision, None), &x[..count], |j| c[j], &epsilon);
                    exponent += log[0];
                }
                (RadialForm::Gauss { precision, decay }, _) => {
                    let log = gauss::<1>((*precision, Some(*decay)), x, |j| c[j], &epsilon);
                    exponent += log[0];
                }
                (RadialForm::Wide { value, change }, Shape::Circles { count }) => {
                    for j in 0..count {
                        let own = (x[count + j], x[2 * count + j]);
                        let other = (&c[count + j], &c[2 * count + j]);
                        factor *= wide_circle::<1>((value, change), own, other, &epsilon)[0];
                    }
                }
                (
                    RadialForm::Narrow { half_precision, q_max, poly },
                    Shape::Sphere { dim, quotient },
                ) => {
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
                    let form = (*half_precision, *q_max, &poly[..]);
                    exponent += narrow::<1>(form, &q, &epsilon, dim as f64)[0];
                }
                (RadialForm::Wide { value, change }, Shape::Sphere { quotient, .. }) => {
                    let k = wide::<1>((value, change), &cosine(x, c), &epsilon, quotient);
                    factor *= k[0].max(TINY);
                }
                _ => {}
            }
        }
        sum += factor * exponent.exp();
    }
    sum
}
