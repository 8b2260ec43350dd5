//! One level of the Strassen–Winograd product: seven products of quadrants instead of eight.
//!
//! Rows, depth and columns are cut in halves. With quadrants a, b and c of the operands and of the
//! result,
//!
//! ```text
//! s1 = a21 + a22   s2 = s1 − a11   s3 = a11 − a21   s4 = a12 − s2
//! t1 = b12 − b11   t2 = b22 − t1   t3 = b22 − b12   t4 = t2 − b21
//! c11 = a11·b11 + a12·b21          u = a11·b11 + s2·t2
//! c12 = u + s1·t1 + s4·b22         c21 = u + s3·t3 − a22·t4         c22 = u + s3·t3 + s1·t1
//! ```
//!
//! The sums of the weights are packed once per update, those of a layer's rows are formed once
//! and serve both the product and the gradient of the weights, and those of the result happen
//! while a tile is in registers. Rounding errors are those of a sum of a few terms of the size of
//! the largest: rows that are paired should have the same scale.

use pulp::{Simd, WithSimd};
use std::ops::Range;

use super::weight_gradient::{TakeRow, add_line, product};
use super::{LANES, Line, Sink, multiply_into, registers};
use crate::nn::real::Real;

/// Two ranges of rows of equal length that form the halves of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPair {
    /// The first row of the first half.
    pub first: usize,
    /// The first row of the second half.
    pub second: usize,
    /// Rows of a half.
    pub rows: usize,
}

/// A matrix of rows by panels, its halves, and the four sums of its quadrants.
#[derive(Clone, Copy, Debug)]
pub struct Quadrants<'a, T> {
    /// The matrix, `stride` lines a panel.
    pub lines: &'a [Line<T>],
    /// Lines of a panel.
    pub stride: usize,
    /// Panels of a half of the columns.
    pub half: usize,
    /// The panel that the second half of the columns starts with: `half`, or more if these are some
    /// panels of each half of a wider matrix.
    pub second: usize,
    /// The rows of the halves.
    pub pair: RowPair,
    /// s1 … s4, each by panels of `pair.rows` lines.
    pub sums: &'a [Line<T>],
}

impl<'a, T: Real> Quadrants<'a, T> {
    /// Lines from a quadrant's first on; `row` and `column` are 0 or 1.
    fn quadrant(&self, row: usize, column: usize) -> &'a [Line<T>] {
        let first = [self.pair.first, self.pair.second][row];
        &self.lines[column * self.second * self.stride + first..]
    }

    /// The lines of one panel of a quadrant.
    fn quadrant_panel(&self, row: usize, column: usize, panel: usize) -> &'a [Line<T>] {
        &self.quadrant(row, column)[panel * self.stride..][..self.pair.rows]
    }

    /// One of s1 … s4, counted from 1.
    fn sum(&self, which: usize) -> &'a [Line<T>] {
        let size = self.half * self.pair.rows;
        &self.sums[(which - 1) * size..which * size]
    }

    /// The lines of one panel of s1 … s4.
    fn sum_panel(&self, which: usize, panel: usize) -> &'a [Line<T>] {
        &self.sum(which)[panel * self.pair.rows..][..self.pair.rows]
    }
}

/// Writes s1 … s4 of the quadrants a11, a12, a21, a22, given by the first lines of each;
/// a quadrant has `stride` lines from panel to panel, a sum `rows`.
pub(crate) fn quadrant_sums<T: Real>(
    quadrants: [&[Line<T>]; 4],
    stride: usize,
    rows: usize,
    sums: &mut [Line<T>],
) {
    pulp::Arch::new().dispatch(QuadrantSums { quadrants, stride, rows, sums });
}

struct QuadrantSums<'a, T> {
    quadrants: [&'a [Line<T>]; 4],
    stride: usize,
    rows: usize,
    sums: &'a mut [Line<T>],
}

impl<T: Real> WithSimd for QuadrantSums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { quadrants, stride, rows, sums } = self;
        let (low, high) = sums.split_at_mut(sums.len() / 2);
        let (s1, s2) = low.split_at_mut(low.len() / 2);
        let (s3, s4) = high.split_at_mut(high.len() / 2);
        for panel in 0..s1.len() / rows {
            let [a11, a12, a21, a22] = quadrants.map(|a| &a[panel * stride..][..rows]);
            let place = panel * rows..(panel + 1) * rows;
            let (s1, s2) = (&mut s1[place.clone()], &mut s2[place.clone()]);
            let (s3, s4) = (&mut s3[place.clone()], &mut s4[place]);
            for r in 0..rows {
                let [a11, a12] = [&a11[r], &a12[r]].map(|a| T::vectors::<S>(&a.0));
                let [a21, a22] = [&a21[r], &a22[r]].map(|a| T::vectors::<S>(&a.0));
                for v in 0..const { registers::<T, S>() } {
                    let sum = T::plus(simd, a21[v], a22[v]);
                    let less = T::minus(simd, sum, a11[v]);
                    T::vectors_mut::<S>(&mut s1[r].0)[v] = sum;
                    T::vectors_mut::<S>(&mut s2[r].0)[v] = less;
                    T::vectors_mut::<S>(&mut s3[r].0)[v] = T::minus(simd, a11[v], a21[v]);
                    T::vectors_mut::<S>(&mut s4[r].0)[v] = T::minus(simd, a12[v], less);
                }
            }
        }
    }
}

/// Two panels of weights, the second half the columns further, with the sums of their quadrants.
#[derive(Clone, Copy, Debug)]
pub struct WeightPanels<'a, T> {
    /// b11 above b21, a line per unit of depth.
    pub first: &'a [Line<T>],
    /// b12 above b22.
    pub second: &'a [Line<T>],
    /// t1, t2, t3 and −t4.
    pub sums: &'a [Line<T>],
}

/// Writes t1, t2, t3 and −t4 of two panels.
pub(crate) fn weight_sums<T: Real>(first: &[Line<T>], second: &[Line<T>], sums: &mut [Line<T>]) {
    pulp::Arch::new().dispatch(WeightSums { first, second, sums });
}

struct WeightSums<'a, T> {
    first: &'a [Line<T>],
    second: &'a [Line<T>],
    sums: &'a mut [Line<T>],
}

impl<T: Real> WithSimd for WeightSums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let depth = self.first.len() / 2;
        let (b11, b21) = self.first.split_at(depth);
        let (b12, b22) = self.second.split_at(depth);
        let (low, high) = self.sums.split_at_mut(2 * depth);
        let (t1, t2) = low.split_at_mut(depth);
        let (t3, minus_t4) = high.split_at_mut(depth);
        let (b21, b22) = (&b21[..depth], &b22[..depth]);
        let (t2, minus_t4) = (&mut t2[..depth], &mut minus_t4[..depth]);
        for k in 0..depth {
            let [b11, b12] = [&b11[k], &b12[k]].map(|b| T::vectors::<S>(&b.0));
            let [b21, b22] = [&b21[k], &b22[k]].map(|b| T::vectors::<S>(&b.0));
            for v in 0..const { registers::<T, S>() } {
                let difference = T::minus(simd, b12[v], b11[v]);
                let rest = T::minus(simd, b22[v], difference);
                T::vectors_mut::<S>(&mut t1[k].0)[v] = difference;
                T::vectors_mut::<S>(&mut t2[k].0)[v] = rest;
                T::vectors_mut::<S>(&mut t3[k].0)[v] = T::minus(simd, b22[v], b12[v]);
                T::vectors_mut::<S>(&mut minus_t4[k].0)[v] = T::minus(simd, b21[v], rest);
            }
        }
    }
}

/// Products of quadrants in one level of Strassen–Winograd.
pub const PRODUCTS: usize = 7;

impl<'a, T: Real> WeightPanels<'a, T> {
    /// The right operand of product `step`.
    pub fn operand(&self, step: usize) -> &'a [Line<T>] {
        let depth = self.first.len() / 2;
        let sum = |which: usize| &self.sums[(which - 1) * depth..which * depth];
        match step {
            0 => &self.first[..depth],
            1 => &self.first[depth..],
            2 => sum(2),
            3 => sum(3),
            4 => sum(1),
            5 => sum(4),
            _ => &self.second[depth..],
        }
    }
}

/// Product `step` of [`PRODUCTS`] of `c ← a·b`, for the paired rows of two panels of the result:
/// c11, c12, c21 and c22. All steps in order give the result. `next` is the right operand of
/// the product that follows.
///
/// A step reads one quadrant of a for all panels of b: it stays in the second-level cache if the
/// panels are the inner loop.
pub(crate) fn multiply_step<T: Real>(
    step: usize,
    a: Quadrants<'_, T>,
    b: WeightPanels<'_, T>,
    next: &[Line<T>],
    c: [&mut [Line<T>]; 4],
) {
    let [c11, c12, c21, c22] = c;
    let (left, stride) = match step {
        0 => (a.quadrant(0, 0), a.stride),
        1 => (a.quadrant(0, 1), a.stride),
        2 => (a.sum(2), a.pair.rows),
        3 => (a.sum(3), a.pair.rows),
        4 => (a.sum(1), a.pair.rows),
        5 => (a.quadrant(1, 1), a.stride),
        _ => (a.sum(4), a.pair.rows),
    };
    let sink = match step {
        0 => Sink::SetBoth([c11, c12]),
        1 => Sink::Add(c11),
        3 => Sink::Onto { base: c12, to: c21 },
        4 => Sink::OntoAndAdd { base: c21, to: c22, also: c12 },
        5 => Sink::Add(c21),
        _ => Sink::Add(c12),
    };
    multiply_into(left, stride, b.operand(step), next, sink);
}

/// Panels of z whose quadrants and sums stay in the second-level cache while h passes by.
pub const GROUP: usize = 4;

/// `g ← [g] + Σ_r h[r, ·]·z[r, ·]` over the paired rows, for the row-major gradient: its rows for
/// the first half of the columns of h, and those for the second.
///
/// Transposed, the rows are the depth of this product; their sums of z are those of its product
/// with the weights if its rows and columns are swapped: with h₁₂ for the first rows and second
/// columns, and so on,
///
/// ```text
/// v = h21ᵀ·z22 + s2ᵀ·z̃2     x = s3ᵀ·z̃3 − v     w = s1ᵀ·z̃1
/// g12 = h21ᵀ·z22 + h11ᵀ·z12     g11 = w − v + s4ᵀ·z11
/// g22 = h12ᵀ·z̃4 − x             g21 = x + w
/// ```
///
/// where s are the sums of the quadrants h21, h11, h22, h12 in this order, and z̃ those of z.
#[inline(never)]
pub(crate) fn add_strassen_gradient<T: Real>(
    h: Quadrants<'_, T>,
    z: Quadrants<'_, T>,
    g: [&mut [T]; 2],
    fresh: bool,
) {
    pulp::Arch::new().dispatch(StrassenGradient { h, z, g, fresh });
}

/// The arguments of `add_strassen_gradient`.
#[derive(Debug)]
pub struct StrassenGradient<'a, T> {
    /// The inputs.
    pub h: Quadrants<'a, T>,
    /// The cotangents.
    pub z: Quadrants<'a, T>,
    /// The gradient's rows for the first half of the columns of h, and for the second.
    pub g: [&'a mut [T]; 2],
    /// Whether the gradient is overwritten.
    pub fresh: bool,
}

impl<T: Real> WithSimd for StrassenGradient<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let (p_end, q_end) = (self.h.half, self.z.half);
        let mut kept = [Kept { v: [Line::ZERO; LANES], x: [Line::ZERO; LANES] }; GROUP];
        for first in (0..q_end).step_by(GROUP) {
            let group = first..q_end.min(first + GROUP);
            for p in 0..p_end {
                let mut tiles = Tiles { p, group: group.clone(), kept: &mut kept };
                self.multiply::<S, 0>(simd, &mut tiles);
                self.multiply::<S, 1>(simd, &mut tiles);
                self.multiply::<S, 2>(simd, &mut tiles);
                self.multiply::<S, 3>(simd, &mut tiles);
                self.multiply::<S, 4>(simd, &mut tiles);
                self.multiply::<S, 5>(simd, &mut tiles);
                self.multiply::<S, 6>(simd, &mut tiles);
            }
        }
    }
}

impl<T: Real> StrassenGradient<'_, T> {
    /// Product `STEP` of [`PRODUCTS`] for a panel of h, which stays in the first-level cache, and
    /// a group of panels of z. A number known to the compiler: what becomes of the product is then
    /// decided without a branch (4 % of the gradient).
    #[inline(always)]
    fn multiply<S: Simd, const STEP: usize>(&mut self, simd: S, tiles: &mut Tiles<'_, T>) {
        let (h, z, p) = (self.h, self.z, tiles.p);
        // The quadrant of g that the product completes, if any.
        let (h_panel, [row, column]) = match STEP {
            0 => (h.quadrant_panel(1, 0, p), [0, 0]),
            1 => (h.quadrant_panel(0, 0, p), [0, 1]),
            2 => (h.sum_panel(2, p), [0, 0]),
            3 => (h.sum_panel(3, p), [0, 0]),
            4 => (h.quadrant_panel(0, 1, p), [1, 1]),
            5 => (h.sum_panel(1, p), [1, 0]),
            _ => (h.sum_panel(4, p), [0, 0]),
        };
        let row_len = 2 * z.half * LANES;
        let g = &mut self.g[row][p * LANES * row_len..];
        for (kept, q) in tiles.kept.iter_mut().zip(tiles.group.clone()) {
            let z_panel = match STEP {
                0 => z.quadrant_panel(1, 1, q),
                1 => z.quadrant_panel(0, 1, q),
                2 => z.sum_panel(2, q),
                3 => z.sum_panel(3, q),
                4 => z.sum_panel(4, q),
                5 => z.sum_panel(1, q),
                _ => z.quadrant_panel(0, 0, q),
            };
            let g = &mut g[(q + column * z.half) * LANES..];
            let mut part = CombinedRows::<T, STEP> { kept, g, row_len, fresh: self.fresh };
            product(simd, h_panel, z_panel, &mut part);
        }
    }
}

/// Tiles of the gradient at one panel of h and several of z, in each of the four quadrants.
struct Tiles<'a, T> {
    p: usize,
    group: Range<usize>,
    kept: &'a mut [Kept<T>; GROUP],
}

/// v and x of a tile, which several of its products need.
#[derive(Clone, Copy)]
struct Kept<T> {
    v: [Line<T>; LANES],
    x: [Line<T>; LANES],
}

/// Where product `STEP` of a tile goes.
struct CombinedRows<'a, T, const STEP: usize> {
    kept: &'a mut Kept<T>,
    /// The gradient from the tile's first entry on.
    g: &'a mut [T],
    row_len: usize,
    fresh: bool,
}

impl<T: Real, const STEP: usize> TakeRow<T> for CombinedRows<'_, T, STEP> {
    #[inline(always)]
    fn take<S: Simd, const V: usize>(&mut self, simd: S, row: usize, sum: &[T::Vector<S>; V]) {
        let v = T::vectors_mut::<S>(&mut self.kept.v[row].0);
        let x = T::vectors_mut::<S>(&mut self.kept.x[row].0);
        let mut sum = *sum;
        for i in 0..V {
            match STEP {
                0 => v[i] = sum[i],
                1 | 6 => sum[i] = T::plus(simd, v[i], sum[i]),
                2 => v[i] = T::plus(simd, v[i], sum[i]),
                3 => x[i] = T::minus(simd, sum[i], v[i]),
                4 => sum[i] = T::minus(simd, sum[i], x[i]),
                _ => {
                    v[i] = T::minus(simd, sum[i], v[i]);
                    sum[i] = T::plus(simd, x[i], sum[i]);
                }
            }
        }
        if matches!(STEP, 1 | 4 | 5 | 6) {
            let Some(g) = self.g[row * self.row_len..].first_chunk_mut() else { unreachable!() };
            add_line(simd, g, &sum, self.fresh);
        }
    }
}
