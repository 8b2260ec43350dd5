//! Which points are equal.

use rayon::prelude::*;

/// How many points occur more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct DuplicateReport {
    /// Points.
    pub rows: usize,
    /// Distinct locations.
    pub distinct: usize,
    /// Points that repeat an earlier one.
    pub repeated_rows: usize,
    /// Locations that occur more than once.
    pub repeated_locations: usize,
    /// Occurrences of the most frequent location.
    pub most: usize,
}

/// Counts equal points among rows of `width` coordinates.
///
/// Points are compared on the manifold, where longitudes 180 and −180 or quaternions q and −q are
/// one point already, on a grid of 2⁻³⁰ of the point's size: finer than data, coarser than the
/// rounding of a conversion.
pub fn duplicates(points: &[f64], width: usize) -> DuplicateReport {
    let first = first_equal(points, width);
    let mut counts = vec![0; first.len()];
    for &row in &first {
        counts[row] += 1;
    }
    let distinct = counts.iter().filter(|&&count| count > 0).count();
    DuplicateReport {
        rows: first.len(),
        distinct,
        repeated_rows: first.len() - distinct,
        repeated_locations: counts.iter().filter(|&&count| count > 1).count(),
        most: counts.into_iter().max().unwrap_or(0),
    }
}

/// For each row the first row that it is equal to (itself, if none before).
///
/// Rows are sorted by a digest of their places on the grid: a table of the places of millions takes
/// longer, and more memory. What has the same digest is compared.
pub(super) fn first_equal(points: &[f64], width: usize) -> Vec<usize> {
    let width = width.max(1);
    let point = |row: usize| &points[row * width..(row + 1) * width];
    let rows = points.len() / width;
    let digested = |row: usize| (place(point(row)).fold(0, mixed), row);
    let mut order: Vec<(u64, usize)> = (0..rows).into_par_iter().map(digested).collect();
    order.par_sort_unstable();
    let mut first: Vec<usize> = (0..rows).collect();
    for same in order.chunk_by(|a, b| a.0 == b.0) {
        // The rows of a digest are in order, so that the first equal one comes first.
        for (number, (_, row)) in same.iter().enumerate().skip(1) {
            let equal = |other: &&(u64, usize)| place(point(other.1)).eq(place(point(*row)));
            if let Some((_, other)) = same[..number].iter().find(equal) {
                first[*row] = *other;
            }
        }
    }
    first
}

/// The coordinates as multiples of 2⁻³⁰ times the power of two above the largest; the last number
/// is that power.
fn place(point: &[f64]) -> impl Iterator<Item = i64> {
    let largest = point.iter().fold(1f64, |most, x| most.max(x.abs()));
    let exponent = largest.log2().floor();
    let scale = 2f64.powi(30) / exponent.exp2();
    point.iter().map(move |x| (x * scale).round() as i64).chain([exponent as i64])
}

/// A digest with one more number in it (the mixing step of SplitMix64).
fn mixed(digest: u64, number: i64) -> u64 {
    let mut z = (digest ^ number.cast_unsigned()).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
