//! A mixture as named arrays, and mixtures made from those of another one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::options::positive_setting;
use super::{KernelMixture, centred, family};
use crate::error::SolveError;
use crate::linalg::scale;
use crate::manifold::Manifold;
use crate::prior::Prior;
use crate::rows::Rows;

impl KernelMixture {
    /// Everything that [`KernelMixture::from_tensors`] needs, bit by bit.
    pub fn to_tensors(&self) -> BTreeMap<String, Vec<f64>> {
        [
            ("centres", &self.centres),
            ("bandwidths", &self.bandwidths),
            ("weights", &self.weights),
            ("objective_trace", &self.trace),
            ("leave_one_out_nll", &vec![self.nll]),
        ]
        .into_iter()
        .chain(self.local.iter().map(|local| ("local_weights", local)))
        .map(|(name, values)| (name.to_string(), values.clone()))
        .collect()
    }

    /// The same centres and weights with bandwidths `factor` times as large: a proposal whose
    /// density is nowhere small beside this one's.
    pub fn widened(&self, factor: f64) -> Result<Self, SolveError> {
        positive_setting("factor of the bandwidths", factor)?;
        let mut tensors = self.to_tensors();
        if let Some(bandwidths) = tensors.get_mut("bandwidths") {
            scale(factor, bandwidths);
        }
        Self::from_tensors(Arc::clone(&self.manifold), Arc::clone(&self.prior), &tensors)
    }

    /// The mixture that gave these tensors.
    pub fn from_tensors(
        manifold: Arc<dyn Manifold>,
        prior: Arc<dyn Prior>,
        tensors: &BTreeMap<String, Vec<f64>>,
    ) -> Result<Self, SolveError> {
        let unusable = |problem: String| SolveError::StoredMixture { problem };
        let take = |name: &str| {
            let missing = || unusable(format!("the array '{name}' is missing"));
            tensors.get(name).cloned().ok_or_else(missing)
        };
        let (centres, bandwidths) = (take("centres")?, take("bandwidths")?);
        let (weights, trace) = (take("weights")?, take("objective_trace")?);
        let nll = take("leave_one_out_nll")?;
        let positive = |name: &str, values: &[f64]| {
            let Some(at) = values.iter().position(|v| !(*v > 0.0 && v.is_finite())) else {
                return Ok(());
            };
            let value = values[at];
            Err(unusable(format!("{name}[{at}] is {value}; all must be positive and finite")))
        };
        positive("bandwidths", &bandwidths)?;
        positive("weights", &weights)?;
        if weights.len() != 1 + bandwidths.len() {
            return Err(unusable(format!(
                "{} weights and {} bandwidths; there must be a weight for the prior and one for \
                 each bandwidth",
                weights.len(),
                bandwidths.len()
            )));
        }
        let total: f64 = weights.iter().sum();
        if !((total - 1.0).abs() < 1e-9) {
            return Err(unusable(format!("the weights sum to {total} instead of 1")));
        }
        if nll.len() != 1 {
            return Err(unusable(format!(
                "leave_one_out_nll has {} numbers instead of 1",
                nll.len()
            )));
        }
        let rows = Rows::new(&centres, manifold.ambient_dim())?;
        let family =
            family(centred(manifold.as_ref(), prior.as_ref(), rows)?, &bandwidths, &weights);
        let (num_centres, nll) = (rows.len(), nll[0]);
        let mixture =
            Self { manifold, prior, centres, bandwidths, weights, local: None, nll, trace, family };
        let Some(local) = tensors.get("local_weights") else { return Ok(mixture) };
        let bands = mixture.bandwidths.len();
        if local.len() != num_centres * bands {
            return Err(unusable(format!(
                "{} local weights for {num_centres} centres of {bands} bandwidths each",
                local.len()
            )));
        }
        let kernels = 1.0 - mixture.weights[0];
        // A mixture of the prior alone has no bandwidths, and chunks of none are not allowed.
        for (centre, own) in local.chunks_exact(bands.max(1)).enumerate() {
            if let Some(weight) = own.iter().find(|w| !(**w >= 0.0)) {
                return Err(unusable(format!(
                    "centre {centre} has a local weight of {weight}; none may be negative"
                )));
            }
            let sum: f64 = own.iter().sum();
            if !((sum - kernels).abs() < 1e-9) {
                return Err(unusable(format!(
                    "the local weights of centre {centre} sum to {sum} instead of {kernels}, what \
                     the prior leaves"
                )));
            }
        }
        mixture.with_local(local.clone(), nll)
    }

    /// The same with the common weights alone.
    pub fn without_local(&self) -> Result<Self, SolveError> {
        let mut tensors = self.to_tensors();
        tensors.remove("local_weights");
        Self::from_tensors(Arc::clone(&self.manifold), Arc::clone(&self.prior), &tensors)
    }
}
