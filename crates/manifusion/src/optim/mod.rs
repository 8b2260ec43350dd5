//! Optimisers: Adam and AdamW, SOAP, clipping by norm, learning-rate schedules, averaged weights.
//!
//! Everything works in place on flat buffers, element by element or by a fixed tree of sums, so
//! that results do not depend on the number of threads.

mod adam;
mod ema;
mod schedule;
pub(crate) mod soap;

use pulp::{Simd, WithSimd};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::nn::{Real, Support};

pub use adam::{Adam, AdamConfig};
pub use ema::Ema;
pub use schedule::{Decay, Schedule};
pub use soap::{MatrixPlace, Soap};

/// How gradients become steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Optimiser {
    /// Adam, and AdamW with weight decay.
    Adam,
    /// Adam in the eigenbases of the gradients of each weight matrix.
    Soap,
}

/// What can go wrong in an update.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum OptimError {
    /// Buffers that do not fit.
    #[error("{found} numbers given, the optimiser has {expected}")]
    Len {
        /// Numbers given.
        found: usize,
        /// Numbers needed.
        expected: usize,
    },
    /// A setting out of its range.
    #[error("{name} = {value} is not allowed; {expected}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// The value given.
        value: f64,
        /// What is allowed.
        expected: &'static str,
    },
    /// The gradient has a NaN or is infinite.
    #[error("the gradient's norm is {norm}; try a smaller learning rate or gradient clipping")]
    NotFinite {
        /// The norm.
        norm: f64,
    },
}

/// Numbers that one task handles.
const BLOCK: usize = 1 << 14;

/// ‖g‖, summed in f64 along a fixed tree.
pub fn norm<T: Real>(g: &[T]) -> f64 {
    sum_of_squares(g).sqrt()
}

fn sum_of_squares<T: Real>(g: &[T]) -> f64 {
    if g.len() > BLOCK {
        let (left, right) = g.split_at(g.len() / 2);
        let (left, right) = rayon::join(|| sum_of_squares(left), || sum_of_squares(right));
        return left + right;
    }
    pulp::Arch::new().dispatch(Squares { g })
}

struct Squares<'a, T> {
    g: &'a [T],
}

impl<T: Real> WithSimd for Squares<'_, T> {
    type Output = f64;

    /// Eight running sums, so that the additions do not wait for each other.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) -> f64 {
        let mut sums = [0.0; 8];
        let (chunks, rest) = self.g.as_chunks::<8>();
        for chunk in chunks {
            for (sum, g) in sums.iter_mut().zip(chunk) {
                *sum += g.to_f64() * g.to_f64();
            }
        }
        sums.iter().sum::<f64>() + rest.iter().map(|g| g.to_f64() * g.to_f64()).sum::<f64>()
    }
}

/// Scales `g` so that its norm is at most `max_norm`; returns the norm before.
///
/// A gradient that is not finite is an error and stays as it is: nothing is repaired silently.
pub fn clip_norm<T: Real>(
    g: &mut [T],
    support: &Support,
    max_norm: f64,
) -> Result<f64, OptimError> {
    let tables = support.runs().flat_map(|run| &g[run]).map(|g| g.to_f64() * g.to_f64());
    let norm = (sum_of_squares(&g[..support.dense()]) + tables.sum::<f64>()).sqrt();
    if !norm.is_finite() {
        return Err(OptimError::NotFinite { norm });
    }
    if norm > max_norm {
        let factor = T::from_f64(max_norm / norm);
        let scale = |g: &mut [T]| g.iter_mut().for_each(|g| *g = *g * factor);
        for_blocks(&mut g[..support.dense()], &scale);
        support.runs().for_each(|run| scale(&mut g[run]));
    }
    Ok(norm)
}

/// Applies `f` to blocks of `values` in parallel.
fn for_blocks<T: Send>(values: &mut [T], f: &(impl Fn(&mut [T]) + Sync)) {
    if values.len() <= BLOCK {
        f(values);
        return;
    }
    let (left, right) = values.split_at_mut(values.len() / 2);
    rayon::join(|| for_blocks(left, f), || for_blocks(right, f));
}
