//! Fourier features of far points.

use manifusion::internals::{Fourier, Place};

#[test]
fn far_phases_are_as_accurate_as_near_ones() {
    let fourier = Fourier::from_rows(&[1.0, 0.5, 3.0], 1);
    for x in [0.7, 9.9e5, 1.1e6, 4e8, -7e14] {
        let [sin, cos] = fourier.waves::<f32>(0, Place { x: &[x], s: 0.0, e: &[], e_s: &[] });
        for (l, b) in [1.0, 0.5, 3.0].into_iter().enumerate() {
            let (exact_sin, exact_cos) = (b * x).sin_cos();
            let error = (f64::from(sin[l]) - exact_sin).abs();
            let error = error.max((f64::from(cos[l]) - exact_cos).abs());
            assert!(error < 2.0 * f64::from(f32::EPSILON), "{b}·{x}: {error:e}");
        }
    }
}
