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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linalg::{dot, norm};
    use crate::manifold::parse;
    use crate::prior::default_prior;
    use crate::rng::Streams;

    #[test]
    fn generators_are_tangent_span_and_have_no_divergence() {
        for spec in ["sphere:1", "sphere:2", "torus:3", "so:3", "sphere:2*torus:1*so:3"] {
            let manifold = parse(spec).unwrap();
            let generators = Generators::new(manifold.as_ref()).unwrap();
            let (m, d) = (manifold.ambient_dim(), manifold.dim());
            let mut x = vec![0.0; m];
            let mut stream = Streams::new(2, "generators").stream(0, 0);
            default_prior(&manifold).unwrap().sample(&mut stream, &mut x).unwrap();
            let mut frame = vec![0.0; d * m];
            manifold.frame(&x, &mut frame);
            let (mut field, mut back) = (vec![0.0; m], vec![0.0; m]);
            for k in 0..m {
                let mut g = vec![0.0; m];
                g[k] = 1.0;
                generators.apply(&x, &g, &mut field);
                let mut tangent = field.clone();
                manifold.project_tangent(&x, &mut tangent);
                assert!(crate::linalg::distance(&tangent, &field) < 1e-12, "{spec} {k}");
                // Σ_j ⟨e_j, V_k(e_j)⟩, V_k being linear.
                let mut trace = 0.0;
                for e in frame.chunks_exact(m) {
                    let mut moved = vec![0.0; m];
                    generators.apply(e, &g, &mut moved);
                    trace += dot(e, &moved);
                }
                assert!(trace.abs() < 1e-12, "{spec} {k}: {trace}");
            }
            for e in frame.chunks_exact(m) {
                generators.transposed(&x, e, &mut back);
                assert!(norm(&back) > 0.5, "{spec}: {e:?} is not reached");
                let mut g = vec![0.0; m];
                Streams::new(4, "g").fill_normal(0, 0, 0, &mut g);
                generators.apply(&x, &g, &mut field);
                assert!((dot(&field, e) - dot(&g, &back)).abs() < 1e-12, "{spec}");
            }
        }
        assert!(Generators::new(parse("sphere:3").unwrap().as_ref()).is_none());
    }
}
