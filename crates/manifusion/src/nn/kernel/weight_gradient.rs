//! `W̄ += Hᵀ·Z̄` and the bias gradient.

use pulp::{Simd, WithSimd};

use super::{LANES, Line};
use crate::nn::real::Real;

/// `g[k, n] ← [g[k, n]] + Σ_r h[r, k]·z[r, n]` for one panel of h and one of z: up to 16 × 16
/// entries of the row-major gradient `g` of row length `row_len`.
///
/// `fresh` overwrites instead of adding. Columns of z beyond the gradient's are ignored.
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

struct WeightGradient<'a, T> {
    h: &'a [Line<T>],
    z: &'a [Line<T>],
    g: &'a mut [T],
    row_len: usize,
    column: usize,
    fresh: bool,
}

impl<T: Real> WithSimd for WeightGradient<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let mut tile = Tile::ZERO;
        tile.add_product(simd, self.h, self.z);
        store(&tile, self.g, self.row_len, self.column, self.fresh);
    }
}

/// 16 × 16 entries of a gradient.
#[derive(Clone, Copy)]
pub(super) struct Tile<T>([Line<T>; LANES]);

impl<T: Real> Tile<T> {
    pub(super) const ZERO: Self = Self([Line::ZERO; LANES]);

    /// −self.
    #[inline(always)]
    pub(super) fn negated(&self) -> Self {
        let mut tile = *self;
        for line in &mut tile.0 {
            for x in &mut line.0 {
                *x = -*x;
            }
        }
        tile
    }

    /// self + other.
    #[inline(always)]
    pub(super) fn plus(&self, other: &Self) -> Self {
        let mut sum = *self;
        for (sum, other) in sum.0.iter_mut().zip(&other.0) {
            for (sum, other) in sum.0.iter_mut().zip(&other.0) {
                *sum += *other;
            }
        }
        sum
    }

    /// self ← self + hᵀ·z.
    #[inline(always)]
    pub(super) fn add_product<S: Simd>(&mut self, simd: S, h: &[Line<T>], z: &[Line<T>]) {
        match LANES / T::lanes::<S>() {
            1 => {
                self.rows::<S, 8, 0, 1>(simd, h, z);
                self.rows::<S, 8, 8, 1>(simd, h, z);
            }
            // 16 = 6 + 5 + 5: at least ten accumulators in each, enough to hide the latency.
            2 => {
                self.rows::<S, 6, 0, 2>(simd, h, z);
                self.rows::<S, 5, 6, 2>(simd, h, z);
                self.rows::<S, 5, 11, 2>(simd, h, z);
            }
            4 => self.quarters::<S, 4>(simd, h, z),
            8 => self.quarters::<S, 8>(simd, h, z),
            _ => self.quarters::<S, 16>(simd, h, z),
        }
    }

    #[inline(always)]
    fn quarters<S: Simd, const V: usize>(&mut self, simd: S, h: &[Line<T>], z: &[Line<T>]) {
        self.rows::<S, 4, 0, V>(simd, h, z);
        self.rows::<S, 4, 4, V>(simd, h, z);
        self.rows::<S, 4, 8, V>(simd, h, z);
        self.rows::<S, 4, 12, V>(simd, h, z);
    }

    /// Rows `K0..K0 + MR` of the tile.
    #[inline(always)]
    fn rows<S: Simd, const MR: usize, const K0: usize, const V: usize>(
        &mut self,
        simd: S,
        h: &[Line<T>],
        z: &[Line<T>],
    ) {
        let mut sum = [[T::splat(simd, T::ZERO); V]; MR];
        for i in 0..MR {
            let from = T::vectors::<S>(&self.0[K0 + i].0);
            sum[i][..V].copy_from_slice(&from[..V]);
        }
        for (h, z) in h.iter().zip(z) {
            let z = T::vectors::<S>(&z.0);
            for i in 0..MR {
                let broadcast = T::splat(simd, h.0[K0 + i]);
                for v in 0..V {
                    sum[i][v] = T::mul_add(simd, broadcast, z[v], sum[i][v]);
                }
            }
        }
        for i in 0..MR {
            T::vectors_mut::<S>(&mut self.0[K0 + i].0)[..V].copy_from_slice(&sum[i]);
        }
    }
}

/// Adds a tile to the rows of a gradient from `column` on, or overwrites them if `fresh`.
#[inline(always)]
pub(super) fn store<T: Real>(
    tile: &Tile<T>,
    g: &mut [T],
    row_len: usize,
    column: usize,
    fresh: bool,
) {
    let width = LANES.min(row_len - column);
    for (row, line) in g.chunks_exact_mut(row_len).zip(&tile.0) {
        let row = &mut row[column..column + width];
        for (g, sum) in row.iter_mut().zip(&line.0) {
            *g = if fresh { *sum } else { *g + *sum };
        }
    }
}

/// Sums of the columns of one panel.
pub(crate) fn column_sums<T: Real>(z: &[Line<T>]) -> Line<T> {
    let mut sum = Line::ZERO;
    for line in z {
        for (sum, z) in sum.0.iter_mut().zip(&line.0) {
            *sum += *z;
        }
    }
    sum
}

/// One panel on a given instruction set.
#[cfg(test)]
pub(super) fn run<T: Real, S: Simd>(
    simd: S,
    h: &[Line<T>],
    z: &[Line<T>],
    g: &mut [T],
    row_len: usize,
    fresh: bool,
) {
    WeightGradient { h, z, g, row_len, column: 0, fresh }.with_simd(simd);
}
