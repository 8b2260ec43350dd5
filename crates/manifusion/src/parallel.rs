//! The one place where work is spread over threads: chunks of rows of a fixed size.
//!
//! Chunks do not depend on the number of threads, and random numbers depend on the row alone, so neither does any
//! result.

use rayon::prelude::*;

use crate::error::SolveError;

/// Runs `work(first_row, chunk)` on consecutive chunks of `rows_per_chunk` rows of `data` (rows of `width`). The error
/// of the lowest failing chunk is returned, with its row counted from the start of the batch.
pub fn for_each_chunk<F>(
    data: &mut [f64],
    width: usize,
    rows_per_chunk: usize,
    work: F,
) -> Result<(), SolveError>
where
    F: Fn(usize, &mut [f64]) -> Result<(), SolveError> + Sync,
{
    let run = |(index, chunk): (usize, &mut [f64])| {
        let first = index * rows_per_chunk;
        work(first, chunk).err().map(|error| error.map_row(|row| row + first))
    };
    // All chunks run, so that the reported error does not depend on timing either.
    let failures: Option<SolveError> = data
        .par_chunks_mut(rows_per_chunk * width)
        .enumerate()
        .filter_map(run)
        .reduce_with(|a, b| if a.row() <= b.row() { a } else { b });
    failures.map_or(Ok(()), Err)
}
