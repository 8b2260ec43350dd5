//! The exact likelihood of the equivalent ODE, λ = 1 in `eq:equiv-lambda`.

use crate::error::SolveError;
use crate::flow_density::{FlowLogDensity, FlowOptions};
use crate::model::Diffusion;
use crate::rows::Rows;

/// log p(x) of every row of `x`, in parallel over chunks: that of [`Diffusion::flow`].
pub fn log_density(
    model: &Diffusion,
    x: Rows<'_>,
    options: &FlowOptions,
) -> Result<FlowLogDensity, SolveError> {
    model.check()?;
    model.flow(*options).log_density_with_stats(x)
}
