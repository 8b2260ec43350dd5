//! H²: the Poincaré disk, data above and the learned density below.

use std::f64::consts::TAU;

use manifusion::manifold::Family;
use manifusion::rows::Rows;

use crate::error::Result;
use crate::grid::to_disk;
use crate::panel::{
    MAX_POINTS, Panel, SAMPLES_ON_COLOUR, Sign, contour_entries, count_text, dot_size,
    dots_on_colour, legend, scale_label, scale_of,
};
use crate::picture::{LAYOUT_WIDTH, Picture};
use crate::source::{Options, PictureKind, PlotSource, thinned};
use crate::svg::{Anchor, DATA, INK, LABEL, SOFT, Svg};

const RADIUS: f64 = 240.0;

/// The picture of [`PictureKind::Disk`].
pub(crate) fn draw(source: &PlotSource<'_>, options: &Options) -> Result<Picture> {
    let Family::Hyperboloid { dim: 2, curvature, .. } = source.manifold.family() else {
        return Err(source.wrong_manifold(PictureKind::Disk, "hyperbolic:2"));
    };
    let data = source.require_data(PictureKind::Disk)?;
    let grid = source.grid_or_evaluate(options)?;
    let drawn = options.show_samples.then(|| source.samples_or_draw(options)).transpose()?;
    let samples = drawn.as_ref().map(|rows| Rows::new(rows, 3)).transpose()?;

    let mut svg = Svg::default();
    svg.title(LAYOUT_WIDTH, source.title);
    let mut entries = vec![(Sign::Dot(DATA), count_text(data.len(), "test points"))];
    if let Some(samples) = samples {
        entries.push((Sign::Dot(SAMPLES_ON_COLOUR), count_text(samples.len(), "samples")));
    }
    entries.extend(contour_entries());
    legend(&mut svg, LAYOUT_WIDTH / 2.0, 56.0, &entries);
    let top = 78.0;
    let panel = |top: f64| Panel {
        frame: [LAYOUT_WIDTH / 2.0 - RADIUS, top, 2.0 * RADIUS, 2.0 * RADIUS],
        x: [-1.0, 1.0],
        y: [-1.0, 1.0],
    };
    let places = |panel: Panel, points: Rows<'_>| -> Vec<[f64; 2]> {
        thinned(points, MAX_POINTS)
            .map(|x| {
                let [u, v] = to_disk(x, curvature);
                panel.place(u, v)
            })
            .collect()
    };

    let above = panel(top);
    let unit = if (curvature + 1.0).abs() < 1e-12 { "r" } else { "√|K| r" };
    ring_lines(&mut svg, above, SOFT, Some(unit));
    let points = places(above, data);
    let size = dot_size(points.len());
    svg.dots(points, size, &format!("stroke=\"{DATA}\" stroke-opacity=\"0.7\""));
    rim(&mut svg, above);
    side_text(&mut svg, above, "test points");

    let below = panel(top + 2.0 * RADIUS + 26.0);
    let scale = scale_of(&grid, options.value);
    let [cx, cy] = below.place(0.0, 0.0);
    let root = (-curvature).sqrt();
    // What the grid does not reach is a line at the rim.
    svg.circle([cx, cy], RADIUS, &format!("fill=\"{}\"", scale.hex(scale.low)));
    let mut result = Ok(());
    svg.clipped(&format!("<circle cx=\"{cx}\" cy=\"{cy}\" r=\"{RADIUS}\"/>"), |svg| {
        result = below.density(svg, &grid, &scale, options.value, |[u, v]| {
            let rho = u.hypot(v);
            (rho < 1.0).then(|| [v.atan2(u).to_degrees(), 2.0 * rho.atanh() / root])
        });
    });
    result?;
    ring_lines(&mut svg, below, "#ffffff", None);
    below.contours(&mut svg, &grid, |[theta, r]| {
        let (sin, cos) = theta.to_radians().sin_cos();
        let rho = (0.5 * root * r).tanh();
        [rho * cos, rho * sin]
    })?;
    if let Some(samples) = samples {
        dots_on_colour(&mut svg, &places(below, samples), SAMPLES_ON_COLOUR);
    }
    rim(&mut svg, below);
    side_text(&mut svg, below, "density");

    let bar = below.frame[1] + 2.0 * RADIUS + 22.0;
    let label = scale_label(options.value, &grid.measure);
    scale.bar(&mut svg, [LAYOUT_WIDTH / 2.0 - 230.0, bar, 460.0], &label);
    Picture::new(svg, source.title, bar + 70.0, options.width)
}

fn rim(svg: &mut Svg, panel: Panel) {
    let style = format!("fill=\"none\" stroke=\"{INK}\" stroke-width=\"1.6\"");
    svg.circle(panel.place(0.0, 0.0), RADIUS, &style);
}

fn side_text(svg: &mut Svg, panel: Panel, text: &str) {
    let [left, top, _, height] = panel.frame;
    svg.vertical_text(left - 22.0, top + height / 2.0, LABEL, text);
}

/// Circles at whole distances √|K| r from the origin, and spokes every 30°.
fn ring_lines(svg: &mut Svg, panel: Panel, colour: &str, unit: Option<&str>) {
    let style =
        format!("fill=\"none\" stroke=\"{colour}\" stroke-opacity=\"0.35\" stroke-width=\"0.7\"");
    let centre = panel.place(0.0, 0.0);
    for distance in 1..=4 {
        svg.circle(centre, RADIUS * (0.5 * f64::from(distance)).tanh(), &style);
    }
    for i in 0..12 {
        let (sin, cos) = (TAU * f64::from(i) / 12.0).sin_cos();
        let inner = (0.5_f64).tanh();
        let spoke = [panel.place(inner * cos, inner * sin), panel.place(cos, sin)];
        svg.paths([&spoke[..]], false, &style);
    }
    if let Some(unit) = unit {
        // Beside the disk, at the height of where each circle meets the diagonal.
        for distance in 1..=3 {
            let r = (0.5 * f64::from(distance)).tanh();
            let [x, y] = panel.place(r * 0.5_f64.sqrt(), r * 0.5_f64.sqrt());
            let end = panel.frame[0] + panel.frame[2] + 14.0;
            let y_text = panel.frame[1] + 22.0 + 22.0 * f64::from(3 - distance);
            let leader = [[x, y], [end - 4.0, y_text - 5.0]];
            svg.paths([&leader[..]], false, &style);
            let text = format!("{unit} = {distance}");
            svg.styled_text(end, y_text, Anchor::Start, 14.0, SOFT, "", &text);
        }
    }
}
