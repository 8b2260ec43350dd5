//! Small dense linear algebra against nalgebra.

use manifusion::internals::{
    Determinant, axpy, cholesky, determinant, dot, norm, polar, rotate_columns, scale, solve,
    solve_lower, solve_lower_transposed, symmetric_eigen,
};
use manifusion::linalg::{log_sum_exp, rotation_matrix, unit_quaternion};
use nalgebra::DMatrix;
use proptest::prelude::*;

fn matrix(n: usize, k: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(-2.0..2.0f64, n * k)
}

fn check_polar(x: &[f64], n: usize, k: usize) {
    let svd = DMatrix::from_row_slice(n, k, x).svd(true, true);
    let expected = svd.u.unwrap() * svd.v_t.unwrap();
    let mut found = x.to_vec();
    polar(&mut found, n, k, Determinant::Any);
    for i in 0..n {
        for j in 0..k {
            let difference: f64 = found[i * k + j] - expected[(i, j)];
            assert!(difference.abs() < 1e-8, "({i},{j}) differs by {difference:.1e}");
        }
    }
}

proptest! {
    #[test]
    fn polar_agrees_with_nalgebra(x in matrix(4, 4), y in matrix(5, 2), t in 0.0..0.1f64) {
        let conditioned = |x: &[f64], n, k| {
            DMatrix::from_row_slice(n, k, x).singular_values().min() > 1e-4
        };
        prop_assume!(conditioned(&x, 4, 4) && conditioned(&y, 5, 2));
        check_polar(&x, 4, 4);
        check_polar(&y, 5, 2);
        // Near the manifold, where the fast iteration runs.
        let mut near = x.clone();
        polar(&mut near, 4, 4, Determinant::Any);
        axpy(t, &x, &mut near);
        check_polar(&near, 4, 4);
    }

    #[test]
    fn nearest_rotation_has_determinant_one(x in matrix(3, 3)) {
        prop_assume!(DMatrix::from_row_slice(3, 3, &x).singular_values().min() > 1e-4);
        let mut rotation = x.clone();
        polar(&mut rotation, 3, 3, Determinant::Positive);
        prop_assert!((determinant(&rotation, 3) - 1.0).abs() < 1e-10);
        // Closest: no rotation about a coordinate axis improves tr(RᵀX).
        let trace = dot(&rotation, &x);
        for axis in 0..3 {
            for angle in [-1e-3, 1e-3f64] {
                let (p, q) = ((axis + 1) % 3, (axis + 2) % 3);
                let mut turned = rotation.clone();
                rotate_columns(&mut turned, 3, p, q, angle.cos(), angle.sin());
                prop_assert!(dot(&turned, &x) <= trace + 1e-12);
            }
        }
    }

    #[test]
    fn quaternions_return_their_rotation(mut q in matrix(4, 1), half_turn: bool) {
        if half_turn {
            q[0] = 0.0;
        }
        let length = norm(&q);
        prop_assume!(length > 1e-3);
        scale(1.0 / length, &mut q);
        let found = unit_quaternion(&rotation_matrix([q[0], q[1], q[2], q[3]]));
        prop_assert!((dot(&found, &q).abs() - 1.0).abs() < 1e-14);
    }

    #[test]
    fn determinant_and_cholesky_agree_with_nalgebra(x in matrix(4, 4), b in matrix(4, 1)) {
        let m = DMatrix::from_row_slice(4, 4, &x);
        prop_assert!((determinant(&x, 4) - m.determinant()).abs() < 1e-9);
        prop_assume!(m.determinant().abs() > 1e-3);
        let (mut a, mut y) = (x.clone(), b.clone());
        prop_assert!(solve(&mut a, 4, &mut y));
        for (row, b) in x.chunks_exact(4).zip(&b) {
            prop_assert!((dot(row, &y) - b).abs() < 1e-8 * (1.0 + norm(&y)));
        }
        let spd = &m * m.transpose() + DMatrix::identity(4, 4) * 0.1;
        let mut l: Vec<f64> = spd.iter().copied().collect();
        prop_assert!(cholesky(&mut l, 4));
        let mut y = b.clone();
        solve_lower(&l, 4, &mut y);
        solve_lower_transposed(&l, 4, &mut y);
        let back = spd * DMatrix::from_column_slice(4, 1, &y);
        for i in 0..4 {
            prop_assert!((back[i] - b[i]).abs() < 1e-9);
        }
    }

    #[test]
    fn eigenvalues_agree_with_nalgebra(x in matrix(5, 5), rank in 1usize..6) {
        // Also of matrices without full rank, and of very different scales.
        let mut m = DMatrix::from_row_slice(5, 5, &x);
        for column in rank..5 {
            m.column_mut(column).fill(0.0);
        }
        for row in 0..5 {
            m.row_mut(row).scale_mut(10f64.powi(-(row as i32)));
        }
        let a = &m * m.transpose();
        let (mut work, mut axes) = (a.iter().copied().collect::<Vec<f64>>(), [0.0; 25]);
        let mut values = [0.0; 5];
        symmetric_eigen(&mut work, 5, &mut axes, &mut values);
        let axes = DMatrix::from_row_slice(5, 5, &axes);
        let size = a.norm().max(1e-300);
        let diagonal = DMatrix::from_diagonal(&values.to_vec().into());
        prop_assert!((axes.transpose() * diagonal * &axes - &a).norm() < 1e-13 * size);
        prop_assert!((&axes * axes.transpose() - DMatrix::identity(5, 5)).norm() < 1e-13);
        let mut expected: Vec<f64> = a.symmetric_eigenvalues().iter().copied().collect();
        expected.sort_by(f64::total_cmp);
        values.sort_by(f64::total_cmp);
        for (found, expected) in values.iter().zip(expected) {
            prop_assert!((found - expected).abs() < 1e-13 * size);
        }
    }
}

#[test]
fn cholesky_refuses_singular_and_nan() {
    assert!(!cholesky(&mut [1.0, 1.0, 1.0, 1.0], 2));
    assert!(!cholesky(&mut [f64::NAN], 1));
}

#[test]
fn log_sum_exp_survives_large_values() {
    assert!((log_sum_exp(&[1000.0, 1000.0]) - (1000.0 + 2f64.ln())).abs() < 1e-12);
    assert!(log_sum_exp(&[f64::NEG_INFINITY]).is_infinite());
}
