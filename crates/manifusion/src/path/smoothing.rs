//! Starting points drawn around given ones, before the noise.

use super::heun;
use crate::error::SolveError;
use crate::manifold::{Family, Hyperboloid, Lorentz, Manifold};
use crate::prior::Prior;
use crate::rng::Streams;

/// How far starting points are drawn from the points given.
#[derive(Clone, Copy, Debug)]
pub struct Smoothing<'a> {
    /// The time τ of each row: its point is drawn from the heat kernel of that time (on ℝ^d from a
    /// normal, on hyperbolic space from a wrapped normal of that variance); from the prior if τ is
    /// infinite.
    pub times: &'a [f64],
    /// Where the draws come from that are not part of the noise itself.
    pub streams: &'a Streams,
}

/// Heun steps of a displacement where no other way is known.
const STEPS: usize = 8;

impl Smoothing<'_> {
    /// The same for `n` rows from `first` on.
    pub(super) fn rows(self, first: usize, n: usize) -> Self {
        Self { times: &self.times[first..first + n], ..self }
    }

    pub(super) fn check(&self) -> Result<(), SolveError> {
        let expected = "times of smoothing are not negative";
        match self.times.iter().position(|tau| !(*tau >= 0.0)) {
            Some(row) => Err(SolveError::Time { row, time: self.times[row], expected }),
            None => Ok(()),
        }
    }

    /// The times, and zero where the prior is drawn instead.
    pub(super) fn finite_times(&self) -> Vec<f64> {
        self.times.iter().map(|tau| if tau.is_finite() { *tau } else { 0.0 }).collect()
    }

    /// Draws the starting points of a path that is walked in steps, rows `first_row` and on.
    pub(super) fn displace(
        &self,
        manifold: &dyn Manifold,
        first_row: u64,
        y: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = manifold.ambient_dim();
        let hyperbolic = match manifold.family() {
            Family::Hyperboloid { dim, curvature, metric } => {
                Some(Lorentz::on(Hyperboloid::valid(dim, curvature, metric)))
            }
            _ => None,
        };
        if manifold.by_rows().is_some() {
            // All rows together; a step of no length leaves a point where it is.
            let times = self.finite_times();
            return heun::brownian_walk(manifold, STEPS, self.streams, first_row, &times, y);
        }
        for (i, (y, tau)) in y.chunks_exact_mut(m).zip(self.times).enumerate() {
            if !(*tau > 0.0 && tau.is_finite()) {
                continue;
            }
            let row = first_row + i as u64;
            if let Some(space) = &hyperbolic {
                let (std, centre) = (vec![tau.sqrt(); space.dim()], y.to_vec());
                let mut stream = self.streams.stream(row, 0);
                space.sample_wrapped_normal(&centre, &std, &mut stream, y);
            } else {
                heun::brownian_walk(manifold, STEPS, self.streams, row, &[*tau], y)
                    .map_err(|error| error.map_row(|_| i))?;
            }
        }
        Ok(())
    }

    /// Draws from the prior where τ is infinite.
    pub(super) fn draw_prior(
        &self,
        prior: &dyn Prior,
        first_row: u64,
        y: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = y.len() / self.times.len();
        let chosen = |i: &usize| self.times[*i].is_infinite();
        let chosen: Vec<usize> = (0..self.times.len()).filter(chosen).collect();
        if chosen.is_empty() {
            return Ok(());
        }
        let rows: Vec<u64> = chosen.iter().map(|i| first_row + *i as u64).collect();
        let mut drawn = vec![0.0; chosen.len() * m];
        prior
            .sample_rows(self.streams, &rows, &mut drawn)
            .map_err(|(i, error)| SolveError::at(chosen[i], 0.0)(error))?;
        for (i, drawn) in chosen.into_iter().zip(drawn.chunks_exact(m)) {
            y[i * m..(i + 1) * m].copy_from_slice(drawn);
        }
        Ok(())
    }
}
