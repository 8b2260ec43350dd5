//! Distributions of directions, in closed form: von Mises–Fisher on S^d and Kent on S².

mod bessel;
mod kent;
mod vmf;

pub use kent::{Kent, KentMoments};
pub use vmf::VonMisesFisher;

/// Largest concentration: a spread of 3e-4 rad.
pub const MAX_CONCENTRATION: f64 = 1e7;
