//! Coordinates in which every known heat kernel is simple: unit vectors for spheres, unit
//! quaternions for SO(3), angles for circles, and the coordinates themselves on ℝ^d.

use std::ops::Range;

use crate::error::SolveError;
use crate::linalg::{norm, scale, unit_quaternion};
use crate::manifold::Manifold;
use crate::prior::{KnownNoise, Prior, known_noise};

/// |dR|_F = √8 |dq| between rotations and unit quaternions.
pub(super) const QUATERNION_SCALE: f64 = 2.0 * std::f64::consts::SQRT_2;

/// What a block of coordinates is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// S^dim; `quotient`: S³ with antipodes identified, which is SO(3).
    Sphere { dim: usize, quotient: bool },
    /// Unit circles: angles, then their cosines, then their sines.
    Circles { count: usize },
    /// ℝ^d under the Ornstein–Uhlenbeck process.
    Flat { dim: usize },
}

/// One block with its place in the ambient and internal coordinates.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) shape: Shape,
    pub(super) ambient: Range<usize>,
    pub(super) inner: Range<usize>,
}

/// A manifold whose noise is known, in internal coordinates.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) blocks: Vec<Block>,
    /// Internal coordinates of a point.
    pub(super) width: usize,
    /// d.
    pub(super) dim: usize,
}

impl Shape {
    /// Internal coordinates and dimension.
    fn sizes(self) -> (usize, usize) {
        match self {
            Self::Sphere { dim, .. } => (dim + 1, dim),
            Self::Circles { count } => (3 * count, count),
            Self::Flat { dim } => (dim, dim),
        }
    }
}

impl Space {
    /// An error where no heat kernel is known.
    pub(super) fn new(manifold: &dyn Manifold, prior: &dyn Prior) -> Result<Self, SolveError> {
        let known = known_noise(manifold, prior).ok_or_else(|| SolveError::Unsupported {
            what: "a kernel mixture",
            manifold: manifold.name(),
            hint: "it exists where the heat kernel is known (spheres, tori, SO(3), R^d with the standard normal prior, their \
                   products) and on hyperbolic space",
        })?;
        let mut blocks = Vec::new();
        let (mut width, mut dim) = (0, 0);
        for (ambient, noise) in known {
            let shape = match noise {
                KnownNoise::Sphere { dim } => Shape::Sphere { dim, quotient: false },
                KnownNoise::Rotation => Shape::Sphere { dim: 3, quotient: true },
                KnownNoise::Circles => Shape::Circles { count: ambient.len() / 2 },
                KnownNoise::OrnsteinUhlenbeck => Shape::Flat { dim: ambient.len() },
            };
            let (inner, own_dim) = shape.sizes();
            blocks.push(Block { shape, ambient, inner: width..width + inner });
            width += inner;
            dim += own_dim;
        }
        Ok(Self { blocks, width, dim })
    }

    /// Points of ℝ^d as they are.
    pub(super) fn flat(dim: usize) -> Self {
        let (shape, all) = (Shape::Flat { dim }, 0..dim);
        let block = Block { shape, ambient: all.clone(), inner: all };
        Self { blocks: vec![block], width: dim, dim }
    }

    /// The shape, if there is one block.
    pub(super) fn only_shape(&self) -> Option<Shape> {
        match &self.blocks[..] {
            [block] => Some(block.shape),
            _ => None,
        }
    }

    /// `inner ←` the internal coordinates of a point of the manifold.
    pub(super) fn locate(&self, x: &[f64], inner: &mut [f64]) {
        for block in &self.blocks {
            let (x, inner) = (&x[block.ambient.clone()], &mut inner[block.inner.clone()]);
            match block.shape {
                Shape::Sphere { quotient: true, .. } => inner.copy_from_slice(&unit_quaternion(x)),
                Shape::Sphere { .. } => {
                    inner.copy_from_slice(x);
                    scale(1.0 / norm(x), inner);
                }
                Shape::Circles { count } => {
                    for (j, circle) in x.chunks_exact(2).enumerate() {
                        inner[j] = circle[1].atan2(circle[0]);
                        let length = circle[0].hypot(circle[1]);
                        inner[count + j] = circle[0] / length;
                        inner[2 * count + j] = circle[1] / length;
                    }
                }
                Shape::Flat { .. } => inner.copy_from_slice(x),
            }
        }
    }

    /// Coordinates whose Euclidean distance is close to the manifold's for near points, for the
    /// tree: blocks of internal coordinates, without cosines and sines, quaternions times √8.
    pub(super) fn metric(&self, inner: &[f64], out: &mut Vec<f64>) {
        for block in &self.blocks {
            let inner = &inner[block.inner.clone()];
            match block.shape {
                Shape::Sphere { quotient: true, .. } => {
                    out.extend(inner.iter().map(|v| v * QUATERNION_SCALE));
                }
                Shape::Circles { count } => out.extend_from_slice(&inner[..count]),
                _ => out.extend_from_slice(inner),
            }
        }
    }

    /// Width of [`Space::metric`].
    pub(super) fn metric_width(&self) -> usize {
        let width = |block: &Block| match block.shape {
            Shape::Circles { count } => count,
            _ => block.inner.len(),
        };
        self.blocks.iter().map(width).sum()
    }

    /// Internal coordinates from a mean of [`Space::metric`] coordinates.
    pub(super) fn locate_metric(&self, metric: &[f64], inner: &mut [f64]) {
        let mut at = 0;
        for block in &self.blocks {
            let inner = &mut inner[block.inner.clone()];
            if let Shape::Circles { count } = block.shape {
                for j in 0..count {
                    let angle = metric[at + j];
                    let (sin, cos) = angle.sin_cos();
                    (inner[j], inner[count + j], inner[2 * count + j]) = (angle, cos, sin);
                }
                at += count;
            } else {
                let width = inner.len();
                inner.copy_from_slice(&metric[at..at + width]);
                if matches!(block.shape, Shape::Sphere { .. }) {
                    let length = norm(inner);
                    // A cell so large that its mean is the centre of the sphere is never used as
                    // one kernel.
                    if length > 0.0 {
                        scale(1.0 / length, inner);
                    }
                }
                at += width;
            }
        }
    }
}
