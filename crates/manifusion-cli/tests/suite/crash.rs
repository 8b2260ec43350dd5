//! A run that is killed at any moment and resumed ends in the same bits as one that is not.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{SMALL_RUN, stderr_of, stdout_of};
use manifusion::rng::Streams;

/// A longer small run with a learned proposal, ActNorm and a checkpoint every few steps.
fn arguments(out: &str) -> Vec<&str> {
    let mut args = SMALL_RUN.to_vec();
    args.extend(["--method", "rdm", "--steps", "6000", "--out", out]);
    for setting in [
        "train.times=learned",
        "train.times_every=50",
        "net.actnorm=true",
        "train.checkpoint_seconds=0.02",
        "train.validation_points=20",
    ] {
        args.extend(["--set", setting]);
    }
    // The last of repeated flags counts.
    let first = args.iter().position(|a| *a == "--steps").unwrap();
    args.drain(first..first + 2);
    args
}

/// Starts or resumes the run, and kills it after `delay` unless it is done before; says whether it
/// is done.
fn run_for(folder: &Path, delay: Duration) -> bool {
    let begun = folder.join("killed/config.toml").exists();
    let args = if begun { vec!["resume", "killed", "--quiet"] } else { arguments("killed") };
    let mut child = Command::new(env!("CARGO_BIN_EXE_manifusion"))
        .args(args)
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + delay;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= end {
            // SIGKILL on Unix.
            child.kill().unwrap();
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    child.wait().unwrap();
    folder.join("killed/model.safetensors").exists()
}

#[test]
fn killed_runs_end_in_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    stdout_of(at, &arguments("whole"));
    let mut delays = Streams::new(1, "crash").stream(0, 0);
    let mut kills = 0;
    for _ in 0..20 {
        let delay = Duration::from_secs_f64(0.25 * delays.uniform());
        if run_for(at, delay) {
            break;
        }
        kills += 1;
    }
    assert!(kills >= 10, "only {kills} kills before the run was done: make it longer");
    let mut tries = 0;
    while !run_for(at, Duration::from_secs(30)) {
        tries += 1;
        assert!(tries < 3, "the run never ends");
    }
    let bytes = |run: &str| std::fs::read(at.join(run).join("model.safetensors")).unwrap();
    assert!(bytes("whole") == bytes("killed"), "after {kills} kills");
    let steps = |run: &str| {
        let text = std::fs::read_to_string(at.join(run).join("metrics.jsonl")).unwrap();
        let step = |line: &str| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["step"].as_u64().unwrap()
        };
        text.lines().map(step).collect::<Vec<_>>()
    };
    assert_eq!(steps("whole"), steps("killed"), "every step is logged once");
}

#[test]
fn damaged_files_are_named_and_nothing_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut args = SMALL_RUN.to_vec();
    args.extend(["--method", "rdm", "--out", "run"]);
    stdout_of(at, &args);
    let file = |name: &str| at.join("run").join(name);
    let model = std::fs::read(file("model.safetensors")).unwrap();

    // Begun but not finished, with a checkpoint that was cut off.
    std::fs::remove_file(file("model.safetensors")).unwrap();
    std::fs::write(file("checkpoint.safetensors"), &model[..1000]).unwrap();
    let error = stderr_of(at, &["resume", "run"]);
    assert!(
        error.starts_with(
            "error: run/checkpoint.safetensors: the checkpoint is cut off: 1000 bytes of"
        ),
        "{error}"
    );
    assert_eq!(std::fs::read(file("checkpoint.safetensors")).unwrap().len(), 1000);
    assert!(!file("model.safetensors").exists());

    // Models of another kind, of a later format, and none.
    std::fs::write(file("model.safetensors"), b"not a model at all, only text").unwrap();
    let error = stderr_of(at, &["evaluate", "run"]);
    assert!(error.contains("run/model.safetensors: the file is not a safetensors file"), "{error}");
    let text = String::from_utf8_lossy(&model).into_owned();
    assert!(text.contains(r#"\"format_version\":1"#));
    let needle = br#"\"format_version\":1"#;
    let place = model.windows(needle.len()).position(|w| w == needle).unwrap();
    let mut later = model.clone();
    later[place + needle.len() - 1] = b'9';
    std::fs::write(file("model.safetensors"), &later).unwrap();
    let error = stderr_of(at, &["evaluate", "run"]);
    assert!(
        error.contains("the checkpoint has format 9, this program reads up to 1; update it"),
        "{error}"
    );
    std::fs::remove_file(file("model.safetensors")).unwrap();
    let error = stderr_of(at, &["sample", "run"]);
    assert_eq!(
        error,
        "error: run has no model yet: its run was not finished; go on with 'manifusion resume run'\n"
    );
    std::fs::write(file("model.safetensors"), &model).unwrap();
    let error = stderr_of(at, &["resume", "run"]);
    assert_eq!(error, "error: the run in run is finished; nothing to do\n");
    let split = std::fs::read_to_string(file("split.json")).unwrap();
    std::fs::write(file("split.json"), split.replacen("\"seed\":0", "\"seed\":1", 1)).unwrap();
    let error = stderr_of(at, &["evaluate", "run"]);
    assert_eq!(error, "error: run/split.json was changed: its hash does not fit\n");
}

/// A write that fails in the middle of a file, as on a full disk (here by a limit on the size of
/// files): one sentence, no half file, and the run goes on from there once there is room.
#[cfg(unix)]
#[test]
fn a_write_that_fails_leaves_a_run_that_can_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut args = SMALL_RUN.to_vec();
    // The checkpoint of this network is larger than a megabyte, everything before it is smaller.
    args.extend([
        "--method",
        "rdm",
        "--set",
        "net.width=256",
        "--set",
        "net.depth=4",
        "--out",
        "run",
    ]);
    let limited = Command::new("bash")
        // A process that ignores the signal gets the error instead.
        .args([
            "-c",
            "trap '' XFSZ; ulimit -f 1000; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_manifusion"),
        ])
        .args(&args)
        .current_dir(at)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&limited.stderr).into_owned();
    assert!(!limited.status.success(), "{message}");
    let error = message.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(error.contains("writing run/checkpoint.safetensors: "), "{message}");
    assert!(error.contains("File too large"), "{message}");
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(at.join("run")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    };
    let left = names();
    assert!(
        !left.iter().any(|name| name.contains("checkpoint") || name.contains("tmp")),
        "{left:?}"
    );
    stdout_of(at, &["resume", "run", "--quiet"]);
    assert!(names().iter().any(|name| name == "model.safetensors"));
}
