//! The layer rule: a module uses only modules of a lower rank. Keeps `nn` free of geometry and solvers free of networks.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

/// Module → the modules it may use besides itself.
const ALLOWED: [(&str, &[&str]); 33] = [
    ("error", &[]),
    ("atomic", &[]),
    ("rows", &["error"]),
    ("linalg", &[]),
    ("rng", &[]),
    ("parallel", &["error"]),
    ("manifold", &["error", "linalg", "rng"]),
    ("prior", &["error", "linalg", "rng", "manifold"]),
    ("divergence", &["error", "linalg", "rng", "rows", "manifold"]),
    ("brownian", &["linalg", "rng"]),
    ("ode", &["error", "linalg", "rows"]),
    ("sde", &["error", "linalg", "rng", "rows", "manifold", "prior", "brownian"]),
    ("heat_kernel", &["error", "linalg", "rows", "parallel", "manifold", "prior"]),
    (
        "path",
        &["error", "linalg", "rng", "rows", "parallel", "manifold", "prior", "sde", "heat_kernel"],
    ),
    ("data", &["error", "linalg", "rng", "manifold", "heat_kernel"]),
    ("check", &["error", "linalg", "rng", "rows", "manifold", "prior", "divergence", "path"]),
    ("field", &["error", "linalg", "rng", "rows", "manifold", "prior", "divergence"]),
    ("density", &["error", "rows", "manifold"]),
    ("model", &["error", "rows", "manifold", "prior", "field"]),
    (
        "likelihood",
        &[
            "error",
            "linalg",
            "rng",
            "rows",
            "parallel",
            "manifold",
            "prior",
            "divergence",
            "brownian",
            "ode",
            "sde",
            "field",
            "model",
        ],
    ),
    (
        "sample",
        &[
            "error",
            "rng",
            "rows",
            "parallel",
            "divergence",
            "brownian",
            "ode",
            "sde",
            "field",
            "model",
        ],
    ),
    ("ode_density", &["error", "rows", "manifold", "density", "model", "likelihood", "sample"]),
    ("stats", &["rng"]),
    ("mass", &["error", "rng", "rows", "manifold", "prior", "density", "stats"]),
    (
        "mixture",
        &[
            "error",
            "linalg",
            "rng",
            "rows",
            "parallel",
            "manifold",
            "prior",
            "heat_kernel",
            "path",
            "field",
            "density",
        ],
    ),
    ("nn", &["rng", "rows", "error"]),
    ("optim", &["nn"]),
    ("time", &["rng"]),
    ("checkpoint", &["atomic", "nn", "optim"]),
    ("network", &["error", "rows", "field", "nn"]),
    (
        "loss",
        &["error", "linalg", "rng", "rows", "manifold", "prior", "divergence", "heat_kernel", "nn"],
    ),
    (
        "train",
        &[
            "error",
            "rng",
            "rows",
            "manifold",
            "prior",
            "heat_kernel",
            "path",
            "model",
            "nn",
            "optim",
            "time",
            "loss",
            "checkpoint",
            "field",
            "mixture",
        ],
    ),
    ("lib", &[]),
];

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
    let mut violations = Vec::new();
    for file in files {
        let relative = file.strip_prefix(&root).unwrap();
        let first = relative.components().next().unwrap().as_os_str().to_str().unwrap();
        let module = first.trim_end_matches(".rs");
        let Some((_, allowed)) = ALLOWED.iter().find(|(name, _)| *name == module) else {
            violations.push(format!("{module} has no rank"));
            continue;
        };
        for used in used_modules(&std::fs::read_to_string(&file).unwrap()) {
            if used != module && !allowed.contains(&used.as_str()) {
                violations.push(format!("{} uses {used}", relative.display()));
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}
