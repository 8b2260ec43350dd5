//! The hyperboloid H^d_K ⊂ ℝ^{d+1}: with the metric g_E induced by the *Euclidean* product, as the
//! paper models it (appendix `app:hyperbolics`), or with the Lorentz metric g_L, its named
//! alternative, for data far from the origin.

use super::sphere::reflected_frame;
use super::{Family, MAX_DIM, Manifold, check_dim, check_finite};
use crate::error::{PointError, SpecError};
use crate::linalg::{axpy, dot, scale, scratch};

/// Which metric the hyperboloid carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// g_E, induced by the ambient Euclidean product: nearly a flat cone far out.
    #[default]
    Euclidean,
    /// g_L of constant curvature K: hyperbolic space proper. Vectors are coefficients in the frame
    /// that is carried along the geodesics from the origin, in the places 1 … d; place 0 is always
    /// 0.
    Lorentz,
}

/// {x = (x₀, y) : ⟨x,x⟩_L = −x₀² + |y|² = 1/K, x₀ > 0}, K < 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hyperboloid {
    dim: usize,
    curvature: f64,
    closest: bool,
    metric: Metric,
}

/// |K||y|² above which the Lorentz norm −x₀² + |y|² has lost too many digits to rescale by: there π
/// keeps y and recomputes x₀.
const FAR: f64 = 1e6;

impl Hyperboloid {
    /// H^`dim` of curvature K; π is the Lorentz rescaling, as in the paper.
    pub fn new(dim: usize, curvature: f64) -> Result<Self, SpecError> {
        if !(curvature < 0.0 && curvature.is_normal() && (1.0 / curvature).is_normal()) {
            return Err(SpecError::Curvature { found: curvature });
        }
        let dim = check_dim("hyperbolic", dim, 1, MAX_DIM)?;
        Ok(Self::valid(dim, curvature, Metric::Euclidean))
    }

    /// The space of a [`Family`], whose parameters have been checked.
    pub(crate) fn valid(dim: usize, curvature: f64, metric: Metric) -> Self {
        Self { dim, curvature, closest: false, metric }
    }

    /// The same points with this metric.
    #[must_use]
    pub fn with_metric(self, metric: Metric) -> Self {
        Self { metric, ..self }
    }

    /// The same space with the true Euclidean closest point as π, by root finding.
    #[must_use]
    pub fn with_closest_point(self) -> Self {
        Self { closest: true, ..self }
    }

    /// K.
    pub fn curvature(&self) -> f64 {
        self.curvature
    }

    /// x₀ of the point above y: √(1/|K| + |y|²).
    pub fn height(&self, y: &[f64]) -> f64 {
        (1.0 / -self.curvature + dot(y, y)).sqrt()
    }

    /// ½ log|G_E| at x in the chart y: the area factor between dy and the volume of g_E,
    /// |G_E| = 1 + |y|²/x₀².
    pub fn log_area_euclid(&self, x: &[f64]) -> f64 {
        let y = &x[1..];
        0.5 * (dot(y, y) / (x[0] * x[0])).ln_1p()
    }

    /// ½ log|G_L| at x in the chart y: the area factor between dy and the volume of g_L,
    /// |G_L| = 1/(|K| x₀²).
    pub fn log_area_lorentz(&self, x: &[f64]) -> f64 {
        -0.5 * (-self.curvature * x[0] * x[0]).ln()
    }

    /// log p_L − log p_E = ½ log(|G_E|/|G_L|) = ½ log(1 + 2|K||y|²): what turns a density for the
    /// volume of g_E into the same law's density for the volume of g_L.
    pub fn log_lorentz_over_euclid(&self, x: &[f64]) -> f64 {
        let y = &x[1..];
        0.5 * (-2.0 * self.curvature * dot(y, y)).ln_1p()
    }

    /// log p_L − log p for a density p with respect to the volume of the space's own metric.
    pub fn log_lorentz_over_own(&self, x: &[f64]) -> f64 {
        match self.metric {
            Metric::Euclidean => self.log_lorentz_over_euclid(x),
            Metric::Lorentz => 0.0,
        }
    }

    /// √|K|: lengths are multiplied by it to work on the unit hyperboloid.
    fn root(&self) -> f64 {
        (-self.curvature).sqrt()
    }

    /// The rescaling x/√(K⟨x,x⟩_L) (misprinted in the paper as K‖x‖_L under the root), defined for
    /// timelike x with x₀ > 0.
    fn rescale(&self, x: &mut [f64]) -> Result<(), PointError> {
        let k = -self.curvature;
        let rr = dot(&x[1..], &x[1..]);
        if x[0] <= 0.0 {
            return Err(self.undefined("x0", x[0]));
        }
        if k * rr >= FAR {
            let height = self.height(&x[1..]);
            if !((x[0] - height).abs() <= 0.1 * height) {
                return Err(self.undefined("x0 relative to its height", x[0] / height));
            }
        } else {
            let r = rr.sqrt();
            let ratio = k * (x[0] - r) * (x[0] + r);
            if !(ratio > 0.0) {
                return Err(self.undefined("K<x,x>_L", ratio));
            }
            scale(1.0 / ratio.sqrt(), &mut x[1..]);
        }
        x[0] = self.height(&x[1..]);
        Ok(())
    }

    /// The Euclidean closest point. With a multiplier μ it is (x₀/(1−μ), y/(1+μ)), where
    /// f(μ) = x₀²/(1−μ)² − |y|²/(1+μ)² − 1/|K| has one root in (−1, 1), f being increasing there.
    fn move_to_closest(&self, x: &mut [f64]) -> Result<(), PointError> {
        let radius2 = 1.0 / -self.curvature;
        let (top, rr) = (x[0], dot(&x[1..], &x[1..]));
        if top <= 0.0 {
            return Err(self.undefined("x0", top));
        }
        let f = |mu: f64| (top / (1.0 - mu)).powi(2) - rr / (1.0 + mu).powi(2) - radius2;
        let slope = |mu: f64| 2.0 * top * top / (1.0 - mu).powi(3) + 2.0 * rr / (1.0 + mu).powi(3);
        let (mut low, mut high) = (-1.0 + 1e-15, 1.0 - 1e-15);
        if !(f(low) < 0.0) {
            // On the axis above the centre of curvature a whole circle of points is equally close.
            return Err(self.undefined("distance to the axis", rr.sqrt()));
        }
        let mut mu = 0.0;
        for _ in 0..200 {
            let value = f(mu);
            if value < 0.0 {
                low = mu;
            } else {
                high = mu;
            }
            let newton = mu - value / slope(mu);
            let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
            let done = (next - mu).abs() <= 1e-16;
            mu = next;
            if done {
                break;
            }
        }
        scale(1.0 / (1.0 + mu), &mut x[1..]);
        x[0] = self.height(&x[1..]);
        Ok(())
    }

    fn undefined(&self, reason: &'static str, value: f64) -> PointError {
        PointError::NoProjection { manifold: self.name(), reason, value }
    }
}

impl Manifold for Hyperboloid {
    fn name(&self) -> String {
        let closest = match (self.closest, self.metric) {
            (_, Metric::Lorentz) => ",metric=lorentz",
            (true, _) => ",pi=closest",
            (false, _) => "",
        };
        if self.curvature.to_bits() == (-1.0f64).to_bits() {
            format!("hyperbolic:{}{closest}", self.dim)
        } else {
            format!("hyperbolic:{},K={}{closest}", self.dim, self.curvature)
        }
    }

    fn dim(&self) -> usize {
        self.dim
    }

    fn ambient_dim(&self) -> usize {
        self.dim + 1
    }

    /// `u ← u − n⟨n,u⟩/|n|²` with n = (−x₀, y): orthogonal in the Euclidean product, unlike the
    /// Lorentz projection, which is another map.
    #[inline]
    fn project_tangent(&self, x: &[f64], u: &mut [f64]) {
        if self.metric == Metric::Lorentz {
            u[0] = 0.0;
            return;
        }
        let c = (dot(&x[1..], &u[1..]) - x[0] * u[0]) / dot(x, x);
        u[0] += c * x[0];
        for (u, x) in u.iter_mut().zip(x).skip(1) {
            *u -= c * x;
        }
    }

    fn project_point(&self, x: &mut [f64]) -> Result<(), PointError> {
        check_finite(self, x)?;
        if self.metric == Metric::Lorentz {
            // The chart y is global.
            x[0] = self.height(&x[1..]);
            return Ok(());
        }
        if self.closest { self.move_to_closest(x) } else { self.rescale(x) }
    }

    /// Relative to x₀: coordinates grow like e^r, and so does their rounding.
    fn residual(&self, x: &[f64]) -> f64 {
        let height = self.height(&x[1..]);
        (x[0] - height).abs() / height
    }

    /// For g_L the divergences of the frame: (d−1)√|K| tanh(√|K|r/2) ŷ, r the distance from the
    /// origin.
    fn mean_curvature(&self, x: &[f64], h: &mut [f64]) {
        if self.metric == Metric::Lorentz {
            let top = self.root() * self.height(&x[1..]);
            let factor = -self.curvature * (self.dim as f64 - 1.0) / (1.0 + top);
            h[0] = 0.0;
            for (h, x) in h.iter_mut().zip(x).skip(1) {
                *h = factor * x;
            }
            return;
        }
        let xx = dot(x, x);
        let factor = -((self.dim as f64 - 1.0) + 1.0 / (-self.curvature * xx)) / xx;
        h[0] = -factor * x[0];
        for (h, x) in h.iter_mut().zip(x).skip(1) {
            *h = factor * x;
        }
    }

    /// The radial unit vector (r, x₀ŷ)/|x|, then (0, t) for a basis t of ŷ^⊥.
    /// For g_L the frame of the coefficients itself.
    fn frame(&self, x: &[f64], e: &mut [f64]) {
        let (d, m) = (self.dim, self.dim + 1);
        if self.metric == Metric::Lorentz {
            e.fill(0.0);
            for (j, e) in e.chunks_exact_mut(m).enumerate() {
                e[j + 1] = 1.0;
            }
            return;
        }
        let r = dot(&x[1..], &x[1..]).sqrt();
        let mut direction = scratch(d);
        if r > 0.0 {
            direction.copy_from_slice(&x[1..]);
            scale(1.0 / r, &mut direction);
        } else {
            direction[0] = 1.0;
        }
        let length = dot(x, x).sqrt();
        e.fill(0.0);
        e[0] = r / length;
        for (e, t) in e[1..m].iter_mut().zip(&direction) {
            *e = x[0] * t / length;
        }
        let mut across = scratch((d - 1) * d);
        reflected_frame(&direction, &mut across);
        for (row, t) in e[m..].chunks_exact_mut(m).zip(across.chunks_exact(d)) {
            row[1..].copy_from_slice(t);
        }
    }

    fn metric_is_induced(&self) -> bool {
        self.metric == Metric::Euclidean
    }

    /// In the chart y the frame of g_L is V_j = e_j + |K| y_j y/(1 + √|K|x₀), the coordinate frame
    /// of the origin carried along the geodesic to x; x₀ follows y.
    fn velocity(&self, x: &[f64], u: &mut [f64]) {
        if self.metric == Metric::Euclidean {
            return;
        }
        let y = &x[1..];
        let height = self.height(y);
        let c = -self.curvature * dot(y, &u[1..]) / (1.0 + self.root() * height);
        axpy(c, y, &mut u[1..]);
        u[0] = dot(y, &u[1..]) / height;
    }

    fn projects_to_closest(&self) -> bool {
        self.closest && self.metric == Metric::Euclidean
    }

    fn family(&self) -> Family {
        Family::Hyperboloid { dim: self.dim, curvature: self.curvature, metric: self.metric }
    }
}
