//! Any manifold: how far points are from each other, in the data and in samples.

use manifusion::manifold::{Family, Lorentz, Manifold};
use manifusion::rows::Rows;

use crate::error::Result;
use crate::panel::{Panel, Sign, legend};
use crate::picture::{LAYOUT_WIDTH, Picture};
use crate::source::{Options, PictureKind, PlotSource, thinned};
use crate::svg::{DATA, SAMPLES, Svg, TICK};
use crate::text;
use crate::ticks::Ticks;

/// Points of each set whose pairs are measured: about 180 000 pairs.
const LIMIT: usize = 600;
const BINS: usize = 60;

/// Distance of two points and what it is called.
pub fn distance(manifold: &dyn Manifold, x: &[f64], y: &[f64]) -> f64 {
    let chord2 = || x.iter().zip(y).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    // From the chord, accurate for near points; rounding may exceed a half turn.
    let arc = |chord: f64| 2.0 * (0.5 * chord).min(1.0).asin();
    match manifold.family() {
        Family::Sphere { .. } => arc(chord2().sqrt()),
        Family::Torus { .. } => x
            .chunks_exact(2)
            .zip(y.chunks_exact(2))
            .map(|(a, b)| arc((a[0] - b[0]).hypot(a[1] - b[1])).powi(2))
            .sum::<f64>()
            .sqrt(),
        // |R − S|² = 8 sin²(ω/2).
        Family::Orthogonal { n: 3, special: true } => arc((0.5 * chord2()).sqrt()),
        Family::Hyperboloid { dim, curvature, .. } => {
            Lorentz::new(dim, curvature).map_or(f64::NAN, |space| space.distance(x, y))
        }
        Family::Product => {
            let mut start = 0;
            manifold
                .factors()
                .iter()
                .map(|factor| {
                    let end = start + factor.ambient_dim();
                    let part = distance(&**factor, &x[start..end], &y[start..end]);
                    start = end;
                    part * part
                })
                .sum::<f64>()
                .sqrt()
        }
        _ => chord2().sqrt(),
    }
}

fn label(manifold: &dyn Manifold) -> &'static str {
    match manifold.family() {
        Family::Sphere { .. } => "great-circle distance (radians)",
        Family::Torus { .. } => "distance on the flat torus (radians)",
        Family::Orthogonal { n: 3, special: true } => {
            "angle of the rotation between two points (radians)"
        }
        Family::Hyperboloid { .. } => "hyperbolic distance (Lorentz metric)",
        Family::Product => "distance in the product (root of the sum of squares)",
        _ => "straight distance in the ambient space",
    }
}

fn pair_distances(manifold: &dyn Manifold, points: Rows<'_>) -> Vec<f64> {
    let kept: Vec<&[f64]> = thinned(points, LIMIT).collect();
    let mut out = Vec::with_capacity(kept.len() * kept.len() / 2);
    for (i, x) in kept.iter().enumerate() {
        out.extend(kept[..i].iter().map(|y| distance(manifold, x, y)).filter(|d| d.is_finite()));
    }
    out
}

/// Densities of the distances over equal bins up to `end`.
fn histogram(distances: &[f64], end: f64) -> Vec<f64> {
    let mut counts = vec![0.0; BINS];
    let weight = BINS as f64 / (end * distances.len().max(1) as f64);
    for d in distances {
        counts[((d / end * BINS as f64) as usize).min(BINS - 1)] += weight;
    }
    counts
}

/// The picture of [`PictureKind::Distances`].
pub(crate) fn draw(source: &PlotSource<'_>, options: &Options) -> Result<Picture> {
    let manifold = source.manifold;
    let data = source.require_data(PictureKind::Distances)?;
    let drawn = source.samples_or_draw(options)?;
    let samples = Rows::new(&drawn, manifold.ambient_dim())?;
    let sets = [data, samples].map(|points| pair_distances(manifold, points));
    let end = sets.iter().flatten().copied().fold(0.0, f64::max).max(1e-12);
    let counts = [histogram(&sets[0], end), histogram(&sets[1], end)];
    let high = counts.iter().flatten().copied().fold(0.0, f64::max).max(1e-12) * 1.06;

    let mut svg = Svg::default();
    svg.title(LAYOUT_WIDTH, source.title);
    let used = |points: Rows<'_>| points.len().min(LIMIT);
    legend(
        &mut svg,
        LAYOUT_WIDTH / 2.0,
        56.0,
        &[
            (Sign::Line(DATA), format!("pairs of {} data points", used(data))),
            (Sign::Line(SAMPLES), format!("pairs of {} samples", used(samples))),
        ],
    );
    let y_marks = Ticks::new(0.0, high, 6).labels();
    let room = y_marks.iter().map(|(_, t)| text::width(t, TICK)).fold(0.0, f64::max) + 9.0;
    let left = room + 42.0;
    let panel = Panel {
        frame: [left, 74.0, LAYOUT_WIDTH - left - 28.0, 380.0],
        x: [0.0, end],
        y: [0.0, high],
    };
    panel.rules(&mut svg, &y_marks);
    for (counts, colour, fill) in [(&counts[0], DATA, 0.22), (&counts[1], SAMPLES, 0.0)] {
        let mut line = vec![panel.place(0.0, 0.0)];
        for (i, count) in counts.iter().enumerate() {
            for k in [i, i + 1] {
                line.push(panel.place(end * k as f64 / BINS as f64, *count));
            }
        }
        line.push(panel.place(end, 0.0));
        let style = format!(
            "fill=\"{colour}\" fill-opacity=\"{fill}\" stroke=\"{colour}\" stroke-width=\"2\""
        );
        svg.paths([&line[..]], false, &style);
    }
    panel.axes(&mut svg, &Ticks::new(0.0, end, 8).labels(), &y_marks);
    panel.labels(&mut svg, label(manifold), "density of pairs", room);
    Picture::new(svg, source.title, 74.0 + 380.0 + 58.0, options.width)
}
