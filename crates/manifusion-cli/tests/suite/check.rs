//! `manifusion check`, as a user runs it.

use std::process::{Command, Output};

fn manifusion(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_manifusion")).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_good_manifold_passes_with_a_table() {
    let output =
        manifusion(&["check", "--manifold", "sphere:2", "--manifold", "level:x^2+y^2/4+z^2-1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.starts_with("sphere:2 (dimension 2 in R^3)\n  law "), "{table}");
    assert!(table.contains("\nlevel:x^2+y^2/4+z^2-1 (dimension 2 in R^3)\n"), "{table}");
    assert!(
        table.contains("P = P^T") && table.contains("pass") && !table.contains("FAIL"),
        "{table}"
    );
    assert!(output.stderr.is_empty());
}

#[test]
fn json_is_one_object_per_manifold() {
    let output = manifusion(&["check", "--manifold", "torus:2", "--json", "--seed", "3"]);
    assert_eq!(output.status.code(), Some(0));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["manifold"], "torus:2");
    assert_eq!(report["passed"], true);
    assert!(report["checks"].as_array().unwrap().len() > 10);
}

/// Exit 2 and one line for every mistake in the call.
#[test]
fn a_bad_manifold_is_one_line() {
    for (spec, message) in [
        ("blob:3", "error: unknown manifold 'blob'; allowed: sphere:D"),
        ("sphere:0", "error: dimension 0 of sphere is out of range; allowed: 1 to 4096"),
        (
            "level:x^2+y^2+",
            "error: expression 'x^2+y^2+', position 9: the expression ends too early",
        ),
        ("hyperbolic:2,K=3", "error: curvature K = 3 is not allowed"),
    ] {
        let output = manifusion(&["check", "--manifold", spec]);
        assert_eq!(output.status.code(), Some(2), "{spec}");
        let error = text(&output.stderr);
        assert!(error.starts_with(message), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_version_is_printed() {
    let output = manifusion(&["--version"]);
    assert_eq!(text(&output.stdout), format!("manifusion {}\n", env!("CARGO_PKG_VERSION")));
}
