//! Files that are either the old one or the new one, whatever happens in between.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::error::IoError;

/// Writes `bytes` to `path` so that the file is at every moment either the old one or the complete new one: written
/// to a `.partial` sibling, synced, renamed, and the directory synced. On an error (a full disk) the sibling is removed.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), IoError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let written = write_synced(&partial, bytes).and_then(|()| std::fs::rename(&partial, path));
    if let Err(source) = written {
        // The first error is the one to report; a sibling that cannot be removed harms nobody.
        let _ = std::fs::remove_file(&partial);
        return Err(IoError::File { path: path.to_owned(), source });
    }
    sync_parent(path).map_err(IoError::file(path))
}

fn write_synced(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the rename itself durable. Only Unix lets a directory be opened as a file.
#[cfg(unix)]
fn sync_parent(path: &Path) -> std::io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    File::open(parent)?.sync_all()
}

#[cfg(not(unix))]
fn sync_parent(_path: &Path) -> std::io::Result<()> {
    Ok(())
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
