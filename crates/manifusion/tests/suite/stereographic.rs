//! The stereographic projection and its stretch.

use manifusion::internals::{Chart, distance, norm, scale};
use manifusion::rng::Streams;

#[test]
fn the_projection_is_undone_and_stretches_as_it_says() {
    let chart = Chart { pole: vec![0.6, 0.0, 0.8] };
    let streams = Streams::new(1, "chart");
    for row in 0..20 {
        let mut x = vec![0.0; 3];
        streams.fill_normal(row, 0, 0, &mut x);
        let length = norm(&x);
        scale(1.0 / length, &mut x);
        let (mut z, mut back) = (vec![0.0; 2], vec![0.0; 3]);
        chart.project(&x, &mut z).unwrap();
        chart.lift(&z, &mut back);
        assert!(distance(&x, &back) < 1e-12);
        // The area of a small square, by its corners on the sphere.
        let h = 1e-5;
        let corner = |a: f64, b: f64| {
            let mut x = vec![0.0; 3];
            chart.lift(&[z[0] + a, z[1] + b], &mut x);
            x
        };
        let side = |p: Vec<f64>, q: Vec<f64>| -> Vec<f64> {
            p.iter().zip(&q).map(|(p, q)| (p - q) / (2.0 * h)).collect()
        };
        let (u, v) = (side(corner(h, 0.0), corner(-h, 0.0)), side(corner(0.0, h), corner(0.0, -h)));
        let area = norm(&[
            u[1] * v[2] - u[2] * v[1],
            u[2] * v[0] - u[0] * v[2],
            u[0] * v[1] - u[1] * v[0],
        ]);
        assert!((area.ln() + Chart::log_stretch(&z)).abs() < 1e-6, "{area}");
    }
    // The pole has no projection; what is near it is far away.
    let mut z = vec![0.0; 2];
    let refused = chart.project(&[0.6, 0.0, 0.8], &mut z).unwrap_err();
    assert!(refused.to_string().contains("stereographic"), "{refused}");
    chart.project(&[0.6, 1e-9, 0.8], &mut z).unwrap();
    assert!(norm(&z) > 1e8, "{z:?}");
}
