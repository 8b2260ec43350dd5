//! The project's real files load without being told anything, and are what their documentation
//! says.
//!
//! The files are looked for in `$MANIFUSION_DATA`, else in `../shared/data` beside the workspace.
//! Without them the tests say so and pass, except where the variable `CI` is set.
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use manifusion::manifold::parse;
use manifusion::points::{DuplicateReport, Split, SplitSettings, duplicates};
use manifusion_io::{Dataset, LoadOptions, load};
use std::path::PathBuf;

fn folder() -> Option<PathBuf> {
    let folder = match std::env::var_os("MANIFUSION_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
    };
    if folder.is_dir() {
        return Some(folder);
    }
    let message = format!("no data in {}; set MANIFUSION_DATA", folder.display());
    assert!(std::env::var_os("CI").is_none(), "{message}");
    println!("skipped: {message}");
    None
}

fn read(name: &str, spec: &str, options: &LoadOptions) -> Option<Dataset> {
    let path = folder()?.join(name);
    Some(load(&path, &parse(spec).unwrap(), options).unwrap())
}

#[test]
fn every_file_is_recognised() {
    for (name, spec, rows, note) in [
        ("volcano.csv", "sphere:2", 827, "columns lat, lon read as latlon (degrees)"),
        ("earthquake.csv", "sphere:2", 6120, "columns lat, lon read as latlon (degrees)"),
        ("flood.csv", "sphere:2", 4875, "columns lat, lon read as latlon (degrees)"),
        ("fire.csv", "sphere:2", 12809, "columns lat, lon read as latlon (degrees)"),
        ("stars_mag6.csv", "sphere:2", 5044, "columns lat, lon read as latlon (degrees)"),
        (
            "coastline_110m.csv",
            "sphere:2",
            5129,
            "columns lat, lon read as latlon (degrees); not used: segment",
        ),
        (
            "protein_glycine.csv",
            "torus:2",
            7754,
            "columns phi, psi read as angles-deg: values reach 180, beyond 2π",
        ),
        (
            "protein_top500_part.csv",
            "torus:2",
            44627,
            "columns phi, psi read as angles-deg: values reach 179.994, beyond 2π; not used: type",
        ),
        (
            "rna.csv",
            "torus:7",
            9478,
            "columns alpha, beta, gamma, delta, epsilon, zeta, chi read as angles-deg: values reach",
        ),
        ("so3_protein_frames.csv", "so:3", 20000, "columns qw, qx, qy, qz read as quaternion"),
        ("so3_ebsd_titanium.csv", "so:3", 7711, "columns qw, qx, qy, qz read as quaternion"),
        (
            "hyperbolic_connectomes.csv",
            "hyperbolic:2",
            11043,
            "columns r, theta read as polar (radians); not used: network",
        ),
    ] {
        let Some(data) = read(name, spec, &LoadOptions::default()) else { return };
        assert_eq!(data.rows(), rows, "{name}");
        let found = data.note.unwrap();
        assert!(found.starts_with(note), "{name}: {found}");
        assert_eq!(data.lines[rows - 1], rows as u64 + 1, "{name}");
        let manifold = parse(spec).unwrap();
        for point in data.points.rows().rows() {
            manifold.check_point(point).unwrap();
        }
    }
}

/// Counts from the data's own documentation.
#[test]
fn repeats_are_those_of_the_documentation() {
    for (name, distinct, repeated_rows, repeated_locations, most) in [
        ("volcano.csv", 267, 560, Some(138), 27),
        ("earthquake.csv", 5447, 673, Some(392), 24),
        ("flood.csv", 4861, 14, None, 3),
        ("fire.csv", 12802, 7, None, 2),
        ("stars_mag6.csv", 5044, 0, Some(0), 1),
    ] {
        let Some(data) = read(name, "sphere:2", &LoadOptions::default()) else { return };
        let found = duplicates(data.points.coordinates(), data.points.manifold().ambient_dim());
        let repeated_locations = repeated_locations.unwrap_or(found.repeated_locations);
        let rows = distinct + repeated_rows;
        let expected = DuplicateReport { rows, distinct, repeated_rows, repeated_locations, most };
        assert_eq!(found, expected, "{name}");
        let settings = SplitSettings { dedup: true, ..SplitSettings::default() };
        assert_eq!(Split::of(&data.points, settings).unwrap().test_in_train, 0, "{name}");
    }
}

#[test]
fn a_network_is_filtered_and_the_file_is_identified() {
    let filter = Some(("network".to_owned(), "Cat3".to_owned()));
    let options = LoadOptions { filter, ..LoadOptions::default() };
    let Some(data) = read("hyperbolic_connectomes.csv", "hyperbolic:2", &options) else { return };
    assert!(data.rows() >= 29 && data.rows() <= 1770);
    assert_eq!(data.sha256, "7701d28089b7fcfa5e5b0af6afe0c5ff7e557f8631cd4f70c97c63186cdc208f");
    let group_by = Some("network".to_owned());
    let options = LoadOptions { group_by, ..LoadOptions::default() };
    let Some(data) = read("hyperbolic_connectomes.csv", "hyperbolic:2", &options) else { return };
    let split = Split::of(&data.points, SplitSettings::default()).unwrap();
    let groups = data.points.groups().unwrap();
    assert!(split.test.iter().all(|&t| split.train.iter().all(|&r| groups[t] != groups[r])));
}
