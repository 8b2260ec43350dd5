//! Map projections of the unit sphere, each with its inverse.
//!
//! Angles in radians, longitudes relative to the central meridian in [−π, π]. Formulas: J. P.
//! Snyder, *Map Projections: A Working Manual* (USGS Professional Paper 1395, 1987); Robinson's
//! table as published by him in 1974.

use std::f64::consts::{FRAC_PI_2, PI, SQRT_2};
use std::fmt;
use std::str::FromStr;

use crate::error::PlotError;

/// How the sphere is laid flat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projection {
    /// Equal areas, an ellipse.
    Mollweide,
    /// A compromise of areas and shapes, by a table.
    Robinson,
    /// Longitude and latitude as they are.
    Equirectangular,
    /// Two hemispheres side by side as seen from far away, the right one centred opposite.
    Orthographic,
}

/// Names that [`Projection`] is parsed from.
const NAMES: &str = "mollweide, robinson, equirectangular, orthographic";

impl FromStr for Projection {
    type Err = PlotError;

    fn from_str(name: &str) -> Result<Self, PlotError> {
        match name {
            "mollweide" => Ok(Self::Mollweide),
            "robinson" => Ok(Self::Robinson),
            "equirectangular" => Ok(Self::Equirectangular),
            "orthographic" => Ok(Self::Orthographic),
            _ => Err(PlotError::UnknownName {
                what: "projection",
                name: name.to_string(),
                allowed: NAMES,
            }),
        }
    }
}

impl fmt::Display for Projection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mollweide => "mollweide",
            Self::Robinson => "robinson",
            Self::Equirectangular => "equirectangular",
            Self::Orthographic => "orthographic",
        })
    }
}

/// Lengths of parallels and their distances from the equator every 5°, both relative to the
/// equator's values.
const ROBINSON: [[f64; 2]; 19] = [
    [1.0000, 0.0000],
    [0.9986, 0.0620],
    [0.9954, 0.1240],
    [0.9900, 0.1860],
    [0.9822, 0.2480],
    [0.9730, 0.3100],
    [0.9600, 0.3720],
    [0.9427, 0.4340],
    [0.9216, 0.4958],
    [0.8962, 0.5571],
    [0.8679, 0.6176],
    [0.8350, 0.6769],
    [0.7986, 0.7346],
    [0.7597, 0.7903],
    [0.7186, 0.8435],
    [0.6732, 0.8936],
    [0.6213, 0.9394],
    [0.5722, 0.9761],
    [0.5322, 1.0000],
];
const ROBINSON_X: f64 = 0.8487;
const ROBINSON_Y: f64 = 1.3523;
/// Distance between the centres of the two hemispheres.
const APART: f64 = 2.08;

impl Projection {
    /// The point of the plane for a longitude and latitude.
    pub fn forward(self, lon: f64, lat: f64) -> [f64; 2] {
        match self {
            Self::Mollweide => {
                let theta = mollweide_angle(lat);
                [2.0 * SQRT_2 / PI * lon * theta.cos(), SQRT_2 * theta.sin()]
            }
            Self::Robinson => {
                let [length, height] = robinson(lat.abs());
                [ROBINSON_X * length * lon, ROBINSON_Y * height * lat.signum()]
            }
            Self::Equirectangular => [lon, lat],
            Self::Orthographic => {
                let (side, lon) = hemisphere(lon);
                [lat.cos() * lon.sin() + side * APART / 2.0, lat.sin()]
            }
        }
    }

    /// Longitude and latitude of a point of the plane, if it is on the map.
    pub fn inverse(self, [x, y]: [f64; 2]) -> Option<(f64, f64)> {
        let (lon, lat) = match self {
            Self::Mollweide => {
                let sine = y / SQRT_2;
                if !(sine.abs() <= 1.0) {
                    return None;
                }
                let theta = sine.asin();
                let lat = ((2.0 * theta + (2.0 * theta).sin()) / PI).clamp(-1.0, 1.0).asin();
                (divide(x * PI, 2.0 * SQRT_2 * theta.cos())?, lat)
            }
            Self::Robinson => {
                let height = y.abs() / ROBINSON_Y;
                if !(height <= 1.0) {
                    return None;
                }
                let lat = robinson_latitude(height);
                (x / (ROBINSON_X * robinson(lat)[0]), lat * y.signum())
            }
            Self::Equirectangular => (x, y),
            Self::Orthographic => {
                let side = if x < 0.0 { -1.0 } else { 1.0 };
                let x = x - side * APART / 2.0;
                if !(x * x + y * y <= 1.0) {
                    return None;
                }
                let lon = x.atan2((1.0 - x * x - y * y).sqrt());
                let lon = if side < 0.0 { lon } else { wrap(lon + PI) };
                (lon, y.asin())
            }
        };
        (lon.abs() <= PI && lat.abs() <= FRAC_PI_2).then_some((lon, lat))
    }

    /// Half the width and half the height of the map.
    pub fn extent(self) -> [f64; 2] {
        match self {
            Self::Mollweide => [2.0 * SQRT_2, SQRT_2],
            Self::Robinson => [ROBINSON_X * PI, ROBINSON_Y],
            Self::Equirectangular => [PI, FRAC_PI_2],
            Self::Orthographic => [1.0 + APART / 2.0, 1.0],
        }
    }

    /// The rim of the map, as closed lines.
    pub fn outline(self) -> Vec<Vec<[f64; 2]>> {
        let steps = 90;
        if self == Self::Orthographic {
            let circle = |side: f64| {
                (0..2 * steps)
                    .map(|i| {
                        let angle = PI * f64::from(i) / f64::from(steps);
                        [side * APART / 2.0 + angle.cos(), angle.sin()]
                    })
                    .collect()
            };
            return vec![circle(-1.0), circle(1.0)];
        }
        let lat = |i: i32| PI * (f64::from(i) / f64::from(steps) - 0.5);
        let right = (0..=steps).map(|i| self.forward(PI, lat(i)));
        let left = (0..=steps).rev().map(|i| self.forward(-PI, lat(i)));
        vec![right.chain(left).collect()]
    }

    /// Whether a line between two near points leaves the map on one side and comes back on the
    /// other.
    pub fn breaks(self, lon_a: f64, lon_b: f64) -> bool {
        match self {
            Self::Orthographic => (lon_a.abs() > FRAC_PI_2) != (lon_b.abs() > FRAC_PI_2),
            _ => (lon_a - lon_b).abs() > PI,
        }
    }
}

/// A longitude brought into [−π, π).
pub(crate) fn wrap(lon: f64) -> f64 {
    (lon + PI).rem_euclid(2.0 * PI) - PI
}

fn divide(a: f64, b: f64) -> Option<f64> {
    if b.abs() > 1e-12 { Some(a / b) } else { (a.abs() < 1e-9).then_some(0.0) }
}

/// −1 and the longitude for the near hemisphere, +1 and the longitude seen from behind for the far
/// one.
fn hemisphere(lon: f64) -> (f64, f64) {
    if lon.abs() <= FRAC_PI_2 { (-1.0, lon) } else { (1.0, wrap(lon + PI)) }
}

/// θ with 2θ + sin 2θ = π sin φ, by bisection-guarded Newton steps.
fn mollweide_angle(lat: f64) -> f64 {
    let target = PI * lat.sin();
    let (mut low, mut high) = (-FRAC_PI_2, FRAC_PI_2);
    let mut theta = lat;
    for _ in 0..100 {
        let value = 2.0 * theta + (2.0 * theta).sin() - target;
        if value > 0.0 {
            high = theta;
        } else {
            low = theta;
        }
        let newton = theta - value / (2.0 + 2.0 * (2.0 * theta).cos());
        let next = if newton > low && newton < high { newton } else { 0.5 * (low + high) };
        let done = (next - theta).abs() < 1e-15;
        theta = next;
        if done {
            break;
        }
    }
    theta
}

/// The table between its entries: cubic, through the two neighbours with central slopes.
fn robinson(lat: f64) -> [f64; 2] {
    let last = ROBINSON.len() - 1;
    let position = (lat.to_degrees() / 5.0).clamp(0.0, last as f64);
    let i = (position.floor() as usize).min(last - 1);
    let t = position - i as f64;
    std::array::from_fn(|k| {
        // Beyond the equator lengths are even and heights odd; beyond the pole a parabola goes on.
        let before = match (i, k) {
            (0, 0) => ROBINSON[1][0],
            (0, _) => -ROBINSON[1][1],
            _ => ROBINSON[i - 1][k],
        };
        let (a, b) = (ROBINSON[i][k], ROBINSON[i + 1][k]);
        let after = if i + 2 <= last { ROBINSON[i + 2][k] } else { 3.0 * (b - a) + before };
        let (slope_a, slope_b) = (0.5 * (b - before), 0.5 * (after - a));
        let (t2, t3) = (t * t, t * t * t);
        (2.0 * t3 - 3.0 * t2 + 1.0) * a
            + (t3 - 2.0 * t2 + t) * slope_a
            + (3.0 * t2 - 2.0 * t3) * b
            + (t3 - t2) * slope_b
    })
}

fn robinson_latitude(height: f64) -> f64 {
    let (mut low, mut high) = (0.0, FRAC_PI_2);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if robinson(middle)[1] < height {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}
