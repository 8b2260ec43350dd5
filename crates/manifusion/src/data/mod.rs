//! Data sets: generated ones with known densities.

mod synthetic;

pub use synthetic::{SYNTHETIC_NAMES, Synthetic};
