//! Maximum likelihood by Adam: logarithms of weights, mean directions of any length and log κ.

use std::sync::Arc;

use rayon::prelude::*;

use super::MopsSettings;
use super::components::{Components, Gradient, Packed, Sums, normalised};
use super::fitted::MopsDensity;
use crate::checkpoint::Arrays;
use crate::density::Density;
use crate::directional::{MAX_CONCENTRATION, PowerSpherical};
use crate::error::SolveError;
use crate::linalg::log_sum_exp;
use crate::manifold::Manifold;
use crate::mixture::random_choice;
use crate::optim::{Adam, AdamConfig, Decay, Schedule, clip_norm};
use crate::rng::Streams;
use crate::rows::Rows;
use crate::train::{Learner, RestoreError, StepReport, TimeReport, TrainError};

/// Smallest κ: as good as uniform.
const MIN_CONCENTRATION: f64 = 1e-3;
/// Neighbours of a component's start that its first κ is estimated from, at least. With fewer
/// components than an eighth of the points it is each one's share of the points.
const NEIGHBOURS: usize = 8;
/// Points in which neighbours are looked for, at most.
const MOST_NEIGHBOURS: usize = 20_000;

/// Parameters in one flat buffer: logits of weights, mean directions (components × coordinates) and
/// log κ (components × blocks). Single precision places a mean to 6e-8, where the sharpest
/// component is 4e-4 wide.
#[derive(Clone, Debug)]
struct Parameters {
    blocks: Vec<usize>,
    count: usize,
    values: Vec<f32>,
}

impl Parameters {
    /// Equal weights, and means at points chosen at random. κ has the moments of the points around:
    /// the mean of ⟨μ, x⟩ is κ/(κ + d). A mean direction is √κ long, so that one rate moves narrow
    /// and wide components by the same share of their spread.
    fn start(blocks: Vec<usize>, count: usize, x: Rows<'_>, seed: u64) -> Self {
        let m = x.width();
        let chosen = random_choice(x.len(), count, seed);
        let around = random_choice(x.len(), MOST_NEIGHBOURS, seed);
        let near = NEIGHBOURS.max(around.len() / chosen.len()).min(around.len());
        let one = |&row: &usize| {
            let own = x.row(row);
            let distance = |row: usize| -> f64 {
                x.row(row).iter().zip(own).map(|(x, own)| (x - own) * (x - own)).sum()
            };
            let mut keyed: Vec<(f64, usize)> =
                around.iter().filter(|i| **i != row).map(|&i| (distance(i), i)).collect();
            let near = near.min(keyed.len());
            if near > 0 && near < keyed.len() {
                // Rows break ties, so that the choice is that of the points alone.
                let order =
                    |a: &(f64, usize), b: &(f64, usize)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
                keyed.select_nth_unstable_by(near, order);
                keyed.truncate(near);
                keyed.sort_unstable_by(order);
            }
            let (mut mean, mut logs, mut from) = (vec![0.0f32; m], Vec::new(), 0);
            for &width in &blocks {
                let at = from..from + width;
                let off = |&(_, row): &(f64, usize)| -> f64 {
                    let pair = x.row(row)[at.clone()].iter().zip(&own[at.clone()]);
                    pair.map(|(x, own)| (x - own) * (x - own)).sum()
                };
                let total: f64 = keyed.iter().map(off).sum();
                let deficit = 0.5 * total / near.max(1) as f64;
                let kappa = (width - 1) as f64 * (1.0 - deficit) / deficit;
                // All at one place, or none around.
                let kappa = if kappa.is_nan() { 1.0 } else { kappa };
                let kappa = kappa.clamp(0.1, 0.1 * MAX_CONCENTRATION);
                logs.push(kappa.ln() as f32);
                for (mean, own) in mean[at.clone()].iter_mut().zip(&own[at.clone()]) {
                    *mean = (kappa.sqrt() * own) as f32;
                }
                from += width;
            }
            (mean, logs)
        };
        let found: Vec<(Vec<f32>, Vec<f32>)> = chosen.par_iter().map(one).collect();
        let mut values = vec![0.0; chosen.len()];
        values.extend(found.iter().flat_map(|(mean, _)| mean));
        values.extend(found.iter().flat_map(|(_, logs)| logs));
        Self { blocks, count: chosen.len(), values }
    }

    fn width(&self) -> usize {
        self.blocks.iter().sum()
    }

    /// Logits, mean directions, log κ.
    fn parts(&self) -> (&[f32], &[f32], &[f32]) {
        let (logits, rest) = self.values.split_at(self.count);
        let (means, logs) = rest.split_at(self.count * self.width());
        (logits, means, logs)
    }

    /// The components, and the lengths of the mean directions, components × blocks.
    fn components(&self) -> (Components, Vec<f64>) {
        let (logits, directions, logs) = self.parts();
        let (m, blocks) = (self.width(), self.blocks.len());
        let logits: Vec<f64> = logits.iter().map(|logit| f64::from(*logit)).collect();
        let total = log_sum_exp(&logits);
        let weights = logits.iter().map(|logit| (logit - total).exp()).collect();
        let mut means = vec![0.0; self.count * m];
        let mut lengths = vec![0.0; self.count * blocks];
        means
            .par_chunks_mut(m)
            .zip(lengths.par_chunks_mut(blocks))
            .zip(directions.par_chunks(m))
            .with_min_len(512)
            .for_each(|((mean, length), v)| normalised(&self.blocks, v, mean, length));
        let concentrations = logs.iter().map(|log| f64::from(*log).exp()).collect();
        (Components { blocks: self.blocks.clone(), weights, means, concentrations }, lengths)
    }

    /// Keeps κ between its bounds: a component on a repeated point would become infinitely sharp.
    fn bound(&mut self) {
        let first = self.count * (1 + self.width());
        let (low, high) = (MIN_CONCENTRATION.ln() as f32, MAX_CONCENTRATION.ln() as f32);
        for log in &mut self.values[first..] {
            *log = log.clamp(low, high);
        }
    }
}

/// A mixture that is being learned.
pub(super) struct Learning {
    manifold: Arc<dyn Manifold>,
    data: Vec<f64>,
    seed: u64,
    prior: f64,
    batch: usize,
    schedule: Schedule,
    parameters: Parameters,
    /// d log Z/dκ at the start, components × blocks: the mean of log ½(1 + ⟨μ, x⟩) over points as
    /// spread as a component then is.
    prior_means: Vec<f64>,
    adam: Adam<f32>,
    gradient: Vec<f32>,
    parts: Vec<Sums>,
    drawn: Vec<f64>,
    step: u64,
}

impl Learning {
    /// At its first step, on `data`, rows of points of a product of spheres with these blocks.
    pub(super) fn new(
        manifold: Arc<dyn Manifold>,
        blocks: Vec<usize>,
        data: Rows<'_>,
        settings: &MopsSettings,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let train = &settings.train;
        let parameters = Parameters::start(blocks, settings.components, data, seed);
        let (components, _) = parameters.components();
        let count = parameters.blocks.len();
        let slope = |(i, kappa): (usize, &f64)| {
            PowerSpherical::log_norm_with_slope(parameters.blocks[i % count], *kappa)[1]
        };
        let prior_means = components.concentrations.iter().enumerate().map(slope).collect();
        let len = parameters.values.len();
        let partitions = train.partitions.min(train.batch);
        Ok(Self {
            manifold,
            data: data.as_slice().to_vec(),
            seed,
            prior: settings.prior,
            batch: train.batch,
            schedule: Schedule {
                base: train.rate,
                warmup: 0,
                decay: Decay::Cosine,
                total: train.steps,
                floor: 0.0,
            },
            adam: Adam::new(AdamConfig::default(), len)?,
            gradient: vec![0.0; len],
            parts: vec![Sums::new(parameters.count, &parameters.blocks); partitions],
            drawn: Vec::with_capacity(train.batch * data.width()),
            parameters,
            prior_means,
            step: 0,
        })
    }

    /// The components as they are.
    pub(super) fn components(&self) -> Components {
        self.parameters.components().0
    }

    /// The components with these parameters.
    pub(super) fn components_of(&self, values: Vec<f32>) -> Components {
        Parameters { values, ..self.parameters.clone() }.components().0
    }

    /// The points of this step: all of them if the batch is as large, a random choice with
    /// repetitions else.
    fn draw(&mut self) {
        let m = self.parameters.width();
        let n = self.data.len() / m;
        self.drawn.clear();
        if self.batch >= n {
            self.drawn.extend_from_slice(&self.data);
            return;
        }
        let streams = Streams::new(self.seed, "mops-batch");
        for row in 0..self.batch {
            let level = streams.stream(row as u64, self.step).uniform();
            let pick = ((level * n as f64) as usize).min(n - 1);
            self.drawn.extend_from_slice(&self.data[pick * m..(pick + 1) * m]);
        }
    }

    /// The mean of −log p over the batch; the gradient of the objective is written.
    fn loss_gradient(&mut self) -> Result<f64, SolveError> {
        let m = self.parameters.width();
        let x = Rows::new(&self.drawn, m)?;
        let (n, points) = (x.len(), self.data.len() / m);
        let (components, lengths) = self.parameters.components();
        let packed: Packed = components.packed();
        let count = self.parts.len();
        let fill = |(part, sums): (usize, &mut Sums)| -> Result<(), SolveError> {
            sums.fill(&packed, x.range(n * part / count..n * (part + 1) / count)?);
            Ok(())
        };
        self.parts.par_iter_mut().enumerate().map(fill).collect::<Result<(), _>>()?;
        let found = Gradient::new(&components, &packed, &self.parts, n);
        let (logits, rest) = self.gradient.split_at_mut(self.parameters.count);
        let (means, logs) = rest.split_at_mut(self.parameters.count * m);
        for (out, gradient) in logits.iter_mut().zip(&found.logits) {
            *out = -*gradient as f32;
        }
        let blocks = &self.parameters.blocks;
        let of_mean = |((out, gradient), lengths): ((&mut [f32], &[f64]), &[f64])| {
            let mut from = 0;
            for (&width, length) in blocks.iter().zip(lengths) {
                for j in from..from + width {
                    out[j] = (-gradient[j] / length) as f32;
                }
                from += width;
            }
        };
        means
            .chunks_exact_mut(m)
            .zip(found.means.chunks_exact(m))
            .zip(lengths.chunks_exact(blocks.len()))
            .for_each(of_mean);
        // The prior's observations count beside all points, of which this is a mean.
        let share = self.prior / points as f64;
        for (i, out) in logs.iter_mut().enumerate() {
            let kappa = components.concentrations[i];
            let of_prior = share * kappa * (self.prior_means[i] - found.slopes[i]);
            *out = -(found.log_concentrations[i] + of_prior) as f32;
        }
        Ok(-self.parts.iter().map(|part| part.log_p).sum::<f64>() / n as f64)
    }
}

impl Learner<Arrays> for Learning {
    fn step(&mut self) -> Result<StepReport, TrainError> {
        self.draw();
        let loss = self.loss_gradient()?;
        let gradient = clip_norm(&mut self.gradient, f64::INFINITY)?;
        let rate = self.schedule.rate(self.step);
        self.adam.step(&mut self.parameters.values, &self.gradient, rate)?;
        self.parameters.bound();
        self.step += 1;
        // There are no times of noise.
        let times = TimeReport {
            variance: f64::NAN,
            second_moment: f64::NAN,
            second_moment_uniform: f64::NAN,
            effective_share: f64::NAN,
        };
        Ok(StepReport { step: self.step, loss, gradient, times, skipped: 0 })
    }

    fn steps_done(&self) -> u64 {
        self.step
    }

    fn set_total_steps(&mut self, total: u64) {
        self.schedule.total = total;
    }

    fn averaged_weights(&self) -> &[f32] {
        &self.parameters.values
    }

    fn density(&self, _tolerance: f64) -> Result<Box<dyn Density>, TrainError> {
        Ok(Box::new(MopsDensity::new(Arc::clone(&self.manifold), self.components())))
    }

    fn checkpoint(&self, own: Arrays) -> Arrays {
        let Arrays { mut values, mut arrays } = own;
        values.insert("step".into(), self.step.into());
        let (first, second) = self.adam.moments();
        for (name, numbers) in
            [("parameters", &self.parameters.values[..]), ("first", first), ("second", second)]
        {
            arrays.insert(name.into(), numbers.iter().map(|v| f64::from(*v)).collect());
        }
        Arrays { values, arrays }
    }

    fn restore(&mut self, checkpoint: Arrays) -> Result<Arrays, RestoreError> {
        let Arrays { mut values, mut arrays } = checkpoint;
        let step = values.remove("step").and_then(|value| value.as_u64());
        let step = step.ok_or(RestoreError::Missing { what: "step" })?;
        let len = self.parameters.values.len();
        let mut array = |name: &'static str| -> Result<Vec<f32>, RestoreError> {
            let found = arrays.remove(name).ok_or(RestoreError::Missing { what: name })?;
            if found.len() != len {
                return Err(RestoreError::Differs { what: name });
            }
            Ok(found.into_iter().map(|value| value as f32).collect())
        };
        let (parameters, first, second) = (array("parameters")?, array("first")?, array("second")?);
        self.adam = Adam::from_moments(AdamConfig::default(), first, second, step)?;
        (self.parameters.values, self.step) = (parameters, step);
        Ok(Arrays { values, arrays })
    }
}
