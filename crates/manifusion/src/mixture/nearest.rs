//! Distances between neighbouring points, which tell how fine the data are.

use super::space::Space;
use super::tree::Tree;
use crate::linalg::distance;
use crate::rows::Rows;

/// Squared distance up to which two rows are the same point.
const COINCIDENT: f64 = 1e-24;

/// Distances in ℝᵐ (chordal ones on a sphere) of at most `limit` rows, evenly strided, to the
/// nearest row that is not the same point; ascending. Without a second point there are none.
pub fn nearest_distances(x: Rows<'_>, limit: usize) -> Vec<f64> {
    let (points, width) = (x.as_slice(), x.width());
    let tree = Tree::new(&Space::flat(width), points);
    let stride = x.len().div_ceil(limit.max(1)).max(1);
    let mut found: Vec<f64> = (0..x.len())
        .step_by(stride)
        .map(|row| tree.nearest_distinct2(points, width, row, COINCIDENT).sqrt())
        .filter(|distance| distance.is_finite())
        .collect();
    found.sort_by(f64::total_cmp);
    found
}

/// The distance in ℝᵐ of every row to its `count`-th nearest one, or to the farthest if there are
/// fewer; repeated rows count.
pub fn neighbour_distances(x: Rows<'_>, count: usize) -> Vec<f64> {
    let (points, width) = (x.as_slice(), x.width());
    let tree = Tree::new(&Space::flat(width), points);
    (0..x.len())
        .map(|row| {
            let near = tree.neighbours(points, width, row, count + 1, |_| true);
            near.into_iter().map(|j| distance(x.row(row), x.row(j))).fold(0.0, f64::max)
        })
        .collect()
}
