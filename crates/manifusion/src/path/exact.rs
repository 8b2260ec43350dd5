//! Noising in one draw where the distribution of Y_s given Y_0 is known: no time steps, and no
//! error but that of [`AncestralProcess`] at small times on spheres and SO(3).

use rand_distr::{Distribution, Gamma};

use super::ancestral::AncestralProcess;
use super::two_sphere;
use crate::heat_kernel::ornstein_uhlenbeck;
use crate::linalg::{axpy, dot, rotation_matrix, scratch};
use crate::manifold::Manifold;
use crate::prior::{KnownNoise, Prior, known_noise};
use crate::rng::{Stream, Streams};

/// The exact law of Y_s | Y_0, block by block of coordinates.
#[derive(Clone, Debug)]
pub(super) struct ExactNoise {
    blocks: Vec<(std::ops::Range<usize>, Block)>,
}

#[derive(Clone, Debug)]
enum Block {
    Sphere { dim: usize, ancestral: AncestralProcess },
    Torus,
    Rotation { ancestral: AncestralProcess },
    OrnsteinUhlenbeck,
}

impl ExactNoise {
    /// `None` where no exact law is known.
    pub(super) fn new(manifold: &dyn Manifold, prior: &dyn Prior) -> Option<Self> {
        let block = |noise| match noise {
            KnownNoise::Sphere { dim } => {
                Block::Sphere { dim, ancestral: AncestralProcess::new(dim as f64) }
            }
            KnownNoise::Circles => Block::Torus,
            KnownNoise::Rotation => Block::Rotation { ancestral: AncestralProcess::new(3.0) },
            KnownNoise::OrnsteinUhlenbeck => Block::OrnsteinUhlenbeck,
        };
        let known = known_noise(manifold, prior)?;
        Some(Self { blocks: known.into_iter().map(|(at, noise)| (at, block(noise))).collect() })
    }

    /// `y ← Y_s` for consecutive rows, numbered from `first_row`, each smoothed for its time τ
    /// first.
    pub(super) fn apply_rows(
        &self,
        streams: &Streams,
        first_row: u64,
        s: &[f64],
        tau: Option<&[f64]>,
        y: &mut [f64],
    ) {
        if let [(_, Block::Sphere { dim: 2, ancestral })] = &self.blocks[..] {
            let Some(tau) = tau else {
                return two_sphere::apply_rows(ancestral, streams, first_row, s, y);
            };
            let total: Vec<f64> = s.iter().zip(tau).map(|(s, tau)| s + tau).collect();
            return two_sphere::apply_rows(ancestral, streams, first_row, &total, y);
        }
        let m = y.len() / s.len();
        for (i, (y, &s)) in y.chunks_exact_mut(m).zip(s).enumerate() {
            let tau = tau.map_or(0.0, |tau| tau[i]);
            self.apply(y, s, tau, &mut streams.stream(first_row + i as u64, 0));
        }
    }

    /// `y ← Y_s` from a kernel of time τ around y: noise for s + τ on compact spaces, and on ℝ^d,
    /// where the noise also pulls towards the origin, a normal of variance τ first.
    fn apply(&self, y: &mut [f64], s: f64, tau: f64, stream: &mut Stream) {
        let total = s + tau;
        for (at, block) in &self.blocks {
            let y = &mut y[at.clone()];
            match block {
                Block::Sphere { dim, ancestral } => sphere_step(*dim, ancestral, y, total, stream),
                Block::Torus => torus_step(y, total, stream),
                Block::Rotation { ancestral } => rotation_step(ancestral, y, total, stream),
                Block::OrnsteinUhlenbeck => {
                    let (decay, variance) = ornstein_uhlenbeck(s, tau);
                    for y in y {
                        *y = decay * *y + variance.sqrt() * stream.normal();
                    }
                }
            }
        }
    }
}

/// Each circle turned by N(0, s).
fn torus_step(y: &mut [f64], s: f64, stream: &mut Stream) {
    let spread = s.sqrt();
    for circle in y.as_chunks_mut::<2>().0 {
        let (sin, cos) = (spread * stream.normal()).sin_cos();
        let [a, b] = *circle;
        *circle = [a * cos - b * sin, a * sin + b * cos];
        // Rounding would otherwise build up over repeated use.
        let length = circle[0].hypot(circle[1]);
        circle[0] /= length;
        circle[1] /= length;
    }
}

/// u = (1 − ⟨Y_0, Y_s⟩)/2 is Beta(d/2, d/2 + M) with M lineages left, and the direction is uniform:
/// then Y_s = (1 − 2u)Y_0 + 2√(u(1−u)) U. One tangent Gaussian z gives both the direction U = z/|z|
/// and, as |z|²/2 ~ Γ(d/2) is independent of it, the first of the two gamma variables of the Beta
/// law.
fn sphere_step(
    dim: usize,
    ancestral: &AncestralProcess,
    y: &mut [f64],
    s: f64,
    stream: &mut Stream,
) {
    let lineages = ancestral.sample(s, stream);
    let mut z = scratch(y.len());
    for z in &mut z {
        *z = stream.normal();
    }
    axpy(-dot(y, &z) / dot(y, y), y, &mut z);
    let square = dot(&z, &z);
    let (first, second) = (0.5 * square, gamma(0.5 * dim as f64 + lineages, stream));
    let u = first / (first + second);
    let across = 2.0 * (u * (1.0 - u)).sqrt() / square.sqrt();
    for (y, z) in y.iter_mut().zip(&z) {
        *y = (1.0 - 2.0 * u) * *y + across * z;
    }
    let length = dot(y, y).sqrt();
    crate::linalg::scale(1.0 / length, y);
}

/// Γ(shape, 1).
fn gamma(shape: f64, stream: &mut Stream) -> f64 {
    Gamma::new(shape, 1.0).expect("d/2 + M is positive and finite").sample(stream)
}

/// Y_s = Y_0 R(q) with q from S³ Brownian motion at the identity for time s/8, since |dR|²_F =
/// 8|dq|².
fn rotation_step(ancestral: &AncestralProcess, y: &mut [f64], s: f64, stream: &mut Stream) {
    let mut q = [1.0, 0.0, 0.0, 0.0];
    sphere_step(3, ancestral, &mut q, s / 8.0, stream);
    let r = rotation_matrix(q);
    let mut product = [0.0; 9];
    crate::linalg::times(y, &r, 3, 3, &mut product);
    y.copy_from_slice(&product);
}
