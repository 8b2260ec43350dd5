//! A stack whose members are trained and weighed.

use std::sync::Arc;

use serde_json::Value as Json;

use super::settings::StackSettings;
use super::{INFO, MIXTURE_FILE, WINDOWS_FILE, member_seed, network_file};
use crate::checkpoint::Arrays;
use crate::density::Density;
use crate::error::{ShapeError, SolveError};
use crate::likelihood::{BoundOptions, Bounds};
use crate::linalg::log_sum_exp;
use crate::manifold::Manifold;
use crate::methods::kernel::INFO as KERNEL;
use crate::methods::{
    FileMap, FitError, Fitted, Geometry, LikelihoodKind, LogDensities, MODEL_FILE, Member,
    MethodInfo, ModelFacts, write_settings,
};
use crate::mixture::KernelMixture;
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::Rows;
use crate::sample::SampleOptions;
use crate::sde::AdaptiveStats;

/// Σ w_k p_k.
#[derive(Debug)]
pub(super) struct FittedStack {
    geometry: Geometry,
    settings: StackSettings,
    /// Networks, then the Parzen windows or the kernel mixture where there are any.
    members: Vec<Member>,
}

/// Tolerance of log p where nothing else is asked for.
const TOLERANCE: f64 = 1e-5;

/// log Σ w_k e^{l_k} at every point, from the members' values l_k.
fn weighted(weights: &[f64], values: &[Vec<f64>]) -> Vec<f64> {
    let points = values.first().map_or(0, Vec::len);
    let mut terms = vec![0.0; weights.len()];
    (0..points)
        .map(|point| {
            for ((term, weight), values) in terms.iter_mut().zip(weights).zip(values) {
                *term = weight.ln() + values[point];
            }
            log_sum_exp(&terms)
        })
        .collect()
}

/// The mean negative log-likelihood of points at which members have these log-densities.
pub(super) fn mean_nll(log_p: &[Vec<f64>], weights: &[f64]) -> f64 {
    let log_p = weighted(weights, log_p);
    -log_p.iter().sum::<f64>() / log_p.len() as f64
}

impl FittedStack {
    pub(super) fn new(geometry: Geometry, settings: StackSettings, members: Vec<Member>) -> Self {
        Self { geometry, settings, members }
    }

    fn weights(&self) -> Vec<f64> {
        self.members.iter().map(|member| member.weight).collect()
    }

    /// The member of each of the rows from 0 to before `end` of the draws of a seed.
    fn picks(&self, end: usize, seed: u64) -> Vec<usize> {
        let streams = Streams::new(seed, "stack-member");
        let pick = |row: usize| {
            let mut level = streams.stream(row as u64, 0).uniform();
            let below = |member: &Member| {
                level -= member.weight;
                level < 0.0
            };
            self.members.iter().position(below).unwrap_or(self.members.len() - 1)
        };
        (0..end).map(pick).collect()
    }
}

impl Density for FittedStack {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.geometry.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(self.log_density_to(x, TOLERANCE)?.log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_with(n, &SampleOptions { seed, ..SampleOptions::default() })
    }
}

impl Fitted for FittedStack {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn settings(&self) -> Result<Json, FitError> {
        write_settings(&self.settings)
    }

    fn files(&self) -> Result<FileMap, FitError> {
        let mut files = FileMap::new();
        for (number, member) in self.members.iter().enumerate() {
            let name = match member.model.likelihood_kind() {
                LikelihoodKind::Ode => network_file(number),
                LikelihoodKind::ClosedForm if member.model.info() == &KERNEL => {
                    MIXTURE_FILE.to_owned()
                }
                LikelihoodKind::ClosedForm => WINDOWS_FILE.to_owned(),
            };
            files.extend(member.model.files()?.remove(MODEL_FILE).map(|bytes| (name, bytes)));
        }
        let mut own = Arrays::default();
        own.arrays.insert("weights".to_owned(), self.weights());
        files.insert(MODEL_FILE.to_owned(), own.to_bytes()?);
        Ok(files)
    }

    fn prior(&self) -> &Arc<dyn Prior> {
        &self.geometry.prior
    }

    fn likelihood_kind(&self) -> LikelihoodKind {
        let mut kinds = self.members.iter().map(|member| member.model.likelihood_kind());
        let closed = kinds.all(|kind| kind == LikelihoodKind::ClosedForm);
        if closed { LikelihoodKind::ClosedForm } else { LikelihoodKind::Ode }
    }

    fn log_density_to(&self, x: Rows<'_>, tolerance: f64) -> Result<LogDensities, SolveError> {
        let (mut members, mut evaluations) = (Vec::new(), 0.0);
        for member in &self.members {
            let found = member.model.log_density_to(x, tolerance)?;
            evaluations += found.evaluations;
            members.push(found.log_p);
        }
        let log_p = weighted(&self.weights(), &members);
        Ok(LogDensities { log_p, evaluations, members })
    }

    /// Rows of the draws of a seed, each of a member of its own; the draws of a member are its
    /// first ones, in order.
    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        if n == 0 {
            return Err(ShapeError::Empty.into());
        }
        let m = self.geometry.manifold.ambient_dim();
        let picks = self.picks(options.first_row + n, options.seed);
        let (before, wanted) = picks.split_at(options.first_row);
        let mut out = vec![0.0; n * m];
        for (number, member) in self.members.iter().enumerate() {
            let rows: Vec<usize> = (0..n).filter(|row| wanted[*row] == number).collect();
            if rows.is_empty() {
                continue;
            }
            let first_row = before.iter().filter(|pick| **pick == number).count();
            // Members that are networks have streams of the same names.
            let seed = member_seed(options.seed, number);
            let own = SampleOptions { seed, first_row, ..*options };
            let drawn = member.model.sample_with(rows.len(), &own)?;
            for (row, x) in rows.into_iter().zip(drawn.chunks_exact(m)) {
                out[row * m..(row + 1) * m].copy_from_slice(x);
            }
        }
        Ok(out)
    }

    /// log Σ w_k p_k is at least log Σ w_k e^{bound of log p_k}; a member in closed form is its own
    /// bound.
    fn bounds(&self, x: Rows<'_>, options: &BoundOptions) -> Result<Option<Bounds>, SolveError> {
        if self.likelihood_kind() == LikelihoodKind::ClosedForm {
            return Ok(None);
        }
        let mut found = Vec::new();
        for member in &self.members {
            found.push(if let Some(bounds) = member.model.bounds(x, options)? {
                bounds
            } else {
                let exact = member.model.log_density(x)?;
                let stats = AdaptiveStats::default();
                Bounds { elbo: exact.clone(), kelbo_doubled: exact.clone(), kelbo: exact, stats }
            });
        }
        let weights = self.weights();
        let of = |values: fn(&Bounds) -> &Vec<f64>| {
            let values: Vec<Vec<f64>> = found.iter().map(|found| values(found).clone()).collect();
            weighted(&weights, &values)
        };
        let mut stats = AdaptiveStats::default();
        for bounds in &found {
            stats.accepted += bounds.stats.accepted;
            stats.rejected += bounds.stats.rejected;
            stats.forced += bounds.stats.forced;
        }
        Ok(Some(Bounds {
            elbo: of(|bounds| &bounds.elbo),
            kelbo: of(|bounds| &bounds.kelbo),
            kelbo_doubled: of(|bounds| &bounds.kelbo_doubled),
            stats,
        }))
    }

    fn mass_proposal(&self) -> Result<Option<Arc<dyn Density>>, SolveError> {
        let mixture = self.members.iter().find(|member| member.model.mixture().is_some());
        mixture.map_or(Ok(None), |member| member.model.mass_proposal())
    }

    fn mixture(&self) -> Option<&KernelMixture> {
        self.members.iter().find_map(|member| member.model.mixture())
    }

    fn members(&self) -> &[Member] {
        &self.members
    }

    /// Those of the members.
    fn parameters(&self) -> Option<usize> {
        self.members.iter().map(|member| member.model.parameters()).sum()
    }

    fn facts(&self) -> ModelFacts {
        self.members.first().map_or_else(ModelFacts::default, |member| member.model.facts())
    }
}
