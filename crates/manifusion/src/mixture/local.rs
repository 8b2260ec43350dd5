//! Weights of the bandwidths that differ from centre to centre.

use std::sync::Arc;

use super::heat::{Heat, random_choice};
use super::sum::{Accuracy, Kernels};
use super::{KernelFamily, KernelMixture, MixtureOptions};
use crate::error::SolveError;
use crate::linalg::scale;
use crate::parallel;
use crate::rows::Rows;

/// Neighbours whose responsibilities a centre's own weights are the mean of, and
/// pseudo-observations of the common weights.
const LOCAL_NEIGHBOURS: usize = 31;
const LOCAL_PRIOR: f64 = 2.0;
/// Times that responsibilities and local weights are computed in turn.
const LOCAL_ROUNDS: usize = 3;

impl KernelMixture {
    /// The same kernels with weights that vary from centre to centre: each centre takes the mean of
    /// its neighbours' leave-one-out responsibilities, with the common weights as
    /// pseudo-observations. Where data are dense in one place and thin in another, or repeat in
    /// some, this is a better density than common weights are. On spaces with a heat kernel.
    pub fn localised(&self, options: &MixtureOptions) -> Result<Self, SolveError> {
        let heat = self.heat()?;
        let centres = Rows::new(&self.centres, self.manifold.ambient_dim())?;
        let judges = random_choice(centres.len(), options.judges, options.seed);
        let mut mixture = self.clone();
        for _ in 0..LOCAL_ROUNDS {
            let (local, _) = mixture.judged(heat, centres, &judges)?;
            mixture = self.with_local(local, self.nll)?;
        }
        let (_, nll) = mixture.judged(heat, centres, &judges)?;
        Ok(Self { nll, ..mixture })
    }

    /// Local weights from the responsibilities of this mixture, and its mean negative leave-one-out
    /// log-density.
    fn judged(
        &self,
        heat: &Heat,
        centres: Rows<'_>,
        judges: &[usize],
    ) -> Result<(Vec<f64>, f64), SolveError> {
        let bands = self.bandwidths.len();
        let mut shares = self.leave_one_out_terms(heat, centres, judges)?;
        let mut nll = 0.0;
        for row in shares.chunks_exact_mut(1 + bands) {
            let log_p = crate::linalg::log_sum_exp(row);
            nll -= log_p / judges.len() as f64;
            for log in row {
                *log = (*log - log_p).exp();
            }
        }
        let mut place = vec![u32::MAX; centres.len()];
        for (at, judge) in judges.iter().enumerate() {
            place[*judge] = at as u32;
        }
        let (width, kernels) = (heat.space.metric_width(), 1.0 - self.weights[0]);
        let mut out = vec![0.0; centres.len() * bands];
        parallel::for_each_chunk(&mut out, bands, 64, |first, chunk| {
            for (i, own) in chunk.chunks_exact_mut(bands).enumerate() {
                for (own, weight) in own.iter_mut().zip(self.weights()) {
                    *own = LOCAL_PRIOR * weight / kernels;
                }
                let near =
                    heat.tree.neighbours(&heat.metric, width, first + i, LOCAL_NEIGHBOURS, |row| {
                        place[row] != u32::MAX
                    });
                for row in near {
                    let at = place[row] as usize * (1 + bands);
                    crate::linalg::axpy(1.0, &shares[at + 1..at + 1 + bands], own);
                }
                let total: f64 = own.iter().sum();
                scale(kernels / total, own);
            }
            Ok(())
        })?;
        Ok((out, nll))
    }

    /// Logarithms of the weighted leave-one-out densities of the prior and of every bandwidth at
    /// the judges.
    fn leave_one_out_terms(
        &self,
        heat: &Heat,
        centres: Rows<'_>,
        judges: &[usize],
    ) -> Result<Vec<f64>, SolveError> {
        let weighted;
        let heat = match &self.local {
            Some(local) => {
                weighted = heat.with_weights(local);
                &weighted
            }
            None => heat,
        };
        let (prior, local) = (self.prior.as_ref(), self.local_weights());
        let mut terms = heat.leave_one_out(prior, centres, &self.bandwidths, local, judges)?;
        for row in terms.chunks_exact_mut(1 + self.bandwidths.len()) {
            row[0] += self.weights[0].ln();
            if self.local.is_none() {
                for (log, weight) in row[1..].iter_mut().zip(self.weights()) {
                    *log += weight.ln();
                }
            }
        }
        Ok(terms)
    }

    /// Leave-one-out log-densities of some of the centres. On spaces with a heat kernel.
    pub fn leave_one_out(&self, judges: &[usize]) -> Result<Vec<f64>, SolveError> {
        let centres = Rows::new(&self.centres, self.manifold.ambient_dim())?;
        let terms = self.leave_one_out_terms(self.heat()?, centres, judges)?;
        let columns = 1 + self.bandwidths.len();
        Ok(terms.chunks_exact(columns).map(crate::linalg::log_sum_exp).collect())
    }

    fn heat(&self) -> Result<&Heat, SolveError> {
        match &self.family {
            KernelFamily::Heat { heat, .. } => Ok(heat),
            KernelFamily::Wrapped(_) => Err(SolveError::Unsupported {
                what: "a kernel mixture with local weights",
                manifold: self.manifold.name(),
                hint: "they need heat kernels, and its kernels are wrapped normals; keep the common \
                       weights",
            }),
        }
    }

    pub(super) fn with_local(&self, local: Vec<f64>, nll: f64) -> Result<Self, SolveError> {
        let heat = self.heat()?.with_weights(&local);
        let squares: Vec<f64> = self.bandwidths.iter().map(|b| b * b).collect();
        let accuracy = Accuracy::exact(heat.space.dim);
        let (weights, prior) = (self.weights(), self.prior_weight());
        let kernels = Kernels::new(&heat.space, accuracy, &squares, weights, prior, Some(&local));
        let family = KernelFamily::Heat { heat: Arc::new(heat), kernels };
        Ok(Self { local: Some(local), nll, family, ..self.clone() })
    }
}
