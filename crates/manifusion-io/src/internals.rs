//! What tests see and users do not, with no promise to stay. Tests are a program of their own,
//! since tests within the library would compile all of it a second time.

pub use crate::form::convert::sin_cos_degrees;
pub use crate::table::npy::Number;
