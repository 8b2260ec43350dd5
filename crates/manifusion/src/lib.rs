//! Probability densities on curved spaces: learn one from points, score new points, draw samples.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use manifusion::{Points, fit, methods::Rdm};
//! let points = Points::synthetic("sphere-mixture", 200, 0)?; // or Points::new("sphere:2", xyz)?
//! let model = fit(&points, Rdm::default().steps(20))?; // or Stack::default(), Kernel::default()
//! let log_p = model.log_density(points.rows())?;
//! let samples = model.sample(10, 0)?;
//! assert!(log_p.len() == 200 && samples.len() == 30 && log_p.iter().all(|v| v.is_finite()));
//! # Ok(())
//! # }
//! ```
//!
//! [`fit()`] makes the choices that the command line makes; [`Fit`](fit::Fit) takes a seed,
//! validation points and a callback that sees the progress and can stop it.
//! [`evaluate`](evaluation::evaluate) judges a model. `manifusion-io` reads points from files,
//! `manifusion-run` keeps models in folders that the command line shares, `manifusion-plot` draws
//! them.
//!
//! The library follows *Riemannian Diffusion Models* (Huang, Aghajohari, Bose, Panangaden &
//! Courville, NeurIPS 2022): a manifold M ⊂ ℝᵐ is given by its tangent projection and a point map,
//! noise is Brownian motion or a Langevin diffusion on it, and a density is learned by reversing
//! that noise. Each part can be used alone. A place on the globe and a rotation, noised together
//! for time 0.1:
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
//! `ARCHITECTURE.md` in the repository maps the modules, `docs/extending.md` says how to add a
//! manifold, a method and more, `docs/notation.md` explains symbols and words.

pub mod atomic;
pub mod brownian;
pub mod check;
pub mod checkpoint;
pub mod data;
pub mod density;
pub mod directional;
pub mod divergence;
mod em;
pub mod error;
pub mod evaluation;
pub mod field;
pub mod fit;
pub mod flow_density;
pub mod hash;
pub mod heat_kernel;
#[doc(hidden)]
pub mod internals;
pub mod likelihood;
pub mod linalg;
pub mod loss;
pub mod manifold;
pub mod mass;
pub mod methods;
pub mod mixture;
pub mod model;
mod network;
pub mod nn;
pub mod ode;
pub mod optim;
pub mod parallel;
pub mod path;
pub mod points;
pub mod prior;
pub mod rng;
pub mod rows;
pub mod sample;
pub mod sde;
pub mod stats;
pub mod time;
pub mod train;
mod transport;
pub mod watch;

pub use fit::fit;
pub use points::Points;
