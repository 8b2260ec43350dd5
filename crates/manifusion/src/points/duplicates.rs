//! Which points are equal.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

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
    let mut counts: HashMap<usize, usize> = HashMap::new();
    for first in first_equal(points, width) {
        *counts.entry(first).or_default() += 1;
    }
    let rows: usize = counts.values().sum();
    DuplicateReport {
        rows,
        distinct: counts.len(),
        repeated_rows: rows - counts.len(),
        repeated_locations: counts.values().filter(|&&count| count > 1).count(),
        most: counts.values().copied().max().unwrap_or(0),
    }
}

/// For each row the first row that it is equal to (itself, if none before).
pub(super) fn first_equal(points: &[f64], width: usize) -> Vec<usize> {
    let mut seen: HashMap<Vec<i64>, usize> = HashMap::new();
    points
        .chunks_exact(width.max(1))
        .enumerate()
        .map(|(row, point)| match seen.entry(key(point)) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => *entry.insert(row),
        })
        .collect()
}

/// The coordinates as multiples of 2⁻³⁰ times the power of two above the largest; the last number
/// is that power.
fn key(point: &[f64]) -> Vec<i64> {
    let largest = point.iter().fold(1f64, |most, x| most.max(x.abs()));
    let exponent = largest.log2().floor();
    let scale = 2f64.powi(30) / exponent.exp2();
    let mut key: Vec<i64> = point.iter().map(|x| (x * scale).round() as i64).collect();
    key.push(exponent as i64);
    key
}
