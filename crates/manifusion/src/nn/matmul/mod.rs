//! The matrix products of a layer on panels of 16 columns.
//!
//! A batch of hidden rows is stored by *column panels*: 16 columns of all rows, one [`Line`] per
//! row, then the next 16 columns. Every product of the forward and of the reverse pass then reads
//! and writes whole lines in order, so activations are never repacked:
//!
//! - `Z = H·W`: a tile of rows (6 with AVX2) broadcasts from neighbouring lines of H and streams a
//!   packed panel of W; the result is as many neighbouring lines of Z.
//! - `H̄ = Z̄·Wᵀ`: the same product with the transposed weights.
//! - `W̄ += Hᵀ·Z̄`: both operands are read line by line along the rows.

pub(crate) mod strassen;
mod weight_gradient;

use pulp::{Simd, WithSimd};

use super::real::Real;
pub use strassen::{PRODUCTS, Quadrants, RowPair, StrassenGradient, WeightPanels};
pub(crate) use strassen::{add_strassen_gradient, multiply_step, quadrant_sums, weight_sums};
pub use weight_gradient::WeightGradient;
pub(crate) use weight_gradient::{add_columns, add_weight_gradient};

/// Columns of a panel.
pub const LANES: usize = 16;

/// Rows of the inner dimension handled while a packed panel stays in the first-level cache.
const DEPTH_BLOCK: usize = 256;

/// Lines that meet in one turn of a product's inner loop.
const UNROLL: usize = 4;

/// 16 numbers of one row, aligned to a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub struct Line<T>(pub [T; LANES]);

impl<T: Real> Line<T> {
    /// Zeros.
    pub const ZERO: Self = Self([T::ZERO; LANES]);
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

/// The same to read.
#[inline(always)]
#[expect(unsafe_code, reason = "a view of lines as numbers, so that loops over them vectorise")]
pub(crate) fn flat<T: Real>(lines: &[Line<T>]) -> &[T] {
    const { assert!(size_of::<Line<T>>() == LANES * size_of::<T>()) }
    // SAFETY: as above.
    unsafe { std::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LANES) }
}

/// Asks for a line that will be read soon.
#[inline(always)]
#[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "a hint to the cache"))]
fn prefetch<T>(line: &Line<T>) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the place is that of a reference; a prefetch has no other effect than on caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// Registers of a line. A `match` on it in a `const` block compiles one arm: the others would be
/// most of the code of the products.
const fn registers<T: Real, S: Simd>() -> usize {
    size_of::<Line<T>>() / size_of::<T::Vector<S>>()
}

/// Number of panels that hold `columns`.
pub const fn panels(columns: usize) -> usize {
    columns.div_ceil(LANES)
}

/// `c ← a·b` for one panel of the result: `a` is rows × depth by panels with `stride` lines each,
/// `b` has a line per unit of depth, `c` a line per row. `next` is the panel that will be
/// multiplied after this one.
pub(crate) fn multiply_panel<T: Real>(
    a: &[Line<T>],
    stride: usize,
    depth: usize,
    b: &[Line<T>],
    next: &[Line<T>],
    c: &mut [Line<T>],
) {
    debug_assert!(a.len() >= (panels(depth) - 1) * stride + c.len() && b.len() >= depth);
    multiply_into(a, stride, &b[..depth], next, Sink::Set(c));
}

/// One panel of a·b into `sink`, the depth that of `b`.
#[inline(never)]
pub(crate) fn multiply_into<T: Real>(
    a: &[Line<T>],
    stride: usize,
    b: &[Line<T>],
    next: &[Line<T>],
    sink: Sink<'_, T>,
) {
    pulp::Arch::new().dispatch(MultiplyPanel { a, stride, b, next, sink });
}

/// Where a product p goes, line by line.
#[derive(Debug)]
pub enum Sink<'a, T> {
    /// c ← p.
    Set(&'a mut [Line<T>]),
    /// c ← c + p.
    Add(&'a mut [Line<T>]),
    /// Both ← p.
    SetBoth([&'a mut [Line<T>]; 2]),
    /// Both ← themselves + p.
    AddBoth([&'a mut [Line<T>]; 2]),
    /// to ← base + p.
    Onto {
        /// What the product is added to.
        base: &'a [Line<T>],
        /// Where the sum goes.
        to: &'a mut [Line<T>],
    },
    /// to ← base + p, also ← also + p.
    OntoAndAdd {
        /// What the product is added to.
        base: &'a [Line<T>],
        /// Where the sum goes.
        to: &'a mut [Line<T>],
        /// What the product is added to in place.
        also: &'a mut [Line<T>],
    },
}

impl<T: Real> Sink<'_, T> {
    fn rows(&self) -> usize {
        match self {
            Self::Set(c) | Self::Add(c) | Self::SetBoth([c, _]) | Self::AddBoth([c, _]) => c.len(),
            Self::Onto { to, .. } | Self::OntoAndAdd { to, .. } => to.len(),
        }
    }

    /// Where the next block of depth goes.
    fn continued(self) -> Self {
        match self {
            Self::Set(c) | Self::Add(c) | Self::Onto { to: c, .. } => Self::Add(c),
            Self::SetBoth(both) | Self::AddBoth(both) => Self::AddBoth(both),
            Self::OntoAndAdd { to, also, .. } => Self::AddBoth([to, also]),
        }
    }

    /// Takes the lines of the product from `row` on.
    #[inline(always)]
    fn take<S: Simd, const MR: usize, const V: usize>(
        &mut self,
        simd: S,
        row: usize,
        sum: &[[T::Vector<S>; V]; MR],
    ) {
        let rows = row..row + MR;
        match self {
            Self::Set(c) => set(simd, sum, &mut c[rows]),
            Self::Add(c) => add(simd, sum, &mut c[rows]),
            Self::SetBoth([c, d]) => {
                set(simd, sum, &mut c[rows.clone()]);
                set(simd, sum, &mut d[rows]);
            }
            Self::AddBoth([c, d]) => {
                add(simd, sum, &mut c[rows.clone()]);
                add(simd, sum, &mut d[rows]);
            }
            Self::Onto { base, to } => onto(simd, sum, &base[rows.clone()], &mut to[rows]),
            Self::OntoAndAdd { base, to, also } => {
                onto(simd, sum, &base[rows.clone()], &mut to[rows.clone()]);
                add(simd, sum, &mut also[rows]);
            }
        }
    }
}

#[inline(always)]
fn set<S: Simd, T: Real, const MR: usize, const V: usize>(
    _simd: S,
    sum: &[[T::Vector<S>; V]; MR],
    c: &mut [Line<T>],
) {
    for (c, sum) in c.iter_mut().zip(sum) {
        for (c, sum) in T::vectors_mut::<S>(&mut c.0).iter_mut().zip(sum) {
            *c = *sum;
        }
    }
}

#[inline(always)]
fn add<S: Simd, T: Real, const MR: usize, const V: usize>(
    simd: S,
    sum: &[[T::Vector<S>; V]; MR],
    c: &mut [Line<T>],
) {
    for (c, sum) in c.iter_mut().zip(sum) {
        for (c, sum) in T::vectors_mut::<S>(&mut c.0).iter_mut().zip(sum) {
            *c = T::plus(simd, *c, *sum);
        }
    }
}

#[inline(always)]
fn onto<S: Simd, T: Real, const MR: usize, const V: usize>(
    simd: S,
    sum: &[[T::Vector<S>; V]; MR],
    base: &[Line<T>],
    to: &mut [Line<T>],
) {
    for ((to, base), sum) in to.iter_mut().zip(base).zip(sum) {
        let base = T::vectors::<S>(&base.0);
        for ((to, base), sum) in T::vectors_mut::<S>(&mut to.0).iter_mut().zip(base).zip(sum) {
            *to = T::plus(simd, *base, *sum);
        }
    }
}

/// The arguments of `multiply_into`.
#[derive(Debug)]
pub struct MultiplyPanel<'a, T> {
    /// Rows × depth, by panels.
    pub a: &'a [Line<T>],
    /// Lines of a panel of `a`.
    pub stride: usize,
    /// A line per unit of depth.
    pub b: &'a [Line<T>],
    /// The panel that will be multiplied after this one.
    pub next: &'a [Line<T>],
    /// Where the product goes.
    pub sink: Sink<'a, T>,
}

impl<T: Real> WithSimd for MultiplyPanel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        // Registers decide the tile: accumulators, the panel's line, one broadcast.
        match const { registers::<T, S>() } {
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
        let Self { a, stride, b, next, mut sink } = self;
        // A share of the next panel is fetched with each tile.
        let mut next = next.chunks((next.len() * MR).div_ceil(sink.rows().max(1)).max(1));
        for (block, b) in b.chunks(DEPTH_BLOCK).enumerate() {
            let a = &a[block * (DEPTH_BLOCK / LANES) * stride..];
            let (mut row, end) = (0, sink.rows());
            while row < end {
                let rows = tile_rows(MR, end - row);
                let a = &a[row..];
                for line in next.next().unwrap_or_default() {
                    prefetch(line);
                }
                macro_rules! tile {
                    ($mr:literal) => {
                        tile::<S, T, $mr, V>(simd, a, stride, b, row, &mut sink)
                    };
                }
                // Larger tiles than the largest are not compiled.
                match rows {
                    12 if const { MR >= 12 } => tile!(12),
                    8 if const { MR >= 8 } => tile!(8),
                    6 if const { MR >= 6 } => tile!(6),
                    5 if const { MR >= 5 } => tile!(5),
                    4 if const { MR >= 4 } => tile!(4),
                    3 if const { MR >= 3 } => tile!(3),
                    2 if const { MR >= 2 } => tile!(2),
                    _ => tile!(1),
                }
                row += rows;
            }
            sink = sink.continued();
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
    row: usize,
    sink: &mut Sink<'_, T>,
) {
    let mut sum = [[T::splat(simd, T::ZERO); V]; MR];
    let (blocks, rest) = b.as_chunks::<LANES>();
    for (panel, b) in blocks.iter().enumerate() {
        let Some(a) = a[panel * stride..].first_chunk::<MR>() else { unreachable!() };
        for k in (0..LANES).step_by(UNROLL) {
            for k in k..k + UNROLL {
                rank_one::<S, T, MR, V>(simd, a, k, &b[k], &mut sum);
            }
        }
    }
    if !rest.is_empty() {
        let Some(a) = a[blocks.len() * stride..].first_chunk::<MR>() else { unreachable!() };
        for (k, b) in rest.iter().enumerate() {
            rank_one::<S, T, MR, V>(simd, a, k, b, &mut sum);
        }
    }
    sink.take(simd, row, &sum);
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
