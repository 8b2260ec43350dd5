//! The coordinates in which a network sees hyperbolic space.

use manifusion::manifold::{LogCoordinates, parse};

#[test]
fn velocities_are_derivatives() {
    let manifold = parse("sphere:1*hyperbolic:2,K=-0.7").unwrap();
    let coordinates = LogCoordinates::new(manifold.as_ref()).unwrap();
    for size in [1e-3, 8e-3, 0.012, 0.5, 30.0] {
        let point = |t: f64| {
            let y = [size * (0.6 + 0.3 * t), size * (-0.9 + 0.8 * t)];
            let top = (1.0 / 0.7 + y[0] * y[0] + y[1] * y[1]).sqrt();
            vec![0.6, 0.8, top, y[0], y[1]]
        };
        let at = |t: f64| {
            let mut x = point(t);
            coordinates.apply(&mut x, &mut []);
            x
        };
        let h = 1e-4;
        let (mut x, mut u) = (point(0.0), Vec::new());
        for (after, before) in point(h).iter().zip(point(-h)) {
            u.push((after - before) / (2.0 * h));
        }
        coordinates.apply(&mut x, &mut u);
        for (j, u) in u.iter().enumerate() {
            let difference = (at(h)[j] - at(-h)[j]) / (2.0 * h);
            assert!((u - difference).abs() < 1e-7 * (1.0 + size), "{size} {j}: {u} {difference}");
        }
    }
    assert!(LogCoordinates::new(parse("torus:2").unwrap().as_ref()).is_none());
}
