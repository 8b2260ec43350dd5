//! Tables from files as points of manifolds, and back; what is in them twice; and splits that can be trusted.

mod atomic;
mod error;
mod table;

pub use atomic::write_atomic;
pub use error::{BadRows, DataError, IoError, SplitError};
pub use table::{
    Column, FileFormat, Limits, Table, Values, read_table, table_from_bytes, table_to_bytes,
    write_table,
};
