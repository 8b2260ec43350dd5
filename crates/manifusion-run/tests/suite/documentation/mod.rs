//! What the documentation says in numbers is what `results/` has.

mod aims;
mod seeds;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use manifusion_run::reproduce::{
    Content, Figure, TARGETS, TimeVariance, Variant, settings_markdown, table_markdown,
    time_variance_markdown,
};
use manifusion_run::{Ended, Measured, RunResult};

use crate::root;

/// What stands between these lines in the documentation is made from `results/`.
const BEGIN: &str = "<!-- made from results/ by UPDATE_DOCS=1 cargo test -p manifusion-run: ";
const END: &str = "<!-- end of what is made from results/ -->";

/// The Markdown of a target from the results that are in the repository.
fn made_from_results(name: &str) -> String {
    let results = root().join("results");
    match name {
        "aims" => return aims::markdown(&results),
        "seeds" => return seeds::markdown(&results),
        _ => {}
    }
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    match &target.content {
        Content::Table(table) => table_markdown(target.title, table, &results).unwrap(),
        Content::Figure(Figure::TimeVariance { variants, .. }) => {
            let read = |variant: &Variant, seed: u64| -> Option<TimeVariance> {
                let file = format!("{name}{}-seed{seed}.json", variant.suffix);
                let text = std::fs::read_to_string(results.join(file)).ok()?;
                Some(serde_json::from_str(&text).unwrap())
            };
            let seeds = |variant| (0..5).filter_map(|seed| read(variant, seed)).collect();
            let found: Vec<(&Variant, Vec<TimeVariance>)> =
                variants.iter().map(|variant| (variant, seeds(variant))).collect();
            assert!(found.iter().all(|(_, seeds)| !seeds.is_empty()), "{name}");
            time_variance_markdown(target.title, &found)
        }
        // Both settings had the same time here, which the tables' runs did not.
        Content::Figure(Figure::Settings { method, sets }) => {
            let kept = results.join(name);
            assert!(kept.is_dir(), "{}", kept.display());
            settings_markdown(target.title, method, sets, &kept).unwrap()
        }
        Content::Figure(_) => panic!("{name} is not made from results/"),
    }
}

#[test]
fn the_tables_of_the_documentation_are_those_of_the_results() {
    let pages: [(&str, &[&str]); 2] = [
        ("docs/results.md", &["table1", "table2", "generated", "aims", "seeds"]),
        ("docs/figures.md", &["figure2", "settings"]),
    ];
    for (page, parts) in pages {
        let path = root().join(page);
        let text = std::fs::read_to_string(&path).unwrap();
        let mut expected = String::new();
        let mut rest = text.as_str();
        let mut found = Vec::new();
        while let Some((before, after)) = rest.split_once(BEGIN) {
            let (name, after) = after.split_once(" -->").unwrap();
            let (_, after) = after.split_once(END).unwrap();
            let made = made_from_results(name);
            // Headings one level down: the page has its own title.
            let made = made.replace("\n#", "\n##").replacen('#', "##", 1);
            let _ = write!(expected, "{before}{BEGIN}{name} -->\n{made}{END}");
            rest = after;
            found.push(name);
        }
        expected += rest;
        assert_eq!(found, parts, "{page}: what is made from results/");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &expected).unwrap();
            continue;
        }
        assert!(text == expected, "{page} and results/ differ; UPDATE_DOCS=1 rewrites the page");
    }
}

/// The results of a set, in order of their files' names.
fn results_of(results: &Path, set: &str) -> Vec<RunResult> {
    let Ok(entries) = std::fs::read_dir(results.join(set)) else { return Vec::new() };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap();
    paths.iter().map(|path| serde_json::from_str(&read(path)).unwrap()).collect()
}

/// What a method has on each seed.
fn measured<'a>(results: &'a [RunResult], method: &str) -> Vec<(u64, &'a Measured)> {
    let mut found: Vec<(u64, &Measured)> = Vec::new();
    for result in results.iter().filter(|result| result.method == method) {
        match &result.ended {
            Ended::Measured(measured) => found.push((result.seed, measured)),
            Ended::Failed(reason) => panic!("{method}: {reason}"),
        }
    }
    found.sort_by_key(|(seed, _)| *seed);
    found
}

/// Three decimals and a minus sign.
fn three(value: f64) -> String {
    format!("{value:.3}").replace('-', "−")
}
