//! What a run must remember to go on in the same bits. Random numbers are functions of (seed,
//! step), so none of their state is kept.

use thiserror::Error;

use super::{NetworkTrainer, Objective, TrainError};
use crate::checkpoint::{Arrays, Checkpoint};
use crate::optim::{OptimError, Soap};

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

/// Takes a whole number out of a checkpoint.
pub(super) fn number(own: &mut Arrays, name: &'static str) -> Result<u64, RestoreError> {
    let found = own.values.remove(name).and_then(|value| value.as_u64());
    found.ok_or(RestoreError::Missing { what: name })
}

impl<O: Objective> NetworkTrainer<O> {
    pub(super) fn state(&self, mut own: Arrays) -> Checkpoint<f32> {
        own.values.insert("step".into(), self.step.into());
        own.values.insert("skipped".into(), self.skipped.into());
        own.values.insert("skipped_in_a_row".into(), self.skipped_in_a_row.into());
        for (name, values) in self.soap.iter().flat_map(Soap::state) {
            own.arrays.insert(name, values.iter().map(|v| f64::from(*v)).collect());
        }
        self.objective.save(&mut own);
        Checkpoint {
            net: self.net.clone(),
            adam: Some(self.adam.clone()),
            ema: Some(self.ema.clone()),
            extra: own.values,
            extra_tensors: own.arrays,
        }
    }

    pub(super) fn set_state(
        &mut self,
        checkpoint: Checkpoint<f32>,
    ) -> Result<Arrays, RestoreError> {
        let Checkpoint { net, adam, ema, extra, extra_tensors } = checkpoint;
        if net.config() != self.net.config() {
            return Err(RestoreError::Differs { what: "network" });
        }
        let adam = adam.ok_or(RestoreError::Missing { what: "optimiser" })?;
        let ema = ema.ok_or(RestoreError::Missing { what: "averaged weights" })?;
        let mut own = Arrays { values: extra, arrays: extra_tensors };
        let step = number(&mut own, "step")?;
        let skipped = number(&mut own, "skipped")?;
        let skipped_in_a_row = number(&mut own, "skipped_in_a_row")?;
        if let Some(soap) = &mut self.soap {
            let take = |name: &str, len: usize| {
                let values = own.arrays.remove(name).filter(|values| values.len() == len)?;
                Some(values.iter().map(|v| *v as f32).collect())
            };
            soap.restore(take).ok_or(RestoreError::Missing { what: "bases of the optimiser" })?;
        }
        self.objective.restore(&mut own)?;
        (self.step, self.skipped, self.skipped_in_a_row) = (step, skipped, skipped_in_a_row);
        (self.net, self.adam, self.ema) = (net, adam, ema);
        Ok(own)
    }
}
