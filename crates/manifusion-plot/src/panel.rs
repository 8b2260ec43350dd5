//! Rectangular axes and what several pictures put on them.

use crate::colour::{self, Scale};
use crate::contours::{self, SHARES};
use crate::error::Result;
use crate::grid::Grid;
use crate::picture::LAYOUT_WIDTH;
use crate::source::Value;
use crate::svg::{Anchor, DATA, INK, LABEL, SOFT, Svg, TICK};
use crate::text;

/// A box of the picture with the values at its sides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Panel {
    /// Left, top, width and height.
    pub(crate) frame: [f64; 4],
    /// Values at the left and right.
    pub(crate) x: [f64; 2],
    /// Values at the bottom and top.
    pub(crate) y: [f64; 2],
}

/// Ticks with their texts.
pub(crate) type Marks = [(f64, String)];

impl Panel {
    /// The place of a pair of values.
    pub(crate) fn place(&self, x: f64, y: f64) -> [f64; 2] {
        let [left, top, width, height] = self.frame;
        let [tx, ty] =
            [(x - self.x[0]) / (self.x[1] - self.x[0]), (y - self.y[0]) / (self.y[1] - self.y[0])];
        [left + width * tx, top + height * (1.0 - ty)]
    }

    /// The box, with ticks where there are any.
    pub(crate) fn axes(&self, svg: &mut Svg, x: &Marks, y: &Marks) {
        let [left, top, _, height] = self.frame;
        let line = format!("stroke=\"{INK}\" stroke-width=\"1\"");
        svg.rect(self.frame, &format!("fill=\"none\" {line}"));
        for (value, text) in x {
            let at = self.place(*value, self.y[0])[0];
            svg.paths([&[[at, top + height], [at, top + height + 5.0]][..]], false, &line);
            svg.text(at, top + height + 20.0, Anchor::Middle, TICK, text);
        }
        for (value, text) in y {
            let at = self.place(self.x[0], *value)[1];
            svg.paths([&[[left - 5.0, at], [left, at]][..]], false, &line);
            svg.text(left - 9.0, at + 5.0, Anchor::End, TICK, text);
        }
    }

    /// Names of the axes; `room` is the width of the texts of the vertical ticks.
    pub(crate) fn labels(&self, svg: &mut Svg, x: &str, y: &str, room: f64) {
        let [left, top, width, height] = self.frame;
        svg.text(left + width / 2.0, top + height + 41.0, Anchor::Middle, LABEL, x);
        svg.vertical_text(left - room - 18.0, top + height / 2.0, LABEL, y);
    }

    /// Faint lines at ticks.
    pub(crate) fn rules(&self, svg: &mut Svg, y: &Marks) {
        let [left, _, width, _] = self.frame;
        for (value, _) in y {
            let at = self.place(self.x[0], *value)[1];
            let style = "stroke=\"#d9dce1\" stroke-width=\"1\"";
            svg.paths([&[[left, at], [left + width, at]][..]], false, style);
        }
    }

    /// The box as a clip shape.
    pub(crate) fn clip(&self) -> String {
        let [x, y, w, h] = self.frame;
        format!("<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\"/>")
    }

    /// A density as a raster; `to_grid` finds the grid's coordinates of a place, if it has any.
    pub(crate) fn density(
        &self,
        svg: &mut Svg,
        grid: &Grid,
        scale: &Scale,
        value: Value,
        to_grid: impl Fn([f64; 2]) -> Option<[f64; 2]>,
    ) -> Result<()> {
        let [_, _, width, height] = self.frame.map(|v| v.round() as usize);
        let at = grid.sampler();
        let raster = colour::png(width, height, scale, |column, row| {
            let tx = (column as f64 + 0.5) / width as f64;
            let ty = 1.0 - (row as f64 + 0.5) / height as f64;
            let [x, y] = to_grid([
                self.x[0] + tx * (self.x[1] - self.x[0]),
                self.y[0] + ty * (self.y[1] - self.y[0]),
            ])?;
            at(x, y).map(|log_p| shown(log_p, value))
        })?;
        svg.image(self.frame, &raster);
        Ok(())
    }

    /// Contours of the regions that hold 50, 90 and 95 % of the mass; `from_grid` is the inverse of
    /// the above.
    pub(crate) fn contours(
        &self,
        svg: &mut Svg,
        grid: &Grid,
        from_grid: impl Fn([f64; 2]) -> [f64; 2],
    ) -> Result<()> {
        for (level, style) in grid.levels(&SHARES).into_iter().zip(CONTOUR_STYLES) {
            let place = |p: &[f64; 2]| {
                let [x, y] = from_grid(*p);
                self.place(x, y)
            };
            let lines: Vec<Vec<[f64; 2]>> = contours::lines(grid, level)?
                .iter()
                .map(|line| line.iter().map(place).collect())
                .collect();
            let lines: Vec<&[[f64; 2]]> = lines.iter().map(Vec::as_slice).collect();
            svg.paths(lines, false, &format!("fill=\"none\" stroke=\"#ffffff\" {style}"));
        }
        Ok(())
    }
}

/// Dashes of the contours, the innermost being solid.
pub(crate) const CONTOUR_STYLES: [&str; 3] = [
    "stroke-width=\"1.8\"",
    "stroke-width=\"1.5\" stroke-dasharray=\"7 4\"",
    "stroke-width=\"1.4\" stroke-dasharray=\"2 3\"",
];

/// The value that is coloured, from log p.
pub(crate) fn shown(log_p: f64, value: Value) -> f64 {
    match value {
        Value::LogDensity => log_p,
        Value::Density => log_p.exp(),
    }
}

/// The colours for a grid: up to its largest value, down to where all but 0.1 % of the mass lies
/// above.
pub(crate) fn scale_of(grid: &Grid, value: Value) -> Scale {
    let high = grid.max();
    let min =
        grid.log_density.iter().copied().filter(|v| !v.is_nan()).fold(f64::INFINITY, f64::min);
    match value {
        Value::Density => Scale { low: 0.0, high: high.exp(), cut: false },
        Value::LogDensity => {
            let low = grid.levels(&[0.999])[0].min(high - 1.0).max(min).min(high);
            // A flat density still needs two ends.
            let low = if high - low < 1e-3 { high - 1.0 } else { low };
            Scale { low, high, cut: min < low }
        }
    }
}

/// Label of a colour bar.
pub(crate) fn scale_label(value: Value, measure: &str) -> String {
    match value {
        Value::LogDensity => format!("log-density (nats; {measure})"),
        Value::Density => format!("density ({measure})"),
    }
}

/// A sign and a text of a legend.
#[derive(Debug)]
pub(crate) enum Sign {
    /// A dot of this colour.
    Dot(&'static str),
    /// A white line on dark, in one of the [`CONTOUR_STYLES`].
    Contour(usize),
    /// A line of this colour.
    Line(&'static str),
}

/// The legend of [`Panel::contours`].
pub(crate) fn contour_entries() -> Vec<(Sign, String)> {
    let mut entries: Vec<(Sign, String)> = SHARES
        .iter()
        .enumerate()
        .map(|(i, share)| (Sign::Contour(i), format!("{:.0} %", 100.0 * share)))
        .collect();
    if let Some(last) = entries.last_mut() {
        last.1.push_str(" of the mass");
    }
    entries
}

/// One row of signs and texts, centred.
pub(crate) fn legend(svg: &mut Svg, centre: f64, y: f64, entries: &[(Sign, String)]) {
    legend_within(svg, centre, y, LAYOUT_WIDTH, entries);
}

/// The same with entries closer to each other where there is less room.
pub(crate) fn legend_within(
    svg: &mut Svg,
    centre: f64,
    y: f64,
    room: f64,
    entries: &[(Sign, String)],
) {
    let sign_width = 30.0;
    let bare = entries.iter().map(|(_, t)| sign_width + text::width(t, TICK)).sum::<f64>();
    let gap = ((room - bare) / (entries.len().max(2) - 1) as f64).clamp(6.0, 26.0);
    let widths: Vec<f64> =
        entries.iter().map(|(_, t)| sign_width + text::width(t, TICK) + gap).collect();
    let mut x = centre - 0.5 * (widths.iter().sum::<f64>() - gap);
    for ((sign, text), width) in entries.iter().zip(widths) {
        match sign {
            Sign::Dot(colour) => {
                let style = format!("fill=\"{colour}\" stroke=\"{INK}\" stroke-width=\"0.8\"");
                svg.circle([x + 17.0, y - 5.0], 4.5, &style);
            }
            Sign::Contour(i) => {
                svg.rect([x, y - 13.0, 26.0, 16.0], "fill=\"#3b528b\"");
                let line = [[x, y - 5.0], [x + 26.0, y - 5.0]];
                svg.paths(
                    [&line[..]],
                    false,
                    &format!("stroke=\"#ffffff\" {}", CONTOUR_STYLES[*i]),
                );
            }
            Sign::Line(colour) => {
                let line = [[x, y - 5.0], [x + 26.0, y - 5.0]];
                svg.paths([&line[..]], false, &format!("stroke=\"{colour}\" stroke-width=\"2.4\""));
            }
        }
        svg.styled_text(x + sign_width, y, Anchor::Start, TICK, SOFT, "", text);
        x += width;
    }
}

/// Diameter of dots, so that many remain apart and few are seen.
pub(crate) fn dot_size(count: usize) -> f64 {
    (130.0 / (count.max(1) as f64).sqrt()).clamp(1.7, 5.0)
}

/// Data or samples over a coloured ground: dots with a dark rim, small enough that the ground is
/// seen between those of a cluster.
pub(crate) fn dots_on_colour(svg: &mut Svg, points: &[[f64; 2]], colour: &str) {
    let size = dot_size(3 * points.len());
    let rim = format!("stroke=\"{INK}\" stroke-opacity=\"0.6\"");
    svg.dots(points.iter().copied(), size + 1.1, &rim);
    svg.dots(points.iter().copied(), size, &format!("stroke=\"{colour}\""));
}

/// Most points that a picture draws of each set.
pub(crate) const MAX_POINTS: usize = 3000;

/// Colour of data over a density.
pub(crate) const DATA_ON_COLOUR: &str = DATA;
/// Colour of samples over a density.
pub(crate) const SAMPLES_ON_COLOUR: &str = "#ffffff";

/// `1 234 test points`, saying how many are drawn if not all.
pub(crate) fn count_text(total: usize, what: &str) -> String {
    if total > MAX_POINTS {
        format!("{what} ({MAX_POINTS} of {total})")
    } else {
        format!("{what} ({total})")
    }
}
