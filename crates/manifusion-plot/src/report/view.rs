//! The data of the interactive view: a grid of log-densities in 16 bits, points in 16 bits per
//! coordinate.

use std::f64::consts::{FRAC_PI_2, PI};
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use manifusion::manifold::Family;
use manifusion::rows::Rows;
use serde_json::{Map, Value as Json, json};

use crate::coastline::coastlines;
use crate::error::Result;
use crate::grid::{Grid, Wrap, lon_lat, to_disk};
use crate::panel::scale_of;
use crate::rotation::axis_angle;
use crate::source::{PlotSource, Value, thinned};
use crate::svg::escape;

/// Most points of each set in the view.
const MAX_POINTS: usize = 10_000;
/// Most rotations of each set, whose densities have to be evaluated.
const MAX_ROTATIONS: usize = 2000;

/// What the page's script is given, and the elements that it drives.
#[derive(Debug)]
pub(crate) struct View {
    data: Map<String, Json>,
    scene: Option<Scene>,
    has_coast: bool,
    angles: Vec<String>,
    counts: [usize; 2],
    scale: Option<([f64; 2], String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Scene {
    Globe,
    Torus,
    Disk,
    Plane,
    Ball,
}

fn base64_of(numbers: impl Iterator<Item = i16>) -> String {
    STANDARD.encode(numbers.flat_map(i16::to_le_bytes).collect::<Vec<u8>>())
}

/// A number of [−1, 1] in 16 bits.
fn quantised(v: f64) -> i16 {
    (v.clamp(-1.0, 1.0) * f64::from(i16::MAX)).round() as i16
}

/// log-densities in 16 bits between their ends; 65535 stands for none.
fn encoded(values: &[f64]) -> Json {
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let high = finite().fold(f64::NEG_INFINITY, f64::max);
    // Further down than 40 nats nothing is told apart.
    let low = finite().fold(f64::INFINITY, f64::min).max(high - 40.0);
    let span = if high > low { high - low } else { 1.0 };
    let code = |v: f64| {
        if v.is_nan() {
            u16::MAX
        } else {
            ((v - low) / span * 65534.0).clamp(0.0, 65534.0).round() as u16
        }
    };
    json!({
        "low": low,
        "high": low + span,
        "values": base64_of(values.iter().map(|v| code(*v) as i16)),
    })
}

fn grid_json(grid: &Grid) -> Json {
    let mut out = encoded(&grid.log_density);
    out["nx"] = json!(grid.x.len);
    out["ny"] = json!(grid.y.len);
    out["wrap"] = json!(match grid.wrap {
        Wrap::Sphere => "sphere",
        Wrap::Torus => "torus",
        Wrap::Disk => "disk",
        Wrap::None => "none",
    });
    out
}

impl View {
    pub(crate) fn new(source: &PlotSource<'_>) -> Result<Self> {
        let scene = match source.manifold.family() {
            Family::Sphere { dim: 2 } => Some(Scene::Globe),
            Family::Torus { dim } if dim >= 2 => Some(Scene::Torus),
            Family::Hyperboloid { dim: 2, .. } => Some(Scene::Disk),
            Family::Euclidean { dim: 2 } => Some(Scene::Plane),
            Family::Orthogonal { n: 3, special: true } => Some(Scene::Ball),
            _ => None,
        };
        let has_coast = scene == Some(Scene::Globe) && source.geographic;
        let mut view = Self {
            data: Map::new(),
            scene,
            has_coast,
            angles: Vec::new(),
            counts: [0; 2],
            scale: None,
        };
        if let Some(scene) = scene {
            view.fill(scene, source)?;
        }
        Ok(view)
    }

    fn set(&mut self, key: &str, value: impl Into<Json>) {
        self.data.insert(key.to_string(), value.into());
    }

    fn fill(&mut self, scene: Scene, source: &PlotSource<'_>) -> Result<()> {
        let name = match scene {
            Scene::Globe => "globe",
            Scene::Torus => "torus",
            Scene::Disk => "disk",
            Scene::Plane => "plane",
            Scene::Ball => "ball",
        };
        self.set("kind", name);
        let palette: Vec<u8> = (0..256)
            .flat_map(|i| {
                let colour = colorous::VIRIDIS.eval_rational(i, 256);
                [colour.r, colour.g, colour.b]
            })
            .collect();
        self.set("palette", STANDARD.encode(palette));
        self.set("geographic", source.geographic);
        if let Some(grid) = source.grid {
            self.set("grid", grid_json(grid));
            self.set("measure", grid.measure.clone());
            let scale = scale_of(grid, Value::LogDensity);
            let label = format!("log-density (nats; {})", grid.measure);
            self.set_scale([scale.low, scale.high], label);
            let (x, y) = (&grid.x, &grid.y);
            self.set("range", json!([x.start, x.end(), y.start, y.end()]));
        }
        let mut limit = MAX_POINTS;
        match scene {
            Scene::Torus => {
                let dim = source.manifold.dim();
                self.angles = (0..dim).map(|i| source.axis_name(i)).collect();
                self.set("axis_names", self.angles.clone());
                self.set("histogram", source.grid.is_none());
            }
            Scene::Plane => {
                let names: Vec<Json> =
                    source.grid.iter().flat_map(|g| [json!(g.x.name), json!(g.y.name)]).collect();
                self.set("axis_names", names);
            }
            Scene::Disk => {
                if let Family::Hyperboloid { curvature, .. } = source.manifold.family() {
                    self.set("curvature", curvature);
                }
            }
            Scene::Ball => {
                limit = MAX_ROTATIONS;
                self.rotation_densities(source)?;
            }
            Scene::Globe => {}
        }
        if self.has_coast {
            let lines: Vec<Json> = coastlines()
                .iter()
                .map(|line| {
                    let hundredths = line.iter().flatten().map(|v| (v * 100.0).round() as i16);
                    json!(base64_of(hundredths))
                })
                .collect();
            self.set("coast", lines);
        }
        for (i, (key, points)) in
            [("data", source.data), ("samples", source.samples)].into_iter().enumerate()
        {
            if let Some(points) = points {
                self.counts[i] = points.len().min(limit);
                let numbers: Vec<i16> = thinned(points, limit)
                    .flat_map(|x| coordinates(scene, source, x))
                    .map(quantised)
                    .collect();
                self.set("point_width", numbers.len() / self.counts[i]);
                self.set(key, base64_of(numbers.into_iter()));
            }
        }
        Ok(())
    }

    fn set_scale(&mut self, ends: [f64; 2], label: String) {
        self.set("scale", json!({ "low": ends[0], "high": ends[1] }));
        self.scale = Some((ends, label));
    }

    /// log-densities at the rotations that the view shows.
    fn rotation_densities(&mut self, source: &PlotSource<'_>) -> Result<()> {
        let evaluate = |points: Rows<'_>| {
            let kept: Vec<f64> = thinned(points, MAX_ROTATIONS).flatten().copied().collect();
            source.log_density(&kept)
        };
        let mut all = Vec::new();
        for (key, points) in [("data_log", source.data), ("samples_log", source.samples)] {
            if let Some(points) = points {
                let log_p = evaluate(points)?;
                self.set(key, encoded(&log_p));
                all.extend(log_p);
            }
        }
        all.retain(|v| v.is_finite());
        all.sort_by(f64::total_cmp);
        if let (Some(low), Some(high)) = (all.get(all.len() / 50), all.last()) {
            let measure = "Frobenius volume";
            self.set("measure", measure);
            self.set_scale([*low, *high], format!("log-density (nats; {measure})"));
        }
        Ok(())
    }

    /// The JSON for the script, safe inside a script element.
    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string(&self.data)?.replace('<', "\\u003c"))
    }

    /// Canvas, controls and colour bar.
    pub(crate) fn html(&self) -> String {
        let Some(scene) = self.scene else {
            return "<p>This manifold has no view to turn; the pictures below show what can be drawn of it.</p>"
                .to_string();
        };
        let (what, how) = match scene {
            Scene::Globe => ("globe of the density", "turn"),
            Scene::Torus => ("torus of the density", "turn"),
            Scene::Disk => ("Poincaré disk of the density", "move (by hyperbolic translations)"),
            Scene::Plane => ("plane of the density", "move"),
            Scene::Ball => (
                "ball of rotations: direction is the axis, distance from the centre the angle, 180° on the rim",
                "turn",
            ),
        };
        let mut html = format!(
            "<div class=\"stage\">\n<canvas id=\"view\" tabindex=\"0\" role=\"application\" aria-label=\"Interactive {what}\" \
             aria-describedby=\"view-help\"></canvas>\n<p id=\"readout\" role=\"status\"></p>\n{}\
             <div class=\"controls\" role=\"group\" aria-label=\"Layers\">\n{}</div>\n",
            self.bar(),
            self.layers(scene)
        );
        if self.angles.len() > 2 {
            html.push_str(
                "<p class=\"soft\">Colour: density of the samples’ pairs of these angles.</p>\n",
            );
            html.push_str(&self.angle_choice());
        }
        let _ = write!(
            html,
            "<div class=\"controls\" role=\"group\" aria-label=\"View\">\
             <button type=\"button\" id=\"zoom-in\" aria-label=\"Zoom in\">+</button>\
             <button type=\"button\" id=\"zoom-out\" aria-label=\"Zoom out\">−</button>\
             <button type=\"button\" id=\"reset\">Reset</button></div>\n\
             <p class=\"soft\" id=\"view-help\">Drag, or focus the picture and use the arrow keys, to {how}; + and − zoom, 0 \
             resets; hover to read values.</p>\n</div>"
        );
        html
    }

    fn layers(&self, scene: Scene) -> String {
        let density = if scene == Scene::Ball { "Colour by density" } else { "Density" };
        let boxes: Vec<String> = [
            ("density", density.to_string(), true, true),
            ("data", format!("Data ({})", self.counts[0]), true, self.counts[0] > 0),
            ("samples", format!("Samples ({})", self.counts[1]), false, self.counts[1] > 0),
            ("coast", "Coastlines".to_string(), true, self.has_coast),
        ]
        .into_iter()
        .filter(|(.., present)| *present)
        .map(|(layer, label, on, _)| {
            let checked = if on { " checked" } else { "" };
            format!(
                "<label><input type=\"checkbox\" data-layer=\"{layer}\"{checked}>{label}</label>\n"
            )
        })
        .collect();
        boxes.concat()
    }

    fn bar(&self) -> String {
        let Some(([low, high], label)) = &self.scale else { return String::new() };
        let stops: Vec<String> =
            (0..=16).map(|i| crate::colour::viridis(f64::from(i) / 16.0)).collect();
        format!(
            "<div class=\"bar\"><div style=\"background:linear-gradient(90deg,{})\"></div>\
             <p><span>≤ {}</span><span>{}</span><span class=\"label\">{}</span></p></div>\n",
            stops.join(","),
            crate::text::number(*low, 2),
            crate::text::number(*high, 2),
            escape(label)
        )
    }

    fn angle_choice(&self) -> String {
        let select = |id: &str, label: &str, chosen: usize| {
            let options: Vec<String> = self
                .angles
                .iter()
                .enumerate()
                .map(|(i, name)| {
                    let selected = if i == chosen { " selected" } else { "" };
                    format!("<option value=\"{i}\"{selected}>{}</option>", escape(name))
                })
                .collect();
            format!("<label>{label} <select id=\"{id}\">{}</select></label>\n", options.concat())
        };
        format!(
            "<div class=\"controls\" role=\"group\" aria-label=\"Angles\">{}{}</div>\n",
            select("first-angle", "Around the axis", 0),
            select("second-angle", "Around the tube", 1)
        )
    }
}

/// Coordinates of a point in [−1, 1], as the script expects them.
fn coordinates(scene: Scene, source: &PlotSource<'_>, x: &[f64]) -> Vec<f64> {
    match scene {
        Scene::Globe => {
            let (lon, lat) = lon_lat(x);
            vec![lon / PI, lat / FRAC_PI_2]
        }
        Scene::Torus => x.chunks_exact(2).map(|c| c[1].atan2(c[0]) / PI).collect(),
        Scene::Disk => match source.manifold.family() {
            Family::Hyperboloid { curvature, .. } => to_disk(x, curvature).to_vec(),
            _ => Vec::new(),
        },
        Scene::Plane => source.grid.map_or_else(Vec::new, |grid| {
            [(x[0], &grid.x), (x[1], &grid.y)]
                .map(|(v, axis)| 2.0 * (v - axis.start) / (axis.end() - axis.start) - 1.0)
                .to_vec()
        }),
        Scene::Ball => {
            let (axis, angle) = axis_angle(x);
            axis.map(|v| v * angle / PI).to_vec()
        }
    }
}
