//! Reproductions: the catalogue, missing data, runs that are kept, configurations.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use manifusion::manifold::parse;
use manifusion::methods::method;
use manifusion::stats::mean;
use manifusion::watch::Watch;
use manifusion_run::reproduce::{
    Content, Figure, Methods, Origin, Reproduction, Set, TARGETS, Table, Target, VariantRun,
    Wanted, data_folder, settings_markdown, table_markdown, targets,
};
use manifusion_run::{Config, Ended, RunResult};

use crate::root;

fn tables() -> impl Iterator<Item = (&'static Target, &'static Table)> {
    TARGETS.iter().filter_map(|target| match &target.content {
        Content::Table(table) => Some((target, table)),
        Content::Figure(_) => None,
    })
}

fn sets() -> Vec<&'static Set> {
    TARGETS.iter().flat_map(Target::sets).collect()
}

#[test]
fn the_catalogue_fits_together() {
    for (target, table) in tables() {
        for block in table.blocks {
            for published in block.published {
                let (found, expected) = (published.values.len(), table.sets.len());
                assert_eq!(found, expected, "{}, {}", target.name, published.method);
            }
            if let Methods::Named(names) = block.methods {
                for name in names {
                    method(name).unwrap();
                }
            }
        }
    }
    for set in sets() {
        parse(set.manifold).unwrap();
    }
    assert_eq!(targets("all").len(), TARGETS.len());
    assert_eq!(targets("figure7").len(), 1);
}

/// Several K of the KELBO belong to one set of each manifold that a table has.
#[test]
fn one_set_of_each_manifold_has_several_paths() {
    let (mut all, mut swept) = (BTreeSet::new(), Vec::new());
    for (_, table) in tables() {
        for bounds in table.blocks.iter().filter_map(|block| block.bounds.as_ref()) {
            for set in table.sets {
                all.insert(set.manifold);
                assert_eq!(bounds.paths_of(set, 1), [100], "{}", set.id);
                if bounds.paths_of(set, 0).len() > 1 {
                    swept.push(set.manifold);
                }
            }
        }
    }
    swept.sort_unstable();
    assert_eq!(swept, all.into_iter().collect::<Vec<_>>());
}

/// Every set has the paper's settings and ours, and both are settings that a run could have.
#[test]
fn configurations_are_understood() {
    let mut read = 0;
    for set in sets() {
        for kind in ["paper", "best"] {
            let path = root().join(format!("configs/{kind}/{}.toml", set.id));
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
            let choices = Config::parse(&text).unwrap().choices().unwrap();
            assert_eq!(choices.remarks, [""; 0], "{path:?}");
            let (own, asked) = (parse(set.manifold).unwrap(), choices.manifold.unwrap());
            assert_eq!(parse(&asked).unwrap().dim(), own.dim(), "{path:?}");
            if let Origin::Generated(name) = set.origin {
                assert_eq!(choices.data.source, Some(format!("synthetic:{name}")), "{path:?}");
            }
            if kind == "paper" {
                let steps = if set.manifold.starts_with("torus") { 1000 } else { 100 };
                assert_eq!(choices.section["preset"], "paper", "{path:?}");
                assert_eq!(choices.section["train"]["noise_steps"], steps, "{path:?}");
                assert_eq!(choices.section["train"]["times_scale"], "linear", "{path:?}");
                assert_eq!(choices.evaluate.kelbo_paths, 100, "{path:?}");
            }
            read += 1;
        }
    }
    assert!(read >= 2 * 15, "{read}");
}

/// Files that no test reads would go stale unseen.
#[test]
fn every_configuration_belongs_to_a_set() {
    for kind in ["paper", "best"] {
        for entry in std::fs::read_dir(root().join("configs").join(kind)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let id = name.strip_suffix(".toml").unwrap();
            assert!(sets().iter().any(|set| set.id == id), "{kind}/{name}");
        }
    }
}

fn wanted(out: &Path, data: Option<&Path>) -> Wanted {
    Wanted {
        data: data.map(Path::to_path_buf),
        out: out.to_path_buf(),
        minutes: 0.05,
        seeds: 2,
        methods: vec![String::from("kernel")],
        sets: vec![String::from("flood")],
        jobs: None,
    }
}

#[test]
fn without_data_it_says_what_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let (watch, wanted) = (Watch::default(), wanted(&folder.path().join("out"), None));
    let mut work = Reproduction::new(&wanted, &watch, &|_| {}).unwrap();
    let (target, table) = tables().next().unwrap();
    let text = work.table(target, table).unwrap();
    assert!(text.contains("No results yet"), "{text}");
    assert_eq!(work.left_out.len(), 1, "{:?}", work.left_out);
    for part in ["flood.csv", "lat,lon", "4875 rows", "github.com/oxcsml", "MANIFUSION_DATA"] {
        assert!(work.left_out[0].contains(part), "{part}: {:?}", work.left_out);
    }
    let given = Some(PathBuf::from("given"));
    assert_eq!(data_folder(given.clone(), Some(PathBuf::from("environment"))), given);
    assert_eq!(data_folder(None, given.clone()), given);
}

#[test]
fn wishes_that_make_no_sense_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = wanted(folder.path(), None);
    let said = |wanted: &Wanted| {
        let watch = Watch::default();
        let refused = Reproduction::new(wanted, &watch, &|_| {}).err();
        refused.unwrap().to_string()
    };
    assert!(said(&Wanted { minutes: -1.0, ..good.clone() }).contains("-1 minutes"));
    assert!(said(&Wanted { seeds: 0, ..good.clone() }).contains("0 seeds"));
    let sets = vec![String::from("floods")];
    let sentence = said(&Wanted { sets, ..good });
    assert!(sentence.contains("no set floods") && sentence.contains("flood, fire"), "{sentence}");
}

/// A small file in place of a set.
fn write_small(path: &Path) {
    let mut text = String::from("lat,lon\n");
    for i in 0..240 {
        let t = f64::from(i);
        let _ = writeln!(text, "{:.4},{:.4}", 40.0 * (0.7 * t).sin(), 90.0 * (1.3 * t).cos());
    }
    std::fs::write(path, text).unwrap();
}

/// Runs of several sets for a figure, and what has no data.
#[test]
fn a_figure_has_its_runs_from_several_sets() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["flood", "fire"];
    for name in names {
        write_small(&folder.path().join(format!("{name}.csv")));
    }
    let Content::Figure(Figure::Densities { variant, sets, .. }) = &targets("figure1")[0].content
    else {
        panic!("figure 1")
    };
    let (watch, out) = (Watch::default(), folder.path().join("out"));
    let of = |name: &str| name.to_owned();
    let all = vec![of("flood"), of("fire"), of("volcano")];
    let wanted = Wanted { sets: all, ..wanted(&out, Some(folder.path())) };
    let mut work = Reproduction::new(&wanted, &watch, &|_| {}).unwrap();
    let runs = work.density_runs("kernel", variant, sets).unwrap();
    // In the order of the figure.
    let found: Vec<_> = runs.iter().map(|run| run.folder.clone()).collect();
    let folder_of = |name: &str| out.join(format!("runs/{name}/runs/kernel-seed0"));
    assert_eq!(found, names.map(folder_of));
    for name in names {
        assert!(out.join(format!("results/{name}/kernel-seed0.json")).is_file(), "{name}");
    }
    assert_eq!(work.left_out.len(), 1, "{:?}", work.left_out);
    assert!(work.left_out[0].starts_with("volcano.csv is left out"), "{:?}", work.left_out);
    assert_eq!(work.density_runs("kernel", variant, sets).unwrap(), runs);
}

/// Runs, their results, the table; and nothing a second time.
#[test]
fn runs_are_made_once_and_tables_come_from_their_results() {
    let folder = tempfile::tempdir().unwrap();
    write_small(&folder.path().join("flood.csv"));
    let (watch, out) = (Watch::default(), folder.path().join("out"));
    let wanted = wanted(&out, Some(folder.path()));
    let said = Mutex::new(Vec::new());
    let remark = |text: &str| said.lock().unwrap().push(text.to_owned());
    let mut work = Reproduction::new(&wanted, &watch, &remark).unwrap();
    let (target, table) = tables().next().unwrap();
    let first = work.table(target, table).unwrap();
    assert!(work.left_out.is_empty());
    let other = |text: &String| text.contains("not the file of our published numbers");
    assert!(said.lock().unwrap().iter().any(other), "{said:?}");
    // Our row, with both seeds, above the published ones.
    let row = first.lines().find(|line| line.starts_with("| `kernel` |")).unwrap();
    assert!(row.contains("**") && row.contains(" ± ") && row.contains("| exact | here |"), "{row}");
    assert!(first.contains("| RDM | −6.61 ± 0.97 | −0.40 ± 0.05 | 0.43 ± 0.07 | −1.38 ± 0.05 |"));
    assert_eq!(std::fs::read_to_string(out.join("table1.md")).unwrap(), first);
    assert_eq!(table_markdown(target.title, table, &out.join("results")).unwrap(), first);
    // Repeated rows are left out in a block of its own.
    for name in ["flood", "flood-dedup"] {
        assert!(out.join(format!("results/{name}/kernel-seed1.json")).is_file(), "{name}");
    }
    said.lock().unwrap().clear();
    assert_eq!(work.table(target, table).unwrap(), first);
    let done = |text: &&String| text.contains("2 of 2 runs are done already");
    assert_eq!(said.lock().unwrap().iter().filter(done).count(), 2, "{said:?}");
}

/// What shows generated sets needs no data.
#[test]
fn generated_sets_need_no_data() {
    let needs_none = |target: &&Target| {
        target.sets().iter().all(|set| matches!(set.origin, Origin::Generated(_)))
    };
    let names: Vec<&str> = TARGETS.iter().filter(needs_none).map(|target| target.name).collect();
    assert_eq!(names, ["generated", "figure5", "figure6", "figure7"]);
    for target in TARGETS {
        if let Content::Figure(
            Figure::Densities { method: name, .. }
            | Figure::Variants { method: name, .. }
            | Figure::Settings { method: name, .. },
        ) = &target.content
        {
            method(name).unwrap();
        }
    }
}

/// The paper's settings in the catalogue are those of `configs/paper`.
#[test]
fn settings_of_the_catalogue_are_those_of_the_files() {
    let pairs = TARGETS.iter().filter_map(|target| match &target.content {
        Content::Figure(Figure::Settings { sets, .. }) => Some(sets.iter()),
        _ => None,
    });
    let mut compared = 0;
    for both in pairs.flatten() {
        let path = root().join(format!("configs/paper/{}.toml", both.set.id));
        let text = std::fs::read_to_string(&path).unwrap();
        let of_file = Config::parse(&text).unwrap().choices().unwrap().section;
        let mut config = Config::default();
        config.put("method", "rdm");
        config.put("manifold", both.set.manifold);
        for setting in both.paper.settings {
            config.set(setting).unwrap();
        }
        // What the preset sets by itself stands in the files for readers.
        let own = config.choices().unwrap().section;
        for (key, value) in own["train"].as_object().unwrap() {
            assert_eq!(&of_file["train"][key], value, "{path:?}: {key}");
            compared += 1;
        }
        for key in ["noise_steps", "times_gradient", "divergence"] {
            assert_eq!(own["train"].get(key), of_file["train"].get(key), "{path:?}: {key}");
        }
    }
    assert!(compared >= 30, "{compared}");
}

/// Whichever settings are the better ones, the difference is the paper's NLL less ours.
#[test]
fn settings_are_compared_from_their_results() {
    let target = targets("settings")[0];
    let Content::Figure(Figure::Settings { method, sets }) = &target.content else {
        panic!("{}", target.name)
    };
    let result = |name: &str| {
        let path = root().join(format!("results/flood/{name}-seed0.json"));
        let mut result: RunResult =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        result.method = String::from(*method);
        let Ended::Measured(found) = &result.ended else { panic!("{name} failed") };
        (found.log_density.clone(), result)
    };
    let cells = |ours: &RunResult, paper: &RunResult| -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (id, result) in [("flood", ours), ("flood-paper", paper)] {
            let kept = folder.path().join(id);
            std::fs::create_dir(&kept).unwrap();
            let text = serde_json::to_string(result).unwrap();
            std::fs::write(kept.join(format!("{method}-seed0.json")), text).unwrap();
        }
        let text = settings_markdown(target.title, method, sets, folder.path()).unwrap();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| flood")).collect();
        assert_eq!(rows.len(), 1, "sets without results are left out: {text}");
        rows[0].split('|').map(|cell| cell.trim().replace('−', "-")).collect()
    };
    let ((log_p, ours), (log_q, paper)) = (result("rdm"), result("vmf"));
    let differences: Vec<f64> = log_p.iter().zip(&log_q).map(|(p, q)| p - q).collect();
    let found = mean(&differences);
    let cell = |sign: f64| format!("{:.3} ± {:.3}", sign * found.value, found.se);
    assert!(found.value > 0.1, "{found:?}");
    assert_eq!(cells(&ours, &paper)[4], cell(1.0));
    assert_eq!(cells(&paper, &ours)[4], cell(-1.0));
    let failed = RunResult { ended: Ended::Failed(String::from("too stiff")), ..paper };
    assert_eq!(cells(&ours, &failed)[3..6], ["failed", "–", cells(&ours, &ours)[5].as_str()]);
}

/// A run that failed has its curve as far as it came.
#[test]
fn a_failed_run_has_its_curve() {
    let folder = tempfile::tempdir().unwrap();
    write_small(&folder.path().join("flood.csv"));
    let Content::Figure(Figure::Settings { method, sets }) = &targets("settings")[0].content else {
        panic!("settings")
    };
    let (watch, out) = (Watch::default(), folder.path().join("out"));
    let sets_wanted = vec![String::from("flood")];
    let wanted = Wanted { minutes: 0.002, sets: sets_wanted, ..wanted(&out, Some(folder.path())) };
    let mut work = Reproduction::new(&wanted, &watch, &|_| {}).unwrap();
    let titles = |work: &mut Reproduction<'_>| -> Vec<(&'static str, usize, bool)> {
        let runs = work.settings_runs(method, sets).unwrap();
        let [(set, both)] = &runs[..] else { panic!("{}", runs.len()) };
        assert_eq!(set.id, "flood");
        let rows = |run: &VariantRun| run.stored.curves().unwrap().rows.len();
        let has_nll = |run: &VariantRun| run.comparison.methods[0].nll.is_some();
        both.iter().map(|run| (run.title, rows(run), has_nll(run))).collect()
    };
    let before = titles(&mut work);
    assert!(before.iter().all(|(_, rows, has_nll)| *rows > 0 && *has_nll), "{before:?}");
    let kept = out.join("runs/flood-paper/results/rdm-seed0.json");
    let mut result: RunResult =
        serde_json::from_str(&std::fs::read_to_string(&kept).unwrap()).unwrap();
    result.ended = Ended::Failed(String::from("too stiff"));
    std::fs::write(&kept, serde_json::to_string(&result).unwrap()).unwrap();
    let after = titles(&mut work);
    assert_eq!((after[0], after[1].0, after[1].1), (before[0], before[1].0, before[1].1));
    assert!(!after[1].2, "{after:?}");
}
