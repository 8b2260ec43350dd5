//! SOAP (Vyas et al. 2025): Adam in the eigenbasis of Shampoo's preconditioner.
//!
//! For each weight matrix W with gradients G, the averages of G Gᵀ and Gᵀ G are kept; their
//! eigenvectors Q_L and Q_R turn the gradient into Q_Lᵀ G Q_R, where its entries are nearly
//! uncorrelated, so that Adam's division by the root of their mean squares acts as it should. The
//! moments of [`Adam`] live in these bases; everything that is not a matrix has plain Adam.

use rayon::prelude::*;

use super::{Adam, OptimError};
use crate::nn::Support;

/// Decay of the averages of G Gᵀ and Gᵀ G.
const DECAY: f32 = 0.99;
/// Steps between two updates of these averages.
const AVERAGE_EVERY: u64 = 5;
/// Until this step they are updated in every step.
const AVERAGE_START: u64 = 10;
/// Steps between two updates of the bases, each an orthogonal iteration. On the way to the first of
/// them the bases are updated at powers of two.
const BASIS_EVERY: u64 = 50;
/// Sides longer than this have no basis: an update costs their cube.
const LONGEST_SIDE: usize = 1024;
/// Added to the averages, relative to their mean eigenvalue: directions without gradients keep
/// their vectors.
const RIDGE: f32 = 1e-6;
/// Vectors that are made orthogonal to all earlier ones together.
const VECTOR_BLOCK: usize = 32;

/// A weight matrix among the parameters, row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatrixPlace {
    /// Where it starts.
    pub offset: usize,
    /// Rows and columns.
    pub shape: [usize; 2],
}

impl MatrixPlace {
    fn len(&self) -> usize {
        self.shape[0] * self.shape[1]
    }
}

/// The bases of all weight matrices; their moments are Adam's.
#[derive(Clone, Debug)]
pub struct Soap {
    matrices: Vec<Matrix>,
}

/// A weight matrix with its bases.
#[derive(Clone, Debug)]
pub struct Matrix {
    place: MatrixPlace,
    /// Q_L and Q_R, none for a side that is too long.
    pub sides: [Option<Side>; 2],
    /// As large as the matrix.
    scratch: Vec<f32>,
}

/// An average of G Gᵀ or Gᵀ G, and what is known of its eigenvectors.
#[derive(Clone, Debug)]
pub struct Side {
    /// Length of a vector.
    pub n: usize,
    /// n × n.
    pub average: Vec<f32>,
    /// Rows are the vectors, in the order of their eigenvalues.
    pub vectors: Vec<f32>,
}

impl Soap {
    /// No averages yet, and the coordinates themselves as bases. `matrices` are in the order of
    /// their offsets and do not overlap.
    pub fn new(matrices: &[MatrixPlace]) -> Self {
        Self { matrices: matrices.iter().map(|place| Matrix::new(*place)).collect() }
    }

    /// One step: θ ← (1 − lr·wd)·θ − lr·Q_L N Q_Rᵀ, N the direction of Adam with the moments of
    /// Q_Lᵀ G Q_R. The gradient is overwritten; outside its support nothing changes.
    pub fn step(
        &mut self,
        adam: &mut Adam<f32>,
        params: &mut [f32],
        grad: &mut [f32],
        support: &Support,
        lr: f64,
    ) -> Result<(), OptimError> {
        let step = adam.steps() + 1;
        let first = adam.first_mut();
        if grad.len() != first.len() {
            return Err(OptimError::Len { found: grad.len(), expected: first.len() });
        }
        let places: Vec<MatrixPlace> = self.matrices.iter().map(|matrix| matrix.place).collect();
        let parts = matrices_of(grad, &places).into_iter().zip(matrices_of(first, &places));
        let work: Vec<_> = self.matrices.iter_mut().zip(parts).collect();
        work.into_par_iter().for_each(|(matrix, (g, first))| {
            matrix.learn(step, g, first);
            matrix.turn(g, Turn::IntoBasis);
        });
        adam.direction(grad, support)?;
        let work: Vec<_> = self.matrices.iter_mut().zip(matrices_of(grad, &places)).collect();
        work.into_par_iter().for_each(|(matrix, g)| matrix.turn(g, Turn::Back));
        adam.descend(params, grad, support, lr)
    }

    /// Averages and vectors, one matrix and side after the other: what a checkpoint keeps.
    pub fn state(&self) -> impl Iterator<Item = (String, &[f32])> {
        self.matrices.iter().enumerate().flat_map(|(i, matrix)| {
            let sides = matrix.sides.iter().enumerate();
            sides.filter_map(move |(j, side)| Some((i, j, side.as_ref()?))).flat_map(
                |(i, j, side)| {
                    [
                        (format!("soap.{i}.{j}.average"), side.average.as_slice()),
                        (format!("soap.{i}.{j}.vectors"), side.vectors.as_slice()),
                    ]
                },
            )
        })
    }

    /// Takes averages and vectors back; `named` gives those of a name, none if there are none of
    /// this length.
    pub fn restore(
        &mut self,
        mut named: impl FnMut(&str, usize) -> Option<Vec<f32>>,
    ) -> Option<()> {
        for (i, matrix) in self.matrices.iter_mut().enumerate() {
            for (j, side) in matrix.sides.iter_mut().enumerate() {
                let Some(side) = side else { continue };
                let len = side.n * side.n;
                side.average = named(&format!("soap.{i}.{j}.average"), len)?;
                side.vectors = named(&format!("soap.{i}.{j}.vectors"), len)?;
            }
        }
        Some(())
    }
}

/// The parts of a flat buffer that are matrices.
fn matrices_of<'a>(mut values: &'a mut [f32], places: &[MatrixPlace]) -> Vec<&'a mut [f32]> {
    let mut before = 0;
    let of_place = |place: &MatrixPlace| {
        let (_, from) = std::mem::take(&mut values).split_at_mut(place.offset - before);
        let (own, rest) = from.split_at_mut(place.len());
        (values, before) = (rest, place.offset + place.len());
        own
    };
    places.iter().map(of_place).collect()
}

/// A direction of turning.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Turn {
    /// From coordinates into the bases.
    IntoBasis,
    /// From the bases into coordinates.
    Back,
}

impl Matrix {
    /// No averages yet, and the coordinates themselves as bases.
    pub fn new(place: MatrixPlace) -> Self {
        Self {
            place,
            sides: place.shape.map(|n| (n <= LONGEST_SIDE).then(|| Side::new(n))),
            scratch: vec![0.0; place.len()],
        }
    }

    /// Updates averages and bases that are due, with the first moments turned into the new bases;
    /// the second ones stay, as the change is small.
    fn learn(&mut self, step: u64, g: &[f32], first: &mut [f32]) {
        let [rows, columns] = self.place.shape;
        if step <= AVERAGE_START || step.is_multiple_of(AVERAGE_EVERY) {
            for (i, side) in self.sides.iter_mut().enumerate() {
                let Some(side) = side else { continue };
                let decay = if step == 1 { 0.0 } else { DECAY };
                let whole = Product { factor: 1.0 - decay, keep: decay };
                if i == 0 {
                    whole.write(g, [rows, columns], transposed(g, columns), &mut side.average);
                } else {
                    let left = transposed(g, columns);
                    whole.write_of(left, [columns, rows], plain(g, columns), &mut side.average);
                }
            }
        }
        let early = step > 1 && step < BASIS_EVERY && step.is_power_of_two();
        if early || step.is_multiple_of(BASIS_EVERY) {
            self.turn(first, Turn::Back);
            self.sides.iter_mut().flatten().for_each(Side::iterate);
            self.turn(first, Turn::IntoBasis);
        }
    }

    /// Q_Lᵀ G Q_R, or Q_L G Q_Rᵀ, in place. Rows of `vectors` are columns of Q.
    pub fn turn(&mut self, g: &mut [f32], turn: Turn) {
        let [rows, columns] = self.place.shape;
        if let [Some(left), _] = &self.sides {
            let vectors = match turn {
                Turn::IntoBasis => plain(&left.vectors, rows),
                Turn::Back => transposed(&left.vectors, rows),
            };
            let operand = plain(g, columns);
            Product::WHOLE.write_of(vectors, [rows, rows], operand, &mut self.scratch);
            g.copy_from_slice(&self.scratch);
        }
        if let [_, Some(right)] = &self.sides {
            let vectors = match turn {
                Turn::IntoBasis => transposed(&right.vectors, columns),
                Turn::Back => plain(&right.vectors, columns),
            };
            Product::WHOLE.write(g, [rows, columns], vectors, &mut self.scratch);
            g.copy_from_slice(&self.scratch);
        }
    }
}

impl Side {
    /// No average, and the coordinates themselves as vectors.
    pub fn new(n: usize) -> Self {
        let mut vectors = vec![0.0; n * n];
        vectors.iter_mut().step_by(n + 1).for_each(|v| *v = 1.0);
        Self { n, average: vec![0.0; n * n], vectors }
    }

    /// One orthogonal iteration: the vectors times the average, made orthonormal from the largest
    /// eigenvalue on.
    pub fn iterate(&mut self) {
        let n = self.n;
        let trace: f32 = self.average.iter().step_by(n + 1).sum();
        // Before the first gradient there is nothing to learn from.
        if !(trace > 0.0) {
            return;
        }
        let mut next = self.vectors.clone();
        let ridge = Product { factor: 1.0, keep: RIDGE * trace / n as f32 };
        ridge.write(&self.vectors, [n, n], plain(&self.average, n), &mut next);
        orthonormalise(&mut next, n);
        self.vectors = next;
    }
}

/// Makes the rows of `v` orthonormal, in order: block Gram–Schmidt, twice, so that nearly dependent
/// rows end up orthogonal too.
pub fn orthonormalise(v: &mut [f32], n: usize) {
    let mut coefficients = vec![0.0; VECTOR_BLOCK * n];
    for first in (0..n).step_by(VECTOR_BLOCK) {
        let count = VECTOR_BLOCK.min(n - first);
        let (done, rest) = v.split_at_mut(first * n);
        let block = &mut rest[..count * n];
        for row in block.chunks_exact_mut(n) {
            normalise(row);
        }
        for _ in 0..2 {
            if first > 0 {
                let overlaps = &mut coefficients[..count * first];
                Product::WHOLE.write(block, [count, n], transposed(done, n), overlaps);
                let minus = Product { factor: -1.0, keep: 1.0 };
                minus.write(overlaps, [count, first], plain(done, n), block);
            }
            for i in 0..count {
                let (before, from) = block.split_at_mut(i * n);
                let row = &mut from[..n];
                for earlier in before.chunks_exact(n) {
                    let overlap = dot(earlier, row);
                    row.iter_mut().zip(earlier).for_each(|(x, y)| *x -= overlap * y);
                }
                normalise(row);
            }
        }
    }
}

fn normalise(row: &mut [f32]) {
    // By the largest entry first: squares of small ones would vanish.
    let largest = row.iter().fold(0.0f32, |a, b| a.max(b.abs()));
    if largest > 0.0 {
        for x in row.iter_mut() {
            *x /= largest;
        }
        let factor = dot(row, row).sqrt().recip();
        for x in row.iter_mut() {
            *x *= factor;
        }
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let (a, a_rest) = a.as_chunks::<16>();
    let (b, b_rest) = b.as_chunks::<16>();
    let mut sums = [0.0f32; 16];
    for (a, b) in a.iter().zip(b) {
        for l in 0..16 {
            sums[l] += a[l] * b[l];
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

/// A matrix as it is stored, or transposed, with the strides of its rows and columns.
#[derive(Clone, Copy)]
struct Operand<'a> {
    values: &'a [f32],
    strides: [usize; 2],
}

/// The matrix with this many stored columns.
fn plain(values: &[f32], columns: usize) -> Operand<'_> {
    Operand { values, strides: [columns, 1] }
}

/// The transpose of the matrix with this many stored columns.
fn transposed(values: &[f32], columns: usize) -> Operand<'_> {
    Operand { values, strides: [1, columns] }
}

/// C ← factor·A B + keep·C.
#[derive(Clone, Copy)]
struct Product {
    factor: f32,
    keep: f32,
}

impl Product {
    const WHOLE: Self = Self { factor: 1.0, keep: 0.0 };

    /// With A of this shape as it is stored.
    fn write(self, a: &[f32], shape: [usize; 2], b: Operand<'_>, c: &mut [f32]) {
        self.write_of(plain(a, shape[1]), shape, b, c);
    }

    fn write_of(self, a: Operand<'_>, [m, k]: [usize; 2], b: Operand<'_>, c: &mut [f32]) {
        let n = c.len() / m;
        assert_eq!((a.values.len(), b.values.len(), c.len()), (m * k, k * n, m * n));
        let [a_rows, a_columns] = a.strides.map(|stride| stride as isize);
        let [b_rows, b_columns] = b.strides.map(|stride| stride as isize);
        // SAFETY: by the lengths above, and since strides are those of a stored matrix or of its
        // transpose, all three are read and written within their slices.
        #[allow(unsafe_code)]
        unsafe {
            matrixmultiply::sgemm(
                m,
                k,
                n,
                self.factor,
                a.values.as_ptr(),
                a_rows,
                a_columns,
                b.values.as_ptr(),
                b_rows,
                b_columns,
                self.keep,
                c.as_mut_ptr(),
                n as isize,
                1,
            );
        }
    }
}
