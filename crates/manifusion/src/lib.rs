//! Probability densities on Riemannian manifolds.
pub mod error;
pub mod nn;
pub mod optim;
pub mod rng;
pub mod rows;
pub mod time;
