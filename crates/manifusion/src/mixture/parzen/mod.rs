//! Manifold Parzen windows (Vincent & Bengio 2002): normal kernels around the training points, each
//! with the covariance of its nearest neighbours.
//!
//! p(x) = w₀ p_K(x) + Σ_c w_c (1/n) Σ_i N(log_{x_i} x; 0, Σ_ic)/|det d exp_{x_i}|, in normal
//! coordinates around x_i, with the mixture p_K of heat kernels on the same centres. A component c
//! is a number of neighbours k and a scale h: Σ_ic = h² S_ik + ε²I with the second moments S_ik of
//! the k nearest neighbours' coordinates. Where data are close to curves or surfaces, or
//! coordinates depend on each other, such kernels are far better than round ones. Weights maximise
//! the leave-one-out likelihood, where a point is left out of its neighbours' covariances too.

mod charts;
mod kernels;
mod stored;

use std::sync::Arc;

use super::KernelMixture;
use super::heat::random_choice;
use super::space::Space;
use super::tree::Tree;
use crate::density::Density;
use crate::em;
use crate::error::SolveError;
use crate::linalg::{axpy, distance, log_sum_exp};
use crate::manifold::Manifold;
use crate::parallel;
use crate::prior::Prior;
use crate::rng::{Stream, Streams};
use crate::rows::Rows;
use charts::Charts;
use kernels::{Component, Kernels, Neighbours, Shapes};

/// Rows that one thread takes at a time.
const CHUNK: usize = 16;

/// How [`ParzenMixture::fit`] goes about it.
#[derive(Clone, Copy, Debug)]
pub struct ParzenOptions {
    /// ε, the least standard deviation of a kernel in any direction: where points repeat, their
    /// neighbours say nothing of it.
    pub floor: f64,
    /// Training points whose leave-one-out density decides the weights, at most, drawn by `seed`;
    /// all are centres.
    pub judges: usize,
    /// Seed of the judges.
    pub seed: u64,
}

/// Numbers of neighbours, in dimensions of the manifold, and at most.
const NEIGHBOURS: [usize; 5] = [3, 6, 12, 24, 48];
const MOST_NEIGHBOURS: usize = 160;
/// Squares of scales.
const SCALES2: [f64; 5] = [1.0 / 8.0, 0.25, 0.5, 1.0, 2.0];
/// Iterations of expectation–maximisation, at most, and the gain in nats per point that ends them.
const STOP: em::Stop = em::Stop { iterations: 2000, gain: 1e-7 };
/// Components with less than this weight only cost time.
const LEAST_WEIGHT: f64 = 1e-3;

/// Normal kernels with the covariances of neighbourhoods, and a mixture of heat kernels.
#[derive(Clone, Debug)]
pub struct ParzenMixture {
    /// p_K, whose centres are those of the windows.
    round: Arc<KernelMixture>,
    floor: f64,
    /// That of p_K, then the components'.
    weights: Vec<f64>,
    /// Mean negative leave-one-out log-density.
    nll: f64,
    kernels: Arc<Kernels>,
}

impl ParzenMixture {
    /// Whether there are normal coordinates on a manifold: where the heat kernel is known.
    pub fn supports(manifold: &dyn Manifold, prior: &dyn Prior) -> bool {
        Space::new(manifold, prior).is_ok()
    }

    /// The largest standard deviation that a window can have on a manifold, for mass one in normal
    /// coordinates; an error where there are no windows.
    pub fn widest(manifold: &dyn Manifold, prior: &dyn Prior) -> Result<f64, SolveError> {
        Ok(Charts { space: Space::new(manifold, prior)? }.widest())
    }

    /// Fits windows on the centres of a mixture of heat kernels, two or more.
    pub fn fit(round: Arc<KernelMixture>, options: &ParzenOptions) -> Result<Self, SolveError> {
        super::options::positive_setting("least standard deviation", options.floor)?;
        super::options::positive_setting("number of judges", options.judges as f64)?;
        let (manifold, prior) = (&round.manifold, &round.prior);
        let train = Rows::new(&round.centres, manifold.ambient_dim())?;
        let charts = Charts { space: Space::new(manifold.as_ref(), prior.as_ref())? };
        if options.floor > charts.widest() {
            let (name, value) = ("least standard deviation", options.floor);
            let expected = "normal kernels so wide would not have mass one on this manifold";
            return Err(SolveError::Setting { name, value, expected });
        }
        let located = kernels::locate(&charts, train);
        let at_most = MOST_NEIGHBOURS.min(train.len() - 1);
        let mut counts = NEIGHBOURS.map(|count| (count * charts.dim()).min(at_most)).to_vec();
        counts.dedup();
        let most = counts[counts.len() - 1];
        let near = nearest(train, most)?;
        let shapes: Result<Vec<Shapes>, SolveError> = counts
            .iter()
            .map(|count| Shapes::of_neighbours(&charts, &located, &near, *count))
            .collect();
        let component =
            |shape| SCALES2.iter().map(move |scale2| Component { shape, scale2: *scale2 });
        let components = (0..counts.len()).flat_map(component).collect();
        let all = Kernels::new(charts, located, shapes?, components, options.floor);

        let judges = random_choice(train.len(), options.judges, options.seed);
        let columns = 1 + all.components.len();
        let mut logs = vec![0.0; judges.len() * columns];
        let near_to = Neighbours::of(&near, most, train.len());
        let round_logs = round.leave_one_out(&judges)?;
        parallel::for_each_chunk(&mut logs, columns, CHUNK, |first, chunk| {
            let mut work = all.workspace();
            for (i, logs) in chunk.chunks_exact_mut(columns).enumerate() {
                let judge = judges[first + i];
                logs[0] = round_logs[first + i];
                all.leave_one_out(judge, &near_to, &mut work, &mut logs[1..]);
            }
            Ok(())
        })?;
        // With one of p_K a point anywhere has a finite log-density.
        let mut pseudo_observations = vec![0.0; columns];
        pseudo_observations[0] = 1.0;
        let fitted = em::fit(&logs, &pseudo_observations, STOP).weights;
        let kept: Vec<usize> =
            (0..all.components.len()).filter(|c| fitted[1 + c] > LEAST_WEIGHT).collect();
        let mut weights = vec![fitted[0]];
        weights.extend(kept.iter().map(|c| fitted[1 + c]));
        let total: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= total;
        }
        let likelihood = |row: &[f64]| {
            let logs = std::iter::once(row[0]).chain(kept.iter().map(|c| row[1 + c]));
            let terms: Vec<f64> = logs.zip(&weights).map(|(log, w)| log + w.ln()).collect();
            log_sum_exp(&terms)
        };
        let sum: f64 = logs.chunks_exact(columns).map(likelihood).sum();
        let nll = -sum / judges.len() as f64;
        let (kernels, floor) = (Arc::new(all.with_components(&kept)), options.floor);
        Ok(Self { round, floor, weights, nll, kernels })
    }

    /// The mixture of heat kernels on the same centres.
    pub fn round(&self) -> &KernelMixture {
        &self.round
    }

    /// ε.
    pub fn floor(&self) -> f64 {
        self.floor
    }

    /// Mean negative leave-one-out log-density of the training points, in nats.
    pub fn leave_one_out_nll(&self) -> f64 {
        self.nll
    }

    /// Number of neighbours, scale h and weight of every component.
    pub fn components(&self) -> impl Iterator<Item = (usize, f64, f64)> + '_ {
        self.kernels.components.iter().zip(&self.weights[1..]).map(|(component, weight)| {
            let neighbours = self.kernels.shapes[component.shape].neighbours;
            (neighbours, component.scale2.sqrt(), *weight)
        })
    }

    /// w₀, the weight of the heat kernels.
    pub fn round_weight(&self) -> f64 {
        self.weights[0]
    }

    /// Numbers that were learned from the data beside those of the heat kernels: covariances and
    /// weights.
    pub fn parameters(&self) -> usize {
        let d = self.kernels.charts.dim();
        let shapes = self.round.num_centres() * self.kernels.shapes.len();
        shapes * d * (d + 1) / 2 + self.weights.len()
    }

    /// The same with all kernels `factor` times as wide: a proposal whose density is nowhere small
    /// beside this one's.
    pub fn widened(&self, factor: f64) -> Result<Self, SolveError> {
        super::options::positive_setting("factor of the kernels", factor)?;
        let kernels = Arc::new(self.kernels.widened(factor));
        let round = Arc::new(self.round.widened(factor)?);
        Ok(Self { round, kernels, floor: factor * self.floor, ..self.clone() })
    }

    /// `n` draws, rows `first_row` and on of all that the seed gives: a component by its weight, a
    /// centre, and normal coordinates around it.
    pub fn sample_from(
        &self,
        first_row: usize,
        n: usize,
        seed: u64,
    ) -> Result<Vec<f64>, SolveError> {
        let m = self.round.manifold.ambient_dim();
        let count = self.round.num_centres();
        let streams = Streams::new(seed, "parzen-sample");
        let mut out = self.round.sample_from(first_row, n, seed)?;
        parallel::for_each_chunk(&mut out, m, 64, |first, chunk| {
            for (i, x) in chunk.chunks_exact_mut(m).enumerate() {
                let mut stream = streams.stream((first_row + first + i) as u64, 0);
                let level = stream.uniform();
                let centre = ((stream.uniform() * count as f64) as usize).min(count - 1);
                if let Some(component) = self.component(level) {
                    self.kernels.draw(centre, component, 1.0, &mut stream, x);
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Moves `x`, a centre, to a draw of its windows with `share` of their covariances; with the
    /// weight of the heat kernels it stays. Whether it moved.
    pub fn stretch(&self, centre: usize, share: f64, stream: &mut Stream, x: &mut [f64]) -> bool {
        let component = self.component(stream.uniform());
        if let Some(component) = component {
            self.kernels.draw(centre, component, share.sqrt(), stream, x);
        }
        component.is_some()
    }

    /// The component at a level in [0, 1) of the weights, none for the heat kernels.
    fn component(&self, mut level: f64) -> Option<usize> {
        let below = |weight: &f64| {
            level -= weight;
            level < 0.0
        };
        let pick = self.weights.iter().position(below).unwrap_or(self.weights.len() - 1);
        pick.checked_sub(1)
    }
}

impl Density for ParzenMixture {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.round.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        let mut out = self.round.log_density(x)?;
        let log_weights: Vec<f64> = self.weights.iter().map(|weight| weight.ln()).collect();
        parallel::for_each_chunk(&mut out, 1, CHUNK, |first, chunk| {
            let mut work = self.kernels.workspace();
            let mut logs = vec![0.0; self.weights.len()];
            for (i, out) in chunk.iter_mut().enumerate() {
                let x = x.row(first + i);
                logs[0] = *out;
                self.kernels.logs(x, &mut work, &mut logs[1..]);
                axpy(1.0, &log_weights, &mut logs);
                *out = log_sum_exp(&logs);
            }
            Ok(())
        })?;
        Ok(out)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_from(0, n, seed)
    }
}

/// The `count` points nearest to every point in ambient coordinates, itself not among them, from
/// near to far.
fn nearest(x: Rows<'_>, count: usize) -> Result<Vec<u32>, SolveError> {
    let (points, width) = (x.as_slice(), x.width());
    let tree = Tree::new(&Space::flat(width), points);
    // Row numbers are exact in f64, and the loop over rows works on those.
    let mut near = vec![0.0; x.len() * count];
    parallel::for_each_chunk(&mut near, count, 64, |first, chunk| {
        for (i, near) in chunk.chunks_exact_mut(count).enumerate() {
            let row = first + i;
            let found = tree.neighbours(points, width, row, count, |other| other != row);
            let mut keyed: Vec<(f64, usize)> =
                found.into_iter().map(|j| (distance(x.row(row), x.row(j)), j)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            for (near, (_, j)) in near.iter_mut().zip(keyed) {
                *near = j as f64;
            }
        }
        Ok(())
    })?;
    Ok(near.into_iter().map(|j| j as u32).collect())
}
