//! T² and ℝ²: a density over two coordinates, with contours of the mass.

use manifusion::manifold::Family;
use manifusion::rows::Rows;

use crate::error::Result;
use crate::grid::Axis;
use crate::panel::{
    DATA_ON_COLOUR, MAX_POINTS, Panel, SAMPLES_ON_COLOUR, Sign, contour_entries, count_text,
    dots_on_colour, legend, scale_label, scale_of,
};
use crate::picture::{LAYOUT_WIDTH, Picture};
use crate::source::{Options, PictureKind, PlotSource, thinned};
use crate::svg::{Svg, TICK};
use crate::text;
use crate::ticks::Ticks;

/// Multiples of 60° along an angle.
fn angle_marks() -> Vec<(f64, String)> {
    (-3..=3).map(|i| (60.0 * f64::from(i), text::number(60.0 * f64::from(i), 0))).collect()
}

/// The picture of [`PictureKind::Ramachandran`].
pub(crate) fn ramachandran(source: &PlotSource<'_>, options: &Options) -> Result<Picture> {
    if source.manifold.family() != (Family::Torus { dim: 2 }) {
        return Err(source.wrong_manifold(PictureKind::Ramachandran, "torus:2"));
    }
    let names = [0, 1].map(|i| format!("{} (degrees)", source.axis_name(i)));
    let angle = |cos: f64, sin: f64| sin.atan2(cos).to_degrees();
    let marks = |_: &Axis| angle_marks();
    draw(source, options, &names, marks, |x| [angle(x[0], x[1]), angle(x[2], x[3])])
}

/// The picture of [`PictureKind::Plane`].
pub(crate) fn plane(source: &PlotSource<'_>, options: &Options) -> Result<Picture> {
    if source.manifold.family() != (Family::Euclidean { dim: 2 }) {
        return Err(source.wrong_manifold(PictureKind::Plane, "euclidean:2"));
    }
    let names = ["x", "y"].map(str::to_string);
    let names: [String; 2] =
        std::array::from_fn(|i| source.axis_names.get(i).unwrap_or(&names[i]).clone());
    let marks = |axis: &Axis| Ticks::new(axis.start, axis.end(), 6).labels();
    draw(source, options, &names, marks, |x| [x[0], x[1]])
}

fn draw(
    source: &PlotSource<'_>,
    options: &Options,
    names: &[String; 2],
    marks: impl Fn(&Axis) -> Vec<(f64, String)>,
    coordinates: impl Fn(&[f64]) -> [f64; 2],
) -> Result<Picture> {
    let grid = source.grid_or_evaluate(options)?;
    let mut svg = Svg::default();
    svg.title(LAYOUT_WIDTH, source.title);

    let data = source.data.filter(|_| options.show_data);
    let drawn = options.show_samples.then(|| source.samples_or_draw(options)).transpose()?;
    let width = source.manifold.ambient_dim();
    let samples = drawn.as_ref().map(|rows| Rows::new(rows, width)).transpose()?;
    let mut entries = contour_entries();
    if let Some(data) = data {
        entries.push((Sign::Dot(DATA_ON_COLOUR), count_text(data.len(), "test points")));
    }
    if let Some(samples) = samples {
        entries.push((Sign::Dot(SAMPLES_ON_COLOUR), count_text(samples.len(), "samples")));
    }
    legend(&mut svg, LAYOUT_WIDTH / 2.0, 56.0, &entries);

    let (x_marks, y_marks) = (marks(&grid.x), marks(&grid.y));
    let room = y_marks.iter().map(|(_, t)| text::width(t, TICK)).fold(0.0, f64::max) + 9.0;
    let side = 640.0;
    // Lengths in both directions count the same.
    let ratio = (grid.y.end() - grid.y.start) / (grid.x.end() - grid.x.start);
    let height = (side * ratio).clamp(240.0, 900.0);
    let panel = Panel {
        frame: [(LAYOUT_WIDTH - side + room) / 2.0, 74.0, side, height],
        x: [grid.x.start, grid.x.end()],
        y: [grid.y.start, grid.y.end()],
    };
    let scale = scale_of(&grid, options.value);
    let mut result = Ok(());
    svg.clipped(&panel.clip(), |svg| {
        result = panel.density(svg, &grid, &scale, options.value, Some);
        for (points, colour) in [(samples, SAMPLES_ON_COLOUR), (data, DATA_ON_COLOUR)] {
            if let Some(points) = points {
                let places: Vec<[f64; 2]> = thinned(points, MAX_POINTS)
                    .map(|x| {
                        let [a, b] = coordinates(x);
                        panel.place(a, b)
                    })
                    .collect();
                dots_on_colour(svg, &places, colour);
            }
        }
        if result.is_ok() {
            // Above the points, which would hide them.
            result = panel.contours(svg, &grid, |p| p);
        }
    });
    result?;
    panel.axes(&mut svg, &x_marks, &y_marks);
    panel.labels(&mut svg, &names[0], &names[1], room);

    let bar = 74.0 + height + 62.0;
    let label = scale_label(options.value, &grid.measure);
    scale.bar(&mut svg, [LAYOUT_WIDTH / 2.0 - 230.0, bar, 460.0], &label);
    Picture::new(svg, source.title, (bar + 70.0).round(), options.width)
}
