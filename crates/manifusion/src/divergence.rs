//! The Riemannian divergence of a projected field, from its value and directional derivatives.
//!
//! For an orthonormal tangent frame e₁ … e_d at x and the mean-curvature vector H(x),
//!
//! ∇_g·(P f)(x) = Σⱼ eⱼᵀ (∂f/∂x) eⱼ + ⟨H(x), f(x)⟩,
//!
//! because P·DP·P = 0: the derivative of the projection only sees the normal part of f. With f = Pf
//! this is the paper's `eq:riem-div-ambient`. Neither e nor H depends on the field, so geometry
//! enters a loss as constant arrays, [`Probes`], and the field supplies its value and (∂f/∂x)e.
//!
//! Where vectors are coefficients in a frame field V (see [`Manifold::velocity`]) the derivative is
//! taken along Ve, and h is ∇·V.

use crate::error::{ShapeError, SolveError};
use crate::linalg::{axpy, dot, orthonormalise_rows, scratch};
use crate::manifold::{Family, Manifold, RowMaps, frames, mean_curvatures};
use crate::rng::Streams;
use crate::rows::{Rows, expect_len};

/// How the trace over the tangent space is taken (paper, section `sec:div`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimator {
    /// Exact: the manifold's own tangent frame, in closed form where there is one.
    Frame,
    /// Exact: d random vectors, projected, then thin QR ("QR decomposition").
    RandomFrame,
    /// Unbiased: `probes` random vectors z' = P_x z on both sides ("Projected Hutchinson").
    Hutchinson {
        /// Random vectors per row.
        probes: usize,
        /// Their law.
        law: ProbeLaw,
    },
    /// Exact where π is the Euclidean closest point: the flat divergence of x ↦ P f at π(x) over
    /// all m coordinate directions ("Closest-point projection").
    ClosestPoint,
    /// Exact away from the poles: spherical coordinates on S², angles on T^d ("Intrinsic
    /// coordinates").
    Intrinsic,
}

/// Law of a Hutchinson probe before projection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeLaw {
    /// Standard normal.
    Gaussian,
    /// Independent signs.
    Rademacher,
}

/// What the manifold contributes to ∇_g·(P f) ≈ w Σₖ eₖᵀ(∂f/∂x)eₖ + ⟨h, f⟩. Reused between batches.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    /// Directions per row.
    pub per_row: usize,
    /// Directions, rows × `per_row` × m.
    pub e: Vec<f64>,
    /// Their velocities in ℝᵐ where the metric is not induced; else empty.
    moved: Vec<f64>,
    /// The vector that multiplies f, rows × m.
    pub h: Vec<f64>,
    /// w: one for exact traces, 1/probes for Hutchinson's.
    pub weight: f64,
}

impl Estimator {
    /// Directional derivatives per row that this estimator asks for.
    pub fn per_row(&self, manifold: &dyn Manifold) -> usize {
        match *self {
            Self::Frame | Self::RandomFrame | Self::Intrinsic => manifold.dim(),
            Self::Hutchinson { probes, .. } => probes,
            Self::ClosestPoint => manifold.ambient_dim(),
        }
    }

    /// An error if the estimator does not exist on the manifold.
    pub fn check(&self, manifold: &dyn Manifold) -> Result<(), SolveError> {
        let unsupported =
            |what, hint| Err(SolveError::Unsupported { what, manifold: manifold.name(), hint });
        match *self {
            Self::Hutchinson { probes: 0, .. } => Err(SolveError::Setting {
                name: "probes",
                value: 0.0,
                expected: "at least one is needed",
            }),
            Self::ClosestPoint if !manifold.projects_to_closest() => unsupported(
                "the closest-point divergence",
                "its point map is not the closest point; use the frame or Hutchinson",
            ),
            Self::Intrinsic
                if !matches!(
                    manifold.family(),
                    Family::Sphere { dim: 2 } | Family::Torus { .. }
                ) =>
            {
                unsupported(
                    "the divergence in intrinsic coordinates",
                    "it exists on sphere:2 and torus:D; use the frame or Hutchinson",
                )
            }
            _ => Ok(()),
        }
    }
}

impl Probes {
    /// [`Probes::fill`] for rows that are numbered one by one, at step 0.
    pub fn fill_numbered(
        &mut self,
        manifold: &dyn Manifold,
        estimator: Estimator,
        x: Rows<'_>,
        streams: &Streams,
        rows: &[usize],
    ) -> Result<(), SolveError> {
        expect_len(rows.len(), x.len())?;
        self.fill_with(manifold, estimator, x, streams, |i| rows[i] as u64, 0)
    }

    /// Directions and h at every row of `x`. Random directions are drawn from (`first_row` + row,
    /// `step`).
    pub fn fill(
        &mut self,
        manifold: &dyn Manifold,
        estimator: Estimator,
        x: Rows<'_>,
        streams: &Streams,
        first_row: u64,
        step: u64,
    ) -> Result<(), SolveError> {
        self.fill_with(manifold, estimator, x, streams, |i| first_row + i as u64, step)
    }

    fn fill_with(
        &mut self,
        manifold: &dyn Manifold,
        estimator: Estimator,
        x: Rows<'_>,
        streams: &Streams,
        number: impl Fn(usize) -> u64,
        step: u64,
    ) -> Result<(), SolveError> {
        estimator.check(manifold)?;
        let m = manifold.ambient_dim();
        x.expect_width(m)?;
        self.per_row = estimator.per_row(manifold);
        self.weight = match estimator {
            Estimator::Hutchinson { probes, .. } => 1.0 / probes as f64,
            _ => 1.0,
        };
        self.e.resize(x.len() * self.per_row * m, 0.0);
        self.h.resize(x.len() * m, 0.0);
        if let Some(maps) = manifold.by_rows() {
            let x = x.as_slice();
            if self.fill_together(maps, estimator, x, streams, &number, step) {
                mean_curvatures(maps, x, &mut self.h);
                self.moved.clear();
                return Ok(());
            }
        }
        let blocks = self.e.chunks_exact_mut(self.per_row * m).zip(self.h.chunks_exact_mut(m));
        for (i, (x, (e, h))) in x.rows().zip(blocks).enumerate() {
            let row = number(i);
            match estimator {
                Estimator::Frame => manifold.frame(x, e),
                Estimator::RandomFrame => random_frame(manifold, x, streams, row, step, e),
                Estimator::Hutchinson { law, .. } => {
                    draw_probes(law, streams, row, step, e);
                    for z in e.chunks_exact_mut(m) {
                        manifold.project_tangent(x, z);
                    }
                }
                Estimator::ClosestPoint => closest_point_directions(manifold, x, i, e)?,
                Estimator::Intrinsic => {
                    intrinsic(manifold, x, e, h);
                    continue;
                }
            }
            manifold.mean_curvature(x, h);
        }
        self.moved.clear();
        if !manifold.metric_is_induced() {
            self.moved.extend_from_slice(&self.e);
            let blocks = self.moved.chunks_exact_mut(self.per_row * m);
            for (x, block) in x.rows().zip(blocks) {
                for e in block.chunks_exact_mut(m) {
                    manifold.velocity(x, e);
                }
            }
        }
        Ok(())
    }

    /// The directions of all rows with one call; false for estimators that know no such way.
    fn fill_together(
        &mut self,
        maps: &dyn RowMaps,
        estimator: Estimator,
        x: &[f64],
        streams: &Streams,
        number: &impl Fn(usize) -> u64,
        step: u64,
    ) -> bool {
        match estimator {
            Estimator::Frame => frames(maps, x, &mut self.e),
            Estimator::Hutchinson { law, .. } => {
                let (m, mut places) = (maps.ambient_dim(), Vec::with_capacity(self.e.len()));
                let blocks = self.e.chunks_exact_mut(self.per_row * m);
                for (i, (x, e)) in x.chunks_exact(m).zip(blocks).enumerate() {
                    draw_probes(law, streams, number(i), step, e);
                    (0..self.per_row).for_each(|_| places.extend_from_slice(x));
                }
                maps.tangents(&places, &mut self.e);
            }
            _ => return false,
        }
        true
    }

    /// Where a field is to be differentiated: the velocities of the directions, rows × `per_row` ×
    /// m.
    pub fn velocities(&self) -> &[f64] {
        if self.moved.is_empty() { &self.e } else { &self.moved }
    }

    /// `div ← ∇_g·(P f)` from the field's values `f` (n × m) and derivatives `jf_e` (n·per_row ×
    /// m).
    pub fn divergence(
        &self,
        f: Rows<'_>,
        jf_e: Rows<'_>,
        div: &mut [f64],
    ) -> Result<(), ShapeError> {
        let m = f.width();
        jf_e.expect_width(m)?;
        expect_len(div.len(), f.len())?;
        expect_len(f.len() * m, self.h.len())?;
        expect_len(jf_e.len(), f.len() * self.per_row)?;
        let block = self.per_row * m;
        for (i, div) in div.iter_mut().enumerate() {
            let at = i * block..(i + 1) * block;
            let trace = dot(&self.e[at.clone()], &jf_e.as_slice()[at]);
            *div = self.weight * trace + dot(&self.h[i * m..(i + 1) * m], f.row(i));
        }
        Ok(())
    }
}

fn draw_probes(law: ProbeLaw, streams: &Streams, row: u64, step: u64, z: &mut [f64]) {
    match law {
        ProbeLaw::Gaussian => streams.fill_normal(row, step, 0, z),
        ProbeLaw::Rademacher => {
            let mut stream = streams.stream(row, step);
            for chunk in z.chunks_mut(32) {
                let bits = rand_core::Rng::next_u32(&mut stream);
                for (k, z) in chunk.iter_mut().enumerate() {
                    *z = if bits >> k & 1 == 1 { 1.0 } else { -1.0 };
                }
            }
        }
    }
}

/// d projected Gaussian vectors, orthonormalised; drawn again in the (improbable) case of near
/// dependence.
fn random_frame(
    manifold: &dyn Manifold,
    x: &[f64],
    streams: &Streams,
    row: u64,
    step: u64,
    e: &mut [f64],
) {
    let m = manifold.ambient_dim();
    for attempt in 0..8 {
        streams.fill_normal(row, step, attempt * e.len().div_ceil(4) as u32, e);
        for z in e.chunks_exact_mut(m) {
            manifold.project_tangent(x, z);
        }
        if orthonormalise_rows(e, m) > 1e-6 {
            return;
        }
    }
}

/// The columns of Dπ(x) by central differences, extrapolated to sixth order. Where π is the closest
/// point Dπ = P, so that Σᵢ (Dπ cᵢ)ᵀ(∂f/∂x)(Dπ cᵢ) over the coordinate vectors cᵢ is the trace over
/// T_xM.
fn closest_point_directions(
    manifold: &dyn Manifold,
    x: &[f64],
    row: usize,
    e: &mut [f64],
) -> Result<(), SolveError> {
    let m = x.len();
    let weights = [(1.0, 1.0 / 45.0), (0.5, -20.0 / 45.0), (0.25, 64.0 / 45.0)];
    let mut point = scratch(m);
    e.fill(0.0);
    for (i, column) in e.chunks_exact_mut(m).enumerate() {
        for (factor, weight) in weights {
            for t in [0.02 * factor, -0.02 * factor] {
                point.copy_from_slice(x);
                point[i] += t;
                manifold.project_point(&mut point).map_err(SolveError::at(row, 0.0))?;
                axpy(weight / (2.0 * t), &point, column);
            }
        }
    }
    Ok(())
}

/// Coordinate directions and h from the chart's own formula `eq:riem-div-coord`.
fn intrinsic(manifold: &dyn Manifold, x: &[f64], e: &mut [f64], h: &mut [f64]) {
    if matches!(manifold.family(), Family::Torus { .. }) {
        // x = (cos θ, sin θ, …), |G| = 1: the divergence is Σ ∂θⱼ⟨f, ∂x/∂θⱼ⟩ and ∂²x/∂θⱼ² = −x.
        manifold.frame(x, e);
        manifold.mean_curvature(x, h);
        return;
    }
    // Colatitude θ and longitude φ: |G|^½ = sin θ, so the divergence is
    // ∂θ⟨f,θ̂⟩ + cot θ ⟨f,θ̂⟩ + (1/sin θ) ∂φ⟨f,φ̂⟩, singular at the poles.
    let sin = x[0].hypot(x[1]);
    let cos = x[2];
    let (cos_phi, sin_phi) = (x[0] / sin, x[1] / sin);
    let theta = [cos * cos_phi, cos * sin_phi, -sin];
    e[..3].copy_from_slice(&theta);
    e[3..].copy_from_slice(&[-sin_phi, cos_phi, 0.0]);
    // ∂θ θ̂ = −x and ∂φ φ̂ = −(cos φ, sin φ, 0).
    let inward = [-cos_phi, -sin_phi, 0.0];
    for i in 0..3 {
        h[i] = -x[i] + cos / sin * theta[i] + inward[i] / sin;
    }
}
