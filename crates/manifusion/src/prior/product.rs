//! The prior of a product: each factor on its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Langevin, Prior};
use crate::error::PointError;
use crate::rng::Stream;

/// Independent priors on consecutive blocks of coordinates.
#[derive(Clone, Debug)]
pub struct ProductPrior {
    /// Ambient dimension and prior of each factor.
    factors: Vec<(usize, Arc<dyn Prior>)>,
}

impl ProductPrior {
    /// The product of `factors`, each with the number of coordinates it takes.
    pub fn new(factors: Vec<(usize, Arc<dyn Prior>)>) -> Self {
        Self { factors }
    }

    fn blocks(&self) -> impl Iterator<Item = (std::ops::Range<usize>, &dyn Prior)> {
        self.factors.iter().scan(0, |start, (width, prior)| {
            let at = *start..*start + width;
            *start += width;
            Some((at, prior.as_ref()))
        })
    }
}

impl Prior for ProductPrior {
    fn ambient_dim(&self) -> Option<usize> {
        Some(self.factors.iter().map(|(width, _)| width).sum())
    }

    fn log_density(&self, x: &[f64]) -> f64 {
        self.blocks().map(|(at, prior)| prior.log_density(&x[at])).sum()
    }

    fn sample(&self, stream: &mut Stream, x: &mut [f64]) -> Result<(), PointError> {
        self.blocks().try_for_each(|(at, prior)| prior.sample(stream, &mut x[at]))
    }

    fn to_tensors(&self) -> BTreeMap<String, Vec<f64>> {
        let numbered = |(number, (_, prior)): (usize, &(usize, Arc<dyn Prior>))| {
            prior.to_tensors().into_iter().map(move |(name, v)| (format!("{number}.{name}"), v))
        };
        self.factors.iter().enumerate().flat_map(numbered).collect()
    }

    fn drift(&self, x: &[f64], u: &mut [f64]) {
        for (at, prior) in self.blocks() {
            prior.drift(&x[at.clone()], &mut u[at]);
        }
    }

    fn drift_derivative(&self, x: &[f64], e: &[f64], out: &mut [f64]) {
        for (at, prior) in self.blocks() {
            prior.drift_derivative(&x[at.clone()], &e[at.clone()], &mut out[at]);
        }
    }

    fn drift_divergence(&self, x: &[f64]) -> f64 {
        self.blocks().map(|(at, prior)| prior.drift_divergence(&x[at])).sum()
    }

    fn langevin(&self) -> Langevin {
        Langevin::Factors(self.factors.iter().map(|(_, prior)| prior.langevin()).collect())
    }
}
