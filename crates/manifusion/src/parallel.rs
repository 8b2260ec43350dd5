//! Work on rows, spread over threads in chunks of a fixed size. (The network engine, the optimiser
//! and the random numbers spread their own arrays, by the same rule.)
//!
//! Chunks do not depend on the number of threads, and random numbers depend on the row alone, so
//! neither does any result. The outermost loop of a [`crate::watch::Watch::stage`] counts its rows
//! there.

use rayon::prelude::*;

use crate::error::SolveError;
use crate::watch::Watch;

/// Runs `work` on a thread of the pool: for a caller outside, every parallel part of it would have
/// to wake a thread first.
pub fn in_pool<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    rayon::scope(|_| work())
}

/// Runs `work(first_row, chunk)` on consecutive chunks of `rows_per_chunk` rows of `data` (rows of
/// `width`). The error of the lowest failing chunk is returned, with its row counted from the start
/// of the batch.
pub fn for_each_chunk<F>(
    data: &mut [f64],
    width: usize,
    rows_per_chunk: usize,
    work: F,
) -> Result<(), SolveError>
where
    F: Fn(usize, &mut [f64]) -> Result<(), SolveError> + Sync,
{
    for_each_chunk_of(data, width, rows_per_chunk, &work)
}

/// What is done with a chunk of rows, whose first row is given.
type Work<'a> = dyn Fn(usize, &mut [f64]) -> Result<(), SolveError> + Sync + 'a;

/// Compiled once, and not for every loop.
fn for_each_chunk_of(
    data: &mut [f64],
    width: usize,
    rows_per_chunk: usize,
    work: &Work<'_>,
) -> Result<(), SolveError> {
    let watch = Watch::take();
    watch.begin((data.len() / width) as u64);
    let run = |(index, chunk): (usize, &mut [f64])| {
        if watch.is_stopped() {
            return Some(SolveError::Stopped);
        }
        let first = index * rows_per_chunk;
        let rows = (chunk.len() / width) as u64;
        let failure = work(first, chunk).err().map(|error| error.map_row(|row| row + first));
        watch.advance(rows);
        failure
    };
    // All chunks run, so that the reported error does not depend on timing either.
    let failures: Option<SolveError> = data
        .par_chunks_mut(rows_per_chunk * width)
        .enumerate()
        .filter_map(run)
        .reduce_with(|a, b| if a.row() <= b.row() { a } else { b });
    failures.map_or(Ok(()), Err)
}
