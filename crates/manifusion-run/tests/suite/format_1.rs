//! Folders that were written before methods had sections of their own: they load, evaluate and go
//! on in the same bits. The files are what version 0.1.0 wrote, with networks of eight units.

use std::path::{Path, PathBuf};

use manifusion::points::SplitPart;
use manifusion::watch::Watch;
use manifusion_run::{RunSettings, StoredRun, Trained, resume};

fn copy_of(name: &str) -> (tempfile::TempDir, PathBuf) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/format_1").join(name);
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let path = folder.path().to_owned();
    (folder, path)
}

#[test]
fn finished_runs_have_the_same_numbers() {
    for name in ["kernel", "network"] {
        let (_folder, path) = copy_of(name);
        let run = StoredRun::open(&path).unwrap();
        let before = run.evaluation(SplitPart::Test).unwrap().unwrap();
        let options = run.settings().evaluate;
        let after = run.evaluate(SplitPart::Test, &options, 0, &Watch::default()).unwrap();
        // Solvers have changed since: by their tolerance, bounds by the length of their steps, and
        // masses by the points that they are found with.
        let mass_error = after.mass_se.unwrap().hypot(before.mass_se.unwrap());
        for (key, a, b, allowed) in [
            ("nll", Some(after.nll), Some(before.nll), if name == "kernel" { 1e-9 } else { 1e-4 }),
            ("kernel_nll", after.kernel_nll, before.kernel_nll, 1e-9),
            ("elbo_nll", after.elbo_nll, before.elbo_nll, 0.01),
            ("kelbo_nll", after.kelbo_nll, before.kelbo_nll, 0.01),
            ("mass", after.mass, before.mass, 4.0 * mass_error),
            ("true_nll", after.true_nll, before.true_nll, 1e-9),
        ] {
            let close = match (a, b) {
                (Some(a), Some(b)) => (a - b).abs() < allowed * (1.0 + b.abs()),
                (a, b) => a == b,
            };
            assert!(close, "{name}: {key} {a:?} {b:?}");
        }
        assert_eq!(after.split_hash, before.split_hash);
    }
}

#[test]
fn a_guided_run_says_what_to_do() {
    let (_folder, path) = copy_of("guided");
    let error = StoredRun::open(&path).err().unwrap().to_string();
    assert!(
        error.contains("guided by a kernel mixture") && error.contains("train again"),
        "{error}"
    );
}

#[test]
fn a_killed_run_goes_on_in_the_same_bits() {
    let ((_a, killed), (_b, whole)) = (copy_of("killed"), copy_of("whole"));
    let Trained::Done(outcome) = resume(&killed, &Watch::default()).unwrap() else {
        panic!("it was not stopped")
    };
    assert_eq!(outcome.steps, 4000);
    let model = |path: &Path| std::fs::read(path.join("model.safetensors")).unwrap();
    assert!(model(&killed) == model(&whole));
}

/// What was not a setting then is what the program did then, and writing it gives the present
/// format.
#[test]
fn settings_come_back_in_the_present_format() {
    let (_folder, path) = copy_of("network");
    let run = StoredRun::open(&path).unwrap();
    let section = &run.settings().section;
    assert_eq!(section["train"]["partitions"], 2);
    assert_eq!(section["train"]["optimiser"], "adam");
    assert_eq!(section["train"]["steps"], 20);
    let text = run.settings().to_toml().unwrap();
    assert!(text.contains("format = 4") && text.contains("[rdm.train]"), "{text}");
    assert_eq!(&RunSettings::parse(&text).unwrap(), run.settings());
}
