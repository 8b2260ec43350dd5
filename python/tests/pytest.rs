//! The tests of the Python package, as part of `cargo test`: in the environment that
//! `python/test.sh` has made, if its wheel is not older than the sources.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// When a file or the newest file of a folder was changed.
fn newest(path: &Path) -> Option<SystemTime> {
    if path.is_file() {
        return path.metadata().ok()?.modified().ok();
    }
    let entries = std::fs::read_dir(path).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| !path.ends_with("__pycache__")).filter_map(|path| newest(&path)).max()
}

#[test]
fn the_python_tests_pass() {
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let (root, made) = (package.join(".."), package.join("../target/python"));
    if std::env::var_os("MANIFUSION_PYTHON_TESTED").is_some() {
        eprintln!("skipped: python/test.sh has run them");
        return;
    }
    let sources = ["python/src", "python/lib", "crates"].map(|path| newest(&root.join(path)));
    let (Some(wheel), Some(sources)) = (newest(&made.join("wheels")), sources.into_iter().max())
    else {
        eprintln!("skipped: run python/test.sh, which installs what they need (python3 with venv)");
        return;
    };
    if Some(wheel) < sources {
        eprintln!("skipped: the installed package is older than its sources; run python/test.sh");
        return;
    }
    let python = made.join("bare/bin/python");
    let tests =
        Command::new(python).args(["-m", "pytest", "-q"]).current_dir(&package).status().unwrap();
    assert!(tests.success(), "{tests}");
}
