//! Lines over an axis: charts beside and below each other.

use crate::error::{PlotError, Result};
use crate::panel::{Panel, Sign, legend_within};
use crate::picture::{LAYOUT_WIDTH, Picture};
use crate::svg::{Anchor, DATA, LABEL, SAMPLES, Svg, TICK};
use crate::text;
use crate::ticks::Ticks;

/// Colours of lines that are told apart, also by those who see few colours.
pub const LINE_COLOURS: [&str; 5] = [DATA, "#e69f00", SAMPLES, "#009e73", "#5f6368"];

/// What an axis shows of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AxisScale {
    /// Their range.
    Linear,
    /// All from zero on: a flat density is to look flat.
    FromZero,
    /// Their base-ten logarithms; what is not positive is left out.
    Logarithmic,
}

/// A line of a chart.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartLine {
    /// Its name in the legend; without one it has no entry.
    pub name: String,
    /// Its colour, one of [`LINE_COLOURS`].
    pub colour: &'static str,
    /// Pairs (x, y), in order of x.
    pub points: Vec<[f64; 2]>,
}

/// A chart.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Its title.
    pub title: String,
    /// What x is, with its unit.
    pub x: String,
    /// What y is, with its unit.
    pub y: String,
    /// How x is shown.
    pub x_scale: AxisScale,
    /// How y is shown.
    pub y_scale: AxisScale,
    /// Whether a faint line of all values lies under a smoothed one.
    pub noisy: bool,
    /// The lines.
    pub lines: Vec<ChartLine>,
}

/// Draws charts, two in a row.
pub fn draw_charts(title: &str, charts: &[Chart], width: u32) -> Result<Picture> {
    let charts: Vec<Chart> = charts.iter().filter_map(Chart::drawable).collect();
    if charts.is_empty() {
        let needs = "lines of at least two points";
        return Err(PlotError::Missing { kind: String::from("charts"), needs });
    }
    picture(title, &charts, width)
}

/// The picture of charts that are drawable.
pub(crate) fn picture(title: &str, charts: &[Chart], width: u32) -> Result<Picture> {
    let mut svg = Svg::default();
    svg.title(LAYOUT_WIDTH, title);
    let (columns, height) = (if charts.len() == 1 { 1 } else { 2 }, 230.0);
    let cell = LAYOUT_WIDTH / f64::from(columns);
    let pitch = height + 104.0;
    for (i, chart) in charts.iter().enumerate() {
        let (column, row) = (i as i32 % columns, i as i32 / columns);
        let corner = [cell * f64::from(column), 44.0 + pitch * f64::from(row)];
        chart.draw(&mut svg, corner, [cell, height]);
    }
    let rows = (charts.len() as i32 + columns - 1) / columns;
    Picture::new(svg, title, 44.0 + pitch * f64::from(rows), width)
}

impl Chart {
    /// The chart with logarithms where an axis shows them, and without lines of fewer than two
    /// points; none if nothing is left.
    #[doc(hidden)]
    pub fn drawable(&self) -> Option<Self> {
        let mut chart = self.clone();
        for (axis, scale) in [self.x_scale, self.y_scale].into_iter().enumerate() {
            for line in &mut chart.lines {
                line.points.retain(|p| p[axis].is_finite());
                if scale == AxisScale::Logarithmic {
                    line.points.retain(|p| p[axis] > 0.0);
                    line.points.iter_mut().for_each(|p| p[axis] = p[axis].log10());
                }
            }
        }
        chart.lines.retain(|line| line.points.len() > 1);
        (!chart.lines.is_empty()).then_some(chart)
    }

    fn draw(&self, svg: &mut Svg, [x0, y0]: [f64; 2], [width, height]: [f64; 2]) {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let (first, last) = all()
            .map(|p| p[0])
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        let (start, x_marks) = if self.x_scale == AxisScale::Logarithmic {
            (first, Ticks::powers(first, last, 5))
        } else {
            let start = range(all().map(|p| p[0]), 0.0)[0];
            (start, Ticks::new(start, last, 6).labels())
        };
        let x_range = [start, last];
        let mut y_range = range(all().map(|p| p[1]), if self.noisy { 0.005 } else { 0.0 });
        if self.y_scale == AxisScale::FromZero {
            y_range = [0.0, 1.1 * all().map(|p| p[1]).fold(0.0, f64::max)];
        }
        let y_marks = if self.y_scale == AxisScale::Logarithmic {
            Ticks::powers(y_range[0], y_range[1], 5)
        } else {
            Ticks::new(y_range[0], y_range[1], 5).labels()
        };
        let room = y_marks.iter().map(|(_, t)| text::width(t, TICK)).fold(0.0, f64::max) + 9.0;
        let left = x0 + room + 40.0;
        let frame = [left, y0 + 44.0, x0 + width - left - 26.0, height];
        let panel = Panel { frame, x: x_range, y: y_range };
        svg.text(left + frame[2] / 2.0, y0 + 16.0, Anchor::Middle, LABEL, &self.title);
        let entries: Vec<(Sign, String)> = self
            .lines
            .iter()
            .filter(|line| !line.name.is_empty())
            .map(|line| (Sign::Line(line.colour), line.name.clone()))
            .collect();
        legend_within(svg, left + frame[2] / 2.0, y0 + 36.0, frame[2], &entries);
        panel.rules(svg, &y_marks);
        svg.clipped(&panel.clip(), |svg| {
            for line in &self.lines {
                self.line(svg, &panel, line);
            }
        });
        panel.axes(svg, &x_marks, &y_marks);
        panel.labels(svg, &self.x, &self.y, room);
    }

    fn line(&self, svg: &mut Svg, panel: &Panel, line: &ChartLine) {
        let place = |points: &[[f64; 2]]| -> Vec<[f64; 2]> {
            points.iter().map(|p| panel.place(p[0], p[1])).collect()
        };
        let colour = line.colour;
        let fine = averaged(&line.points, 600);
        let smooth = averaged(&line.points, 60);
        let noisy = self.noisy && fine.len() > smooth.len();
        if noisy {
            let style = format!(
                "fill=\"none\" stroke=\"{colour}\" stroke-opacity=\"0.3\" stroke-width=\"1\""
            );
            svg.paths([&place(&fine)[..]], false, &style);
        }
        let style = format!(
            "fill=\"none\" stroke=\"{colour}\" stroke-width=\"2.2\" stroke-linejoin=\"round\""
        );
        svg.paths([&place(if noisy { &smooth } else { &fine })[..]], false, &style);
        if line.points.len() <= 40 {
            let dots = place(&line.points);
            svg.dots(dots, 5.0, &format!("stroke=\"{colour}\""));
        }
    }
}

/// Ends of an axis with a little room; a share of the values may be cut off at either end.
fn range(values: impl Iterator<Item = f64>, cut: f64) -> [f64; 2] {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len() - 1;
    let skip = (cut * sorted.len() as f64) as usize;
    let (low, high) = (sorted[skip], sorted[last - skip]);
    let room = if high > low { 0.05 * (high - low) } else { 0.05 * high.abs().max(1.0) };
    // Steps and times begin at zero.
    if cut == 0.0 && low >= 0.0 && low < 0.2 * high {
        return [0.0, high + room];
    }
    [low - room, high + room]
}

/// Means of consecutive points, at most `count` of them.
pub(crate) fn averaged(points: &[[f64; 2]], count: usize) -> Vec<[f64; 2]> {
    let size = points.len().div_ceil(count).max(1);
    points
        .chunks(size)
        .map(|chunk| {
            let n = chunk.len() as f64;
            [0, 1].map(|k| chunk.iter().map(|p| p[k]).sum::<f64>() / n)
        })
        .collect()
}
