//! Angles in degrees, numbers of NumPy files, and files that are replaced as a whole.

use manifusion_io::internals::{Number, sin_cos_degrees};
use manifusion_io::write_atomic;

#[test]
fn degrees_are_exact_at_quarter_turns() {
    for (angle, sin, cos) in [
        (0.0, 0.0, 1.0),
        (90.0, 1.0, 0.0),
        (180.0, 0.0, -1.0),
        (-180.0, 0.0, -1.0),
        (270.0, -1.0, 0.0),
        (-90.0, -1.0, 0.0),
        (360.0, 0.0, 1.0),
    ] {
        let (s, c) = sin_cos_degrees(angle);
        assert_eq!((s + 0.0).to_bits(), f64::to_bits(sin), "{angle}");
        assert_eq!((c + 0.0).to_bits(), f64::to_bits(cos), "{angle}");
    }
    for angle in [-359.0f64, -200.5, -45.0, 0.1, 44.9, 45.1, 134.0, 300.0] {
        let (s, c) = sin_cos_degrees(angle);
        assert!((s - angle.to_radians().sin()).abs() < 1e-15, "{angle}");
        assert!((c - angle.to_radians().cos()).abs() < 1e-15, "{angle}");
    }
}

#[test]
fn halves_and_signed_integers_decode() {
    let half = Number::parse("<f2").unwrap();
    for (bits, value) in [
        (0x3c00u16, 1.0),
        (0xc000, -2.0),
        (0x3555, 0.333251953125),
        (0x0001, 2f64.powi(-24)),
        (0x7bff, 65504.0),
        (0x8000, -0.0),
    ] {
        assert_eq!(half.decode(&bits.to_le_bytes()).to_bits(), value.to_bits());
    }
    assert!(half.decode(&0x7c01u16.to_le_bytes()).is_nan());
    let big = Number::parse(">i2").unwrap();
    assert_eq!(big.decode(&[0xff, 0xfe]).to_bits(), (-2f64).to_bits());
    let little = Number::parse("<u4").unwrap();
    assert_eq!(little.decode(&[0xff, 0xff, 0xff, 0xff]).to_bits(), 4294967295f64.to_bits());
    let wide = Number::parse("<i8").unwrap();
    assert_eq!(wide.decode(&(-7i64).to_le_bytes()).to_bits(), (-7f64).to_bits());
}

#[test]
fn replaces_the_file_and_leaves_no_sibling() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.bin");
    write_atomic(&path, b"old").unwrap();
    write_atomic(&path, b"new").unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_failed_write_keeps_the_old_file_and_names_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none").join("a.bin");
    let error = write_atomic(&missing, b"x").unwrap_err().to_string();
    assert!(error.starts_with(&missing.display().to_string()), "{error}");

    // The partial sibling cannot be created where a folder has its name.
    let path = folder.path().join("b.bin");
    write_atomic(&path, b"old").unwrap();
    std::fs::create_dir(folder.path().join("b.bin.partial")).unwrap();
    assert!(write_atomic(&path, b"new").is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
}
