//! Draws every kind of picture from generated data with known densities:
//!
//! ```text
//! cargo run --release -p manifusion-plot --example gallery -- FOLDER
//! ```

use std::error::Error;
use std::path::Path;

use manifusion::data::Synthetic;
use manifusion::density::Density as _;
use manifusion::rows::Rows;
use manifusion::train::MetricsRow;
use manifusion_plot::{
    Grid, Measure, Options, PictureKind, PlotSource, Projection, ReportInput, TrainingCurves,
    Value, draw, save_geojson, write_report,
};

#[path = "../tests/suite/common.rs"]
mod common;

use common::Exact;

/// Curves as a training would leave them.
fn curves() -> TrainingCurves {
    let rows = (0..2000u32)
        .map(|step| {
            let t = f64::from(step) / 400.0;
            let wobble = 0.2 * (f64::from(step) * 12.9898).sin() * (f64::from(step) * 0.731).cos();
            MetricsRow {
                step: 5 * u64::from(step),
                seconds: 0.05 * f64::from(step),
                loss: Some(-2.0 + 3.0 * (-t).exp() + wobble),
                validation_nll: (step % 100 == 0).then(|| 0.5 + 1.5 * (-t).exp()),
                variance_proposal: Some((0.3 + 4.0 * (-t).exp()) * (1.0 + wobble)),
                variance_uniform: Some((3.0 + 4.0 * (-t).exp()) * (1.0 - wobble)),
                effective_sample_size: Some(0.8 - 0.3 * (-t).exp() + 0.1 * wobble),
                ..MetricsRow::default()
            }
        })
        .collect();
    let proposal = (1..=200)
        .map(|i| {
            let s = f64::from(i) / 100.0;
            [s, 0.6 / (0.2 + s) * (1.0 - (-20.0 * s).exp())]
        })
        .collect();
    TrainingCurves { rows, proposal }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("name a folder for the pictures")?;
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder)?;
    let curves = curves();
    let names = ["φ", "ψ"].map(str::to_string);
    let options = Options::default();
    for (set, kinds) in [
        (
            "sphere-mixture",
            vec![
                PictureKind::Map(Projection::Mollweide),
                PictureKind::Map(Projection::Robinson),
                PictureKind::Map(Projection::Equirectangular),
                PictureKind::Map(Projection::Orthographic),
                PictureKind::Distances,
                PictureKind::Curves,
            ],
        ),
        ("sphere-checkerboard", vec![PictureKind::Map(Projection::Mollweide)]),
        ("torus-mixture", vec![PictureKind::Ramachandran]),
        ("torus7-mixture", vec![PictureKind::Corner]),
        ("hyperbolic-mixture", vec![PictureKind::Disk, PictureKind::Distances]),
        (
            "so3-mixture",
            vec![
                PictureKind::Rotations,
                PictureKind::Euler,
                PictureKind::Axes,
                PictureKind::Distances,
            ],
        ),
        ("plane-moons", vec![PictureKind::Plane]),
    ] {
        let density = Exact(Synthetic::new(set)?);
        let manifold = density.manifold();
        let (data, samples) = (density.sample(1500, 1)?, density.sample(1500, 2)?);
        let width = manifold.ambient_dim();
        let title = format!("{set} on {}", manifold.name());
        let source = PlotSource {
            data: Some(Rows::new(&data, width)?),
            samples: Some(Rows::new(&samples, width)?),
            geographic: set == "sphere-mixture",
            title: &title,
            axis_names: if set == "torus-mixture" { &names } else { &[] },
            curves: Some(&curves),
            ..PlotSource::new(&density)
        };
        for kind in kinds {
            let picture = draw(kind, &source, &options)?;
            for ending in ["png", "svg"] {
                picture.save(&folder.join(format!("{set}-{kind}.{ending}")))?;
            }
        }
        let input = ReportInput {
            source,
            options: &options,
            evaluation: None,
            findings: &["The data are generated; no two points are equal.".to_string()],
            config: "# nothing was trained\n",
            commands: &[
                "cargo run --release -p manifusion-plot --example gallery -- FOLDER".to_string()
            ],
            generator: "the gallery of manifusion-plot",
        };
        write_report(&folder.join(format!("{set}.html")), &input)?;
        if set == "sphere-mixture" {
            let other = Options {
                value: Value::Density,
                central_meridian_deg: 160.0,
                show_data: false,
                show_samples: true,
                ..options.clone()
            };
            draw(PictureKind::Map(Projection::Robinson), &source, &other)?
                .save(&folder.join(format!("{set}-robinson-pacific.png")))?;
            let grid = Grid::new(&source, &options)?;
            grid.save(&folder.join("density.csv"))?;
            grid.save(&folder.join("density.npy"))?;
            save_geojson(&grid, &folder.join("regions.geojson"))?;
        }
        if set == "hyperbolic-mixture" {
            let euclid =
                Options { measure: Measure::Euclid, show_samples: true, ..options.clone() };
            draw(PictureKind::Disk, &source, &euclid)?
                .save(&folder.join(format!("{set}-euclid.png")))?;
        }
    }
    Ok(())
}
