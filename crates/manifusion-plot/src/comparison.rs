//! Methods beside each other: their NLL over seeds, and how far each is from the best.

use crate::error::{PlotError, Result};
use crate::panel::{Panel, Sign, legend};
use crate::picture::{LAYOUT_WIDTH, Picture};
use crate::svg::{Anchor, DATA, INK, LABEL, SAMPLES, SOFT, Svg, TICK};
use crate::text;
use crate::ticks::Ticks;

/// What the picture shows of a method.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedMethod {
    /// Its name.
    pub name: String,
    /// Mean over seeds of the NLL of test points, in nats.
    pub nll: f64,
    /// Standard deviation over seeds; none for one seed.
    pub nll_std: Option<f64>,
    /// NLL of each seed.
    pub nll_of_seeds: Vec<f64>,
    /// NLL minus that of the best.
    pub difference: f64,
    /// Paired standard error of the difference; none where it is not known.
    pub difference_se: Option<f64>,
    /// Whether it is the best.
    pub is_best: bool,
    /// Whether it is not told apart from the best.
    pub is_tie: bool,
}

/// Height of a method's row.
const ROW: f64 = 42.0;
/// Ground behind the best and what is not told apart from it.
const TIED: &str = "#e4eef8";
/// Top of the panels.
const TOP: f64 = 104.0;

/// Draws methods in the given order from the top: on the left mean, standard deviation and single
/// seeds of the NLL, on the right the differences to the best with two standard errors. Numbers
/// that are not finite stand as a word at the right edge.
pub fn draw_comparison(title: &str, methods: &[ComparedMethod], width: u32) -> Result<Picture> {
    if methods.is_empty() {
        let needs = "methods with a result";
        return Err(PlotError::Missing { kind: String::from("comparison"), needs });
    }
    let mut svg = Svg::default();
    svg.title(LAYOUT_WIDTH, title);
    let names = methods.iter().map(|method| text::width(&method.name, LABEL)).fold(0.0, f64::max);
    let left = (names + 34.0).min(0.3 * LAYOUT_WIDTH);
    let height = ROW * methods.len() as f64;
    let (gap, right) = (34.0, 28.0);
    let each = 0.5 * (LAYOUT_WIDTH - left - right - gap);
    let panel = |x0: f64, x: [f64; 2]| Panel {
        frame: [x0, TOP, each, height],
        x,
        y: [methods.len() as f64, 0.0],
    };
    let nll = panel(left, range(methods.iter().flat_map(nll_reach)));
    let difference = panel(left + each + gap, range(methods.iter().flat_map(difference_reach)));
    for (row, method) in methods.iter().enumerate() {
        let y = TOP + ROW * row as f64;
        if method.is_best || method.is_tie {
            for panel in [&nll, &difference] {
                svg.rect([panel.frame[0], y, each, ROW], &format!("fill=\"{TIED}\""));
            }
        }
        let (name, size) = text::fit(&method.name, LABEL, 13.0, left - 34.0);
        svg.text(left - 14.0, y + 0.5 * ROW + 5.0, Anchor::End, size, &name);
    }
    for panel in [&nll, &difference] {
        let marks = Ticks::new(panel.x[0], panel.x[1], 5).labels();
        upright(&mut svg, panel, marks.iter().map(|(value, _)| *value), "stroke=\"#d9dce1\"");
        panel.axes(&mut svg, &marks, &[]);
    }
    upright(&mut svg, &difference, [0.0], &format!("stroke=\"{SOFT}\" stroke-dasharray=\"5 4\""));
    for (row, method) in methods.iter().enumerate() {
        let y = row as f64 + 0.5;
        draw_nll(&mut svg, &nll, y, method);
        draw_difference(&mut svg, &difference, y, method);
    }
    captions(&mut svg, [&nll, &difference], methods);
    let layout_height = TOP + height + 62.0;
    let title = format!("Comparison: {title}");
    Picture::new(svg, &title, layout_height, width)
}

/// What the panels and colours mean.
fn captions(svg: &mut Svg, panels: [&Panel; 2], methods: &[ComparedMethod]) {
    let seeds = methods.iter().map(|method| method.nll_of_seeds.len()).max().unwrap_or(0);
    let spread = match seeds {
        0 | 1 => String::from("one seed"),
        seeds => format!("mean ± std of {seeds} seeds"),
    };
    let unit = match seeds {
        0 | 1 => "nats per point; lower is better",
        _ => "nats per point; lower is better; small dots: single seeds",
    };
    let headings = [
        (format!("test NLL, {spread}"), unit),
        (String::from("difference to the best, ± 2 paired s.e."), "nats per point"),
    ];
    for (panel, (heading, unit)) in panels.into_iter().zip(headings) {
        let [x, y, width, height] = panel.frame;
        let middle = x + 0.5 * width;
        let (heading, size) = text::fit(&heading, LABEL, 12.0, width + 20.0);
        svg.text(middle, y - 14.0, Anchor::Middle, size, &heading);
        svg.styled_text(middle, y + height + 41.0, Anchor::Middle, TICK, SOFT, "", unit);
    }
    let mut entries = vec![(Sign::Dot(SAMPLES), String::from("best"))];
    if methods.iter().any(|method| method.is_tie) {
        entries.push((Sign::Dot(TIE), String::from("tie: within two standard errors of the best")));
    }
    if methods.iter().any(|method| !method.is_best && !method.is_tie) {
        entries.push((Sign::Dot(DATA), String::from("worse than the best")));
    }
    legend(svg, 0.5 * LAYOUT_WIDTH, 62.0, &entries);
}

/// Colour of a tie, between that of the best and that of the others.
const TIE: &str = "#5a9bd4";

fn colour(method: &ComparedMethod) -> &'static str {
    match (method.is_best, method.is_tie) {
        (true, _) => SAMPLES,
        (_, true) => TIE,
        _ => DATA,
    }
}

fn nll_reach(method: &ComparedMethod) -> Vec<f64> {
    let std = method.nll_std.unwrap_or(0.0);
    let ends = [method.nll - std, method.nll + std];
    ends.into_iter().chain(method.nll_of_seeds.iter().copied()).collect()
}

fn difference_reach(method: &ComparedMethod) -> Vec<f64> {
    let reach = 2.0 * method.difference_se.unwrap_or(0.0);
    vec![0.0, method.difference - reach, method.difference + reach]
}

/// Ends of an axis around the finite ones of these values, with a little room.
fn range(values: impl Iterator<Item = f64>) -> [f64; 2] {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if low > high {
        return [0.0, 1.0];
    }
    let room = if high > low { 0.08 * (high - low) } else { 0.05 * high.abs().max(0.1) };
    [low - room, high + room]
}

/// Lines from the top to the bottom of a panel.
fn upright(svg: &mut Svg, panel: &Panel, at: impl IntoIterator<Item = f64>, style: &str) {
    let [_, top, _, height] = panel.frame;
    for value in at {
        let x = panel.place(value, 0.0)[0];
        svg.paths(
            [&[[x, top], [x, top + height]][..]],
            false,
            &format!("{style} stroke-width=\"1\""),
        );
    }
}

fn draw_nll(svg: &mut Svg, panel: &Panel, y: f64, method: &ComparedMethod) {
    if method.nll_of_seeds.len() > 1 {
        // Beside the bar, so that neither hides the other.
        let below = method.nll_of_seeds.iter().filter(|nll| nll.is_finite());
        let dots = below.map(|nll| panel.place(*nll, y + 0.28));
        let style = format!("stroke=\"{}\" stroke-opacity=\"0.7\"", colour(method));
        svg.dots(dots, 5.0, &style);
    }
    bar(svg, panel, [method.nll, y], method.nll_std, colour(method));
}

fn draw_difference(svg: &mut Svg, panel: &Panel, y: f64, method: &ComparedMethod) {
    let reach = method.difference_se.map(|se| 2.0 * se);
    bar(svg, panel, [method.difference, y], reach, colour(method));
}

/// A dot with a bar of `reach` to either side.
fn bar(svg: &mut Svg, panel: &Panel, [x, y]: [f64; 2], reach: Option<f64>, colour: &str) {
    if !x.is_finite() {
        let [at, y] = [panel.frame[0] + panel.frame[2] - 10.0, panel.place(0.0, y)[1]];
        svg.styled_text(at, y + 5.0, Anchor::End, TICK, colour, "", "not finite");
        return;
    }
    if let Some(reach) = reach.filter(|reach| reach.is_finite()) {
        let [a, b] = [panel.place(x - reach, y), panel.place(x + reach, y)];
        let end = |[x, y]: [f64; 2]| [[x, y - 5.0], [x, y + 5.0]];
        let style = format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.2\"");
        svg.paths([&[a, b][..], &end(a)[..], &end(b)[..]], false, &style);
    }
    let style = format!("fill=\"{colour}\" stroke=\"{INK}\" stroke-width=\"0.8\"");
    svg.circle(panel.place(x, y), 5.5, &style);
}
