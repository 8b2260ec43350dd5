//! Orders of the schemes measured as slopes, the adaptive solvers, and their refusals.

use std::sync::Arc;

use crate::common::log_log_slope;
use manifusion::brownian::{BrownianTree, Clock, Dyadic};
use manifusion::error::{PointError, SolveError};
use manifusion::manifold::{Manifold, Sphere, parse};
use manifusion::ode::{self, BS3, DOPRI5, OdeOptions, OdeSystem, Tableau};
use manifusion::prior::default_prior;
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};
use manifusion::sde::{
    AdaptiveOptions, AtMinStep, EulerMaruyama, Heun, NoDrift, PriorDrift, Stepper,
    integrate_adaptive,
};

fn tree(seed: u64, t1: f64, dim: usize) -> BrownianTree {
    BrownianTree::new(Streams::new(seed, "tree"), Clock::Linear { t0: 0.0, t1 }, dim)
}

/// All rows from 0 to the end of the clock in 2^level equal steps along the tree's paths.
fn run_on_tree(stepper: &mut dyn Stepper, tree: &BrownianTree, level: u32, x: &mut [f64]) {
    let n = x.len() / stepper.width();
    let m = stepper.noise_dim();
    let rows: Vec<usize> = (0..n).collect();
    let (mut db, mut halves) = (vec![0.0; n * m], vec![0.0; 2 * m]);
    for index in 0..1u64 << level {
        let at = Dyadic { level, index };
        let (t, dt) = tree.interval(at);
        for (row, db) in db.chunks_exact_mut(m).enumerate() {
            tree.increments(row as u64, at, db, &mut halves);
        }
        stepper.step(&rows, &vec![t; n], &vec![dt; n], &db, x).unwrap();
    }
}

/// Root mean square distance between solutions at `level` and at `finest` along the same paths.
fn strong_errors<'a>(
    make: &mut dyn FnMut() -> Box<dyn Stepper + 'a>,
    start: &[f64],
    n: usize,
    levels: &[u32],
    finest: u32,
) -> Vec<(f64, f64)> {
    let tree = tree(1, 1.0, start.len());
    let solve = |stepper: &mut dyn Stepper, level| {
        let mut x = start.repeat(n);
        run_on_tree(stepper, &tree, level, &mut x);
        x
    };
    let reference = solve(make().as_mut(), finest);
    levels
        .iter()
        .map(|&level| {
            let x = solve(make().as_mut(), level);
            let sum: f64 = x.iter().zip(&reference).map(|(a, b)| (a - b).powi(2)).sum();
            (0.5f64.powi(level as i32), (sum / n as f64).sqrt())
        })
        .collect()
}

/// Non-commutative noise: strong order ½ for both schemes; measured between 0.4 and 0.75. Both
/// reach the same limit.
#[test]
fn strong_orders() {
    let sphere = Sphere::new(2).unwrap();
    let start = [0.6, 0.0, 0.8];
    let levels = [4, 5, 6, 7];
    let heun =
        strong_errors(&mut || Box::new(Heun::new(&sphere, NoDrift, 1.0)), &start, 200, &levels, 11);
    let order = log_log_slope(&heun);
    assert!((0.4..0.8).contains(&order), "Heun: strong order {order}, {heun:?}");
    let euler = strong_errors(
        &mut || Box::new(EulerMaruyama::new(&sphere, NoDrift, 1.0)),
        &start,
        200,
        &levels,
        11,
    );
    let order = log_log_slope(&euler);
    assert!((0.4..0.8).contains(&order), "Euler–Maruyama: strong order {order}, {euler:?}");

    let tree = tree(2, 1.0, 3);
    let (mut a, mut b) = (start.repeat(200), start.repeat(200));
    run_on_tree(&mut Heun::new(&sphere, NoDrift, 1.0), &tree, 11, &mut a);
    run_on_tree(&mut EulerMaruyama::new(&sphere, NoDrift, 1.0), &tree, 11, &mut b);
    let gap = (a.iter().zip(&b).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 200.0).sqrt();
    assert!(gap < 0.05, "Heun and Euler–Maruyama have different limits: {gap}");
}

/// With additive noise (ℝ^d, Ornstein–Uhlenbeck) Heun has strong order 1 at least.
#[test]
fn strong_order_one_for_additive_noise() {
    let space = parse("euclidean:2").unwrap();
    let prior = default_prior(&space).unwrap();
    let errors = strong_errors(
        &mut || Box::new(Heun::new(space.as_ref(), PriorDrift(prior.as_ref()), 1.0)),
        &[1.5, -0.5],
        200,
        &[3, 4, 5, 6],
        11,
    );
    let order = log_log_slope(&errors);
    assert!((0.9..2.2).contains(&order), "{order}, {errors:?}");
}

/// Weak order 1 of both schemes on S²: the error of one step in E⟨Y_0, Y_Δ⟩ = e^{−Δ}, free of
/// statistical error by quadrature over the increment (a fine trapezoid rule, exponentially
/// accurate for a Gaussian), is of order Δ².
#[test]
fn weak_orders() {
    let sphere = Sphere::new(2).unwrap();
    let start = [0.6, 0.0, 0.8];
    let axis: Vec<f64> = (-20..=20).map(|i| 0.35 * f64::from(i)).collect();
    let mut nodes = Vec::new();
    for &a in &axis {
        for &b in &axis {
            nodes.extend(axis.iter().map(|&c| [a, b, c]));
        }
    }
    let weights: Vec<f64> =
        nodes.iter().map(|z| (-0.5 * (z[0] * z[0] + z[1] * z[1] + z[2] * z[2])).exp()).collect();
    let total: f64 = weights.iter().sum();
    let rows: Vec<usize> = (0..nodes.len()).collect();
    for (name, stepper) in [
        ("Heun", &mut Heun::new(&sphere, NoDrift, 1.0) as &mut dyn Stepper),
        ("Euler–Maruyama", &mut EulerMaruyama::new(&sphere, NoDrift, 1.0)),
    ] {
        let errors: Vec<(f64, f64)> = [0.008, 0.004, 0.002]
            .into_iter()
            .map(|dt: f64| {
                let db: Vec<f64> = nodes.iter().flatten().map(|z| dt.sqrt() * z).collect();
                let mut x = start.repeat(nodes.len());
                stepper
                    .step(&rows, &vec![0.0; nodes.len()], &vec![dt; nodes.len()], &db, &mut x)
                    .unwrap();
                let cosines = x.chunks_exact(3).map(|x| 0.6 * x[0] + 0.8 * x[2]);
                let mean = cosines.zip(&weights).map(|(c, w)| c * w).sum::<f64>() / total;
                (dt, (mean - (-dt).exp()).abs())
            })
            .collect();
        let order = log_log_slope(&errors);
        assert!((1.9..2.2).contains(&order), "{name}: local weak order {order}, {errors:?}");
    }
}

/// What maths says of Euler–Maruyama on H²: with ½H explicit the stationary E|y|² is d = 2.
#[test]
fn euler_maruyama_on_the_hyperboloid_has_the_right_law() {
    let manifold = parse("hyperbolic:2").unwrap();
    let prior = default_prior(&manifold).unwrap();
    let n = 20_000;
    let streams = Streams::new(4, "em");
    let mut x = vec![0.0; n * 3];
    for (i, x) in x.chunks_exact_mut(3).enumerate() {
        prior.sample(&mut streams.stream(i as u64, 0), x).unwrap();
    }
    let mut stepper = EulerMaruyama::new(manifold.as_ref(), PriorDrift(prior.as_ref()), 1.0);
    let (t0, t1) = (vec![0.0; n], vec![3.0; n]);
    manifusion::sde::integrate_fixed(&mut stepper, &streams.part(1), 0, &t0, &t1, 600, &mut x)
        .unwrap();
    let (mean, se) = crate::common::mean_se(x.chunks_exact(3).map(|x| x[1] * x[1] + x[2] * x[2]));
    assert!((mean - 2.0).abs() < 4.0 * se + 0.03, "E|y|² = {mean} ± {se}");
}

/// Increments of the tree: halves add up to the whole, variances are right on both clocks, and a
/// level's increments do not depend on how they are reached.
#[test]
fn the_brownian_tree_is_one_path() {
    for clock in [Clock::Linear { t0: 0.5, t1: 3.0 }, Clock::Log { t0: 1e-3, t1: 2.0 }] {
        let tree = BrownianTree::new(Streams::new(5, "tree"), clock, 2);
        let (mut db, mut halves) = (vec![0.0; 2], vec![0.0; 4]);
        let (mut child, mut rest) = (vec![0.0; 2], vec![0.0; 4]);
        for (level, index) in [(0, 0), (1, 1), (5, 17), (12, 4000)] {
            let at = Dyadic { level, index };
            tree.increments(7, at, &mut db, &mut halves);
            for side in 0..2u64 {
                let half = Dyadic { level: level + 1, index: 2 * index + side };
                tree.increments(7, half, &mut child, &mut rest);
                let expected = &halves[2 * side as usize..][..2];
                for j in 0..2 {
                    assert!((child[j] - expected[j]).abs() < 1e-12);
                }
            }
            for j in 0..2 {
                assert!((halves[j] + halves[2 + j] - db[j]).abs() < 1e-12);
            }
        }
        let at = Dyadic { level: 3, index: 5 };
        let (_, dt) = tree.interval(at);
        let n = 20_000;
        let squares = (0..n).map(|row| {
            let (mut db, mut halves) = ([0.0; 2], [0.0; 4]);
            tree.increments(row, at, &mut db, &mut halves);
            (db[0] * db[0] + db[1] * db[1]) / 2.0
        });
        let (mean, se) = crate::common::mean_se(squares.collect::<Vec<_>>().into_iter());
        assert!((mean - dt).abs() < 4.0 * se, "{clock:?}: variance {mean}, {dt}");
    }
}

/// Smaller tolerances bring the adaptive solution to the fine one on the same path; the error falls
/// with the tolerance.
#[test]
fn adaptive_solutions_converge_to_the_path() {
    let sphere = Sphere::new(2).unwrap();
    let (start, n) = ([0.6, 0.0, 0.8], 50);
    let tree = tree(6, 1.0, 3);
    let mut fine = start.repeat(n);
    run_on_tree(&mut Heun::new(&sphere, NoDrift, 1.0), &tree, 13, &mut fine);
    let mut errors = Vec::new();
    let mut work = Vec::new();
    for tolerance in [3e-2, 3e-3, 3e-4] {
        let options = AdaptiveOptions {
            rtol: tolerance,
            atol: tolerance,
            min_step: 1e-7,
            at_min_step: AtMinStep::Accept,
            ..Default::default()
        };
        let mut x = start.repeat(n);
        let mut stepper = Heun::new(&sphere, NoDrift, 1.0);
        let stats = integrate_adaptive(&mut stepper, &tree, 0, &options, &mut x, None).unwrap();
        let sum: f64 = x.iter().zip(&fine).map(|(a, b)| (a - b).powi(2)).sum();
        errors.push((sum / n as f64).sqrt());
        work.push(stats.accepted);
        assert!(stats.rejected > 0, "step doubling never rejected at {tolerance}");
    }
    assert!(errors[1] < 0.5 * errors[0] && errors[2] < 0.5 * errors[1], "{errors:?}");
    // Strong order ½: a hundredth of the tolerance is a tenth of the error.
    assert!(errors[2] < 0.03 && work[0] < work[1] && work[1] < work[2], "{errors:?} {work:?}");
}

/// A row's adaptive solution does not depend on the rows beside it.
#[test]
fn adaptive_rows_are_independent() {
    let manifold = parse("hyperbolic:2").unwrap();
    let prior = default_prior(&manifold).unwrap();
    let start =
        manifusion::check::sample_points(manifold.as_ref(), 6, &Streams::new(1, "start")).unwrap();
    let clock = Clock::Log { t0: 1e-4, t1: 1.0 };
    let tree = BrownianTree::new(Streams::new(7, "rows"), clock, 3);
    let options = AdaptiveOptions { at_min_step: AtMinStep::Accept, ..Default::default() };
    let mut stepper = Heun::new(manifold.as_ref(), PriorDrift(prior.as_ref()), 1.0);
    let mut all = start.clone();
    integrate_adaptive(&mut stepper, &tree, 0, &options, &mut all, None).unwrap();
    for row in 0..6 {
        let mut one = start[3 * row..3 * row + 3].to_vec();
        integrate_adaptive(&mut stepper, &tree, row as u64, &options, &mut one, None).unwrap();
        assert_eq!(one, all[3 * row..3 * row + 3]);
    }
}

/// dx/dt = ω × x on S², a rotation, with a third quantity that grows like t⁵.
struct Rotation {
    rate: f64,
}

impl OdeSystem for Rotation {
    fn width(&self) -> usize {
        4
    }
    fn eval(
        &mut self,
        _: &[usize],
        t: &[f64],
        y: Rows<'_>,
        mut out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        for (i, y) in y.rows().enumerate() {
            let speed = self.rate * (1.0 + t[i]);
            out.row_mut(i).copy_from_slice(&[
                -speed * y[1],
                speed * y[0],
                0.0,
                5.0 * t[i].powi(4) + y[0],
            ]);
        }
        Ok(())
    }
    fn retract(&self, y: &mut [f64]) -> Result<(), PointError> {
        let length = (y[0] * y[0] + y[1] * y[1] + y[2] * y[2]).sqrt();
        y[..3].iter_mut().for_each(|y| *y /= length);
        Ok(())
    }
}

fn exact_rotation(t: f64, rate: f64) -> [f64; 2] {
    let angle = rate * (t + 0.5 * t * t);
    [0.6 * angle.cos(), 0.6 * angle.sin()]
}

fn check_order<const S: usize>(tableau: &Tableau<S>, orders: std::ops::Range<f64>) {
    let errors: Vec<(f64, f64)> = [8, 16, 32, 64]
        .iter()
        .map(|&steps| {
            let mut y = vec![0.6, 0.0, 0.8, 0.0];
            let mut system = Rotation { rate: 2.0 };
            ode::integrate_fixed(tableau, &mut system, 0, &[0.0], &[1.0], steps, &mut y).unwrap();
            let exact = exact_rotation(1.0, 2.0);
            (1.0 / f64::from(steps as u32), (y[0] - exact[0]).hypot(y[1] - exact[1]))
        })
        .collect();
    let order = log_log_slope(&errors);
    assert!(orders.contains(&order), "{order}, {errors:?}");
    // The tableau: rows of a sum to c, and the weights of both orders to one.
    for i in 0..S {
        assert!((tableau.a[i].iter().sum::<f64>() - tableau.c[i]).abs() < 1e-14);
    }
    assert!((tableau.b.iter().sum::<f64>() - 1.0).abs() < 1e-14);
    assert!(tableau.e.iter().sum::<f64>().abs() < 1e-14);
}

#[test]
fn runge_kutta_pairs_have_their_orders() {
    check_order(&DOPRI5, 4.7..5.6);
    check_order(&BS3, 2.8..3.4);
}

/// The error follows the tolerance; rows with their own times and directions are independent of
/// each other.
#[test]
fn dopri5_meets_its_tolerance() {
    let mut last = f64::INFINITY;
    for tolerance in [1e-4, 1e-7, 1e-10] {
        let options = OdeOptions { rtol: tolerance, atol: tolerance, ..Default::default() };
        let ends = [1.0, 0.3, 2.0, 0.0];
        let mut y = [0.6, 0.0, 0.8, 0.0].repeat(4);
        let mut system = Rotation { rate: 3.0 };
        let stats =
            ode::integrate(&DOPRI5, &mut system, 0, &[0.0; 4], &ends, &options, &mut y).unwrap();
        assert!(stats.accepted > 3 && stats.evaluations > 6 * stats.accepted);
        let mut worst = 0.0f64;
        for (y, t) in y.chunks_exact(4).zip(ends) {
            let exact = exact_rotation(t, 3.0);
            worst = worst.max((y[0] - exact[0]).hypot(y[1] - exact[1]));
        }
        assert!(worst < 20.0 * tolerance && worst < last, "{tolerance}: {worst}");
        last = worst;
        let mut alone = vec![0.6, 0.0, 0.8, 0.0];
        ode::integrate(&DOPRI5, &mut system, 2, &[0.0], &[2.0], &options, &mut alone).unwrap();
        assert_eq!(alone, y[8..12]);
        // And back again.
        ode::integrate(&DOPRI5, &mut system, 2, &[2.0], &[0.0], &options, &mut alone).unwrap();
        assert!((alone[0] - 0.6).abs() < 50.0 * tolerance);
    }
}

/// dy/dt = y² blows up at t = 1; a NaN field; a field off the manifold's domain.
struct Explosion;

impl OdeSystem for Explosion {
    fn width(&self) -> usize {
        1
    }
    fn eval(
        &mut self,
        _: &[usize],
        _: &[f64],
        y: Rows<'_>,
        mut out: RowsMut<'_>,
    ) -> Result<(), SolveError> {
        for i in 0..y.len() {
            out.row_mut(i)[0] = y.row(i)[0].powi(2);
        }
        Ok(())
    }
    fn retract(&self, _: &mut [f64]) -> Result<(), PointError> {
        Ok(())
    }
}

#[test]
fn solvers_say_why_they_cannot_go_on() {
    let options = OdeOptions { max_steps: 500, ..Default::default() };
    let mut y = vec![0.1, 1.0];
    let error = ode::integrate(&DOPRI5, &mut Explosion, 0, &[0.0; 2], &[2.0; 2], &options, &mut y)
        .unwrap_err();
    assert_eq!(error.row(), Some(1), "{error}");
    assert!(
        matches!(error, SolveError::StepTooSmall { .. } | SolveError::TooManySteps { .. }),
        "{error}"
    );

    let mut y = vec![f64::NAN];
    let error =
        ode::integrate(&DOPRI5, &mut Explosion, 0, &[0.0], &[1.0], &options, &mut y).unwrap_err();
    assert_eq!(error.to_string(), "row 0 at time 0.000000e0: the initial state is NaN");

    let mut none: [f64; 0] = [];
    let error =
        ode::integrate(&DOPRI5, &mut Explosion, 0, &[], &[], &options, &mut none).unwrap_err();
    assert_eq!(error.to_string(), "the batch is empty");
    let bad = OdeOptions { rtol: 0.0, ..options };
    let error =
        ode::integrate(&DOPRI5, &mut Explosion, 0, &[0.0], &[1.0], &bad, &mut [0.1]).unwrap_err();
    assert_eq!(error.to_string(), "rtol = 0 is not allowed; it must be positive");

    // An SDE whose tolerance cannot be met with the smallest step.
    let sphere: Arc<dyn Manifold> = Arc::new(Sphere::new(2).unwrap());
    let options = AdaptiveOptions { rtol: 1e-9, atol: 1e-9, min_step: 1e-3, ..Default::default() };
    let mut x = vec![0.6, 0.0, 0.8];
    let mut stepper = Heun::new(sphere.as_ref(), NoDrift, 1.0);
    let error =
        integrate_adaptive(&mut stepper, &tree(1, 1.0, 3), 0, &options, &mut x, None).unwrap_err();
    assert!(matches!(error, SolveError::StepTooSmall { row: 0, .. }), "{error}");

    let deep = AdaptiveOptions { min_level: 42, ..Default::default() };
    let error =
        integrate_adaptive(&mut stepper, &tree(1, 1.0, 3), 0, &deep, &mut x, None).unwrap_err();
    assert_eq!(error.to_string(), "min_level = 42 is not allowed; at most 40");
    let error =
        integrate_adaptive(&mut stepper, &tree(1, 1.0, 2), 0, &options, &mut x, None).unwrap_err();
    assert_eq!(error.to_string(), "2 rows given, expected 3");

    // Steps that leave the light cone of H².
    let hyperboloid = parse("hyperbolic:2").unwrap();
    let mut x = vec![1.0, 0.0, 0.0];
    let mut stepper = Heun::new(hyperboloid.as_ref(), NoDrift, 1.0);
    let error = stepper.step(&[0], &[0.0], &[100.0], &[0.0, 30.0, 0.0], &mut x).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(
            "row 0 at time 1.000000e2: no point of hyperbolic:2 belongs to it: K<x,x>_L = -"
        ),
        "{text}"
    );
}
