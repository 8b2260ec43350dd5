//! The forms in which files give points: latitude and longitude, angles, quaternions, ….

pub(crate) mod convert;
mod guess;
mod names;
mod rotation;

use manifusion::manifold::{Family, Manifold};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

use crate::error::DataError;

pub(crate) use convert::{from_point, to_point};
pub(crate) use guess::{Chosen, choose};
pub(crate) use names::canonical_names;

/// How far a row may be off its manifold, relative to its size: coordinates in files are rounded
/// decimals. Such rows are projected; rows farther away are errors.
pub const TOLERANCE: f64 = 1e-3;

/// The form of a point's coordinates in a file. `docs/data-forms.md` states every convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[non_exhaustive]
pub enum Form {
    /// Latitude and longitude in degrees.
    LatLon,
    /// Longitude and latitude in degrees.
    LonLat,
    /// A vector in space.
    Xyz,
    /// Angles in degrees.
    AnglesDeg,
    /// Angles in radians.
    AnglesRad,
    /// A unit quaternion, scalar part first; q and −q are the same rotation.
    Quaternion,
    /// A unit quaternion, scalar part last.
    QuaternionXyzw,
    /// A matrix, row by row.
    Matrix,
    /// Bunge's Euler angles φ₁, Φ, φ₂ in degrees: intrinsic ZXZ, R = R_z(φ₁)R_x(Φ)R_z(φ₂).
    Euler,
    /// The same in radians.
    EulerRad,
    /// The axis times the angle in radians.
    Rotvec,
    /// Coordinates (x₀, x₁, …) on the hyperboloid −x₀² + x₁² + … = 1/K, the time coordinate first.
    Lorentz,
    /// Coordinates in the Poincaré ball of radius 1/√|K|.
    Poincare,
    /// Distance from the origin in the metric of curvature K, and angle in radians.
    Polar,
    /// The library's own coordinates.
    Ambient,
}

impl Form {
    /// All forms.
    pub const ALL: [Self; 15] = [
        Self::LatLon,
        Self::LonLat,
        Self::Xyz,
        Self::AnglesDeg,
        Self::AnglesRad,
        Self::Quaternion,
        Self::QuaternionXyzw,
        Self::Matrix,
        Self::Euler,
        Self::EulerRad,
        Self::Rotvec,
        Self::Lorentz,
        Self::Poincare,
        Self::Polar,
        Self::Ambient,
    ];

    /// The name, as `--as` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LatLon => "latlon",
            Self::LonLat => "lonlat",
            Self::Xyz => "xyz",
            Self::AnglesDeg => "angles-deg",
            Self::AnglesRad => "angles-rad",
            Self::Quaternion => "quaternion",
            Self::QuaternionXyzw => "quaternion-xyzw",
            Self::Matrix => "matrix",
            Self::Euler => "euler",
            Self::EulerRad => "euler-rad",
            Self::Rotvec => "rotvec",
            Self::Lorentz => "lorentz",
            Self::Poincare => "poincare",
            Self::Polar => "polar",
            Self::Ambient => "ambient",
        }
    }

    /// The forms that describe points of a manifold, the particular ones before `ambient`.
    pub fn of(manifold: &dyn Manifold) -> Vec<Self> {
        let mut forms = match manifold.family() {
            Family::Sphere { dim: 1 }
            | Family::Torus { .. }
            | Family::Orthogonal { n: 2, special: true } => {
                vec![Self::AnglesDeg, Self::AnglesRad]
            }
            Family::Sphere { dim: 2 } => vec![Self::LatLon, Self::LonLat, Self::Xyz],
            Family::Orthogonal { n: 3, special: true } => vec![
                Self::Quaternion,
                Self::QuaternionXyzw,
                Self::Matrix,
                Self::Euler,
                Self::EulerRad,
                Self::Rotvec,
            ],
            Family::Orthogonal { .. } => vec![Self::Matrix],
            Family::Hyperboloid { dim: 2, .. } => vec![Self::Lorentz, Self::Polar, Self::Poincare],
            Family::Hyperboloid { .. } => vec![Self::Lorentz, Self::Poincare],
            Family::Euclidean { dim: 3 } => vec![Self::Xyz],
            Family::Other if manifold.ambient_dim() == 3 => vec![Self::Xyz],
            _ => vec![],
        };
        forms.push(Self::Ambient);
        forms
    }

    /// Columns of the form on a manifold that has it.
    pub fn width(self, manifold: &dyn Manifold) -> usize {
        match self {
            Self::LatLon | Self::LonLat | Self::Polar => 2,
            Self::Euler | Self::EulerRad | Self::Rotvec => 3,
            Self::Quaternion | Self::QuaternionXyzw => 4,
            Self::AnglesDeg | Self::AnglesRad | Self::Poincare => manifold.dim(),
            Self::Xyz | Self::Matrix | Self::Lorentz | Self::Ambient => manifold.ambient_dim(),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Form {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        let name = text.trim().to_ascii_lowercase();
        Self::ALL.into_iter().find(|form| form.name() == name).ok_or_else(|| {
            let allowed = Self::ALL.map(Self::name).join(", ");
            DataError::UnknownForm { name: crate::table::shortened(text.trim()), allowed }
        })
    }
}

impl From<Form> for String {
    fn from(form: Form) -> Self {
        form.name().to_owned()
    }
}

impl TryFrom<String> for Form {
    type Error = DataError;

    fn try_from(text: String) -> Result<Self, DataError> {
        text.parse()
    }
}

/// A form, or one per factor of a product, as in `latlon*angles-deg`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Forms(Vec<Form>);

impl Forms {
    /// One form for the whole manifold.
    pub fn single(form: Form) -> Self {
        Self(vec![form])
    }

    /// The forms in order.
    pub fn as_slice(&self) -> &[Form] {
        &self.0
    }

    /// The manifold's parts, each with its form; an error unless each form describes its part.
    pub(crate) fn parts<'a>(
        &self,
        manifold: &'a dyn Manifold,
    ) -> Result<Vec<FactorForm<'a>>, DataError> {
        let factors = manifold.factors();
        let parts: Vec<FactorForm<'a>> = if self.0 == [Form::Ambient] || factors.is_empty() {
            self.0.iter().map(|&form| FactorForm { form, manifold }).collect()
        } else {
            let factors = factors.iter().map(AsRef::as_ref);
            self.0
                .iter()
                .zip(factors)
                .map(|(&form, manifold)| FactorForm { form, manifold })
                .collect()
        };
        let expected = if self.0 == [Form::Ambient] { 1 } else { factors.len().max(1) };
        if self.0.len() != expected {
            return Err(DataError::FactorForms {
                manifold: manifold.name(),
                factors: expected,
                form: self.to_string(),
                found: self.0.len(),
            });
        }
        for part in &parts {
            let allowed = Form::of(part.manifold);
            if !allowed.contains(&part.form) {
                return Err(DataError::FormOfManifold {
                    form: part.form.to_string(),
                    manifold: part.manifold.name(),
                    allowed: allowed.iter().map(|f| f.name()).collect::<Vec<_>>().join(", "),
                });
            }
        }
        Ok(parts)
    }
}

impl fmt::Display for Forms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.0.iter().map(|form| form.name()).collect();
        f.pad(&names.join("*"))
    }
}

impl FromStr for Forms {
    type Err = DataError;

    fn from_str(text: &str) -> Result<Self, DataError> {
        text.split('*').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl From<Forms> for String {
    fn from(forms: Forms) -> Self {
        forms.to_string()
    }
}

impl TryFrom<String> for Forms {
    type Error = DataError;

    fn try_from(text: String) -> Result<Self, DataError> {
        text.parse()
    }
}

/// A factor with its form (or the whole manifold with one).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FactorForm<'a> {
    pub(crate) form: Form,
    pub(crate) manifold: &'a dyn Manifold,
}

impl FactorForm<'_> {
    pub(crate) fn width(&self) -> usize {
        self.form.width(self.manifold)
    }
}

pub(crate) fn total_width(parts: &[FactorForm<'_>]) -> usize {
    parts.iter().map(FactorForm::width).sum()
}
