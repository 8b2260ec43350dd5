//! The report in a real browser: Chromium, driven through chromedriver. Skipped with a message
//! where they are not installed, except when the environment variable `CI` is set.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::path::PathBuf;

use crate::browser::Browser;
use crate::common::Exact;
use manifusion::data::Synthetic;
use manifusion::density::Density as _;
use manifusion::evaluation::Evaluation;
use manifusion::rows::Rows;
use manifusion::train::MetricsRow;
use manifusion_plot::{Options, PlotSource, ReportInput, TrainingCurves, write_report};
use serde_json::json;

fn evaluation() -> Evaluation {
    let mut found = Evaluation::default();
    (found.nll, found.elbo_nll, found.n) = (1.23456789, Some(-0.5), 1500);
    (found.method, found.dataset) = ("rdm".into(), Some("generated".into()));
    (found.tolerance, found.evaluations) = (Some(1e-5), 1234.0);
    found
}

fn curves() -> TrainingCurves {
    let row = |step: u64| MetricsRow {
        step,
        loss: Some(1.0 / (1.0 + step as f64)),
        validation_nll: Some(2.0 - 0.1 * step as f64),
        ..MetricsRow::default()
    };
    TrainingCurves { rows: (0..10).map(row).collect(), proposal: vec![[0.0, 1.0], [1.0, 0.5]] }
}

/// Writes the report of a generated set into the folder for tests, under a name that only this test
/// uses.
fn report(test: &str, set: &str, points: usize) -> PathBuf {
    let density = Exact(Synthetic::new(set).unwrap());
    let manifold = density.manifold();
    let width = manifold.ambient_dim();
    let (data, samples) = (density.sample(points, 1).unwrap(), density.sample(points, 2).unwrap());
    let curves = curves();
    let source = PlotSource {
        data: Some(Rows::new(&data, width).unwrap()),
        samples: Some(Rows::new(&samples, width).unwrap()),
        geographic: true,
        title: "Report of <a test> & more",
        curves: Some(&curves),
        ..PlotSource::new(&density)
    };
    let input = ReportInput {
        source,
        options: &Options::default(),
        evaluation: Some(&evaluation()),
        findings: &["12 of 975 test points also occur in training (1.2 %).".to_string()],
        config: "[train]\nsteps = 10 # </pre><script>alert(1)</script>\n",
        commands: &["manifusion train --seed 0".to_string()],
        generator: "manifusion 0.1.0",
    };
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{set}.html"));
    write_report(&path, &input).unwrap();
    path
}

#[test]
fn ten_thousand_points_stay_below_three_megabytes() {
    let size = std::fs::metadata(report("size", "sphere-mixture", 10_000)).unwrap().len();
    assert!(size < 3_000_000, "{size} bytes");
}

#[test]
fn a_report_that_cannot_be_written_says_so_at_once() {
    let density = Exact(Synthetic::new("sphere-mixture").unwrap());
    let source = PlotSource::new(&density);
    let options = Options::default();
    let (findings, commands) = (Vec::new(), Vec::new());
    let input = ReportInput {
        source,
        options: &options,
        evaluation: None,
        findings: &findings,
        config: "",
        commands: &commands,
        generator: "",
    };
    let error = write_report(&PathBuf::from("/no/such/folder/report.html"), &input).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("cannot write '/no/such/folder/report.html': "), "{text}");
}

/// Everything that holds on every report, whatever it shows.
fn check_page(browser: &Browser, set: &str) {
    let path = report("page", set, 1500);
    browser.open(&path);
    assert_eq!(browser.run("return document.title"), json!("Report of <a test> & more"));

    // The table holds the numbers of eval.json.
    for (key, expected) in
        [("nll", "1.23456789"), ("elbo_nll", "-0.5"), ("evaluations", "1234.0"), ("n", "1500")]
    {
        let script =
            format!("return document.querySelector('td[data-key=\"{key}\"]').dataset.value");
        assert_eq!(browser.run(&script), json!(expected), "{key}");
    }
    let text = browser.run("return document.body.innerText").as_str().unwrap().to_string();
    for expected in [
        "12 of 975 test points",
        "manifusion train --seed 0",
        "steps = 10 # </pre><script>alert(1)</script>",
        "lower is better",
    ] {
        assert!(text.contains(expected), "{set}: {expected}");
    }

    // Pictures are there and have a size.
    let pictures = browser.run(
        "return [...document.querySelectorAll('figure svg')].map(s => s.getBoundingClientRect().height)",
    );
    let heights = pictures.as_array().unwrap();
    assert!(heights.len() >= 3 && heights.iter().all(|h| h.as_f64().unwrap() > 100.0), "{set}");

    // No text leaves its picture, and none is set smaller than 13 at a width of 900.
    let bad = browser.run(
        "return [...document.querySelectorAll('figure svg')].flatMap(svg => { const box = svg.getBoundingClientRect(); \
         return [...svg.querySelectorAll('text')].filter(t => { const b = t.getBoundingClientRect(); \
         return b.left < box.left || b.right > box.right || b.top < box.top || b.bottom > box.bottom || \
         Number(t.getAttribute('font-size')) < 13; }).map(t => t.textContent); })",
    );
    assert_eq!(bad, json!([]), "{set}: texts");

    // The view turns on drag and by keys, zooms, and tells values.
    let centre = || browser.run("return document.getElementById('view').dataset.centre");
    let picture = || browser.run("return document.getElementById('view').toDataURL()");
    let (before, drawn) = (centre(), picture());
    browser.drag("view", [0, 0], [90, 40]);
    let dragged = centre();
    assert_ne!(before, dragged, "{set}: drag");
    assert_ne!(drawn, picture(), "{set}: the picture after a drag");
    for key in [crate::browser::LEFT, crate::browser::UP] {
        let before = centre();
        browser.press("view", key);
        assert_ne!(before, centre(), "{set}: {key}");
    }
    let zoom = || browser.run("return document.getElementById('view').dataset.zoom");
    let before = zoom();
    browser.press("view", "+");
    assert_ne!(before, zoom(), "{set}: zoom");
    browser.press("view", "0");

    // Somewhere on a line through the middle there is something to read.
    let told = (-3..=3).map(|i| {
        browser.hover("view", [i * 60, 30]);
        browser.run("return document.getElementById('readout').textContent")
    });
    let told: Vec<String> = told.map(|t| t.as_str().unwrap().to_string()).collect();
    assert!(told.iter().any(|t| t.contains("density")), "{set}: {told:?}");

    // Every control can be reached by the keyboard and says what it is.
    let unnamed = browser.run(
        "return [...document.querySelectorAll('button,input,select,canvas')].filter(e => e.tabIndex < 0 || \
         !(e.ariaLabel || e.textContent.trim() || e.labels && e.labels.length)).length",
    );
    assert_eq!(unnamed, json!(0), "{set}");
    assert_eq!(browser.errors(), Vec::<String>::new(), "{set}: console");
    assert_eq!(browser.requests_other_than(&path), Vec::<String>::new(), "{set}: network");
}

#[test]
fn reports_work_in_chromium() {
    let Some(browser) = Browser::start() else { return };
    for set in [
        "sphere-mixture",
        "torus-mixture",
        "torus7-mixture",
        "hyperbolic-mixture",
        "so3-mixture",
        "plane-moons",
    ] {
        check_page(&browser, set);
    }
}

#[test]
fn the_globe_tells_the_density_under_the_pointer() {
    let Some(browser) = Browser::start() else { return };
    browser.open(&report("globe", "sphere-mixture", 10_000));
    let ready = browser.run("return Number(document.documentElement.dataset.readyMs)");
    assert!(ready.as_f64().unwrap() < 1000.0, "interactive after {ready} ms");

    // The reset view looks at latitude 0.35 rad on the meridian of Greenwich.
    browser.hover("view", [0, 0]);
    let text = browser.run("return document.getElementById('readout').textContent");
    let text = text.as_str().unwrap();
    let density = Synthetic::new("sphere-mixture").unwrap();
    let expected = density.log_density(&[0.35_f64.cos(), 0.0, 0.35_f64.sin()]);
    let found = text.split("log-density ").nth(1).unwrap().split(' ').next().unwrap();
    let found: f64 = found.replace('−', "-").parse().unwrap();
    // A pixel is 0.2°, a cell of the grid 1.9°, and values are kept to 40 nats/65534.
    assert!((found - expected).abs() < 0.05, "{text}: {expected}");
    assert!(text.starts_with("20.") && text.contains("°N"), "{text}");
}

#[test]
fn a_phone_in_the_dark_needs_no_sideways_scrolling() {
    let Some(browser) = Browser::start() else { return };
    browser.emulate_phone_in_the_dark();
    browser.open(&report("phone", "sphere-mixture", 500));
    let widths = browser.run("return [document.documentElement.scrollWidth, window.innerWidth]");
    let [page, window] = [0, 1].map(|i| widths[i].as_f64().unwrap());
    assert!(page <= window && window < 500.0, "{page} in {window}");
    let ground = browser.run("return getComputedStyle(document.body).backgroundColor");
    assert_eq!(ground, json!("rgb(21, 23, 27)"));
    assert_eq!(browser.errors(), Vec::<String>::new());
}
