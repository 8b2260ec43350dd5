//! What a picture is drawn from, and how.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use manifusion::density::Density;
use manifusion::manifold::{Family, Manifold};
use manifusion::rows::Rows;

use crate::curves::TrainingCurves;
use crate::error::{PlotError, Result};
use crate::grid::Grid;
use crate::projection::Projection;

/// A density with the points that belong into its picture.
#[derive(Clone, Copy, Debug)]
pub struct PlotSource<'a> {
    /// Where everything lives.
    pub manifold: &'a dyn Manifold,
    /// The density, of any method.
    pub density: &'a dyn Density,
    /// Data, as a rule the test points.
    pub data: Option<Rows<'a>>,
    /// Samples of the density. Pictures that need some draw them when there are none.
    pub samples: Option<Rows<'a>>,
    /// Whether a sphere is the Earth, so that coastlines and N, S, E, W make sense.
    pub geographic: bool,
    /// Title of the picture.
    pub title: &'a str,
    /// Names of the coordinates (φ, ψ); numbered θ where there are none.
    pub axis_names: &'a [String],
    /// How the training went.
    pub curves: Option<&'a TrainingCurves>,
    /// The density on a grid, if it has been evaluated already.
    pub grid: Option<&'a Grid>,
}

impl<'a> PlotSource<'a> {
    /// A density alone, without points and without a title. What else there is stands before it:
    /// `PlotSource { title, data, ..PlotSource::new(&density) }`.
    pub fn new(density: &'a dyn Density) -> Self {
        Self {
            manifold: density.manifold().as_ref(),
            density,
            data: None,
            samples: None,
            geographic: false,
            title: "",
            axis_names: &[],
            curves: None,
            grid: None,
        }
    }
}

/// What colours stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Value {
    /// log p in nats.
    #[default]
    LogDensity,
    /// p.
    Density,
}

impl FromStr for Value {
    type Err = PlotError;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "log-density" => Ok(Self::LogDensity),
            "density" => Ok(Self::Density),
            _ => Err(PlotError::UnknownName {
                what: "value",
                name: name.to_string(),
                allowed: "log-density, density",
            }),
        }
    }
}

/// The volume that a density on the hyperboloid is with respect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Measure {
    /// Hyperbolic area, of the Lorentz metric g_L.
    #[default]
    Lorentz,
    /// Area of the metric g_E that the Euclidean product induces, which the model itself uses.
    Euclid,
}

impl FromStr for Measure {
    type Err = PlotError;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "lorentz" => Ok(Self::Lorentz),
            "euclid" => Ok(Self::Euclid),
            _ => Err(PlotError::UnknownName {
                what: "measure",
                name: name.to_string(),
                allowed: "lorentz, euclid",
            }),
        }
    }
}

/// Settings of a picture.
#[derive(Clone, Debug)]
pub struct Options {
    /// Width in pixels; the height follows from the picture, and texts scale along.
    pub width: u32,
    /// What colours stand for.
    pub value: Value,
    /// About how many times the density may be evaluated for a map.
    pub evaluations: usize,
    /// Whether a map's points are as far apart near the poles as at the equator, with values
    /// between them interpolated: a third fewer evaluations, and the same picture.
    pub even_spacing: bool,
    /// Longitude in the middle of a map, in degrees.
    pub central_meridian_deg: f64,
    /// Whether data are drawn over a density.
    pub show_data: bool,
    /// Whether samples are drawn over a density.
    pub show_samples: bool,
    /// Measure of densities on the hyperbolic plane.
    pub measure: Measure,
    /// Samples to draw where a picture needs some and none are given.
    pub num_samples: usize,
    /// Seed of these samples.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            width: 1200,
            value: Value::LogDensity,
            evaluations: 18_432,
            even_spacing: false,
            central_meridian_deg: 0.0,
            show_data: true,
            show_samples: false,
            measure: Measure::Lorentz,
            num_samples: 2000,
            seed: 0,
        }
    }
}

/// Kinds of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureKind {
    /// S²: density on a map.
    Map(Projection),
    /// T²: density over two angles, with contours of 50, 90 and 95 % of the mass.
    Ramachandran,
    /// T^d: all pairs of angles, samples against data.
    Corner,
    /// H²: data and density in the Poincaré disk.
    Disk,
    /// SO(3): Euler angles, data against samples.
    Euler,
    /// SO(3): rotation axes on a map, coloured by angle, data against samples.
    Axes,
    /// SO(3): both of these in one picture.
    Rotations,
    /// ℝ²: density with contours.
    Plane,
    /// Anything: pairwise distances of data and of samples.
    Distances,
    /// How the training went.
    Curves,
}

const KIND_NAMES: &str = "mollweide, robinson, equirectangular, orthographic, ramachandran, corner, disk, euler, axes, \
     rotations, plane, distances, curves";

impl PictureKind {
    /// The picture that shows most on a manifold.
    pub fn natural(manifold: &dyn Manifold) -> Self {
        match manifold.family() {
            Family::Sphere { dim: 2 } => Self::Map(Projection::Mollweide),
            Family::Torus { dim: 2 } => Self::Ramachandran,
            Family::Torus { dim } if dim >= 3 => Self::Corner,
            Family::Hyperboloid { dim: 2, .. } => Self::Disk,
            Family::Orthogonal { n: 3, special: true } => Self::Rotations,
            Family::Euclidean { dim: 2 } => Self::Plane,
            _ => Self::Distances,
        }
    }

    /// One sentence for a user whose manifold has no picture of its own, only the generic ones.
    pub fn without_own_picture(manifold: &dyn Manifold) -> Option<String> {
        (Self::natural(manifold) == Self::Distances).then(|| {
            format!(
                "{} has no picture of its own; pairwise distances and training curves are drawn instead",
                manifold.name()
            )
        })
    }

    /// Every picture that makes sense for a source, the natural one first.
    pub fn all_for(source: &PlotSource<'_>) -> Vec<Self> {
        let natural = Self::natural(source.manifold);
        let needs_no_data = matches!(natural, Self::Map(_) | Self::Ramachandran | Self::Plane);
        let mut kinds = Vec::new();
        if needs_no_data || source.data.is_some() {
            kinds.push(natural);
        }
        if natural != Self::Distances && source.data.is_some() {
            kinds.push(Self::Distances);
        }
        if source.curves.is_some_and(|c| !c.is_empty()) {
            kinds.push(Self::Curves);
        }
        kinds
    }
}

impl FromStr for PictureKind {
    type Err = PlotError;

    fn from_str(name: &str) -> Result<Self> {
        Ok(match name {
            "ramachandran" => Self::Ramachandran,
            "corner" => Self::Corner,
            "disk" => Self::Disk,
            "euler" => Self::Euler,
            "axes" => Self::Axes,
            "rotations" => Self::Rotations,
            "plane" => Self::Plane,
            "distances" => Self::Distances,
            "curves" => Self::Curves,
            _ => Self::Map(name.parse().map_err(|_| PlotError::UnknownName {
                what: "kind of picture",
                name: name.to_string(),
                allowed: KIND_NAMES,
            })?),
        })
    }
}

impl fmt::Display for PictureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Map(projection) => return projection.fmt(f),
            Self::Ramachandran => "ramachandran",
            Self::Corner => "corner",
            Self::Disk => "disk",
            Self::Euler => "euler",
            Self::Axes => "axes",
            Self::Rotations => "rotations",
            Self::Plane => "plane",
            Self::Distances => "distances",
            Self::Curves => "curves",
        })
    }
}

impl<'a> PlotSource<'a> {
    /// An error unless points have the manifold's width.
    pub(crate) fn check(&self) -> Result<()> {
        for points in [self.data, self.samples].into_iter().flatten() {
            points.expect_width(self.manifold.ambient_dim())?;
        }
        Ok(())
    }

    /// log p of every row.
    pub(crate) fn log_density(&self, rows: &[f64]) -> Result<Vec<f64>> {
        self.log_density_of(self.density, rows)
    }

    /// The log of a density at every row, refusing what none has.
    pub(crate) fn log_density_of(&self, density: &dyn Density, rows: &[f64]) -> Result<Vec<f64>> {
        let rows = Rows::new(rows, self.manifold.ambient_dim())?;
        let log_p = density.log_density(rows)?;
        manifusion::rows::expect_len(log_p.len(), rows.len())?;
        match log_p.iter().position(|v| v.is_nan() || *v == f64::INFINITY) {
            Some(index) => Err(PlotError::NotADensity { index, value: log_p[index] }),
            None => Ok(log_p),
        }
    }

    /// The data, or an error that names the picture which needs them.
    pub(crate) fn require_data(&self, kind: PictureKind) -> Result<Rows<'a>> {
        self.data.ok_or_else(|| PlotError::Missing { kind: kind.to_string(), needs: "data" })
    }

    /// The samples given, or fresh ones.
    pub(crate) fn samples_or_draw(&self, options: &Options) -> Result<Cow<'a, [f64]>> {
        match self.samples {
            Some(samples) => Ok(Cow::Borrowed(samples.as_slice())),
            None => Ok(Cow::Owned(self.density.sample(options.num_samples, options.seed)?)),
        }
    }

    /// The grid given, or a fresh one.
    pub(crate) fn grid_or_evaluate(&self, options: &Options) -> Result<Cow<'a, Grid>> {
        match self.grid {
            Some(grid) => Ok(Cow::Borrowed(grid)),
            None => Ok(Cow::Owned(Grid::new(self, options)?)),
        }
    }

    /// Name of coordinate `i`.
    pub(crate) fn axis_name(&self, i: usize) -> String {
        self.axis_names.get(i).cloned().unwrap_or_else(|| format!("θ{}", subscript(i + 1)))
    }

    pub(crate) fn wrong_manifold(&self, kind: PictureKind, needs: &'static str) -> PlotError {
        PlotError::WrongManifold { kind: kind.to_string(), needs, manifold: self.manifold.name() }
    }
}

fn subscript(number: usize) -> String {
    number
        .to_string()
        .chars()
        .map(|c| char::from_u32(0x2080 + c as u32 - '0' as u32).unwrap_or(c))
        .collect()
}

/// At most `limit` of the rows, evenly spread over the whole.
pub(crate) fn thinned(rows: Rows<'_>, limit: usize) -> impl Iterator<Item = &[f64]> {
    let n = rows.len();
    let kept = n.min(limit);
    (0..kept).map(move |i| rows.row(i * n / kept))
}
