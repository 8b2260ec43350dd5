//! SO(3): Euler angles, and rotation axes coloured by angle; data against samples.

use manifusion::manifold::Family;
use manifusion::rows::Rows;

use crate::colour::Scale;
use crate::error::Result;
use crate::map::Map;
use crate::panel::{MAX_POINTS, Panel, count_text, dot_size};
use crate::picture::{LAYOUT_WIDTH, Picture};
use crate::projection::Projection;
use crate::source::{Options, PictureKind, PlotSource, thinned};
use crate::svg::{Anchor, INK, LABEL, Svg};
use crate::text::number;

/// Bunge's Euler angles (φ₁, Φ, φ₂) of R = Rz(φ₁) Rx(Φ) Rz(φ₂), in degrees: `[0, 360) × [0, 180] ×
/// [0, 360)`.
///
/// Where Φ is 0 or 180° only a sum or difference of the others is defined; φ₂ = 0 there.
pub fn bunge_angles(r: &[f64]) -> [f64; 3] {
    let sine = r[2].hypot(r[5]);
    let turn = |y: f64, x: f64| y.atan2(x).to_degrees().rem_euclid(360.0);
    let capital = sine.atan2(r[8]).to_degrees();
    if sine < 1e-9 {
        return [turn(r[3], r[0]), capital, 0.0];
    }
    [turn(r[2], -r[5]), capital, turn(r[6], r[7])]
}

/// Axis (unit) and angle in [0, π] of a rotation.
pub fn axis_angle(r: &[f64]) -> ([f64; 3], f64) {
    let twice = [r[7] - r[5], r[2] - r[6], r[3] - r[1]];
    let sine = 0.5 * (twice[0].powi(2) + twice[1].powi(2) + twice[2].powi(2)).sqrt();
    let angle = sine.atan2(0.5 * (r[0] + r[4] + r[8] - 1.0));
    if sine > 1e-6 {
        return (twice.map(|v| 0.5 * v / sine), angle);
    }
    if angle < 1.0 {
        return ([0.0, 0.0, 1.0], angle);
    }
    // Near π: R + I = 2 a aᵀ, whose largest column is the axis.
    let column = |k: usize| -> [f64; 3] {
        std::array::from_fn(|i| r[3 * i + k] + f64::from(u8::from(i == k)))
    };
    let length = |v: [f64; 3]| (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt();
    let longest = (0..3).map(column).max_by(|a, b| length(*a).total_cmp(&length(*b)));
    let axis = longest.unwrap_or([0.0, 0.0, 1.0]);
    (axis.map(|v| v / length(axis)), angle)
}

struct Sets<'a> {
    data: Rows<'a>,
    samples: Rows<'a>,
}

/// The pictures of [`PictureKind::Euler`], [`PictureKind::Axes`] and [`PictureKind::Rotations`].
pub(crate) fn draw(
    kind: PictureKind,
    source: &PlotSource<'_>,
    options: &Options,
) -> Result<Picture> {
    if source.manifold.family() != (Family::Orthogonal { n: 3, special: true }) {
        return Err(source.wrong_manifold(kind, "so:3"));
    }
    let data = source.require_data(kind)?;
    let drawn = source.samples_or_draw(options)?;
    let sets = Sets { data, samples: Rows::new(&drawn, 9)? };
    let mut svg = Svg::default();
    svg.title(LAYOUT_WIDTH, source.title);
    let mut y = 50.0;
    if kind != PictureKind::Euler {
        y = axes(&mut svg, &sets, y);
    }
    if kind != PictureKind::Axes {
        y = euler(&mut svg, source, &sets, y)?;
    }
    Picture::new(svg, source.title, y.round(), options.width)
}

/// Two maps of axes side by side; returns where the next thing may begin.
fn axes(svg: &mut Svg, sets: &Sets<'_>, top: f64) -> f64 {
    let scale = Scale { low: 0.0, high: 180.0, cut: false };
    let width = 425.0;
    let mut bottom = top;
    for (points, what, x) in [(sets.data, "test points", 16.0), (sets.samples, "samples", 459.0)] {
        let heading = count_text(points.len(), what);
        svg.text(x + width / 2.0, top + 14.0, Anchor::Middle, LABEL, &heading);
        let map = Map::new(Projection::Mollweide, 0.0, [x, top + 28.0, width]);
        map.outline(svg, "fill=\"#f4f5f7\"");
        map.graticule(svg, INK);
        let mut coloured: Vec<(f64, [f64; 2])> = thinned(points, MAX_POINTS)
            .map(|r| {
                let (axis, angle) = axis_angle(r);
                (angle.to_degrees(), map.place_point(&axis))
            })
            .collect();
        coloured_dots(svg, &mut coloured, &scale, 1.0);
        map.outline(svg, &format!("fill=\"none\" stroke=\"{INK}\" stroke-width=\"1.4\""));
        bottom = map.bottom();
    }
    let label = "rotation angle (degrees), at the place of the rotation axis";
    scale.bar(svg, [LAYOUT_WIDTH / 2.0 - 230.0, bottom + 20.0, 460.0], label);
    bottom + 92.0
}

/// Dots in a few shades, those of one shade as one path.
fn coloured_dots(svg: &mut Svg, dots: &mut [(f64, [f64; 2])], scale: &Scale, factor: f64) {
    let shades = 24.0;
    let shade = |v: f64| (scale.position(v) * (shades - 1.0)).round() as u32;
    let size = factor * dot_size(2 * dots.len());
    dots.sort_by(|a, b| a.0.total_cmp(&b.0));
    for group in dots.chunk_by(|a, b| shade(a.0) == shade(b.0)) {
        let t = f64::from(shade(group[0].0)) / (shades - 1.0);
        let colour = scale.hex(scale.low + t * (scale.high - scale.low));
        svg.dots(group.iter().map(|d| d.1), size, &format!("stroke=\"{colour}\""));
    }
}

/// Three pairs of angles for the data and for the samples, coloured by log-density.
fn euler(svg: &mut Svg, source: &PlotSource<'_>, sets: &Sets<'_>, top: f64) -> Result<f64> {
    // Each dot's colour is a likelihood.
    const LIMIT: usize = 1000;
    let names = ["φ₁", "Φ", "φ₂"];
    let ends = [360.0, 180.0, 360.0];
    let side = 212.0;
    let evaluate = |points: Rows<'_>| -> Result<(Vec<[f64; 3]>, Vec<f64>)> {
        let kept: Vec<f64> = thinned(points, LIMIT).flatten().copied().collect();
        Ok((kept.chunks_exact(9).map(bunge_angles).collect(), source.log_density(&kept)?))
    };
    let sets = [("test points", evaluate(sets.data)?), ("samples", evaluate(sets.samples)?)];
    let mut values: Vec<f64> =
        sets.iter().flat_map(|(_, (_, p))| p).copied().filter(|p| p.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let quantile = |q: f64| values.get((q * values.len() as f64) as usize).copied();
    let low = quantile(0.02).unwrap_or(0.0);
    let high = values.last().copied().unwrap_or(1.0).max(low + 1e-3);
    let scale = Scale { low, high, cut: true };
    let mut y = top + 22.0;
    for (what, (angles, log_p)) in sets {
        let heading = format!("{what} ({})", angles.len());
        svg.text(LAYOUT_WIDTH / 2.0, y - 8.0, Anchor::Middle, LABEL, &heading);
        for (k, [i, j]) in [[0, 1], [2, 1], [0, 2]].into_iter().enumerate() {
            let panel = Panel {
                frame: [72.0 + 292.0 * k as f64, y, side, side],
                x: [0.0, ends[i]],
                y: [0.0, ends[j]],
            };
            let mut dots: Vec<(f64, [f64; 2])> =
                angles.iter().zip(&log_p).map(|(a, p)| (*p, panel.place(a[i], a[j]))).collect();
            svg.rect(panel.frame, "fill=\"#f4f5f7\"");
            coloured_dots(svg, &mut dots, &scale, 0.9);
            let marks = |end: f64| -> Vec<(f64, String)> {
                (0..=4).map(|q| end * f64::from(q) / 4.0).map(|v| (v, number(v, 0))).collect()
            };
            panel.axes(svg, &marks(ends[i]), &marks(ends[j]));
            let label = |n: usize| format!("{} (°)", names[n]);
            panel.labels(svg, &label(i), &label(j), 34.0);
        }
        y += side + 88.0;
    }
    let label =
        "Bunge Euler angles (ZXZ); colour: log-density of the model (nats; Frobenius volume)";
    scale.bar(svg, [LAYOUT_WIDTH / 2.0 - 230.0, y - 30.0, 460.0], label);
    Ok(y + 40.0)
}
