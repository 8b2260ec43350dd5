//! Weights by expectation–maximisation on given log-likelihoods of every point under every
//! component.

/// When the iteration stops.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    pub(super) iterations: usize,
    /// Gain in nats per point below which it has converged.
    pub(super) gain: f64,
}

/// Weights, with the objective after every iteration.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub(super) weights: Vec<f64>,
    pub(super) trace: Vec<f64>,
}

/// Weights of the `components` columns of `log_likelihoods` (n rows). The first component has one
/// pseudo-observation: a point anywhere then has a finite log-density, at a price of about
/// log(n)/n. The objective, mean log-likelihood plus log(w₀)/n, rises with every iteration.
pub(super) fn fit(log_likelihoods: &[f64], components: usize, stop: Stop) -> Fit {
    let n = (log_likelihoods.len() / components) as f64;
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
        expected.fill(0.0);
        expected[0] = 1.0;
        let mut total = offset + weights[0].ln();
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
            *weight = expected / (n + 1.0);
        }
    }
}
