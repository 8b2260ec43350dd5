//! Probability densities on Riemannian manifolds.
pub mod error;
pub mod rng;
pub mod rows;
