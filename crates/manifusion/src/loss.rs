//! The CT-ELBO integrand `eq:ct-elbo-time2` on a noised batch, in its two forms.

use crate::divergence::{Estimator, Probes};
use crate::error::SolveError;
use crate::heat_kernel::TransitionKernel;
use crate::linalg::{axpy, dot, scale, scratch};
use crate::manifold::{Generators, LogCoordinates, Manifold};
use crate::nn::{Directions, FieldInput, RowLoss, ShardCotangents, ShardValues};
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::{Rows, RowsMut};

/// Which form of the bound is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// ½|Pa|² + ∇_g·(Pa − U₀), the paper's; works on every manifold.
    Implicit(Estimator),
    /// ½|Pa − ∇log K_s(Y_s|Y_0)|², the same bound up to a constant that does not depend on the
    /// network, where the transition kernel is known. No divergence, and far smaller variance at
    /// small s.
    Denoising,
}

/// A noised batch with what the loss needs at each row. Reused between steps.
#[derive(Clone, Debug, Default)]
pub struct LossBatch {
    /// Y_s, n × m.
    pub y: Vec<f64>,
    /// s, n.
    pub s: Vec<f64>,
    /// The factor of each row: 1/(n q(s)).
    pub weight: Vec<f64>,
    /// The time that each row's starting point was smoothed for before the noise, n, or none at
    /// all; see [`TransitionKernel::score_rows`].
    pub smoothing: Vec<f64>,
    /// Whether the field is the prior's score plus the network.
    prior_score: bool,
    /// The prior's score, n × m.
    base: Vec<f64>,
    /// Coordinates in which the network sees points, if not those of ℝᵐ.
    coordinates: Option<LogCoordinates>,
    /// Fields that the network gives the coefficients of, if not the vector itself.
    generators: Option<Generators>,
    /// Y_s and the directions' velocities in these coordinates.
    seen: (Vec<f64>, Vec<f64>),
    /// Directions and H for the implicit form.
    probes: Probes,
    /// What the derivatives of coefficients along the directions are multiplied by, where there are
    /// generators.
    traced: Vec<f64>,
    /// What is subtracted from the divergence, n; implicit form. ∇_g·U₀, or its negative for a
    /// network that is added to 2U₀.
    prior_divergence: Vec<f64>,
    /// ∇log K_s, n × m, in the denoising form; in a regression whatever P a is to be.
    pub target: Vec<f64>,
}

impl LossBatch {
    /// Room for `n` rows of `m` coordinates.
    pub fn new(n: usize, m: usize) -> Self {
        Self { y: vec![0.0; n * m], s: vec![0.0; n], weight: vec![0.0; n], ..Self::default() }
    }

    /// The same with the network in other coordinates.
    #[must_use]
    pub fn with_coordinates(self, coordinates: Option<LogCoordinates>) -> Self {
        Self { coordinates, ..self }
    }

    /// The same with the network as coefficients of these fields.
    #[must_use]
    pub fn with_generators(self, generators: Option<Generators>) -> Self {
        Self { generators, ..self }
    }

    /// The same for a network that is added to the prior's score.
    #[must_use]
    pub fn with_prior_score(self, prior_score: bool) -> Self {
        Self { prior_score, ..self }
    }

    /// Fills what the chosen form needs from `y` and `s` (and, for the denoising form, the starting
    /// points `y0`).
    pub fn prepare(
        &mut self,
        manifold: &dyn Manifold,
        prior: &dyn Prior,
        kind: LossKind,
        kernel: Option<&TransitionKernel>,
        y0: Rows<'_>,
        probes: &Streams,
    ) -> Result<(), SolveError> {
        let m = manifold.ambient_dim();
        let y = Rows::new(&self.y, m)?;
        match kind {
            LossKind::Implicit(estimator) => {
                self.probes.fill(manifold, estimator, y, probes, 0, 0)?;
                if let Some(generators) = &self.generators {
                    // ∇_g·(Σ g_k V_k) = Σ_k V_k(g_k) = Σ_j Σ_k ⟨V_k, e_j⟩ e_j(g_k).
                    self.traced.resize(self.probes.e.len(), 0.0);
                    let block = (self.probes.per_row * m).max(1);
                    let rows = self.probes.e.chunks_exact(block);
                    let rows = rows.zip(self.traced.chunks_exact_mut(block)).zip(y.rows());
                    for ((e, traced), y) in rows {
                        for (e, traced) in e.chunks_exact(m).zip(traced.chunks_exact_mut(m)) {
                            generators.transposed(y, e, traced);
                        }
                    }
                    self.probes.h.fill(0.0);
                }
                self.prior_divergence.clear();
                self.prior_divergence.extend(y.rows().map(|y| prior.drift_divergence(y)));
            }
            LossKind::Denoising => {
                let kernel = kernel.ok_or_else(|| SolveError::Unsupported {
                    what: "the denoising loss",
                    manifold: manifold.name(),
                    hint: "use the implicit loss",
                })?;
                self.probes = Probes::default();
                self.target.resize(self.y.len(), 0.0);
                let smoothing = Some(&self.smoothing[..]).filter(|times| !times.is_empty());
                let target = RowsMut::new(&mut self.target, m)?;
                kernel.score_rows(y0, y, &self.s, smoothing, target)?;
            }
        }
        if self.prior_score {
            self.base.resize(self.y.len(), 0.0);
            for (y, base) in self.y.chunks_exact(m).zip(self.base.chunks_exact_mut(m)) {
                prior.drift(y, base);
                scale(2.0, base);
            }
            // ∇_g·(2U₀ + a − U₀)
            scale(-1.0, &mut self.prior_divergence);
            for (target, base) in self.target.iter_mut().zip(&self.base) {
                *target -= base;
            }
        }
        self.see(m);
        Ok(())
    }

    /// Prepares a regression on `target`, with the loss of [`LossKind::Denoising`].
    pub fn prepare_regression(&mut self, m: usize) {
        self.probes = Probes::default();
        self.see(m);
    }

    /// Points and directions as the network sees them.
    fn see(&mut self, m: usize) {
        let Some(coordinates) = &self.coordinates else { return };
        let (x, e) = &mut self.seen;
        x.clone_from(&self.y);
        e.clear();
        e.extend_from_slice(self.probes.velocities());
        let block = self.probes.per_row * m;
        for (i, x) in x.chunks_exact_mut(m).enumerate() {
            coordinates.apply(x, &mut e[i * block..(i + 1) * block]);
        }
    }

    /// Where the network is to be evaluated.
    pub fn input(&self, m: usize) -> Result<FieldInput<'_>, SolveError> {
        let (x, e) = match &self.coordinates {
            Some(_) => (self.seen.0.as_slice(), self.seen.1.as_slice()),
            None => (self.y.as_slice(), self.probes.velocities()),
        };
        let directions = Directions { per_row: self.probes.per_row, e, e_s: &[] };
        Ok(FieldInput { x: Rows::new(x, m)?, s: &self.s, directions })
    }

    /// The loss as the network's gradient takes it.
    pub fn row_loss<'a>(&'a self, manifold: &'a dyn Manifold, kind: LossKind) -> impl RowLoss + 'a {
        move |values: ShardValues<'_>, mut out: ShardCotangents<'_>| match kind {
            LossKind::Implicit(_) => self.implicit(manifold, &values, &mut out),
            LossKind::Denoising => self.denoising(manifold, &values, &mut out),
        }
    }

    fn implicit(
        &self,
        manifold: &dyn Manifold,
        values: &ShardValues<'_>,
        out: &mut ShardCotangents<'_>,
    ) {
        let (m, block) = (values.dim, values.per_row * values.dim);
        let mut tangent = scratch(m);
        let together = self.read_together(manifold, values);
        let traced = if self.generators.is_some() { &self.traced } else { &self.probes.e };
        for r in 0..values.rows {
            let row = values.first_row + r;
            let (weight, h) = (self.weight[row], &self.probes.h[row * m..(row + 1) * m]);
            let a = &values.a[r * m..(r + 1) * m];
            let (e, jvp) =
                (&traced[row * block..(row + 1) * block], &values.jvp[r * block..(r + 1) * block]);
            match &together {
                Some(all) => tangent.copy_from_slice(&all[r * m..(r + 1) * m]),
                None => self.read(manifold, row, a, &mut tangent),
            }
            if self.prior_score {
                axpy(1.0, &self.base[row * m..(row + 1) * m], &mut tangent);
            }
            let div = self.probes.weight * dot(e, jvp) + dot(h, a) - self.prior_divergence[row];
            out.loss[r] = weight * (0.5 * dot(&tangent, &tangent) + div);
            // P is symmetric and idempotent: the gradient of ½|Pa|² is Pa; a score added to a is
            // tangent.
            let cotangent = &mut out.a[r * m..(r + 1) * m];
            self.read_back(row, &tangent, cotangent);
            for (out, h) in cotangent.iter_mut().zip(h) {
                *out = weight * (*out + h);
            }
            for (out, e) in out.jvp[r * block..(r + 1) * block].iter_mut().zip(e) {
                *out = weight * self.probes.weight * e;
            }
        }
    }

    /// `out ←` the tangent vector that the network's numbers stand for.
    fn read(&self, manifold: &dyn Manifold, row: usize, numbers: &[f64], out: &mut [f64]) {
        let m = numbers.len();
        let y = &self.y[row * m..(row + 1) * m];
        if let Some(generators) = &self.generators {
            generators.apply(y, numbers, out);
        } else {
            out.copy_from_slice(numbers);
            manifold.project_tangent(y, out);
        }
    }

    /// The tangent vectors of all rows with one call, where calls are dear.
    fn read_together(&self, manifold: &dyn Manifold, values: &ShardValues<'_>) -> Option<Vec<f64>> {
        let maps = manifold.by_rows().filter(|_| self.generators.is_none())?;
        let len = values.rows * values.dim;
        let mut tangents = values.a[..len].to_vec();
        maps.tangents(&self.y[values.first_row * values.dim..][..len], &mut tangents);
        Some(tangents)
    }

    /// `out ←` the derivative by the network's numbers, from that by the tangent vector, tangent.
    fn read_back(&self, row: usize, tangent: &[f64], out: &mut [f64]) {
        let m = tangent.len();
        match &self.generators {
            Some(generators) => {
                generators.transposed(&self.y[row * m..(row + 1) * m], tangent, out);
            }
            None => out.copy_from_slice(tangent),
        }
    }

    fn denoising(
        &self,
        manifold: &dyn Manifold,
        values: &ShardValues<'_>,
        out: &mut ShardCotangents<'_>,
    ) {
        let m = values.dim;
        let mut error = scratch(m);
        let together = self.read_together(manifold, values);
        for r in 0..values.rows {
            let row = values.first_row + r;
            let at = row * m..(row + 1) * m;
            match &together {
                Some(all) => error.copy_from_slice(&all[r * m..(r + 1) * m]),
                None => self.read(manifold, row, &values.a[r * m..(r + 1) * m], &mut error),
            }
            for (error, target) in error.iter_mut().zip(&self.target[at]) {
                *error -= target;
            }
            let weight = self.weight[row];
            out.loss[r] = 0.5 * weight * dot(&error, &error);
            let cotangent = &mut out.a[r * m..(r + 1) * m];
            self.read_back(row, &error, cotangent);
            scale(weight, cotangent);
        }
    }
}
