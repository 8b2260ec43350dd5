//! Between a row of a file and a point of a manifold.

use std::f64::consts::TAU;

use manifusion::linalg::rotation_matrix;
use manifusion::manifold::{Family, Manifold};

use super::rotation::{
    bunge_of_quaternion, length, quaternion_of_bunge, quaternion_of_matrix, quaternion_of_rotvec,
    rotvec_of_quaternion,
};
use super::{Form, TOLERANCE};

/// Radians in files are rounded: 6.2832 is one turn.
const TURN: f64 = TAU + TOLERANCE;

/// `point ←` the point that a row describes; returns how far a rounded row was moved. An error says
/// what is wrong with the row.
pub(crate) fn to_point(
    form: Form,
    manifold: &dyn Manifold,
    row: &[f64],
    point: &mut [f64],
) -> Result<f64, String> {
    match form {
        Form::LatLon => from_geographic(row[0], row[1], point)?,
        Form::LonLat => from_geographic(row[1], row[0], point)?,
        Form::AnglesDeg => {
            within(row, 360.0, "degrees")?;
            from_angles(manifold, row.iter().map(|&angle| sin_cos_degrees(angle)), point);
        }
        Form::AnglesRad => {
            within(row, TURN, "radians")?;
            from_angles(manifold, row.iter().map(|angle| angle.sin_cos()), point);
        }
        Form::Quaternion => return from_quaternion([row[0], row[1], row[2], row[3]], point),
        Form::QuaternionXyzw => return from_quaternion([row[3], row[0], row[1], row[2]], point),
        Form::Euler => {
            within(row, 360.0, "degrees")?;
            let angles = [row[0], row[1], row[2]].map(f64::to_radians);
            point.copy_from_slice(&rotation_matrix(quaternion_of_bunge(angles)));
        }
        Form::EulerRad => {
            within(row, TURN, "radians")?;
            let angles = [row[0], row[1], row[2]];
            point.copy_from_slice(&rotation_matrix(quaternion_of_bunge(angles)));
        }
        Form::Rotvec => {
            let angle = length(row);
            if !(angle <= TURN) {
                return Err(format!("the rotation vector's length {angle} is beyond 2π radians"));
            }
            let vector = [row[0], row[1], row[2]];
            point.copy_from_slice(&rotation_matrix(quaternion_of_rotvec(vector)));
        }
        Form::Poincare => from_poincare(curvature(manifold), row, point)?,
        Form::Polar => from_polar(curvature(manifold), row[0], row[1], point)?,
        Form::Lorentz => return from_lorentz(manifold, row, point),
        Form::Xyz | Form::Matrix | Form::Ambient => return from_ambient(manifold, row, point),
    }
    // What is left is exact up to rounding; this removes the rounding.
    settle(manifold, point)?;
    Ok(0.0)
}

/// Onto the manifold: by its point map, on a hyperboloid by its height, which keeps more digits far
/// out. −0 becomes 0, so that equal points are equal bits.
fn settle(manifold: &dyn Manifold, point: &mut [f64]) -> Result<(), String> {
    if let Family::Hyperboloid { curvature, .. } = manifold.family() {
        point[0] = radius(curvature).hypot(length(&point[1..]));
    } else {
        manifold.project_point(point).map_err(|e| e.to_string())?;
    }
    for x in point {
        *x += 0.0;
    }
    Ok(())
}

/// `row ←` the point's coordinates in the form.
pub(crate) fn from_point(form: Form, manifold: &dyn Manifold, point: &[f64], row: &mut [f64]) {
    match form {
        Form::LatLon => [row[0], row[1]] = geographic(point).map(to_twelve_decimals),
        Form::LonLat => [row[1], row[0]] = geographic(point).map(to_twelve_decimals),
        Form::AnglesDeg => {
            angles(manifold, point, row);
            for angle in row.iter_mut() {
                *angle = to_twelve_decimals(angle.to_degrees());
            }
        }
        Form::AnglesRad => angles(manifold, point, row),
        Form::Quaternion => row.copy_from_slice(&quaternion_of_matrix(point)),
        Form::QuaternionXyzw => {
            let [w, x, y, z] = quaternion_of_matrix(point);
            row.copy_from_slice(&[x, y, z, w]);
        }
        Form::Euler => {
            let angles = bunge_of_quaternion(quaternion_of_matrix(point)).map(f64::to_degrees);
            row.copy_from_slice(&angles);
        }
        Form::EulerRad => row.copy_from_slice(&bunge_of_quaternion(quaternion_of_matrix(point))),
        Form::Rotvec => row.copy_from_slice(&rotvec_of_quaternion(quaternion_of_matrix(point))),
        Form::Poincare => {
            let radius = radius(curvature(manifold));
            for (u, y) in row.iter_mut().zip(&point[1..]) {
                *u = radius * y / (radius + point[0]);
            }
        }
        Form::Polar => {
            let radius = radius(curvature(manifold));
            row[0] = radius * (length(&point[1..]) / radius).asinh();
            row[1] = point[2].atan2(point[1]).rem_euclid(TAU);
        }
        Form::Xyz | Form::Matrix | Form::Lorentz | Form::Ambient => row.copy_from_slice(point),
    }
}

/// An angle in degrees to 12 decimals, as many as the way over sine and cosine leaves: 35.8142
/// comes back as 35.8142.
fn to_twelve_decimals(degrees: f64) -> f64 {
    (degrees * 1e12).round() / 1e12
}

fn within(row: &[f64], limit: f64, unit: &str) -> Result<(), String> {
    match row.iter().find(|v| !(v.abs() <= limit)) {
        Some(value) => Err(format!("the angle {value} is beyond one turn in {unit}")),
        None => Ok(()),
    }
}

/// Sine and cosine of an angle in degrees, exact at multiples of 90 and equal for 180 and −180.
pub fn sin_cos_degrees(angle: f64) -> (f64, f64) {
    let turned = angle % 360.0;
    let quarter = (turned / 90.0).round();
    let (sin, cos) = (turned - 90.0 * quarter).to_radians().sin_cos();
    match (quarter as i64).rem_euclid(4) {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

fn from_geographic(latitude: f64, longitude: f64, point: &mut [f64]) -> Result<(), String> {
    if !(latitude.abs() <= 90.0) {
        return Err(format!("latitude {latitude} is beyond ±90 degrees"));
    }
    if !(longitude.abs() <= 360.0) {
        return Err(format!("longitude {longitude} is beyond ±360 degrees"));
    }
    let (sin_lat, cos_lat) = sin_cos_degrees(latitude);
    let (sin_lon, cos_lon) = sin_cos_degrees(longitude);
    point.copy_from_slice(&[cos_lat * cos_lon, cos_lat * sin_lon, sin_lat]);
    Ok(())
}

fn geographic(point: &[f64]) -> [f64; 2] {
    let latitude = point[2].atan2(point[0].hypot(point[1])).to_degrees();
    [latitude, point[1].atan2(point[0]).to_degrees()]
}

/// (cos, sin) pairs, or the matrix of a rotation of the plane.
fn from_angles(
    manifold: &dyn Manifold,
    angles: impl Iterator<Item = (f64, f64)>,
    point: &mut [f64],
) {
    let is_matrix = matches!(manifold.family(), Family::Orthogonal { .. });
    for ((sin, cos), point) in angles.zip(point.chunks_exact_mut(if is_matrix { 4 } else { 2 })) {
        if is_matrix {
            point.copy_from_slice(&[cos, -sin, sin, cos]);
        } else {
            point.copy_from_slice(&[cos, sin]);
        }
    }
}

fn angles(manifold: &dyn Manifold, point: &[f64], row: &mut [f64]) {
    if matches!(manifold.family(), Family::Orthogonal { .. }) {
        row[0] = point[2].atan2(point[0]);
        return;
    }
    for (angle, circle) in row.iter_mut().zip(point.chunks_exact(2)) {
        *angle = circle[1].atan2(circle[0]);
    }
}

fn from_quaternion(q: [f64; 4], point: &mut [f64]) -> Result<f64, String> {
    let norm = length(&q);
    if !((norm - 1.0).abs() <= TOLERANCE) {
        return Err(format!("the quaternion's length is {norm:.6}, not 1 within {TOLERANCE}"));
    }
    point.copy_from_slice(&rotation_matrix(q.map(|v| v / norm)));
    for x in point {
        *x += 0.0;
    }
    Ok((norm - 1.0).abs())
}

/// K of a hyperboloid; only its forms ask.
fn curvature(manifold: &dyn Manifold) -> f64 {
    match manifold.family() {
        Family::Hyperboloid { curvature, .. } => curvature,
        _ => -1.0,
    }
}

/// 1/√|K|.
fn radius(curvature: f64) -> f64 {
    1.0 / (-curvature).sqrt()
}

fn from_poincare(curvature: f64, row: &[f64], point: &mut [f64]) -> Result<(), String> {
    let radius = radius(curvature);
    let norm = length(row);
    if !(norm < radius) {
        return Err(format!("the point's length {norm} is not inside the ball of radius {radius}"));
    }
    // (1 − t)(1 + t) keeps the digits of points near the boundary.
    let t = norm / radius;
    let gap = (1.0 - t) * (1.0 + t);
    point[0] = radius * (1.0 + t * t) / gap;
    for (x, u) in point[1..].iter_mut().zip(row) {
        *x = 2.0 * u / gap;
    }
    Ok(())
}

fn from_polar(curvature: f64, r: f64, theta: f64, point: &mut [f64]) -> Result<(), String> {
    if !(r >= 0.0) {
        return Err(format!("the distance {r} is negative"));
    }
    if !(theta.abs() <= TURN) {
        return Err(format!("the angle {theta} is beyond one turn in radians"));
    }
    let radius = radius(curvature);
    let far = radius * (r / radius).sinh();
    let (sin, cos) = theta.sin_cos();
    if !(far * far).is_finite() {
        return Err(format!("the distance {r} is too large for coordinates on the hyperboloid"));
    }
    point.copy_from_slice(&[radius * (r / radius).cosh(), far * cos, far * sin]);
    Ok(())
}

/// Keeps the space coordinates and recomputes x₀: far out the Lorentz norm of rounded decimals has
/// no digits left.
fn from_lorentz(manifold: &dyn Manifold, row: &[f64], point: &mut [f64]) -> Result<f64, String> {
    let radius = radius(curvature(manifold));
    let height = radius.hypot(length(&row[1..]));
    let off = (row[0] - height).abs() / height;
    if !(off <= TOLERANCE) {
        return Err(format!("x0 = {} is not {height:.6}, the height above the others", row[0]));
    }
    point.copy_from_slice(row);
    settle(manifold, point)?;
    Ok(off)
}

fn from_ambient(manifold: &dyn Manifold, row: &[f64], point: &mut [f64]) -> Result<f64, String> {
    if let Some(value) = row.iter().find(|v| !v.is_finite()) {
        return Err(format!("the coordinate {value} is not finite"));
    }
    if matches!(manifold.family(), Family::Hyperboloid { .. }) {
        return from_lorentz(manifold, row, point);
    }
    if !manifold.factors().is_empty() {
        let (mut start, mut moved) = (0, 0f64);
        for factor in manifold.factors() {
            let block = start..start + factor.ambient_dim();
            start = block.end;
            moved =
                moved.max(from_ambient(factor.as_ref(), &row[block.clone()], &mut point[block])?);
        }
        return Ok(moved);
    }
    let residual = manifold.residual(row);
    let scale = row.iter().fold(1f64, |most, v| most.max(v.abs()));
    if !(residual <= TOLERANCE * scale) {
        return Err(off_manifold(manifold, row, residual));
    }
    point.copy_from_slice(row);
    settle(manifold, point)?;
    let moved = point.iter().zip(row).map(|(x, v)| (x - v).powi(2)).sum::<f64>().sqrt();
    Ok(moved)
}

fn off_manifold(manifold: &dyn Manifold, row: &[f64], residual: f64) -> String {
    let name = manifold.name();
    match manifold.family() {
        Family::Sphere { .. } => {
            format!("the vector's length is {:.6}, not 1 within {TOLERANCE}", length(row))
        }
        Family::Orthogonal { n, special: true } if is_reflection(row, n) => {
            format!("the matrix has determinant -1, a reflection and not a point of {name}")
        }
        _ => format!("the row is off {name} by {residual:.3e}, more than {TOLERANCE}"),
    }
}

/// Whether the rows are orthonormal, so that only the determinant can be wrong.
fn is_reflection(row: &[f64], n: usize) -> bool {
    let dot = |i: usize, j: usize| -> f64 { (0..n).map(|k| row[i * n + k] * row[j * n + k]).sum() };
    (0..n)
        .all(|i| (0..n).all(|j| (dot(i, j) - f64::from(u8::from(i == j))).abs() <= 2.0 * TOLERANCE))
}
