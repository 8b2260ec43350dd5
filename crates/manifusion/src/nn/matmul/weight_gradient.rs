//! `W̄ += Hᵀ·Z̄` and the bias gradient.

use pulp::{Simd, WithSimd};

use super::{LANES, Line, UNROLL, registers};
use crate::nn::real::Real;

/// `g[k, n] ← [g[k, n]] + Σ_r h[r, k]·z[r, n]` for one panel of h and one of z: up to 16 × 16
/// entries of the row-major gradient `g` of row length `row_len`.
///
/// `fresh` overwrites instead of adding. Columns of z beyond the gradient's are ignored.
#[inline(never)]
pub(crate) fn add_weight_gradient<T: Real>(
    h: &[Line<T>],
    z: &[Line<T>],
    g: &mut [T],
    row_len: usize,
    column: usize,
    fresh: bool,
) {
    debug_assert_eq!(h.len(), z.len());
    pulp::Arch::new().dispatch(WeightGradient { h, z, g, row_len, column, fresh });
}

/// The arguments of `add_weight_gradient`.
#[derive(Debug)]
pub struct WeightGradient<'a, T> {
    /// A panel of the inputs.
    pub h: &'a [Line<T>],
    /// A panel of the cotangents.
    pub z: &'a [Line<T>],
    /// The gradient, row-major.
    pub g: &'a mut [T],
    /// Entries of its row.
    pub row_len: usize,
    /// The first column that is written.
    pub column: usize,
    /// Whether the gradient is overwritten.
    pub fresh: bool,
}

impl<T: Real> WithSimd for WeightGradient<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { h, z, g, row_len, column, fresh } = self;
        product(simd, h, z, &mut Entries { g, row_len, column, fresh });
    }
}

/// What becomes of a product of 16 × 16 entries, row by row.
pub(super) trait TakeRow<T: Real> {
    /// Takes a row of the product.
    fn take<S: Simd, const V: usize>(&mut self, simd: S, row: usize, sum: &[T::Vector<S>; V]);
}

/// Entries of a row-major gradient from `column` on.
struct Entries<'a, T> {
    g: &'a mut [T],
    row_len: usize,
    column: usize,
    fresh: bool,
}

impl<T: Real> TakeRow<T> for Entries<'_, T> {
    #[inline(always)]
    fn take<S: Simd, const V: usize>(&mut self, simd: S, row: usize, sum: &[T::Vector<S>; V]) {
        // The last panel of h may have fewer columns than a line, and the gradient as many rows.
        let Some(g) = self.g.chunks_exact_mut(self.row_len).nth(row) else { return };
        let g = &mut g[self.column..];
        if let Some(g) = g.first_chunk_mut() {
            add_line(simd, g, sum, self.fresh);
            return;
        }
        let mut line = Line::ZERO;
        T::vectors_mut::<S>(&mut line.0).copy_from_slice(sum);
        for (g, sum) in g.iter_mut().zip(&line.0) {
            *g = if self.fresh { *sum } else { *g + *sum };
        }
    }
}

/// `g ← [g] + sum` for a line of a gradient.
#[inline(always)]
pub(super) fn add_line<S: Simd, T: Real, const V: usize>(
    simd: S,
    g: &mut [T; LANES],
    sum: &[T::Vector<S>; V],
    fresh: bool,
) {
    for (g, sum) in T::vectors_mut::<S>(g).iter_mut().zip(sum) {
        *g = if fresh { *sum } else { T::plus(simd, *g, *sum) };
    }
}

/// hᵀ·z for one panel of each.
#[inline(always)]
pub(super) fn product<S: Simd, T: Real>(
    simd: S,
    h: &[Line<T>],
    z: &[Line<T>],
    take: &mut impl TakeRow<T>,
) {
    match const { registers::<T, S>() } {
        1 => {
            rows::<S, T, 8, 1>(simd, 0, h, z, take);
            rows::<S, T, 8, 1>(simd, 8, h, z, take);
        }
        // 16 = 6 + 5 + 5: at least ten accumulators in each, enough to hide the latency.
        2 => {
            rows::<S, T, 6, 2>(simd, 0, h, z, take);
            rows::<S, T, 5, 2>(simd, 6, h, z, take);
            rows::<S, T, 5, 2>(simd, 11, h, z, take);
        }
        4 => quarters::<S, T, 4>(simd, h, z, take),
        8 => quarters::<S, T, 8>(simd, h, z, take),
        // Without vectors the code of a product is long: it is there once, whatever becomes of it.
        _ => {
            let tile = product_in_memory(simd, h, z);
            for (row, line) in tile.iter().enumerate() {
                let Some(sum) = T::vectors::<S>(&line.0).first_chunk::<LANES>() else {
                    unreachable!()
                };
                take.take(simd, row, sum);
            }
        }
    }
}

#[inline(never)]
fn product_in_memory<S: Simd, T: Real>(simd: S, h: &[Line<T>], z: &[Line<T>]) -> [Line<T>; LANES] {
    let mut tile = [Line::ZERO; LANES];
    quarters::<S, T, LANES>(simd, h, z, &mut tile);
    tile
}

impl<T: Real> TakeRow<T> for [Line<T>; LANES] {
    #[inline(always)]
    fn take<S: Simd, const V: usize>(&mut self, _simd: S, row: usize, sum: &[T::Vector<S>; V]) {
        T::vectors_mut::<S>(&mut self[row].0).copy_from_slice(sum);
    }
}

#[inline(always)]
fn quarters<S: Simd, T: Real, const V: usize>(
    simd: S,
    h: &[Line<T>],
    z: &[Line<T>],
    take: &mut impl TakeRow<T>,
) {
    for first in (0..LANES).step_by(4) {
        rows::<S, T, 4, V>(simd, first, h, z, take);
    }
}

/// Rows `first..first + MR` of the product.
#[inline(always)]
fn rows<S: Simd, T: Real, const MR: usize, const V: usize>(
    simd: S,
    first: usize,
    h: &[Line<T>],
    z: &[Line<T>],
    take: &mut impl TakeRow<T>,
) {
    let mut sum = [[T::splat(simd, T::ZERO); V]; MR];
    let ((h, last_h), (z, last_z)) = (h.as_chunks::<UNROLL>(), z.as_chunks::<UNROLL>());
    for (h, z) in h.iter().zip(z) {
        for r in 0..UNROLL {
            rank_one::<S, T, MR, V>(simd, first, &h[r], &z[r], &mut sum);
        }
    }
    for (h, z) in last_h.iter().zip(last_z) {
        rank_one::<S, T, MR, V>(simd, first, h, z, &mut sum);
    }
    for i in 0..MR {
        take.take(simd, first + i, &sum[i]);
    }
}

/// `sum ← sum + h[first..]ᵀ·z` of one row.
#[inline(always)]
fn rank_one<S: Simd, T: Real, const MR: usize, const V: usize>(
    simd: S,
    first: usize,
    h: &Line<T>,
    z: &Line<T>,
    sum: &mut [[T::Vector<S>; V]; MR],
) {
    let z = T::vectors::<S>(&z.0);
    for i in 0..MR {
        let broadcast = T::splat(simd, h.0[first + i]);
        for v in 0..V {
            sum[i][v] = T::mul_add(simd, broadcast, z[v], sum[i][v]);
        }
    }
}

/// Adds the columns of one panel to `sum`.
pub(crate) fn add_columns<T: Real>(sum: &mut Line<T>, z: &[Line<T>]) {
    for line in z {
        for (sum, z) in sum.0.iter_mut().zip(&line.0) {
            *sum += *z;
        }
    }
}
