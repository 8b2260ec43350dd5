//! Every form against hand-made and scipy's values, and there and back on random points.

use manifusion::manifold::{Family, Lorentz, Manifold, parse};
use manifusion::rng::Streams;
use manifusion_io::{
    Column, Dataset, FileFormat, Form, Forms, LoadOptions, OutputForm, Table, dataset_from_table,
    load, point_columns, save,
};

fn table(columns: Vec<Column>) -> Table {
    let rows = columns[0].len().unwrap() as u64;
    Table { columns, lines: (1..=rows).collect(), has_header: true, format: FileFormat::Csv }
}

/// One row, read in a form.
fn point(spec: &str, form: &str, row: &[f64]) -> Vec<f64> {
    let columns =
        row.iter().enumerate().map(|(i, v)| Column::numbers(format!("c{i}"), vec![*v])).collect();
    let options = LoadOptions { form: Some(form.parse().unwrap()), ..LoadOptions::default() };
    let manifold = parse(spec).unwrap();
    dataset_from_table(table(columns), &manifold, &options, String::new())
        .unwrap()
        .points
        .coordinates()
        .to_vec()
}

/// One point, written in a form.
fn row(spec: &str, form: &str, point: &[f64]) -> Vec<f64> {
    let output = OutputForm { form: form.parse().unwrap(), names: vec![], format: FileFormat::Csv };
    let columns = point_columns(point, parse(spec).unwrap().as_ref(), &output).unwrap();
    let table = table(columns);
    (0..table.columns.len()).map(|i| table.numbers(i).unwrap()[0]).collect()
}

fn assert_near(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (a, b) in found.iter().zip(expected) {
        assert!(
            (a - b).abs() <= tolerance * b.abs().max(1.0),
            "{what}: {found:?} for {expected:?}"
        );
    }
}

/// Within a degree of a pole longitudes lose a digit or more.
#[test]
fn decimals_come_back_as_they_were() {
    for i in 0..2000_i32 {
        let (lat, lon) =
            (f64::from(i * 89 % 177_999 - 88_999) / 1e3, f64::from(i * 179 - 179_000) / 1e3);
        assert_eq!(
            row("sphere:2", "latlon", &point("sphere:2", "latlon", &[lat, lon])),
            [lat, lon]
        );
        let angles = [lon, 2.0 * lat];
        let back = row("torus:2", "angles-deg", &point("torus:2", "angles-deg", &angles));
        assert_eq!(back, angles);
    }
}

#[test]
fn known_points() {
    let half = 0.5f64.sqrt();
    let (cosh, sinh) = (1f64.cosh(), 1f64.sinh());
    for (spec, form, values, expected) in [
        ("sphere:2", "latlon", vec![0.0, 90.0], vec![0.0, 1.0, 0.0]),
        ("sphere:2", "latlon", vec![45.0, 180.0], vec![-half, 0.0, half]),
        ("sphere:2", "latlon", vec![-90.0, 12.0], vec![0.0, 0.0, -1.0]),
        ("sphere:2", "lonlat", vec![-90.0, 0.0], vec![0.0, -1.0, 0.0]),
        ("sphere:2", "xyz", vec![0.6003, 0.0, 0.8004], vec![0.6, 0.0, 0.8]),
        ("torus:2", "angles-deg", vec![60.0, -90.0], vec![0.5, 0.75f64.sqrt(), 0.0, -1.0]),
        ("torus:1", "angles-rad", vec![std::f64::consts::FRAC_PI_4], vec![half, half]),
        ("sphere:1", "angles-deg", vec![135.0], vec![-half, half]),
        ("so:2", "angles-deg", vec![90.0], vec![0.0, -1.0, 1.0, 0.0]),
        ("hyperbolic:2", "polar", vec![1.0, 0.0], vec![cosh, sinh, 0.0]),
        // Curvature -4: distances are halved.
        ("hyperbolic:2,K=-4", "polar", vec![0.5, 0.0], vec![cosh / 2.0, sinh / 2.0, 0.0]),
        // tanh(1/2) in the ball is at distance 1.
        ("hyperbolic:2", "poincare", vec![0.5f64.tanh(), 0.0], vec![cosh, sinh, 0.0]),
        (
            "hyperbolic:2,K=-4",
            "poincare",
            vec![0.0, 0.5f64.tanh() / 2.0],
            vec![cosh / 2.0, 0.0, sinh / 2.0],
        ),
        ("hyperbolic:2", "lorentz", vec![1.414, 1.0, 0.0], vec![2f64.sqrt(), 1.0, 0.0]),
        ("euclidean:2", "ambient", vec![3.0, -4.0], vec![3.0, -4.0]),
        (
            "sphere:2*torus:1",
            "latlon*angles-deg",
            vec![0.0, 0.0, 90.0],
            vec![1.0, 0.0, 0.0, 0.0, 1.0],
        ),
        (
            "sphere:2*torus:1",
            "ambient",
            vec![1.0, 0.0, 0.0, 0.0, 1.0],
            vec![1.0, 0.0, 0.0, 0.0, 1.0],
        ),
    ] {
        assert_near(&point(spec, form, &values), &expected, 1e-15, &format!("{spec} {form}"));
    }
}

struct Golden {
    quaternion: [f64; 4],
    matrix: [f64; 9],
    euler: [f64; 3],
    rotvec: [f64; 3],
}

/// scipy 1.17.1, `Rotation`: `from_quat(scalar_first)`, `as_matrix`, `as_euler("ZXZ", degrees)`,
/// `as_rotvec` (`reference/io_golden.py`).
#[test]
fn rotations_agree_with_scipy() {
    let cases: [Golden; 6] = [
        Golden {
            quaternion: [1.0, 0.0, 0.0, 0.0],
            matrix: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
            euler: [0.0, 0.0, 0.0],
            rotvec: [0.0, 0.0, 0.0],
        },
        Golden {
            quaternion: [0.5, 0.5, 0.5, 0.5],
            matrix: [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
            euler: [90.0, 90.0, 0.0],
            rotvec: [1.2091995761561452, 1.2091995761561452, 1.2091995761561452],
        },
        Golden {
            quaternion: [0.0, 0.6, 0.0, 0.8],
            matrix: [
                -0.28000000000000014,
                0.0,
                0.96,
                0.0,
                -1.0,
                0.0,
                0.96,
                0.0,
                0.28000000000000014,
            ],
            euler: [90.0, 73.73979529168804, 90.0],
            rotvec: [1.8849555921538759, 0.0, 2.5132741228718345],
        },
        Golden {
            quaternion: [
                0.7367399448801996,
                0.5799686609772983,
                0.13155995106814497,
                0.32178033684031665,
            ],
            matrix: [
                0.7582987881957595,
                -0.321535557936072,
                0.5670959643689787,
                0.6267381525729957,
                0.12018753421426415,
                -0.7699053479025092,
                0.17939407997543114,
                0.9392389693801223,
                0.292656663118294,
            ],
            euler: [36.374573285639165, 72.98292630324102, 10.813223255089197],
            rotvec: [1.273814561939613, 0.28895178776776304, 0.706742461088037],
        },
        Golden {
            quaternion: [
                0.509038101510009,
                -0.7706224236586978,
                0.2902296646524681,
                0.2505754040627218,
            ],
            matrix: [
                0.7059574172690394,
                -0.7024198311226546,
                -0.09072213538298657,
                -0.19221011924588954,
                -0.3132939059336036,
                0.9300011820230916,
                -0.6816739653693021,
                -0.6391035200579698,
                -0.35618435617977917,
            ],
            euler: [-174.42839338470435, 110.86604830158545, -133.15391860397145],
            rotvec: [-1.8563636925181453, 0.6991385085767711, 0.6036147769119621],
        },
        Golden {
            quaternion: [
                0.6017296592080054,
                -0.15288667956934,
                -0.020641359096391015,
                -0.7836587361436952,
            ],
            matrix: [
                -0.22909416087935952,
                0.949412986178335,
                0.21478092821970732,
                -0.9367898307621526,
                -0.2749907030481433,
                0.21634446195293683,
                0.264463000118353,
                -0.15164133642587302,
                0.9523991950098317,
            ],
            euler: [135.20778987583597, 17.749361868351087, 119.82967435235585],
            rotvec: [-0.3541762766631488, -0.04781763676613248, -1.8154186756083077],
        },
    ];
    for Golden { quaternion: [w, x, y, z], matrix, euler, rotvec } in cases {
        for (form, values) in [
            ("quaternion", vec![w, x, y, z]),
            ("quaternion", vec![-w, -x, -y, -z]),
            ("quaternion-xyzw", vec![x, y, z, w]),
            ("matrix", matrix.to_vec()),
            ("euler", euler.to_vec()),
            ("euler-rad", euler.map(f64::to_radians).to_vec()),
            ("rotvec", rotvec.to_vec()),
        ] {
            assert_near(&point("so:3", form, &values), &matrix, 1e-14, form);
        }
        assert_near(&row("so:3", "quaternion", &matrix), &[w, x, y, z], 1e-14, "to quaternion");
        assert_near(&row("so:3", "quaternion-xyzw", &matrix), &[x, y, z, w], 1e-14, "to xyzw");
        assert_near(&row("so:3", "rotvec", &matrix), &rotvec, 1e-14, "to rotvec");
        let bunge = row("so:3", "euler", &matrix);
        let turned: Vec<f64> = [0, 2].iter().map(|&i| euler[i].rem_euclid(360.0)).collect();
        if euler[1] > 0.0 {
            assert_near(&[bunge[0], bunge[2]], &turned, 1e-13, "to euler");
        }
        assert_near(&bunge[1..2], &euler[1..2], 1e-13, "to euler");
    }
}

#[test]
fn opposite_quaternions_are_one_point_to_the_last_bit() {
    let q = [0.4492984, -0.7529873, 0.4357347, 0.2031659];
    assert_eq!(point("so:3", "quaternion", &q), point("so:3", "quaternion", &q.map(|v| -v)));
}

/// Points spread over a manifold.
fn random_points(manifold: &dyn Manifold, count: u64) -> Vec<f64> {
    let streams = Streams::new(11, "test points");
    let mut points = Vec::new();
    for row in 0..count {
        let mut point = vec![0.0; manifold.ambient_dim()];
        let mut stream = streams.stream(row, 0);
        if let Family::Hyperboloid { dim, curvature, .. } = manifold.family() {
            let v: Vec<f64> = (0..dim).map(|_| 3.0 * stream.normal()).collect();
            Lorentz::new(dim, curvature).unwrap().exp_origin(&v, &mut point);
        } else if !manifold.sample_uniform(&mut stream, &mut point).unwrap() {
            for x in &mut point {
                *x = stream.normal();
            }
            manifold.project_point(&mut point).unwrap();
        }
        points.extend(point);
    }
    points
}

#[test]
fn every_form_comes_back_through_every_format() {
    let folder = tempfile::tempdir().unwrap();
    let mut covered = std::collections::HashSet::new();
    for spec in [
        "sphere:1",
        "sphere:2",
        "sphere:3",
        "torus:1",
        "torus:7",
        "so:2",
        "so:3",
        "so:4",
        "o:3",
        "hyperbolic:2",
        "hyperbolic:2,K=-0.5",
        "hyperbolic:3",
        "euclidean:3",
        "stiefel:4,2",
        "level:x^2+y^2/4+z^2-1",
    ] {
        let manifold = parse(spec).unwrap();
        let points = random_points(manifold.as_ref(), 50);
        for form in Form::of(manifold.as_ref()) {
            covered.insert(form);
            for format in [FileFormat::Csv, FileFormat::Tsv, FileFormat::Npy, FileFormat::Parquet] {
                let path = folder.path().join("points").with_extension(format.extension());
                let output = OutputForm { form: Forms::single(form), names: vec![], format };
                let density = Column::numbers("log_density", vec![0.5; 50]);
                // A file of numbers alone does not say which column is what.
                let extra = if format == FileFormat::Npy { vec![] } else { vec![density] };
                save(&path, &points, manifold.as_ref(), &output, &extra).unwrap();
                let options = LoadOptions { form: Some(Forms::single(form)), ..Default::default() };
                let Dataset { points: read, output, .. } = load(&path, &manifold, &options)
                    .unwrap_or_else(|e| panic!("{spec} {form}: {e}"));
                assert_eq!(output.format, format);
                for (read, written) in read.rows().rows().zip(points.chunks(manifold.ambient_dim()))
                {
                    manifold.check_point(read).unwrap();
                    let size = written.iter().fold(1f64, |most, x| most.max(x.abs()));
                    for (a, b) in read.iter().zip(written) {
                        // The ball's boundary costs digits: a point at distance r is e^-r from it.
                        let loss = if form == Form::Poincare { size } else { 1.0 };
                        assert!(
                            (a - b).abs() <= 1e-14 * size * loss.max(100.0),
                            "{spec} {form}: {read:?} {written:?}"
                        );
                    }
                }
            }
        }
    }
    assert_eq!(covered.len(), Form::ALL.len(), "a form is not tested");
}

#[test]
fn products_come_back_form_by_form() {
    let manifold = parse("sphere:2*torus:2*so:3*sphere:2").unwrap();
    let points = random_points(manifold.as_ref(), 20);
    for forms in ["ambient", "latlon*angles-deg*quaternion*xyz", "lonlat*angles-rad*rotvec*latlon"]
    {
        let form: Forms = forms.parse().unwrap();
        assert_eq!(form.to_string(), forms);
        let output = OutputForm { form: form.clone(), names: vec![], format: FileFormat::Csv };
        let columns = point_columns(&points, manifold.as_ref(), &output).unwrap();
        let options = LoadOptions { form: Some(form), ..Default::default() };
        let data = dataset_from_table(table(columns), &manifold, &options, String::new()).unwrap();
        assert_near(data.points.coordinates(), &points, 1e-14, forms);
    }
}

#[test]
fn an_output_form_survives_a_configuration_file() {
    let output = OutputForm {
        form: "latlon*angles-deg".parse().unwrap(),
        names: vec!["lat".into(), "lon".into(), "phi".into()],
        format: FileFormat::Parquet,
    };
    let text = serde_json::to_string(&output).unwrap();
    assert_eq!(
        text,
        r#"{"form":"latlon*angles-deg","names":["lat","lon","phi"],"format":"parquet"}"#
    );
    assert_eq!(serde_json::from_str::<OutputForm>(&text).unwrap(), output);
    assert!(serde_json::from_str::<OutputForm>(&text.replace("latlon", "latlong")).is_err());
}

#[test]
fn outputs_keep_the_names_and_order_of_the_input() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.csv");
    std::fs::write(&input, "id,Longitude,Latitude\n7,10,50\n8,20.5,-30\n").unwrap();
    let manifold = parse("sphere:2").unwrap();
    let data = load(&input, &manifold, &LoadOptions::default()).unwrap();
    let output = folder.path().join("out.csv");
    let extra = [Column::numbers("log_density", vec![-1.0, -2.0])];
    save(&output, data.points.coordinates(), manifold.as_ref(), &data.output, &extra).unwrap();
    let text = std::fs::read_to_string(output).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "Longitude,Latitude,log_density");
    assert!(lines[1].starts_with("10.") || lines[1].starts_with("9.99999"), "{text}");
}
