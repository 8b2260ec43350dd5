//! What tests see and users do not, with no promise to stay. Tests are a program of their own,
//! since tests within the library would compile all of it a second time.

pub use crate::reproduce::variance::{Extent, Quadrature, measure};
