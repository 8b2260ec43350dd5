//! Standard normals in bulk: Philox blocks through Box–Muller, written so that the compiler
//! vectorises it. No fused multiply-add is used, so every instruction set gives the same bits.

use super::philox::philox_lanes;

/// Blocks handled together; each gives two normals.
const LANES: usize = 16;

/// Fills `out` with normals `2·first_pair`, … of the stream with this key and counter.
pub(super) fn fill(key: [u32; 2], counter: [u32; 4], first_pair: u32, out: &mut [f64]) {
    pulp::Arch::new().dispatch(|| fill_inlined(key, counter, first_pair, out));
}

#[inline(always)]
fn fill_inlined(key: [u32; 2], counter: [u32; 4], mut pair: u32, out: &mut [f64]) {
    let mut chunks = out.chunks_exact_mut(2 * LANES);
    for chunk in &mut chunks {
        let (cos, sin) = normal_pairs(key, counter, pair);
        for l in 0..LANES {
            chunk[2 * l] = cos[l];
            chunk[2 * l + 1] = sin[l];
        }
        pair = pair.wrapping_add(LANES as u32);
    }
    let rest = chunks.into_remainder();
    if !rest.is_empty() {
        let (cos, sin) = normal_pairs(key, counter, pair);
        for (i, value) in rest.iter_mut().enumerate() {
            *value = if i % 2 == 0 { cos[i / 2] } else { sin[i / 2] };
        }
    }
}

/// `LANES` pairs r·(cos φ, sin φ) with r = √(−2 ln u₁), φ = 2π u₂.
#[inline(always)]
fn normal_pairs(key: [u32; 2], counter: [u32; 4], first: u32) -> ([f64; LANES], [f64; LANES]) {
    let w = philox_lanes::<LANES>(key, counter, first);
    let (mut cos, mut sin) = ([0.0; LANES], [0.0; LANES]);
    for l in 0..LANES {
        let (u1, u2) = (unit(w[0][l], w[1][l]), unit(w[2][l], w[3][l]));
        let r = (-2.0 * ln_unit(2.0 - u1)).sqrt();
        let (c, s) = cos_sin_turn(u2 - 1.0);
        cos[l] = r * c;
        sin[l] = r * s;
    }
    (cos, sin)
}

/// 52 random bits as a number in [1, 2).
#[inline(always)]
fn unit(lo: u32, hi: u32) -> f64 {
    let bits = u64::from(lo) | u64::from(hi) << 32;
    f64::from_bits(0x3ff0_0000_0000_0000 | bits >> 12)
}

/// ln u for a normal u in (0, 1], within 2 ulp: u = 2ᵉ·m with m in [√½, √2), and
/// ln m = 2 artanh((m−1)/(m+1)) by its series.
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
    let z = f * f;
    let tail = z
        * (1.0 / 3.0
            + z * (1.0 / 5.0
                + z * (1.0 / 7.0
                    + z * (1.0 / 9.0
                        + z * (1.0 / 11.0
                            + z * (1.0 / 13.0
                                + z * (1.0 / 15.0 + z * (1.0 / 17.0 + z * (1.0 / 19.0)))))))));
    // ln 2 in two parts, so that e·ln 2 keeps its last bits.
    e * 0.693_147_180_369_123_8 + (2.0 * f + (2.0 * f * tail + e * 1.908_214_929_270_587_7e-10))
}

/// (cos 2πu, sin 2πu) for u in [0, 1): reduction to an eighth of a turn, then Taylor.
#[inline(always)]
fn cos_sin_turn(u: f64) -> (f64, f64) {
    // Adding 1.5·2⁵² rounds to the nearest integer and leaves it in the low bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let shifted = 4.0 * u + ROUND;
    let quadrant = shifted.to_bits();
    let x = (4.0 * u - (shifted - ROUND)) * std::f64::consts::FRAC_PI_2;
    let z = x * x;
    let sin = x - x
        * z
        * (1.0 / 6.0
            - z * (1.0 / 120.0
                - z * (1.0 / 5040.0
                    - z * (1.0 / 362_880.0
                        - z * (1.0 / 39_916_800.0
                            - z * (1.0 / 6_227_020_800.0 - z * (1.0 / 1_307_674_368_000.0)))))));
    let cos = 1.0
        - z * (0.5
            - z * (1.0 / 24.0
                - z * (1.0 / 720.0
                    - z * (1.0 / 40_320.0
                        - z * (1.0 / 3_628_800.0
                            - z * (1.0 / 479_001_600.0
                                - z * (1.0 / 87_178_291_200.0
                                    - z * (1.0 / 20_922_789_888_000.0))))))));
    let odd = quadrant & 1 == 1;
    let (c, s) = if odd { (sin, cos) } else { (cos, sin) };
    let cos_sign = (quadrant.wrapping_add(1) & 2) << 62;
    let sin_sign = (quadrant & 2) << 62;
    (f64::from_bits(c.to_bits() ^ cos_sign), f64::from_bits(s.to_bits() ^ sin_sign))
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
            assert!((ln_unit(u) - expected).abs() <= 4e-16 * expected.abs().max(1e-300), "{u}");
            let turn = if u < 1.0 { u } else { 0.0 };
            let (c, s) = cos_sin_turn(turn);
            let (es, ec) = (std::f64::consts::TAU * turn).sin_cos();
            // 2π·u itself is rounded in the reference: 4e-16 · 2π.
            assert!((c - ec).abs() < 2e-15 && (s - es).abs() < 2e-15, "{turn}");
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
        let (head, tail) = pieces.split_at_mut(46);
        streams.fill_normal(1, 2, 0, head);
        streams.fill_normal(1, 2, 23, tail);
        assert_eq!(whole, pieces);
    }
}
