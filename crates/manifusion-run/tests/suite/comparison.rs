//! Methods beside each other: the numbers of single runs, paired errors, resumption, splits.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use manifusion::evaluation::Evaluation;
use manifusion::points::SplitPart;
use manifusion::watch::Watch;
use manifusion_run::{
    COLUMNS, Comparison, Config, Ended, Measured, MethodRow, Plan, RunResult, Standing, StoredRun,
    compare, read_results,
};
use serde_json::Value as Json;

use crate::folder::stop_at_seven;
use crate::{SMALL, train_in};

/// A generated set and models that are fitted in a moment.
const QUICK: [&str; 5] = [
    "data.source=synthetic:sphere-mixture",
    "data.rows=300",
    "components=2",
    "evaluate.mass_points=200",
    "evaluate.bound_points=0",
];

fn plan(methods: &[&str], seeds: &[u64], settings: &[&str]) -> Plan {
    let mut config = Config::default();
    for setting in settings {
        config.set(setting).unwrap();
    }
    let methods = methods.iter().map(|method| (*method).to_owned()).collect();
    Plan { config, methods, seeds: seeds.to_vec(), ..Plan::default() }
}

fn compare_in(plan: &Plan, out: &Path) -> Comparison {
    compare(plan, out, &Watch::default(), &|_| {}).unwrap()
}

fn row<'a>(found: &'a Comparison, method: &str) -> &'a MethodRow {
    found.methods.iter().find(|row| row.method == method).unwrap()
}

/// A row without its times, which are others in every run.
fn without_times(row: &MethodRow) -> MethodRow {
    let mut row = row.clone();
    (row.train_seconds, row.sample_seconds, row.score_seconds) = (None, None, None);
    row.threads = None;
    row
}

fn same_but_for_times(a: &Comparison, b: &Comparison) {
    let rows = |found: &Comparison| found.methods.iter().map(without_times).collect::<Vec<_>>();
    assert_eq!(rows(a), rows(b));
}

/// Mean and standard deviation, by their definitions.
fn mean_and_std(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (square / (n - 1.0)).sqrt())
}

/// Rounding of sums of some hundred numbers of order one.
fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-12, "{a} {b}");
}

#[test]
fn a_table_has_the_numbers_of_single_runs() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let methods = ["kernel", "vmf", "kent"];
    let found = compare_in(&plan(&methods, &[0, 1], &QUICK), &at.join("comparison"));
    assert_eq!((found.seeds.clone(), found.test_points.clone()), (vec![0, 1], vec![30, 30]));
    assert_eq!(found.runs_left, 0);
    // By hand: the same runs, each alone.
    let mut log_p = Vec::new();
    for method in methods {
        let (mut nlls, mut masses, mut errors, mut of_seeds) = (vec![], vec![], vec![], vec![]);
        let mut parameters = 0;
        for seed in 0..2 {
            let out = at.join(format!("{method}{seed}"));
            let (method, seed) = (format!("method={method}"), format!("seed={seed}"));
            train_in(&out, &[&QUICK[..], &[&method, &seed]].concat());
            let run = StoredRun::open(&out).unwrap();
            let options = run.settings().evaluate;
            let single = run.evaluate(SplitPart::Test, &options, 0, &Watch::default()).unwrap();
            nlls.push(single.nll);
            masses.push(single.mass.unwrap());
            errors.push(single.mass_se.unwrap());
            let model = run.model().unwrap();
            parameters += model.parameters().unwrap();
            let points = run.points(SplitPart::Test).unwrap();
            of_seeds.push(model.log_density(points.rows()).unwrap());
        }
        let row = row(&found, method);
        assert_eq!((row.seeds, &row.nll_of_seeds), (2, &nlls));
        let (nll, std) = mean_and_std(&nlls);
        close(row.nll.unwrap(), nll);
        close(row.nll_std.unwrap(), std);
        close(row.mass.unwrap(), mean_and_std(&masses).0);
        close(row.mass_se.unwrap(), mean_and_std(&errors).0);
        assert_eq!(row.parameters, Some((parameters as f64 / 2.0).round() as usize));
        let times = [row.train_seconds, row.sample_seconds, row.score_seconds];
        assert!(times.iter().all(|seconds| seconds.unwrap() > 0.0), "{row:?}");
        log_p.push((method, of_seeds));
    }
    let best = &found.methods[0];
    assert_eq!((best.standing, best.difference), (Standing::Best, Some(0.0)));
    assert!(found.methods.windows(2).all(|pair| pair[0].nll <= pair[1].nll));
    let of = |name: &str| &log_p.iter().find(|(method, _)| *method == name).unwrap().1;
    for row in &found.methods[1..] {
        let (own, other) = (of(&row.method), of(&best.method));
        let (mut means, mut within) = (Vec::new(), 0.0);
        for seed in 0..2 {
            let d: Vec<f64> = (0..30).map(|i| other[seed][i] - own[seed][i]).collect();
            let (mean, std) = mean_and_std(&d);
            means.push(mean);
            within += std * std / 30.0 / 4.0;
        }
        let (difference, between) = mean_and_std(&means);
        let se = within.sqrt().max(between / 2f64.sqrt());
        close(row.difference.unwrap(), difference);
        close(row.difference_se.unwrap(), se);
        close(row.difference.unwrap(), row.nll.unwrap() - best.nll.unwrap());
        let expected = if difference <= 2.0 * se { Standing::Tie } else { Standing::Worse };
        assert_eq!(row.standing, expected);
    }
}

/// The three files say what the value says, and the value follows from the results alone.
#[test]
fn files_and_results_give_the_same_table() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path();
    let found = compare_in(&plan(&["vmf", "kernel"], &[4], &QUICK), out);
    assert_eq!(Comparison::of(&read_results(out).unwrap()).unwrap(), found);
    let read = |name: &str| std::fs::read_to_string(out.join(name)).unwrap();
    let json: Comparison = serde_json::from_str(&read("comparison.json")).unwrap();
    assert_eq!(json, found);
    let csv = read("comparison.csv");
    let keys: Vec<&str> = COLUMNS.iter().map(|column| column.key).collect();
    assert_eq!(csv.lines().next().unwrap().split(',').collect::<Vec<_>>(), keys);
    assert_eq!(csv.lines().count(), 3);
    let place = keys.iter().position(|key| *key == "nll").unwrap();
    for (line, row) in csv.lines().skip(1).zip(&found.methods) {
        assert_eq!(line.split(',').nth(place).unwrap().parse::<f64>().ok(), row.nll);
    }
    let json: Json = serde_json::from_str(&read("comparison.json")).unwrap();
    let fields: Vec<&str> =
        json["methods"][0].as_object().unwrap().keys().map(String::as_str).collect();
    let mut sorted = keys.clone();
    sorted.sort_unstable();
    assert_eq!(fields, sorted, "the columns are the fields of a row");
    let (markdown, text) = (read("comparison.md"), found.to_string());
    let nll = format!("{:.4}", found.methods[1].nll.unwrap());
    assert!(markdown.contains(&format!("| {nll} |")) && text.contains(&nll), "{markdown}{text}");
    // One seed: no standard deviation, and a paired error from the points alone.
    assert_eq!(found.methods[1].nll_std, None);
    assert!(found.methods[1].difference_se.unwrap() > 0.0);
    // The page about it explains every column.
    let page = include_str!("../../../../docs/comparing.md");
    for key in keys {
        assert!(page.contains(&format!("`{key}`")), "{key} is not in docs/comparing.md");
    }
}

#[test]
fn a_stopped_comparison_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, broken) = (folder.path().join("whole"), folder.path().join("broken"));
    let settings = [&SMALL[1..], &QUICK[2..]].concat();
    let mut plan = plan(&["kernel", "vmf", "rdm"], &[0, 1], &settings);
    let unbroken = compare_in(&plan, &whole);
    // After two runs.
    plan.jobs = Some(1);
    let watch = Watch::new(|progress| match (progress.stage, progress.done) {
        ("runs", 2..) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    let first = compare(&plan, &broken, &watch, &|_| {}).unwrap();
    assert_eq!((first.runs_left, first.methods.len()), (4, 2));
    // A network that is killed at its seventh step.
    stop_at_seven(&broken.join("runs/rdm-seed0"), &[&settings[..], &["method=rdm"]].concat());
    let results = |name: &str| std::fs::read(broken.join("results").join(name)).unwrap();
    let before = results("kernel-seed0.json");
    plan.jobs = None;
    let resumed = compare_in(&plan, &broken);
    same_but_for_times(&resumed, &unbroken);
    // A result has times: one that was made again would differ.
    assert_eq!(results("kernel-seed0.json"), before);
    let model = |out: &Path| std::fs::read(out.join("runs/rdm-seed0/model.safetensors")).unwrap();
    assert!(model(&broken) == model(&whole));
    // Nothing is left: the same table again, times included.
    assert_eq!(compare_in(&plan, &broken), resumed);
}

#[test]
fn runs_by_steps_do_not_depend_on_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let settings = [&SMALL[1..], &QUICK[3..]].concat();
    let mut plan = plan(&["rdm"], &[0, 1], &settings);
    let tables = [1, 2].map(|jobs| {
        plan.jobs = Some(jobs);
        compare_in(&plan, &folder.path().join(jobs.to_string()))
    });
    same_but_for_times(&tables[0], &tables[1]);
}

/// A budget of time is worth the same for the last run as for those that had others beside them.
#[test]
fn a_run_has_its_share_of_the_threads_also_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut plan = plan(&["vmf"], &[0], &QUICK);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    for (jobs, threads) in [(Some(2), 2), (Some(8), 1), (None, 4)] {
        plan.jobs = jobs;
        let out = folder.path().join(format!("{jobs:?}"));
        let found = pool.install(|| compare_in(&plan, &out));
        assert_eq!(row(&found, "vmf").threads, Some(threads), "{jobs:?}");
    }
}

#[test]
fn other_arguments_are_refused_and_more_methods_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let rows: Vec<String> = (0..60).map(|i| format!("{},{}", i - 30, 5 * i - 150)).collect();
    let write = |rows: &[String]| {
        std::fs::write(at.join("places.csv"), format!("lat,lon\n{}\n", rows.join("\n"))).unwrap();
    };
    write(&rows);
    let source = format!("data.source={}", at.join("places.csv").display());
    let base = [&[source.as_str(), "manifold=sphere:2"], &QUICK[2..]].concat();
    let out = at.join("out");
    compare_in(&plan(&["vmf"], &[0], &base), &out);
    let refused = |plan: &Plan| {
        let error = compare(plan, &out, &Watch::default(), &|_| {}).unwrap_err().to_string();
        error
            .strip_prefix(&format!("{} holds a comparison with ", out.display()))
            .unwrap()
            .to_owned()
    };
    let end = "; repeat its arguments or choose another --out";
    for (change, expected) in [
        ("components=3", "vmf.components = 2, and this call has 3"),
        ("evaluate.mass_points=300", "evaluate.mass_points = 200, and this call has 300"),
        ("data.dedup=true", "data.dedup = false, and this call has true"),
        ("data.split=[0.6,0.2,0.2]", "data.split = [0.8,0.1,0.1], and this call has [0.6,0.2,0.2]"),
    ] {
        let found = refused(&plan(&["vmf"], &[0], &[&base[..], &[change]].concat()));
        assert_eq!(found, format!("{expected}{end}"));
    }
    let mut split = plan(&["vmf"], &[0], &base);
    split.splits = vec![split_file(
        at,
        "split.csv",
        &[(0, 40, "train"), (40, 50, "validation"), (50, 60, "test")],
    )];
    assert!(refused(&split).starts_with("splits.0 = nothing, and this call has \""));
    write(&rows[1..]);
    assert!(refused(&plan(&["vmf"], &[0], &base)).starts_with("data.sha256 = \""));
    write(&rows);
    let more = compare_in(&plan(&["vmf", "kernel"], &[0, 1], &base), &out);
    assert_eq!((more.methods.len(), more.methods[0].seeds), (2, 2));
    // A damaged plan is an error with its name.
    let kept = std::fs::read(out.join("plan.json")).unwrap();
    for damaged in ["[1]", "{\"methods\": []}", "{"] {
        std::fs::write(out.join("plan.json"), damaged).unwrap();
        let error = plan_error(&plan(&["vmf"], &[0], &base), &out);
        assert!(error.contains("plan.json"), "{error}");
    }
    std::fs::write(out.join("plan.json"), kept).unwrap();
    // What was asked for before is still part of the plan.
    assert!(
        refused(&plan(&["vmf"], &[1], &[&base[..], &["components=3"]].concat())).contains("vmf")
    );
}

/// A file of ranges of rows with their parts.
fn split_file(at: &Path, name: &str, ranges: &[(usize, usize, &str)]) -> PathBuf {
    let lines = |(first, end, part): &(usize, usize, &str)| {
        (*first..*end).map(|row| format!("{row},{part}")).collect::<Vec<_>>().join("\n")
    };
    let path = at.join(name);
    let text: Vec<String> = ranges.iter().map(lines).collect();
    std::fs::write(&path, format!("row,part\n{}\n", text.join("\n"))).unwrap();
    path
}

#[test]
fn foreign_splits_are_used_exactly() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let mut plan = plan(&["vmf", "kernel"], &[0, 1], &QUICK);
    plan.splits = vec![
        split_file(at, "a.csv", &[(0, 200, "train"), (200, 240, "validation"), (250, 290, "test")]),
        split_file(at, "b.csv", &[(100, 300, "train"), (0, 40, "test"), (40, 100, "validation")]),
    ];
    let out = at.join("out");
    let found = compare_in(&plan, &out);
    assert_eq!(found.test_points, [40, 40]);
    for (seed, ranges) in [(0, [0..200, 200..240, 250..290]), (1, [100..300, 40..100, 0..40])] {
        for method in ["vmf", "kernel"] {
            let run = StoredRun::open(&out.join(format!("runs/{method}-seed{seed}"))).unwrap();
            let parts = [SplitPart::Train, SplitPart::Validation, SplitPart::Test];
            for (part, range) in parts.into_iter().zip(&ranges) {
                let mut rows = run.split().unwrap().part(part).to_vec();
                rows.sort_unstable();
                assert_eq!(rows, range.clone().collect::<Vec<_>>(), "{method} {seed} {part}");
            }
        }
    }
    // Wrong files, before anything runs.
    let refused = |name: &str, text: &str| {
        let file = at.join(name);
        std::fs::write(&file, text).unwrap();
        plan_error(
            &Plan { splits: vec![at.join("a.csv"), file], ..plan.clone() },
            &at.join(name).with_extension("out"),
        )
    };
    let whole = "0,train\n1,validation\n2,test\n";
    for (name, text, expected) in [
        (
            "far.csv",
            format!("row,part\n{whole}300,test\n"),
            "far.csv: row 300 is not there: there are 300 rows, counted from 0",
        ),
        (
            "twice.csv",
            format!("row,part\n{whole}0,test\n"),
            "twice.csv: row 0 is listed twice: in train and in test",
        ),
        (
            "empty.csv",
            String::from("row,part\n0,train\n2,test\n"),
            "empty.csv: there are 1 rows for training, 0 for validation and 1 for test, and each part needs at least one",
        ),
        (
            "half.csv",
            format!("row,part\n{whole}2.5,test\n"),
            "half.csv: line 5: row = 2.5 is not the number of a row, counted from 0",
        ),
        (
            "name.csv",
            format!("row,part\n{whole}4,holdout\n"),
            "name.csv: line 5: part = 'holdout' is not train, validation or test",
        ),
        (
            "columns.csv",
            format!("row,set\n{whole}"),
            "columns.csv: a split file has the columns row and part, and this one has row, set",
        ),
    ] {
        let error = refused(name, &text);
        assert!(error.ends_with(expected), "{error}");
        assert!(!at.join(name).with_extension("out").exists(), "{name}");
    }
    assert_eq!(
        plan_error(&Plan { splits: vec![at.join("a.csv")], ..plan.clone() }, &at.join("few")),
        "there are 1 split files for 2 seeds; one for each"
    );
    plan.config.set("data.dedup=true").unwrap();
    assert_eq!(
        plan_error(&plan, &at.join("dedup")),
        "a split file and data.dedup exclude each other: the file alone says which rows a part has"
    );
}

fn plan_error(plan: &Plan, out: &Path) -> String {
    compare(plan, out, &Watch::default(), &|_| {}).unwrap_err().to_string()
}

#[test]
fn a_method_that_fails_has_a_row_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let settings = [&["data.source=synthetic:torus-mixture"], &QUICK[1..]].concat();
    let found = compare_in(&plan(&["kent", "kernel"], &[0, 1], &settings), &out);
    let methods: Vec<&str> = found.methods.iter().map(|row| row.method.as_str()).collect();
    assert_eq!(methods, ["kernel", "kent"]);
    assert_eq!((found.methods[0].standing, found.methods[0].seeds), (Standing::Best, 2));
    let failed = &found.methods[1];
    assert_eq!((failed.standing, failed.seeds, failed.nll), (Standing::Failed, 0, None));
    let sentence = "method kent is not known on torus:2; it knows the sphere sphere:2";
    assert_eq!(failed.note.as_deref(), Some(sentence));
    for text in [found.to_string(), found.to_markdown()] {
        assert!(text.contains(&format!("kent: {sentence}\n")), "{text}");
    }
}

#[test]
fn plans_without_sense_get_one_clear_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for (methods, seeds, expected) in [
        (&["vmf", "kernel", "vmf"][..], &[0][..], "method vmf is named twice"),
        (&["vmf"], &[3, 3], "seed 3 is named twice"),
        (&[], &[3], "0 methods and 1 seeds make no comparison; at least one of each"),
    ] {
        assert_eq!(plan_error(&plan(methods, seeds, &QUICK), &out), expected);
    }
    let error = plan_error(&plan(&["vnf"], &[0], &QUICK), &out);
    assert!(error.starts_with("unknown method 'vnf'; allowed: "), "{error}");
    let jobs = Plan { jobs: Some(0), ..plan(&["vmf"], &[0], &QUICK) };
    assert_eq!(plan_error(&jobs, &out), "0 runs side by side are not allowed; at least 1");
    assert!(!out.exists());
    // A setting of nobody is said, one of a single method is its own.
    let remarks = std::sync::Mutex::new(Vec::new());
    let settings =
        [&QUICK[..], &["train.batch=8", "rdm.net.width=4", "kernel.local_weights=false"]];
    let plan = plan(&["vmf", "kernel"], &[0], &settings.concat());
    compare(&plan, &out, &Watch::default(), &|text| remarks.lock().unwrap().push(text.to_owned()))
        .unwrap();
    let remarks = remarks.into_inner().unwrap();
    let idle: Vec<&String> =
        remarks.iter().filter(|text| text.contains("setting of none")).collect();
    assert_eq!(
        idle,
        [
            "train.batch is a setting of none of vmf, kernel",
            "rdm.net.width is a setting of none of vmf, kernel"
        ]
    );
    let config = std::fs::read_to_string(out.join("runs/kernel-seed0/config.toml")).unwrap();
    assert!(config.contains("local_weights = false"), "{config}");
}

/// A result with these log-densities of test points.
fn result(method: &str, seed: u64, split: &str, log_density: &[f64]) -> RunResult {
    let mut evaluation = Evaluation::default();
    evaluation.split_hash = Some(split.to_owned());
    let measured = Measured {
        evaluation,
        parameters: None,
        score_seconds: 1.0,
        sample_seconds: 2.0,
        threads: 1,
        log_density: log_density.to_vec(),
    };
    RunResult { method: method.to_owned(), seed, ended: Ended::Measured(Box::new(measured)) }
}

/// The estimator by hand: points within a seed, and the spread of the seeds where it is larger.
#[test]
fn differences_are_paired() {
    let a = [result("a", 0, "s", &[1.0, 2.0, 3.0, 6.0]), result("a", 1, "t", &[1.0, 1.0])];
    // Differences 1, 1, 1, 1 and 2, 2: no error within seeds, and ½ between means 1 and 2.
    let b = [result("b", 0, "s", &[0.0, 1.0, 2.0, 5.0]), result("b", 1, "t", &[-1.0, -1.0])];
    let found = Comparison::of(&[&a[..], &b].concat()).unwrap();
    let other = row(&found, "b");
    assert_eq!((found.methods[0].method.as_str(), other.difference), ("a", Some(1.5)));
    close(other.difference_se.unwrap(), 0.5);
    assert_eq!((other.standing, other.nll), (Standing::Worse, Some(-0.5)));
    // Differences 3, −1, 3, −1 (mean 1, variance 16/3) and 2, 0 (mean 1, variance 2): the means
    // agree, and the points decide: √(16/3/4 + 2/2)/2.
    let b = [result("b", 0, "s", &[-2.0, 3.0, 0.0, 7.0]), result("b", 1, "t", &[-1.0, 1.0])];
    let found = Comparison::of(&[&a[..], &b].concat()).unwrap();
    let other = row(&found, "b");
    close(other.difference_se.unwrap(), (16f64 / 12.0 + 1.0).sqrt() / 2.0);
    assert_eq!((other.difference, other.standing), (Some(1.0), Standing::Tie));
    // A density of zero is worse than any, also after a file; one seed less is not comparable.
    let zero = result("zero", 0, "s", &[1.0, 2.0, 3.0, f64::NEG_INFINITY]);
    let zero: RunResult = serde_json::from_str(&serde_json::to_string(&zero).unwrap()).unwrap();
    let fewer = result("fewer", 1, "t", &[9.0, 9.0]);
    let all = [&a[..], &b, &[zero, result("zero", 1, "t", &[9.0, 9.0]), fewer]].concat();
    let found = Comparison::of(&all).unwrap();
    let order: Vec<&str> = found.methods.iter().map(|row| row.method.as_str()).collect();
    assert_eq!(order, ["a", "b", "zero", "fewer"]);
    assert_eq!(row(&found, "zero").standing, Standing::Worse);
    assert_eq!(row(&found, "zero").nll, Some(f64::INFINITY));
    let fewer = row(&found, "fewer");
    assert_eq!((fewer.difference, fewer.standing), (Some(-8.0), Standing::Better));
    // Other points cannot be paired.
    let error = Comparison::of(&[a[0].clone(), result("b", 0, "u", &[0.0; 4])]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a and b were judged on different splits of seed 0; such results cannot be compared"
    );
}
