//! What is guessed from a file, what is refused, and the exact sentences.

use manifusion::manifold::parse;
use manifusion_io::{
    DataError, Dataset, Limits, LoadOptions, dataset_from_table, load, table_from_bytes,
};
use std::path::Path;

fn options(form: &str, columns: &str) -> LoadOptions {
    LoadOptions {
        form: (!form.is_empty()).then(|| form.parse().unwrap()),
        columns: (!columns.is_empty()).then(|| columns.split(',').map(str::to_owned).collect()),
        ..LoadOptions::default()
    }
}

fn read(spec: &str, text: &str, options: &LoadOptions) -> Result<Dataset, DataError> {
    let table = table_from_bytes(Path::new("a.csv"), text.as_bytes().to_vec(), &Limits::default())?;
    dataset_from_table(table, &parse(spec).unwrap(), options, String::new())
}

#[test]
fn guesses_say_what_and_why() {
    for (spec, text, note) in [
        ("sphere:2", "lat,lon\n1,2\n", "columns lat, lon read as latlon (degrees)"),
        ("sphere:2", "lng,lat\n1,2\n", "columns lng, lat read as lonlat (degrees)"),
        ("sphere:2", "Dec,RA\n1,2\n", "columns Dec, RA read as latlon (degrees)"),
        (
            "sphere:2",
            "id,latitude (deg),longitude (deg),depth\n1,2,3,4\n",
            "columns latitude (deg), longitude (deg) read as latlon (degrees); not used: id, depth",
        ),
        ("sphere:2", "z,y,x\n0,0,1\n", "columns x, y, z read as xyz"),
        (
            "sphere:2",
            "1,2\n3,120\n",
            "columns 0, 1 read as latlon (degrees): some rows do not fit lonlat",
        ),
        (
            "sphere:2",
            "1,2\n120,3\n",
            "columns 0, 1 read as lonlat (degrees): some rows do not fit latlon",
        ),
        (
            "sphere:2",
            "0.6,0,0.8\n",
            "columns 0, 1, 2 read as xyz: the only form of sphere:2 with 3 columns",
        ),
        (
            "torus:2",
            "phi,psi\n-120.5,3\n",
            "columns phi, psi read as angles-deg: values reach 120.5, beyond 2π",
        ),
        (
            "torus:2",
            "phi_rad,psi_rad\n1,2\n",
            "columns phi_rad, psi_rad read as angles-rad: the names say so",
        ),
        (
            "torus:2",
            "a [deg],b [deg]\n1,2\n",
            "columns a [deg], b [deg] read as angles-deg: the names say so",
        ),
        (
            "torus:2",
            "id,phi,psi,type\n4,-120.5,3,Gly\n",
            "columns phi, psi read as angles-deg: values reach 120.5, beyond 2π; not used: id, type",
        ),
        (
            "torus:2",
            "1,0,0,1\n",
            "columns 0, 1, 2, 3 read as ambient: the only form of torus:2 with 4 columns",
        ),
        ("so:3", "qw,qx,qy,qz\n1,0,0,0\n", "columns qw, qx, qy, qz read as quaternion"),
        ("so:3", "x,y,z,w\n0,0,0,1\n", "columns x, y, z, w read as quaternion-xyzw"),
        (
            "so:3",
            "phi1,Phi,phi2\n10,20,30\n",
            "columns phi1, Phi, phi2 read as euler (degrees): values reach 30, beyond 2π",
        ),
        ("so:3", "rx,ry,rz\n1,0,0\n", "columns rx, ry, rz read as rotvec (radians)"),
        (
            "so:3",
            "1,0,0,0,1,0,0,0,1\n",
            "columns 0, 1, 2, 3, 4, 5, 6, 7, 8 read as matrix: the only form of so:3 with 9 columns",
        ),
        ("hyperbolic:2", "r,theta\n5,1\n", "columns r, theta read as polar (radians)"),
        ("hyperbolic:2", "t,x,y\n1,0,0\n", "columns t, x, y read as lorentz"),
        (
            "hyperbolic:2",
            "x,y\n-0.5,0\n",
            "columns x, y read as poincare: some rows do not fit polar",
        ),
        (
            "euclidean:2",
            "a,b\n5,1\n",
            "columns a, b read as ambient: the only form of euclidean:2 with 2 columns",
        ),
        (
            "sphere:2*torus:1",
            "1,0,0,0,1\n",
            "columns 0, 1, 2, 3, 4 read as ambient: the number of columns is that of the product's own coordinates",
        ),
    ] {
        let data =
            read(spec, text, &LoadOptions::default()).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(data.note.as_deref(), Some(note), "{text}");
    }
}

#[test]
fn what_is_told_is_not_noted() {
    let data = read("sphere:2", "a,b,c\n1,2,3\n", &options("lonlat", "c,a")).unwrap();
    assert_eq!((data.note, data.output.names), (None, vec!["c".to_owned(), "a".to_owned()]));
    let expected = read("sphere:2", "lon,lat\n3,1\n", &LoadOptions::default()).unwrap().points;
    assert_eq!(data.points.coordinates(), expected.coordinates());
    // Names win over positions, with and without picked columns.
    for text in ["lon,lat\n3,1\n", "lat,lon\n1,3\n"] {
        for columns in ["", "lon,lat"] {
            assert_eq!(
                read("sphere:2", text, &options("latlon", columns)).unwrap().points.coordinates(),
                expected.coordinates()
            );
        }
    }
}

#[test]
fn rounded_rows_are_moved_and_it_is_told_how_far() {
    let data =
        read("sphere:2", "x,y,z\n0.6,0,0.8\n0.577,0.577,0.577\n", &LoadOptions::default()).unwrap();
    assert!((data.largest_move - 6.06e-4).abs() < 1e-6, "{}", data.largest_move);
    let exact = read("sphere:2", "lat,lon\n1,2\n", &LoadOptions::default()).unwrap();
    assert!(exact.largest_move < 1e-15);
}

#[test]
fn filters_and_groups() {
    let text = "network,r,theta\nCat3,1,2\nRat,2,3\nCat3,3,4\n";
    let filter = Some(("network".to_owned(), "Cat3".to_owned()));
    let data = read("hyperbolic:2", text, &LoadOptions { filter, ..Default::default() }).unwrap();
    assert_eq!(data.lines, [2, 4]);
    assert_eq!(data.note.as_deref(), Some("columns r, theta read as polar (radians)"));
    let group_by = Some("network".to_owned());
    let data = read("hyperbolic:2", text, &LoadOptions { group_by, ..Default::default() }).unwrap();
    assert_eq!(data.points.groups().unwrap(), ["Cat3", "Rat", "Cat3"]);
    let filter = Some(("n".to_owned(), "1.0".to_owned()));
    let text = "n,a,b\n1,5,6\n2,7,8\n";
    let data = read("euclidean:2", text, &LoadOptions { filter, ..Default::default() }).unwrap();
    assert_eq!(data.points.coordinates(), [5.0, 6.0]);
}

/// Each way in which rows or columns can be wrong, with the sentence that it gets.
#[test]
fn refusals_say_what_is_wrong() {
    for (spec, text, form, columns, sentence) in [
        // Ambiguous.
        (
            "sphere:2",
            "1,2\n3,4\n",
            "",
            "",
            "columns 0, 1 can be read as latlon or lonlat, because every row fits and no header tells; say which with --as",
        ),
        (
            "sphere:2",
            "200,200\n",
            "",
            "",
            "columns 0, 1 can be read as latlon or lonlat, but no form fits every row; say which with --as",
        ),
        (
            "torus:2",
            "phi,psi\n1,2\n3,-3.1\n",
            "",
            "",
            "columns phi, psi can be read as angles-deg or angles-rad, because all values are within ±3.1; say which with --as",
        ),
        (
            "so:3",
            "phi1,Phi,phi2\n1,2,3\n",
            "",
            "",
            "columns phi1, Phi, phi2 can be read as euler or euler-rad, because all values are within ±3; say which with --as",
        ),
        (
            "so:3",
            "1,0,0,0\n",
            "",
            "",
            "columns 0, 1, 2, 3 can be read as quaternion or quaternion-xyzw, because every row fits and no header tells; say which with --as",
        ),
        (
            "hyperbolic:2",
            "x,y\n0.5,0\n",
            "",
            "",
            "columns x, y can be read as polar or poincare, because every row fits and no header tells; say which with --as",
        ),
        // No form.
        (
            "sphere:2",
            "a,b,c,d\n1,2,3,4\n",
            "",
            "",
            "columns a, b, c, d fit no form of sphere:2 (latlon: lat, lon; lonlat: lon, lat; xyz: x, y, z; ambient: x1, x2, x3); pick them with --columns or say the form with --as",
        ),
        (
            "sphere:2",
            "lat_rad,lon_rad\n1,2\n",
            "",
            "",
            "columns lat_rad, lon_rad fit no form of sphere:2 (latlon and lonlat are in degrees, the names say radians); pick them with --columns or say the form with --as",
        ),
        (
            "sphere:2*torus:3",
            "a,b\n1,2\n",
            "",
            "",
            "columns a, b fit no form of sphere:2*torus:3 (ambient: 9, or one form per factor such as latlon*angles-deg); pick them with --columns or say the form with --as",
        ),
        // Told, and wrong.
        (
            "sphere:2",
            "a,b,c\n1,2,3\n",
            "latlon",
            "",
            "form 'latlon' of sphere:2 needs 2 columns, there are 3 (a, b, c); pick them with --columns",
        ),
        (
            "sphere:2",
            "a,b,c\n1,2,3\n",
            "latlon",
            "a,b,c",
            "form 'latlon' of sphere:2 needs 2 columns, there are 3 (a, b, c); pick them with --columns",
        ),
        (
            "torus:2",
            "a,b\n1,2\n",
            "latlon",
            "",
            "form 'latlon' does not describe points of torus:2; its forms are angles-deg, angles-rad, ambient",
        ),
        (
            "sphere:2*torus:3",
            "a,b\n1,2\n",
            "latlon",
            "",
            "sphere:2*torus:3 has 2 factors, 'latlon' names 1 forms; give one per factor or 'ambient'",
        ),
        ("sphere:2", "a,b\n1,2\n", "latlon", "a,c", "there is no column 'c'; the columns are a, b"),
        // Fields.
        ("sphere:2", "lat,lon\n1,2\n,3\n", "", "", "line 3, column 'lat': the field is empty"),
        (
            "sphere:2",
            "lat,lon\n1,2\n4,east\n",
            "",
            "",
            "line 3, column 'lon': 'east' is not a number",
        ),
        (
            "sphere:2",
            "lat,lon\n1,2\n4,nan\n",
            "",
            "",
            "line 3: NaN is not a finite number (1 of 2 rows)",
        ),
        // Rows.
        (
            "sphere:2",
            "lat,lon\n1,2\n\n-135.25,3\n",
            "",
            "",
            "line 4: latitude -135.25 is beyond ±90 degrees (1 of 2 rows); are latitude and longitude swapped?",
        ),
        (
            "sphere:2",
            "lat,lon\n91,200\n",
            "",
            "",
            "line 2: latitude 91 is beyond ±90 degrees (1 of 1 rows)",
        ),
        (
            "sphere:2",
            "lon,lat\n1,135\n",
            "",
            "",
            "line 2: latitude 135 is beyond ±90 degrees (1 of 1 rows); are latitude and longitude swapped?",
        ),
        (
            "sphere:2",
            "lat,lon\n1,400\n",
            "",
            "",
            "line 2: longitude 400 is beyond ±360 degrees (1 of 1 rows)",
        ),
        (
            "sphere:2",
            "x,y,z\n0,0,2\n0,0,1\n",
            "",
            "",
            "line 2: the vector's length is 2.000000, not 1 within 0.001 (1 of 2 rows)",
        ),
        (
            "sphere:2",
            "x,y,z\n0,0,6371\n6371,0,0\n",
            "",
            "",
            "line 2: the vector's length is 6371.000000, not 1 within 0.001; line 3: the vector's length is 6371.000000, not 1 within 0.001 (2 of 2 rows); every row has the length 6371.000000: divide by it",
        ),
        (
            "torus:1",
            "a\n7\n",
            "angles-rad",
            "",
            "line 2: the angle 7 is beyond one turn in radians (1 of 1 rows); the angles seem to be in degrees (--as angles-deg)",
        ),
        (
            "torus:1",
            "a\n700\n",
            "angles-deg",
            "",
            "line 2: the angle 700 is beyond one turn in degrees (1 of 1 rows)",
        ),
        (
            "so:3",
            "qw,qx,qy,qz\n1,0,0,0\n1,1,0,0\n",
            "",
            "",
            "line 3: the quaternion's length is 1.414214, not 1 within 0.001 (1 of 2 rows)",
        ),
        (
            "so:3",
            "qw,qx,qy,qz\n0,0,0,0\n",
            "",
            "",
            "line 2: the quaternion's length is 0.000000, not 1 within 0.001 (1 of 1 rows)",
        ),
        (
            "so:3",
            "1,0,0,0,1,0,0,0,-1\n",
            "",
            "",
            "line 1: the matrix has determinant -1, a reflection and not a point of so:3 (1 of 1 rows)",
        ),
        (
            "so:3",
            "1,0,0,0,1,0,0,0,1.5\n",
            "",
            "",
            "line 1: the row is off so:3 by 1.250e0, more than 0.001 (1 of 1 rows)",
        ),
        (
            "so:3",
            "rx,ry,rz\n90,0,0\n",
            "",
            "",
            "line 2: the rotation vector's length 90 is beyond 2π radians (1 of 1 rows); the angle seems to be in degrees",
        ),
        (
            "so:3",
            "phi1,Phi,phi2\n90,0,10\n",
            "euler-rad",
            "",
            "line 2: the angle 90 is beyond one turn in radians (1 of 1 rows); the angles seem to be in degrees (--as euler)",
        ),
        (
            "hyperbolic:2",
            "r,theta\n-1,0\n",
            "",
            "",
            "line 2: the distance -1 is negative (1 of 1 rows)",
        ),
        (
            "hyperbolic:2",
            "r,theta\n1,180\n",
            "",
            "",
            "line 2: the angle 180 is beyond one turn in radians (1 of 1 rows); the angle seems to be in degrees",
        ),
        (
            "hyperbolic:2",
            "r,theta\n800,1\n",
            "",
            "",
            "line 2: the distance 800 is too large for coordinates on the hyperboloid (1 of 1 rows)",
        ),
        (
            "hyperbolic:2",
            "px,py\n0.8,0.6\n",
            "",
            "",
            "line 2: the point's length 1 is not inside the ball of radius 1 (1 of 1 rows)",
        ),
        (
            "hyperbolic:2",
            "x0,x1,x2\n2,1,0\n",
            "",
            "",
            "line 2: x0 = 2 is not 1.414214, the height above the others (1 of 1 rows)",
        ),
        (
            "stiefel:3,1",
            "1,1,1\n",
            "",
            "",
            "line 1: the row is off stiefel:3,1 by 2.000e0, more than 0.001 (1 of 1 rows)",
        ),
    ] {
        let error = read(spec, text, &options(form, columns)).unwrap_err().to_string();
        assert_eq!(error, sentence, "{spec} {text}");
    }
}

#[test]
fn only_the_first_bad_rows_are_named() {
    let text = format!("lat,lon\n{}", "95,200\n".repeat(9));
    let error = read("sphere:2", &text, &LoadOptions::default()).unwrap_err().to_string();
    let named: Vec<_> =
        (2..7).map(|line| format!("line {line}: latitude 95 is beyond ±90 degrees")).collect();
    assert_eq!(error, format!("{}; and 4 more (9 of 9 rows)", named.join("; ")));
}

#[test]
fn an_empty_filter_and_unknown_forms_list_what_there_is() {
    let filter = Some(("who".to_owned(), "c".to_owned()));
    let options = LoadOptions { filter, ..LoadOptions::default() };
    let error = read("sphere:2", "lat,lon,who\n1,2,a\n3,4,b\n", &options).unwrap_err().to_string();
    assert_eq!(error, "no row has who = 'c'; column 'who' holds a, b");
    let error = "latlon*latlong".parse::<manifusion_io::Forms>().unwrap_err().to_string();
    assert_eq!(
        error,
        "unknown form 'latlong'; allowed: latlon, lonlat, xyz, angles-deg, angles-rad, quaternion, \
         quaternion-xyzw, matrix, euler, euler-rad, rotvec, lorentz, poincare, polar, ambient, or \
         one per factor joined by '*'"
    );
}

#[test]
fn a_problem_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    let manifold = parse("sphere:2").unwrap();
    let message = || load(&path, &manifold, &LoadOptions::default()).unwrap_err().to_string();
    assert_eq!(message(), format!("{}: No such file or directory (os error 2)", path.display()));
    std::fs::write(&path, "lat,lon\n").unwrap();
    assert_eq!(message(), format!("{}: the file has no rows", path.display()));
}
