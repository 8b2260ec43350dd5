//! Pictures of probability densities on manifolds: maps, Ramachandran and corner plots, Poincaré
//! disks, rotations, and the curves of a training; exports for other programs; one HTML report that
//! holds it all.
//!
//! Every picture is one SVG, and the PNG is drawn from it. Nothing here prints, reads arguments or
//! knows how a density was learned: it is seen through [`manifusion::density::Density`] and
//! evaluated in one batch per picture.
//!
//! ```
//! use std::sync::Arc;
//!
//! use manifusion::density::Density;
//! use manifusion::error::SolveError;
//! use manifusion::manifold::{Manifold, parse};
//! use manifusion::rows::Rows;
//! use manifusion_plot::{PictureKind, Options, PlotSource, draw};
//!
//! /// exp(2 z) on the sphere, normalised.
//! #[derive(Debug)]
//! struct North(Arc<dyn Manifold>);
//!
//! impl Density for North {
//!     fn manifold(&self) -> &Arc<dyn Manifold> {
//!         &self.0
//!     }
//!     fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
//!         let log_z = (std::f64::consts::TAU * 2.0_f64.sinh()).ln();
//!         Ok(x.rows().map(|x| 2.0 * x[2] - log_z).collect())
//!     }
//!     fn sample(&self, _n: usize, _seed: u64) -> Result<Vec<f64>, SolveError> {
//!         Ok(vec![0.0, 0.0, 1.0])
//!     }
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let manifold = parse("sphere:2")?;
//! let density = North(Arc::clone(&manifold));
//! let title = "A density that prefers the north";
//! let source = PlotSource { title, geographic: true, ..PlotSource::new(&density) };
//! let options = Options { evaluations: 800, ..Options::default() };
//! let picture = draw(PictureKind::natural(&*manifold), &source, &options)?;
//! assert!(picture.to_svg().starts_with("<svg"));
//! # Ok(())
//! # }
//! ```

mod charts;
mod coastline;
mod colour;
mod comparison;
mod contours;
mod corner;
mod curves;
mod disk;
mod distances;
mod error;
mod geojson;
mod grid;
mod hyperbola;
#[doc(hidden)]
pub mod internals;
mod map;
mod panel;
mod picture;
mod plane;
mod projection;
mod report;
mod rotation;
mod source;
mod svg;
mod text;
mod ticks;

pub use charts::{AxisScale, Chart, ChartLine, LINE_COLOURS, draw_charts};
pub use coastline::coastlines;
pub use comparison::{ComparedMethod, draw_comparison};
pub use contours::{Line, SHARES};
pub use curves::TrainingCurves;
pub use error::PlotError;
pub use geojson::{Region, highest_density_regions, save_geojson, to_geojson};
pub use grid::{Axis, Grid, MAX_EVALUATIONS, MIN_EVALUATIONS, Wrap};
pub use hyperbola::{Projections, draw_projections};
pub use picture::{MAX_SIDE, MIN_SIDE, Picture};
pub use projection::Projection;
pub use report::{ReportInput, report_html, write_report};
pub use rotation::{axis_angle, bunge_angles};
pub use source::{Measure, Options, PictureKind, PlotSource, Value};

/// The examples of the page on extension points, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extending.md")]
pub struct ExtensionPoints;

/// Draws a picture of a density.
///
/// The width is checked before the density is evaluated, which can take long.
pub fn draw(
    kind: PictureKind,
    source: &PlotSource<'_>,
    options: &Options,
) -> Result<Picture, PlotError> {
    picture::check_width(options.width)?;
    source.check()?;
    match kind {
        PictureKind::Map(projection) => map::draw(projection, source, options),
        PictureKind::Ramachandran => plane::ramachandran(source, options),
        PictureKind::Plane => plane::plane(source, options),
        PictureKind::Corner => corner::draw(source, options),
        PictureKind::Disk => disk::draw(source, options),
        PictureKind::Euler | PictureKind::Axes | PictureKind::Rotations => {
            rotation::draw(kind, source, options)
        }
        PictureKind::Distances => distances::draw(source, options),
        PictureKind::Curves => match source.curves {
            Some(curves) => curves::draw(source.title, curves, options),
            None => Err(PlotError::Missing { kind: kind.to_string(), needs: "training metrics" }),
        },
    }
}
