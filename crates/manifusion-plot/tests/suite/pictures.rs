//! Projections against PROJ, densities against closed forms, small pictures against committed ones,
//! bad input.

use std::f64::consts::{FRAC_PI_2, PI, TAU};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::Exact;
use manifusion::data::Synthetic;
use manifusion::density::Density;
use manifusion::error::SolveError;
use manifusion::manifold::{Manifold, parse};
use manifusion::rows::Rows;
use manifusion::train::MetricsRow;
use manifusion_plot::{
    ComparedMethod, Grid, Measure, Options, Picture, PictureKind, PlotSource, Projection,
    TrainingCurves, draw, draw_comparison, highest_density_regions, to_geojson,
};
use serde_json::Value as Json;

const PROJECTIONS: [Projection; 4] = [
    Projection::Mollweide,
    Projection::Robinson,
    Projection::Equirectangular,
    Projection::Orthographic,
];

/// A von Mises–Fisher law κ/(4π sinh κ)·exp(κ⟨μ,x⟩), with samples that are never asked for.
#[derive(Debug)]
struct Cap {
    manifold: Arc<dyn Manifold>,
    mean: [f64; 3],
    kappa: f64,
}

impl Cap {
    fn new(lon_deg: f64, lat_deg: f64, kappa: f64) -> Self {
        let (lon, lat) = (lon_deg.to_radians(), lat_deg.to_radians());
        let mean = [lat.cos() * lon.cos(), lat.cos() * lon.sin(), lat.sin()];
        Self { manifold: parse("sphere:2").unwrap(), mean, kappa }
    }
}

/// A density that counts the rows it is asked for.
#[derive(Debug)]
struct Counting<D> {
    density: D,
    rows: AtomicUsize,
}

impl<D: Density> Density for Counting<D> {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.density.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        self.rows.fetch_add(x.len(), Ordering::Relaxed);
        self.density.log_density(x)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.density.sample(n, seed)
    }
}

impl Density for Cap {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        let log_z = (4.0 * PI * self.kappa.sinh() / self.kappa).ln();
        let cosine = |x: &[f64]| x.iter().zip(&self.mean).map(|(a, b)| a * b).sum::<f64>();
        Ok(x.rows().map(|x| self.kappa * cosine(x) - log_z).collect())
    }

    fn sample(&self, n: usize, _seed: u64) -> Result<Vec<f64>, SolveError> {
        Ok(self.mean.repeat(n))
    }
}

fn source<'a>(density: &'a dyn Density, data: Option<Rows<'a>>) -> PlotSource<'a> {
    PlotSource { data, samples: data, title: "test", ..PlotSource::new(density) }
}

#[test]
fn projections_agree_with_proj() {
    let golden: Json = serde_json::from_str(include_str!("../golden/projections.json")).unwrap();
    for row in golden["points"].as_array().unwrap() {
        let number = |key: &str| row[key].as_f64().unwrap();
        let projection: Projection = row["projection"].as_str().unwrap().parse().unwrap();
        let mut found =
            projection.forward(number("lon_deg").to_radians(), number("lat_deg").to_radians());
        if projection == Projection::Orthographic {
            // Ours stands left of the middle, with the far side to the right.
            found[0] += projection.extent()[0] - 1.0;
        }
        // PROJ joins Robinson's table by other cubics, of single precision.
        let tolerance = if projection == Projection::Robinson { 1e-3 } else { 1e-9 };
        for (found, expected) in found.into_iter().zip([number("x"), number("y")]) {
            assert!((found - expected).abs() < tolerance, "{row}: {found}");
        }
    }
}

#[test]
fn projections_come_back() {
    for projection in PROJECTIONS {
        for i in -17_i32..=17 {
            for j in -8..=8 {
                let (lon, lat) = (f64::from(10 * i).to_radians(), f64::from(10 * j).to_radians());
                if projection == Projection::Orthographic && i.abs() == 9 {
                    // On the horizon rounding decides whether a point is on the map.
                    continue;
                }
                let (lon2, lat2) = projection.inverse(projection.forward(lon, lat)).unwrap();
                let error = (lon - lon2).abs().max((lat - lat2).abs());
                assert!(error < 1e-9, "{projection} {i} {j}: {error}");
            }
        }
        let [w, h] = projection.extent();
        assert!(projection.inverse([1.01 * w, 0.0]).is_none());
        assert!(
            projection.inverse([0.0, 1.01 * h]).is_none() || projection == Projection::Orthographic
        );
        for p in projection.outline().into_iter().flatten() {
            assert!(p[0].abs() <= w + 1e-9 && p[1].abs() <= h + 1e-9);
        }
    }
}

/// Area of the map per area of the sphere, by differences of the projection.
fn area_factor(projection: Projection, lon: f64, lat: f64) -> f64 {
    let step = 1e-5;
    let difference = |dlon: f64, dlat: f64| {
        let a = projection.forward(lon - dlon, lat - dlat);
        let b = projection.forward(lon + dlon, lat + dlat);
        [(b[0] - a[0]) / (2.0 * step), (b[1] - a[1]) / (2.0 * step)]
    };
    let (u, v) = (difference(step, 0.0), difference(0.0, step));
    (u[0] * v[1] - u[1] * v[0]).abs() / lat.cos()
}

#[test]
fn maps_integrate_to_one() {
    let density = Exact(Synthetic::new("sphere-mixture").unwrap());
    let grid = Grid::new(&source(&density, None), &Options::default()).unwrap();
    for projection in PROJECTIONS {
        let [w, h] = projection.extent();
        let n = 400;
        let side = f64::from(n);
        let pixel = 2.0 * w / side * (2.0 * h / side);
        let centre = |half: f64, i: i32| half * (2.0 * (f64::from(i) + 0.5) / side - 1.0);
        let mut mass = 0.0;
        for i in 0..n {
            for j in 0..n {
                let (x, y) = (centre(w, i), centre(h, j));
                let Some((lon, lat)) = projection.inverse([x, y]) else { continue };
                // Differences would step over the pole or the horizon.
                let factor = area_factor(projection, lon, lat);
                if factor > 1e-3 && lat.abs() < FRAC_PI_2 - 1e-4 {
                    let log_p = grid.at(lon.to_degrees(), lat.to_degrees()).unwrap();
                    mass += log_p.exp() * pixel / factor;
                }
            }
        }
        // Pixels cut by the rim, and interpolation over cells of 1.9°.
        assert!((mass - 1.0).abs() < 0.01, "{projection}: {mass}");
    }
}

#[test]
fn grids_hold_the_mass() {
    for (set, measure, tolerance) in [
        ("sphere-mixture", Measure::Lorentz, 1e-3),
        ("torus-mixture", Measure::Lorentz, 1e-6),
        ("plane-moons", Measure::Lorentz, 1e-3),
        // The midpoints of cells 0.1 long and 1.5° wide.
        ("hyperbolic-mixture", Measure::Lorentz, 2e-3),
        ("hyperbolic-mixture", Measure::Euclid, 2e-3),
    ] {
        let density = Exact(Synthetic::new(set).unwrap());
        let data = density.sample(2000, 3).unwrap();
        let rows = Rows::new(&data, density.manifold().ambient_dim()).unwrap();
        let options = Options { measure, ..Options::default() };
        let mass = Grid::new(&source(&density, Some(rows)), &options).unwrap().mass();
        assert!((mass - 1.0).abs() < tolerance, "{set} {measure:?}: {mass}");
    }
}

/// Evenly spaced points of a map are a third fewer, and what is interpolated is close.
#[test]
fn even_spacing_saves_evaluations() {
    for (lon, lat) in [(30.0, 85.0), (170.0, 50.0), (0.0, 0.0)] {
        let density = Counting { density: Cap::new(lon, lat, 20.0), rows: AtomicUsize::new(0) };
        let mut grids = Vec::new();
        for even_spacing in [false, true] {
            let options = Options { even_spacing, evaluations: 5000, ..Options::default() };
            grids.push(Grid::new(&source(&density, None), &options).unwrap());
        }
        let (full, even) = (&grids[0].log_density, &grids[1].log_density);
        let rows = density.rows.load(Ordering::Relaxed);
        assert!(rows < full.len() * 166 / 100, "{rows} for {} cells", full.len());
        let worst = full.iter().zip(even).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(worst < 0.02, "{lon} {lat}: {worst}");
    }
}

#[test]
fn highest_density_regions_of_a_cap_have_its_area() {
    // Across the antimeridian, over a pole, and in the open.
    for (lon, lat) in [(180.0, 10.0), (30.0, 90.0), (0.0, -90.0), (40.0, -30.0)] {
        let kappa = 8.0;
        let density = Cap::new(lon, lat, kappa);
        let grid = Grid::new(&source(&density, None), &Options::default()).unwrap();
        for region in highest_density_regions(&grid).unwrap() {
            // The mass within an angle of the mean is (1 − e^{−κh})/(1 − e^{−2κ}) with h = 1 − cos;
            // the area is 2πh.
            let height = -(1.0 - region.share * (1.0 - (-2.0 * kappa).exp())).ln() / kappa;
            let area = TAU * height;
            let error = region.area_sr / area - 1.0;
            assert!(error.abs() < 0.01, "{lon} {lat} {}: {error}", region.share);
            let log_z = (4.0 * PI * kappa.sinh() / kappa).ln();
            let level = kappa * (1.0 - height) - log_z;
            assert!((region.log_density - level).abs() < 0.03, "{}: {level}", region.log_density);
        }
    }
}

#[test]
fn a_flat_density_has_its_own_level() {
    // Half of the sphere at the density 1/(2π), the other half at zero.
    let density = Exact(Synthetic::new("sphere-checkerboard").unwrap());
    let grid = Grid::new(&source(&density, None), &Options::default()).unwrap();
    for level in grid.levels(&[0.5, 0.9, 0.999]) {
        assert!((level + TAU.ln()).abs() < 1e-9, "{level}");
    }
}

#[test]
fn geojson_follows_the_standard() {
    let density = Exact(Synthetic::new("sphere-mixture").unwrap());
    let grid = Grid::new(&source(&density, None), &Options::default()).unwrap();
    let json = to_geojson(&grid).unwrap();
    assert_eq!(json["type"], "FeatureCollection");
    let mut kinds = Vec::new();
    for feature in json["features"].as_array().unwrap() {
        assert_eq!(feature["type"], "Feature");
        kinds.push(feature["properties"]["kind"].as_str().unwrap());
        if feature["geometry"]["type"] == "MultiPolygon" {
            for polygon in feature["geometry"]["coordinates"].as_array().unwrap() {
                for (i, ring) in polygon.as_array().unwrap().iter().enumerate() {
                    check_ring(ring, i == 0);
                }
            }
            let share = feature["properties"]["area_share"].as_f64().unwrap();
            let area = feature["properties"]["area_sr"].as_f64().unwrap();
            assert!((share * 4.0 * PI - area).abs() < 1e-9 && (0.0..1.0).contains(&share));
        }
    }
    assert_eq!(kinds.iter().filter(|k| **k == "highest-density region").count(), 3);
    assert!(kinds.iter().filter(|k| **k == "contour").count() >= 4);
}

/// Closed, within the globe, no edge across the antimeridian, exterior counterclockwise and holes
/// clockwise.
fn check_ring(ring: &Json, exterior: bool) {
    let points: Vec<[f64; 2]> = ring
        .as_array()
        .unwrap()
        .iter()
        .map(|p| [p[0].as_f64().unwrap(), p[1].as_f64().unwrap()])
        .collect();
    assert!(points.len() >= 4 && points.first() == points.last());
    let area: f64 = points.windows(2).map(|w| 0.5 * (w[0][0] * w[1][1] - w[1][0] * w[0][1])).sum();
    assert_eq!(area > 0.0, exterior, "area {area}");
    for pair in points.windows(2) {
        assert!(pair[0][0].abs() <= 180.0 && pair[0][1].abs() <= 90.0);
        assert!((pair[0][0] - pair[1][0]).abs() < 10.0);
    }
}

#[test]
fn exports_hold_the_grid() {
    let density = Cap::new(0.0, 0.0, 3.0);
    let options = Options { evaluations: 200, ..Options::default() };
    let grid = Grid::new(&source(&density, None), &options).unwrap();
    let csv = String::from_utf8(grid.to_csv().unwrap()).unwrap();
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("lon_deg,lat_deg,log_density,density,cell_volume"));
    let rows: Vec<Vec<f64>> =
        lines.map(|line| line.split(',').map(|v| v.parse().unwrap()).collect()).collect();
    assert_eq!(rows.len(), 10 * 20);
    let volume: f64 = rows.iter().map(|r| r[4]).sum();
    assert!((volume - 4.0 * PI).abs() < 1e-9, "{volume}");

    let npy = grid.to_npy().unwrap();
    assert_eq!(&npy[..8], b"\x93NUMPY\x03\x00");
    let header = u32::from_le_bytes(npy[8..12].try_into().unwrap()) as usize;
    assert_eq!((12 + header) % 64, 0);
    let text = std::str::from_utf8(&npy[12..12 + header]).unwrap();
    assert!(
        text.contains("'shape': (10, 20)") && text.contains("('log_density', '<f8')"),
        "{text}"
    );
    let numbers: Vec<f64> = npy[12 + header..]
        .chunks_exact(8)
        .map(|b| f64::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(numbers, rows.concat());
}

/// The picture that a file of this name holds; `UPDATE_SNAPSHOTS=1 cargo test` writes it anew.
fn check_snapshot(name: &str, svg: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some_and(|v| v == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, svg).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; write it by UPDATE_SNAPSHOTS=1", path.display()));
    let mut lines = expected.lines().zip(svg.lines()).enumerate();
    if let Some((i, (old, new))) = lines.find(|(_, (old, new))| old != new) {
        panic!("{name}, line {}:\n  {old:.300}\n  {new:.300}", i + 1);
    }
    assert_eq!(expected.len(), svg.len(), "{name} has another length");
}

#[test]
fn small_pictures_are_as_committed() {
    let curves = TrainingCurves {
        rows: (0..5)
            .map(|i| MetricsRow {
                step: i,
                loss: Some(2.0 - 0.25 * i as f64),
                ..MetricsRow::default()
            })
            .collect(),
        proposal: vec![[1e-4, 800.0], [1e-2, 12.0], [1.0, 0.05]],
    };
    for (set, kind) in [
        ("sphere-mixture", PictureKind::Map(Projection::Mollweide)),
        ("sphere-mixture", PictureKind::Map(Projection::Orthographic)),
        ("torus-mixture", PictureKind::Ramachandran),
        ("torus-mixture", PictureKind::Corner),
        ("hyperbolic-wrapped", PictureKind::Disk),
        ("so3-modes", PictureKind::Rotations),
        ("plane-moons", PictureKind::Plane),
        ("sphere-mixture", PictureKind::Distances),
        ("sphere-mixture", PictureKind::Curves),
    ] {
        let density = Exact(Synthetic::new(set).unwrap());
        let data = density.sample(12, 5).unwrap();
        let rows = Rows::new(&data, density.manifold().ambient_dim()).unwrap();
        let source = PlotSource { curves: Some(&curves), ..source(&density, Some(rows)) };
        let options = Options { evaluations: 128, width: 450, ..Options::default() };
        let picture = draw(kind, &source, &options).unwrap();
        check_snapshot(&format!("{set}-{kind}.svg"), &picture.to_inline_svg("snapshot"));
        let png = picture.to_png().unwrap();
        assert_eq!(&png[1..4], b"PNG");
        let side = |at: usize| u32::from_be_bytes(png[at..at + 4].try_into().unwrap());
        assert_eq!((side(16), side(20)), picture.size());
    }
}

fn compared(name: &str, nlls: &[f64], std: Option<f64>, difference: [f64; 2]) -> ComparedMethod {
    let [difference, se] = difference;
    ComparedMethod {
        name: name.to_owned(),
        nll: nlls.iter().sum::<f64>() / nlls.len() as f64,
        nll_std: std,
        nll_of_seeds: nlls.to_vec(),
        difference,
        difference_se: Some(se).filter(|se| *se > 0.0),
        is_best: difference == 0.0,
        is_tie: difference > 0.0 && difference <= 2.0 * se,
    }
}

#[test]
fn comparisons_are_drawn() {
    let methods = [
        compared("stack", &[0.38, 0.42], Some(0.028), [0.0, 0.0]),
        compared("kernel", &[0.40, 0.43], Some(0.021), [0.015, 0.009]),
        compared(
            "a method with a <long> name & more of it than fits",
            &[0.5, 0.56],
            Some(0.042),
            [0.13, 0.02],
        ),
    ];
    let picture = draw_comparison("floods & more", &methods, 450).unwrap();
    let svg = picture.to_inline_svg("snapshot");
    check_snapshot("comparison.svg", &svg);
    assert!(svg.contains("mean ± std of 2 seeds") && svg.contains("single seeds"));
    assert!(svg.contains("tie: within two standard errors of the best"));
    assert_eq!(&picture.to_png().unwrap()[1..4], b"PNG");
    // One seed and one method; numbers that no axis has.
    let one =
        draw_comparison("one", &[compared("kernel", &[-3.0], None, [0.0, 0.0])], 450).unwrap();
    assert!(one.to_svg().contains("test NLL, one seed"));
    let infinite = compared("zero", &[f64::INFINITY], None, [f64::INFINITY, 0.0]);
    let svg = draw_comparison("", &[methods[0].clone(), infinite], 450).unwrap().to_svg();
    assert!(svg.contains("not finite") && !svg.contains("NaN") && !svg.contains(">inf"));
    let nothing = draw_comparison("none", &[], 450).unwrap_err().to_string();
    assert_eq!(nothing, "a comparison picture needs methods with a result, and there are none");
    let narrow = draw_comparison("narrow", &methods, 3).unwrap_err().to_string();
    assert!(narrow.starts_with("a picture of 3 pixels wide"), "{narrow}");
}

#[test]
fn natural_kinds_and_names() {
    for (spec, kind) in [
        ("sphere:2", "mollweide"),
        ("torus:2", "ramachandran"),
        ("torus:7", "corner"),
        ("hyperbolic:2,K=-0.5", "disk"),
        ("so:3", "rotations"),
        ("euclidean:2", "plane"),
        ("sphere:3", "distances"),
        ("sphere:2*so:3", "distances"),
    ] {
        let manifold = parse(spec).unwrap();
        let natural = PictureKind::natural(&*manifold);
        assert_eq!(natural.to_string(), kind);
        assert_eq!(kind.parse::<PictureKind>().unwrap(), natural);
        assert_eq!(
            PictureKind::without_own_picture(&*manifold).is_some(),
            kind == "distances",
            "{spec}"
        );
    }
    let error = "pie".parse::<PictureKind>().unwrap_err().to_string();
    assert!(error.starts_with("unknown kind of picture 'pie'; allowed: mollweide, "), "{error}");
}

#[test]
fn bad_input_gets_one_clear_sentence() {
    let density = Cap::new(0.0, 0.0, 3.0);
    let base = source(&density, None);
    let small = Options { evaluations: 128, ..Options::default() };
    let map = PictureKind::Map(Projection::Mollweide);
    let message = |kind, options: &Options| draw(kind, &base, options).unwrap_err().to_string();
    for (width, expected) in [
        (0, "a picture of 0 pixels wide cannot be made; allowed: 64 to 20000"),
        (1_000_000, "a picture of 1000000 pixels wide cannot be made; allowed: 64 to 20000"),
    ] {
        assert_eq!(message(map, &Options { width, ..small.clone() }), expected);
    }
    assert_eq!(
        message(map, &Options { evaluations: 3, ..small.clone() }),
        "3 evaluations of the density cannot make a grid; allowed: 64 to 4000000"
    );
    assert_eq!(
        message(PictureKind::Disk, &small),
        "a disk picture needs hyperbolic:2; this model lives on sphere:2"
    );
    assert_eq!(
        message(PictureKind::Distances, &small),
        "a distances picture needs data, and there are none"
    );
    assert_eq!(
        message(PictureKind::Curves, &small),
        "a curves picture needs training metrics, and there are none"
    );
    let picture = draw(map, &base, &small).unwrap();
    let unwritable = PathBuf::from("/no/such/folder/map.png");
    let text = picture.save(&unwritable).unwrap_err().to_string();
    assert!(text.starts_with("cannot write '/no/such/folder/map.png': "), "{text}");
    let early = Picture::check_path(&unwritable).unwrap_err().to_string();
    assert_eq!(early, text);
    let text = picture.save(Path::new("map.jpeg")).unwrap_err().to_string();
    assert_eq!(text, "'map.jpeg' ends in no known format; allowed: FILE.png, FILE.svg");

    let wrong = [0.0; 4];
    let rows = Rows::new(&wrong, 4).unwrap();
    let text = draw(map, &source(&density, Some(rows)), &small).unwrap_err().to_string();
    assert_eq!(text, "rows have 4 numbers, expected 3");
}

/// A density that answers a constant, whatever it is.
#[derive(Debug)]
struct Constant(Arc<dyn Manifold>, f64);

impl Density for Constant {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.0
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(vec![self.1; x.len()])
    }

    fn sample(&self, n: usize, _seed: u64) -> Result<Vec<f64>, SolveError> {
        Ok([1.0, 0.0, 0.0].repeat(n))
    }
}

#[test]
fn what_is_no_density_is_refused_and_a_flat_one_drawn() {
    let manifold = parse("sphere:2").unwrap();
    let small = Options { evaluations: 128, ..Options::default() };
    let result = |value: f64| {
        let density = Constant(Arc::clone(&manifold), value);
        draw(PictureKind::Map(Projection::Robinson), &source(&density, None), &small)
            .map_err(|e| e.to_string())
    };
    assert_eq!(result(f64::NAN).unwrap_err(), "the log-density at grid point 0 is NaN");
    assert_eq!(result(f64::INFINITY).unwrap_err(), "the log-density at grid point 0 is inf");
    let nothing = result(f64::NEG_INFINITY).unwrap_err();
    assert_eq!(nothing, "the density is zero at all 128 points of the grid");
    assert!(!result(-(4.0 * PI).ln()).unwrap().to_svg().contains("NaN"));
}

#[test]
fn a_long_title_is_cut() {
    let density = Exact(Synthetic::new("torus-mixture").unwrap());
    let data = density.sample(20, 5).unwrap();
    let title = "A title that goes on for much longer than any picture of this kind could ever be wide, and then \
                 some more, and some more again until nothing can make it fit";
    let source = PlotSource { title, ..source(&density, Some(Rows::new(&data, 4).unwrap())) };
    let svg = draw(
        PictureKind::Ramachandran,
        &source,
        &Options { evaluations: 128, ..Options::default() },
    )
    .unwrap()
    .to_inline_svg("t");
    let drawn = svg.lines().find(|l| l.contains("<text") && l.contains("A title")).unwrap();
    assert!(drawn.contains('…'), "{drawn}");
}
