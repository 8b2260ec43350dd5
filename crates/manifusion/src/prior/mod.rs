//! The prior p₀ and the Langevin drift U₀ = ½∇_g log p₀ that it induces (paper, section
//! `sec:fixed-inf`).

mod chains;
mod hyperbolic_normal;
mod langevin;
mod long_run;
mod product;
mod standard_normal;
mod uniform;
mod wrapped_normal;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

pub use hyperbolic_normal::HyperbolicNormal;
pub use langevin::Langevin;
pub(crate) use langevin::{KnownNoise, known_noise};
pub use long_run::{LongRun, LongRunOptions};
pub use product::ProductPrior;
pub use standard_normal::StandardNormal;
pub use uniform::Uniform;
pub use wrapped_normal::WrappedNormal;

use crate::error::{PointError, SolveError};
use crate::linalg::{axpy, norm, scratch};
use crate::manifold::{Family, Hyperboloid, Manifold, Metric};
use crate::rng::{Stream, Streams};

/// Draws for several rows without a call for all of them.
fn sample_one_by_one<P: Prior + ?Sized>(
    prior: &P,
    streams: &Streams,
    rows: &[u64],
    x: &mut [f64],
) -> Result<(), (usize, PointError)> {
    let width = x.len() / rows.len().max(1);
    let draws = rows.iter().zip(x.chunks_exact_mut(width.max(1)));
    draws.enumerate().try_for_each(|(i, (row, x))| {
        prior.sample(&mut streams.stream(*row, 0), x).map_err(|error| (i, error))
    })
}

/// A density on a manifold that can be sampled exactly and whose score is known.
pub trait Prior: Debug + Send + Sync {
    /// Numbers of a point, where that is known: a path or a model on a manifold of another width
    /// refuses this prior.
    fn ambient_dim(&self) -> Option<usize> {
        None
    }

    /// log p₀(x) with respect to the Riemannian volume, in nats.
    fn log_density(&self, x: &[f64]) -> f64;

    /// `x ←` a draw from p₀.
    fn sample(&self, stream: &mut Stream, x: &mut [f64]) -> Result<(), PointError>;

    /// Draws for several rows, each from the stream of its number; an error with its place among
    /// them.
    fn sample_rows(
        &self,
        streams: &Streams,
        rows: &[u64],
        x: &mut [f64],
    ) -> Result<(), (usize, PointError)> {
        sample_one_by_one(self, streams, rows, x)
    }

    /// `u ← U₀(x) = ½∇_g log p₀(x)`, tangent.
    fn drift(&self, x: &[f64], u: &mut [f64]);

    /// ∇_g·U₀(x).
    fn drift_divergence(&self, x: &[f64]) -> f64;

    /// `out ← (∂U₀/∂x) e` along a velocity e, tangent at x.
    ///
    /// Default: central differences of fourth order.
    fn drift_derivative(&self, x: &[f64], e: &[f64], out: &mut [f64]) {
        let (length, size) = (norm(e), 1.0 + norm(x));
        out.fill(0.0);
        if length == 0.0 {
            return;
        }
        let h = 1e-3 * size / length;
        let (mut moved, mut u) = (scratch(x.len()), scratch(x.len()));
        for (t, weight) in [(h, 8.0), (-h, -8.0), (2.0 * h, -1.0), (-2.0 * h, 1.0)] {
            moved.copy_from_slice(x);
            axpy(t, e, &mut moved);
            self.drift(&moved, &mut u);
            axpy(weight / (12.0 * h), &u, out);
        }
    }

    /// What was computed at length to make this prior, so that [`stored_prior`] need not do it
    /// again.
    fn to_tensors(&self) -> BTreeMap<String, Vec<f64>> {
        BTreeMap::new()
    }

    /// Which diffusion U₀ makes, where it has a name.
    fn langevin(&self) -> Langevin {
        Langevin::Other
    }

    /// Whether U₀ = 0 everywhere, so that solvers can leave it out.
    fn is_driftless(&self) -> bool {
        self.langevin().is_brownian()
    }
}

/// An error if the prior has another width than the manifold.
pub(crate) fn check_width(manifold: &dyn Manifold, prior: &dyn Prior) -> Result<(), SolveError> {
    let expected = manifold.ambient_dim();
    match prior.ambient_dim() {
        Some(found) if found != expected => {
            Err(SolveError::PriorWidth { found, expected, manifold: manifold.name() })
        }
        _ => Ok(()),
    }
}

/// The paper's prior of a manifold: uniform where the volume is finite, standard normal on ℝ^d, the
/// normal of the chart on H^d (the wrapped normal with g_L), and factor by factor on products.
/// Level sets and user-defined types get a uniform distribution by a Metropolis–Hastings chain,
/// which costs seconds and gives the volume with an error.
pub fn default_prior(manifold: &Arc<dyn Manifold>) -> Result<Arc<dyn Prior>, SolveError> {
    stored_prior(manifold, &BTreeMap::new())
}

/// The same with what [`Prior::to_tensors`] gave, instead of computing it again.
pub fn stored_prior(
    manifold: &Arc<dyn Manifold>,
    stored: &BTreeMap<String, Vec<f64>>,
) -> Result<Arc<dyn Prior>, SolveError> {
    Ok(match manifold.family() {
        Family::Euclidean { dim } => Arc::new(StandardNormal::new(dim)),
        Family::Hyperboloid { dim, curvature, metric } => {
            let space = Hyperboloid::valid(dim, curvature, metric);
            match metric {
                Metric::Euclidean => Arc::new(HyperbolicNormal::new(space)),
                Metric::Lorentz => Arc::new(WrappedNormal::new(space)),
            }
        }
        // Factor by factor, so that an O(n) among them keeps its own weights.
        Family::Product => {
            let factor = |(number, f): (usize, &Arc<dyn Manifold>)| {
                let prefix = format!("{number}.");
                let own = stored.iter().filter_map(|(name, values)| {
                    Some((name.strip_prefix(&prefix)?.to_owned(), values.clone()))
                });
                Ok((f.ambient_dim(), stored_prior(f, &own.collect())?))
            };
            let factors = manifold.factors().iter().enumerate().map(factor);
            Arc::new(ProductPrior::new(factors.collect::<Result<_, SolveError>>()?))
        }
        _ if manifold.log_volume().is_some() => Arc::new(Uniform::new(Arc::clone(manifold))?),
        _ if !stored.is_empty() => Arc::new(LongRun::from_tensors(Arc::clone(manifold), stored)?),
        _ => Arc::new(LongRun::new(Arc::clone(manifold), LongRunOptions::default())?),
    })
}
