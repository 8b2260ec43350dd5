//! S²: a density on a map of the world, or of any sphere.

use std::f64::consts::PI;

use manifusion::manifold::Family;
use manifusion::rows::Rows;

use crate::coastline::coastlines;
use crate::colour::{self, Scale};
use crate::error::Result;
use crate::grid::{Grid, lon_lat};
use crate::panel::{
    DATA_ON_COLOUR, MAX_POINTS, SAMPLES_ON_COLOUR, Sign, count_text, dots_on_colour, legend,
    scale_label, scale_of, shown,
};
use crate::picture::{LAYOUT_WIDTH, Picture};
use crate::projection::{Projection, wrap};
use crate::source::{Options, PictureKind, PlotSource, Value, thinned};
use crate::svg::{Anchor, INK, SOFT, Svg, TICK};
use crate::text::number;

/// A projection placed on the picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map {
    projection: Projection,
    /// Longitude in the middle, in radians.
    centre: f64,
    /// Left, top, width and height.
    frame: [f64; 4],
}

impl Map {
    /// A map whose top left corner and width are given.
    pub(crate) fn new(projection: Projection, centre: f64, [x, y, width]: [f64; 3]) -> Self {
        let [half_width, half_height] = projection.extent();
        Self { projection, centre, frame: [x, y, width, width * half_height / half_width] }
    }

    pub(crate) fn bottom(&self) -> f64 {
        self.frame[1] + self.frame[3]
    }

    fn to_picture(self, [x, y]: [f64; 2]) -> [f64; 2] {
        let [half_width, half_height] = self.projection.extent();
        let [left, top, width, height] = self.frame;
        [left + 0.5 * width * (1.0 + x / half_width), top + 0.5 * height * (1.0 - y / half_height)]
    }

    /// Place of a longitude and latitude in radians.
    pub(crate) fn place(&self, lon: f64, lat: f64) -> [f64; 2] {
        self.to_picture(self.projection.forward(wrap(lon - self.centre), lat))
    }

    pub(crate) fn place_point(&self, x: &[f64]) -> [f64; 2] {
        let (lon, lat) = lon_lat(x);
        self.place(lon, lat)
    }

    /// Longitude and latitude in degrees under a place of the picture.
    fn degrees_at(&self, x: f64, y: f64) -> Option<(f64, f64)> {
        let [half_width, half_height] = self.projection.extent();
        let [left, top, width, height] = self.frame;
        let plane = [
            half_width * (2.0 * (x - left) / width - 1.0),
            half_height * (1.0 - 2.0 * (y - top) / height),
        ];
        let (lon, lat) = self.projection.inverse(plane)?;
        Some((wrap(lon + self.centre).to_degrees(), lat.to_degrees()))
    }

    fn density(&self, svg: &mut Svg, grid: &Grid, scale: &Scale, value: Value) -> Result<()> {
        let [left, top, width, height] = self.frame;
        let (columns, rows) = (width.round() as usize, height.round() as usize);
        let at = grid.sampler();
        let raster = colour::png(columns, rows, scale, |column, row| {
            let (lon, lat) = self.degrees_at(
                left + (column as f64 + 0.5) * width / columns as f64,
                top + (row as f64 + 0.5) * height / rows as f64,
            )?;
            at(lon, lat).map(|log_p| shown(log_p, value))
        })?;
        svg.image(self.frame, &raster);
        Ok(())
    }

    /// A line given in degrees of longitude and latitude, cut where the map is.
    fn cut(&self, line: impl Iterator<Item = [f64; 2]>) -> Vec<Vec<[f64; 2]>> {
        let mut parts: Vec<Vec<[f64; 2]>> = vec![Vec::new()];
        let mut last: Option<f64> = None;
        for [lon, lat] in line {
            let lon = wrap(lon.to_radians() - self.centre);
            if last.is_some_and(|last| self.projection.breaks(last, lon)) {
                parts.push(Vec::new());
            }
            last = Some(lon);
            let place = self.to_picture(self.projection.forward(lon, lat.to_radians()));
            if let Some(part) = parts.last_mut() {
                part.push(place);
            }
        }
        parts
    }

    /// Meridians and parallels every 30°.
    pub(crate) fn graticule(&self, svg: &mut Svg, colour: &str) {
        let fine = |from: i32, to: i32| (from..=to).map(f64::from);
        let mut lines = Vec::new();
        for lat in (-60..=60).step_by(30) {
            // From one rim to the other, so that nothing is missing at the cut.
            let start = self.centre.to_degrees();
            lines.extend(
                self.cut(
                    fine(-1799, 1799)
                        .filter(|l| l.rem_euclid(100.0) == 0.0 || l.abs() > 1798.5)
                        .map(|l| [start + l / 10.0, f64::from(lat)]),
                ),
            );
        }
        for lon in (-180..180).step_by(30) {
            lines.extend(self.cut(fine(-30, 30).map(|lat| [f64::from(lon), 3.0 * lat])));
        }
        let lines: Vec<&[[f64; 2]]> = lines.iter().map(Vec::as_slice).collect();
        let style = format!(
            "fill=\"none\" stroke=\"{colour}\" stroke-opacity=\"0.35\" stroke-width=\"0.7\""
        );
        svg.paths(lines, false, &style);
    }

    fn coastlines(&self, svg: &mut Svg) {
        let lines: Vec<Vec<[f64; 2]>> =
            coastlines().iter().flat_map(|line| self.cut(line.iter().copied())).collect();
        let lines: Vec<&[[f64; 2]]> = lines.iter().map(Vec::as_slice).collect();
        let style = "fill=\"none\" stroke=\"#ffffff\" stroke-opacity=\"0.85\" stroke-width=\"0.9\" \
                     stroke-linejoin=\"round\"";
        svg.paths(lines, false, style);
    }

    pub(crate) fn outline(&self, svg: &mut Svg, style: &str) {
        let outline: Vec<Vec<[f64; 2]>> = self
            .projection
            .outline()
            .into_iter()
            .map(|line| line.into_iter().map(|p| self.to_picture(p)).collect())
            .collect();
        svg.paths(outline.iter().map(Vec::as_slice), true, style);
    }

    /// Latitudes beside the left rim, and longitudes below a rectangular map.
    fn degree_labels(&self, svg: &mut Svg, geographic: bool) {
        for lat in (-60..=60).step_by(30) {
            let lat = f64::from(lat);
            let [x, y] =
                self.to_picture(self.projection.forward(self.left_edge(), lat.to_radians()));
            let text = degrees(lat, geographic.then_some(["S", "N"]));
            // The rim of a round map leans towards the label away from the equator.
            let gap = if self.projection == Projection::Equirectangular {
                7.0
            } else {
                8.0 + 0.2 * lat.abs()
            };
            svg.styled_text(x - gap, y + 5.0, Anchor::End, TICK, SOFT, "", &text);
        }
        if self.projection == Projection::Equirectangular {
            for step in (-180..=180).step_by(60) {
                let lon = f64::from(step).to_radians();
                let [x, y] = self.to_picture([lon, -PI / 2.0]);
                let shown = wrap(lon + self.centre).to_degrees().round();
                let text = degrees(shown, geographic.then_some(["W", "E"]));
                svg.styled_text(x, y + 19.0, Anchor::Middle, TICK, SOFT, "", &text);
            }
        }
    }

    /// Relative longitude of the left rim.
    fn left_edge(&self) -> f64 {
        if self.projection == Projection::Orthographic { -PI / 2.0 } else { -PI }
    }
}

fn degrees(value: f64, letters: Option<[&str; 2]>) -> String {
    match letters {
        Some([negative, positive]) if value != 0.0 && value.abs() < 179.5 => {
            let letter = if value < 0.0 { negative } else { positive };
            format!("{}°{letter}", value.abs())
        }
        Some(_) => format!("{}°", value.abs()),
        None => format!("{}°", number(value, 0)),
    }
}

/// The picture of [`PictureKind::Map`].
pub(crate) fn draw(
    projection: Projection,
    source: &PlotSource<'_>,
    options: &Options,
) -> Result<Picture> {
    let kind = PictureKind::Map(projection);
    if source.manifold.family() != (Family::Sphere { dim: 2 }) {
        return Err(source.wrong_manifold(kind, "sphere:2"));
    }
    let grid = source.grid_or_evaluate(options)?;
    let mut svg = Svg::default();
    svg.title(LAYOUT_WIDTH, source.title);

    let centre = wrap(options.central_meridian_deg.to_radians());
    let data = source.data.filter(|_| options.show_data);
    let drawn = options.show_samples.then(|| source.samples_or_draw(options)).transpose()?;
    let samples = drawn.as_ref().map(|rows| Rows::new(rows, 3)).transpose()?;
    let mut entries = Vec::new();
    if let Some(data) = data {
        entries.push((Sign::Dot(DATA_ON_COLOUR), count_text(data.len(), "test points")));
    }
    if let Some(samples) = samples {
        entries.push((Sign::Dot(SAMPLES_ON_COLOUR), count_text(samples.len(), "samples")));
    }
    let top = if entries.is_empty() { 50.0 } else { 70.0 };
    legend(&mut svg, LAYOUT_WIDTH / 2.0, 55.0, &entries);

    let left = 52.0;
    let map = Map::new(projection, centre, [left, top, LAYOUT_WIDTH - left - 32.0]);
    let scale = scale_of(&grid, options.value);
    map.density(&mut svg, &grid, &scale, options.value)?;
    map.graticule(&mut svg, "#ffffff");
    if source.geographic {
        map.coastlines(&mut svg);
    }
    for (points, colour) in [(samples, SAMPLES_ON_COLOUR), (data, DATA_ON_COLOUR)] {
        if let Some(points) = points {
            let places: Vec<[f64; 2]> =
                thinned(points, MAX_POINTS).map(|x| map.place_point(x)).collect();
            dots_on_colour(&mut svg, &places, colour);
        }
    }
    map.outline(&mut svg, &format!("fill=\"none\" stroke=\"{INK}\" stroke-width=\"1.6\""));
    map.degree_labels(&mut svg, source.geographic);

    let below = if projection == Projection::Equirectangular { 38.0 } else { 20.0 };
    let bar = map.bottom() + below;
    let label = scale_label(options.value, &grid.measure);
    scale.bar(&mut svg, [LAYOUT_WIDTH / 2.0 - 230.0, bar, 460.0], &label);
    Picture::new(svg, source.title, (bar + 70.0).round(), options.width)
}
