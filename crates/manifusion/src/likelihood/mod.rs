//! Log-densities of a diffusion model: exact for the equivalent ODE, and bounds for the SDE.

mod bounds;
mod feynman_kac;
mod ode;

pub use bounds::{BoundOptions, Bounds, ItoRule, bounds};
pub use feynman_kac::feynman_kac;
pub use ode::log_density;
