//! Tables from files as points of manifolds, and back.
//!
//! ```
//! use manifusion::manifold::parse;
//! use manifusion_io::{LoadOptions, load};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("places.csv");
//! # let text: String = (0..40).map(|i| format!("{},{}\n", i, 3 * i)).collect();
//! # std::fs::write(&path, format!("lat,lon\n{text}"))?;
//! let data = load(&path, &parse("sphere:2")?, &LoadOptions::default())?;
//! assert_eq!(data.note.as_deref(), Some("columns lat, lon read as latlon (degrees)"));
//! assert_eq!(data.points.len(), 40);
//! # Ok(())
//! # }
//! ```
//!
//! `docs/data-forms.md` in the repository states the forms, their conventions and how they are
//! guessed.

mod atomic;
mod dataset;
mod error;
mod form;
#[doc(hidden)]
pub mod internals;
mod table;

pub use atomic::write_atomic;
pub use dataset::{
    Dataset, LoadOptions, OutputForm, dataset_from_table, load, point_columns, save,
};
pub use error::{BadRows, DataError, IoError};
pub use form::{Form, Forms, TOLERANCE};
pub use table::{
    Column, FileFormat, Limits, Table, Values, is_decoding, read_as_written, read_table,
    structured_npy, table_from_bytes, table_to_bytes, write_table,
};
