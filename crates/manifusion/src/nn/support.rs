//! Which parameters a batch has a gradient for: of the tables of grids it meets few entries, and
//! nothing is done for the others.

use std::ops::Range;

use super::grid::FEATURES;
use super::params::ParamLayout;
use super::real::Real;

/// Entries of a table that one word of bits stands for.
pub(crate) const WORD: usize = u64::BITS as usize;

/// The parameters whose gradient can differ from zero: all before the tables of grids, and of these
/// the entries that rows of the batch have met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Support {
    dense: usize,
    met: Vec<u64>,
}

/// A gradient in the parameters' layout, zero outside its support.
#[derive(Clone, Debug)]
pub(crate) struct Gradient<T> {
    pub(crate) values: Vec<T>,
    pub(crate) support: Support,
}

impl Support {
    /// All of so many numbers.
    pub fn whole(numbers: usize) -> Self {
        Self { dense: numbers, met: Vec::new() }
    }

    fn new(layout: &ParamLayout) -> Self {
        let entries = layout.grid().len() / FEATURES;
        Self { dense: layout.len() - layout.grid().len(), met: vec![0; entries / WORD] }
    }

    /// Numbers that are always in it, the first ones.
    pub fn dense(&self) -> usize {
        self.dense
    }

    /// The places of the other numbers in it, in order.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        runs(&self.met, self.dense)
    }

    pub(crate) fn met_mut(&mut self) -> &mut [u64] {
        &mut self.met
    }
}

impl<T: Real> Gradient<T> {
    pub(crate) fn new(layout: &ParamLayout) -> Self {
        Self { values: vec![T::ZERO; layout.len()], support: Support::new(layout) }
    }

    /// Zero again.
    pub(crate) fn clear(&mut self) {
        let Self { values, support } = self;
        let (dense, tables) = values.split_at_mut(support.dense);
        dense.fill(T::ZERO);
        forget(tables, &mut support.met);
    }

    /// Takes these numbers, all of which may differ from zero.
    pub(crate) fn replace(&mut self, values: &[T]) {
        self.values.copy_from_slice(values);
        self.support.met.fill(u64::MAX);
    }

    /// Adds another gradient's part for the tables.
    pub(crate) fn add_tables(&mut self, other: &Self) {
        for run in other.support.runs() {
            for (sum, g) in self.values[run.clone()].iter_mut().zip(&other.values[run]) {
                *sum += *g;
            }
        }
        for (met, other) in self.support.met.iter_mut().zip(&other.support.met) {
            *met |= *other;
        }
    }
}

/// Zeroes the numbers of entries that were met, and forgets them.
pub(crate) fn forget<T: Real>(numbers: &mut [T], met: &mut [u64]) {
    for run in runs(met, 0) {
        numbers[run].fill(T::ZERO);
    }
    met.fill(0);
}

/// The places of the numbers of entries that were met, if the first entry's are at `first`.
fn runs(met: &[u64], first: usize) -> impl Iterator<Item = Range<usize>> {
    let of_word = move |(i, word): (usize, &u64)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let from = left.trailing_zeros();
            let length = left.checked_shr(from)?.trailing_ones();
            let rest = u64::MAX.checked_shl(from + length).unwrap_or(0);
            left &= rest;
            let at = |bit: u32| first + (i * WORD + bit as usize) * FEATURES;
            Some(at(from)..at(from + length))
        })
    };
    met.iter().enumerate().flat_map(of_word)
}
