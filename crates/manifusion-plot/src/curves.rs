//! How the training went: loss, validation NLL, variance of the loss's estimator, and the proposal
//! q(s).

use manifusion::train::MetricsRow;
use serde::{Deserialize, Serialize};

use crate::error::{PlotError, Result};
use crate::panel::{Panel, Sign, legend};
use crate::picture::{LAYOUT_WIDTH, Picture};
use crate::source::{Options, PictureKind};
use crate::svg::{Anchor, DATA, LABEL, SAMPLES, Svg, TICK};
use crate::text;
use crate::ticks::Ticks;

/// Everything that was recorded while training.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct TrainingCurves {
    /// In order of the steps.
    pub rows: Vec<MetricsRow>,
    /// The learned proposal: pairs (s, q(s)), in order of s.
    #[serde(default)]
    pub proposal: Vec<[f64; 2]>,
}

impl TrainingCurves {
    /// Whether there is nothing to draw.
    pub fn is_empty(&self) -> bool {
        panels(self).is_empty()
    }
}

struct Line {
    name: &'static str,
    colour: &'static str,
    points: Vec<[f64; 2]>,
}

/// What an axis shows of its numbers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    /// Their range.
    Linear,
    /// All from zero on: a flat density is to look flat.
    FromZero,
    /// Their base-ten logarithms.
    Logarithmic,
}

struct Chart {
    title: &'static str,
    x: &'static str,
    y: &'static str,
    x_axis: Axis,
    y_axis: Axis,
    /// Whether a faint line of all values lies under a smoothed one.
    noisy: bool,
    lines: Vec<Line>,
}

/// The charts for which there are at least two points; of a stack, those of its first network.
fn panels(curves: &TrainingCurves) -> Vec<Chart> {
    let series = |name, colour, value: fn(&MetricsRow) -> Option<f64>| Line {
        name,
        colour,
        points: curves
            .rows
            .iter()
            .filter(|row| row.member.is_none())
            .filter_map(|row| Some([row.step as f64, value(row)?]))
            .filter(|p| p[1].is_finite())
            .collect(),
    };
    let chart = |title, y, y_axis, noisy, lines| Chart {
        title,
        x: "step",
        y,
        x_axis: Axis::Linear,
        y_axis,
        noisy,
        lines,
    };
    let mut charts = vec![
        chart("Loss", "nats", Axis::Linear, true, vec![series("", DATA, |r| r.loss)]),
        chart(
            "Validation NLL",
            "nats per point",
            Axis::Linear,
            false,
            vec![series("", SAMPLES, |r| r.validation_nll)],
        ),
        chart(
            "Variance of the loss estimator",
            "nats², log scale",
            Axis::Logarithmic,
            true,
            vec![
                series("times from q(s)", SAMPLES, |r| r.variance_proposal),
                series("uniform times", DATA, |r| r.variance_uniform),
            ],
        ),
        proposal(&curves.proposal),
        chart(
            "Effective sample size under q",
            "share of the batch",
            Axis::Linear,
            true,
            vec![series("", SAMPLES, |r| r.effective_sample_size)],
        ),
    ];
    for chart in &mut charts {
        if chart.y_axis == Axis::Logarithmic {
            for line in &mut chart.lines {
                line.points.retain(|p| p[1] > 0.0);
                line.points.iter_mut().for_each(|p| p[1] = p[1].log10());
            }
        }
        chart.lines.retain(|line| line.points.len() > 1);
    }
    charts.retain(|chart| !chart.lines.is_empty());
    charts
}

/// The proposal q(s), as a density of log s where times span decades: most of it would lie in the
/// first pixel.
fn proposal(pairs: &[[f64; 2]]) -> Chart {
    let mut points: Vec<[f64; 2]> =
        pairs.iter().copied().filter(|p| p.iter().all(|v| v.is_finite())).collect();
    let decades = match (points.first(), points.last()) {
        (Some([first, _]), Some([last, _])) => *first > 0.0 && *last > 100.0 * first,
        _ => false,
    };
    if decades {
        for p in &mut points {
            *p = [p[0].log10(), p[0] * p[1]];
        }
    }
    Chart {
        title: "Proposal of times",
        x: if decades { "s, log scale" } else { "s" },
        y: if decades { "s·q(s)" } else { "q(s)" },
        x_axis: if decades { Axis::Logarithmic } else { Axis::Linear },
        y_axis: Axis::FromZero,
        noisy: false,
        lines: vec![Line { name: "", colour: SAMPLES, points }],
    }
}

/// The picture of [`PictureKind::Curves`].
pub(crate) fn draw(title: &str, curves: &TrainingCurves, options: &Options) -> Result<Picture> {
    let charts = panels(curves);
    if charts.is_empty() {
        let needs = "training metrics of at least two steps";
        return Err(PlotError::Missing { kind: PictureKind::Curves.to_string(), needs });
    }
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
    Picture::new(svg, title, 44.0 + pitch * f64::from(rows), options.width)
}

impl Chart {
    fn draw(&self, svg: &mut Svg, [x0, y0]: [f64; 2], [width, height]: [f64; 2]) {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let (first, last) = all()
            .map(|p| p[0])
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
        let (start, x_marks) = if self.x_axis == Axis::Logarithmic {
            (first, Ticks::powers(first, last, 5))
        } else {
            let start = range(all().map(|p| p[0]), 0.0)[0];
            (start, Ticks::new(start, last, 6).labels())
        };
        let x_range = [start, last];
        let mut y_range = range(all().map(|p| p[1]), if self.noisy { 0.005 } else { 0.0 });
        if self.y_axis == Axis::FromZero {
            y_range = [0.0, 1.1 * all().map(|p| p[1]).fold(0.0, f64::max)];
        }
        let y_marks = if self.y_axis == Axis::Logarithmic {
            Ticks::powers(y_range[0], y_range[1], 5)
        } else {
            Ticks::new(y_range[0], y_range[1], 5).labels()
        };
        let room = y_marks.iter().map(|(_, t)| text::width(t, TICK)).fold(0.0, f64::max) + 9.0;
        let left = x0 + room + 40.0;
        let frame = [left, y0 + 44.0, x0 + width - left - 26.0, height];
        let panel = Panel { frame, x: x_range, y: y_range };
        svg.text(left + frame[2] / 2.0, y0 + 16.0, Anchor::Middle, LABEL, &self.heading());
        let entries: Vec<(Sign, String)> = self
            .lines
            .iter()
            .filter(|line| !line.name.is_empty())
            .map(|line| (Sign::Line(line.colour), line.name.to_string()))
            .collect();
        legend(svg, left + frame[2] / 2.0, y0 + 36.0, &entries);
        panel.rules(svg, &y_marks);
        svg.clipped(&panel.clip(), |svg| {
            for line in &self.lines {
                self.line(svg, &panel, line);
            }
        });
        panel.axes(svg, &x_marks, &y_marks);
        panel.labels(svg, self.x, self.y, room);
    }

    fn line(&self, svg: &mut Svg, panel: &Panel, line: &Line) {
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

    /// The title; of two lines, with how far apart they end.
    fn heading(&self) -> String {
        let last = |line: &Line| averaged(&line.points, 10).last().map(|p| p[1]);
        match &self.lines[..] {
            [proposal, uniform] => match (last(proposal), last(uniform)) {
                (Some(p), Some(u)) => {
                    format!("{} (ratio at the end: {:.1})", self.title, 10f64.powf(u - p))
                }
                _ => self.title.to_string(),
            },
            _ => self.title.to_string(),
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
fn averaged(points: &[[f64; 2]], count: usize) -> Vec<[f64; 2]> {
    let size = points.len().div_ceil(count).max(1);
    points
        .chunks(size)
        .map(|chunk| {
            let n = chunk.len() as f64;
            [0, 1].map(|k| chunk.iter().map(|p| p[k]).sum::<f64>() / n)
        })
        .collect()
}
