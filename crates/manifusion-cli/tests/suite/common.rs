//! Running the binary.
#![allow(dead_code, unreachable_pub, reason = "shared between tests, not every one uses all of it")]

use std::path::Path;
use std::process::{Command, Output};

/// The binary with these arguments, in `folder`.
pub fn manifusion(folder: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_manifusion"))
        .args(args)
        .current_dir(folder)
        .env_remove("MANIFUSION_DATA")
        .output()
        .unwrap()
}

/// Standard output of a call that must succeed.
pub fn stdout_of(folder: &Path, args: &[&str]) -> String {
    let output = manifusion(folder, args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Standard error of a call that must fail with exit code 2.
pub fn stderr_of(folder: &Path, args: &[&str]) -> String {
    let output = manifusion(folder, args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
    stderr
}

/// A run on a generated set that takes a second: the arguments of `train` but for its folder.
pub const SMALL_RUN: [&str; 22] = [
    "train",
    "--data",
    "synthetic:sphere-mixture",
    "--rows",
    "400",
    "--steps",
    "60",
    "--quiet",
    "--set",
    "net.width=16",
    "--set",
    "net.fourier=4",
    "--set",
    "net.depth=2",
    "--set",
    "train.batch=64",
    "--set",
    "train.validations=4",
    "--set",
    "evaluate.bound_points=3",
    "--set",
    "evaluate.mass_points=300",
];
