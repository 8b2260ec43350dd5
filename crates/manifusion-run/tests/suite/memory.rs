//! Runs without a folder.

use std::ops::ControlFlow;

use manifusion::Points;
use manifusion::evaluation::EvaluationOptions;
use manifusion::points::SplitPart;
use manifusion::watch::Watch;
use manifusion_io::{Column, FileFormat, Table};
use manifusion_run::{Config, MemoryRun, StoredRun, load};

/// 120 points on the sphere as columns, with or without names.
fn table(names: Option<[&str; 3]>) -> Table {
    let points = Points::synthetic("sphere-mixture", 120, 0).unwrap();
    let column = |j: usize| points.rows().rows().map(|x| x[j]).collect();
    let name = |j: usize| names.map_or(j.to_string(), |names| names[j].to_owned());
    let columns = (0..3).map(|j| Column::numbers(name(j), column(j))).collect();
    let has_header = names.is_some();
    Table { columns, lines: (0..120).collect(), has_header, format: FileFormat::Npy }
}

fn config(settings: &[&str]) -> Config {
    let mut config = Config::default();
    for setting in settings {
        config.set(setting).unwrap();
    }
    config
}

fn fitted(settings: &[&str], table: Table, watch: &Watch) -> MemoryRun {
    MemoryRun::fit(config(settings).choices().unwrap(), table, watch).unwrap()
}

const NETWORK: [&str; 8] = [
    "method=rdm",
    "manifold=sphere:2",
    "net.width=8",
    "net.depth=1",
    "net.fourier=2",
    "train.batch=16",
    "train.steps=20",
    "train.validations=2",
];

#[test]
fn a_run_in_memory_becomes_a_folder_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let (path, watch) = (folder.path().join("run"), Watch::default());
    for settings in [&NETWORK[..], &["method=kernel", "manifold=sphere:2"]] {
        let path = path.with_extension(settings[0]);
        let run = fitted(settings, table(None), &watch);
        assert!(!run.is_stopped());
        let points = run.rows(table(None)).unwrap();
        let log_p = run.log_density(&points, &watch).unwrap();
        run.save(&path).unwrap();
        // Everything that commands read is there.
        let stored = StoredRun::open(&path).unwrap();
        assert_eq!(stored.split().unwrap().train.len(), 108);
        assert_eq!(stored.judged_part().unwrap(), SplitPart::Validation);
        assert_eq!(stored.points(SplitPart::Validation).unwrap().len(), 12);
        let options = EvaluationOptions { bound_points: 0, mass_points: 0, ..Default::default() };
        let found = stored.evaluate(SplitPart::Validation, &options, 0, &watch).unwrap();
        assert!(found.kernel_nll.is_some() && found.train_seconds.is_some());
        assert_eq!(stored.point_columns(points.coordinates(), &[]).unwrap().len(), 3);
        assert_eq!(load(&path).unwrap().manifold().name(), "sphere:2");
        let again = MemoryRun::open(&path).unwrap();
        assert_eq!(again.log_density(&points, &watch).unwrap(), log_p);
        assert_eq!(again.settings(), run.settings());
        assert_eq!(again.sample(3, 1, &watch).unwrap(), run.sample(3, 1, &watch).unwrap());
        assert_eq!(again.curves().rows.len(), run.curves().rows.len());
        assert!(run.save(&path).is_err());
    }
}

#[test]
fn later_rows_are_read_like_the_training_data() {
    let watch = Watch::default();
    let run = fitted(&["method=kernel", "manifold=sphere:2"], table(None), &watch);
    let plain = run.rows(table(None)).unwrap();
    let turned = {
        let mut named = table(Some(["x", "y", "z"]));
        named.columns.reverse();
        run.rows(named).unwrap()
    };
    assert_eq!(plain.coordinates(), turned.coordinates());
    let mut narrow = table(None);
    narrow.columns.pop();
    let problem = run.rows(narrow).unwrap_err().to_string();
    assert!(problem.contains('2') && problem.contains('3'), "{problem}");
}

#[test]
fn a_stopped_training_leaves_a_model() {
    let mut settings = NETWORK.to_vec();
    settings.push("train.steps=1000000");
    let watch = Watch::new(|progress| {
        let enough = progress.stage == "training" && progress.done >= 5;
        if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let run = fitted(&settings, table(None), &watch);
    assert!(run.is_stopped());
    assert_eq!(run.outcome().unwrap().steps, 5);
    let points = run.rows(table(None)).unwrap();
    let log_p = run.log_density(&points, &Watch::default()).unwrap();
    assert!(log_p.iter().all(|value| value.is_finite()));
}

#[test]
fn the_manifold_must_be_said_and_may_follow_the_columns() {
    let watch = Watch::default();
    let choices = |settings: &[&str]| config(settings).choices().unwrap();
    let none = MemoryRun::fit(choices(&["method=kernel"]), table(None), &watch);
    assert!(none.unwrap_err().to_string().starts_with("no manifold is given"));
    let run = fitted(&["method=kernel", "manifold=euclidean"], table(None), &watch);
    assert_eq!(run.settings().manifold, "euclidean:3");
}
