//! The matrix products of a layer on panels of 16 columns.
//!
//! A batch of hidden rows is stored by *column panels*: 16 columns of all rows, one [`Line`] per
//! row, then the next 16 columns. Every product of the forward and of the reverse pass then reads
//! and writes whole lines in order, so activations are never repacked:
//!
//! - `Z = H·W`: a tile of 6 rows broadcasts from 6 neighbouring lines of H and streams a packed
//!   panel of W; the result is 6 neighbouring lines of Z.
//! - `H̄ = Z̄·Wᵀ`: the same product with the transposed weights.
//! - `W̄ += Hᵀ·Z̄`: both operands are read line by line along the rows.

mod weight_gradient;

use pulp::{Simd, WithSimd};

use super::real::Real;
pub(crate) use weight_gradient::{add_weight_gradient, column_sums};

/// Columns of a panel.
pub(crate) const LANES: usize = 16;

/// Rows of the inner dimension handled while a packed panel stays in the first-level cache.
const DEPTH_BLOCK: usize = 256;

/// 16 numbers of one row, aligned to a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) [T; LANES]);

impl<T: Real> Line<T> {
    pub(crate) const ZERO: Self = Self([T::ZERO; LANES]);
}

/// The numbers of consecutive lines.
#[inline(always)]
#[expect(unsafe_code, reason = "a view of lines as numbers, so that loops over them vectorise")]
pub(crate) fn flat_mut<T: Real>(lines: &mut [Line<T>]) -> &mut [T] {
    const { assert!(size_of::<Line<T>>() == LANES * size_of::<T>()) }
    // SAFETY: a line is 16 numbers without padding (asserted above), lines are contiguous, and
    // the numbers borrow the lines.
    unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES) }
}

/// Asks the cache for an element that will be read or changed soon; nothing is promised.
#[inline(always)]
#[expect(unsafe_code, reason = "a prefetch hint; the address comes from a reference")]
pub(crate) fn prefetch<U>(element: &U) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes no state that a program can see, at any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(element).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = element;
}

/// Number of panels that hold `columns`.
pub(crate) const fn panels(columns: usize) -> usize {
    columns.div_ceil(LANES)
}

/// `c ← a·b` for one panel of the result: `a` is rows × depth by panels with `stride` lines each,
/// `b` has a line per unit of depth, `c` a line per row.
pub(crate) fn multiply_panel<T: Real>(
    a: &[Line<T>],
    stride: usize,
    depth: usize,
    b: &[Line<T>],
    c: &mut [Line<T>],
) {
    debug_assert!(a.len() >= (panels(depth) - 1) * stride + c.len() && b.len() >= depth);
    pulp::Arch::new().dispatch(MultiplyPanel { a, stride, b: &b[..depth], c });
}

struct MultiplyPanel<'a, T> {
    a: &'a [Line<T>],
    stride: usize,
    b: &'a [Line<T>],
    c: &'a mut [Line<T>],
}

impl<T: Real> WithSimd for MultiplyPanel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Registers decide the tile: accumulators, the panel's line, one broadcast.
        match LANES / T::lanes::<S>() {
            1 => self.run::<S, 12, 1>(simd),
            2 => self.run::<S, 6, 2>(simd),
            4 => self.run::<S, 3, 4>(simd),
            8 => self.run::<S, 2, 8>(simd),
            _ => self.run::<S, 1, 16>(simd),
        }
    }
}

impl<T: Real> MultiplyPanel<'_, T> {
    #[inline(always)]
    fn run<S: Simd, const MR: usize, const V: usize>(self, simd: S) {
        let Self { a, stride, b, c } = self;
        for (block, b) in b.chunks(DEPTH_BLOCK).enumerate() {
            let a = &a[block * (DEPTH_BLOCK / LANES) * stride..];
            let fresh = block == 0;
            let mut row = 0;
            while row < c.len() {
                let rows = tile_rows(MR, c.len() - row);
                let (a, c) = (&a[row..], &mut c[row..row + rows]);
                // Constants above MR never match: `tile_rows` does not return them.
                match rows {
                    12 => tile::<S, T, 12, V>(simd, a, stride, b, c, fresh),
                    8 => tile::<S, T, 8, V>(simd, a, stride, b, c, fresh),
                    6 => tile::<S, T, 6, V>(simd, a, stride, b, c, fresh),
                    5 => tile::<S, T, 5, V>(simd, a, stride, b, c, fresh),
                    4 => tile::<S, T, 4, V>(simd, a, stride, b, c, fresh),
                    3 => tile::<S, T, 3, V>(simd, a, stride, b, c, fresh),
                    2 => tile::<S, T, 2, V>(simd, a, stride, b, c, fresh),
                    _ => tile::<S, T, 1, V>(simd, a, stride, b, c, fresh),
                }
                row += rows;
            }
        }
    }
}

/// Rows of the next tile when `left` remain: the largest, but no tiny tile at the end, whose
/// few accumulators could not hide the latency of the multiply-add.
#[inline(always)]
fn tile_rows(largest: usize, left: usize) -> usize {
    match (largest, left) {
        (6, 7 | 8) => 4,
        (6, 9) => 5,
        (12, 8..=11) => 8,
        (12, 6 | 7) => 6,
        (_, left) if left < largest => left,
        _ => largest,
    }
}

/// `MR` lines of the product of one block of depth.
#[inline(always)]
fn tile<S: Simd, T: Real, const MR: usize, const V: usize>(
    simd: S,
    a: &[Line<T>],
    stride: usize,
    b: &[Line<T>],
    c: &mut [Line<T>],
    fresh: bool,
) {
    let mut sum = [[T::splat(simd, T::ZERO); V]; MR];
    let (blocks, rest) = b.as_chunks::<LANES>();
    for (panel, b) in blocks.iter().enumerate() {
        let Some(a) = a[panel * stride..].first_chunk::<MR>() else { unreachable!() };
        for k in 0..LANES {
            rank_one::<S, T, MR, V>(simd, a, k, &b[k], &mut sum);
        }
    }
    if !rest.is_empty() {
        let Some(a) = a[blocks.len() * stride..].first_chunk::<MR>() else { unreachable!() };
        for (k, b) in rest.iter().enumerate() {
            rank_one::<S, T, MR, V>(simd, a, k, b, &mut sum);
        }
    }
    for (c, sum) in c.iter_mut().zip(sum) {
        for (c, sum) in T::vectors_mut::<S>(&mut c.0).iter_mut().zip(sum) {
            *c = if fresh { sum } else { T::plus(simd, *c, sum) };
        }
    }
}

/// `sum ← sum + a[:, k]·b`.
#[inline(always)]
fn rank_one<S: Simd, T: Real, const MR: usize, const V: usize>(
    simd: S,
    a: &[Line<T>; MR],
    k: usize,
    b: &Line<T>,
    sum: &mut [[T::Vector<S>; V]; MR],
) {
    let b = T::vectors::<S>(&b.0);
    for i in 0..MR {
        let broadcast = T::splat(simd, a[i].0[k]);
        for v in 0..V {
            sum[i][v] = T::mul_add(simd, broadcast, b[v], sum[i][v]);
        }
    }
}
