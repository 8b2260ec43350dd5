//! Tables from files as points of manifolds, and back; what is in them twice; and splits that can be trusted.
//!
//! ```
//! use manifusion::manifold::parse;
//! use manifusion_io::{LoadOptions, Split, SplitSettings, duplicates, load};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("places.csv");
//! # let text: String = (0..40).map(|i| format!("{},{}\n", i, 3 * i)).collect();
//! # std::fs::write(&path, format!("lat,lon\n{text}"))?;
//! let data = load(&path, parse("sphere:2")?.as_ref(), &LoadOptions::default())?;
//! assert_eq!(data.note.as_deref(), Some("columns lat, lon read as latlon (degrees)"));
//! assert_eq!(duplicates(&data.points, data.width).distinct, 40);
//! let split = Split::of(&data, SplitSettings::default())?;
//! assert_eq!((split.train.len(), split.validation.len(), split.test.len()), (32, 4, 4));
//! # Ok(())
//! # }
//! ```
//!
//! `docs/data-forms.md` in the repository states the forms, their conventions and how they are guessed.

mod atomic;
mod dataset;
mod duplicates;
mod error;
mod form;
mod hash;
mod split;
mod table;

pub use atomic::write_atomic;
pub use dataset::{
    Dataset, LoadOptions, OutputForm, dataset_from_table, load, point_columns, save,
};
pub use duplicates::{DuplicateReport, duplicates};
pub use error::{BadRows, DataError, IoError, SplitError};
pub use form::{Form, Forms, TOLERANCE};
pub use hash::sha256_hex;
pub use split::{Split, SplitSettings};
pub use table::{
    Column, FileFormat, Limits, Table, Values, is_decoding, read_as_written, read_table,
    table_from_bytes, table_to_bytes, write_table,
};
