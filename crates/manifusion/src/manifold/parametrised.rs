//! Manifolds given by a parametrisation ψ: ℝ^d → ℝᵐ, with P = J(JᵀJ)⁻¹Jᵀ (paper, section 2.2).

use std::fmt::Debug;

use num_dual::{Dual2_64, Dual64};
use smallvec::SmallVec;

use super::{Manifold, Real, check_finite};
use crate::error::{PointError, SpecError};
use crate::linalg::{Scratch, axpy, cholesky, dot, scratch, solve_lower, solve_lower_transposed};

/// ψ and a way back.
pub trait Parametrisation: Debug + Send + Sync {
    /// A short name, for messages.
    fn name(&self) -> String;
    /// d.
    fn dim(&self) -> usize;
    /// m.
    fn ambient_dim(&self) -> usize;
    /// `x ← ψ(u)`, written once for every [`Real`].
    fn map<R: Real>(&self, u: &[R], x: &mut [R]);
    /// `u ← φ(x)`: coordinates of a point on M, extended smoothly to points nearby, so that ψ∘φ is
    /// a point map. Angles may jump by a period.
    fn coordinates(&self, x: &[f64], u: &mut [f64]);
}

/// The image of ψ with the metric induced by ℝᵐ.
#[derive(Clone, Debug)]
pub struct Parametrised<M> {
    map: M,
}

type Stack<R> = SmallVec<[R; 32]>;

impl<M: Parametrisation> Parametrised<M> {
    /// The manifold; an error if the dimensions cannot be those of a submanifold.
    pub fn new(map: M) -> Result<Self, SpecError> {
        super::check_dim("parametrisation (m)", map.ambient_dim(), 1, 64)?;
        super::check_dim("parametrisation (d)", map.dim(), 1, map.ambient_dim())?;
        Ok(Self { map })
    }

    /// Columns ∂ψ/∂uⱼ as rows of J (d × m), and the Cholesky factor of JJᵀ = G. `None` where G is
    /// singular.
    fn tangents(&self, u: &[f64]) -> Option<(Scratch, Scratch)> {
        let (d, m) = (self.map.dim(), self.map.ambient_dim());
        let mut jacobian = scratch(d * m);
        let mut point: Stack<Dual64> = u.iter().map(|&u| Dual64::from_re(u)).collect();
        let mut image: Stack<Dual64> = smallvec::smallvec![Dual64::from_re(0.0); m];
        for (j, row) in jacobian.chunks_exact_mut(m).enumerate() {
            point[j].eps = 1.0;
            self.map.map(&point, &mut image);
            point[j].eps = 0.0;
            for (row, image) in row.iter_mut().zip(&image) {
                *row = image.eps;
            }
        }
        let mut metric = scratch(d * d);
        for i in 0..d {
            for j in 0..d {
                metric[i * d + j] =
                    dot(&jacobian[i * m..(i + 1) * m], &jacobian[j * m..(j + 1) * m]);
            }
        }
        cholesky(&mut metric, d).then_some((jacobian, metric))
    }

    fn coordinates(&self, x: &[f64]) -> Scratch {
        let mut u = scratch(self.map.dim());
        self.map.coordinates(x, &mut u);
        u
    }
}

impl<M: Parametrisation> Manifold for Parametrised<M> {
    fn name(&self) -> String {
        self.map.name()
    }

    fn dim(&self) -> usize {
        self.map.dim()
    }

    fn ambient_dim(&self) -> usize {
        self.map.ambient_dim()
    }

    /// `v ← J(JᵀJ)⁻¹Jᵀ v` at the coordinates of x; NaN where ψ is singular.
    fn project_tangent(&self, x: &[f64], v: &mut [f64]) {
        let Some((jacobian, factor)) = self.tangents(&self.coordinates(x)) else {
            v.fill(f64::NAN);
            return;
        };
        let (d, m) = (self.map.dim(), v.len());
        let mut b: Scratch = jacobian.chunks_exact(m).map(|column| dot(column, v)).collect();
        solve_lower(&factor, d, &mut b);
        solve_lower_transposed(&factor, d, &mut b);
        v.fill(0.0);
        for (b, column) in b.iter().zip(jacobian.chunks_exact(m)) {
            axpy(*b, column, v);
        }
    }

    /// ψ(φ(x)).
    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        check_finite(self, x)?;
        let u = self.coordinates(x);
        if let Some(index) = u.iter().position(|u| !u.is_finite()) {
            let (manifold, value) = (self.name(), u[index]);
            return Err(PointError::NoProjection { manifold, reason: "a coordinate", value });
        }
        self.map.map(&u, x);
        Ok(())
    }

    /// `II(e,e) = (I − P) D²ψ[w,w]` with `Dψ[w] = e`, summed over a frame; the second derivatives
    /// are exact.
    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        let u = self.coordinates(x);
        let Some((_, factor)) = self.tangents(&u) else {
            h.fill(f64::NAN);
            return;
        };
        let d = u.len();
        let mut image: Stack<Dual2_64> = smallvec::smallvec![Dual2_64::from_re(0.0); x.len()];
        h.fill(0.0);
        for j in 0..d {
            // G = LLᵀ, so the columns w of L⁻ᵀ have orthonormal images Dψ[w].
            let mut w = scratch(d);
            w[j] = 1.0;
            solve_lower_transposed(&factor, d, &mut w);
            let point: Stack<Dual2_64> =
                u.iter().zip(&w).map(|(&u, &w)| Dual2_64::new(u, w, 0.0)).collect();
            self.map.map(&point, &mut image);
            for (h, image) in h.iter_mut().zip(&image) {
                *h += image.v2;
            }
        }
        let mut tangential = Scratch::from_slice(h);
        self.project_tangent(x, &mut tangential);
        axpy(-1.0, &tangential, h);
    }
}
