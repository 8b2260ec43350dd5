//! Divergence-free fields that span every tangent space: rotations of S², turns of circles, turns
//! of SO(3).

use super::{Family, Manifold};

/// Fields V_k(x), linear in x, without divergence and spanning T_xM; a vector field is then
/// Σ_k g_k(x) V_k(x), and its divergence Σ_k V_k(g_k). There are at most as many as coordinates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generators {
    /// Factors with the number of their coordinates, in order.
    factors: Vec<(Space, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// V_k = x × c_k on S², with the coordinate vectors c_k.
    Sphere,
    /// V = (−y, x) on a circle; the second number is not used.
    Circle,
    /// X[c_k] on SO(3); the last six numbers are not used.
    Rotations,
}

impl Generators {
    /// Those of a manifold; none where they are not known, or are more than coordinates.
    pub fn new(manifold: &dyn Manifold) -> Option<Self> {
        let mut factors = Vec::new();
        Self::add(manifold, &mut factors).then_some(Self { factors })
    }

    fn add(manifold: &dyn Manifold, factors: &mut Vec<(Space, usize)>) -> bool {
        match manifold.family() {
            Family::Sphere { dim: 1 } => factors.push((Space::Circle, 2)),
            Family::Sphere { dim: 2 } => factors.push((Space::Sphere, 3)),
            Family::Torus { dim } => factors.extend(vec![(Space::Circle, 2); dim]),
            Family::Orthogonal { n: 3, special: true } => factors.push((Space::Rotations, 9)),
            Family::Product => {
                return manifold.factors().iter().all(|f| Self::add(f.as_ref(), factors));
            }
            _ => return false,
        }
        true
    }

    /// `out ← Σ_k g_k V_k(x)`. Linear in x, so that it is also the derivative along a direction x.
    pub fn apply(&self, x: &[f64], g: &[f64], out: &mut [f64]) {
        let mut at = 0;
        for (space, m) in &self.factors {
            let part = at..at + m;
            let (x, g, out) = (&x[part.clone()], &g[part.clone()], &mut out[part]);
            match space {
                Space::Sphere => out.copy_from_slice(&cross(x, g)),
                Space::Circle => {
                    out[0] = -x[1] * g[0];
                    out[1] = x[0] * g[0];
                }
                Space::Rotations => {
                    for i in 0..3 {
                        // A row of X[g] is the row of X, times [g]: −g × row, or row × g.
                        let row = cross(&x[3 * i..3 * i + 3], g);
                        out[3 * i..3 * i + 3].copy_from_slice(&row);
                    }
                }
            }
            at += m;
        }
    }

    /// `out ← ⟨V_k(x), a⟩` for every k: the transposed map.
    pub fn transposed(&self, x: &[f64], a: &[f64], out: &mut [f64]) {
        out.fill(0.0);
        let mut at = 0;
        for (space, m) in &self.factors {
            let part = at..at + m;
            let (x, a, out) = (&x[part.clone()], &a[part.clone()], &mut out[part]);
            match space {
                // ⟨x × c_k, a⟩ = ⟨c_k, a × x⟩
                Space::Sphere => out.copy_from_slice(&cross(a, x)),
                Space::Circle => out[0] = x[0] * a[1] - x[1] * a[0],
                Space::Rotations => {
                    for i in 0..3 {
                        let own = 3 * i..3 * i + 3;
                        for (out, c) in out.iter_mut().zip(cross(&a[own.clone()], &x[own])) {
                            *out += c;
                        }
                    }
                }
            }
            at += m;
        }
    }
}

fn cross(a: &[f64], b: &[f64]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}
