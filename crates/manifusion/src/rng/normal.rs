//! Standard normals in bulk: Philox blocks through Box–Muller, in short loops over lanes that the
//! compiler vectorises.
//!
//! Fused multiply-adds are written out, never left to the compiler, so every instruction set gives
//! the same bits. The polynomials stop at a relative error of 1e-11, far below what any sample can
//! show.

use super::philox::philox_lanes;

/// Blocks handled together; each gives four normals. Many, so that the latency of one hides behind
/// the others.
const LANES: usize = 16;
/// Blocks handled together for what is left, and for a short request.
const HALF: usize = 8;
const FEW: usize = 2;

/// Fills `out` with normals `4·first_block`, … of the stream with this key and counter.
pub(super) fn fill(key: [u32; 2], counter: [u32; 4], first_block: u32, out: &mut [f64]) {
    pulp::Arch::new().dispatch(Fill { key, counter, first_block, out });
}

/// The work in the form that `pulp` compiles once per instruction set.
struct Fill<'a> {
    key: [u32; 2],
    counter: [u32; 4],
    first_block: u32,
    out: &'a mut [f64],
}

impl pulp::NullaryFnOnce for Fill<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let mut block = self.first_block;
        for chunk in self.out.chunks_mut(4 * LANES) {
            // A few numbers (one step of a small manifold) are not worth all lanes; the bits are
            // the same.
            match chunk.len() {
                len if len <= 4 * FEW => write_blocks::<FEW>(self.key, self.counter, block, chunk),
                len if len <= 4 * HALF => {
                    write_blocks::<HALF>(self.key, self.counter, block, chunk);
                }
                _ => write_blocks::<LANES>(self.key, self.counter, block, chunk),
            }
            block = block.wrapping_add(LANES as u32);
        }
    }
}

/// Writes the normals of up to `L` consecutive blocks of one stream.
#[inline(always)]
fn write_blocks<const L: usize>(key: [u32; 2], counter: [u32; 4], first: u32, out: &mut [f64]) {
    let mut counters = counter.map(|word| [u64::from(word); L]);
    for (l, block) in counters[0].iter_mut().enumerate() {
        *block = u64::from(counter[0].wrapping_add(first).wrapping_add(l as u32));
    }
    let z = block_normals(philox_lanes(key, counters));
    if out.len() == 4 * L {
        for l in 0..L {
            for k in 0..4 {
                out[4 * l + k] = z[k][l];
            }
        }
    } else {
        for (i, value) in out.iter_mut().enumerate() {
            *value = z[i % 4][i / 4];
        }
    }
}

/// The four normals of one block of `L` consecutive rows' streams, at step 0.
#[inline(always)]
pub(super) fn row_normals<const L: usize>(
    key: [u32; 2],
    first_row: u64,
    block: u32,
) -> [[f64; L]; 4] {
    let mut counters = [[u64::from(block); L], [0; L], [0; L], [0; L]];
    for l in 0..L {
        let [_, _, low, high] = super::counter(first_row + l as u64, 0);
        counters[2][l] = u64::from(low);
        counters[3][l] = u64::from(high);
    }
    block_normals(philox_lanes(key, counters))
}

/// Two pairs from the two halves of a block.
#[inline(always)]
fn block_normals<const L: usize>(bits: ([u64; L], [u64; L])) -> [[f64; L]; 4] {
    let (a, b) = normal_pairs(bits.0);
    let (c, d) = normal_pairs(bits.1);
    [a, b, c, d]
}

/// r·(cos φ, sin φ) with r = √(−2 ln u) and φ uniform: 40 bits for u, which reach 7.4 standard
/// deviations, two for the signs and 22 for the angle in its quarter. The loops are separate so
/// that divisions and roots of some lanes run beside the polynomials of others.
#[inline(always)]
fn normal_pairs<const L: usize>(bits: [u64; L]) -> ([f64; L], [f64; L]) {
    const SIGN: u64 = 1 << 63;
    let (mut f, mut exponent) = ([0.0; L], [0.0; L]);
    for l in 0..L {
        (f[l], exponent[l]) = reduced(2.0 - unit(bits[l] >> 24 << 12 | 0x800));
    }
    let mut half_root = [0.0; L];
    for l in 0..L {
        half_root[l] = (-ln_reduced(f[l], exponent[l])).sqrt();
    }
    let (mut x, mut y) = ([0.0; L], [0.0; L]);
    for l in 0..L {
        let (cos, sin) = quarter_turn(unit((bits[l] & 0x3f_ffff) << 30 | 1 << 29) - 1.5);
        x[l] = f64::from_bits((half_root[l] * cos).to_bits() ^ (bits[l] << 40 & SIGN));
        y[l] = f64::from_bits((half_root[l] * sin).to_bits() ^ (bits[l] << 41 & SIGN));
    }
    (x, y)
}

/// A fraction of 52 bits as a number in [1, 2).
#[inline(always)]
fn unit(fraction: u64) -> f64 {
    f64::from_bits(0x3ff0_0000_0000_0000 | fraction)
}

/// A normal u in (0, 1] as 2ᵉ·m with m in [√½, √2): ((m−1)/(m+1), e).
#[inline(always)]
pub fn reduced(u: f64) -> (f64, f64) {
    const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
    const ONE: u64 = 1023 << 52;
    // The exponent field now counts from √½; 2⁵² + it is a double that needs no integer conversion.
    let from_root = u.to_bits().wrapping_sub(ROOT_HALF.wrapping_sub(ONE));
    let exponent = f64::from_bits(0x4330_0000_0000_0000 | from_root >> 52)
        - (4_503_599_627_370_496.0 + 1023.0);
    let m = f64::from_bits((from_root & 0x000f_ffff_ffff_ffff) + ROOT_HALF);
    ((m - 1.0) / (m + 1.0), exponent)
}

/// ln u of a [`reduced`] u: e ln 2 + 2 artanh f.
#[inline(always)]
pub fn ln_reduced(f: f64, exponent: f64) -> f64 {
    let (z, twice) = (f * f, 2.0 * f);
    exponent.mul_add(std::f64::consts::LN_2, twice.mul_add(z * horner(z, &ARTANH), twice))
}

/// √2·(cos φ, sin φ) for φ = π/4 + πv/2, v in [−½, ½], by the sum and difference of cos and sin of
/// πv/2.
#[inline(always)]
pub fn quarter_turn(v: f64) -> (f64, f64) {
    let z = v * v;
    let (sin, cos) = (v * horner(z, &SIN), horner(z, &COS));
    (cos - sin, cos + sin)
}

// Interpolation at Chebyshev nodes; the relative or absolute errors are measured in the tests.
/// (artanh(f)/f − 1)/z with z = f² ≤ 0.0295.
const ARTANH: [f64; 5] = [
    0.333_333_333_336_875_4,
    0.199_999_993_986_687_93,
    0.142_858_772_679_572_45,
    0.110_957_004_151_542_52,
    0.096_813_268_571_010_04,
];
/// sin(πv/2)/v with z = v² ≤ ¼.
const SIN: [f64; 5] = [
    1.570_796_326_788_1,
    -0.645_964_096_146_795_4,
    0.079_692_582_725_630_62,
    -0.004_681_266_256_726_245,
    0.000_158_206_303_556_477_33,
];
/// cos(πv/2) with z = v².
const COS: [f64; 6] = [
    0.999_999_999_999_944_4,
    -1.233_700_550_120_159_2,
    0.253_669_507_153_704_3,
    -0.020_863_468_002_244_645,
    0.000_919_161_736_953_957_3,
    -0.000_024_850_963_357_813_637,
];

/// Σ cₖ zᵏ.
#[inline(always)]
fn horner<const N: usize>(z: f64, c: &[f64; N]) -> f64 {
    let mut sum = c[N - 1];
    for k in (0..N - 1).rev() {
        sum = sum.mul_add(z, c[k]);
    }
    sum
}
