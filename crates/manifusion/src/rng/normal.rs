//! Standard normals in bulk: Philox blocks through Box–Muller, in short loops over lanes that the compiler vectorises.
//!
//! Fused multiply-adds are written out, never left to the compiler, so every instruction set gives the same bits. The
//! polynomials stop at a relative error of 1e-11, far below what any sample can show.

use super::philox::philox_lanes;

/// Blocks handled together; each gives four normals.
const LANES: usize = 8;
/// Blocks handled together for a short request.
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
            // A few numbers (one step of a small manifold) are not worth all lanes; the bits are the same.
            if chunk.len() <= 4 * FEW {
                write_blocks::<FEW>(self.key, self.counter, block, chunk);
            } else {
                write_blocks::<LANES>(self.key, self.counter, block, chunk);
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

/// r·(cos φ, sin φ) with r = √(−2 ln u₁), φ = 2π u₂: 40 bits for u₁, which reach 7.4 standard deviations, and the other 24 for the angle.
#[inline(always)]
fn normal_pairs<const L: usize>(bits: [u64; L]) -> ([f64; L], [f64; L]) {
    let (mut r, mut cos, mut sin) = ([0.0; L], [0.0; L], [0.0; L]);
    for l in 0..L {
        r[l] = (-2.0 * ln_unit(2.0 - unit(bits[l] >> 24 << 12 | 0x800))).sqrt();
    }
    for l in 0..L {
        let (c, s) = cos_sin_turn(unit((bits[l] & 0xff_ffff) << 28) - 1.0);
        cos[l] = r[l] * c;
        sin[l] = r[l] * s;
    }
    (cos, sin)
}

/// A fraction of 52 bits as a number in [1, 2).
#[inline(always)]
fn unit(fraction: u64) -> f64 {
    f64::from_bits(0x3ff0_0000_0000_0000 | fraction)
}

/// ln u for a normal u in (0, 1]: u = 2ᵉ·m with m in [√½, √2), and ln m = 2 artanh((m−1)/(m+1)).
#[inline(always)]
fn ln_unit(u: f64) -> f64 {
    let bits = u.to_bits();
    // The biased exponent as a double, by the 2⁵² trick: no integer conversion needed.
    let exponent = f64::from_bits(0x4330_0000_0000_0000 | bits >> 52) - 4_503_599_627_370_496.0;
    let mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    let large = mantissa > std::f64::consts::SQRT_2;
    let m = if large { 0.5 * mantissa } else { mantissa };
    let e = if large { exponent - 1022.0 } else { exponent - 1023.0 };
    let f = (m - 1.0) / (m + 1.0);
    let twice = 2.0 * f;
    let tail = (f * f) * horner(f * f, &ARTANH);
    e.mul_add(std::f64::consts::LN_2, twice.mul_add(tail, twice))
}

/// (cos 2πu, sin 2πu) for u in [0, 1): reduction to an eighth of a turn, then Taylor.
#[inline(always)]
fn cos_sin_turn(u: f64) -> (f64, f64) {
    // Adding 1.5·2⁵² rounds to the nearest integer and leaves it in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let shifted = 4.0f64.mul_add(u, ROUND);
    let quadrant = shifted.to_bits();
    let x = 4.0f64.mul_add(u, ROUND - shifted) * std::f64::consts::FRAC_PI_2;
    let z = x * x;
    let sin = (x * z).mul_add(horner(z, &SIN), x);
    let cos = z.mul_add(horner(z, &COS), 1.0);
    let odd = quadrant & 1 == 1;
    let (c, s) = if odd { (sin, cos) } else { (cos, sin) };
    let cos_sign = (quadrant.wrapping_add(1) & 2) << 62;
    let sin_sign = (quadrant & 2) << 62;
    (f64::from_bits(c.to_bits() ^ cos_sign), f64::from_bits(s.to_bits() ^ sin_sign))
}

/// artanh(f)/f = 1 + z/3 + z²/5 + … with z = f² ≤ 0.0295.
const ARTANH: [f64; 6] = [1.0 / 3.0, 1.0 / 5.0, 1.0 / 7.0, 1.0 / 9.0, 1.0 / 11.0, 1.0 / 13.0];
/// sin x = x + x z Σ SIN[k] zᵏ with z = x² ≤ (π/4)².
const SIN: [f64; 5] =
    [-1.0 / 6.0, 1.0 / 120.0, -1.0 / 5040.0, 1.0 / 362_880.0, -1.0 / 39_916_800.0];
/// cos x = 1 + z Σ COS[k] zᵏ.
const COS: [f64; 6] =
    [-0.5, 1.0 / 24.0, -1.0 / 720.0, 1.0 / 40_320.0, -1.0 / 3_628_800.0, 1.0 / 479_001_600.0];

/// Σ cₖ zᵏ.
#[inline(always)]
fn horner<const N: usize>(z: f64, c: &[f64; N]) -> f64 {
    let mut sum = c[N - 1];
    for k in (0..N - 1).rev() {
        sum = sum.mul_add(z, c[k]);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Streams;

    #[test]
    fn logarithm_and_circle_agree_with_libm() {
        let mut stream = Streams::new(1, "test").stream(0, 0);
        for i in 0..200_000 {
            let u = if i % 2 == 0 { stream.uniform() } else { 2f64.powf(-52.0 * stream.uniform()) };
            let expected = u.ln();
            // Series: 0.0295⁶/15; near u = 1 relative to ln u itself.
            assert!((ln_unit(u) - expected).abs() <= 1e-11 * expected.abs() + 1e-300, "{u}");
            let turn = if u < 1.0 { u } else { 0.0 };
            let (c, s) = cos_sin_turn(turn);
            let (es, ec) = (std::f64::consts::TAU * turn).sin_cos();
            assert!((c - ec).abs() < 1e-11 && (s - es).abs() < 1e-11, "{turn}");
        }
        assert!(ln_unit(1.0).abs() < 1e-300);
    }

    /// Moments up to the fourth, lag and pair correlations, and the tail, at 4 standard errors.
    #[test]
    fn normals_are_normal() {
        let n = 1_000_000;
        let mut z = vec![0.0; n];
        Streams::new(5, "normal").fill_normal(3, 4, 0, &mut z);
        let mean = |f: &dyn Fn(usize) -> f64| (0..n).map(f).sum::<f64>() / n as f64;
        let se = 1.0 / (n as f64).sqrt();
        assert!(mean(&|i| z[i]).abs() < 4.0 * se);
        assert!((mean(&|i| z[i].powi(2)) - 1.0).abs() < 4.0 * se * 2f64.sqrt());
        assert!(mean(&|i| z[i].powi(3)).abs() < 4.0 * se * 15f64.sqrt());
        assert!((mean(&|i| z[i].powi(4)) - 3.0).abs() < 4.0 * se * 96f64.sqrt());
        for lag in [1, 2, 16, 31, 32] {
            assert!(mean(&|i| z[i] * z[(i + lag) % n]).abs() < 4.0 * se, "lag {lag}");
            let squares = mean(&|i| (z[i].powi(2) - 1.0) * (z[(i + lag) % n].powi(2) - 1.0));
            assert!(squares.abs() < 4.0 * se * 2.0, "squares, lag {lag}");
        }
        // P(|Z| > 3) = 0.0026997961.
        let tail = mean(&|i| f64::from(z[i].abs() > 3.0));
        assert!((tail - 0.002_699_796_1).abs() < 4.0 * (0.0027f64).sqrt() * se);
    }

    #[test]
    fn rows_are_uncorrelated() {
        let (n, m) = (20_000, 8);
        let streams = Streams::new(6, "rows");
        let rows: Vec<Vec<f64>> = (0..n)
            .map(|row| {
                let mut z = vec![0.0; m];
                streams.fill_normal(row, 0, 0, &mut z);
                z
            })
            .collect();
        for j in 0..m {
            let lagged: f64 = (1..n as usize).map(|i| rows[i][j] * rows[i - 1][j]).sum::<f64>();
            assert!(lagged.abs() < 4.0 * (n as f64).sqrt());
        }
    }

    #[test]
    fn pieces_equal_the_whole() {
        let streams = Streams::new(9, "pieces");
        let mut whole = vec![0.0; 101];
        streams.fill_normal(1, 2, 0, &mut whole);
        let mut pieces = vec![0.0; 101];
        let (head, tail) = pieces.split_at_mut(44);
        streams.fill_normal(1, 2, 0, head);
        streams.fill_normal(1, 2, 11, tail);
        assert_eq!(whole, pieces);
    }
}
