//! Parts of pictures: ticks, texts, coastlines, distances, angles, areas and the report's table.

use std::f64::consts::PI;

use manifusion::evaluation::{Evaluation, METRICS, MetricInfo};
use manifusion::manifold::parse;
use manifusion_plot::internals::{
    COASTLINE_FILE, FACE, Svg, Ticks, coastlines, decode, distance, fit, metrics_table, number,
    on_branch, plane_distance, polygons, signed_area, spherical_area, width,
};
use manifusion_plot::{
    AxisScale, Chart, ChartLine, LINE_COLOURS, Picture, Projections, axis_angle, bunge_angles,
    draw_charts,
};

#[test]
fn ticks_are_round_and_inside() {
    let texts = |low, high, n| -> Vec<String> {
        Ticks::new(low, high, n).labels().into_iter().map(|(_, t)| t).collect()
    };
    assert_eq!(texts(-0.3, 1.1, 4), ["0.0", "0.5", "1.0"]);
    assert_eq!(texts(-7.2, 3.0, 5), ["−5", "0"]);
    assert_eq!(texts(0.0, 400000.0, 4), ["0", "10⁵", "2·10⁵", "3·10⁵", "4·10⁵"]);
    assert_eq!(texts(2.0, 2.0, 4), ["2.00"]);
}

#[test]
fn logarithmic_axes_have_at_least_two_marks() {
    let texts = |low, high| -> Vec<String> {
        Ticks::powers(low, high, 5).into_iter().map(|(_, t)| t).collect()
    };
    assert_eq!(texts(-1.5, 2.2), ["0.1", "1", "10", "100"]);
    assert_eq!(texts(0.1, 0.9), ["2", "5"]);
}

#[test]
fn the_closest_point_is_closer_than_any_other_and_the_lorentz_one_is_on_the_ray() {
    for point in [[1.0, 0.9], [3.0, -1.0], [0.2, 0.0], [5.0, 4.9]] {
        let found = Projections::of(point).unwrap();
        for [x0, x1] in [found.lorentz, found.closest] {
            assert!((x0 * x0 - x1 * x1 - 1.0).abs() < 1e-9, "{x0} {x1}");
        }
        let [x0, x1] = found.lorentz;
        assert!((x0 * point[1] - x1 * point[0]).abs() < 1e-9);
        // Fine enough for the last point, which is 7e-4 from a branch of speed 7.
        let least = (-600_000..=600_000)
            .map(|i| plane_distance(point, on_branch(f64::from(i) / 1e5)))
            .fold(f64::INFINITY, f64::min);
        let [lorentz, closest] = found.distances();
        assert!(closest <= least + 1e-12 && least - closest < 1e-5, "{closest} {least}");
        assert!(lorentz >= closest);
    }
    // The paper's point: (1, 0.9)/√0.19.
    let found = Projections::of([1.0, 0.9]).unwrap();
    assert!((found.lorentz[0] - 1.0 / 0.19f64.sqrt()).abs() < 1e-12);
    assert!(Projections::of([0.9, 1.0]).is_err());
}

#[test]
fn the_asset_is_the_whole_world() {
    let lines = coastlines();
    assert!(lines.len() > 100, "{} lines", lines.len());
    let points: Vec<_> = lines.iter().flatten().collect();
    assert!(points.iter().all(|p| p[0].abs() <= 180.0 && p[1].abs() <= 90.0));
    // Cape Town and the Strait of Gibraltar lie within two degrees of a vertex.
    for [lon, lat] in [[18.4, -33.9], [-5.6, 36.0]] {
        assert!(points.iter().any(|p| (p[0] - lon).hypot(p[1] - lat) < 2.0));
    }
    for line in lines {
        for pair in line.windows(2) {
            assert!((pair[0][0] - pair[1][0]).abs() < 180.0);
        }
    }
}

#[test]
fn a_cut_file_is_refused() {
    assert!(decode(&COASTLINE_FILE[..COASTLINE_FILE.len() - 2]).is_none());
}

#[test]
fn every_number_has_a_row_with_its_unit_and_meaning() {
    let mut found = Evaluation::default();
    (found.nll, found.n, found.method) = (-0.123456789, 975, "rdm <x>".into());
    (found.tolerance, found.nll_interval_95) = (Some(1e-5), Some([0.1, 0.2]));
    found.members = serde_json::from_value(
        serde_json::json!([{ "method": "kernel", "weight": 0.25, "nll": -1.5 }]),
    )
    .unwrap();
    let html = metrics_table(Some(&found)).unwrap();
    for expected in [
        "data-key=\"nll\" data-value=\"-0.123456789\"",
        ">−0.123457 nats<",
        "data-key=\"n\" data-value=\"975\"",
        ">975 points<",
        ">none<",
        "rdm &lt;x&gt;",
        "data-key=\"tolerance\" data-value=\"0.00001\"",
        "data-value=\"[0.1,0.2]\"",
        "Tolerance of the solver",
        ">1e−5<",
        ">kernel: weight 0.25, −1.5 nats<",
    ] {
        assert!(html.contains(expected), "{expected} in {html}");
    }
    for MetricInfo { key, meaning, .. } in METRICS {
        let shown = html.contains(&format!("data-key=\"{key}\"")) || *key == "stopped";
        assert!(shown && !meaning.is_empty(), "{key}");
    }
    let place = |key: &str| html.find(&format!("data-key=\"{key}\"")).unwrap();
    assert!(place("nll") < place("n") && place("n") < place("method"));
    assert!(metrics_table(None).unwrap().contains("not been evaluated"));
}

#[test]
fn the_font_holds_every_character_that_pictures_use() {
    let face = FACE.as_ref().unwrap();
    for c in "log-density (nats, per sr) φψΦθ₁₂₃₄₅₆₇₈₉₀ °−≤≥·×±√∇ℍ𝕊𝕋ℝ²³ᵈ–—…’".chars()
    {
        if c != 'ᵈ' {
            assert!(face.glyph_index(c).is_some(), "{c}");
        }
    }
}

#[test]
fn long_texts_are_made_to_fit() {
    let long = "a title that is much longer than the picture is wide, and goes on and on";
    let (text, size) = fit(long, 19.0, 13.0, 200.0);
    assert!(width(&text, size) <= 200.0 && text.ends_with('…') && size >= 13.0);
    assert_eq!(fit("short", 19.0, 13.0, 200.0), ("short".to_string(), 19.0));
}

#[test]
fn numbers_have_a_minus_sign_and_no_negative_zero() {
    assert_eq!(number(-1.25, 1), "−1.2");
    assert_eq!(number(-0.01, 1), "0.0");
}

#[test]
fn distances_known_by_heart() {
    let half_turn = [-1.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0];
    let same = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
    let top = 2.0_f64.cosh();
    for (spec, x, y, expected) in [
        ("sphere:2", &[1.0, 0.0, 0.0][..], &[0.0, 0.0, 1.0][..], PI / 2.0),
        ("torus:2", &[1.0, 0.0, 1.0, 0.0], &[-1.0, 0.0, 0.0, 1.0], PI * 1.25_f64.sqrt()),
        ("so:3", &same, &half_turn, PI),
        ("hyperbolic:2", &[1.0, 0.0, 0.0], &[top, 2.0_f64.sinh(), 0.0], 2.0),
        ("euclidean:2", &[0.0, 0.0], &[3.0, 4.0], 5.0),
        (
            "sphere:2*euclidean:1",
            &[1.0, 0.0, 0.0, 0.0],
            &[0.0, 1.0, 0.0, 1.0],
            (PI * PI / 4.0 + 1.0).sqrt(),
        ),
    ] {
        let found = distance(&*parse(spec).unwrap(), x, y);
        assert!((found - expected).abs() < 1e-9, "{spec}: {found} {expected}");
    }
}

fn clipped(height: f64) -> Picture {
    let mut svg = Svg::default();
    svg.clipped("<rect width=\"9\" height=\"9\"/>", |svg| svg.rect([0.0; 4], ""));
    Picture::new(svg, "one", height, 900).unwrap()
}

#[test]
fn pictures_side_by_side_keep_their_clips_apart() {
    let pictures = [clipped(300.0), clipped(500.0), clipped(100.0)];
    let all = Picture::side_by_side("all", &pictures, 2, 0.0, 900).unwrap();
    let svg = all.to_svg();
    let ids: Vec<&str> = svg
        .match_indices("<clipPath id=\"")
        .map(|(at, text)| svg[at + text.len()..].split('"').next().unwrap())
        .collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.iter().all(|id| svg.matches(&format!("#{id})")).count() == 1), "{ids:?}");
    // Half as wide, half as high: 34 for the title, then (250 + 8) + (50 + 8).
    assert_eq!(all.size(), (900, 350));
    assert!(all.to_png().is_ok());
    assert!(Picture::side_by_side("none", &[], 2, 0.0, 900).is_err());
}

fn chart(y_scale: AxisScale, points: Vec<[f64; 2]>) -> Chart {
    Chart {
        title: String::from("A chart"),
        x: String::from("step"),
        y: String::from("nats"),
        x_scale: AxisScale::Linear,
        y_scale,
        noisy: false,
        lines: vec![ChartLine { name: String::from("a"), colour: LINE_COLOURS[0], points }],
    }
}

#[test]
fn logarithms_leave_out_what_has_none() {
    let points = vec![[0.0, 10.0], [1.0, -1.0], [2.0, f64::NAN], [3.0, 1000.0]];
    let drawn = chart(AxisScale::Logarithmic, points).drawable().unwrap();
    for (found, expected) in drawn.lines[0].points.iter().zip([[0.0, 1.0], [3.0, 3.0]]) {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    }
    assert_eq!(drawn.lines[0].points.len(), 2);
}

#[test]
fn charts_without_lines_are_an_error_and_others_a_picture() {
    let one = chart(AxisScale::Linear, vec![[0.0, 1.0]]);
    assert!(draw_charts("None", std::slice::from_ref(&one), 600).is_err());
    let two = chart(AxisScale::Linear, vec![[0.0, 1.0], [1.0, 2.0]]);
    let picture = draw_charts("Both", &[one, two], 600).unwrap().to_svg();
    // The one that can be drawn has the whole width.
    assert_eq!(picture.matches("A chart").count(), 1);
}

fn product(a: &[f64; 9], b: &[f64; 9]) -> [f64; 9] {
    std::array::from_fn(|k| (0..3).map(|j| a[3 * (k / 3) + j] * b[3 * j + k % 3]).sum())
}

fn about_z(t: f64) -> [f64; 9] {
    let (s, c) = t.to_radians().sin_cos();
    [c, -s, 0.0, s, c, 0.0, 0.0, 0.0, 1.0]
}

fn about_x(t: f64) -> [f64; 9] {
    let (s, c) = t.to_radians().sin_cos();
    [1.0, 0.0, 0.0, 0.0, c, -s, 0.0, s, c]
}

#[test]
fn euler_angles_come_back() {
    for angles in [[10.0, 20.0, 30.0], [350.0, 170.0, 181.0], [100.0, 90.0, 0.5]] {
        let [a, b, c] = angles;
        let r = product(&product(&about_z(a), &about_x(b)), &about_z(c));
        for (found, expected) in bunge_angles(&r).into_iter().zip(angles) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }
    let [a, b, c] = bunge_angles(&about_z(77.0));
    assert!((a - 77.0).abs() < 1e-9 && b.abs() < 1e-9 && c.abs() < 1e-9);
}

#[test]
fn axis_and_angle_come_back_also_at_a_half_turn() {
    for degrees in [0.001, 30.0, 120.0, 179.9999, 180.0] {
        let (axis, angle) = axis_angle(&about_x(degrees));
        assert!((angle.to_degrees() - degrees).abs() < 1e-6, "{degrees}: {angle}");
        assert!((axis[0].abs() - 1.0).abs() < 1e-9, "{axis:?}");
    }
    assert!(axis_angle(&about_z(0.0)).1.abs() < 1e-12);
}

#[test]
fn the_area_of_the_whole_sphere_and_of_a_zone() {
    let zone = |low: f64, high: f64| {
        [[-180.0, low], [180.0, low], [180.0, high], [-180.0, high], [-180.0, low]]
    };
    assert!((spherical_area(&zone(-90.0, 90.0)) - 4.0 * PI).abs() < 1e-12);
    assert!((spherical_area(&zone(30.0, 90.0)) - PI).abs() < 1e-12);
}

#[test]
fn an_island_in_a_lake_gets_its_own_holes() {
    let square = |r: f64| vec![[-r, -r], [-r, r], [r, r], [r, -r], [-r, -r]];
    let reversed = |r: f64| square(r).into_iter().rev().collect::<Vec<[f64; 2]>>();
    let found = polygons(vec![square(40.0), reversed(30.0), square(20.0), reversed(10.0)]);
    let sizes: Vec<Vec<f64>> =
        found.iter().map(|p| p.iter().map(|ring| ring[0][0].abs()).collect()).collect();
    assert_eq!(sizes, [[40.0, 30.0], [20.0, 10.0]]);
    for polygon in &found {
        assert!(signed_area(&polygon[0]) > 0.0);
        assert!(signed_area(&polygon[1]) < 0.0);
    }
}
