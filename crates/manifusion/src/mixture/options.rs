//! How a mixture is fitted.

use crate::error::SolveError;

/// How a mixture is fitted.
#[derive(Clone, Copy, Debug)]
pub struct MixtureOptions {
    /// Largest bandwidth, in radians; `None`: 1, and on ℝ^d and hyperbolic space the spread of the
    /// data.
    pub largest: Option<f64>,
    /// Smallest bandwidth; `None`: a quarter of the first percentile of nearest-neighbour
    /// distances, and `floor` where points repeat.
    pub smallest: Option<f64>,
    /// What `smallest` is not chosen below, in units of the largest bandwidth. Repeated points make
    /// the likelihood unbounded: it grows with every smaller bandwidth, so that this number decides
    /// it.
    pub floor: f64,
    /// Ratio of consecutive bandwidths, at most.
    pub ratio: f64,
    /// Iterations of expectation–maximisation, at most.
    pub iterations: usize,
    /// Gain in nats per point below which the weights have converged.
    pub gain: f64,
    /// Training points whose leave-one-out density decides the weights, at most, drawn by `seed`;
    /// all are centres. On hyperbolic space every point counts.
    pub judges: usize,
    /// Seed of the judges and of the points whose neighbours tell the data's resolution.
    pub seed: u64,
}

impl MixtureOptions {
    /// The defaults with this seed.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// The same for points of a manifold of this dimension: beyond three, where cells of centres
    /// hardly merge and every judge takes long, with fewer judges.
    pub fn for_dimension(dim: usize, seed: u64) -> Self {
        let usual = Self::seeded(seed);
        Self { judges: if dim > 3 { 4000 } else { usual.judges }, ..usual }
    }
}

impl Default for MixtureOptions {
    fn default() -> Self {
        Self {
            largest: None,
            smallest: None,
            floor: 3e-4,
            // 14 bandwidths from 1 to 3e-4.
            ratio: 1.87,
            iterations: 5000,
            gain: 1e-7,
            judges: 20_000,
            seed: 0,
        }
    }
}

impl MixtureOptions {
    pub(super) fn check(&self) -> Result<(), SolveError> {
        positive_setting("floor of the smallest bandwidth", self.floor)?;
        positive_setting("number of judges", self.judges as f64)?;
        positive_setting("largest bandwidth", self.largest.unwrap_or(1.0))?;
        positive_setting("smallest bandwidth", self.smallest.unwrap_or(1.0))?;
        if !(self.ratio >= 1.05 && self.ratio.is_finite()) {
            let (name, value) = ("ratio of consecutive bandwidths", self.ratio);
            let expected = "it must be finite and at least 1.05";
            return Err(SolveError::Setting { name, value, expected });
        }
        Ok(())
    }

    /// Geometric from the largest to the smallest.
    pub(super) fn bandwidths(
        &self,
        spread: Option<f64>,
        resolution: Option<f64>,
    ) -> Result<Vec<f64>, SolveError> {
        // Points that all coincide have no spread.
        let natural = spread.filter(|s| *s > 0.0).unwrap_or(1.0);
        let largest = self.largest.unwrap_or(natural);
        let floor = self.floor * largest;
        let smallest = self
            .smallest
            .unwrap_or_else(|| resolution.unwrap_or(floor).clamp(floor, largest.max(floor)));
        if smallest > largest {
            return Err(SolveError::Bandwidths { smallest, largest });
        }
        let steps = ((largest / smallest).ln() / self.ratio.ln() - 1e-9).ceil().max(1.0) as usize;
        let ratio = (smallest / largest).powf(1.0 / steps as f64);
        Ok((0..=steps).map(|k| largest * ratio.powi(k as i32)).collect())
    }
}

pub(super) fn positive_setting(name: &'static str, value: f64) -> Result<(), SolveError> {
    let expected = "it must be positive and finite";
    let allowed = value > 0.0 && value.is_finite();
    if allowed { Ok(()) } else { Err(SolveError::Setting { name, value, expected }) }
}
