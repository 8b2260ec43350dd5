//! What a run must remember to go on in the same bits. Random numbers are functions of (seed,
//! step), so none of their state is kept.

use thiserror::Error;

use super::times::{ProposalLearner, Times};
use super::{TrainError, Trainer};
use crate::checkpoint::{Arrays, Checkpoint};
use crate::optim::{Adam, AdamConfig, OptimError};

/// Why a checkpoint does not belong to a run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// Something that training needs is not in it.
    #[error("the checkpoint has no {what}; it does not hold a training run")]
    Missing {
        /// Which part.
        what: &'static str,
    },
    /// It was made with another configuration.
    #[error("the checkpoint's {what} differs from the run's configuration")]
    Differs {
        /// Which part.
        what: &'static str,
    },
    /// The optimiser of the proposal.
    #[error(transparent)]
    Optimiser(#[from] OptimError),
    /// Anything else.
    #[error(transparent)]
    Train(#[from] TrainError),
}

impl Trainer {
    /// Everything that the run needs to go on, with the caller's own state beside it.
    pub fn checkpoint(&self, own: Arrays) -> Checkpoint<f32> {
        let Arrays { mut values, mut arrays } = own;
        values.insert("step".into(), self.step.into());
        values.insert("skipped".into(), self.skipped.into());
        values.insert("skipped_in_a_row".into(), self.skipped_in_a_row.into());
        if let Times::Learned(learner) = &self.times {
            let ProposalLearner { flow, adam, .. } = learner.as_ref();
            values.insert("flow_steps".into(), adam.steps().into());
            let (first, second) = adam.moments();
            arrays.insert("flow.params".into(), flow.params().to_vec());
            arrays.insert("flow.first".into(), first.to_vec());
            arrays.insert("flow.second".into(), second.to_vec());
        }
        Checkpoint {
            net: self.net.clone(),
            adam: Some(self.adam.clone()),
            ema: Some(self.ema.clone()),
            extra: values,
            extra_tensors: arrays,
        }
    }

    /// Puts a fresh run where a checkpoint left another one of the same configuration; returns the
    /// caller's own state.
    pub fn restore(&mut self, checkpoint: Checkpoint<f32>) -> Result<Arrays, RestoreError> {
        let Checkpoint { net, adam, ema, extra: mut values, extra_tensors: mut arrays } =
            checkpoint;
        if net.config() != self.net.config() {
            return Err(RestoreError::Differs { what: "network" });
        }
        let adam = adam.ok_or(RestoreError::Missing { what: "optimiser" })?;
        let ema = ema.ok_or(RestoreError::Missing { what: "averaged weights" })?;
        let mut number = |name: &'static str| {
            let found = values.remove(name).and_then(|value| value.as_u64());
            found.ok_or(RestoreError::Missing { what: name })
        };
        let step = number("step")?;
        let skipped = number("skipped")?;
        let skipped_in_a_row = number("skipped_in_a_row")?;
        if let Times::Learned(learner) = &mut self.times {
            let ProposalLearner { flow, adam, .. } = learner.as_mut();
            let steps = number("flow_steps")?;
            let mut array = |name: &'static str| {
                let found: Vec<f64> =
                    arrays.remove(name).ok_or(RestoreError::Missing { what: name })?;
                if found.len() == flow.params().len() {
                    Ok(found)
                } else {
                    Err(RestoreError::Differs { what: name })
                }
            };
            let (params, first, second) =
                (array("flow.params")?, array("flow.first")?, array("flow.second")?);
            flow.params_mut().copy_from_slice(&params);
            *adam = Adam::from_moments(AdamConfig::default(), first, second, steps)?;
        }
        (self.step, self.skipped, self.skipped_in_a_row) = (step, skipped, skipped_in_a_row);
        (self.net, self.adam, self.ema) = (net, adam, ema);
        Ok(Arrays { values, arrays })
    }
}
