//! Where training times come from: a fixed law, or the learned flow with its own optimiser.

use super::TrainError;
use crate::optim::{Adam, AdamConfig};
use crate::rng::Streams;
use crate::time::{Draw, FlowConfig, LinearSchedule, LogUniform, Proposal, SigmoidalFlow, Uniform};

/// How training times are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TimeSampling {
    /// Uniform on [s_min, T].
    Uniform,
    /// Uniform in log s: near the optimum for concentrated data.
    LogUniform,
    /// Uniform in the clock of a linear noise schedule.
    Schedule {
        /// β at 0.
        beta_min: f64,
        /// β at 1.
        beta_max: f64,
    },
    /// A deep sigmoidal flow that lowers the estimator's second moment as it goes.
    Learned(LearnedTimes),
}

/// Settings of the learned proposal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LearnedTimes {
    /// Its shape.
    pub flow: FlowConfig,
    /// Adam's rate; the paper's is 0.01.
    pub rate: f64,
    /// Steps of the network between two of the flow; the paper's number is 500.
    pub every: u64,
    /// Which gradient.
    pub gradient: FlowGradient,
}

impl Default for LearnedTimes {
    fn default() -> Self {
        let gradient = FlowGradient::Unbiased;
        Self { flow: FlowConfig::default(), rate: 0.01, every: 500, gradient }
    }
}

/// Gradients of the second moment with respect to the flow's parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowGradient {
    /// −E[I² ∇ log q(s)]: needs no derivative of the loss.
    Unbiased,
    /// The paper's: s moves with the parameters while Y_s is held fixed, which is slightly biased.
    Reparameterised,
}

/// The proposal of a run in progress.
pub(super) enum Times {
    Fixed(Box<dyn Proposal>),
    Learned(Box<ProposalLearner>),
}

/// The flow with its optimiser and the draws of the last batch.
pub(super) struct ProposalLearner {
    pub(super) flow: SigmoidalFlow,
    pub(super) adam: Adam<f64>,
    settings: LearnedTimes,
    draws: Vec<Draw>,
}

impl Times {
    pub(super) fn new(
        sampling: TimeSampling,
        s_min: f64,
        t_end: f64,
        seed: u64,
    ) -> Result<Self, TrainError> {
        Ok(match sampling {
            TimeSampling::Uniform => Self::Fixed(Box::new(Uniform::new(s_min, t_end)?)),
            TimeSampling::LogUniform => Self::Fixed(Box::new(LogUniform::new(s_min, t_end)?)),
            TimeSampling::Schedule { beta_min, beta_max } => {
                Self::Fixed(Box::new(LinearSchedule::new(beta_min, beta_max, s_min, t_end)?))
            }
            TimeSampling::Learned(settings) => {
                let flow = SigmoidalFlow::new(settings.flow, s_min, t_end, seed)?;
                let adam = Adam::new(AdamConfig::default(), flow.params().len())?;
                Self::Learned(Box::new(ProposalLearner { flow, adam, settings, draws: Vec::new() }))
            }
        })
    }

    /// q itself.
    pub(super) fn proposal(&self) -> &dyn Proposal {
        match self {
            Self::Fixed(proposal) => proposal.as_ref(),
            Self::Learned(learner) => &learner.flow,
        }
    }

    /// Times and ln q of a batch, stratified; the flow remembers its draws.
    pub(super) fn fill(&mut self, streams: &Streams, step: u64, s: &mut [f64], log_q: &mut [f64]) {
        match self {
            Self::Fixed(proposal) => proposal.fill(streams, step, s, log_q),
            Self::Learned(learner) => {
                let ProposalLearner { flow, draws, .. } = learner.as_mut();
                let n = s.len() as f64;
                draws.clear();
                for (i, (s, log_q)) in s.iter_mut().zip(log_q).enumerate() {
                    let u = (i as f64 + streams.stream(i as u64, step).uniform()) / n;
                    let draw = flow.draw(u);
                    (*s, *log_q) = (draw.s, draw.log_q);
                    draws.push(draw);
                }
            }
        }
    }

    /// Which gradient is due after this many steps of the network, if any.
    pub(super) fn due(&self, step: u64) -> Option<FlowGradient> {
        match self {
            Self::Learned(learner) if step.is_multiple_of(learner.settings.every.max(1)) => {
                Some(learner.settings.gradient)
            }
            _ => None,
        }
    }

    /// One step of the flow's optimiser on the last batch, given the losses ℓ of its rows and, for
    /// the reparameterised gradient, their slopes dℓ/ds.
    pub(super) fn learn(
        &mut self,
        losses: &[f64],
        slopes: Option<&[f64]>,
    ) -> Result<(), TrainError> {
        let Self::Learned(learner) = self else { return Ok(()) };
        let ProposalLearner { flow, adam, settings, draws } = learner.as_mut();
        let mut gradient = vec![0.0; flow.params().len()];
        if let Some(slopes) = slopes {
            flow.pathwise_variance_gradient(draws, losses, slopes, &mut gradient)?;
        } else {
            let s: Vec<f64> = draws.iter().map(|draw| draw.s).collect();
            flow.variance_gradient(&s, losses, &mut gradient)?;
        }
        // A gradient that is not finite teaches nothing; the network's own step has been checked
        // already.
        if gradient.iter().all(|g| g.is_finite()) {
            adam.step(flow.params_mut(), &gradient, settings.rate)?;
        }
        Ok(())
    }
}
