//! Equal points, whatever form they are written in.

use std::path::Path;

use manifusion::manifold::parse;
use manifusion::points::{DuplicateReport, duplicates};
use manifusion_io::{Limits, LoadOptions, dataset_from_table, table_from_bytes};

#[test]
fn equal_points_are_found_however_they_are_written() {
    let count = |spec: &str, text: &str| {
        let table =
            table_from_bytes(Path::new("a.csv"), text.as_bytes().to_vec(), &Limits::default())
                .unwrap();
        let manifold = parse(spec).unwrap();
        let data =
            dataset_from_table(table, &manifold, &LoadOptions::default(), String::new()).unwrap();
        duplicates(data.points.coordinates(), manifold.ambient_dim())
    };
    let report = count(
        "sphere:2",
        "lat,lon\n10,180\n10,-180\n10,-170.1\n10,189.9\n90,5\n90,7\n10,179\n90,8\n",
    );
    let expected =
        DuplicateReport { rows: 8, distinct: 4, repeated_rows: 4, repeated_locations: 3, most: 3 };
    assert_eq!(report, expected);
    let report = count("so:3", "qw,qx,qy,qz\n0.6,0,0,0.8\n-0.6,0,0,-0.8\n0.8,0,0,0.6\n");
    assert_eq!((report.distinct, report.repeated_rows), (2, 1));
    // Near is not equal, also far out on a hyperboloid.
    let report = count("hyperbolic:2", "r,theta\n20,1\n20,1.000001\n20,1\n0.1,1\n0.1000001,1\n");
    assert_eq!((report.distinct, report.most), (4, 2));
    assert_eq!(duplicates(&[], 3).rows, 0);
}
