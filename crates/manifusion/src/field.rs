//! A vector field a(x, s) with directional derivatives, and what geometry makes of it.

use std::fmt::Debug;
use std::sync::Arc;

use crate::divergence::{Estimator, Probes};
use crate::error::SolveError;
use crate::linalg::{axpy, dot, scale};
use crate::manifold::{Generators, LogCoordinates, Manifold, project_tangents};
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::Rows;

/// The variational field a(x, s): a trained network, or a score that is known.
pub trait Field: Debug + Send + Sync {
    /// `a ← a(x, s)`, n × m, and `jvp ← (∂a/∂x) e` for the `per_row` directions of each row (`e`
    /// and `jvp` are n × per_row × m). The normal part of a is ignored by everything that uses it.
    fn eval(
        &self,
        x: Rows<'_>,
        s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError>;
}

/// The sum of fields: a guide and a network.
#[derive(Clone, Debug)]
pub struct SumField(pub Vec<Arc<dyn Field>>);

impl Field for SumField {
    fn eval(
        &self,
        x: Rows<'_>,
        s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        a.fill(0.0);
        jvp.fill(0.0);
        let (mut part_a, mut part_jvp) = (vec![0.0; a.len()], vec![0.0; jvp.len()]);
        for part in &self.0 {
            part.eval(x, s, per_row, e, &mut part_a, &mut part_jvp)?;
            axpy(1.0, &part_a, a);
            axpy(1.0, &part_jvp, jvp);
        }
        Ok(())
    }
}

/// ∇log p₀ = 2U₀, the score that every noised law tends to. A network that is added to it starts as
/// the prior.
#[derive(Clone, Debug)]
pub struct PriorScore(pub Arc<dyn Prior>);

impl Field for PriorScore {
    fn eval(
        &self,
        x: Rows<'_>,
        _s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = x.width();
        let block = per_row * m;
        for (i, (x, a)) in x.rows().zip(a.chunks_exact_mut(m)).enumerate() {
            self.0.drift(x, a);
            let at = i * block..(i + 1) * block;
            for (e, out) in e[at.clone()].chunks_exact(m).zip(jvp[at].chunks_exact_mut(m)) {
                self.0.drift_derivative(x, e, out);
            }
        }
        scale(2.0, a);
        scale(2.0, jvp);
        Ok(())
    }
}

/// A field that is given in other coordinates of the point: a network that sees logarithms.
#[derive(Clone, Debug)]
pub struct InLogCoordinates {
    /// The field as a function of the coordinates.
    pub field: Arc<dyn Field>,
    /// The coordinates.
    pub coordinates: LogCoordinates,
}

impl Field for InLogCoordinates {
    fn eval(
        &self,
        x: Rows<'_>,
        s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = x.width();
        let (mut seen, mut moved) = (x.as_slice().to_vec(), e.to_vec());
        let block = per_row * m;
        for (i, x) in seen.chunks_exact_mut(m).enumerate() {
            self.coordinates.apply(x, &mut moved[i * block..(i + 1) * block]);
        }
        self.field.eval(Rows::new(&seen, m)?, s, per_row, &moved, a, jvp)
    }
}

/// Σ_k g_k V_k(x) for a field g of coefficients.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The coefficients g(x, s).
    pub coefficients: Arc<dyn Field>,
    /// The fields V_k.
    pub generators: Generators,
}

impl Field for Generated {
    fn eval(
        &self,
        x: Rows<'_>,
        s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = x.width();
        let (mut g, mut g_dot) = (vec![0.0; a.len()], vec![0.0; jvp.len()]);
        self.coefficients.eval(x, s, per_row, e, &mut g, &mut g_dot)?;
        let mut turned = vec![0.0; m];
        for (i, x) in x.rows().enumerate() {
            let g = &g[i * m..(i + 1) * m];
            self.generators.apply(x, g, &mut a[i * m..(i + 1) * m]);
            for k in i * per_row..(i + 1) * per_row {
                let at = k * m..(k + 1) * m;
                let out = &mut jvp[at.clone()];
                self.generators.apply(x, &g_dot[at.clone()], out);
                self.generators.apply(&e[at], g, &mut turned);
                axpy(1.0, &turned, out);
            }
        }
        Ok(())
    }
}

/// Value, norm and divergence of P a on a batch, with the buffers that they need.
#[derive(Clone, Debug)]
pub struct FieldValues {
    estimator: Estimator,
    probes: Probes,
    jvp: Vec<f64>,
    /// P a, n × m.
    pub a: Vec<f64>,
    /// ∇_g·(P a), n.
    pub div: Vec<f64>,
    /// ∇_g·(P a) − ⟨h, P a⟩, n: twice the drift between the Stratonovich and the Itô integral of
    /// a·dB. The divergence itself where the metric is induced, h being normal there.
    pub trace: Vec<f64>,
}

impl FieldValues {
    /// Buffers for divergences by this estimator.
    pub fn new(estimator: Estimator) -> Self {
        let (jvp, a, div, trace) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { estimator, probes: Probes::default(), jvp, a, div, trace }
    }

    /// P a alone, without a divergence.
    pub fn project(
        &mut self,
        manifold: &dyn Manifold,
        field: &dyn Field,
        x: Rows<'_>,
        s: &[f64],
    ) -> Result<(), SolveError> {
        self.a.resize(x.as_slice().len(), 0.0);
        field.eval(x, s, 0, &[], &mut self.a, &mut [])?;
        project_tangents(manifold, x.as_slice(), &mut self.a);
        check_finite("the field", s, x.width(), &self.a)
    }

    /// P a and its divergence. Random probes of row i are those of `rows[i]`, the same at every
    /// call.
    pub fn evaluate(
        &mut self,
        manifold: &dyn Manifold,
        field: &dyn Field,
        rows: &[usize],
        x: Rows<'_>,
        s: &[f64],
        probes: &Streams,
    ) -> Result<(), SolveError> {
        let m = x.width();
        self.probes.fill_numbered(manifold, self.estimator, x, probes, rows)?;
        self.a.resize(x.as_slice().len(), 0.0);
        self.jvp.resize(self.probes.e.len(), 0.0);
        self.div.resize(x.len(), 0.0);
        let (per_row, e) = (self.probes.per_row, self.probes.velocities());
        field.eval(x, s, per_row, e, &mut self.a, &mut self.jvp)?;
        let (a, jvp) = (Rows::new(&self.a, m)?, Rows::new(&self.jvp, m)?);
        self.probes.divergence(a, jvp, &mut self.div)?;
        self.trace.clear();
        project_tangents(manifold, x.as_slice(), &mut self.a);
        for (i, a) in self.a.chunks_exact(m).enumerate() {
            self.trace.push(self.div[i] - dot(&self.probes.h[i * m..(i + 1) * m], a));
        }
        check_finite("the field", s, m, &self.a)?;
        check_finite("the divergence", s, 1, &self.div)
    }

    /// |P a|² of row i.
    pub fn norm2(&self, i: usize) -> f64 {
        let m = self.a.len() / self.div.len();
        let a = &self.a[i * m..(i + 1) * m];
        dot(a, a)
    }
}

fn check_finite(
    quantity: &'static str,
    s: &[f64],
    width: usize,
    values: &[f64],
) -> Result<(), SolveError> {
    match values.iter().position(|v| !v.is_finite()) {
        Some(at) => {
            let row = at / width;
            Err(SolveError::NotFinite { row, time: s[row], quantity, value: values[at] })
        }
        None => Ok(()),
    }
}
