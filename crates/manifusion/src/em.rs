//! Weights by expectation–maximisation on given log-likelihoods of every point under every
//! component.

/// When the iteration stops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) iterations: usize,
    /// Gain in nats per point below which it has converged.
    pub(crate) gain: f64,
}

/// Weights, with the objective after every iteration.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    pub(crate) weights: Vec<f64>,
    pub(crate) trace: Vec<f64>,
}

/// Weights of the columns of `log_likelihoods` (n rows), each with its number of
/// pseudo-observations. The objective, mean log-likelihood plus the pseudo-observations'
/// log-weights over n, rises with every iteration.
pub(crate) fn fit(log_likelihoods: &[f64], pseudo_observations: &[f64], stop: Stop) -> Fit {
    let components = pseudo_observations.len();
    let n = (log_likelihoods.len() / components) as f64;
    let all = n + pseudo_observations.iter().sum::<f64>();
    let mut relative = log_likelihoods.to_vec();
    let mut offset = 0.0;
    for row in relative.chunks_exact_mut(components) {
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        offset += largest;
        for l in row {
            *l = (*l - largest).exp();
        }
    }
    let mut weights = vec![1.0 / components as f64; components];
    let mut trace = Vec::new();
    let mut expected = vec![0.0; components];
    loop {
        expected.copy_from_slice(pseudo_observations);
        let mut total = offset;
        for (count, weight) in pseudo_observations.iter().zip(&weights) {
            if *count > 0.0 {
                total += count * weight.ln();
            }
        }
        for row in relative.chunks_exact(components) {
            let density = crate::linalg::dot(row, &weights);
            total += density.ln();
            let factor = 1.0 / density;
            for k in 0..components {
                expected[k] += factor * weights[k] * row[k];
            }
        }
        let objective = total / n;
        let gain = trace.last().map_or(f64::INFINITY, |last| objective - last);
        trace.push(objective);
        if gain < stop.gain || trace.len() > stop.iterations {
            return Fit { weights, trace };
        }
        for (weight, expected) in weights.iter_mut().zip(&expected) {
            *weight = expected / all;
        }
    }
}
