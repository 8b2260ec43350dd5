//! `manifusion reproduce`: what needs no data, and what is said about data that are not there.

use crate::common::{manifusion, stderr_of, stdout_of};
use serde_json::Value;

#[test]
fn a_figure_without_runs_is_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let text = stdout_of(folder.path(), &["reproduce", "figure7", "--out", "out", "--json"]);
    let said: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(said["written"][0], "figure7.png");
    let png = std::fs::read(folder.path().join("out/figure7.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000, "{} bytes", png.len());
}

#[test]
fn missing_data_are_named_with_their_form() {
    let folder = tempfile::tempdir().unwrap();
    let call = ["reproduce", "figure1", "--out", "out", "--json", "--sets", "fire,volcano"];
    let output = manifusion(folder.path(), &call);
    assert_eq!(output.status.code(), Some(1));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let left_out: Vec<&str> =
        said["left_out"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(left_out.len(), 2);
    assert!(left_out[1].contains("fire.csv") && left_out[1].contains("lat,lon"), "{left_out:?}");
}

#[test]
fn calls_that_make_no_sense() {
    let folder = tempfile::tempdir().unwrap();
    let said = |more: &[&str]| {
        let call = [&["reproduce", "figure7", "--out", "out"], more].concat();
        stderr_of(folder.path(), &call)
    };
    assert!(said(&["--seed", "3"]).contains("--seeds"));
    assert!(said(&["--sets", "nowhere"]).contains("no set nowhere"));
    assert!(said(&["--budget-minutes", "0"]).contains("0 minutes"));
    assert!(said(&["--sets", "flood"]).contains("figure7 has none of them"));
}
