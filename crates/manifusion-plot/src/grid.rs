//! A density on a grid: evaluated once in one batch, read by pictures, exports and the report.

use std::f64::consts::TAU;
use std::path::Path;

use manifusion::density::Density;
use manifusion::manifold::{Family, Hyperboloid, Metric};
use manifusion::rows::Rows;
use manifusion_io::{Column, FileFormat, structured_npy, table_to_bytes};

use crate::error::{PlotError, Result, write_file};
use crate::source::{Measure, Options, PictureKind, PlotSource};

/// Fewest evaluations that give a picture.
pub const MIN_EVALUATIONS: usize = 64;
/// Most evaluations of one grid.
pub const MAX_EVALUATIONS: usize = 4_000_000;
/// Least and largest √|K| r to which the hyperbolic plane is covered; a picture of the disk shows
/// nothing beyond.
const MIN_REACH: f64 = 3.0;
const MAX_REACH: f64 = 9.0;
/// Nats below the largest log-density where interpolation stops looking: −∞ cannot be interpolated.
const DEPTH: f64 = 60.0;

/// Cell centres along one coordinate.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Name with unit, such as `lon_deg`.
    pub name: String,
    /// Lower end of the first cell.
    pub start: f64,
    /// Width of a cell.
    pub step: f64,
    /// Number of cells.
    pub len: usize,
}

impl Axis {
    fn new(name: &str, start: f64, end: f64, len: usize) -> Self {
        Self { name: name.to_string(), start, step: (end - start) / len as f64, len }
    }

    /// Centre of cell `i`.
    pub fn centre(&self, i: usize) -> f64 {
        self.start + (i as f64 + 0.5) * self.step
    }

    /// Upper end of the last cell.
    pub fn end(&self) -> f64 {
        self.start + self.step * self.len as f64
    }

    /// Position counted in cells from the first centre.
    fn position(&self, value: f64) -> f64 {
        (value - self.start) / self.step - 0.5
    }
}

/// How the ends of a grid are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// Longitude is periodic; beyond a pole stands the opposite meridian.
    Sphere,
    /// Both axes are periodic.
    Torus,
    /// An angle and a distance: the angle is periodic, and across the origin stands the opposite
    /// one.
    Disk,
    /// Nothing is joined.
    None,
}

/// log p at the centres of cells, with the cells' volumes.
#[derive(Clone, Debug)]
pub struct Grid {
    /// First coordinate, running fastest.
    pub x: Axis,
    /// Second coordinate.
    pub y: Axis,
    /// How the ends are joined.
    pub wrap: Wrap,
    /// log p in nats, `y.len` rows of `x.len`.
    pub log_density: Vec<f64>,
    /// Volume of every cell, in the measure of the density.
    pub volume: Vec<f64>,
    /// What the density is per.
    pub measure: String,
    /// Largest log-density.
    max: f64,
}

fn side(evaluations: usize, per_square: f64) -> Result<usize> {
    if !(MIN_EVALUATIONS..=MAX_EVALUATIONS).contains(&evaluations) {
        let (min, max) = (MIN_EVALUATIONS, MAX_EVALUATIONS);
        return Err(PlotError::Evaluations { found: evaluations, min, max });
    }
    Ok((evaluations as f64 / per_square).sqrt().floor().max(4.0) as usize)
}

impl Grid {
    /// The density of a source on S², T², H² or ℝ².
    pub fn new(source: &PlotSource<'_>, options: &Options) -> Result<Self> {
        source.check()?;
        let (density, evaluations) = (source.density, options.evaluations);
        match source.manifold.family() {
            Family::Sphere { dim: 2 } => {
                Self::sphere(source, density, options.even_spacing, side(evaluations, 2.0)?)
            }
            Family::Torus { dim: 2 } => Self::torus(source, density, side(evaluations, 1.0)?),
            Family::Hyperboloid { dim: 2, curvature, metric } => {
                let n = side(evaluations, 3.0)?;
                Self::disk(source, density, options.measure, (curvature, metric), n)
            }
            Family::Euclidean { dim: 2 } => Self::plane(source, density, side(evaluations, 1.0)?),
            _ => Err(PlotError::WrongManifold {
                kind: "density grid".to_string(),
                needs: "sphere:2, torus:2, hyperbolic:2 or euclidean:2",
                manifold: source.manifold.name(),
            }),
        }
    }

    fn sphere(
        source: &PlotSource<'_>,
        density: &dyn Density,
        even_spacing: bool,
        n: usize,
    ) -> Result<Self> {
        let x = Axis::new("lon_deg", -180.0, 180.0, 2 * n);
        let y = Axis::new("lat_deg", -90.0, 90.0, n);
        let cell = |_: f64, lat: f64, step: f64| {
            let half = (0.5 * step).to_radians();
            step.to_radians() * 2.0 * lat.to_radians().cos() * half.sin()
        };
        let volume = cells(&x, &y).map(|(lon, lat)| cell(lon, lat, y.step)).collect();
        // Meridians meet at the poles: evenly spaced points are fewer there.
        let row = |i: usize| {
            let share = if even_spacing { y.centre(i).to_radians().cos() } else { 1.0 };
            Axis::new("", x.start, x.end(), ((x.len as f64 * share).ceil() as usize).max(8))
        };
        let rows: Vec<Axis> = (0..y.len).map(row).collect();
        let lat = |i: usize| y.centre(i);
        let points: Vec<f64> = rows
            .iter()
            .enumerate()
            .flat_map(|(i, row)| (0..row.len).flat_map(move |j| unit_vector(row.centre(j), lat(i))))
            .collect();
        let mut found = source.log_density_of(density, &points)?.into_iter();
        let mut log_density = Vec::with_capacity(x.len * y.len);
        for row in &rows {
            let values: Vec<f64> = found.by_ref().take(row.len).collect();
            log_density.extend((0..x.len).map(|i| on_circle(&values, row.position(x.centre(i)))));
        }
        Self {
            x,
            y,
            wrap: Wrap::Sphere,
            log_density,
            volume,
            measure: "per sr".to_string(),
            max: f64::NAN,
        }
        .with_mass()
    }

    fn torus(source: &PlotSource<'_>, density: &dyn Density, n: usize) -> Result<Self> {
        let name = |i| format!("{}_deg", source.axis_name(i));
        let x = Axis::new(&name(0), -180.0, 180.0, n);
        let y = Axis::new(&name(1), -180.0, 180.0, n);
        let points: Vec<f64> = cells(&x, &y)
            .flat_map(|(a, b)| {
                let (a, b) = (a.to_radians(), b.to_radians());
                [a.cos(), a.sin(), b.cos(), b.sin()]
            })
            .collect();
        let log_density = source.log_density_of(density, &points)?;
        let volume = vec![(TAU / n as f64).powi(2); n * n];
        Self {
            x,
            y,
            wrap: Wrap::Torus,
            log_density,
            volume,
            measure: "per rad²".to_string(),
            max: f64::NAN,
        }
        .with_mass()
    }

    /// Angle and distance from the origin, as far out as the points at hand reach and a little
    /// further.
    fn disk(
        source: &PlotSource<'_>,
        density: &dyn Density,
        measure: Measure,
        (curvature, metric): (f64, Metric),
        n: usize,
    ) -> Result<Self> {
        let space = Hyperboloid::new(2, curvature)
            .map_err(|_| {
                source.wrong_manifold(PictureKind::Disk, "hyperbolic:2 with a finite K < 0")
            })?
            .with_metric(metric);
        let root = (-curvature).sqrt();
        let points = [source.data, source.samples].into_iter().flatten();
        let farthest = points
            .flat_map(|rows| rows.rows())
            .map(|x| (root * x[1].hypot(x[2])).asinh())
            .fold(0.0, f64::max);
        let reach = (farthest + 1.0).clamp(MIN_REACH, MAX_REACH) / root;
        // An even number, so that every column has an opposite one.
        let x = Axis::new("theta_deg", -180.0, 180.0, (3 * n).next_multiple_of(2));
        let y = Axis::new("r", 0.0, reach, n);
        let points: Vec<f64> = cells(&x, &y)
            .flat_map(|(theta, r)| {
                let (sin, cos) = theta.to_radians().sin_cos();
                let (height, radius) = ((root * r).cosh() / root, (root * r).sinh() / root);
                [height, radius * cos, radius * sin]
            })
            .collect();
        let own = source.log_density_of(density, &points)?;
        let mut volume = Vec::with_capacity(own.len());
        let mut log_density = Vec::with_capacity(own.len());
        for (((_, r), log_p), point) in cells(&x, &y).zip(own).zip(points.chunks_exact(3)) {
            // ∫ sinh(√|K| r)/√|K| dr dθ over the cell; vol_E = vol_L·p_L/p_E.
            let half = 0.5 * root * y.step;
            let lorentz = x.step.to_radians() * 2.0 * (root * r).sinh() * half.sinh() / -curvature;
            let log_p = log_p + space.log_lorentz_over_own(point);
            let log_ratio = space.log_lorentz_over_euclid(point);
            let (log_p, cell) = match measure {
                Measure::Lorentz => (log_p, lorentz),
                Measure::Euclid => (log_p - log_ratio, lorentz * log_ratio.exp()),
            };
            log_density.push(log_p);
            volume.push(cell);
        }
        let measure = match measure {
            Measure::Lorentz => "per unit of Lorentz (hyperbolic) area",
            Measure::Euclid => "per unit of Euclidean-induced area",
        };
        Self {
            x,
            y,
            wrap: Wrap::Disk,
            log_density,
            volume,
            measure: measure.to_string(),
            max: f64::NAN,
        }
        .with_mass()
    }

    /// ℝ² around the points at hand.
    fn plane(source: &PlotSource<'_>, density: &dyn Density, n: usize) -> Result<Self> {
        let points = source.data.or(source.samples);
        let range = |k: usize| {
            let values = points.iter().flat_map(Rows::rows).map(|row| row[k]);
            let (low, high) =
                values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
            let (low, high) = if low < high { (low, high) } else { (-3.0, 3.0) };
            let room = 0.15 * (high - low);
            (low - room, high + room)
        };
        let name = |i: usize, fallback: &str| {
            source.axis_names.get(i).cloned().unwrap_or_else(|| fallback.to_string())
        };
        let ((x0, x1), (y0, y1)) = (range(0), range(1));
        let (x, y) = (Axis::new(&name(0, "x"), x0, x1, n), Axis::new(&name(1, "y"), y0, y1, n));
        let points: Vec<f64> = cells(&x, &y).flat_map(|(a, b)| [a, b]).collect();
        let log_density = source.log_density_of(density, &points)?;
        let volume = vec![x.step * y.step; n * n];
        Self {
            x,
            y,
            wrap: Wrap::None,
            log_density,
            volume,
            measure: "per unit area".to_string(),
            max: f64::NAN,
        }
        .with_mass()
    }

    /// Sets the largest value, and refuses a grid without any mass.
    fn with_mass(mut self) -> Result<Self> {
        let max = self.log_density.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if max == f64::NEG_INFINITY {
            return Err(PlotError::NoMass { points: self.log_density.len() });
        }
        self.max = max;
        Ok(self)
    }

    /// Largest log-density.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// Σ p·volume: the mass that the grid sees, near 1 when it is fine enough and covers the
    /// density.
    pub fn mass(&self) -> f64 {
        self.log_density.iter().zip(&self.volume).map(|(log_p, v)| log_p.exp() * v).sum()
    }

    /// Index of a cell, with both numbers possibly one or more outside.
    fn cell(&self, ix: i64, iy: i64) -> usize {
        let (nx, ny) = (self.x.len as i64, self.y.len as i64);
        let (ix, iy) = match self.wrap {
            Wrap::Torus => (ix.rem_euclid(nx), iy.rem_euclid(ny)),
            Wrap::None => (ix.clamp(0, nx - 1), iy.clamp(0, ny - 1)),
            Wrap::Disk if iy >= 0 => (ix.rem_euclid(nx), iy.min(ny - 1)),
            Wrap::Disk => ((ix + nx / 2).rem_euclid(nx), (-1 - iy).min(ny - 1)),
            Wrap::Sphere if iy < 0 => ((ix + nx / 2).rem_euclid(nx), (-1 - iy).min(ny - 1)),
            Wrap::Sphere if iy >= ny => ((ix + nx / 2).rem_euclid(nx), (2 * ny - 1 - iy).max(0)),
            Wrap::Sphere => (ix.rem_euclid(nx), iy),
        };
        (iy * nx + ix) as usize
    }

    /// log p between the centres, bicubic; the nearest centre's beside values more than 60 nats
    /// under the largest, −∞ among them. `None` beyond the reach of a grid of the hyperbolic plane.
    pub fn at(&self, x: f64, y: f64) -> Option<f64> {
        self.interpolate(x, y, self.max() - DEPTH)
    }

    fn interpolate(&self, x: f64, y: f64, floor: f64) -> Option<f64> {
        let (px, py) = (self.x.position(x), self.y.position(y));
        if self.wrap == Wrap::Disk && y > self.y.end() {
            return None;
        }
        let (ix, iy) = (px.floor(), py.floor());
        let (tx, ty) = (px - ix, py - iy);
        let (ix, iy) = (ix as i64, iy as i64);
        let value = |dx: i64, dy: i64| self.log_density[self.cell(ix + dx, iy + dy)];
        let corners = [value(0, 0), value(1, 0), value(0, 1), value(1, 1)];
        let weights = [(1.0 - tx) * (1.0 - ty), tx * (1.0 - ty), (1.0 - tx) * ty, tx * ty];
        let used = || corners.iter().zip(weights).filter(|(_, w)| *w > 0.0);
        if used().any(|(v, _)| *v < floor) {
            // Across the edge of the support there is nothing to interpolate.
            let nearest = used().max_by(|a, b| a.1.total_cmp(&b.1));
            return nearest.map(|(v, _)| v.max(floor));
        }
        let (wx, wy) = (cubic_weights(tx), cubic_weights(ty));
        let mut sum = 0.0;
        for (dy, wy) in (-1..).zip(wy) {
            for (dx, wx) in (-1..).zip(wx) {
                let v = value(dx, dy);
                if wx * wy != 0.0 {
                    if !(v >= floor) {
                        return Some(used().map(|(v, w)| v * w).sum());
                    }
                    sum += wx * wy * v;
                }
            }
        }
        Some(sum)
    }

    /// A function that interpolates as [`Grid::at`] does, for many points.
    pub(crate) fn sampler(&self) -> impl Fn(f64, f64) -> Option<f64> + '_ {
        let floor = self.max() - DEPTH;
        move |x, y| self.interpolate(x, y, floor)
    }

    /// log-densities above which the given shares of the mass lie: the levels of highest-density
    /// regions.
    pub fn levels(&self, shares: &[f64]) -> Vec<f64> {
        let (at, parts) = (self.sampler(), 3);
        let mut pieces: Vec<(f64, f64)> = Vec::with_capacity(self.volume.len() * parts * parts);
        for iy in 0..self.y.len {
            for ix in 0..self.x.len {
                let volume = self.volume[iy * self.x.len + ix];
                for k in 0..parts * parts {
                    let offset = |j: usize| (j as f64 + 0.5) / parts as f64 - 0.5;
                    let x = self.x.centre(ix) + offset(k % parts) * self.x.step;
                    let y = self.y.centre(iy) + offset(k / parts) * self.y.step;
                    if let Some(log_p) = at(x, y) {
                        // On the sphere a piece nearer to the pole is smaller than its cell's
                        // average, and in the disk one nearer to the origin, about in proportion to
                        // the distance.
                        let middle = self.y.centre(iy);
                        let shrink = match self.wrap {
                            Wrap::Sphere => y.to_radians().cos() / middle.to_radians().cos(),
                            Wrap::Disk => y / middle,
                            Wrap::Torus | Wrap::None => 1.0,
                        };
                        pieces.push((log_p, log_p.exp() * volume * shrink));
                    }
                }
            }
        }
        pieces.sort_by(|a, b| b.0.total_cmp(&a.0));
        let total: f64 = pieces.iter().map(|p| p.1).sum();
        // Equal values count as one: on a ring around a pole there are many.
        let mut steps: Vec<Step> = Vec::new();
        let mut before = 0.0;
        for group in pieces.chunk_by(|a, b| (a.0 - b.0).abs() < 1e-9) {
            let mass = group.iter().map(|p| p.1).sum::<f64>() / total;
            let (middle, end) = (before + 0.5 * mass, before + mass);
            steps.push(Step { level: group[0].0, middle, end });
            before = end;
        }
        shares.iter().map(|share| level_at(&steps, *share)).collect()
    }

    /// Both coordinates, log-density, density and volume of each cell.
    fn columns(&self) -> Vec<Column> {
        let (x, y) = cells(&self.x, &self.y).unzip();
        vec![
            Column::numbers(&self.x.name, x),
            Column::numbers(&self.y.name, y),
            Column::numbers("log_density", self.log_density.clone()),
            Column::numbers("density", self.log_density.iter().map(|log_p| log_p.exp()).collect()),
            Column::numbers("cell_volume", self.volume.clone()),
        ]
    }

    /// The grid as CSV: both coordinates, log-density, density and volume of each cell.
    pub fn to_csv(&self) -> Result<Vec<u8>> {
        Ok(table_to_bytes(&self.columns(), FileFormat::Csv)?)
    }

    /// The grid as a NumPy file: a structured array of `y.len` × `x.len` with the fields of the
    /// CSV.
    pub fn to_npy(&self) -> Result<Vec<u8>> {
        Ok(structured_npy(&self.columns(), (self.y.len, self.x.len))?)
    }

    /// Writes `.csv` or `.npy`, by the ending of the name.
    pub fn save(&self, path: &Path) -> Result<()> {
        match path.extension().and_then(|e| e.to_str()).map(str::to_lowercase).as_deref() {
            Some("csv") => write_file(path, &self.to_csv()?),
            Some("npy") => write_file(path, &self.to_npy()?),
            _ => Err(PlotError::Format { path: path.to_path_buf(), allowed: "FILE.csv, FILE.npy" }),
        }
    }
}

/// A value between those of equally spaced points of a circle, cubic; the nearest one beside −∞.
fn on_circle(values: &[f64], position: f64) -> f64 {
    let first = position.floor();
    let at = |k: i64| values[(first as i64 + k).rem_euclid(values.len() as i64) as usize];
    let weights = cubic_weights(position - first);
    let sum: f64 = (-1..).zip(weights).filter(|(_, w)| *w != 0.0).map(|(k, w)| w * at(k)).sum();
    if sum.is_finite() { sum } else { at(i64::from(position - first > 0.5)) }
}

fn cells<'a>(x: &'a Axis, y: &'a Axis) -> impl Iterator<Item = (f64, f64)> + 'a {
    (0..y.len).flat_map(move |iy| (0..x.len).map(move |ix| (x.centre(ix), y.centre(iy))))
}

/// Pieces of a grid at one level, with the share of the mass above the middle and above the end of
/// them.
struct Step {
    level: f64,
    middle: f64,
    end: f64,
}

/// The level at a share of the mass, from steps in falling order.
fn level_at(steps: &[Step], share: f64) -> f64 {
    let next = steps.partition_point(|step| step.middle < share);
    match (next.checked_sub(1).and_then(|i| steps.get(i)), steps.get(next)) {
        // At a jump of the density there is no level in between.
        (Some(above), Some(below)) if above.level - below.level > 1.0 => {
            if share <= above.end + 1e-12 { above.level } else { below.level }
        }
        (Some(above), Some(below)) => {
            let t = (share - above.middle) / (below.middle - above.middle);
            above.level + (below.level - above.level) * t
        }
        (Some(only), None) | (None, Some(only)) => only.level,
        (None, None) => f64::NEG_INFINITY,
    }
}

/// Weights of the four neighbours by Catmull and Rom, at `t` between the middle two.
fn cubic_weights(t: f64) -> [f64; 4] {
    let (t2, t3) = (t * t, t * t * t);
    [
        0.5 * (-t3 + 2.0 * t2 - t),
        0.5 * (3.0 * t3 - 5.0 * t2 + 2.0),
        0.5 * (-3.0 * t3 + 4.0 * t2 + t),
        0.5 * (t3 - t2),
    ]
}

/// The unit vector of a longitude and latitude in degrees.
pub(crate) fn unit_vector(lon_deg: f64, lat_deg: f64) -> [f64; 3] {
    let (lon, lat) = (lon_deg.to_radians(), lat_deg.to_radians());
    [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()]
}

/// Longitude and latitude in radians.
pub(crate) fn lon_lat(x: &[f64]) -> (f64, f64) {
    (x[1].atan2(x[0]), x[2].atan2(x[0].hypot(x[1])))
}

/// The point of the Poincaré disk below a point of the hyperboloid.
pub(crate) fn to_disk(x: &[f64], curvature: f64) -> [f64; 2] {
    let root = (-curvature).sqrt();
    let factor = root / (1.0 + root * x[0]);
    [x[1] * factor, x[2] * factor]
}
