//! Geodesics, exponential maps, wrapped normals and volumes of the Lorentz metric g_L on the points
//! of a [`Hyperboloid`], whichever metric that carries as a [`Manifold`](super::Manifold).

use super::{Hyperboloid, Manifold};
use crate::error::{PointError, SpecError};
use crate::linalg::{axpy, dot, norm, scale, scratch};
use crate::rng::Stream;

/// (H^d_K, g_L).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lorentz {
    points: Hyperboloid,
    /// √|K|: lengths are multiplied by it to work on the unit hyperboloid.
    root: f64,
}

/// −x₀z₀ + ⟨y, y'⟩.
fn lorentz_product(x: &[f64], z: &[f64]) -> f64 {
    dot(&x[1..], &z[1..]) - x[0] * z[0]
}

/// sinh(r)/r, also at 0.
fn sinhc(r: f64) -> f64 {
    if r.abs() < 1e-4 { 1.0 + r * r / 6.0 } else { r.sinh() / r }
}

/// log(sinh(r)/r) for r ≥ 0, also where sinh overflows.
fn log_sinhc(r: f64) -> f64 {
    if r < 1e-4 {
        r * r / 6.0
    } else if r < 20.0 {
        (r.sinh() / r).ln()
    } else {
        r - (2.0 * r).ln()
    }
}

impl Lorentz {
    /// Hyperbolic space of dimension `dim` and curvature K < 0.
    pub fn new(dim: usize, curvature: f64) -> Result<Self, SpecError> {
        Ok(Self::on(Hyperboloid::new(dim, curvature)?))
    }

    /// The geometry of g_L on these points.
    pub fn on(points: Hyperboloid) -> Self {
        Self { points, root: (-points.curvature()).sqrt() }
    }

    /// The set of points.
    pub fn points(&self) -> &Hyperboloid {
        &self.points
    }

    /// d.
    pub fn dim(&self) -> usize {
        self.points.dim()
    }

    /// `x ← exp₀(v)`, the exponential map at the origin (1/√|K|, 0) of a tangent vector v ∈ ℝ^d.
    pub fn exp_origin(&self, v: &[f64], x: &mut [f64]) {
        let r = self.root * norm(v);
        let factor = sinhc(r);
        for (x, v) in x[1..].iter_mut().zip(v) {
            *x = factor * v;
        }
        x[0] = r.cosh() / self.root;
    }

    /// `v ← log₀(x)`, with |v| the distance from the origin.
    pub fn log_origin(&self, x: &[f64], v: &mut [f64]) {
        let r = self.root * norm(&x[1..]);
        let factor = if r < 1e-8 { 1.0 } else { r.asinh() / r };
        for (v, x) in v.iter_mut().zip(&x[1..]) {
            *v = factor * x;
        }
    }

    /// Geodesic distance, by 2 asinh(√(|K|⟨x−z, x−z⟩_L)/2): accurate for near points, where arcosh
    /// is not.
    pub fn distance(&self, x: &[f64], z: &[f64]) -> f64 {
        let mut difference = scratch(x.len());
        difference.copy_from_slice(x);
        axpy(-1.0, z, &mut difference);
        let product = lorentz_product(&difference, &difference);
        // Rounding can make it negative for near points; a NaN stays one.
        let chord2 = if product < 0.0 { 0.0 } else { product };
        2.0 * (0.5 * self.root * chord2.sqrt()).asinh() / self.root
    }

    /// `x ← exp_μ(transport of v from the origin to μ)`: the map behind the wrapped normal.
    pub fn exp_transported(&self, mu: &[f64], v: &[f64], x: &mut [f64]) {
        // On the unit hyperboloid: the transport adds (⟨μ,v⟩/(1+μ₀))(o + μ) to (0, v).
        let m = mu.len();
        let mut base = scratch(m);
        base.copy_from_slice(mu);
        scale(self.root, &mut base);
        let mut u = scratch(m);
        u[1..].copy_from_slice(v);
        scale(self.root, &mut u);
        let c = dot(&base[1..], &u[1..]) / (1.0 + base[0]);
        u[0] += c;
        axpy(c, &base, &mut u);
        let r = self.root * norm(v);
        let (cosh, sinhc) = (r.cosh(), sinhc(r));
        for i in 1..m {
            x[i] = (cosh * base[i] + sinhc * u[i]) / self.root;
        }
        x[0] = self.points.height(&x[1..]);
    }

    /// `v ←` the vector with `exp_transported(mu, v) = x`; returns |v|, the distance.
    pub fn log_transported(&self, mu: &[f64], x: &[f64], v: &mut [f64]) -> f64 {
        let m = mu.len();
        let (mut base, mut point) = (scratch(m), scratch(m));
        base.copy_from_slice(mu);
        scale(self.root, &mut base);
        point.copy_from_slice(x);
        scale(self.root, &mut point);
        let r = self.root * self.distance(mu, x);
        // u = (x − cosh(r) μ)·r/sinh(r), tangent at μ.
        let cosh = r.cosh();
        axpy(-cosh, &base, &mut point);
        scale(1.0 / sinhc(r), &mut point);
        // Back to the origin: u − (u₀/(1+μ₀))(o + μ) has no component along o.
        let c = point[0] / (1.0 + base[0]);
        axpy(-c, &base, &mut point);
        for (v, p) in v.iter_mut().zip(&point[1..]) {
            *v = p / self.root;
        }
        r / self.root
    }

    /// log of the Jacobian of exp_μ at distance r in g_L: (d−1) log(sinh(√|K| r)/(√|K| r)).
    pub fn log_exp_jacobian(&self, r: f64) -> f64 {
        (self.dim() as f64 - 1.0) * log_sinhc(self.root * r)
    }

    /// log density (volume of g_L) of the wrapped normal with mean μ and standard deviations `std`
    /// along the axes of the origin's tangent space.
    pub fn wrapped_normal_log_density(&self, mu: &[f64], std: &[f64], x: &[f64]) -> f64 {
        let mut v = scratch(self.dim());
        let r = self.log_transported(mu, x, &mut v);
        let gauss: f64 = v
            .iter()
            .zip(std)
            .map(|(v, s)| -0.5 * (v / s).powi(2) - s.ln() - 0.5 * std::f64::consts::TAU.ln())
            .sum();
        gauss - self.log_exp_jacobian(r)
    }

    /// Draws from the wrapped normal.
    pub fn sample_wrapped_normal(
        &self,
        mu: &[f64],
        std: &[f64],
        stream: &mut Stream,
        x: &mut [f64],
    ) {
        let mut v = scratch(self.dim());
        for (v, s) in v.iter_mut().zip(std) {
            *v = s * stream.normal();
        }
        self.exp_transported(mu, &v, x);
    }

    /// ∇_{g_L}·V from ∇_{g_E}·V: a divergence depends on the metric through its volume alone, so it
    /// changes by V(log √(|G_L|/|G_E|)) = −2|K|⟨y, V_y⟩/(1 + 2|K||y|²). `field` is tangent, in
    /// ambient coordinates.
    pub fn divergence_from_euclid(&self, x: &[f64], field: &[f64], div_euclid: f64) -> f64 {
        let k = self.root * self.root;
        let y = &x[1..];
        div_euclid - 2.0 * k * dot(y, &field[1..]) / (1.0 + 2.0 * k * dot(y, y))
    }

    /// ∇_{g_L}·V in internal coordinates `eq:riem-div-coord`: Σᵢ ∂ṽᵢ/∂yᵢ − ⟨y, ṽ⟩/x₀², from the
    /// chart components ṽ = V_y and their flat divergence Σᵢ ∂ṽᵢ/∂yᵢ.
    pub fn divergence_from_chart(&self, x: &[f64], field: &[f64], flat_divergence: f64) -> f64 {
        flat_divergence - dot(&x[1..], &field[1..]) / (x[0] * x[0])
    }

    /// An error unless x is a finite point of the hyperboloid.
    pub fn check_point(&self, x: &[f64]) -> Result<(), PointError> {
        self.points.check_point(x)
    }
}
