//! Probability densities on Riemannian manifolds.
pub mod brownian;
pub mod check;
pub mod divergence;
pub mod error;
pub mod kernel;
pub mod linalg;
pub mod manifold;
pub mod nn;
pub mod ode;
pub mod optim;
pub mod parallel;
pub mod path;
pub mod prior;
pub mod rng;
pub mod rows;
pub mod sde;
pub mod time;
