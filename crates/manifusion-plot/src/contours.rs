//! Isolines and highest-density regions of a grid.

use contour::ContourBuilder;

use crate::error::{PlotError, Result};
use crate::grid::{Grid, Wrap};

/// A line in the coordinates of a grid.
pub type Line = Vec<[f64; 2]>;

impl Grid {
    /// The lines log p = `level`, without the ends of the grid.
    pub fn contour_lines(&self, level: f64) -> Result<Vec<Line>> {
        lines(self, level)
    }

    /// Closed lines around {log p ≥ `level`}, which run along the ends of the grid where the region
    /// does; the region lies to the right.
    pub fn region_rings(&self, level: f64) -> Result<Vec<Line>> {
        rings(self, level)
    }
}

/// Shares of the mass that highest-density regions hold.
pub const SHARES: [f64; 3] = [0.5, 0.9, 0.95];

/// Closed lines around {log p ≥ level} in the grid's coordinates, running along its ends where the
/// region does. The region lies to the right.
pub(crate) fn rings(grid: &Grid, level: f64) -> Result<Vec<Vec<[f64; 2]>>> {
    // Nodes at the centres, between them and on the ends, so that nothing is lost at a seam.
    let (nx, ny) = (2 * grid.x.len + 1, 2 * grid.y.len + 1);
    let (hx, hy) = (0.5 * grid.x.step, 0.5 * grid.y.step);
    let values = nodes(grid, nx, ny);
    let builder = ContourBuilder::new(nx, ny, true)
        .x_origin(grid.x.start - 0.5 * hx)
        .y_origin(grid.y.start - 0.5 * hy)
        .x_step(hx)
        .y_step(hy);
    let lines = builder.lines(&values, &[level]).map_err(|e| PlotError::Raster(e.to_string()))?;
    let (x, y) = (&grid.x, &grid.y);
    let rings = lines
        .iter()
        .flat_map(|line| &line.geometry().0)
        .map(|ring| {
            // The builder closes regions half a node outside of the grid.
            let mut points: Vec<[f64; 2]> = ring
                .coords()
                .map(|p| [p.x.clamp(x.start, x.end()), p.y.clamp(y.start, y.end())])
                .collect();
            points.dedup();
            points
        })
        .filter(|ring| ring.len() >= 4 && signed_area(ring) != 0.0)
        .collect();
    Ok(rings)
}

fn nodes(grid: &Grid, nx: usize, ny: usize) -> Vec<f64> {
    let at = grid.sampler();
    let floor = grid.max() - 100.0;
    let mut values: Vec<f64> = (0..nx * ny)
        .map(|i| {
            let x = grid.x.start + 0.5 * grid.x.step * (i % nx) as f64;
            let y = grid.y.start + 0.5 * grid.y.step * (i / nx) as f64;
            at(x, y).unwrap_or(floor)
        })
        .collect();
    // A pole is one point, on whichever meridian it is reached, and so is the origin of a disk.
    let single: &[usize] = match grid.wrap {
        Wrap::Sphere => &[0, ny - 1],
        Wrap::Disk => &[0],
        Wrap::Torus | Wrap::None => &[],
    };
    for row in single {
        let row = &mut values[row * nx..(row + 1) * nx];
        let mean = row[1..].iter().sum::<f64>() / (nx - 1) as f64;
        row.fill(mean);
    }
    values
}

/// The same lines without the parts along the ends of the grid.
pub(crate) fn lines(grid: &Grid, level: f64) -> Result<Vec<Vec<[f64; 2]>>> {
    // Ends are reached by clamping, so exactly.
    let on_end = |a: [f64; 2], b: [f64; 2]| {
        let same = |k: usize, end: f64| [a[k], b[k]].iter().all(|v| v.total_cmp(&end).is_eq());
        same(0, grid.x.start)
            || same(0, grid.x.end())
            || same(1, grid.y.start)
            || same(1, grid.y.end())
    };
    let mut lines = Vec::new();
    for ring in rings(grid, level)? {
        let mut line = Vec::new();
        for pair in ring.windows(2) {
            if on_end(pair[0], pair[1]) {
                lines.push(std::mem::take(&mut line));
            } else {
                if line.is_empty() {
                    line.push(pair[0]);
                }
                line.push(pair[1]);
            }
        }
        lines.push(line);
    }
    lines.retain(|line| line.len() > 1);
    Ok(lines)
}

/// Half the shoelace sum: positive when the ring turns counterclockwise.
pub fn signed_area(ring: &[[f64; 2]]) -> f64 {
    0.5 * ring
        .iter()
        .zip(ring.iter().cycle().skip(1))
        .map(|(a, b)| a[0] * b[1] - b[0] * a[1])
        .sum::<f64>()
}
