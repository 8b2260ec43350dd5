//! How the training went: loss, validation NLL, variance of the loss's estimator, and the proposal
//! q(s).

use manifusion::train::MetricsRow;
use serde::{Deserialize, Serialize};

use crate::charts::{AxisScale, Chart, ChartLine, averaged, picture};
use crate::error::{PlotError, Result};
use crate::picture::Picture;
use crate::source::{Options, PictureKind};
use crate::svg::{DATA, SAMPLES};

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

/// The charts for which there are at least two points; of a stack, those of its first network.
fn panels(curves: &TrainingCurves) -> Vec<Chart> {
    let series = |name: &str, colour, value: fn(&MetricsRow) -> Option<f64>| ChartLine {
        name: name.to_owned(),
        colour,
        points: curves
            .rows
            .iter()
            .filter(|row| row.member.is_none())
            .filter_map(|row| Some([row.step as f64, value(row)?]))
            .collect(),
    };
    let chart = |title: &str, y: &str, y_scale, noisy, lines| Chart {
        title: title.to_owned(),
        x: String::from("step"),
        y: y.to_owned(),
        x_scale: AxisScale::Linear,
        y_scale,
        noisy,
        lines,
    };
    let charts = [
        chart("Loss", "nats", AxisScale::Linear, true, vec![series("", DATA, |r| r.loss)]),
        chart(
            "Validation NLL",
            "nats per point",
            AxisScale::Linear,
            false,
            vec![series("", SAMPLES, |r| r.validation_nll)],
        ),
        chart(
            "Variance of the loss estimator",
            "nats², log scale",
            AxisScale::Logarithmic,
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
            AxisScale::Linear,
            true,
            vec![series("", SAMPLES, |r| r.effective_sample_size)],
        ),
    ];
    let mut drawable: Vec<Chart> = charts.iter().filter_map(Chart::drawable).collect();
    drawable.iter_mut().for_each(say_how_far_apart);
    drawable
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
            p[1] *= p[0];
        }
    }
    Chart {
        title: String::from("Proposal of times"),
        x: String::from(if decades { "s, log scale" } else { "s" }),
        y: String::from(if decades { "s·q(s)" } else { "q(s)" }),
        x_scale: if decades { AxisScale::Logarithmic } else { AxisScale::Linear },
        y_scale: AxisScale::FromZero,
        noisy: false,
        lines: vec![ChartLine { name: String::new(), colour: SAMPLES, points }],
    }
}

/// Adds to the title of two lines of logarithms how far apart they end.
fn say_how_far_apart(chart: &mut Chart) {
    let last = |line: &ChartLine| averaged(&line.points, 10).last().map(|p| p[1]);
    if let [proposal, uniform] = &chart.lines[..]
        && let (Some(p), Some(u)) = (last(proposal), last(uniform))
    {
        chart.title = format!("{} (ratio at the end: {:.1})", chart.title, 10f64.powf(u - p));
    }
}

/// The picture of [`PictureKind::Curves`].
pub(crate) fn draw(title: &str, curves: &TrainingCurves, options: &Options) -> Result<Picture> {
    let charts = panels(curves);
    if charts.is_empty() {
        let needs = "training metrics of at least two steps";
        return Err(PlotError::Missing { kind: PictureKind::Curves.to_string(), needs });
    }
    picture(title, &charts, options.width)
}
