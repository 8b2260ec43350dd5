//! The unit sphere S^d ⊂ ℝ^{d+1} (paper, appendix `app:spheres`).

use std::f64::consts::PI;

use super::{Family, MAX_DIM, Manifold, check_dim, project_gaussian};
use crate::error::{PointError, SpecError};
use crate::linalg::{axpy, dot, norm, scale};
use crate::rng::Stream;

/// S^d = {x ∈ ℝ^{d+1} : |x| = 1}.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sphere {
    dim: usize,
}

impl Sphere {
    /// S^`dim`, from dimension 1.
    pub fn new(dim: usize) -> Result<Self, SpecError> {
        Ok(Self { dim: check_dim("sphere", dim, 1, MAX_DIM)? })
    }
}

/// log vol S^d = log(2 π^{(d+1)/2} / Γ((d+1)/2)).
pub fn sphere_log_volume(dim: usize) -> f64 {
    let half = (dim as f64 + 1.0) / 2.0;
    2f64.ln() + half * PI.ln() - libm::lgamma(half)
}

/// `u ← u − x⟨x,u⟩/|x|²`. The division keeps P a projection off the sphere, where it equals P at
/// π(x).
#[inline]
pub(super) fn project_tangent(x: &[f64], u: &mut [f64]) {
    let c = dot(x, u) / dot(x, x);
    axpy(-c, x, u);
}

/// `x ← x/|x|`; false where it is not defined.
#[inline]
pub(super) fn normalise(x: &mut [f64]) -> bool {
    let length = norm(x);
    scale(1.0 / length, x);
    length.is_normal()
}

impl Manifold for Sphere {
    fn name(&self) -> String {
        format!("sphere:{}", self.dim)
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn ambient_dim(&self) -> usize {
        self.dim + 1
    }

    #[inline]
    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        // A known length lets the compiler unroll the case that most users have.
        match (<&[f64; 3]>::try_from(x), <&mut [f64; 3]>::try_from(&mut *u)) {
            (Ok(x), Ok(u)) => project_tangent(x, u),
            _ => project_tangent(x, u),
        }
    }

    #[inline]
    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        super::check_width(self, x)?;
        let defined = match <&mut [f64; 3]>::try_from(&mut *x) {
            Ok(x) => normalise(x),
            Err(_) => normalise(x),
        };
        if defined {
            return Ok(());
        }
        Err(PointError::NoProjection { manifold: self.name(), reason: "|x|", value: norm(x) })
    }

    fn residual(&self, x: &[f64]) -> f64 {
        (norm(x) - 1.0).abs()
    }

    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        let factor = -(self.dim as f64);
        for (h, x) in h.iter_mut().zip(x) {
            *h = factor * x;
        }
    }

    /// The reflection that takes the first coordinate vector to ∓x takes the others to a frame.
    fn frame(&self, x: &[f64], e: &mut [f64]) {
        reflected_frame(x, e);
    }

    fn log_volume(&self) -> Option<f64> {
        Some(sphere_log_volume(self.dim))
    }

    fn projects_to_closest(&self) -> bool {
        true
    }

    fn sample_uniform(&self, stream: &mut Stream, x: &mut [f64]) -> Result<bool, PointError> {
        project_gaussian(self, stream, x)
    }

    fn family(&self) -> Family {
        Family::Sphere { dim: self.dim }
    }
}

/// Rows 1, 2, … of the Householder reflection that maps e₀ to ∓x: an orthonormal basis of x^⊥ for a
/// unit x. The sign is the one without cancellation.
pub(super) fn reflected_frame(x: &[f64], e: &mut [f64]) {
    let m = x.len();
    // v = x + sign(x₀) e₀, and |v|² = 2(1 + |x₀|).
    let sign = if x[0] < 0.0 { -1.0 } else { 1.0 };
    let beta = 1.0 / (1.0 + x[0].abs());
    for (j, row) in e.chunks_exact_mut(m).enumerate() {
        let vj = x[j + 1];
        row[0] = -beta * vj * (x[0] + sign);
        for (i, value) in row.iter_mut().enumerate().skip(1) {
            *value = -beta * vj * x[i];
        }
        row[j + 1] += 1.0;
    }
}
