//! Probability densities on Riemannian manifolds.
//!
//! The library follows *Riemannian Diffusion Models* (Huang, Aghajohari, Bose, Panangaden & Courville, NeurIPS 2022): a
//! manifold M ⊂ ℝᵐ is given by its tangent projection and a point map, noise is Brownian motion or a Langevin diffusion on
//! it, and a density is learned by reversing that noise.
//!
//! ```
//! use std::sync::Arc;
//!
//! use manifusion::manifold::parse;
//! use manifusion::path::{NoisingPath, PathChoice};
//! use manifusion::prior::default_prior;
//! use manifusion::rng::Streams;
//! use manifusion::rows::{Rows, RowsMut};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A place on the globe and a rotation, noised together for time 0.1.
//! let manifold = parse("sphere:2*so:3")?;
//! let prior = default_prior(&manifold)?;
//! let path = NoisingPath::new(Arc::clone(&manifold), prior, PathChoice::Auto)?;
//! let start = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
//! let mut end = [0.0; 12];
//! let streams = Streams::new(42, "example");
//! path.sample(Rows::new(&start, 12)?, &[0.1], &streams, 0, RowsMut::new(&mut end, 12)?)?;
//! assert!(path.is_exact() && manifold.check_point(&end).is_ok());
//! # Ok(())
//! # }
//! ```
//!
//! `ARCHITECTURE.md` in the repository maps the modules; `docs/notation.md` the symbols.

pub mod atomic;
pub mod brownian;
pub mod check;
pub mod checkpoint;
pub mod data;
pub mod density;
pub mod divergence;
pub mod error;
pub mod field;
pub mod heat_kernel;
pub mod likelihood;
pub mod linalg;
pub mod loss;
pub mod manifold;
pub mod mass;
pub mod mixture;
pub mod model;
mod network;
pub mod nn;
pub mod ode;
pub mod ode_density;
pub mod optim;
pub mod parallel;
pub mod path;
pub mod prior;
pub mod rng;
pub mod rows;
pub mod sample;
pub mod sde;
pub mod stats;
pub mod time;
pub mod train;
