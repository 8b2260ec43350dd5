//! Contours and highest-density regions on the sphere as GeoJSON (RFC 7946).
//!
//! Regions are cut at the antimeridian; one that holds a pole runs along ±90° of latitude, as the
//! standard asks of anything in longitude and latitude. Exterior rings turn counterclockwise, holes
//! clockwise.

use std::f64::consts::PI;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::contours::{self, SHARES};
use crate::error::{PlotError, Result, write_file};
use crate::grid::{Grid, Wrap};
use crate::ticks::Ticks;

type Ring = Vec<[f64; 2]>;

/// A region of highest density on the sphere.
#[derive(Clone, Debug)]
pub struct Region {
    /// Share of the mass that it holds.
    pub share: f64,
    /// log p on its boundary, per steradian.
    pub log_density: f64,
    /// Its area in steradian.
    pub area_sr: f64,
    /// Polygons in degrees of (longitude, latitude); the first ring of each is the exterior.
    pub polygons: Vec<Vec<Ring>>,
}

/// The regions that hold 50, 90 and 95 % of the mass.
pub fn highest_density_regions(grid: &Grid) -> Result<Vec<Region>> {
    if grid.wrap != Wrap::Sphere {
        return Err(PlotError::WrongManifold {
            kind: "GeoJSON".to_string(),
            needs: "sphere:2",
            manifold: format!("a grid of {} and {}", grid.x.name, grid.y.name),
        });
    }
    SHARES
        .iter()
        .zip(grid.levels(&SHARES))
        .map(|(&share, log_density)| {
            let polygons = polygons(contours::rings(grid, log_density)?);
            let area_sr = polygons.iter().flatten().map(|ring| spherical_area(ring)).sum();
            Ok(Region { share, log_density, area_sr, polygons })
        })
        .collect()
}

/// Regions and contours at round log-densities, as one feature collection.
pub fn to_geojson(grid: &Grid) -> Result<Json> {
    let mut features: Vec<Json> = highest_density_regions(grid)?
        .iter()
        .map(|region| {
            let properties = json!({
                "kind": "highest-density region",
                "share": region.share,
                "log_density": region.log_density,
                "density": region.log_density.exp(),
                "area_sr": region.area_sr,
                "area_share": region.area_sr / (4.0 * PI),
                "measure": grid.measure,
            });
            let polygons: Vec<Vec<Ring>> = region
                .polygons
                .iter()
                .map(|polygon| polygon.iter().map(|ring| rounded(ring)).collect())
                .collect();
            feature(&properties, "MultiPolygon", &json!(polygons))
        })
        .collect();
    let low = grid.levels(&[0.999])[0];
    for (level, _) in Ticks::new(low, grid.max(), 8).labels() {
        let lines: Vec<Ring> =
            contours::lines(grid, level)?.iter().map(|line| rounded(line)).collect();
        if !lines.is_empty() {
            let properties = json!({
                "kind": "contour",
                "log_density": level,
                "density": level.exp(),
                "measure": grid.measure,
            });
            features.push(feature(&properties, "MultiLineString", &json!(lines)));
        }
    }
    Ok(json!({ "type": "FeatureCollection", "features": features }))
}

/// Writes [`to_geojson`] into a file.
pub fn save_geojson(grid: &Grid, path: &Path) -> Result<()> {
    write_file(path, serde_json::to_string(&to_geojson(grid)?)?.as_bytes())
}

fn feature(properties: &Json, kind: &str, coordinates: &Json) -> Json {
    json!({
        "type": "Feature",
        "properties": properties,
        "geometry": { "type": kind, "coordinates": coordinates },
    })
}

/// Coordinates to a metre or so.
fn rounded(ring: &[[f64; 2]]) -> Ring {
    ring.iter().map(|p| p.map(|v| (v * 1e5).round() / 1e5)).collect()
}

/// Rings with the region on their right, sorted into polygons: each hole goes to the smallest
/// exterior around it.
pub fn polygons(rings: Vec<Ring>) -> Vec<Vec<Ring>> {
    let (exteriors, holes): (Vec<Ring>, Vec<Ring>) =
        rings.into_iter().partition(|ring| contours::signed_area(ring) < 0.0);
    let mut polygons: Vec<Vec<Ring>> = exteriors
        .into_iter()
        .map(|mut ring| {
            ring.reverse();
            vec![ring]
        })
        .collect();
    for mut hole in holes {
        hole.reverse();
        let owner = polygons
            .iter_mut()
            .filter(|polygon| contains(&polygon[0], &hole))
            .min_by(|a, b| contours::signed_area(&a[0]).total_cmp(&contours::signed_area(&b[0])));
        if let Some(owner) = owner {
            owner.push(hole);
        }
    }
    polygons
}

/// Whether most of the points of a ring lie inside another: rings do not cross, but may share
/// boundary points.
fn contains(outer: &[[f64; 2]], inner: &[[f64; 2]]) -> bool {
    let inside = |[x, y]: [f64; 2]| {
        let mut odd = false;
        for pair in outer.windows(2) {
            let ([ax, ay], [bx, by]) = (pair[0], pair[1]);
            if (ay > y) != (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax {
                odd = !odd;
            }
        }
        odd
    };
    2 * inner.iter().filter(|p| inside(**p)).count() > inner.len()
}

/// −∮ sin φ dλ in steradian, exact for edges that are straight in longitude and latitude; negative
/// for a hole.
pub fn spherical_area(ring: &[[f64; 2]]) -> f64 {
    -ring
        .windows(2)
        .map(|pair| {
            let [a, b] = [pair[0].map(f64::to_radians), pair[1].map(f64::to_radians)];
            let (half, middle) = (0.5 * (b[1] - a[1]), 0.5 * (a[1] + b[1]));
            // The mean of sin over the edge is sin(middle)·sin(half)/half.
            let sinc = if half.abs() < 1e-6 { 1.0 } else { half.sin() / half };
            (b[0] - a[0]) * middle.sin() * sinc
        })
        .sum::<f64>()
}
