//! The library's atomic writing with this crate's errors.

use std::path::Path;

use crate::error::IoError;

/// [`manifusion::atomic::write_atomic`].
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), IoError> {
    manifusion::atomic::write_atomic(path, bytes).map_err(IoError::file(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_the_file_and_leaves_no_sibling() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.bin");
        write_atomic(&path, b"old").unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_write_keeps_the_old_file_and_names_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none").join("a.bin");
        let error = write_atomic(&missing, b"x").unwrap_err().to_string();
        assert!(error.starts_with(&missing.display().to_string()), "{error}");

        // The partial sibling cannot be created where a folder has its name.
        let path = folder.path().join("b.bin");
        write_atomic(&path, b"old").unwrap();
        std::fs::create_dir(folder.path().join("b.bin.partial")).unwrap();
        assert!(write_atomic(&path, b"new").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }
}
