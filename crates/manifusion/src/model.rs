//! A diffusion model: manifold, prior, field and the time interval on which it was learned.

use std::sync::Arc;

use crate::error::SolveError;
use crate::field::Field;
use crate::flow_density::{FlowClock, FlowDensity, FlowOptions, ProbabilityFlow};
use crate::manifold::{Manifold, check_points};
use crate::prior::{Prior, check_width};
use crate::rows::Rows;

/// The model of the paper's fixed-inference parameterisation `eq:fixed-inference-gen`, run from s =
/// T down to `s_min`.
///
/// `s_min` is part of the model: the density of a point is that of the generative process stopped
/// at `s_min`.
#[derive(Clone, Debug)]
pub struct Diffusion {
    /// M.
    pub manifold: Arc<dyn Manifold>,
    /// p₀.
    pub prior: Arc<dyn Prior>,
    /// a(x, s), an approximate score.
    pub field: Arc<dyn Field>,
    /// Smallest noising time.
    pub s_min: f64,
    /// T.
    pub t_end: f64,
}

impl Diffusion {
    /// An error unless 0 < s_min < T < ∞ and the prior is one of the manifold's width.
    pub fn check(&self) -> Result<(), SolveError> {
        check_width(self.manifold.as_ref(), self.prior.as_ref())?;
        if self.s_min > 0.0 && self.s_min < self.t_end && self.t_end.is_finite() {
            return Ok(());
        }
        let expected = "0 < s_min < T < infinity";
        Err(SolveError::Setting { name: "s_min", value: self.s_min, expected })
    }

    /// The density of the equivalent ODE, λ = 1: from the data at s_min to the prior at T.
    pub fn flow(&self, options: FlowOptions) -> FlowDensity {
        let (score, prior) = (Arc::clone(&self.field), Arc::clone(&self.prior));
        let velocity = Arc::new(ProbabilityFlow { score, prior });
        let (manifold, prior) = (Arc::clone(&self.manifold), Arc::clone(&self.prior));
        let flow = FlowDensity::new(manifold, prior, velocity, self.s_min, self.t_end);
        FlowDensity { clock: FlowClock::LogTime, options, ..flow }
    }

    /// An error unless every row of `x` is a finite point of the manifold.
    pub fn check_points(&self, x: &[f64]) -> Result<(), SolveError> {
        let m = self.manifold.ambient_dim();
        Rows::new(x, m)?;
        check_points(self.manifold.as_ref(), x)
            .map_err(|(row, error)| SolveError::at(row, 0.0)(error))
    }
}
