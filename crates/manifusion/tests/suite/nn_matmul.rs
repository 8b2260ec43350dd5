//! The matrix products of a layer against their definition.

use manifusion::internals::{
    GROUP, Here, LANES, Line, MultiplyPanel, On, PRODUCTS, Products, Quadrants, RowPair, Sink,
    Steps, StrassenGradient, WeightGradient, WeightPanels, panels,
};
use manifusion::nn::Real;
use manifusion::rng::Streams;

/// rows × columns numbers, row-major, and the same by panels.
fn matrix<T: Real>(seed: u64, rows: usize, columns: usize) -> (Vec<f64>, Vec<Line<T>>) {
    let mut flat = vec![0.0; rows * columns];
    Streams::new(seed, "test/kernel").fill_normal(0, 0, 0, &mut flat);
    let mut lines = vec![Line::ZERO; panels(columns) * rows];
    for r in 0..rows {
        for c in 0..columns {
            lines[c / LANES * rows + r].0[c % LANES] = T::from_f64(flat[r * columns + c]);
        }
    }
    (flat, lines)
}

/// What the kernels must give: Σ_k a[r, k]·b[k, c], entry by entry.
fn naive(a: &[f64], b: &[f64], rows: usize, depth: usize, columns: usize) -> Vec<f64> {
    let entry = |i: usize| {
        let (r, c) = (i / columns, i % columns);
        (0..depth).map(|k| a[r * depth + k] * b[k * columns + c]).sum()
    };
    (0..rows * columns).map(entry).collect()
}

/// Both kernels on one instruction set, on shapes with all kinds of remainders.
fn check<T: Steps>(products: &dyn Products<T>, tolerance: f64) {
    for (rows, depth) in [(1, 1), (5, 16), (6, 17), (7, 33), (8, 300), (13, 520), (23, 9)] {
        let columns = 13;
        let (a, a_lines) = matrix::<T>(1, rows, depth);
        let (b, b_lines) = matrix::<T>(2, depth, columns);
        let expected = naive(&a, &b, rows, depth, columns);
        let mut c = vec![Line([T::ONE; LANES]); rows];
        let sink = Sink::Set(&mut c);
        let b = &b_lines[..];
        products.multiply(MultiplyPanel { a: &a_lines, stride: rows, b, next: b, sink });
        for (i, expected) in expected.iter().enumerate() {
            let found = c[i / columns].0[i % columns].to_f64();
            let allowed = tolerance * (depth as f64).sqrt() * 4.0;
            assert!((found - expected).abs() < allowed, "{rows} {depth}: {found} {expected}");
        }
        check_gradient(products, rows, depth.min(LANES), columns, tolerance);
    }
    check_strassen_gradient(products, tolerance);
    check_sinks(products, tolerance);
}

/// Where a product of two blocks of depth goes, against [`Sink::Set`].
fn check_sinks<T: Real>(products: &dyn Products<T>, tolerance: f64) {
    let (rows, depth) = (13, 300);
    let (a, b) = (matrix::<T>(1, rows, depth).1, matrix::<T>(2, depth, LANES).1);
    let [c, d, e] = [5, 6, 7].map(|seed| matrix::<T>(seed, rows, LANES).1);
    let run = |sink: Sink<'_, T>| {
        products.multiply(MultiplyPanel { a: &a, stride: rows, b: &b, next: &[], sink });
    };
    let mut product = c.clone();
    run(Sink::Set(&mut product));
    let same = |found: &[Line<T>], base: Option<&[Line<T>]>| {
        for (i, found) in found.iter().enumerate() {
            for l in 0..LANES {
                let base = base.map_or(0.0, |base| base[i].0[l].to_f64());
                let expected = base + product[i].0[l].to_f64();
                let error = (found.0[l].to_f64() - expected).abs();
                assert!(error < 100.0 * tolerance, "row {i}, column {l}: {error}");
            }
        }
    };
    let (mut x, mut y) = (c.clone(), d.clone());
    run(Sink::Add(&mut x));
    same(&x, Some(&c));
    run(Sink::SetBoth([&mut x, &mut y]));
    same(&x, None);
    same(&y, None);
    (x, y) = (c.clone(), d.clone());
    run(Sink::AddBoth([&mut x, &mut y]));
    same(&x, Some(&c));
    same(&y, Some(&d));
    run(Sink::Onto { base: &e, to: &mut x });
    same(&x, Some(&e));
    y.clone_from(&d);
    run(Sink::OntoAndAdd { base: &e, to: &mut x, also: &mut y });
    same(&x, Some(&e));
    same(&y, Some(&d));
}

fn check_gradient<T: Real>(
    products: &dyn Products<T>,
    rows: usize,
    inputs: usize,
    columns: usize,
    tolerance: f64,
) {
    let (h, h_lines) = matrix::<T>(3, rows, inputs);
    let (z, z_lines) = matrix::<T>(4, rows, columns);
    let transposed: Vec<f64> =
        (0..inputs * rows).map(|i| h[i % rows * inputs + i / rows]).collect();
    let product = naive(&transposed, &z, inputs, rows, columns);
    for fresh in [true, false] {
        let mut g = vec![T::ONE; inputs * columns];
        let (h, z, row_len) = (&h_lines[..], &z_lines[..], columns);
        let task = WeightGradient { h, z, g: &mut g, row_len, column: 0, fresh };
        products.add_weight_gradient(task);
        for (found, product) in g.iter().zip(&product) {
            let expected = if fresh { *product } else { 1.0 + product };
            let allowed = tolerance * (rows as f64).sqrt() * 4.0;
            assert!((found.to_f64() - expected).abs() < allowed, "{found:?} {expected}");
        }
    }
}

#[test]
fn kernels_agree_with_the_definition_without_vectors() {
    check::<f32>(&On(pulp::Scalar), 1e-6);
    check::<f64>(&On(pulp::Scalar), 1e-14);
}

/// Software vectors of 16, 8, 4 and 2 numbers go through the tiles of AVX-512, AVX2 and NEON;
/// each number once, since they take minutes to compile.
#[test]
fn kernels_agree_with_the_definition_for_every_register_width() {
    check::<f32>(&On(pulp::Scalar512b), 1e-6);
    check::<f32>(&On(pulp::Scalar256b), 1e-6);
    check::<f32>(&On(pulp::Scalar128b), 1e-6);
    check::<f64>(&On(pulp::Scalar128b), 1e-14);
}

#[test]
fn kernels_agree_with_the_definition_on_this_machine() {
    check::<f32>(&Here, 1e-6);
    check::<f64>(&Here, 1e-14);
}

/// Rows of the tests' matrices; some before, between and after the paired ones.
const ROWS: usize = 60;
const PAIR: RowPair = RowPair { first: 3, second: 31, rows: 26 };

/// The numbers of the paired rows, first half above second.
fn paired(flat: &[f64], columns: usize) -> Vec<f64> {
    let rows = (PAIR.first..PAIR.first + PAIR.rows).chain(PAIR.second..PAIR.second + PAIR.rows);
    rows.flat_map(|r| &flat[r * columns..(r + 1) * columns]).copied().collect()
}

/// The sums of a matrix's quadrants in the order given by their row and column halves.
fn sums<T: Steps>(lines: &[Line<T>], columns: usize, order: [[usize; 2]; 4]) -> Vec<Line<T>> {
    let half = panels(columns) / 2;
    let mut sums = vec![Line::ZERO; 4 * half * PAIR.rows];
    let first = [PAIR.first, PAIR.second];
    let quadrant = |[row, column]: [usize; 2]| &lines[column * half * ROWS + first[row]..];
    T::quadrant_sums(order.map(quadrant), ROWS, PAIR.rows, &mut sums);
    sums
}

fn quadrants<'a, T: Real>(
    lines: &'a [Line<T>],
    columns: usize,
    sums: &'a [Line<T>],
) -> Quadrants<'a, T> {
    let half = panels(columns) / 2;
    Quadrants { lines, stride: ROWS, half, second: half, pair: PAIR, sums }
}

const IN_ROWS: [[usize; 2]; 4] = [[0, 0], [0, 1], [1, 0], [1, 1]];
const TRANSPOSED: [[usize; 2]; 4] = [[1, 0], [0, 0], [1, 1], [0, 1]];

fn check_product<T: Steps>(tolerance: f64) {
    let (depth, columns) = (2 * LANES * 9, 2 * LANES * 3);
    let (a, a_lines) = matrix::<T>(1, ROWS, depth);
    let (b, b_lines) = matrix::<T>(2, depth, columns);
    let a_sums = sums(&a_lines, depth, IN_ROWS);
    let left = quadrants(&a_lines, depth, &a_sums);
    let expected = naive(&paired(&a, depth), &b, 2 * PAIR.rows, depth, columns);
    let half = panels(columns) / 2;
    for panel in 0..half {
        let part = |panel: usize| &b_lines[panel * depth..(panel + 1) * depth];
        let (first, second) = (part(panel), part(panel + half));
        let mut b_sums = vec![Line::ZERO; 2 * depth];
        T::weight_sums(first, second, &mut b_sums);
        let right = WeightPanels { first, second, sums: &b_sums };
        let [mut c11, mut c12, mut c21, mut c22] =
            [(); 4].map(|()| vec![Line([T::ONE; LANES]); PAIR.rows]);
        for step in 0..PRODUCTS {
            T::multiply_step(step, left, right, [&mut c11, &mut c12, &mut c21, &mut c22]);
        }
        for (row, column, c) in [(0, 0, c11), (0, 1, c12), (1, 0, c21), (1, 1, c22)] {
            for r in 0..PAIR.rows {
                for l in 0..LANES {
                    let at = (row * PAIR.rows + r) * columns;
                    let expected = expected[at + (panel + column * half) * LANES + l];
                    let error = (c[r].0[l].to_f64() - expected).abs();
                    assert!(error < tolerance, "quadrant {row}{column}, row {r}: {error}");
                }
            }
        }
    }
}

#[test]
fn strassen_winograd_gives_the_product() {
    // Sums of 288 products of normal numbers: of size 17, a few roundings of partial sums.
    check_product::<f32>(2e-4);
    check_product::<f64>(4e-13);
}

/// The gradient on one instruction set.
fn check_strassen_gradient<T: Steps>(products: &dyn Products<T>, tolerance: f64) {
    // More panels of z than a group, and not a multiple of it.
    let (inputs, outputs) = (2 * LANES * 2, 2 * LANES * (GROUP + 1));
    let (h, h_lines) = matrix::<T>(3, ROWS, inputs);
    let (z, z_lines) = matrix::<T>(4, ROWS, outputs);
    let h_sums = sums(&h_lines, inputs, TRANSPOSED);
    let z_sums = sums(&z_lines, outputs, IN_ROWS);
    let (h, z) = (paired(&h, inputs), paired(&z, outputs));
    let rows = 2 * PAIR.rows;
    let turned: Vec<f64> = (0..inputs * rows).map(|i| h[i % rows * inputs + i / rows]).collect();
    let product = naive(&turned, &z, inputs, rows, outputs);
    for fresh in [true, false] {
        let mut g = vec![T::ONE; inputs * outputs];
        let task = StrassenGradient {
            h: quadrants(&h_lines, inputs, &h_sums),
            z: quadrants(&z_lines, outputs, &z_sums),
            g: g.split_at_mut(inputs / 2 * outputs).into(),
            fresh,
        };
        products.add_strassen_gradient(task);
        for (found, product) in g.iter().zip(&product) {
            let error = found.to_f64() - product - if fresh { 0.0 } else { 1.0 };
            assert!(error.abs() < 200.0 * tolerance, "{error}");
        }
    }
}
