//! The library's atomic writing with this crate's errors.

use std::path::Path;

use crate::error::IoError;

/// [`manifusion::atomic::write_atomic`].
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), IoError> {
    manifusion::atomic::write_atomic(path, bytes).map_err(IoError::file(path))
}
