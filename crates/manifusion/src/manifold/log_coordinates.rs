//! Coordinates in which a network sees a point. Those of the hyperboloid grow like e^r with the
//! distance r from the origin; the logarithm map at the origin grows like r.

use super::{Family, Hyperboloid, Lorentz, Manifold};
use crate::linalg::{axpy, dot, scratch};

/// x ↦ (log(√|K| x₀), log₀ x) on the hyperboloids among a manifold's factors, the identity
/// elsewhere: a smooth map with as many numbers as the point has.
#[derive(Clone, Debug)]
pub struct LogCoordinates {
    /// Start of each hyperboloid's block of coordinates.
    blocks: Vec<(usize, Hyperboloid)>,
}

impl LogCoordinates {
    /// The map of a manifold; `None` if it would be the identity.
    pub fn new(manifold: &dyn Manifold) -> Option<Self> {
        let mut blocks = Vec::new();
        collect(manifold, 0, &mut blocks);
        (!blocks.is_empty()).then_some(Self { blocks })
    }

    /// `x ←` the coordinates of the point x, and `u ←` their derivatives along each velocity of `u`
    /// (rows as long as x).
    pub fn apply(&self, x: &mut [f64], u: &mut [f64]) {
        let m = x.len();
        for (start, space) in &self.blocks {
            let at = *start..start + space.ambient_dim();
            for u in u.chunks_exact_mut(m) {
                push(space, &x[at.clone()], &mut u[at.clone()]);
            }
            map(space, &mut x[at]);
        }
    }
}

fn collect(manifold: &dyn Manifold, start: usize, blocks: &mut Vec<(usize, Hyperboloid)>) {
    if let Family::Hyperboloid { dim, curvature, metric } = manifold.family() {
        blocks.push((start, Hyperboloid::valid(dim, curvature, metric)));
    }
    let mut at = start;
    for factor in manifold.factors() {
        collect(factor.as_ref(), at, blocks);
        at += factor.ambient_dim();
    }
}

fn map(space: &Hyperboloid, x: &mut [f64]) {
    let mut v = scratch(space.dim());
    Lorentz::on(*space).log_origin(x, &mut v);
    x[0] = 0.5 * (-space.curvature() * dot(&x[1..], &x[1..])).ln_1p();
    x[1..].copy_from_slice(&v);
}

/// With ρ = √|K||y|: log₀ x = φ y for φ = asinh(ρ)/ρ, so its derivative is φ u + φ'(ρ)/ρ |K|⟨y, u⟩
/// y, and ρφ' = 1/√(1+ρ²) − φ.
fn push(space: &Hyperboloid, x: &[f64], u: &mut [f64]) {
    let k = -space.curvature();
    let y = &x[1..];
    let rho2 = k * dot(y, y);
    let rho = rho2.sqrt();
    let (phi, bend) = if rho < 1e-2 {
        (1.0 - rho2 / 6.0 + 0.075 * rho2 * rho2, -1.0 / 3.0 + 0.3 * rho2)
    } else {
        let phi = rho.asinh() / rho;
        (phi, (1.0 / (1.0 + rho2).sqrt() - phi) / rho2)
    };
    let along = k * dot(y, &u[1..]);
    for u in &mut u[1..] {
        *u *= phi;
    }
    axpy(bend * along, y, &mut u[1..]);
    u[0] = along / (1.0 + rho2);
}
