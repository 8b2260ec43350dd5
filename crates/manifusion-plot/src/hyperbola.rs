//! H¹ as the upper branch of a hyperbola: a point, its Lorentz projection and its closest point.

use crate::error::{PlotError, Result};
use crate::panel::{Panel, Sign, legend};
use crate::picture::{LAYOUT_WIDTH, Picture};
use crate::svg::{Anchor, DATA, INK, LABEL, SAMPLES, SOFT, Svg};
use crate::text::number;
use crate::ticks::Ticks;

/// A point (x₀, x₁) of the plane and what it is taken to on x₀² − x₁² = 1, x₀ > 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Projections {
    /// The point.
    pub point: [f64; 2],
    /// x/√(−⟨x, x⟩_L), along the line through the origin.
    pub lorentz: [f64; 2],
    /// The closest point in Euclidean distance.
    pub closest: [f64; 2],
}

impl Projections {
    /// An error for a point that no multiple of which is on the branch.
    pub fn of(point: [f64; 2]) -> Result<Self> {
        let [x, y] = point;
        let length = (x * x - y * y).sqrt();
        if !(x > 0.0 && length > 0.0 && length.is_finite()) {
            let needs =
                "a point with x₀ > |x₁|, which a line through the origin takes to the branch";
            return Err(PlotError::Missing { kind: String::from("projection"), needs });
        }
        let lorentz = [x / length, y / length];
        Ok(Self { point, lorentz, closest: closest(point) })
    }

    /// Euclidean distances of the point to its Lorentz projection and to the closest point.
    pub fn distances(&self) -> [f64; 2] {
        [self.lorentz, self.closest].map(|to| distance(self.point, to))
    }
}

/// The Euclidean distance of two points of the plane.
pub fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// A point of the branch.
pub fn on_branch(t: f64) -> [f64; 2] {
    [t.cosh(), t.sinh()]
}

/// The point (cosh t, sinh t) at which the distance is stationary: half its squared distance has
/// the derivative sinh 2t − x₀ sinh t − x₁ cosh t. It can have three zeros beyond the focal curve,
/// so that the best of a grid is refined.
fn closest(point: [f64; 2]) -> [f64; 2] {
    let [x, y] = point;
    let reach = 2.0 + x.abs().max(y.abs()).asinh();
    let nodes = 400;
    let at = |i: i32| reach * (2.0 * f64::from(i) / f64::from(nodes) - 1.0);
    let far = |t: f64| distance(point, on_branch(t));
    let best = (0..=nodes).min_by(|a, b| far(at(*a)).total_cmp(&far(at(*b)))).unwrap_or(nodes / 2);
    let slope = |t: f64| (2.0 * t).sinh() - x * t.sinh() - y * t.cosh();
    let (mut low, mut high) = (at(best - 1), at(best + 1));
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if slope(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    on_branch(0.5 * (low + high))
}

/// Draws the branch, the point and both of its images, with their distances.
pub fn draw_projections(title: &str, found: &Projections, width: u32) -> Result<Picture> {
    let mut svg = Svg::default();
    svg.title(LAYOUT_WIDTH, title);
    let reach = found.lorentz[1].abs().max(found.closest[1].abs()).max(1.0) + 0.45;
    let high = reach.hypot(1.0) + 0.15;
    let side = 700.0;
    let height = side * high / (2.0 * reach);
    let panel = Panel {
        frame: [0.5 * (LAYOUT_WIDTH - side) + 20.0, 84.0, side, height],
        x: [-reach, reach],
        y: [0.0, high],
    };
    let [to_lorentz, to_closest] = found.distances();
    let entries = [
        (Sign::Dot(INK), String::from("the point")),
        (Sign::Dot(DATA), format!("Lorentz projection, distance {}", number(to_lorentz, 3))),
        (Sign::Dot(SAMPLES), format!("closest point, distance {}", number(to_closest, 3))),
    ];
    legend(&mut svg, 0.5 * LAYOUT_WIDTH, 62.0, &entries);
    let marks = |[low, high]: [f64; 2]| Ticks::new(low, high, 6).labels();
    panel.rules(&mut svg, &marks(panel.y));
    svg.clipped(&panel.clip(), |svg| {
        let dashed = |colour: &str| {
            format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1\" stroke-dasharray=\"5 4\"")
        };
        let place = |[x0, x1]: [f64; 2]| panel.place(x1, x0);
        // The light cone, and the line through the origin that a Lorentz projection follows.
        let cone = [place([high, -high]), place([0.0, 0.0]), place([high, high])];
        svg.paths([&cone[..]], false, &dashed("#b9bdc4"));
        let ray = [place([0.0, 0.0]), place(found.lorentz)];
        svg.paths([&ray[..]], false, &dashed(DATA));
        let branch: Vec<[f64; 2]> =
            (-200..=200).map(|i| place(on_branch(f64::from(i) / 200.0 * reach.asinh()))).collect();
        let style = format!("fill=\"none\" stroke=\"{INK}\" stroke-width=\"2.2\"");
        svg.paths([&branch[..]], false, &style);
        // All points as close as the closest one: the circle touches the branch from below.
        let radius = to_closest * side / (2.0 * reach);
        svg.circle(place(found.point), radius, &dashed(SAMPLES));
        for (to, colour) in [(found.lorentz, DATA), (found.closest, SAMPLES)] {
            let style = format!("stroke=\"{colour}\" stroke-width=\"2.4\"");
            svg.paths([&[place(found.point), place(to)][..]], false, &style);
        }
        for (point, colour) in [(found.lorentz, DATA), (found.closest, SAMPLES), (found.point, INK)]
        {
            let style = format!("fill=\"{colour}\" stroke=\"#ffffff\" stroke-width=\"1.2\"");
            svg.circle(place(point), 6.5, &style);
        }
    });
    for (point, anchor, offset) in [
        (found.point, Anchor::Start, [12.0, 14.0]),
        (found.lorentz, Anchor::End, [-12.0, -6.0]),
        (found.closest, Anchor::End, [-12.0, -8.0]),
    ] {
        let [x, y] = panel.place(point[1], point[0]);
        let text = format!("({}, {})", number(point[0], 3), number(point[1], 3));
        svg.text(x + offset[0], y + offset[1], anchor, LABEL, &text);
    }
    let [x, y] = panel.place(-0.72 * reach, (0.72 * reach).hypot(1.0));
    svg.styled_text(x + 14.0, y - 8.0, Anchor::Start, LABEL, INK, "", "x₀² − x₁² = 1");
    let [x, y] = panel.place(0.6 * reach, 0.6 * reach);
    svg.styled_text(x + 12.0, y + 12.0, Anchor::Start, LABEL, SOFT, "", "light cone");
    panel.axes(&mut svg, &marks(panel.x), &marks(panel.y));
    panel.labels(&mut svg, "x₁", "x₀", 26.0);
    Picture::new(svg, title, (84.0 + height + 62.0).round(), width)
}
