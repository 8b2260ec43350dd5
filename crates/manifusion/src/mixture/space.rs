//! Coordinates in which every known heat kernel is simple: unit vectors for spheres, unit
//! quaternions for SO(3), angles for circles, and the coordinates themselves on ℝ^d; with an
//! orthonormal tangent frame, in which sums of kernels are differentiated.

use std::f64::consts::FRAC_1_SQRT_2;
use std::ops::Range;

use crate::error::SolveError;
use crate::linalg::{dot, norm, scale, scratch, unit_quaternion};
use crate::manifold::{Manifold, Sphere};
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

/// One block with its place in the ambient, internal and tangent coordinates.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) shape: Shape,
    pub(super) ambient: Range<usize>,
    pub(super) inner: Range<usize>,
    pub(super) tangent: Range<usize>,
    /// Where the block's frame starts in [`Point::frame`].
    pub(super) frame: usize,
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

/// A point in internal coordinates with the tangent frames of its sphere blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    pub(super) inner: Vec<f64>,
    pub(super) frame: Vec<f64>,
}

impl Shape {
    fn sizes(self) -> (usize, usize, usize) {
        match self {
            Self::Sphere { dim, .. } => (dim + 1, dim, dim * (dim + 1)),
            Self::Circles { count } => (3 * count, count, 0),
            Self::Flat { dim } => (dim, dim, 0),
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
        let (mut width, mut dim, mut frames) = (0, 0, 0);
        for (ambient, noise) in known {
            let shape = match noise {
                KnownNoise::Sphere { dim } => Shape::Sphere { dim, quotient: false },
                KnownNoise::Rotation => Shape::Sphere { dim: 3, quotient: true },
                KnownNoise::Circles => Shape::Circles { count: ambient.len() / 2 },
                KnownNoise::OrnsteinUhlenbeck => Shape::Flat { dim: ambient.len() },
            };
            let (inner, tangent, frame) = shape.sizes();
            blocks.push(Block {
                shape,
                ambient,
                inner: width..width + inner,
                tangent: dim..dim + tangent,
                frame: frames,
            });
            width += inner;
            dim += tangent;
            frames += frame;
        }
        Ok(Self { blocks, width, dim })
    }

    /// Points of ℝ^d as they are.
    pub(super) fn flat(dim: usize) -> Self {
        let (shape, all) = (Shape::Flat { dim }, 0..dim);
        let block =
            Block { shape, ambient: all.clone(), inner: all.clone(), tangent: all, frame: 0 };
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

    /// Internal coordinates and frames.
    pub(super) fn place(&self, x: &[f64], point: &mut Point) {
        point.inner.resize(self.width, 0.0);
        self.locate(x, &mut point.inner);
        let total = self.blocks.iter().map(|b| b.shape.sizes().2).sum();
        point.frame.resize(total, 0.0);
        for block in &self.blocks {
            let Shape::Sphere { dim, quotient } = block.shape else { continue };
            let y = &point.inner[block.inner.clone()];
            let frame = &mut point.frame[block.frame..block.frame + dim * (dim + 1)];
            if quotient {
                // y·i, y·j, y·k
                let [w, a, b, c] = [y[0], y[1], y[2], y[3]];
                frame.copy_from_slice(&[-a, w, c, -b, -b, -c, w, a, -c, b, -a, w]);
            } else if let Ok(sphere) = Sphere::new(dim) {
                sphere.frame(y, frame);
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

    /// `a ←` the ambient form of the tangent vector with components `f` at `point`, of the manifold
    /// point x.
    pub(super) fn to_ambient(&self, x: &[f64], point: &Point, f: &[f64], a: &mut [f64]) {
        for block in &self.blocks {
            let (x, f) = (&x[block.ambient.clone()], &f[block.tangent.clone()]);
            let a = &mut a[block.ambient.clone()];
            match block.shape {
                Shape::Sphere { quotient: true, .. } => {
                    times_skew(x, f, FRAC_1_SQRT_2, a);
                }
                Shape::Sphere { dim, .. } => {
                    a.fill(0.0);
                    let frame = &point.frame[block.frame..];
                    for (f, e) in f.iter().zip(frame.chunks_exact(dim + 1)) {
                        crate::linalg::axpy(*f, e, a);
                    }
                }
                Shape::Circles { .. } => {
                    for (j, circle) in x.chunks_exact(2).enumerate() {
                        a[2 * j] = -f[j] * circle[1];
                        a[2 * j + 1] = f[j] * circle[0];
                    }
                }
                Shape::Flat { .. } => a.copy_from_slice(f),
            }
        }
    }

    /// `f ←` the tangent components of the ambient vector `a`.
    pub(super) fn components(&self, x: &[f64], point: &Point, a: &[f64], f: &mut [f64]) {
        for block in &self.blocks {
            let (x, a) = (&x[block.ambient.clone()], &a[block.ambient.clone()]);
            let f = &mut f[block.tangent.clone()];
            match block.shape {
                Shape::Sphere { quotient: true, .. } => {
                    let mut unit = scratch(9);
                    for (axis, f) in f.iter_mut().enumerate() {
                        let mut direction = [0.0; 3];
                        direction[axis] = 1.0;
                        times_skew(x, &direction, FRAC_1_SQRT_2, &mut unit);
                        *f = dot(&unit, a);
                    }
                }
                Shape::Sphere { dim, .. } => {
                    let frame = &point.frame[block.frame..];
                    for (f, e) in f.iter_mut().zip(frame.chunks_exact(dim + 1)) {
                        *f = dot(e, a);
                    }
                }
                Shape::Circles { .. } => {
                    for (j, circle) in x.chunks_exact(2).enumerate() {
                        f[j] = a[2 * j + 1] * circle[0] - a[2 * j] * circle[1];
                    }
                }
                Shape::Flat { .. } => f.copy_from_slice(a),
            }
        }
    }

    /// `a ← a + II(e, f)`, the second fundamental form of two tangent vectors in components: what
    /// an ambient derivative of a tangent field has beside the covariant one.
    pub(super) fn add_second_form(&self, x: &[f64], e: &[f64], f: &[f64], a: &mut [f64]) {
        for block in &self.blocks {
            let (x, a) = (&x[block.ambient.clone()], &mut a[block.ambient.clone()]);
            let (e, f) = (&e[block.tangent.clone()], &f[block.tangent.clone()]);
            match block.shape {
                // II(XA, XB) = ½X(AB + BA), and [u]×[v]× = vuᵀ − ⟨u,v⟩I.
                Shape::Sphere { quotient: true, .. } => {
                    let inner = dot(e, f);
                    for (row, a) in x.chunks_exact(3).zip(a.chunks_exact_mut(3)) {
                        let (along_e, along_f) = (dot(row, e), dot(row, f));
                        for j in 0..3 {
                            let symmetric = 0.5 * (along_e * f[j] + along_f * e[j]);
                            a[j] += 0.5 * (symmetric - inner * row[j]);
                        }
                    }
                }
                Shape::Sphere { .. } => crate::linalg::axpy(-dot(e, f), x, a),
                Shape::Circles { .. } => {
                    for (j, circle) in x.chunks_exact(2).enumerate() {
                        a[2 * j] -= e[j] * f[j] * circle[0];
                        a[2 * j + 1] -= e[j] * f[j] * circle[1];
                    }
                }
                Shape::Flat { .. } => {}
            }
        }
    }
}

/// `out ← factor·X[v]×`.
fn times_skew(x: &[f64], v: &[f64], factor: f64, out: &mut [f64]) {
    for (row, out) in x.chunks_exact(3).zip(out.chunks_exact_mut(3)) {
        out[0] = factor * (row[1] * v[2] - row[2] * v[1]);
        out[1] = factor * (row[2] * v[0] - row[0] * v[2]);
        out[2] = factor * (row[0] * v[1] - row[1] * v[0]);
    }
}
