//! The bases of SOAP: orthonormal, those of the average, and turned into and back.

use manifusion::internals::{Matrix, Side, Turn, orthonormalise};
use manifusion::optim::MatrixPlace;

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn noise(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

#[test]
fn rows_become_orthonormal_even_when_nearly_dependent() {
    let n = 70;
    let mut v = noise(n * n, 3);
    // Row 40 is row 2 up to rounding, and rows differ in size by 1e20.
    for i in 0..n {
        v[40 * n + i] = v[2 * n + i] * (1.0 + 1e-6 * i as f32);
        v[7 * n + i] *= 1e-20;
    }
    orthonormalise(&mut v, n);
    for i in 0..n {
        for j in 0..=i {
            let expected = f32::from(u8::from(i == j));
            let found = dot(&v[i * n..(i + 1) * n], &v[j * n..(j + 1) * n]);
            assert!((found - expected).abs() < 2e-5, "{i} {j}: {found}");
        }
    }
}

#[test]
fn iterations_find_the_eigenvectors_of_the_average() {
    // A = V diag(2⁻ⁱ) Vᵀ: each iteration halves the error of every vector.
    let n = 12;
    let mut v = noise(n * n, 5);
    orthonormalise(&mut v, n);
    let mut side = Side::new(n);
    for i in 0..n {
        for j in 0..n {
            side.average[i * n + j] =
                (0..n).map(|k| 0.5f32.powi(k as i32) * v[k * n + i] * v[k * n + j]).sum();
        }
    }
    (0..40).for_each(|_| side.iterate());
    for k in 0..n {
        let along = dot(&side.vectors[k * n..(k + 1) * n], &v[k * n..(k + 1) * n]);
        assert!((along.abs() - 1.0).abs() < 1e-4, "vector {k}: {along}");
    }
}

#[test]
fn turning_back_undoes_turning() {
    let mut matrix = Matrix::new(MatrixPlace { offset: 0, shape: [40, 9] });
    for (side, seed) in matrix.sides.iter_mut().flatten().zip([1, 2]) {
        side.vectors = noise(side.n * side.n, seed);
        orthonormalise(&mut side.vectors, side.n);
    }
    let g = noise(360, 9);
    let mut turned = g.clone();
    matrix.turn(&mut turned, Turn::IntoBasis);
    // Entry (i, j) is q_iᵀ G r_j.
    let [Some(left), Some(right)] = &matrix.sides else { panic!("both sides are short") };
    let entry: f32 = (0..40)
        .map(|a| left.vectors[3 * 40 + a] * dot(&g[a * 9..(a + 1) * 9], &right.vectors[45..54]))
        .sum();
    assert!((turned[3 * 9 + 5] - entry).abs() < 1e-5);
    matrix.turn(&mut turned, Turn::Back);
    let error = turned.iter().zip(&g).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(error < 1e-5, "{error}");
}
