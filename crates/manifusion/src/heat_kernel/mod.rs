//! Transition kernels K_s(y|x) of the noise where they are known: log-density and score ∇_y log
//! K_s.
//!
//! Circle and torus by images and Fourier series, S^d by Gegenbauer series and a small-time
//! expansion, SO(3) by images and characters, ℝ^d (Ornstein–Uhlenbeck) in closed form, products
//! factor by factor. Radial kernels come with an estimate of the score's relative error; where that
//! is above 1e-6 the kernel is refused.

mod circle;
mod rotation;
mod sphere;
mod theta;

use std::sync::Arc;

pub use circle::wrapped_normal;
pub use rotation::rotation_kernel;
pub use sphere::SphereKernel;

use crate::error::SolveError;
use crate::linalg::{distance, dot, norm, scratch};
use crate::manifold::Manifold;
use crate::parallel;
use crate::prior::{KnownNoise, Prior, known_noise};
use crate::rows::{Rows, RowsMut, expect_len};

/// log K_s and its derivative in the angle, with the estimated relative error of the derivative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RadialKernel {
    /// log K_s with respect to the Riemannian volume.
    pub log_density: f64,
    /// d log K_s / d angle.
    pub slope: f64,
    /// Estimated relative error of `slope`.
    pub error: f64,
}

/// Largest estimated relative error that is returned as a value.
const MAX_ERROR: f64 = 1e-6;

/// Rows that one thread takes at a time.
const CHUNK: usize = 32;

/// The transition kernel of a manifold's noise.
#[derive(Clone, Debug)]
pub struct TransitionKernel {
    name: String,
    width: usize,
    blocks: Vec<(std::ops::Range<usize>, Block)>,
}

/// How long a point has been noised, and how long it was smoothed before.
#[derive(Clone, Copy)]
struct Time {
    s: f64,
    smoothing: f64,
}

#[derive(Clone, Debug)]
enum Block {
    Sphere(Arc<SphereKernel>),
    Torus,
    Rotation,
    OrnsteinUhlenbeck,
}

impl Block {
    /// The score of what is left after a long time.
    fn prior_score(&self, y: &[f64], out: &mut [f64]) {
        match self {
            Self::OrnsteinUhlenbeck => {
                for (out, y) in out.iter_mut().zip(y) {
                    *out = -y;
                }
            }
            Self::Sphere(_) | Self::Torus | Self::Rotation => out.fill(0.0),
        }
    }
}

impl TransitionKernel {
    /// The kernel of the inference SDE with this prior; an error where none is known.
    pub fn new(manifold: &dyn Manifold, prior: &dyn Prior) -> Result<Self, SolveError> {
        let known = known_noise(manifold, prior).ok_or_else(|| SolveError::Unsupported {
            what: "the transition kernel",
            manifold: manifold.name(),
            hint: "use the implicit loss",
        })?;
        let block = |noise| match noise {
            KnownNoise::Sphere { dim } => Block::Sphere(Arc::new(SphereKernel::new(dim))),
            KnownNoise::Circles => Block::Torus,
            KnownNoise::Rotation => Block::Rotation,
            KnownNoise::OrnsteinUhlenbeck => Block::OrnsteinUhlenbeck,
        };
        let blocks = known.into_iter().map(|(at, noise)| (at, block(noise))).collect();
        Ok(Self { name: manifold.name(), width: manifold.ambient_dim(), blocks })
    }

    /// log K_s(y|x) with respect to the Riemannian volume at y.
    pub fn log_density(&self, x: &[f64], y: &[f64], s: f64) -> Result<f64, SolveError> {
        self.check_input(0, x, y, s)?;
        let (time, mut total) = (Time { s, smoothing: 0.0 }, 0.0);
        for (at, block) in &self.blocks {
            total += self.block_value(block, &x[at.clone()], &y[at.clone()], time, 0, None)?;
        }
        Ok(total)
    }

    /// `out ← ∇_y log K_s(y|x)`, tangent at y.
    pub fn score(&self, x: &[f64], y: &[f64], s: f64, out: &mut [f64]) -> Result<(), SolveError> {
        self.score_row(x, y, Time { s, smoothing: 0.0 }, 0, out)
    }

    /// The scores of a batch, one time per row, at points y that were drawn from a kernel of time τ
    /// around x (a normal of variance τ on ℝ^d) and then noised for time s: ∇_y log K_{s+τ}(y|x) on
    /// compact spaces. τ = ∞ stands for the prior, whose score it is then. Without `smoothing`, τ
    /// is zero.
    pub fn score_rows(
        &self,
        x: Rows<'_>,
        y: Rows<'_>,
        s: &[f64],
        smoothing: Option<&[f64]>,
        mut out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        x.expect_width(self.width)?;
        y.expect_width(self.width)?;
        out.expect_width(self.width)?;
        for len in [y.len(), s.len(), smoothing.map_or(x.len(), <[f64]>::len), out.len()] {
            expect_len(len, x.len())?;
        }
        let width = self.width;
        parallel::for_each_chunk(out.as_mut_slice(), width, CHUNK, |first, chunk| {
            for (i, out) in chunk.chunks_exact_mut(width).enumerate() {
                let row = first + i;
                let time = Time { s: s[row], smoothing: smoothing.map_or(0.0, |tau| tau[row]) };
                self.score_row(x.row(row), y.row(row), time, i, out)?;
            }
            Ok(())
        })
    }

    fn score_row(
        &self,
        x: &[f64],
        y: &[f64],
        time: Time,
        row: usize,
        out: &mut [f64],
    ) -> Result<(), SolveError> {
        self.check_input(row, x, y, time.s)?;
        if !(time.smoothing >= 0.0) {
            let expected = "times of smoothing are not negative";
            return Err(SolveError::Time { row, time: time.smoothing, expected });
        }
        expect_len(out.len(), self.width)?;
        for (at, block) in &self.blocks {
            let out = &mut out[at.clone()];
            if time.smoothing.is_infinite() {
                block.prior_score(&y[at.clone()], out);
                continue;
            }
            self.block_value(block, &x[at.clone()], &y[at.clone()], time, row, Some(out))?;
        }
        Ok(())
    }

    /// Widths, finite coordinates and a positive time. That the points lie on the manifold is the
    /// caller's business.
    fn check_input(&self, row: usize, x: &[f64], y: &[f64], s: f64) -> Result<(), SolveError> {
        check_time(row, s)?;
        for point in [x, y] {
            expect_len(point.len(), self.width)?;
            if let Some(&value) = point.iter().find(|v| !v.is_finite()) {
                let quantity = "a coordinate";
                return Err(SolveError::NotFinite { row, time: s, quantity, value });
            }
        }
        Ok(())
    }

    /// The log-density of one block; writes its score if wanted.
    fn block_value(
        &self,
        block: &Block,
        x: &[f64],
        y: &[f64],
        time: Time,
        row: usize,
        mut score: Option<&mut [f64]>,
    ) -> Result<f64, SolveError> {
        let s = time.s + time.smoothing;
        let checked = |value: RadialKernel, angle: f64| {
            if value.error <= MAX_ERROR {
                return Ok(value);
            }
            let (manifold, error) = (self.name.clone(), value.error);
            Err(SolveError::KernelReach { row, manifold, s, angle, error })
        };
        match block {
            Block::Sphere(kernel) => {
                let (chord, sum) = (distance(x, y), distance_to_antipode(x, y));
                let angle = 2.0 * chord.atan2(sum);
                let value = checked(kernel.eval(s, angle), angle)?;
                if let Some(out) = score {
                    // ∇φ = (y cos φ − x)/sin φ, with y cos φ − x = (y − x) − y(1 − cos φ) free of
                    // cancellation.
                    let sin = 0.5 * chord * sum;
                    let factor = if sin > 0.0 { value.slope / sin } else { 0.0 };
                    let versine = 0.5 * chord * chord;
                    for i in 0..y.len() {
                        out[i] = factor * ((y[i] - x[i]) - y[i] * versine);
                    }
                }
                Ok(value.log_density)
            }
            Block::Torus => {
                let mut total = 0.0;
                for j in 0..x.len() / 2 {
                    let (x, y) = (&x[2 * j..2 * j + 2], &y[2 * j..2 * j + 2]);
                    let angle = (x[0] * y[1] - x[1] * y[0]).atan2(dot(x, y));
                    let value = wrapped_normal(s, angle);
                    total += value.log_density;
                    if let Some(out) = score.as_deref_mut() {
                        out[2 * j] = -value.slope * y[1];
                        out[2 * j + 1] = value.slope * y[0];
                    }
                }
                Ok(total)
            }
            Block::Rotation => {
                let (vector, cos) = rotation::relative_rotation(x, y);
                let sin = norm(&vector);
                let angle = sin.atan2(cos);
                let value = checked(rotation_kernel(s, angle), angle)?;
                if let Some(out) = score {
                    // d/dt ω(Y exp(t[n]×)) = 1 and |Y[n]×|² = 2, so ∇ω = ½Y[n]×.
                    let factor = if sin > 0.0 { 0.5 * value.slope / sin } else { 0.0 };
                    rotation::times_cross(y, &vector, factor, out);
                }
                Ok(value.log_density)
            }
            Block::OrnsteinUhlenbeck => {
                let (decay, variance) = ornstein_uhlenbeck(time.s, time.smoothing);
                let mut z = scratch(x.len());
                for i in 0..x.len() {
                    z[i] = y[i] - decay * x[i];
                }
                if let Some(out) = score {
                    for (out, z) in out.iter_mut().zip(&z) {
                        *out = -z / variance;
                    }
                }
                let constant = x.len() as f64 * (std::f64::consts::TAU * variance).ln();
                Ok(-0.5 * (dot(&z, &z) / variance + constant))
            }
        }
    }
}

/// The factor of x and the variance of Y_s for Y_0 ~ N(x, τ).
pub(crate) fn ornstein_uhlenbeck(s: f64, tau: f64) -> (f64, f64) {
    ((-0.5 * s).exp(), (-s).exp() * tau - (-s).exp_m1())
}

fn distance_to_antipode(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| (a + b) * (a + b)).sum::<f64>().sqrt()
}

/// An error unless 0 < s < ∞.
pub(crate) fn check_time(row: usize, s: f64) -> Result<(), SolveError> {
    if s > 0.0 && s.is_finite() {
        return Ok(());
    }
    Err(SolveError::Time { row, time: s, expected: "noising times are positive and finite" })
}
