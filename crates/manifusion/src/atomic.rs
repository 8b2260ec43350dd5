//! Files that are either the old one or the new one, whatever happens in between.

use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Writes `bytes` to `path` so that the file is at every moment either the old one or the complete
/// new one: written to a `.partial` sibling, synced, renamed, and the directory synced. On an error
/// (a full disk) the sibling is removed.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".partial");
    let partial = path.with_file_name(name);
    let written = write_synced(&partial, bytes).and_then(|()| std::fs::rename(&partial, path));
    if let Err(error) = written {
        // The first error is the one to report; a sibling that cannot be removed harms nobody.
        let _ = std::fs::remove_file(&partial);
        return Err(error);
    }
    sync_parent(path)
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
