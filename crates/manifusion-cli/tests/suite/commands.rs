//! Every command on a small run: files, forms, numbers.

use std::path::Path;

use crate::common::{SMALL_RUN, stdout_of};
use serde_json::Value;

fn train(folder: &Path, out: &str, more: &[&str]) {
    let mut args = SMALL_RUN.to_vec();
    args.extend(["--out", out]);
    args.extend(more);
    stdout_of(folder, &args);
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The fields that a reader of `evaluate --json` may count on.
const FIELDS: [&str; 34] = [
    "method",
    "manifold",
    "dataset",
    "split",
    "seed",
    "dedup",
    "n",
    "nll",
    "nll_se",
    "nll_interval_95",
    "nll_kind",
    "elbo_nll",
    "kelbo_nll",
    "kelbo_k",
    "kelbo_nll_doubled_steps",
    "mass",
    "mass_se",
    "mass_kind",
    "measure",
    "smoothing",
    "loss",
    "s_min",
    "t_end",
    "tolerance",
    "evaluations",
    "train_seconds",
    "threads",
    "eval_seconds",
    "config_hash",
    "split_hash",
    "uniform_nll",
    "kernel_nll",
    "true_nll",
    "test_in_train",
];

#[test]
fn a_run_from_data_to_samples() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    train(at, "run", &["--method", "rdm"]);
    for file in [
        "config.toml",
        "metrics.jsonl",
        "model.safetensors",
        "kernel.safetensors",
        "split.json",
        "data.json",
        "summary.json",
    ] {
        assert!(at.join("run").join(file).is_file(), "{file}");
    }
    assert!(!at.join("run/checkpoint.safetensors").exists(), "of no use after the end");
    let report = json(&stdout_of(at, &["evaluate", "run", "--json"]));
    for field in FIELDS {
        assert!(report.get(field).is_some(), "{field} is missing");
    }
    let number = |name: &str| report[name].as_f64().unwrap();
    assert_eq!(report["n"], 40);
    assert!(report["smoothing"].is_number() && report["members"].is_null());
    // A field of 60 steps is hardly better than none, but it is a density.
    assert!((number("uniform_nll") - (4.0 * std::f64::consts::PI).ln()).abs() < 1e-12);
    assert!(number("nll") < number("uniform_nll") + 0.1 && number("nll") > number("true_nll"));
    assert!((number("mass") - 1.0).abs() < 4.0 * number("mass_se") + 0.01);
    assert_eq!(json(&std::fs::read_to_string(at.join("run/eval.json")).unwrap()), report);
    let text = stdout_of(at, &["evaluate", "run", "--bound-points", "0", "--mass-points", "0"]);
    assert!(text.contains("exact, by the ODE (tolerance 1e-5)"), "{text}");
    let info = stdout_of(at, &["info", "run"]);
    assert!(info.contains("rows       320 training, 40 validation, 40 test"), "{info}");
    let info = json(&stdout_of(at, &["info", "run", "--json"]));
    assert!(info["finished"] == true && info["step"] == info["summary"]["steps"], "{info}");

    // Samples come in the form of the data, in any of the formats, and can be scored again.
    let csv = stdout_of(at, &["sample", "run", "--num", "5", "--steps", "16"]);
    assert!(csv.starts_with("lat,lon\n") && csv.lines().count() == 6, "{csv}");
    assert_eq!(
        csv,
        stdout_of(at, &["sample", "run", "--num", "5", "--steps", "16", "--threads", "1"])
    );
    for file in ["samples.csv", "samples.tsv", "samples.npy", "samples.parquet"] {
        stdout_of(at, &["sample", "run", "--num", "7", "--lambda", "1", "--out", file]);
        let scored =
            json(&stdout_of(at, &["score", "run", "--data", file, "--as", "latlon", "--json"]));
        assert_eq!(scored["n"], 7, "{file}");
        assert!(scored["nll"].as_f64().unwrap().is_finite());
    }
    stdout_of(at, &["score", "run", "--data", "samples.csv", "--out", "scored.csv"]);
    let scored = std::fs::read_to_string(at.join("scored.csv")).unwrap();
    assert!(scored.starts_with("lat,lon,log_density\n"), "{scored}");
}

#[test]
fn scored_rows_keep_their_columns() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    train(at, "run", &["--method", "kernel"]);
    let rows = "station,lat,lon,kind\n007,10.50,20,near\n008,-3,1e2,\"a, b\"\n009,4,5,near\n";
    std::fs::write(at.join("new.csv"), rows).unwrap();
    let score = |args: &[&str]| stdout_of(at, &[&["score", "run"], args].concat());
    let scored = score(&["--data", "new.csv"]);
    for (line, start) in scored.lines().zip([
        "station,lat,lon,kind,log_density",
        "007,10.50,20,near,",
        "008,-3,1e2,\"a, b\",",
        "009,4,5,near,",
    ]) {
        assert!(line.starts_with(start), "{scored}");
    }
    // Only some of the rows; the same densities; a column of an earlier score is replaced.
    std::fs::write(at.join("scored.csv"), &scored).unwrap();
    let some = score(&["--data", "scored.csv", "--where", "kind=near"]);
    let lines: Vec<&str> = scored.lines().collect();
    assert_eq!(some.lines().collect::<Vec<_>>(), [lines[0], lines[1], lines[3]]);
    // Through Parquet and back the numbers stay.
    score(&["--data", "new.csv", "--out", "scored.parquet"]);
    let back = score(&["--data", "scored.parquet"]);
    assert!(back.starts_with("station,lat,lon,kind,log_density\n7.0,10.5,20.0,near,"), "{back}");
    score(&["--data", "new.csv", "--out", "scored.npy"]);

    // Columns without known names are what the training data were.
    std::fs::write(at.join("unnamed.csv"), "north,east\n10.5,20\n-3,100\n").unwrap();
    let renamed = score(&["--data", "unnamed.csv"]);
    let density = |line: &str| line.rsplit(',').next().unwrap().to_owned();
    assert_eq!(density(renamed.lines().nth(1).unwrap()), density(lines[1]));
    std::fs::write(at.join("bare.csv"), "10.5,20\n-3,100\n").unwrap();
    assert!(score(&["--data", "bare.csv"]).starts_with("lat,lon,log_density\n10.5,20,"));
}

#[test]
fn places_on_a_torus_get_a_remark() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: Vec<String> = (0..60).map(|i| format!("{},{}", i - 30, 5 * i - 150)).collect();
    std::fs::write(at.join("places.csv"), format!("latitude,Lon\n{}\n", rows.join("\n"))).unwrap();
    let train = |manifold: &str, run: &str| {
        let data = ["train", "--data", "places.csv", "--method", "kernel"];
        let form = if manifold == "torus:2" { "angles-deg" } else { "latlon" };
        stdout_of(at, &[&data[..], &["--manifold", manifold, "--as", form, "--out", run]].concat());
        std::fs::read_to_string(at.join(run).join("data.json")).unwrap()
    };
    let remark = "look like places on the globe";
    assert!(train("torus:2", "torus").contains(remark));
    assert!(!train("sphere:2", "sphere").contains(remark));
}

#[test]
fn methods_share_split_and_mixture_and_a_stack_tells_its_members() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    train(at, "kernel", &["--method", "kernel"]);
    train(at, "network", &["--method", "rdm"]);
    train(at, "stack", &["--members", "2"]);
    let fast = ["--bound-points", "2", "--mass-points", "200", "--json"];
    let evaluate = |run: &str| {
        let mut args = vec!["evaluate", run];
        args.extend(fast);
        json(&stdout_of(at, &args))
    };
    let (kernel, network, stack) = (evaluate("kernel"), evaluate("network"), evaluate("stack"));
    assert_eq!(kernel["nll_kind"], "closed-form");
    for bound in ["elbo_nll", "kelbo_nll", "kelbo_k", "kelbo_nll_doubled_steps"] {
        assert!(kernel.get(bound).is_some_and(serde_json::Value::is_null), "{bound}");
    }
    assert_eq!(kernel["nll"], kernel["kernel_nll"]);
    assert_eq!(network["kernel_nll"], kernel["nll"], "the same split has the same mixture");
    assert_eq!(network["split_hash"], kernel["split_hash"]);
    // The first network of a stack is that of a run with one.
    assert_eq!(stack["method"], "stack");
    assert_eq!(stack["network_nll"], network["nll"]);
    assert_eq!(stack["kernel_nll"], kernel["nll"]);
    let members = stack["members"].as_array().unwrap();
    let methods: Vec<&str> = members.iter().map(|m| m["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["rdm", "rdm", "parzen"]);
    let weights: f64 = members.iter().map(|m| m["weight"].as_f64().unwrap()).sum();
    assert!((weights - 1.0).abs() < 1e-9);
    assert!(members[0]["nll"] != members[1]["nll"]);
    // It is at least its best member with that one's weight.
    let of = |value: &serde_json::Value| value.as_f64().unwrap();
    for member in members {
        let most = of(&member["nll"]) - of(&member["weight"]).ln();
        assert!(of(&stack["nll"]) < most + 1e-9, "{stack}");
    }
    assert!(of(&stack["kelbo_nll"]) > of(&stack["nll_on_bound_points"]) - 0.2);
    assert!((of(&stack["mass"]) - 1.0).abs() < 4.0 * of(&stack["mass_se"]) + 0.02);
    let text = stdout_of(at, &["evaluate", "stack", "--bound-points", "0", "--mass-points", "0"]);
    assert_eq!(text.matches("member of the stack, weight ").count(), 3, "{text}");
    let csv = stdout_of(at, &["sample", "kernel", "--num", "5"]);
    assert_eq!(csv.lines().count(), 6);
    let csv = stdout_of(at, &["sample", "stack", "--num", "50", "--steps", "16"]);
    let less = stdout_of(at, &["sample", "stack", "--num", "20", "--steps", "16"]);
    assert!(csv.starts_with(&less), "draws do not depend on their number");
}

#[test]
fn methods_are_compared_and_cited() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let arguments = "compare --data synthetic:sphere-mixture --rows 300 --methods kent,vmf,kernel \
                     --seeds 2 --set components=2 --set evaluate.mass_points=200 --out out";
    let arguments: Vec<&str> = arguments.split_whitespace().collect();
    let text = stdout_of(at, &arguments);
    assert!(text.starts_with("synthetic:sphere-mixture on sphere:2; 2 seeds; 30 test points; "));
    let table: Vec<&str> = text.lines().collect();
    assert_eq!(table.len(), 6, "{text}");
    assert!(table[1].contains("test NLL") && table[2].contains(" best "), "{text}");
    for file in ["comparison.md", "comparison.csv", "comparison.json", "plan.json"] {
        assert!(at.join("out").join(file).is_file(), "{file}");
    }
    let bytes = |file: &str| std::fs::read(at.join("out").join(file)).unwrap();
    assert_eq!(&bytes("comparison.png")[1..4], b"PNG");
    assert!(bytes("comparison.svg").starts_with(b"<svg"));
    // Nothing is left to do: the same numbers, those of the runs' own evaluations.
    let found = json(&stdout_of(at, &[&arguments[..], &["--json"]].concat()));
    assert_eq!(found, json(&String::from_utf8(bytes("comparison.json")).unwrap()));
    for row in found["methods"].as_array().unwrap() {
        for seed in 0..2 {
            let run = format!("out/runs/{}-seed{seed}", row["method"].as_str().unwrap());
            let single = json(&stdout_of(at, &["evaluate", &run, "--json"]));
            assert_eq!(row["nll_of_seeds"][seed], single["nll"]);
        }
    }
    let other = [&arguments[..], &["--set", "kent.components=3"]].concat();
    let error = crate::common::stderr_of(at, &other);
    let expected = "error: out holds a comparison with kent.components = 2, and this call has 3; \
                    repeat its arguments or choose another --out\n";
    assert!(error.ends_with(expected), "{error}");

    let entries = stdout_of(at, &["cite", "out/runs/kent-seed0"]);
    assert!(
        entries.contains("@article{kent1982fisher,\n") && entries.contains("@misc{manifusion,")
    );
    let entries = json(&stdout_of(at, &["cite", "out/runs/kernel-seed0", "--json"]));
    assert!(entries["manifusion"].as_str().unwrap().starts_with("@misc{manifusion,\n"));
}

#[test]
fn a_run_takes_its_rows_from_a_split_file() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let part = |row: usize| ["train", "train", "validation", "test"][row % 4];
    let rows: Vec<String> = (0..200).map(|row| format!("{row},{}", part(row))).collect();
    std::fs::write(at.join("rows.csv"), format!("row,part\n{}\n", rows.join("\n"))).unwrap();
    train(at, "run", &["--method", "kernel", "--split", "rows.csv"]);
    let split = json(&std::fs::read_to_string(at.join("run/split.json")).unwrap());
    let mut test: Vec<u64> =
        split["test"].as_array().unwrap().iter().map(|row| row.as_u64().unwrap()).collect();
    test.sort_unstable();
    assert_eq!(test, (0..200).filter(|row| row % 4 == 3).collect::<Vec<_>>());
    // The folder needs the file no more.
    std::fs::remove_file(at.join("rows.csv")).unwrap();
    let fast = ["evaluate", "run", "--bound-points", "0", "--mass-points", "0", "--json"];
    assert_eq!(json(&stdout_of(at, &fast))["n"], 50);
}

#[test]
fn data_are_listed_and_described() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let list = stdout_of(at, &["data", "list"]);
    assert!(list.contains("synthetic:so3-modes") && list.contains("so:3"), "{list}");
    let place = |i: i32| format!("{},{}", 3 * (i / 2) - 20, 5 * (i / 2));
    let places: Vec<String> = (0..30).map(place).collect();
    std::fs::write(at.join("places.csv"), format!("lat,lon\n{}\n", places.join("\n"))).unwrap();
    let args = ["data", "describe", "--data", "places.csv", "--manifold", "sphere:2"];
    let text = stdout_of(at, &args);
    assert!(text.contains("columns lat, lon read as latlon (degrees)"), "{text}");
    assert!(text.contains("15 rows repeat an earlier one exactly"), "{text}");
}

#[test]
fn pictures_and_exports() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    train(at, "run", &["--method", "kernel"]);
    for file in ["map.png", "map.svg", "grid.csv", "grid.npy", "regions.geojson"] {
        stdout_of(at, &["plot", "run", "--evaluations", "500", "--width", "400", "--out", file]);
        assert!(std::fs::metadata(at.join(file)).unwrap().len() > 100, "{file}");
    }
    stdout_of(at, &["report", "run", "--evaluations", "500"]);
    let html = std::fs::read_to_string(at.join("run/report.html")).unwrap();
    assert!(html.contains("synthetic:sphere-mixture"));
}

#[test]
fn the_papers_preset() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let args = "train --data synthetic:sphere-mixture --rows 60 --preset paper --steps 3 --quiet --out run \
                --set train.batch=16 --set train.validations=1 --set train.validation_points=2";
    stdout_of(at, &args.split_whitespace().collect::<Vec<_>>());
    let config = std::fs::read_to_string(at.join("run/config.toml")).unwrap();
    for line in [
        "depth = 5",
        "width = 512",
        "activation = \"sine\"",
        "loss = \"implicit\"",
        "times = \"learned\"",
        "smoothing = 0.0",
        "rate = 0.0002",
        "decay = \"cosine\"",
    ] {
        assert!(config.lines().any(|l| l == line), "{line} is not in\n{config}");
    }
}

/// Off the terminal a line every ten seconds says how far it is; Ctrl-C leaves a run that goes on.
#[cfg(unix)]
#[test]
fn progress_lines_and_an_interrupt() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut args: Vec<&str> = SMALL_RUN.into_iter().filter(|arg| *arg != "--quiet").collect();
    let steps = args.iter().position(|arg| *arg == "--steps").unwrap();
    args.drain(steps..steps + 2);
    let mut child = Command::new(env!("CARGO_BIN_EXE_manifusion"))
        .args(args)
        .args(["--method", "rdm", "--out", "run", "--set", "train.steps=100000000"])
        .args(["--set", "train.validations=1"])
        .current_dir(at)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.find(|line| line.starts_with("training: step ")).unwrap();
    assert!(line.contains(" of 100000000, ") && line.contains(" left; loss "), "{line}");
    Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{rest:?}");
    assert!(
        rest.iter().any(|line| line.starts_with("stopped at step ")
            && line.ends_with(" of 100000000; 'manifusion resume run' goes on")),
        "{rest:?}"
    );
    let info = stdout_of(at, &["info", "run"]);
    assert!(info.contains("state      stopped at step "), "{info}");
}
