//! A mixture of kernels of several bandwidths, centred on the training points, as a density
//! estimator, and as a measure of how far data may be smoothed.
//!
//! p(x) = w₀ p₀(x) + Σ_k w_k (1/n) Σ_i K_{σ_k²}(x|x_i). The noise turns a heat kernel into one (of
//! time τ + s on compact spaces; on ℝ^d into another normal), so that the noised density is a
//! mixture of the same kind in closed form. On hyperbolic space K is a wrapped normal, which has
//! neither property. The weights maximise the leave-one-out likelihood of the training points, with
//! one pseudo-observation of the prior. `docs/kernel-mixture.md` gives the method and its measured
//! accuracy.

mod heat;
mod nearest;
mod radial;
mod space;
mod sum;
mod tree;
mod wrapped;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use nearest::{nearest_distances, neighbour_distances};

use crate::density::Density;
use crate::em;
use crate::error::SolveError;
use crate::linalg::{norm, scale};
use crate::manifold::{Family, Hyperboloid, Lorentz, Manifold};
use crate::parallel;
use crate::path::{NoisingPath, PathChoice};
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut};

pub use heat::random_choice;

use heat::Heat;
use space::Shape;
use sum::{Accuracy, Kernels};

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

/// Neighbours whose responsibilities a centre's own weights are the mean of, and
/// pseudo-observations of the common weights.
const LOCAL_NEIGHBOURS: usize = 31;
const LOCAL_PRIOR: f64 = 2.0;
/// Times that responsibilities and local weights are computed in turn.
const LOCAL_ROUNDS: usize = 3;

/// Kernels of several bandwidths on the training points, and the prior.
#[derive(Clone, Debug)]
pub struct KernelMixture {
    manifold: Arc<dyn Manifold>,
    prior: Arc<dyn Prior>,
    /// Training points, row by row.
    centres: Vec<f64>,
    bandwidths: Vec<f64>,
    /// The prior's, then the bandwidths'.
    weights: Vec<f64>,
    /// The centres' own weights, centres × bandwidths, each centre's of sum 1 − w₀.
    local: Option<Vec<f64>>,
    /// Mean negative leave-one-out log-density.
    nll: f64,
    trace: Vec<f64>,
    family: KernelFamily,
}

#[derive(Clone, Debug)]
enum KernelFamily {
    Heat { heat: Arc<Heat>, kernels: Kernels },
    Wrapped(Lorentz),
}

/// What the centres are looked up in.
enum Centred {
    Heat(Box<Heat>),
    Wrapped(Lorentz),
}

impl KernelMixture {
    /// Fits bandwidths' weights to training points: at least two, all on the manifold.
    pub fn fit(
        manifold: Arc<dyn Manifold>,
        prior: Arc<dyn Prior>,
        train: Rows<'_>,
        options: &MixtureOptions,
    ) -> Result<Self, SolveError> {
        options.check()?;
        let centred = centred(manifold.as_ref(), prior.as_ref(), train)?;
        let (spread, resolution) = match &centred {
            Centred::Heat(heat) => (heat.spread(), heat.resolution(options.seed)),
            Centred::Wrapped(space) => {
                let spread = hyperbolic_spread(space, train);
                (Some(spread), wrapped::resolution(space, train, options.seed))
            }
        };
        let all = options.bandwidths(spread, resolution)?;
        let logs = match &centred {
            Centred::Heat(heat) => {
                let judges = random_choice(train.len(), options.judges, options.seed);
                heat.leave_one_out(prior.as_ref(), train, &all, None, &judges)?
            }
            Centred::Wrapped(space) => {
                wrapped::leave_one_out(space, prior.as_ref(), train, &all, options)?
            }
        };
        let stop = em::Stop { iterations: options.iterations, gain: options.gain };
        // With one of the prior a point anywhere has a finite log-density, at a price of about
        // log(n)/n.
        let mut pseudo_observations = vec![0.0; 1 + all.len()];
        pseudo_observations[0] = 1.0;
        let fit = em::fit(&logs, &pseudo_observations, stop);
        let n = (logs.len() / (1 + all.len())) as f64;
        // Less than a tenth of a point: such bandwidths only cost time.
        let kept: Vec<usize> =
            (0..all.len()).filter(|k| fit.weights[1 + k] > (0.1 / n).min(1e-4)).collect();
        let mut weights = vec![fit.weights[0]];
        weights.extend(kept.iter().map(|k| fit.weights[1 + k]));
        let total: f64 = weights.iter().sum();
        for weight in &mut weights {
            *weight /= total;
        }
        let bandwidths: Vec<f64> = kept.iter().map(|k| all[*k]).collect();
        let likelihood = |row: &[f64]| {
            let kernels = kept.iter().map(|k| row[1 + k]);
            let terms: Vec<f64> = std::iter::once(row[0])
                .chain(kernels)
                .zip(&weights)
                .map(|(log, weight)| log + weight.ln())
                .collect();
            crate::linalg::log_sum_exp(&terms)
        };
        let leave_one_out_nll = -logs.chunks_exact(1 + all.len()).map(likelihood).sum::<f64>() / n;
        let family = family(centred, &bandwidths, &weights);
        let centres = train.as_slice().to_vec();
        let trace = fit.trace;
        let local = None;
        let nll = leave_one_out_nll;
        Ok(Self { manifold, prior, centres, bandwidths, weights, local, nll, trace, family })
    }

    /// Bandwidths σ_k, descending; those whose weight came out below a tenth of a point are left
    /// out.
    pub fn bandwidths(&self) -> &[f64] {
        &self.bandwidths
    }

    /// w_k of the bandwidths.
    pub fn weights(&self) -> &[f64] {
        &self.weights[1..]
    }

    /// w₀.
    pub fn prior_weight(&self) -> f64 {
        self.weights[0]
    }

    /// Training points.
    pub fn num_centres(&self) -> usize {
        self.centres.len() / self.manifold.ambient_dim()
    }

    /// Mean negative leave-one-out log-density of the training points, in nats.
    pub fn leave_one_out_nll(&self) -> f64 {
        self.nll
    }

    /// The centres' own weights, centres × bandwidths, if they have any.
    pub fn local_weights(&self) -> Option<&[f64]> {
        self.local.as_deref()
    }

    /// Whether its centres can have weights of their own: with heat kernels.
    pub fn can_be_local(&self) -> bool {
        matches!(self.family, KernelFamily::Heat { .. }) && !self.bandwidths.is_empty()
    }

    /// The same with the common weights alone.
    pub fn without_local(&self) -> Result<Self, SolveError> {
        let mut tensors = self.to_tensors();
        tensors.remove("local_weights");
        Self::from_tensors(Arc::clone(&self.manifold), Arc::clone(&self.prior), &tensors)
    }

    /// The objective after every iteration of expectation–maximisation: mean leave-one-out
    /// log-density plus log(w₀)/n.
    pub fn objective_trace(&self) -> &[f64] {
        &self.trace
    }

    /// log p_s of every row, the density after noise for time s ≥ 0.
    pub fn noised_log_density(&self, x: Rows<'_>, s: f64) -> Result<Vec<f64>, SolveError> {
        check_points(self.manifold.as_ref(), x)?;
        if !(s >= 0.0 && s.is_finite()) {
            let (name, expected) = ("noising time s", "it must be finite and not negative");
            return Err(SolveError::Setting { name, value: s, expected });
        }
        match &self.family {
            KernelFamily::Heat { heat, kernels } => {
                heat.log_density(self.prior.as_ref(), kernels, x, s)
            }
            KernelFamily::Wrapped(space) if s == 0.0 => {
                let centres = Rows::new(&self.centres, self.manifold.ambient_dim())?;
                let (bandwidths, weights) = (&self.bandwidths, &self.weights);
                wrapped::log_density(space, self.prior.as_ref(), centres, bandwidths, weights, x)
            }
            KernelFamily::Wrapped(_) => Err(no_noise(self.manifold.as_ref())),
        }
    }

    /// Everything that [`KernelMixture::from_tensors`] needs, bit by bit.
    pub fn to_tensors(&self) -> BTreeMap<String, Vec<f64>> {
        [
            ("centres", &self.centres),
            ("bandwidths", &self.bandwidths),
            ("weights", &self.weights),
            ("objective_trace", &self.trace),
            ("leave_one_out_nll", &vec![self.nll]),
        ]
        .into_iter()
        .chain(self.local.iter().map(|local| ("local_weights", local)))
        .map(|(name, values)| (name.to_string(), values.clone()))
        .collect()
    }

    /// The same centres and weights with bandwidths `factor` times as large: a proposal whose
    /// density is nowhere small beside this one's.
    pub fn widened(&self, factor: f64) -> Result<Self, SolveError> {
        positive_setting("factor of the bandwidths", factor)?;
        let mut tensors = self.to_tensors();
        if let Some(bandwidths) = tensors.get_mut("bandwidths") {
            scale(factor, bandwidths);
        }
        Self::from_tensors(Arc::clone(&self.manifold), Arc::clone(&self.prior), &tensors)
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
            tensors.get(name).cloned().ok_or_else(missing)
        };
        let (centres, bandwidths) = (take("centres")?, take("bandwidths")?);
        let (weights, trace) = (take("weights")?, take("objective_trace")?);
        let nll = take("leave_one_out_nll")?;
        let positive = |name: &str, values: &[f64]| {
            let Some(at) = values.iter().position(|v| !(*v > 0.0 && v.is_finite())) else {
                return Ok(());
            };
            let value = values[at];
            Err(unusable(format!("{name}[{at}] is {value}; all must be positive and finite")))
        };
        positive("bandwidths", &bandwidths)?;
        positive("weights", &weights)?;
        if weights.len() != 1 + bandwidths.len() {
            return Err(unusable(format!(
                "{} weights and {} bandwidths; there must be a weight for the prior and one for \
                 each bandwidth",
                weights.len(),
                bandwidths.len()
            )));
        }
        let total: f64 = weights.iter().sum();
        if !((total - 1.0).abs() < 1e-9) {
            return Err(unusable(format!("the weights sum to {total} instead of 1")));
        }
        if nll.len() != 1 {
            return Err(unusable(format!(
                "leave_one_out_nll has {} numbers instead of 1",
                nll.len()
            )));
        }
        let rows = Rows::new(&centres, manifold.ambient_dim())?;
        let family =
            family(centred(manifold.as_ref(), prior.as_ref(), rows)?, &bandwidths, &weights);
        let (num_centres, nll) = (rows.len(), nll[0]);
        let mixture =
            Self { manifold, prior, centres, bandwidths, weights, local: None, nll, trace, family };
        let Some(local) = tensors.get("local_weights") else { return Ok(mixture) };
        let bands = mixture.bandwidths.len();
        if local.len() != num_centres * bands {
            return Err(unusable(format!(
                "{} local weights for {num_centres} centres of {bands} bandwidths each",
                local.len()
            )));
        }
        let kernels = 1.0 - mixture.weights[0];
        // A mixture of the prior alone has no bandwidths, and chunks of none are not allowed.
        for (centre, own) in local.chunks_exact(bands.max(1)).enumerate() {
            if let Some(weight) = own.iter().find(|w| !(**w >= 0.0)) {
                return Err(unusable(format!(
                    "centre {centre} has a local weight of {weight}; none may be negative"
                )));
            }
            let sum: f64 = own.iter().sum();
            if !((sum - kernels).abs() < 1e-9) {
                return Err(unusable(format!(
                    "the local weights of centre {centre} sum to {sum} instead of {kernels}, what \
                     the prior leaves"
                )));
            }
        }
        mixture.with_local(local.clone(), nll)
    }

    /// The same kernels with weights that vary from centre to centre: each centre takes the mean of
    /// its neighbours' leave-one-out responsibilities, with the common weights as
    /// pseudo-observations. Where data are dense in one place and thin in another, or repeat in
    /// some, this is a better density than common weights are. On spaces with a heat kernel.
    pub fn localised(&self, options: &MixtureOptions) -> Result<Self, SolveError> {
        let heat = self.heat()?;
        let centres = Rows::new(&self.centres, self.manifold.ambient_dim())?;
        let judges = random_choice(centres.len(), options.judges, options.seed);
        let mut mixture = self.clone();
        for _ in 0..LOCAL_ROUNDS {
            let (local, _) = mixture.judged(heat, centres, &judges)?;
            mixture = self.with_local(local, self.nll)?;
        }
        let (_, nll) = mixture.judged(heat, centres, &judges)?;
        Ok(Self { nll, ..mixture })
    }

    /// Local weights from the responsibilities of this mixture, and its mean negative leave-one-out
    /// log-density.
    fn judged(
        &self,
        heat: &Heat,
        centres: Rows<'_>,
        judges: &[usize],
    ) -> Result<(Vec<f64>, f64), SolveError> {
        let bands = self.bandwidths.len();
        let weighted;
        let heat = match &self.local {
            Some(local) => {
                weighted = heat.with_weights(local);
                &weighted
            }
            None => heat,
        };
        let (prior, local) = (self.prior.as_ref(), self.local_weights());
        let mut shares = heat.leave_one_out(prior, centres, &self.bandwidths, local, judges)?;
        let mut nll = 0.0;
        for row in shares.chunks_exact_mut(1 + bands) {
            row[0] += self.weights[0].ln();
            if self.local.is_none() {
                for (log, weight) in row[1..].iter_mut().zip(self.weights()) {
                    *log += weight.ln();
                }
            }
            let log_p = crate::linalg::log_sum_exp(row);
            nll -= log_p / judges.len() as f64;
            for log in row {
                *log = (*log - log_p).exp();
            }
        }
        let mut place = vec![u32::MAX; centres.len()];
        for (at, judge) in judges.iter().enumerate() {
            place[*judge] = at as u32;
        }
        let (width, kernels) = (heat.space.metric_width(), 1.0 - self.weights[0]);
        let mut out = vec![0.0; centres.len() * bands];
        parallel::for_each_chunk(&mut out, bands, 64, |first, chunk| {
            for (i, own) in chunk.chunks_exact_mut(bands).enumerate() {
                for (own, weight) in own.iter_mut().zip(self.weights()) {
                    *own = LOCAL_PRIOR * weight / kernels;
                }
                let near =
                    heat.tree.neighbours(&heat.metric, width, first + i, LOCAL_NEIGHBOURS, |row| {
                        place[row] != u32::MAX
                    });
                for row in near {
                    let at = place[row] as usize * (1 + bands);
                    crate::linalg::axpy(1.0, &shares[at + 1..at + 1 + bands], own);
                }
                let total: f64 = own.iter().sum();
                scale(kernels / total, own);
            }
            Ok(())
        })?;
        Ok((out, nll))
    }

    fn heat(&self) -> Result<&Heat, SolveError> {
        match &self.family {
            KernelFamily::Heat { heat, .. } => Ok(heat),
            KernelFamily::Wrapped(_) => Err(SolveError::Unsupported {
                what: "a kernel mixture with local weights",
                manifold: self.manifold.name(),
                hint: "they need heat kernels, and its kernels are wrapped normals; keep the common \
                       weights",
            }),
        }
    }

    fn with_local(&self, local: Vec<f64>, nll: f64) -> Result<Self, SolveError> {
        let heat = self.heat()?.with_weights(&local);
        let squares: Vec<f64> = self.bandwidths.iter().map(|b| b * b).collect();
        let accuracy = Accuracy::exact(heat.space.dim);
        let (weights, prior) = (self.weights(), self.prior_weight());
        let kernels = Kernels::new(&heat.space, accuracy, &squares, weights, prior, Some(&local));
        let family = KernelFamily::Heat { heat: Arc::new(heat), kernels };
        Ok(Self { local: Some(local), nll, family, ..self.clone() })
    }
}

impl Density for KernelMixture {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.manifold
    }

    /// In closed form: every centre by itself, kernels cut where they are below 1e-14 of their
    /// peak.
    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        self.noised_log_density(x, 0.0)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_from(0, n, seed)
    }
}

impl KernelMixture {
    /// `n` draws, rows `first_row` and on of all that the seed gives: a component by its weight, a
    /// centre, and exact noise from it.
    pub fn sample_from(
        &self,
        first_row: usize,
        n: usize,
        seed: u64,
    ) -> Result<Vec<f64>, SolveError> {
        let m = self.manifold.ambient_dim();
        let count = self.num_centres();
        let picks = Streams::new(seed, "mixture-pick");
        let noise = Streams::new(seed, "mixture-noise");
        let mut starts = Vec::with_capacity(n * m);
        // 0 for the prior, k + 1 for bandwidth k.
        let mut components = Vec::with_capacity(n);
        for row in first_row..first_row + n {
            let mut stream = picks.stream(row as u64, 0);
            let mut level = stream.uniform();
            let centre = ((stream.uniform() * count as f64) as usize).min(count - 1);
            let mut pick = 0;
            if level > self.weights[0] {
                level -= self.weights[0];
                let bands = self.bandwidths.len();
                let own = match &self.local {
                    Some(local) => &local[centre * bands..(centre + 1) * bands],
                    None => self.weights(),
                };
                pick = 1;
                while pick < bands && level > own[pick - 1] {
                    level -= own[pick - 1];
                    pick += 1;
                }
            }
            components.push(pick);
            starts.extend_from_slice(&self.centres[centre * m..(centre + 1) * m]);
        }
        // Those of the prior are overwritten below.
        let bandwidth = |pick: usize| if pick == 0 { 1.0 } else { self.bandwidths[pick - 1] };
        let mut out = starts.clone();
        match &self.family {
            KernelFamily::Heat { .. } => {
                let (manifold, prior) = (Arc::clone(&self.manifold), Arc::clone(&self.prior));
                let path = NoisingPath::new(manifold, prior, PathChoice::Exact)?;
                let times: Vec<f64> = components.iter().map(|k| bandwidth(*k).powi(2)).collect();
                if n > 0 {
                    let (from, to) = (Rows::new(&starts, m)?, RowsMut::new(&mut out, m)?);
                    path.sample(from, &times, &noise, first_row as u64, to)?;
                }
            }
            KernelFamily::Wrapped(_) => {}
        }
        parallel::for_each_chunk(&mut out, m, 64, |first, chunk| {
            for (i, x) in chunk.chunks_exact_mut(m).enumerate() {
                let row = first + i;
                let pick = components[row];
                // Step 1: the path has used step 0.
                let mut stream = noise.stream((first_row + row) as u64, 1);
                let start = &starts[row * m..(row + 1) * m];
                if pick == 0 {
                    self.prior.sample(&mut stream, x).map_err(SolveError::at(i, 0.0))?;
                    continue;
                }
                match &self.family {
                    KernelFamily::Wrapped(space) => {
                        let std = vec![bandwidth(pick); space.dim()];
                        space.sample_wrapped_normal(start, &std, &mut stream, x);
                    }
                    // On ℝ^d the kernel is a normal around the centre, not the noise that pulls
                    // towards the origin.
                    KernelFamily::Heat { heat, .. } => {
                        for block in &heat.space.blocks {
                            if let Shape::Flat { .. } = block.shape {
                                for j in block.ambient.clone() {
                                    x[j] = start[j] + bandwidth(pick) * stream.normal();
                                }
                            }
                        }
                    }
                }
            }
            Ok(())
        })?;
        Ok(out)
    }
}

impl MixtureOptions {
    fn check(&self) -> Result<(), SolveError> {
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
    fn bandwidths(
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

fn positive_setting(name: &'static str, value: f64) -> Result<(), SolveError> {
    let expected = "it must be positive and finite";
    let allowed = value > 0.0 && value.is_finite();
    if allowed { Ok(()) } else { Err(SolveError::Setting { name, value, expected }) }
}

fn check_points(manifold: &dyn Manifold, x: Rows<'_>) -> Result<(), SolveError> {
    x.expect_width(manifold.ambient_dim())?;
    for (row, x) in x.rows().enumerate() {
        manifold.check_point(x).map_err(SolveError::at(row, 0.0))?;
    }
    Ok(())
}

/// An error unless there are two points or more, all on a manifold that has kernels.
fn centred(
    manifold: &dyn Manifold,
    prior: &dyn Prior,
    train: Rows<'_>,
) -> Result<Centred, SolveError> {
    check_points(manifold, train)?;
    if train.len() < 2 {
        let expected = "leaving one out needs at least two";
        let (name, value) = ("number of training points", train.len() as f64);
        return Err(SolveError::Setting { name, value, expected });
    }
    if let Family::Hyperboloid { dim, curvature, metric } = manifold.family() {
        return Ok(Centred::Wrapped(Lorentz::on(Hyperboloid::valid(dim, curvature, metric))));
    }
    Ok(Centred::Heat(Box::new(Heat::new(manifold, prior, train)?)))
}

fn family(centred: Centred, bandwidths: &[f64], weights: &[f64]) -> KernelFamily {
    match centred {
        Centred::Wrapped(space) => KernelFamily::Wrapped(space),
        Centred::Heat(heat) => {
            let squares: Vec<f64> = bandwidths.iter().map(|b| b * b).collect();
            let accuracy = Accuracy::exact(heat.space.dim);
            let (common, prior) = (&weights[1..], weights[0]);
            let kernels = Kernels::new(&heat.space, accuracy, &squares, common, prior, None);
            KernelFamily::Heat { heat: Arc::from(heat), kernels }
        }
    }
}

/// Root mean square distance from the origin, per dimension.
fn hyperbolic_spread(space: &Lorentz, train: Rows<'_>) -> f64 {
    let mut v = vec![0.0; space.dim()];
    let mut squares = 0.0;
    for x in train.rows() {
        space.log_origin(x, &mut v);
        squares += norm(&v).powi(2);
    }
    (squares / (train.len() * space.dim()) as f64).sqrt()
}

fn no_noise(manifold: &dyn Manifold) -> SolveError {
    SolveError::Unsupported {
        what: "the kernel mixture's density under the noise",
        manifold: manifold.name(),
        hint: "noise does not turn its wrapped normals into wrapped normals; use the mixture \
               without noise",
    }
}
