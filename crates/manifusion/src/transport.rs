//! How a covector moves with the flow of a network: the gradient of ∇_g·v + ⟨α, v⟩.
//!
//! Where dY/ds = v(Y, s) and q_s is the density at Y_s, the covector α = ∇ log q_s(Y_s) obeys
//! ⟨dα/ds, u⟩ = −D_u(∇_g·v + ⟨α, v⟩) for every tangent u, α held fixed on the right; and a change
//! δv of the velocity changes log q by ∫ (∇_g·δv + ⟨α, δv⟩) ds along the path. Both need one
//! scalar F = ∇_g·v + ⟨α, v⟩ with its gradients by the point and by the network's parameters.
//!
//! With an orthonormal frame e_k and M = Σ_k e_k (V e_k)ᵀ, the projection P where the metric is
//! induced, F = Σ_ij M_ij ∂f_i/∂x_j + ⟨h + Mα, f⟩ for v = V P f. The network's reverse pass gives
//! the derivative with M and h held fixed; what they add is a derivative of geometry alone, by
//! central differences.

use crate::error::SolveError;
use crate::linalg::{Scratch, axpy, dot, scratch};
use crate::manifold::Manifold;
use crate::network::solve_error;
use crate::nn::{
    Directions, FieldInput, InputGradient, Mlp, ShardCotangents, ShardValues, TrainWorkspace,
};
use crate::parallel;
use crate::rows::Rows;

/// Step of the central differences of geometry, relative to the size of a point: their error is
/// of its square, that of rounding 1e-16 over it.
const STEP: f64 = 1e-4;
/// Rows that one thread differentiates at a time.
const CHUNK: usize = 8;

/// F and its gradients on a batch, with the buffers that they need. With a penalty c it is
/// F − c|∂f/∂x|² (Frobenius) in place of F: what keeps a flow smooth enough for its solver.
#[derive(Debug, Default)]
pub struct Transport {
    penalty: f64,
    directions: Vec<f64>,
    matrix: Vec<f64>,
    cotangent: Vec<f64>,
    values: Vec<f64>,
    jacobian: Vec<f64>,
    by_point: Vec<f64>,
    by_time: Vec<f64>,
    by_direction: Vec<f64>,
    /// ∇_g·v, n.
    pub divergence: Vec<f64>,
    /// ⟨α, v⟩, n.
    pub along: Vec<f64>,
    /// v as coefficients, P f, n × m.
    pub velocity: Vec<f64>,
    /// The gradient of F along the manifold, n × m.
    pub gradient: Vec<f64>,
    losses: Vec<f64>,
}

/// Where F is taken.
#[derive(Clone, Copy, Debug)]
pub struct Places<'a> {
    /// Points.
    pub x: Rows<'a>,
    /// Times, one per point.
    pub s: &'a [f64],
    /// Covectors, n × m.
    pub alpha: &'a [f64],
}

/// `matrix ← M` and `h ← h(x)`.
fn geometry(manifold: &dyn Manifold, x: &[f64], matrix: &mut [f64], h: &mut [f64]) {
    let (m, d) = (manifold.ambient_dim(), manifold.dim());
    let mut frame = scratch(d * m);
    manifold.frame(x, &mut frame);
    matrix.fill(0.0);
    let mut moved = scratch(m);
    for e in frame.chunks_exact(m) {
        moved.copy_from_slice(e);
        manifold.velocity(x, &mut moved);
        for (row, e) in matrix.chunks_exact_mut(m).zip(e) {
            axpy(*e, &moved, row);
        }
    }
    manifold.mean_curvature(x, h);
}

/// Values that are computed on several shards at once, written where each row belongs.
struct Shared<'a>(std::sync::Mutex<(&'a mut [f64], &'a mut [f64])>);

impl Transport {
    /// With the penalty c.
    pub fn with_penalty(penalty: f64) -> Self {
        Self { penalty, ..Self::default() }
    }

    /// Evaluates the network. The gradient of Σ weight·F by the parameters is then in the
    /// workspace; F's parts and its gradient by the points are in `self`.
    pub fn eval(
        &mut self,
        manifold: &dyn Manifold,
        net: &Mlp<f32>,
        places: Places<'_>,
        weight: f64,
        workspace: &mut TrainWorkspace<f32>,
    ) -> Result<(), SolveError> {
        let Places { x, s, alpha } = places;
        let (n, m) = (x.len(), manifold.ambient_dim());
        self.resize(n, m);
        for (i, row) in self.directions.chunks_exact_mut(m * m).enumerate() {
            let (matrix, c) = (i * m * m..(i + 1) * m * m, i * m..(i + 1) * m);
            for (j, e) in row.chunks_exact_mut(m).enumerate() {
                e.fill(0.0);
                e[j] = 1.0;
            }
            let (matrix, h) = (&mut self.matrix[matrix], &mut self.cotangent[c]);
            geometry(manifold, x.row(i), matrix, h);
            // h + Mα
            for (h, row) in h.iter_mut().zip(matrix.chunks_exact(m)) {
                *h += dot(row, &alpha[i * m..(i + 1) * m]);
            }
        }
        let directions = Directions { per_row: m, e: &self.directions, e_s: &[] };
        let input = FieldInput { x, s, directions };
        let (matrix, cotangent, penalty) = (&self.matrix, &self.cotangent, self.penalty);
        let shared = Shared(std::sync::Mutex::new((&mut self.values[..], &mut self.jacobian[..])));
        let loss = |values: ShardValues<'_>, out: ShardCotangents<'_>| {
            let first = values.first_row;
            {
                let mut kept = shared.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                kept.0[first * m..(first + values.rows) * m].copy_from_slice(values.a);
                kept.1[first * m * m..(first + values.rows) * m * m].copy_from_slice(values.jvp);
            }
            for r in 0..values.rows {
                let (row, at) = (first + r, r * m * m);
                let matrix = &matrix[row * m * m..(row + 1) * m * m];
                let c = &cotangent[row * m..(row + 1) * m];
                let mut total = dot(c, &values.a[r * m..(r + 1) * m]);
                for j in 0..m {
                    for i in 0..m {
                        let (of_jvp, entry) = (at + j * m + i, matrix[i * m + j]);
                        let slope = values.jvp[of_jvp];
                        total += (entry - penalty * slope) * slope;
                        out.jvp[of_jvp] = weight * (entry - 2.0 * penalty * slope);
                    }
                }
                out.loss[r] = weight * total;
                for (out, c) in out.a[r * m..(r + 1) * m].iter_mut().zip(c) {
                    *out = weight * c;
                }
            }
        };
        let by_inputs = InputGradient {
            x: &mut self.by_point,
            s: &mut self.by_time,
            e: &mut self.by_direction,
        };
        net.loss_gradient(input, &loss, workspace, &mut self.losses, Some(by_inputs))
            .map_err(solve_error)?;
        self.finish(manifold, places, weight)
    }

    /// The losses of the rows, weight·F each.
    pub fn losses(&self) -> &[f64] {
        &self.losses
    }

    /// The largest Frobenius norm of ∂f/∂x on the batch: 1 over it is a time in which the flow
    /// changes.
    pub fn steepest(&self, m: usize) -> f64 {
        let squares = self.jacobian.chunks_exact(m * m).map(|jacobian| dot(jacobian, jacobian));
        squares.fold(0.0, f64::max).sqrt()
    }

    fn resize(&mut self, n: usize, m: usize) {
        for (buffer, size) in [
            (&mut self.directions, n * m * m),
            (&mut self.matrix, n * m * m),
            (&mut self.jacobian, n * m * m),
            (&mut self.by_direction, n * m * m),
            (&mut self.cotangent, n * m),
            (&mut self.values, n * m),
            (&mut self.by_point, n * m),
            (&mut self.velocity, n * m),
            (&mut self.gradient, n * m),
            (&mut self.by_time, n),
            (&mut self.divergence, n),
            (&mut self.along, n),
            (&mut self.losses, n),
        ] {
            buffer.resize(size, 0.0);
        }
    }

    /// Divergence, velocity and gradient from what the network said.
    fn finish(
        &mut self,
        manifold: &dyn Manifold,
        places: Places<'_>,
        weight: f64,
    ) -> Result<(), SolveError> {
        let Places { x, s, alpha } = places;
        let (m, d) = (manifold.ambient_dim(), manifold.dim());
        self.velocity.copy_from_slice(&self.values);
        for (i, x) in x.rows().enumerate() {
            let own = i * m..(i + 1) * m;
            manifold.project_tangent(x, &mut self.velocity[own.clone()]);
            let matrix = &self.matrix[i * m * m..(i + 1) * m * m];
            let jacobian = &self.jacobian[i * m * m..(i + 1) * m * m];
            let (f, c) = (&self.values[own.clone()], &self.cotangent[own.clone()]);
            let (mut divergence, mut along) = (0.0, 0.0);
            for (i, row) in matrix.chunks_exact(m).enumerate() {
                let part = dot(row, &alpha[own.clone()]);
                along += f[i] * part;
                // ⟨h, f⟩ = ⟨h + Mα, f⟩ − ⟨Mα, f⟩
                divergence += f[i] * (c[i] - part);
                for (j, entry) in row.iter().enumerate() {
                    divergence += entry * jacobian[j * m + i];
                }
            }
            (self.divergence[i], self.along[i]) = (divergence, along);
        }
        let (values, jacobian, by_point) = (&self.values, &self.jacobian, &self.by_point);
        parallel::for_each_chunk(&mut self.gradient, m, CHUNK, |first, chunk| {
            let (mut frame, mut matrix, mut h) = (vec![0.0; d * m], vec![0.0; m * m], vec![0.0; m]);
            for (r, gradient) in chunk.chunks_exact_mut(m).enumerate() {
                let i = first + r;
                let own = i * m..(i + 1) * m;
                let (f, alpha) = (&values[own.clone()], &alpha[own.clone()]);
                let jvp = &jacobian[i * m * m..(i + 1) * m * m];
                let x = x.row(i);
                let size = STEP * dot(x, x).sqrt().max(1.0);
                // F as a function of the place where geometry is taken.
                let mut at = |place: &[f64]| {
                    geometry(manifold, place, &mut matrix, &mut h);
                    let mut total = dot(&h, f);
                    for (i, row) in matrix.chunks_exact(m).enumerate() {
                        total += f[i] * dot(row, alpha);
                        for (j, entry) in row.iter().enumerate() {
                            total += entry * jvp[j * m + i];
                        }
                    }
                    total
                };
                manifold.frame(x, &mut frame);
                gradient.fill(0.0);
                for e in frame.chunks_exact(m) {
                    let (mut before, mut after) = (Scratch::from_slice(x), Scratch::from_slice(x));
                    axpy(-size, e, &mut before);
                    axpy(size, e, &mut after);
                    for place in [&mut before, &mut after] {
                        manifold.project_point(place).map_err(SolveError::at(r, s[i]))?;
                    }
                    let mut slope = (at(&after) - at(&before)) / (2.0 * size);
                    // The network's part, along the same motion.
                    for ((after, before), g) in
                        after.iter().zip(&before).zip(&by_point[own.clone()])
                    {
                        slope += (after - before) / (2.0 * size) * g / weight;
                    }
                    axpy(slope, e, gradient);
                }
            }
            Ok(())
        })
    }
}
