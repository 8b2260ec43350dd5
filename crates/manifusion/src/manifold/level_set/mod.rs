//! Level sets {x : c(x) = 0} of smooth functions: projection, curvature and a Newton point map are
//! derived from c alone by automatic differentiation.

mod expression;

use std::fmt::Debug;

pub use expression::Expressions;
use num_dual::{Dual2_64, Dual64, DualNum};
use smallvec::SmallVec;

use super::{Manifold, check_finite};
use crate::error::{PointError, SpecError};
use crate::linalg::{
    Scratch, axpy, cholesky, dot, norm, scratch, solve, solve_lower, solve_lower_transposed,
};
use crate::rng::Streams;

/// The number types that a constraint or a parametrisation is evaluated on: `f64` and dual numbers.
pub trait Real: DualNum<Primitive = f64> + Copy {}
impl<T: DualNum<Primitive = f64> + Copy> Real for T {}

/// Smooth functions c: ℝᵐ → ℝᵏ, written once for every [`Real`].
pub trait Constraints: Debug + Send + Sync {
    /// A short name of the level set, for messages.
    fn name(&self) -> String;
    /// m.
    fn ambient_dim(&self) -> usize;
    /// k.
    fn count(&self) -> usize;
    /// `c ← c(x)`.
    fn eval<R: Real>(&self, x: &[R], c: &mut [R]);
}

/// M = {x ∈ ℝᵐ : c(x) = 0}, where the gradients of the k constraints are independent; d = m − k.
#[derive(Clone, Debug)]
pub struct LevelSet<C> {
    constraints: C,
}

type Stack<R> = SmallVec<[R; 32]>;

/// The constraints' linearisation at a point: values c, gradients J (k × m), Cholesky factor of
/// JJᵀ.
struct Linearised {
    c: Scratch,
    jacobian: Scratch,
    factor: Scratch,
    regular: bool,
}

impl<C: Constraints> LevelSet<C> {
    /// The level set, after a search for a regular point on it (one where the gradients are
    /// independent).
    pub fn new(constraints: C) -> Result<Self, SpecError> {
        let set = Self { constraints };
        let (m, k) = (set.constraints.ambient_dim(), set.constraints.count());
        super::check_dim("level set (coordinates)", m, 2, 64)?;
        super::check_dim("level set (constraints)", k, 1, m - 1)?;
        set.find_point()?;
        Ok(set)
    }

    fn find_point(&self) -> Result<(), SpecError> {
        let streams = Streams::new(0, "level-set-start");
        let mut problem = String::from("the constraints do not vanish together near the origin");
        for attempt in 0..64u64 {
            let mut stream = streams.stream(attempt, 0);
            let spread = [1.0, 0.3, 3.0, 10.0][attempt as usize % 4];
            let mut x: Scratch =
                (0..self.ambient_dim()).map(|_| spread * stream.normal()).collect();
            match self.project_point(&mut x) {
                Ok(()) if self.is_regular(&x) => return Ok(()),
                Ok(()) => problem = String::from("the gradients are dependent on the set"),
                Err(error) => problem = error.to_string(),
            }
        }
        Err(SpecError::NoPoint { manifold: self.name(), problem })
    }

    /// Whether the gradients are independent at a point of the set and do not vanish there:
    /// compared with those a little beside it, where a double root still has a slope.
    fn is_regular(&self, x: &[f64]) -> bool {
        let here = self.linearise(x);
        let aside: Scratch =
            x.iter().enumerate().map(|(i, x)| x + 0.01 * (1.0 + i as f64)).collect();
        here.regular && norm(&here.jacobian) > 1e-5 * norm(&self.linearise(&aside).jacobian)
    }

    fn linearise(&self, x: &[f64]) -> Linearised {
        let (m, k) = (self.constraints.ambient_dim(), self.constraints.count());
        let mut lin = Linearised {
            c: scratch(k),
            jacobian: scratch(k * m),
            factor: scratch(k * k),
            regular: false,
        };
        let mut point: Stack<Dual64> = x.iter().map(|&x| Dual64::from_re(x)).collect();
        let mut value: Stack<Dual64> = smallvec::smallvec![Dual64::from_re(0.0); k];
        for j in 0..m {
            point[j].eps = 1.0;
            self.constraints.eval(&point, &mut value);
            point[j].eps = 0.0;
            for i in 0..k {
                lin.jacobian[i * m + j] = value[i].eps;
                lin.c[i] = value[i].re;
            }
        }
        for i in 0..k {
            for j in 0..k {
                let row = |i: usize| &lin.jacobian[i * m..(i + 1) * m];
                lin.factor[i * k + j] = dot(row(i), row(j));
            }
        }
        lin.regular = cholesky(&mut lin.factor, k);
        lin
    }
}

impl Linearised {
    /// `u ← u − Jᵀ(JJᵀ)⁻¹ b`, or NaN where the gradients are dependent.
    fn subtract_normal(&self, b: &mut [f64], u: &mut [f64]) {
        if !self.regular {
            // Not repaired: solvers report a NaN with row and time.
            u.fill(f64::NAN);
            return;
        }
        let k = b.len();
        solve_lower(&self.factor, k, b);
        solve_lower_transposed(&self.factor, k, b);
        for (b, gradient) in b.iter().zip(self.jacobian.chunks_exact(u.len())) {
            axpy(-b, gradient, u);
        }
    }
}

impl<C: Constraints> Manifold for LevelSet<C> {
    fn name(&self) -> String {
        self.constraints.name()
    }

    fn dim(&self) -> usize {
        self.constraints.ambient_dim() - self.constraints.count()
    }

    fn ambient_dim(&self) -> usize {
        self.constraints.ambient_dim()
    }

    /// `u ← u − Jᵀ(JJᵀ)⁻¹J u`.
    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        let lin = self.linearise(x);
        let mut b: Scratch =
            lin.jacobian.chunks_exact(u.len()).map(|gradient| dot(gradient, u)).collect();
        lin.subtract_normal(&mut b, u);
    }

    /// Newton's method with the shortest step, x ← x − Jᵀ(JJᵀ)⁻¹c(x), to convergence.
    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        const ITERATIONS: usize = 60;
        check_finite(self, x)?;
        let mut last = f64::INFINITY;
        for _ in 0..ITERATIONS {
            let mut lin = self.linearise(x);
            let mut step = scratch(x.len());
            let mut c = std::mem::take(&mut lin.c);
            lin.subtract_normal(&mut c, &mut step);
            axpy(1.0, &step, x);
            let (length, size) = (norm(&step), norm(x).max(1e-3));
            if !length.is_finite() {
                break;
            }
            // Quadratic convergence: after a step below 1e-9 the next one is rounding. The second
            // test stops at the rounding level of badly scaled constraints.
            if length <= 1e-9 * size || (length <= 1e-7 * size && length >= last) {
                return Ok(());
            }
            last = length;
        }
        let residual = self.residual(x);
        Err(PointError::NoConvergence { manifold: self.name(), residual, iterations: ITERATIONS })
    }

    /// Newton's method for c(z + J(x)ᵀa) = 0 in the k numbers a.
    fn project_along_normal(&self, x: &[f64], z: &mut [f64]) -> bool {
        let (m, k) = (x.len(), self.constraints.count());
        let normals = self.linearise(x).jacobian;
        for _ in 0..20 {
            let lin = self.linearise(z);
            // The k × k matrix J(z)J(x)ᵀ.
            let mut matrix = scratch(k * k);
            for i in 0..k {
                for j in 0..k {
                    matrix[i * k + j] =
                        dot(&lin.jacobian[i * m..(i + 1) * m], &normals[j * m..(j + 1) * m]);
                }
            }
            let mut a = lin.c;
            if !solve(&mut matrix, k, &mut a) {
                return false;
            }
            let mut step = 0.0;
            for (a, normal) in a.iter().zip(normals.chunks_exact(m)) {
                axpy(-a, normal, z);
                step += a * a * dot(normal, normal);
            }
            if !step.is_finite() {
                return false;
            }
            if step.sqrt() < 1e-9 * (1.0 + norm(z)) {
                return true;
            }
        }
        false
    }

    /// Length of the Newton step, the distance to first order.
    fn residual(&self, x: &[f64]) -> f64 {
        let mut lin = self.linearise(x);
        let mut step = scratch(x.len());
        let mut c = std::mem::take(&mut lin.c);
        lin.subtract_normal(&mut c, &mut step);
        let length = norm(&step);
        if length.is_nan() { f64::INFINITY } else { length }
    }

    /// II(e,e) = −Jᵀ(JJᵀ)⁻¹[eᵀ∇²cᵢ e]ᵢ, summed over a frame; the second derivatives are exact.
    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        let (m, k) = (x.len(), self.constraints.count());
        let lin = self.linearise(x);
        let mut frame = scratch(self.dim() * m);
        self.frame(x, &mut frame);
        let mut trace = scratch(k);
        let mut value: Stack<Dual2_64> = smallvec::smallvec![Dual2_64::from_re(0.0); k];
        for e in frame.chunks_exact(m) {
            let point: Stack<Dual2_64> =
                x.iter().zip(e).map(|(&x, &e)| Dual2_64::new(x, e, 0.0)).collect();
            self.constraints.eval(&point, &mut value);
            for (trace, value) in trace.iter_mut().zip(&value) {
                *trace += value.v2;
            }
        }
        h.fill(0.0);
        lin.subtract_normal(&mut trace, h);
    }
}
