//! Laws of P, π, the frame and H.

use super::Check;
use crate::error::SolveError;
use crate::linalg::{axpy, distance, dot, norm};
use crate::manifold::{Family, Manifold, Metric};
use crate::rng::Streams;

/// Rounding that is allowed in an identity between numbers of size 1.
const ROUNDING: f64 = 1e-10;

pub(super) fn check(manifold: &dyn Manifold, points: &[f64], streams: &Streams) -> Vec<Check> {
    let m = manifold.ambient_dim();
    let mut worst = Worst::default();
    let mut problem = None;
    for (i, x) in points.chunks_exact(m).enumerate() {
        projection(manifold, x, streams, i as u64, &mut worst);
        frame(manifold, x, &mut worst);
        if let Err(error) = point_map(manifold, x, streams, i as u64, &mut worst) {
            problem = Some(error);
        }
        if manifold.metric_is_induced() {
            curvature(manifold, x, &mut worst);
            if let Err(error) = acceleration(manifold, x, i, &mut worst) {
                problem = Some(error);
            }
        }
        refusals(manifold, x, &mut worst);
    }
    let mut checks = vec![
        Check::new("P P = P", worst.idempotent, ROUNDING),
        Check::new("P = P^T (ambient product)", worst.symmetric, ROUNDING),
        Check::new("tr P = d", worst.trace, ROUNDING),
        Check::new("frame orthonormal", worst.orthonormal, ROUNDING),
        Check::new("frame tangent", worst.tangent, ROUNDING),
        Check::new("residual of pi(x)", worst.residual, ROUNDING),
        Check::new("pi pi = pi", worst.idempotent_map, ROUNDING),
        Check::new("pi(x + tu) - x - tu = O(t^2): 2 - slope", worst.slope, 0.1),
        Check::new("bad points accepted", worst.accepted, 0.0),
    ];
    if manifold.metric_is_induced() {
        checks.push(Check::new("P H = 0", worst.normal, 1e-8));
        checks.push(Check::new("H against differences of P", worst.curvature, 1e-6));
        checks.push(Check::new("H against second differences of pi", worst.acceleration, 1e-5));
    }
    if let Family::Hyperboloid { dim, curvature, metric: Metric::Lorentz } = manifold.family() {
        let rate = dim as f64 * -curvature;
        let mut worst = 0.0;
        for (i, x) in points.chunks_exact(m).enumerate() {
            match laplacian_of_coordinates(manifold, x, i) {
                Ok(laplacian) => {
                    let expected: Vec<f64> = x.iter().map(|x| rate * x).collect();
                    raise(&mut worst, distance(&laplacian, &expected) / norm(&expected));
                }
                Err(error) => problem = Some(error),
            }
        }
        checks.push(Check::new("Laplacian of the coordinates: d|K| x", worst, 1e-6));
    }
    checks.extend(problem.map(|problem| Check::failed("pi could be computed", problem)));
    checks
}

/// Largest deviations so far.
#[derive(Default)]
struct Worst {
    idempotent: f64,
    symmetric: f64,
    trace: f64,
    orthonormal: f64,
    tangent: f64,
    residual: f64,
    idempotent_map: f64,
    slope: f64,
    normal: f64,
    curvature: f64,
    acceleration: f64,
    accepted: f64,
}

/// `worst ← max(worst, value)`, keeping a NaN.
fn raise(worst: &mut f64, value: f64) {
    if value > *worst || value.is_nan() {
        *worst = value;
    }
}

fn projection(manifold: &dyn Manifold, x: &[f64], streams: &Streams, row: u64, worst: &mut Worst) {
    let m = x.len();
    let (mut u, mut v) = (vec![0.0; m], vec![0.0; m]);
    streams.fill_normal(row, 1, 0, &mut u);
    streams.fill_normal(row, 2, 0, &mut v);
    let (mut pu, mut pv) = (u.clone(), v.clone());
    manifold.project_tangent(x, &mut pu);
    manifold.project_tangent(x, &mut pv);
    raise(&mut worst.symmetric, (dot(&pu, &v) - dot(&u, &pv)).abs() / (norm(&u) * norm(&v)));
    let mut ppu = pu.clone();
    manifold.project_tangent(x, &mut ppu);
    raise(&mut worst.idempotent, distance(&ppu, &pu) / norm(&u));
    let mut trace = 0.0;
    for i in 0..m {
        u.fill(0.0);
        u[i] = 1.0;
        manifold.project_tangent(x, &mut u);
        trace += u[i];
    }
    raise(&mut worst.trace, (trace - manifold.dim() as f64).abs() / manifold.dim() as f64);
}

fn frame(manifold: &dyn Manifold, x: &[f64], worst: &mut Worst) {
    let (d, m) = (manifold.dim(), x.len());
    let mut e = vec![0.0; d * m];
    manifold.frame(x, &mut e);
    for (i, a) in e.chunks_exact(m).enumerate() {
        for (j, b) in e.chunks_exact(m).enumerate() {
            let target = if i == j { 1.0 } else { 0.0 };
            raise(&mut worst.orthonormal, (dot(a, b) - target).abs());
        }
        let mut pa = a.to_vec();
        manifold.project_tangent(x, &mut pa);
        raise(&mut worst.tangent, distance(&pa, a));
    }
}

fn point_map(
    manifold: &dyn Manifold,
    x: &[f64],
    streams: &Streams,
    row: u64,
    worst: &mut Worst,
) -> Result<(), SolveError> {
    let m = x.len();
    let named = || SolveError::at(row as usize, 0.0);
    let mut noise = vec![0.0; m];
    streams.fill_normal(row, 3, 0, &mut noise);
    let size = norm(x).max(1.0);
    // Small against the radius of curvature, and smaller where π refuses.
    let mut h = vec![0.0; m];
    manifold.mean_curvature(x, &mut h);
    let mut reach = 0.01 * size / (m as f64).sqrt() / (1.0 + size * norm(&h)).sqrt();
    let mut y = x.to_vec();
    for attempt in 0.. {
        y.copy_from_slice(x);
        axpy(reach, &noise, &mut y);
        match manifold.project_point(&mut y) {
            Ok(()) => break,
            Err(error) if attempt == 8 => return Err(named()(error)),
            Err(_) => reach *= 0.25,
        }
    }
    raise(&mut worst.residual, manifold.residual(&y));
    let mut again = y.clone();
    manifold.project_point(&mut again).map_err(named())?;
    raise(&mut worst.idempotent_map, distance(&y, &again) / size);

    // Along a tangent vector π departs from the straight line at second order.
    manifold.project_tangent(x, &mut noise);
    manifold.velocity(x, &mut noise);
    let length = norm(&noise);
    let departure = |t: f64| -> Result<f64, SolveError> {
        let mut straight = x.to_vec();
        axpy(t / length, &noise, &mut straight);
        let mut mapped = straight.clone();
        manifold.project_point(&mut mapped).map_err(named())?;
        Ok(distance(&straight, &mapped))
    };
    let (long, short) = (departure(1e-2)?, departure(1e-3)?);
    // A flat direction departs by rounding only and has no slope.
    if long > 1e-9 {
        raise(&mut worst.slope, 2.0 - (long / short).log10());
    }
    Ok(())
}

fn curvature(manifold: &dyn Manifold, x: &[f64], worst: &mut Worst) {
    let m = x.len();
    let (mut h, mut by_differences) = (vec![0.0; m], vec![0.0; m]);
    manifold.mean_curvature(x, &mut h);
    crate::manifold::mean_curvature_by_differences(manifold, x, &mut by_differences);
    raise(&mut worst.curvature, distance(&h, &by_differences) / (1.0 + norm(&h)));
    let size = 1.0 + norm(&h);
    manifold.project_tangent(x, &mut h);
    raise(&mut worst.normal, norm(&h) / size);
}

/// H without P: whatever π is, t ↦ π(x + t eⱼ) is a curve on M with velocity eⱼ, so the normal
/// parts of the accelerations sum up to H.
fn acceleration(
    manifold: &dyn Manifold,
    x: &[f64],
    row: usize,
    worst: &mut Worst,
) -> Result<(), SolveError> {
    let (d, m) = (manifold.dim(), x.len());
    let (mut e, mut h) = (vec![0.0; d * m], vec![0.0; m]);
    manifold.frame(x, &mut e);
    manifold.mean_curvature(x, &mut h);
    let size = 1.0 + norm(&h);
    let step = 0.02 * (norm(x).max(1.0) / size).min(1.0);
    let mut sum = vec![0.0; m];
    for e in e.chunks_exact(m) {
        // Richardson's weights of the second differences with steps t and t/2.
        for (t, weight) in [(step, -1.0 / 3.0), (0.5 * step, 4.0 / 3.0)] {
            for t in [t, -t] {
                let mut y = x.to_vec();
                axpy(t, e, &mut y);
                manifold.project_point(&mut y).map_err(SolveError::at(row, 0.0))?;
                axpy(-1.0, x, &mut y);
                axpy(weight / (t * t), &y, &mut sum);
            }
        }
    }
    let mut tangential = sum.clone();
    manifold.project_tangent(x, &mut tangential);
    axpy(-1.0, &tangential, &mut sum);
    raise(&mut worst.acceleration, distance(&sum, &h) / size);
    Ok(())
}

/// Σⱼ (VⱼVⱼ + ⟨h, eⱼ⟩Vⱼ) x, the generator of the noise twice over: what a frame field and its
/// divergences make of the coordinates, by central differences.
fn laplacian_of_coordinates(
    manifold: &dyn Manifold,
    x: &[f64],
    row: usize,
) -> Result<Vec<f64>, SolveError> {
    let (d, m) = (manifold.dim(), x.len());
    let (mut e, mut h, mut sum) = (vec![0.0; d * m], vec![0.0; m], vec![0.0; m]);
    manifold.frame(x, &mut e);
    manifold.mean_curvature(x, &mut h);
    for e in e.chunks_exact(m) {
        let mut velocity = e.to_vec();
        manifold.velocity(x, &mut velocity);
        axpy(dot(&h, e), &velocity, &mut sum);
        let step = 1e-3 * norm(x).max(1.0) / norm(&velocity);
        for (t, weight) in [(step, 8.0), (-step, -8.0), (2.0 * step, -1.0), (-2.0 * step, 1.0)] {
            let mut y = x.to_vec();
            axpy(t, &velocity, &mut y);
            manifold.project_point(&mut y).map_err(SolveError::at(row, 0.0))?;
            let mut moved = e.to_vec();
            manifold.velocity(&y, &mut moved);
            axpy(weight / (12.0 * step), &moved, &mut sum);
        }
    }
    Ok(sum)
}

/// A NaN, a wrong width and a point moved off the manifold along a normal must be refused.
fn refusals(manifold: &dyn Manifold, x: &[f64], worst: &mut Worst) {
    let mut nan = x.to_vec();
    nan[0] = f64::NAN;
    let wide = [x, &[0.0]].concat();
    let mut off = x.to_vec();
    let mut normal = vec![0.0; x.len()];
    manifold.mean_curvature(x, &mut normal);
    let length = norm(&normal);
    if length > 1e-6 {
        axpy(0.1 * norm(x).max(1.0) / length, &normal, &mut off);
    }
    let moved = distance(&off, x) > 0.0;
    let accepted = usize::from(manifold.check_point(&nan).is_ok())
        + usize::from(manifold.check_point(&wide).is_ok())
        + usize::from(moved && manifold.check_point(&off).is_ok());
    worst.accepted += accepted as f64;
}
