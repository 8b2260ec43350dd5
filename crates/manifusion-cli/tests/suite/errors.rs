//! Wrong calls: exit code 2 and one clear sentence.

use crate::common::stderr_of;

#[test]
fn wrong_calls_get_one_clear_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::create_dir(at.join("empty")).unwrap();
    std::fs::write(at.join("bad.toml"), "[train]\nbatchsize = 3\n").unwrap();
    std::fs::write(at.join("broken.toml"), "[train\n").unwrap();
    std::fs::write(at.join("later.toml"), "format = 7\n").unwrap();
    std::fs::write(at.join("few.csv"), "lat,lon\n1,2\n3,4\n").unwrap();
    let places: Vec<String> = (0..20).map(|i| format!("{i},{}", 2 * i)).collect();
    std::fs::write(at.join("places.csv"), format!("lat,lon\n{}\n95,0\n", places.join("\n")))
        .unwrap();
    std::fs::write(at.join("note.txt"), "hello").unwrap();
    std::fs::write(at.join("rows.csv"), "row,part\n0,train\n1,validation\n400,test\n").unwrap();
    let synthetic = "synthetic:sphere-mixture";
    let cases: &[(&[&str], &str)] = &[
        (&["train", "--data", synthetic], "--out DIR is needed: the folder of the run"),
        (
            &["train", "--out", "r"],
            "no data: give --data FILE, or --data synthetic:NAME (see 'manifusion data list')",
        ),
        (
            &["train", "--data", "places.csv", "--out", "r"],
            "no manifold: give --manifold SPEC, for example sphere:2 for places on the globe or torus:2 for two angles",
        ),
        (
            &["train", "--data", synthetic, "--manifold", "torus:2", "--out", "r"],
            "synthetic:sphere-mixture lives on sphere:2, not on torus:2",
        ),
        (
            &["train", "--data", synthetic, "--config", "broken.toml", "--out", "r"],
            "configuration: ",
        ),
        (
            &["train", "--data", synthetic, "--config", "bad.toml", "--out", "r"],
            "configuration: unknown field `batchsize`, expected one of `loss`,",
        ),
        (
            &["train", "--data", synthetic, "--config", "later.toml", "--out", "r"],
            "the configuration has format 7, this program reads up to 4; update it",
        ),
        (
            &["train", "--data", synthetic, "--config", "absent.toml", "--out", "r"],
            "reading absent.toml: No such file or directory",
        ),
        (
            &["train", "--data", synthetic, "--set", "batch", "--out", "r"],
            "'batch' is not of the form key=value, for example train.batch=256",
        ),
        (
            &[
                "train",
                "--data",
                synthetic,
                "--set",
                "seed.x=1",
                "--set",
                "seed.x.y=1",
                "--out",
                "r",
            ],
            "'seed.x.y': 'x' is a value, not a section",
        ),
        (
            &["train", "--data", synthetic, "--set", "train.batch=0", "--out", "r"],
            "train.batch = 0 is not allowed; at least 1",
        ),
        (
            &["train", "--data", synthetic, "--set", "train.batch=many", "--out", "r"],
            "configuration: invalid type: string \"many\", expected usize",
        ),
        (
            &["train", "--data", "few.csv", "--manifold", "sphere:2", "--rows", "9", "--out", "r"],
            "--rows is for generated sets; a file is read as a whole",
        ),
        (
            &["train", "--data", "absent.csv", "--manifold", "sphere:2", "--out", "r"],
            "absent.csv: No such file or directory (os error 2)",
        ),
        (
            &["train", "--data", synthetic, "--set", "model.local_weights=true", "--out", "r"],
            "model.local_weights is a setting of --method kernel, not of --method stack",
        ),
        (
            &["train", "--data", synthetic, "--minutes", "-1", "--out", "r"],
            "train.minutes = -1 is not allowed; a number above 0",
        ),
        (
            &["train", "--data", synthetic, "--rows", "0", "--out", "r"],
            "data.rows = 0 is not allowed; 1 to 50000000",
        ),
        (
            &["train", "--data", synthetic, "--set", "model.s_min=7", "--out", "r", "--steps", "1"],
            "the interval [7, 6] is not allowed; s_min < T, and s_min > 0 for log s",
        ),
        (
            &["train", "--data", "synthetic:nothing", "--out", "r"],
            "unknown data set 'nothing'; allowed: sphere-mixture,",
        ),
        (&["train", "--data", "few.csv", "--manifold", "sphere:2", "--out", "r"], "few.csv: "),
        (
            &["train", "--data", "places.csv", "--manifold", "sphere:2", "--out", "r"],
            "places.csv: ",
        ),
        (
            &["train", "--data", "absent.csv", "--manifold", "sphere:2", "--out", "r"],
            "absent.csv: ",
        ),
        (
            &["train", "--data", "places.csv", "--manifold", "cube:3", "--out", "r"],
            "unknown manifold 'cube'; allowed: ",
        ),
        (
            &[
                "train",
                "--data",
                "places.csv",
                "--manifold",
                "sphere:2",
                "--as",
                "latitude",
                "--out",
                "r",
            ],
            "",
        ),
        (
            &[
                "train",
                "--data",
                "synthetic:hyperbolic-wrapped",
                "--set",
                "model.noise=brownian",
                "--loss",
                "denoising",
                "--out",
                "r3",
                "--steps",
                "2",
            ],
            "the transition kernel is not known on hyperbolic:2,metric=lorentz; use the implicit loss",
        ),
        (&["resume", "absent"], "absent does not exist"),
        (
            &["resume", "empty"],
            "empty holds no run: it has no config.toml (a run that was stopped before its training began must be started again)",
        ),
        (&["evaluate", "empty"], "empty holds no run"),
        (&["sample", "absent", "--num", "3"], "absent does not exist"),
        (&["info", "absent"], "absent does not exist"),
        (&["plot", "absent"], "absent does not exist"),
        (&["cite", "absent"], "absent does not exist"),
        (
            &["train", "--data", synthetic, "--split", "rows.csv", "--out", "r"],
            "rows.csv: row 400 is not there: there are 300 rows, counted from 0",
        ),
        (
            &["compare", "--data", synthetic, "--methods", "kernel"],
            "--out DIR is needed: the folder of the runs",
        ),
        (
            &["compare", "--methods", "kernel", "--out", "r"],
            "no data: give --data FILE, or --data synthetic:NAME (see 'manifusion data list')",
        ),
        (
            &["compare", "--data", synthetic, "--methods", "kernel,kernel", "--out", "r"],
            "method kernel is named twice",
        ),
        (
            &["compare", "--data", synthetic, "--methods", "vmf", "--seeds", "0", "--out", "r"],
            "1 methods and 0 seeds make no comparison; at least one of each",
        ),
        (
            &[
                "compare",
                "--data",
                synthetic,
                "--methods",
                "vmf",
                "--seeds",
                "2",
                "--out",
                "r",
                "--splits",
                "rows.csv",
            ],
            "--seeds 2 and 1 split files do not fit; one file per seed",
        ),
        (
            &[
                "compare",
                "--data",
                synthetic,
                "--methods",
                "vmf",
                "--out",
                "r",
                "--splits",
                "rows.csv",
            ],
            "rows.csv: row 400 is not there: there are 300 rows, counted from 0",
        ),
        (
            &[
                "compare",
                "--data",
                synthetic,
                "--methods",
                "vmf",
                "--set",
                "components=0",
                "--out",
                "r",
            ],
            "components = 0 is not allowed; at least one component",
        ),
        (&["data", "describe", "--data", "places.csv"], "no manifold: give --manifold SPEC"),
        (&["data", "describe", "--data", "note.txt", "--manifold", "sphere:2"], "note.txt: "),
        (&["data", "list", "--threads", "0"], "--threads 0 is not allowed; 1 to 1024"),
    ];
    for (args, expected) in cases {
        let mut args = args.to_vec();
        if args.contains(&synthetic) && !args.contains(&"--rows") {
            args.extend(["--rows", "300"]);
        }
        let error = stderr_of(at, &args);
        let last = error.lines().last().unwrap_or_default();
        assert!(last.starts_with(&format!("error: {expected}")), "{args:?}\n found: {error}\n");
        assert!(error.lines().filter(|l| l.starts_with("error")).count() == 1, "{error}");
        assert!(!error.contains("panicked"), "{error}");
        // A cause is told once.
        assert!(last.matches("os error").count() < 2, "{error}");
    }
}

/// A run whose weights are lost at the first step: no model, and the metrics say why.
#[test]
fn a_run_without_a_finite_validation_ends_in_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut args = crate::common::SMALL_RUN.to_vec();
    let steps = args.iter().position(|arg| *arg == "--steps").unwrap();
    // Fewer than the steps without a finite loss that end a run.
    args[steps + 1] = "4";
    args.extend(["--method", "rdm", "--out", "run"]);
    for setting in ["train.rate=1e8", "train.clip=1e30", "net.zero_output=false"] {
        args.extend(["--set", setting]);
    }
    let message = stderr_of(folder.path(), &args);
    assert!(
        message.contains(
            "error: no validation of the run gave a finite likelihood, so no model is written; "
        ),
        "{message}"
    );
    let metrics = std::fs::read_to_string(folder.path().join("run/metrics.jsonl")).unwrap();
    assert!(metrics.contains("\"validation_error\":\"row 0 at time "), "{metrics}");
    assert!(!folder.path().join("run/model.safetensors").exists());
}
