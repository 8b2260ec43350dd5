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
use crate::linalg::{distance, log_sum_exp};
use crate::manifold::Manifold;
use crate::mixture::{KernelMixture, random_choice};
use crate::nn::Support;
use crate::optim::{Adam, AdamConfig, Decay, Schedule, clip_norm};
use crate::rng::Streams;
use crate::rows::Rows;
use crate::train::{Learner, RestoreError, SmoothingTimes, StepReport, TimeReport, TrainError};

/// Smallest κ: as good as uniform.
const MIN_CONCENTRATION: f64 = 1e-3;
/// κ at the start.
const MIN_START: f64 = 0.1;
const MAX_START: f64 = 0.1 * MAX_CONCENTRATION;
/// Points around a component that its first κ is estimated from, at least.
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
    /// Equal weights, and means at points chosen at random. A mean direction is √κ long, so that
    /// one rate moves narrow and wide components by the same share of their spread.
    fn start(
        blocks: Vec<usize>,
        count: usize,
        x: Rows<'_>,
        mixture: Option<&KernelMixture>,
        seed: u64,
    ) -> Self {
        let chosen = random_choice(x.len(), count, seed);
        let logs = start_concentrations(&blocks, &chosen, x, mixture, seed);
        let mut values = vec![0.0; chosen.len()];
        for (&row, logs) in chosen.iter().zip(logs.chunks_exact(blocks.len())) {
            let mut own = x.row(row);
            for (&width, log) in blocks.iter().zip(logs) {
                let (here, rest) = own.split_at(width);
                values.extend(here.iter().map(|x| (x * f64::from(0.5 * log).exp()) as f32));
                own = rest;
            }
        }
        values.extend(logs);
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

/// log κ that components around these points start with, components × blocks.
///
/// Where components are nearly as many as points, the mixture then is about the kernel mixture with
/// weights of each centre's own: a component has one of its point's bandwidths σ, drawn by their
/// weights, and κ = 2/σ², widened as for fewer points. With fewer components, or without a kernel
/// mixture, κ has the moments of a component's share of the points, those around it: the mean of
/// ⟨μ, x⟩ is κ/(κ + d).
fn start_concentrations(
    blocks: &[usize],
    chosen: &[usize],
    x: Rows<'_>,
    mixture: Option<&KernelMixture>,
    seed: u64,
) -> Vec<f32> {
    let log = |kappa: f64| kappa.clamp(MIN_START, MAX_START).ln() as f32;
    let share = chosen.len() as f64 / x.len() as f64;
    if let Some(mixture) = mixture.filter(|_| share >= 1.0 / NEIGHBOURS as f64) {
        let widened = share.powf(2.0 / (mixture.manifold().dim() as f64 + 4.0));
        let squares = SmoothingTimes::of_mixture(mixture, x.len(), 1.0, 0.0);
        let streams = Streams::new(seed, "mops-start");
        let one = |&row: &usize| {
            let level = 1.0 - streams.stream(row as u64, 0).uniform();
            vec![log(2.0 * widened / squares.draw(row, level)); blocks.len()]
        };
        return chosen.iter().flat_map(one).collect();
    }
    let around = random_choice(x.len(), MOST_NEIGHBOURS, seed);
    let near = NEIGHBOURS.max(around.len() / chosen.len());
    let one = |&row: &usize| {
        let own = x.row(row);
        let mut keyed: Vec<(f64, usize)> =
            around.iter().filter(|i| **i != row).map(|&i| (distance(x.row(i), own), i)).collect();
        // Rows break ties, so that the choice is that of the points alone.
        keyed.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        keyed.truncate(near);
        let mut from = 0;
        let of_block = |width: &usize| {
            let at = from..from + width;
            from += width;
            let off =
                |(_, row): &(f64, usize)| distance(&x.row(*row)[at.clone()], &own[at.clone()]);
            let square: f64 = keyed.iter().map(off).map(|off| off * off).sum();
            let deficit = 0.5 * square / keyed.len() as f64;
            let kappa = (width - 1) as f64 * (1.0 - deficit) / deficit;
            // No points around.
            log(if kappa.is_nan() { MIN_START } else { kappa })
        };
        blocks.iter().map(of_block).collect::<Vec<f32>>()
    };
    chosen.par_iter().flat_map_iter(one).collect()
}

/// A mixture that is being learned.
pub struct Learning {
    manifold: Arc<dyn Manifold>,
    data: Vec<f64>,
    seed: u64,
    /// How far points are smoothed; none where they are learned as they are.
    smoothing: Option<SmoothingTimes>,
    batch: usize,
    schedule: Schedule,
    parameters: Parameters,
    adam: Adam<f32>,
    gradient: Vec<f32>,
    parts: Vec<Sums>,
    drawn: Vec<f64>,
    step: u64,
}

impl Learning {
    /// At its first step, on `data`, rows of points of a product of spheres with these blocks, with
    /// the kernel mixture of the same points.
    pub fn new(
        manifold: Arc<dyn Manifold>,
        blocks: Vec<usize>,
        data: Rows<'_>,
        mixture: Option<&KernelMixture>,
        settings: &MopsSettings,
        seed: u64,
    ) -> Result<Self, TrainError> {
        let train = &settings.train;
        let parameters = Parameters::start(blocks, settings.components, data, mixture, seed);
        let c = train.smoothing;
        let smoothing = (c > 0.0).then(|| match mixture {
            Some(mixture) => SmoothingTimes::of_mixture(mixture, data.len(), c, 0.0),
            None => SmoothingTimes::of_neighbours(data, manifold.dim(), c, 0.0),
        });
        let len = parameters.values.len();
        let partitions = train.partitions.min(train.batch);
        Ok(Self {
            manifold,
            data: data.as_slice().to_vec(),
            seed,
            smoothing,
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
            step: 0,
        })
    }

    /// The components as they are.
    pub fn components(&self) -> Components {
        self.parameters.components().0
    }

    /// Logits of weights, mean directions and log κ.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters.values
    }

    /// The gradient of the last batch.
    pub fn gradient(&self) -> &[f32] {
        &self.gradient
    }

    /// The components with these parameters.
    pub(super) fn components_of(&self, values: Vec<f32>) -> Components {
        Parameters { values, ..self.parameters.clone() }.components().0
    }

    /// The points of this step: all of them if the batch is as large, a random choice with
    /// repetitions else; each moved by a power spherical distribution of variance τ around it where
    /// they are smoothed for times τ.
    pub fn draw(&mut self) {
        let m = self.parameters.width();
        let n = self.data.len() / m;
        self.drawn.resize(self.batch.min(n) * m, 0.0);
        let streams = Streams::new(self.seed, "mops-batch");
        let (batch, step) = (self.batch, self.step);
        let (data, smoothing, blocks) = (&self.data, &self.smoothing, &self.parameters.blocks);
        self.drawn.par_chunks_mut(m).enumerate().with_min_len(64).for_each(|(row, x)| {
            let mut stream = streams.stream(row as u64, step);
            let level = stream.uniform();
            let pick = if batch >= n { row } else { ((level * n as f64) as usize).min(n - 1) };
            let mut own = &data[pick * m..(pick + 1) * m];
            let Some(smoothing) = smoothing else { return x.copy_from_slice(own) };
            let kappa = 2.0 / smoothing.draw(pick, 1.0 - stream.uniform());
            let kappa = kappa.min(MAX_CONCENTRATION);
            let mut to = x;
            for &width in blocks {
                let (mean, rest) = own.split_at(width);
                let (x, after) = to.split_at_mut(width);
                PowerSpherical::new(mean.to_vec(), kappa).sample(&mut stream, x);
                (own, to) = (rest, after);
            }
        });
    }

    /// The mean of −log p over the batch; its gradient is written.
    pub fn loss_gradient(&mut self) -> Result<f64, SolveError> {
        let m = self.parameters.width();
        let x = Rows::new(&self.drawn, m)?;
        let n = x.len();
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
        for (out, gradient) in logs.iter_mut().zip(&found.log_concentrations) {
            *out = -*gradient as f32;
        }
        Ok(-self.parts.iter().map(|part| part.log_p).sum::<f64>() / n as f64)
    }
}

impl Learner<Arrays> for Learning {
    fn step(&mut self) -> Result<StepReport, TrainError> {
        self.draw();
        let loss = self.loss_gradient()?;
        let all = Support::whole(self.gradient.len());
        let gradient = clip_norm(&mut self.gradient, &all, f64::INFINITY)?;
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
