//! Optimisers against their formulas, step by step in f64.

use manifusion::optim::{Adam, AdamConfig, Decay, Ema, OptimError, Schedule, clip_norm, norm};

#[test]
fn adamw_follows_its_formula() {
    let config = AdamConfig { weight_decay: 0.1, ..AdamConfig::default() };
    let n = 40_000;
    let mut params: Vec<f64> = (0..n).map(|i| (f64::from(i) * 0.7).sin()).collect();
    let mut adam = Adam::new(config, params.len()).unwrap();
    let (mut p, mut m, mut v) = (params[17], 0.0f64, 0.0f64);
    for t in 1..=25i32 {
        let grad: Vec<f64> = params.iter().map(|p| 2.0 * p + f64::from(t) * 0.01).collect();
        let (lr, g) = (0.01 / f64::from(t), grad[17]);
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        let (m_hat, v_hat) = (m / (1.0 - 0.9f64.powi(t)), v / (1.0 - 0.999f64.powi(t)));
        p = p - lr * 0.1 * p - lr * m_hat / (v_hat.sqrt() + 1e-8);
        adam.step(&mut params, &grad, lr).unwrap();
        assert!((params[17] - p).abs() < 1e-13, "step {t}: {} {p}", params[17]);
    }
    assert_eq!(adam.steps(), 25);
}

#[test]
fn clipping_scales_to_the_norm_and_leaves_short_gradients_alone() {
    let mut g: Vec<f32> = (0..100_000).map(|i| (i as f32).cos()).collect();
    let before = norm(&g);
    let exact = g.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
    assert!((before - exact).abs() < 1e-10 * exact);
    let (keep, returned) = (g.clone(), clip_norm(&mut g, 1e6).unwrap());
    assert!(keep == g && returned.to_bits() == before.to_bits());
    clip_norm(&mut g, 2.0).unwrap();
    assert!((norm(&g) - 2.0).abs() < 1e-5);
    g[5] = f32::NAN;
    assert!(matches!(clip_norm(&mut g, 2.0), Err(OptimError::NotFinite { .. })));
}

#[test]
fn averages_decay_geometrically() {
    let mut ema = Ema::new(0.9, &vec![1.0f64; 50_000]).unwrap();
    let zero = vec![0.0; 50_000];
    (0..10).for_each(|_| ema.update(&zero, 1_000_000).unwrap());
    assert!(ema.weights().iter().all(|w| (w - 0.9f64.powi(10)).abs() < 1e-14));
    // At first the decay is (1 + t)/(10 + t): a tenth of the start is left after one step.
    let mut early = Ema::new(0.9, &[1.0f64]).unwrap();
    early.update(&[0.0], 0).unwrap();
    assert!((early.weights()[0] - 0.1).abs() < 1e-15);
    assert!(matches!(ema.update(&[0.0; 3], 0), Err(OptimError::Len { found: 3, .. })));
    assert!(matches!(Ema::new(1.0, &[0.0f32]), Err(OptimError::Setting { .. })));
}

#[test]
fn schedules_pass_through_their_points() {
    let cosine = Schedule { base: 2.0, warmup: 10, decay: Decay::Cosine, total: 110, floor: 0.1 };
    let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
    assert!(close(cosine.rate(0), 0.2) && close(cosine.rate(9), 2.0));
    assert!(close(cosine.rate(10), 2.0) && close(cosine.rate(60), 2.0 * (0.1 + 0.9 * 0.5)));
    assert!(close(cosine.rate(110), 0.2) && close(cosine.rate(500), 0.2));
    let constant = Schedule { base: 3.0, warmup: 2, ..Schedule::default() };
    assert!(close(constant.rate(0), 1.5) && close(constant.rate(1000), 3.0));
}

#[test]
fn settings_out_of_range_are_refused() {
    for config in [
        AdamConfig { beta1: 1.0, ..AdamConfig::default() },
        AdamConfig { beta2: -0.1, ..AdamConfig::default() },
        AdamConfig { epsilon: 0.0, ..AdamConfig::default() },
        AdamConfig { weight_decay: f64::NAN, ..AdamConfig::default() },
    ] {
        assert!(matches!(Adam::<f32>::new(config, 3), Err(OptimError::Setting { .. })));
    }
    let mut adam = Adam::<f32>::new(AdamConfig::default(), 3).unwrap();
    assert!(matches!(adam.step(&mut [0.0; 3], &[0.0; 2], 0.1), Err(OptimError::Len { .. })));
}
