//! How far training points are smoothed: the network then learns the score of a smoothed density of
//! the data instead of that of the points themselves.

use std::sync::Arc;

use crate::density::Density;
use crate::error::SolveError;
use crate::mixture::{KernelMixture, ParzenMixture, neighbour_distances};
use crate::rng::Stream;
use crate::rows::Rows;

/// Times τ that a training point is noised for before its noising time s is counted, with their
/// probabilities.
///
/// With heat kernels a point noised for τ and then for s is one noised for s + τ, so that the mean
/// of ∇ log K_{s+τ}(y|x_i) given y is the score at time s of the density smoothed by these kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct SmoothingTimes {
    choice: Choice,
    /// The probability of the prior, instead of a kernel around the point.
    prior_weight: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Choice {
    /// Some times, with probabilities of each point (points × times) or of all (times).
    Several { times: Vec<f64>, weights: Vec<f64> },
    /// One time for each point.
    One(Vec<f64>),
}

/// The neighbour whose distance is a point's bandwidth where there is no mixture.
const NEIGHBOUR: usize = 8;

impl SmoothingTimes {
    /// c·σ² of a kernel mixture of these points, by its weights: c = 1 smooths the data to the
    /// mixture itself. That is the density at time `s_min`: what the noise up to there adds is
    /// taken off. Where only some of the `points` are centres, common weights count, and kernels
    /// are as much narrower as those of all points would be, by n^{−1/(d+4)}.
    pub fn of_mixture(mixture: &KernelMixture, points: usize, c: f64, s_min: f64) -> Self {
        let all = mixture.num_centres() == points;
        let share = mixture.num_centres() as f64 / points as f64;
        let c = c * share.powf(2.0 / (mixture.manifold().dim() as f64 + 4.0));
        let time = |sigma: &f64| (c * sigma * sigma - s_min).max(0.0);
        let times = mixture.bandwidths().iter().map(time).collect();
        let local = mixture.local_weights().filter(|_| all);
        let weights = local.unwrap_or(mixture.weights()).to_vec();
        Self { choice: Choice::Several { times, weights }, prior_weight: mixture.prior_weight() }
    }

    /// c·r²/d, with the distance r of a point to its eighth neighbour on a manifold of dimension d:
    /// where no mixture is known.
    pub fn of_neighbours(x: Rows<'_>, dim: usize, c: f64, s_min: f64) -> Self {
        let time = |r: f64| (c * r * r / dim as f64 - s_min).max(0.0);
        let times = neighbour_distances(x, NEIGHBOUR).into_iter().map(time).collect();
        Self { choice: Choice::One(times), prior_weight: 0.0 }
    }

    /// An error unless there is something to choose from for each of so many points.
    pub(super) fn check(&self, points: usize) -> Result<(), SolveError> {
        let known = match &self.choice {
            Choice::Several { times, weights } => {
                weights.len() == times.len() || weights.len() == points * times.len()
            }
            Choice::One(times) => times.len() == points,
        };
        if known {
            return Ok(());
        }
        let expected = "smoothing must be that of the same points";
        Err(SolveError::Setting { name: "training points", value: points as f64, expected })
    }

    /// The time of a point at a level in [0, 1), infinite for the prior.
    pub fn draw(&self, point: usize, level: f64) -> f64 {
        if level < self.prior_weight {
            return f64::INFINITY;
        }
        match &self.choice {
            Choice::One(times) => times[point],
            Choice::Several { times, weights } => {
                let bands = times.len();
                let own = if weights.len() == bands {
                    &weights[..]
                } else {
                    &weights[point * bands..(point + 1) * bands]
                };
                let (mut left, mut pick) = (level - self.prior_weight, 0);
                while pick + 1 < bands && left >= own[pick] {
                    left -= own[pick];
                    pick += 1;
                }
                times.get(pick).copied().unwrap_or(f64::INFINITY)
            }
        }
    }
}

/// Moves training points along their Parzen windows before they are noised, so that a network
/// learns the shape of their neighbourhoods and not the points.
#[derive(Clone, Debug)]
pub struct Stretch {
    windows: Arc<ParzenMixture>,
    share: f64,
}

impl Stretch {
    /// By `share` of the windows' covariances. Centres of the windows are the training points.
    pub fn new(windows: Arc<ParzenMixture>, share: f64) -> Self {
        Self { windows, share }
    }

    /// An error unless the centres of the windows are as many as the points.
    pub(super) fn check(&self, points: usize) -> Result<(), SolveError> {
        if self.windows.round().num_centres() == points {
            return Ok(());
        }
        let expected = "windows must be those of the same points";
        Err(SolveError::Setting { name: "training points", value: points as f64, expected })
    }

    /// Moves a training point, with the weight of its windows; whether it did.
    pub(super) fn shift(&self, point: usize, stream: &mut Stream, x: &mut [f64]) -> bool {
        self.windows.stretch(point, self.share, stream, x)
    }
}
