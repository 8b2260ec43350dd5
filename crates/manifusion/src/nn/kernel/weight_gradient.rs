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
    fn with_simd<S: Simd>(mut self, simd: S) {
        match LANES / T::lanes::<S>() {
            1 => {
                self.tile::<S, 8, 0, 1>(simd);
                self.tile::<S, 8, 8, 1>(simd);
            }
            // 16 = 6 + 5 + 5: at least ten accumulators in each, enough to hide the latency.
            2 => {
                self.tile::<S, 6, 0, 2>(simd);
                self.tile::<S, 5, 6, 2>(simd);
                self.tile::<S, 5, 11, 2>(simd);
            }
            4 => self.quarters::<S, 4>(simd),
            8 => self.quarters::<S, 8>(simd),
            _ => self.quarters::<S, 16>(simd),
        }
    }
}

impl<T: Real> WeightGradient<'_, T> {
    #[inline(always)]
    fn quarters<S: Simd, const V: usize>(&mut self, simd: S) {
        self.tile::<S, 4, 0, V>(simd);
        self.tile::<S, 4, 4, V>(simd);
        self.tile::<S, 4, 8, V>(simd);
        self.tile::<S, 4, 12, V>(simd);
    }

    /// Rows `K0..K0 + MR` of the gradient.
    #[inline(always)]
    fn tile<S: Simd, const MR: usize, const K0: usize, const V: usize>(&mut self, simd: S) {
        if K0 * self.row_len >= self.g.len() {
            return;
        }
        let mut sum = [[T::splat(simd, T::ZERO); V]; MR];
        for (h, z) in self.h.iter().zip(self.z) {
            let z = T::vectors::<S>(&z.0);
            for i in 0..MR {
                let broadcast = T::splat(simd, h.0[K0 + i]);
                for v in 0..V {
                    sum[i][v] = T::mul_add(simd, broadcast, z[v], sum[i][v]);
                }
            }
        }
        let mut lines = [Line::<T>::ZERO; MR];
        for (line, sum) in lines.iter_mut().zip(sum) {
            for (to, from) in T::vectors_mut::<S>(&mut line.0).iter_mut().zip(sum) {
                *to = from;
            }
        }
        self.store(K0, &lines);
    }

    #[inline(always)]
    fn store(&mut self, first: usize, lines: &[Line<T>]) {
        let width = LANES.min(self.row_len - self.column);
        let rows = self.g.chunks_exact_mut(self.row_len).skip(first);
        for (row, line) in rows.zip(lines) {
            let row = &mut row[self.column..self.column + width];
            for (g, sum) in row.iter_mut().zip(&line.0) {
                *g = if self.fresh { *sum } else { *g + *sum };
            }
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
