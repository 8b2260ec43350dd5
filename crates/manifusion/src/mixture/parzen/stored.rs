//! A mixture as named arrays.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::charts::Charts;
use super::kernels::{self, Component, Kernels, Shapes};
use super::{ParzenMixture, Space};
use crate::error::SolveError;
use crate::manifold::Manifold;
use crate::mixture::KernelMixture;
use crate::prior::Prior;
use crate::rows::Rows;

/// What names of arrays of the heat kernels begin with.
const ROUND: &str = "round.";

impl ParzenMixture {
    /// Everything that [`ParzenMixture::from_tensors`] needs, bit by bit.
    pub fn to_tensors(&self) -> BTreeMap<String, Vec<f64>> {
        let Kernels { shapes, components, .. } = self.kernels.as_ref();
        let of_shapes = |values: &dyn Fn(&Shapes) -> Vec<f64>| -> Vec<f64> {
            shapes.iter().flat_map(values).collect()
        };
        let round = self.round.to_tensors().into_iter();
        let round = round.map(|(name, values)| (format!("{ROUND}{name}"), values));
        [
            ("floor", vec![self.floor]),
            ("weights", self.weights.clone()),
            ("leave_one_out_nll", vec![self.nll]),
            ("neighbours", of_shapes(&|shapes| vec![shapes.neighbours as f64])),
            ("axes", of_shapes(&|shapes| shapes.axes.clone())),
            ("squares", of_shapes(&|shapes| shapes.squares.clone())),
            ("component_shapes", components.iter().map(|c| c.shape as f64).collect()),
            ("component_scales", components.iter().map(|c| c.scale2).collect()),
        ]
        .into_iter()
        .map(|(name, values)| (name.to_owned(), values))
        .chain(round)
        .collect()
    }

    /// The mixture that gave these tensors.
    pub fn from_tensors(
        manifold: Arc<dyn Manifold>,
        prior: Arc<dyn Prior>,
        tensors: &BTreeMap<String, Vec<f64>>,
    ) -> Result<Self, SolveError> {
        let unusable = |problem: String| SolveError::StoredMixture { problem };
        let take = |name: &str| {
            let missing = || unusable(format!("the array '{name}' is missing"));
            let values = tensors.get(name).cloned().ok_or_else(missing)?;
            match values.iter().position(|value| !value.is_finite()) {
                Some(at) => Err(unusable(format!("{name}[{at}] is {}", values[at]))),
                None => Ok(values),
            }
        };
        let sized = |name: &str, expected: usize| {
            let values = take(name)?;
            let found = values.len();
            if found == expected {
                return Ok(values);
            }
            Err(unusable(format!("the array '{name}' has {found} numbers instead of {expected}")))
        };
        let not_negative = |name: &str, values: Vec<f64>| match values.iter().find(|v| **v < 0.0) {
            Some(value) => Err(unusable(format!("{name} has {value}; none may be negative"))),
            None => Ok(values),
        };
        let of_round = |(name, values): (&String, &Vec<f64>)| {
            Some((name.strip_prefix(ROUND)?.to_owned(), values.clone()))
        };
        let round = tensors.iter().filter_map(of_round).collect();
        let round = Arc::new(KernelMixture::from_tensors(manifold, prior, &round)?);
        let (manifold, prior) = (&round.manifold, &round.prior);
        let charts = Charts { space: Space::new(manifold.as_ref(), prior.as_ref())? };
        let d = charts.dim();
        let rows = Rows::new(&round.centres, manifold.ambient_dim())?;
        let (n, neighbours, scales) = (rows.len(), take("neighbours")?, take("component_scales")?);
        let axes = sized("axes", neighbours.len() * n * d * d)?;
        let squares = not_negative("squares", sized("squares", neighbours.len() * n * d)?)?;
        let places = sized("component_shapes", scales.len())?;
        let weights = not_negative("weights", sized("weights", 1 + scales.len())?)?;
        let total: f64 = weights.iter().sum();
        if !((total - 1.0).abs() < 1e-9) {
            return Err(unusable(format!("the weights sum to {total} instead of 1")));
        }
        let (floor, nll) = (sized("floor", 1)?[0], sized("leave_one_out_nll", 1)?[0]);
        if !(floor > 0.0 && scales.iter().all(|scale| *scale > 0.0)) {
            return Err(unusable("the floor and all scales must be positive".into()));
        }
        if places.iter().any(|place| !(*place >= 0.0 && *place < neighbours.len() as f64)) {
            return Err(unusable("a component has a shape that is not there".into()));
        }
        let shapes = neighbours
            .iter()
            .enumerate()
            .map(|(i, neighbours)| Shapes {
                neighbours: *neighbours as usize,
                axes: axes[i * n * d * d..(i + 1) * n * d * d].to_vec(),
                squares: squares[i * n * d..(i + 1) * n * d].to_vec(),
            })
            .collect();
        let components = places
            .iter()
            .zip(&scales)
            .map(|(place, scale2)| Component { shape: *place as usize, scale2: *scale2 })
            .collect();
        let located = kernels::locate(&charts, rows);
        let kernels = Arc::new(Kernels::new(charts, located, shapes, components, floor));
        Ok(Self { round, floor, weights, nll, kernels })
    }
}
