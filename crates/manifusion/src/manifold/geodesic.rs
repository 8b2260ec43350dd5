//! Geodesics in closed form: spheres, tori, SO(3), ℝ^d, hyperbolic space, and products of these.

use super::{Family, Hyperboloid, Lorentz, Manifold, Metric};
use crate::linalg::{axpy, dot, norm, scale, scratch};

/// Geodesics of a manifold on which they are known.
///
/// On hyperbolic space they are those of g_L, whichever metric the manifold has; velocities are
/// given as the manifold itself gives tangent vectors (see [`Manifold::velocity`]).
#[derive(Clone, Debug)]
pub struct Geodesics {
    /// Factors with the number of their coordinates, in order.
    factors: Vec<(Space, usize)>,
}

#[derive(Clone, Copy, Debug)]
enum Space {
    /// A sphere; a torus is one circle after the other.
    Sphere,
    Rotations,
    Euclidean,
    Hyperbolic {
        space: Lorentz,
        metric: Metric,
    },
}

impl Geodesics {
    /// Those of a manifold; none where they are not known in closed form.
    pub fn new(manifold: &dyn Manifold) -> Option<Self> {
        let mut factors = Vec::new();
        Self::add(manifold, &mut factors).then_some(Self { factors })
    }

    fn add(manifold: &dyn Manifold, factors: &mut Vec<(Space, usize)>) -> bool {
        let m = manifold.ambient_dim();
        match manifold.family() {
            Family::Sphere { .. } => factors.push((Space::Sphere, m)),
            Family::Torus { dim } => factors.extend(vec![(Space::Sphere, 2); dim]),
            Family::Orthogonal { n: 3, special: true } => factors.push((Space::Rotations, m)),
            Family::Euclidean { .. } => factors.push((Space::Euclidean, m)),
            Family::Hyperboloid { dim, curvature, metric } => {
                let space = Lorentz::on(Hyperboloid::valid(dim, curvature, Metric::Lorentz));
                factors.push((Space::Hyperbolic { space, metric }, m));
            }
            Family::Product => {
                return manifold.factors().iter().all(|f| Self::add(f.as_ref(), factors));
            }
            Family::Orthogonal { .. } | Family::Other => return false,
        }
        true
    }

    /// `y ←` the point at t ∈ [0, 1] on the shortest geodesic from x to z, `v ←` its velocity there
    /// by t. Between points that are joined by several, one of them.
    pub fn between(&self, x: &[f64], z: &[f64], t: f64, y: &mut [f64], v: &mut [f64]) {
        let mut at = 0;
        for (space, m) in &self.factors {
            let part = at..at + m;
            let (x, z) = (&x[part.clone()], &z[part.clone()]);
            let (y, v) = (&mut y[part.clone()], &mut v[part]);
            match space {
                Space::Sphere => between_on_sphere(x, z, t, y, v),
                Space::Rotations => between_rotations(x, z, t, y, v),
                Space::Euclidean => {
                    for i in 0..*m {
                        v[i] = z[i] - x[i];
                        y[i] = x[i] + t * v[i];
                    }
                }
                Space::Hyperbolic { space, metric } => {
                    between_on_hyperboloid(space, *metric, x, z, t, y, v);
                }
            }
            at += m;
        }
    }

    /// `x ← exp_x(u)`, for a tangent vector u as the manifold gives it.
    pub fn exp(&self, x: &mut [f64], u: &[f64]) {
        let mut at = 0;
        for (space, m) in &self.factors {
            let part = at..at + m;
            let (x, u) = (&mut x[part.clone()], &u[part]);
            match space {
                Space::Sphere => {
                    let length = norm(u);
                    let (sin, cos) = length.sin_cos();
                    scale(cos, x);
                    axpy(if length > 0.0 { sin / length } else { 1.0 }, u, x);
                    // Rounding must not add up along a walk.
                    let length = norm(x);
                    scale(1.0 / length, x);
                }
                Space::Rotations => {
                    let axis = turning(x, u);
                    turn(x, axis);
                }
                Space::Euclidean => axpy(1.0, u, x),
                Space::Hyperbolic { space, metric } => {
                    let start = crate::linalg::Scratch::from_slice(x);
                    let coefficients = frame_coefficients(space, *metric, &start, u);
                    space.exp_transported(&start, &coefficients[1..], x);
                }
            }
            at += m;
        }
    }
}

fn between_on_sphere(x: &[f64], z: &[f64], t: f64, y: &mut [f64], v: &mut [f64]) {
    let m = x.len();
    let (mut apart, mut together) = (0.0, 0.0);
    for i in 0..m {
        apart += (z[i] - x[i]).powi(2);
        together += (z[i] + x[i]).powi(2);
        v[i] = z[i] - x[i];
    }
    let angle = 2.0 * apart.sqrt().atan2(together.sqrt());
    // The unit tangent at x towards z, accurate for near points.
    let along = dot(x, v);
    axpy(-along, x, v);
    let length = norm(v);
    if length > 1e-300 {
        scale(1.0 / length, v);
    } else {
        // z = x, where it does not matter, or z = −x, where any direction is as good.
        let least = (0..m).min_by(|a, b| x[*a].abs().total_cmp(&x[*b].abs())).unwrap_or(0);
        for i in 0..m {
            v[i] = -x[least] * x[i];
        }
        v[least] += 1.0;
        let length = norm(v);
        scale(1.0 / length, v);
    }
    let (sin, cos) = (t * angle).sin_cos();
    for i in 0..m {
        let direction = v[i];
        y[i] = cos * x[i] + sin * direction;
        v[i] = angle * (cos * direction - sin * x[i]);
    }
}

/// The product XᵀU of 3 × 3 matrices in rows.
fn transposed_product(x: &[f64], u: &[f64]) -> [f64; 9] {
    std::array::from_fn(|k| (0..3).map(|i| x[3 * i + k / 3] * u[3 * i + k % 3]).sum())
}

/// The rotation vector ω with XᵀU = [ω], for a tangent vector U at X.
fn turning(x: &[f64], u: &[f64]) -> [f64; 3] {
    let skew = transposed_product(x, u);
    [0.5 * (skew[7] - skew[5]), 0.5 * (skew[2] - skew[6]), 0.5 * (skew[3] - skew[1])]
}

/// [ω].
fn cross_matrix(w: [f64; 3]) -> [f64; 9] {
    [0.0, -w[2], w[1], w[2], 0.0, -w[0], -w[1], w[0], 0.0]
}

fn product(a: &[f64], b: &[f64]) -> [f64; 9] {
    std::array::from_fn(|k| (0..3).map(|i| a[3 * (k / 3) + i] * b[3 * i + k % 3]).sum())
}

/// `x ← X exp[ω]`, by Rodrigues' formula.
fn turn(x: &mut [f64], w: [f64; 3]) {
    let angle = norm(&w);
    let (a, b) = if angle > 1e-4 {
        (angle.sin() / angle, 2.0 * (0.5 * angle).sin().powi(2) / (angle * angle))
    } else {
        (1.0 - angle * angle / 6.0, 0.5 - angle * angle / 24.0)
    };
    let once = cross_matrix(w);
    let twice = product(&once, &once);
    let mut rotation = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    axpy(a, &once, &mut rotation);
    axpy(b, &twice, &mut rotation);
    let turned = product(x, &rotation);
    x.copy_from_slice(&turned);
}

/// The rotation vector of a rotation, of length at most π, by its unit quaternion.
fn rotation_vector(r: &[f64; 9]) -> [f64; 3] {
    // The largest of the four squares, so that nothing is divided by a small number.
    let squares = [
        1.0 + r[0] + r[4] + r[8],
        1.0 + r[0] - r[4] - r[8],
        1.0 - r[0] + r[4] - r[8],
        1.0 - r[0] - r[4] + r[8],
    ];
    let largest = (0..4).max_by(|a, b| squares[*a].total_cmp(&squares[*b])).unwrap_or(0);
    let skew = [r[7] - r[5], r[2] - r[6], r[3] - r[1]];
    let both = [r[7] + r[5], r[2] + r[6], r[3] + r[1]];
    let (w, mut v) = match largest {
        0 => (squares[0], skew),
        1 => (skew[0], [squares[1], both[2], both[1]]),
        2 => (skew[1], [both[2], squares[2], both[0]]),
        _ => (skew[2], [both[1], both[0], squares[3]]),
    };
    let sine = norm(&v);
    if sine > 0.0 {
        let sign = if w < 0.0 { -1.0 } else { 1.0 };
        scale(sign * 2.0 * sine.atan2(w.abs()) / sine, &mut v);
    }
    v
}

fn between_rotations(x: &[f64], z: &[f64], t: f64, y: &mut [f64], v: &mut [f64]) {
    let w = rotation_vector(&transposed_product(x, z));
    y.copy_from_slice(x);
    turn(y, w.map(|w| t * w));
    v.copy_from_slice(&product(y, &cross_matrix(w)));
}

/// Coefficients of a tangent vector in the frame of g_L. With V = I + c yyᵀ in the chart, V⁻¹ is
/// I − c yyᵀ/(1 + c|y|²).
fn frame_coefficients(space: &Lorentz, metric: Metric, x: &[f64], u: &[f64]) -> Vec<f64> {
    let mut coefficients = u.to_vec();
    coefficients[0] = 0.0;
    if metric == Metric::Euclidean {
        let k = -space.points().curvature();
        let y = &x[1..];
        let c = k / (1.0 + k.sqrt() * space.points().height(y));
        let along = dot(y, &u[1..]);
        axpy(-c * along / (1.0 + c * dot(y, y)), y, &mut coefficients[1..]);
    }
    coefficients
}

fn between_on_hyperboloid(
    space: &Lorentz,
    metric: Metric,
    x: &[f64],
    z: &[f64],
    t: f64,
    y: &mut [f64],
    v: &mut [f64],
) {
    let mut towards = scratch(x.len() - 1);
    space.log_transported(x, z, &mut towards);
    scale(t, &mut towards);
    space.exp_transported(x, &towards, y);
    // The velocity points away from x and towards z; the farther one tells it better.
    v[0] = 0.0;
    if t > 0.5 {
        space.log_transported(y, x, &mut v[1..]);
        scale(-1.0 / t, v);
    } else {
        space.log_transported(y, z, &mut v[1..]);
        scale(1.0 / (1.0 - t), v);
    }
    if metric == Metric::Euclidean {
        space.points().velocity(y, v);
    }
}
