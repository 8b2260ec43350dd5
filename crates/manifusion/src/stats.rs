//! Means with their errors.

use crate::rng::Streams;

/// A mean over independent values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// Its standard error; NaN for fewer than two values.
    pub se: f64,
    /// Number of values.
    pub n: usize,
}

/// Mean and standard error.
pub fn mean(values: &[f64]) -> Mean {
    let n = values.len();
    let value = values.iter().sum::<f64>() / n as f64;
    let square: f64 = values.iter().map(|v| (v - value).powi(2)).sum();
    let se = if n < 2 { f64::NAN } else { (square / ((n - 1) as f64 * n as f64)).sqrt() };
    Mean { value, se, n }
}

/// The middle `level` of the means of `resamples` resamplings with replacement (percentile
/// bootstrap).
pub fn bootstrap_interval(values: &[f64], level: f64, resamples: usize, seed: u64) -> (f64, f64) {
    let n = values.len();
    let streams = Streams::new(seed, "bootstrap");
    let mut means: Vec<f64> = (0..resamples.max(1))
        .map(|r| {
            let mut stream = streams.stream(r as u64, 0);
            let mut pick = || values[((stream.uniform() * n as f64) as usize).min(n - 1)];
            (0..n).map(|_| pick()).sum::<f64>() / n as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means[((share * means.len() as f64) as usize).min(means.len() - 1)];
    (at(0.5 * (1.0 - level)), at(0.5 * (1.0 + level)))
}
