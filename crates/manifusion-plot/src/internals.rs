//! What tests see and users do not, with no promise to stay. Tests are a program of their own,
//! since tests within the library would compile all of it a second time.

pub use crate::coastline::{FILE as COASTLINE_FILE, coastlines, decode};
pub use crate::contours::signed_area;
pub use crate::distances::distance;
pub use crate::geojson::{polygons, spherical_area};
pub use crate::hyperbola::{distance as plane_distance, on_branch};
pub use crate::report::metrics::table as metrics_table;
pub use crate::svg::Svg;
pub use crate::text::{FACE, fit, number, width};
pub use crate::ticks::Ticks;
