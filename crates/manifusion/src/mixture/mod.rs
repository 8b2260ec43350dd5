//! A mixture of kernels of several bandwidths, centred on the training points, as a density
//! estimator, and as a measure of how far data may be smoothed.
//!
//! p(x) = w₀ p₀(x) + Σ_k w_k (1/n) Σ_i K_{σ_k²}(x|x_i). The noise turns a heat kernel into one (of
//! time τ + s on compact spaces; on ℝ^d into another normal), so that the noised density is a
//! mixture of the same kind in closed form. On hyperbolic space K is a wrapped normal, which has
//! neither property. The weights maximise the leave-one-out likelihood of the training points, with
//! one pseudo-observation of the prior. `docs/kernel-mixture.md` gives the method and its measured
//! accuracy.

mod heat;
mod local;
mod nearest;
mod options;
mod parzen;
mod radial;
mod sampling;
mod space;
mod stored;
mod sum;
mod tree;
mod wrapped;

use std::sync::Arc;

pub use heat::random_choice;
pub use nearest::{nearest_distances, neighbour_distances};
pub use options::MixtureOptions;
pub use parzen::{ParzenMixture, ParzenOptions};

use crate::density::Density;
use crate::em;
use crate::error::SolveError;
use crate::linalg::norm;
use crate::manifold::{Family, Hyperboloid, Lorentz, Manifold};
use crate::prior::Prior;
use crate::rows::Rows;

use heat::Heat;
use sum::{Accuracy, Kernels};

/// Kernels of several bandwidths on the training points, and the prior.
#[derive(Clone, Debug)]
pub struct KernelMixture {
    manifold: Arc<dyn Manifold>,
    prior: Arc<dyn Prior>,
    /// Training points, row by row.
    centres: Vec<f64>,
    bandwidths: Vec<f64>,
    /// The prior's, then the bandwidths'.
    weights: Vec<f64>,
    /// The centres' own weights, centres × bandwidths, each centre's of sum 1 − w₀.
    local: Option<Vec<f64>>,
    /// Mean negative leave-one-out log-density.
    nll: f64,
    trace: Vec<f64>,
    family: KernelFamily,
}

#[derive(Clone, Debug)]
enum KernelFamily {
    Heat { heat: Arc<Heat>, kernels: Kernels },
    Wrapped(Lorentz),
}

/// What the centres are looked up in.
enum Centred {
    Heat(Box<Heat>),
    Wrapped(Lorentz),
}

impl KernelMixture {
    /// Fits bandwidths' weights to training points: at least two, all on the manifold.
    pub fn fit(
        manifold: Arc<dyn Manifold>,
        prior: Arc<dyn Prior>,
        train: Rows<'_>,
        options: &MixtureOptions,
    ) -> Result<Self, SolveError> {
        options.check()?;
        let centred = centred(manifold.as_ref(), prior.as_ref(), train)?;
        let (spread, resolution) = match &centred {
            Centred::Heat(heat) => (heat.spread(), heat.resolution(options.seed)),
            Centred::Wrapped(space) => {
                let spread = hyperbolic_spread(space, train);
                (Some(spread), wrapped::resolution(space, train, options.seed))
            }
        };
        let all = options.bandwidths(spread, resolution)?;
        let logs = match &centred {
            Centred::Heat(heat) => {
                let judges = random_choice(train.len(), options.judges, options.seed);
                heat.leave_one_out(prior.as_ref(), train, &all, None, &judges)?
            }
            Centred::Wrapped(space) => {
                wrapped::leave_one_out(space, prior.as_ref(), train, &all, options)?
            }
        };
        let stop = em::Stop { iterations: options.iterations, gain: options.gain };
        // With one of the prior a point anywhere has a finite log-density, at a price of about
        // log(n)/n.
        let mut pseudo_observations = vec![0.0; 1 + all.len()];
        pseudo_observations[0] = 1.0;
        let fit = em::fit(&logs, &pseudo_observations, stop);
        let n = (logs.len() / (1 + all.len())) as f64;
        // Less than a tenth of a point: such bandwidths only cost time.
        let kept: Vec<usize> =
            (0..all.len()).filter(|k| fit.weights[1 + k] > (0.1 / n).min(1e-4)).collect();
        let mut weights = vec![fit.weights[0]];
        weights.extend(kept.iter().map(|k| fit.weights[1 + k]));
        let total: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= total;
        }
        let bandwidths: Vec<f64> = kept.iter().map(|k| all[*k]).collect();
        let likelihood = |row: &[f64]| {
            let kernels = kept.iter().map(|k| row[1 + k]);
            let terms: Vec<f64> = std::iter::once(row[0])
                .chain(kernels)
                .zip(&weights)
                .map(|(log, weight)| log + weight.ln())
                .collect();
            crate::linalg::log_sum_exp(&terms)
        };
        let leave_one_out_nll = -logs.chunks_exact(1 + all.len()).map(likelihood).sum::<f64>() / n;
        let family = family(centred, &bandwidths, &weights);
        let centres = train.as_slice().to_vec();
        let trace = fit.trace;
        let local = None;
        let nll = leave_one_out_nll;
        Ok(Self { manifold, prior, centres, bandwidths, weights, local, nll, trace, family })
    }

    /// Bandwidths σ_k, descending; those whose weight came out below a tenth of a point are left
    /// out.
    pub fn bandwidths(&self) -> &[f64] {
        &self.bandwidths
    }

    /// w_k of the bandwidths.
    pub fn weights(&self) -> &[f64] {
        &self.weights[1..]
    }

    /// w₀.
    pub fn prior_weight(&self) -> f64 {
        self.weights[0]
    }

    /// The training points that kernels are centred on.
    pub fn centres(&self) -> &[f64] {
        &self.centres
    }

    /// Their number.
    pub fn num_centres(&self) -> usize {
        self.centres.len() / self.manifold.ambient_dim()
    }

    /// Mean negative leave-one-out log-density of the training points, in nats.
    pub fn leave_one_out_nll(&self) -> f64 {
        self.nll
    }

    /// The centres' own weights, centres × bandwidths, if they have any.
    pub fn local_weights(&self) -> Option<&[f64]> {
        self.local.as_deref()
    }

    /// Whether its centres can have weights of their own: with heat kernels.
    pub fn can_be_local(&self) -> bool {
        matches!(self.family, KernelFamily::Heat { .. }) && !self.bandwidths.is_empty()
    }

    /// The objective after every iteration of expectation–maximisation: mean leave-one-out
    /// log-density plus log(w₀)/n.
    pub fn objective_trace(&self) -> &[f64] {
        &self.trace
    }

    /// log p_s of every row, the density after noise for time s ≥ 0.
    pub fn noised_log_density(&self, x: Rows<'_>, s: f64) -> Result<Vec<f64>, SolveError> {
        check_points(self.manifold.as_ref(), x)?;
        if !(s >= 0.0 && s.is_finite()) {
            let (name, expected) = ("noising time s", "it must be finite and not negative");
            return Err(SolveError::Setting { name, value: s, expected });
        }
        match &self.family {
            KernelFamily::Heat { heat, kernels } => {
                heat.log_density(self.prior.as_ref(), kernels, x, s)
            }
            KernelFamily::Wrapped(space) if s == 0.0 => {
                let centres = Rows::new(&self.centres, self.manifold.ambient_dim())?;
                let (bandwidths, weights) = (&self.bandwidths, &self.weights);
                wrapped::log_density(space, self.prior.as_ref(), centres, bandwidths, weights, x)
            }
            KernelFamily::Wrapped(_) => Err(no_noise(self.manifold.as_ref())),
        }
    }
}

impl Density for KernelMixture {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.manifold
    }

    /// In closed form: every centre by itself, kernels cut where they are below 1e-14 of their
    /// peak.
    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        self.noised_log_density(x, 0.0)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_from(0, n, seed)
    }
}
fn check_points(manifold: &dyn Manifold, x: Rows<'_>) -> Result<(), SolveError> {
    x.expect_width(manifold.ambient_dim())?;
    for (row, x) in x.rows().enumerate() {
        manifold.check_point(x).map_err(SolveError::at(row, 0.0))?;
    }
    Ok(())
}

/// An error unless there are two points or more, all on a manifold that has kernels.
fn centred(
    manifold: &dyn Manifold,
    prior: &dyn Prior,
    train: Rows<'_>,
) -> Result<Centred, SolveError> {
    check_points(manifold, train)?;
    if train.len() < 2 {
        let expected = "leaving one out needs at least two";
        let (name, value) = ("number of training points", train.len() as f64);
        return Err(SolveError::Setting { name, value, expected });
    }
    if let Family::Hyperboloid { dim, curvature, metric } = manifold.family() {
        return Ok(Centred::Wrapped(Lorentz::on(Hyperboloid::valid(dim, curvature, metric))));
    }
    Ok(Centred::Heat(Box::new(Heat::new(manifold, prior, train)?)))
}

fn family(centred: Centred, bandwidths: &[f64], weights: &[f64]) -> KernelFamily {
    match centred {
        Centred::Wrapped(space) => KernelFamily::Wrapped(space),
        Centred::Heat(heat) => {
            let squares: Vec<f64> = bandwidths.iter().map(|b| b * b).collect();
            let accuracy = Accuracy::exact(heat.space.dim);
            let (common, prior) = (&weights[1..], weights[0]);
            let kernels = Kernels::new(&heat.space, accuracy, &squares, common, prior, None);
            KernelFamily::Heat { heat: Arc::from(heat), kernels }
        }
    }
}

/// Root mean square distance from the origin, per dimension.
fn hyperbolic_spread(space: &Lorentz, train: Rows<'_>) -> f64 {
    let mut v = vec![0.0; space.dim()];
    let mut squares = 0.0;
    for x in train.rows() {
        space.log_origin(x, &mut v);
        squares += norm(&v).powi(2);
    }
    (squares / (train.len() * space.dim()) as f64).sqrt()
}

fn no_noise(manifold: &dyn Manifold) -> SolveError {
    SolveError::Unsupported {
        what: "the kernel mixture's density under the noise",
        manifold: manifold.name(),
        hint: "noise does not turn its wrapped normals into wrapped normals; use the mixture \
               without noise",
    }
}
