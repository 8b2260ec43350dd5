//! The vectorised f32 activations against libm in f64, in units in the last place.

use manifusion::internals::{Phi, Sine, Softplus, Swish, Tanh};
use manifusion::nn::Activation;
use manifusion::rng::Streams;

/// Arguments of all sizes up to 10^`largest`, both signs, with the ends and the special places.
fn arguments(largest: f64) -> Vec<f32> {
    let mut stream = Streams::new(1, "test/activation").stream(0, 0);
    let mut z: Vec<f32> = (0..400_000)
        .map(|i| {
            let size = 10f64.powf(-8.0 + (8.0 + largest) * stream.uniform());
            (if i % 2 == 0 { size } else { -size }) as f32
        })
        .collect();
    // A dense sweep of where networks live.
    z.extend((-40_000..40_000).map(|i| i as f32 * 2.5e-4));
    z.extend([0.0, -0.0, 1e-38, -1e-38, 0.625, -0.625, 87.3, -87.4, 88.8, -103.0]);
    z
}

/// Size of the last place of x as f32.
fn ulp(x: f64) -> f64 {
    let x = (x.abs() as f32).max(f32::MIN_POSITIVE);
    f64::from(f32::from_bits(x.to_bits() + 1)) - f64::from(x)
}

/// Largest errors of φ, φ′ and φ″ in ulps. Where an exact value has a root away from 0, its error
/// is measured against the terms that cancel there: `floors`.
fn worst(
    activation: Activation,
    z: &[f32],
    exact: impl Fn(f64) -> [f64; 3],
    floors: [f64; 3],
) -> [f64; 3] {
    let mut found = [vec![0f32; z.len()], vec![0f32; z.len()], vec![0f32; z.len()]];
    let [value, first, second] = &mut found;
    activation.eval(z, value, first, second);
    let mut worst = [0.0f64; 3];
    for (i, z) in z.iter().enumerate() {
        let expected = exact(f64::from(*z));
        for d in 0..3 {
            let found = f64::from(found[d][i]);
            // Where e^{−|z|} leaves the normal numbers it is flushed to 0, and z·e^{−|z|} with it.
            if expected[d].abs() < 2e-36 && found.abs() < 2e-36 {
                continue;
            }
            let error = (found - expected[d]).abs() / ulp(expected[d].abs().max(floors[d]));
            assert!(error.is_finite(), "{activation:?} {z}: {found}");
            worst[d] = worst[d].max(error);
        }
    }
    worst
}

#[test]
fn sine_is_within_two_ulps_at_any_argument() {
    let exact = |z: f64| [z.sin(), z.cos(), -z.sin()];
    let mut z = arguments(38.5);
    z.extend([f32::MAX, f32::MIN, 1e6, 1_000_001.0, -999_999.94]);
    // The f32 closest to multiples of π/2: the hardest cases of the reduction.
    z.extend((1..600_000).map(|k| (f64::from(k) * std::f64::consts::FRAC_PI_2) as f32));
    // A call takes one of three ways by its largest argument; each must be seen.
    for (low, high) in [(0.0, 64.0), (64.0, 1e6), (1e6, f32::INFINITY)] {
        let part: Vec<f32> =
            z.iter().copied().filter(|z| z.abs() >= low && z.abs() <= high).collect();
        assert!(part.len() > 10_000);
        let worst = worst(Activation::Sine, &part, exact, [0.0; 3]);
        assert!(worst.iter().all(|w| *w < 2.0), "|z| in [{low}, {high}]: {worst:?}");
    }
}

#[test]
fn sine_of_infinity_is_not_a_number() {
    let z = [f32::INFINITY, 1.0, f32::NAN];
    let (mut h, mut d, mut dd) = ([0.0; 3], [0.0; 3], [0.0; 3]);
    Activation::Sine.eval(&z, &mut h, &mut d, &mut dd);
    assert!(h[0].is_nan() && h[2].is_nan() && (h[1] - 1f32.sin()).abs() < 1e-7);
}

fn logistic(z: f64) -> (f64, f64, f64) {
    let e = (-z.abs()).exp();
    let (large, small) = (1.0 / (1.0 + e), e / (1.0 + e));
    if z >= 0.0 { (large, small, large * small) } else { (small, large, large * small) }
}

#[test]
fn swish_is_within_a_few_ulps() {
    let exact = |z: f64| {
        let (up, down, bell) = logistic(z);
        [z * up, up + z * bell, bell * (2.0 + z * (down - up))]
    };
    // φ′ has a root at −1.28 and φ″ at ±2.4, between terms of this size.
    let worst = worst(Activation::Swish, &arguments(38.0), exact, [0.0, 0.25, 0.1]);
    assert!(worst.iter().all(|w| *w < 6.0), "{worst:?}");
}

#[test]
fn tanh_is_within_a_few_ulps() {
    let exact = |z: f64| {
        let sech2 = z.cosh().recip().powi(2);
        [z.tanh(), sech2, -2.0 * z.tanh() * sech2]
    };
    let worst = worst(Activation::Tanh, &arguments(38.0), exact, [0.0; 3]);
    assert!(worst.iter().all(|w| *w < 8.0), "{worst:?}");
}

#[test]
fn softplus_is_within_a_few_ulps() {
    let exact = |z: f64| {
        let (up, _, bell) = logistic(z);
        [z.max(0.0) + (-z.abs()).exp().ln_1p(), up, bell]
    };
    let worst = worst(Activation::Softplus, &arguments(38.0), exact, [0.0; 3]);
    assert!(worst.iter().all(|w| *w < 6.0), "{worst:?}");
}

const ALL: [Activation; 4] =
    [Activation::Sine, Activation::Swish, Activation::Tanh, Activation::Softplus];

#[test]
fn not_a_number_stays_so() {
    for activation in ALL {
        let mut z = [0.5f32; 40];
        z[21] = f32::NAN;
        let [mut value, mut first, mut second] = [[0f32; 40]; 3];
        activation.eval(&z, &mut value, &mut first, &mut second);
        for i in 0..40 {
            let finite = value[i].is_finite() && first[i].is_finite() && second[i].is_finite();
            let nan = value[i].is_nan() && first[i].is_nan() && second[i].is_nan();
            assert!(if i == 21 { nan } else { finite }, "{activation:?} {i}");
        }
    }
}

/// Arguments of different sizes are computed in different ways, side by side.
#[test]
fn a_value_does_not_depend_on_its_neighbours() {
    let near: Vec<f32> = (0..61).map(|i| 2.1 * i as f32 - 63.0).collect();
    let far: Vec<f32> = (0..61).map(|i| 1e3 * i as f32 + 65.5).collect();
    for activation in ALL {
        let eval = |z: &[f32]| {
            let mut out = [vec![0f32; z.len()], vec![0f32; z.len()], vec![0f32; z.len()]];
            let [value, first, second] = &mut out;
            activation.eval(z, value, first, second);
            out.map(|part| part.iter().map(|v| v.to_bits()).collect::<Vec<_>>())
        };
        for own in [&near, &far] {
            let alone = eval(own);
            for beside in [0.1, 300.0, 9e5, 1e7, f32::MAX, f32::INFINITY, f32::NAN] {
                let mut z = own.clone();
                z.push(beside);
                for (alone, together) in alone.iter().zip(eval(&z)) {
                    assert_eq!(alone[..], together[..own.len()], "{activation:?}, {beside}");
                }
            }
        }
    }
}

/// Errors in units of the last place of f32, against the same formulas in f64.
fn worst_way<P: Phi>(jet: fn(f32) -> [f32; 3], floor: f64) -> f64 {
    let arguments = (-3800..=3800).map(|i| 0.01 * i as f32);
    arguments.fold(0.0, |worst: f64, z| {
        let exact = P::jet_anywhere(f64::from(z));
        jet(z).iter().zip(exact).fold(worst, |worst, (found, exact)| {
            let unit = f64::from(f32::EPSILON) * exact.abs().max(floor).max(1e-30);
            worst.max((f64::from(*found) - exact).abs() / unit)
        })
    })
}

/// On a machine with fused multiply-adds the vectors never take the way without them.
#[test]
fn both_ways_of_each_activation_are_accurate() {
    // Derivatives have roots, near which the error is that of the terms that cancel.
    let near = [
        worst_way::<Sine>(Sine::jet_near, 0.1),
        worst_way::<Swish>(Swish::jet_near, 0.25),
        worst_way::<Tanh>(Tanh::jet_near, 0.0),
        worst_way::<Softplus>(Softplus::jet_near, 0.0),
    ];
    let plain = [
        worst_way::<Sine>(Sine::jet, 0.1),
        worst_way::<Swish>(Swish::jet, 0.25),
        worst_way::<Tanh>(Tanh::jet, 0.0),
        worst_way::<Softplus>(Softplus::jet, 0.0),
    ];
    assert!(near.iter().chain(&plain).all(|worst| *worst < 8.0), "{near:?} {plain:?}");
}
