//! T^d: every pair of angles, the data below the diagonal and samples above it, both on the
//! diagonal.

use std::f64::consts::TAU;

use manifusion::manifold::Family;
use manifusion::rows::Rows;

use crate::colour::{self, Scale};
use crate::error::Result;
use crate::panel::{Panel, Sign, legend};
use crate::picture::{LAYOUT_WIDTH, Picture};
use crate::source::{Options, PictureKind, PlotSource};
use crate::svg::{Anchor, DATA, LABEL, SAMPLES, SOFT, Svg, TICK};
use crate::text::number;

/// Most angles in one picture.
const MAX_ANGLES: usize = 8;
const BINS: usize = 40;

/// Counts of pairs of angles, as shares of the pairs if they were uniform.
fn histogram(rows: Rows<'_>, i: usize, j: usize) -> Vec<f64> {
    let mut counts = vec![0.0; BINS * BINS];
    let weight = (BINS * BINS) as f64 / rows.len() as f64;
    for row in rows.rows() {
        counts[bin(row, j) * BINS + bin(row, i)] += weight;
    }
    smoothed(&counts)
}

fn marginal(rows: Rows<'_>, i: usize) -> Vec<f64> {
    let mut counts = vec![0.0; BINS];
    for row in rows.rows() {
        counts[bin(row, i)] += BINS as f64 / rows.len() as f64;
    }
    counts
}

/// Bin of angle `i` of a point, from −180°.
fn bin(row: &[f64], i: usize) -> usize {
    let angle = row[2 * i + 1].atan2(row[2 * i]);
    (((angle / TAU + 0.5) * BINS as f64) as usize).min(BINS - 1)
}

/// A periodic blur by (1, 2, 1)/4 in both directions, against the noise of counts.
fn smoothed(counts: &[f64]) -> Vec<f64> {
    let blur = |values: &[f64], stride: usize, other: usize| -> Vec<f64> {
        let mut out = vec![0.0; values.len()];
        for line in 0..BINS {
            for k in 0..BINS {
                let at = |k: usize| values[line * other + (k % BINS) * stride];
                out[line * other + k * stride] =
                    0.25 * (at(k + BINS - 1) + 2.0 * at(k) + at(k + 1));
            }
        }
        out
    };
    blur(&blur(counts, 1, BINS), BINS, 1)
}

/// The picture of [`PictureKind::Corner`].
pub(crate) fn draw(source: &PlotSource<'_>, options: &Options) -> Result<Picture> {
    let Family::Torus { dim } = source.manifold.family() else {
        return Err(source.wrong_manifold(PictureKind::Corner, "a torus"));
    };
    if dim < 2 {
        return Err(source.wrong_manifold(PictureKind::Corner, "a torus of at least two angles"));
    }
    let data = source.require_data(PictureKind::Corner)?;
    let drawn = source.samples_or_draw(options)?;
    let samples = Rows::new(&drawn, 2 * dim)?;
    let shown = dim.min(MAX_ANGLES);

    let mut svg = Svg::default();
    let left_out = dim - shown;
    let title = if left_out > 0 {
        format!("{} (first {shown} of {dim} angles)", source.title)
    } else {
        source.title.to_string()
    };
    svg.title(LAYOUT_WIDTH, &title);
    legend(
        &mut svg,
        LAYOUT_WIDTH / 2.0,
        56.0,
        &[
            (Sign::Line(DATA), format!("data ({}), below the diagonal", data.len())),
            (Sign::Line(SAMPLES), format!("samples ({}), above the diagonal", samples.len())),
        ],
    );
    let (left, top, gap) = (84.0, 74.0, 5.0);
    let side = (LAYOUT_WIDTH - left - 24.0 - gap * (shown - 1) as f64) / shown as f64;
    let place = |row: usize, column: usize| {
        let [x, y] = [column, row].map(|k| (side + gap) * k as f64);
        let range = [-180.0, 180.0];
        Panel { frame: [left + x, top + y, side, side], x: range, y: range }
    };
    // log(1 + ratio) so that weak pairs are seen beside strong ones.
    let strength = |ratio: f64| ratio.ln_1p();
    let tables: Vec<(usize, usize, Vec<f64>)> = (0..shown)
        .flat_map(|row| (0..shown).map(move |column| (row, column)))
        .filter(|(row, column)| row != column)
        .map(|(row, column)| {
            let points = if row > column { data } else { samples };
            (row, column, histogram(points, column, row))
        })
        .collect();
    let high = tables.iter().flat_map(|t| &t.2).fold(0.0_f64, |m, v| m.max(strength(*v)));
    let scale = Scale { low: 0.0, high, cut: false };
    for (row, column, table) in &tables {
        let panel = place(*row, *column);
        let raster = colour::png(BINS, BINS, &scale, |x, y| {
            Some(strength(table[(BINS - 1 - y) * BINS + x]))
        })?;
        svg.image(panel.frame, &raster);
    }
    for i in 0..shown {
        diagonal(&mut svg, place(i, i), marginal(data, i), marginal(samples, i));
        let name = source.axis_name(i);
        let [x, y, ..] = place(i, i).frame;
        svg.text(x + 7.0, y + 18.0, Anchor::Start, LABEL, &name);
        frames(&mut svg, &place, i, shown, &name);
    }
    let bottom = top + (side + gap) * shown as f64 + 62.0;
    scale_bar(&mut svg, &scale, bottom);
    Picture::new(svg, &title, bottom + 66.0, options.width)
}

/// Boxes of row and column `i`, with ticks and names at the rim of the picture.
fn frames(
    svg: &mut Svg,
    place: &impl Fn(usize, usize) -> Panel,
    i: usize,
    shown: usize,
    name: &str,
) {
    let marks: Vec<(f64, String)> =
        [-120.0, 0.0, 120.0].into_iter().map(|v| (v, number(v, 0))).collect();
    for k in 0..shown {
        let x: &[(f64, String)] = if i + 1 == shown { &marks } else { &[] };
        let y: &[(f64, String)] = if k == 0 { &marks } else { &[] };
        place(i, k).axes(svg, x, y);
    }
    let label = format!("{name} (°)");
    let [x, y, width, height] = place(shown - 1, i).frame;
    svg.text(x + width / 2.0, y + height + 42.0, Anchor::Middle, LABEL, &label);
    let [x, y, _, height] = place(i, 0).frame;
    svg.vertical_text(x - 58.0, y + height / 2.0, LABEL, &label);
}

/// Both marginals as steps, on one scale.
fn diagonal(svg: &mut Svg, mut panel: Panel, data: Vec<f64>, samples: Vec<f64>) {
    let high = data.iter().chain(&samples).copied().fold(0.0, f64::max);
    panel.y = [0.0, 1.25 * high];
    for (counts, colour, fill) in [(data, DATA, 0.25), (samples, SAMPLES, 0.0)] {
        let mut line = vec![panel.place(-180.0, 0.0)];
        for (i, count) in counts.iter().enumerate() {
            for k in [i, i + 1] {
                line.push(panel.place(-180.0 + 360.0 * k as f64 / BINS as f64, *count));
            }
        }
        line.push(panel.place(180.0, 0.0));
        let style = format!(
            "fill=\"{colour}\" fill-opacity=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.6\""
        );
        svg.paths([&line[..]], false, &style);
    }
}

/// The bar is in log(1 + ratio); its ticks name the ratio.
fn scale_bar(svg: &mut Svg, scale: &Scale, y: f64) {
    let (x, width) = (LAYOUT_WIDTH / 2.0 - 200.0, 400.0);
    Scale::strip(svg, [x, y, width]);
    for ratio in [0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0_f64] {
        let t = ratio.ln_1p() / scale.high;
        if t <= 1.0 {
            svg.text(x + t * width, y + 34.0, Anchor::Middle, TICK, &number(ratio, 0));
        }
    }
    let label = "density relative to uniform, of each pair";
    svg.styled_text(LAYOUT_WIDTH / 2.0, y + 54.0, Anchor::Middle, LABEL, SOFT, "", label);
}
