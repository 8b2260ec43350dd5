//! The layer rule: a module uses only modules of a lower rank. And what a reader of the code can
//! count on: comments as narrow as the code.

use std::path::{Path, PathBuf};

/// The modules by rank, lowest first.
const RANKS: [&[&str]; 9] = [
    &["atomic", "error", "hash", "linalg", "rng", "watch"],
    &["brownian", "em", "manifold", "parallel", "rows", "stats", "time"],
    &["density", "directional", "divergence", "nn", "ode", "prior"],
    &["field", "heat_kernel", "mass", "optim", "sde"],
    &["checkpoint", "data", "flow_density", "loss", "network", "path"],
    &["check", "mixture", "model", "points", "transport"],
    &["likelihood", "sample", "train"],
    &["methods"],
    &["evaluation", "fit", "internals", "lib"],
];

/// What ranks alone do not say: networks know no geometry, solvers no networks.
const APART: [(&str, &[&str]); 3] =
    [("nn", &["manifold", "parallel"]), ("sde", &["nn"]), ("path", &["nn", "field"])];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Every `crate::name` in the code, tests within a module included.
fn used_modules(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut used = Vec::new();
    for line in code {
        for (at, _) in line.match_indices("crate::") {
            let rest = &line[at + "crate::".len()..];
            let name: String =
                rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if name.chars().next().is_some_and(char::is_lowercase) {
                used.push(name);
            }
        }
    }
    used
}

#[test]
fn modules_use_only_lower_ones() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 30);
    let rank = |module: &str| RANKS.iter().position(|names| names.contains(&module));
    let apart = |module: &str| {
        APART.iter().find(|(name, _)| *name == module).map_or(&[][..], |(_, others)| *others)
    };
    let mut violations = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        let Some(own) = rank(module) else {
            violations.push(format!("{module} has no rank"));
            continue;
        };
        for used in used_modules(&std::fs::read_to_string(&file).unwrap()) {
            let lower = rank(&used).is_some_and(|rank| rank < own);
            if used != module && (!lower || apart(module).contains(&used.as_str())) {
                violations.push(format!("{} uses {used}", relative.display()));
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

/// rustfmt keeps code within 100 columns and leaves comments alone.
#[test]
fn comments_are_as_narrow_as_the_code() {
    const COLUMNS: usize = 100;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 150);
    let mut wide = Vec::new();
    for file in files {
        for (number, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            let is_comment = line.trim_start().starts_with("//");
            if is_comment && line.chars().count() > COLUMNS {
                wide.push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    assert!(wide.is_empty(), "{} comment lines are too wide: {wide:#?}", wide.len());
}
