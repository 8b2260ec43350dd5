//! Philox against published answers, and what its streams must give: numbers by seed, purpose, row
//! and step, and normals that are normal.

use manifusion::internals::{ln_reduced, philox, philox_lanes, quarter_turn, reduced};
use manifusion::rng::Streams;
use rand_core::TryRng;

/// Known answers published with the Random123 library (kat_vectors, philox4x32 10).
#[test]
fn known_answers() {
    assert_eq!(philox([0, 0], [0; 4]), [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8]);
    assert_eq!(
        philox([u32::MAX; 2], [u32::MAX; 4]),
        [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd]
    );
    assert_eq!(
        philox([0xa4093822, 0x299f31d0], [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344]),
        [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1]
    );
}

#[test]
fn lanes_equal_single_blocks() {
    let key = [3, 5];
    let blocks: [u64; 8] = std::array::from_fn(|l| 100 + l as u64);
    let (low, high) = philox_lanes(key, [blocks, [11; 8], [12; 8], [13; 8]]);
    for l in 0..8 {
        let [a, b, c, d] = philox(key, [100 + l as u32, 11, 12, 13]).map(u64::from);
        assert_eq!((a | b << 32, c | d << 32), (low[l], high[l]));
    }
}

#[test]
fn streams_are_functions_of_seed_purpose_row_and_step() {
    let draw = |seed, purpose: &str, row, step| {
        Streams::new(seed, purpose).stream(row, step).try_next_u64().unwrap()
    };
    let base = draw(1, "noise", 2, 3);
    assert_eq!(base, draw(1, "noise", 2, 3));
    for other in [
        draw(2, "noise", 2, 3),
        draw(1, "probes", 2, 3),
        draw(1, "noise", 3, 3),
        draw(1, "noise", 2, 4),
        draw(1, "noise", 2 + (1 << 32), 3),
        draw(1, "noise", 2, 3 + (1 << 32)),
    ] {
        assert_ne!(base, other);
    }
    let streams = Streams::new(1, "noise");
    assert_ne!(streams, streams.part(0));
    assert_ne!(streams.part(0), streams.part(1));
}

#[test]
fn uniform_is_in_the_half_open_interval_with_the_right_moments() {
    let mut stream = Streams::new(7, "test").stream(0, 0);
    let n = 1_000_000;
    let (mut sum, mut squares) = (0.0, 0.0);
    for _ in 0..n {
        let u = stream.uniform();
        assert!(u > 0.0 && u <= 1.0);
        sum += u;
        squares += u * u;
    }
    // Standard errors: sqrt(1/12)/1000 and sqrt(4/45)/1000; four of them.
    assert!((sum / f64::from(n) - 0.5).abs() < 4.0 * 2.9e-4);
    assert!((squares / f64::from(n) - 1.0 / 3.0).abs() < 4.0 * 3.0e-4);
}

#[test]
fn logarithm_and_circle_agree_with_libm() {
    let ln = |u: f64| {
        let (f, exponent) = reduced(u);
        ln_reduced(f, exponent)
    };
    let mut stream = Streams::new(1, "test").stream(0, 0);
    for i in 0..200_000 {
        let u = if i % 2 == 0 { stream.uniform() } else { 2f64.powf(-52.0 * stream.uniform()) };
        let expected = u.ln();
        // Near u = 1 relative to ln u itself.
        assert!((ln(u) - expected).abs() <= 1e-11 * expected.abs() + 1e-300, "{u}");
        let v = u.min(1.0) - 0.5;
        let (c, s) = quarter_turn(v);
        let (es, ec) = (std::f64::consts::FRAC_PI_2 * (0.5 + v)).sin_cos();
        let root = std::f64::consts::SQRT_2;
        assert!((c - root * ec).abs() < 1e-11 && (s - root * es).abs() < 1e-11, "{v}");
    }
    assert!(ln(1.0).abs() < 1e-300);
}

/// Both signs and all quarters, by the angle of pairs: 64 equal sectors, χ² with 63 degrees of
/// freedom.
#[test]
fn angles_are_uniform() {
    let n = 1 << 18;
    let mut z = vec![0.0; 2 * n];
    Streams::new(8, "angles").fill_normal(0, 0, 0, &mut z);
    let mut counts = [0.0; 64];
    for pair in z.chunks_exact(2) {
        let turn = pair[1].atan2(pair[0]) / std::f64::consts::TAU + 0.5;
        counts[((64.0 * turn) as usize).min(63)] += 1.0;
    }
    let expected = n as f64 / 64.0;
    let square: f64 = counts.iter().map(|c| (c - expected) * (c - expected) / expected).sum();
    // Mean 63, standard deviation √126.
    assert!((square - 63.0).abs() < 4.0 * 126f64.sqrt(), "{square}");
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
