//! The mixture's score at every noise time as a field.

use std::sync::Arc;

use super::heat::Heat;
use super::space::{Point, Space};
use super::sum::{Accuracy, Centres, Kernels, Order, Workspace};
use super::tree::CellWeights;
use super::{KernelFamily, KernelMixture, no_noise};
use crate::error::SolveError;
use crate::field::Field;
use crate::heat_kernel::check_time;
use crate::linalg::scratch;
use crate::manifold::Manifold;
use crate::parallel;
use crate::prior::Prior;
use crate::rng::Streams;
use crate::rows::{Rows, expect_len};

/// Cells that are merged, in standard deviations of the kernel.
const MERGE: f64 = 0.2;
/// Rows that one thread takes at a time.
const CHUNK: usize = 8;

/// Folds of the training points for cross-fitting.
///
/// A row's fold is drawn by its number, whatever its coordinates: repeated points are different
/// rows and may fall into different folds, as they do in the leave-one-out likelihood. Repetition
/// belongs to the distribution of such data: held-out points repeat training points just as
/// training points repeat each other, and a guide that never saw it in training would be corrected
/// wrongly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folds {
    /// Number of parts, at least two.
    pub count: usize,
    /// Seed of the draw.
    pub seed: u64,
}

impl Default for Folds {
    fn default() -> Self {
        Self { count: 5, seed: 0 }
    }
}

impl Folds {
    /// The part of training row `row`.
    pub fn of(&self, row: usize) -> usize {
        let level = Streams::new(self.seed, "mixture-folds").stream(row as u64, 0).uniform();
        ((level * self.count as f64) as usize).min(self.count - 1)
    }
}

/// ∇ log p_s of a [`KernelMixture`], at every noise time s > 0.
///
/// The field is tangent and constant along the fibres of π, so that divergences by any estimator
/// are those of the score. Cells of centres that are small beside a kernel count as one, see
/// `docs/kernel-mixture.md` for the error.
#[derive(Clone, Debug)]
pub struct Guide {
    manifold: Arc<dyn Manifold>,
    prior: Arc<dyn Prior>,
    heat: Arc<Heat>,
    kernels: Kernels,
    cross: Option<Cross>,
}

/// Views without one fold each.
#[derive(Clone, Debug)]
struct Cross {
    fold_of: Vec<u32>,
    without: Vec<CellWeights>,
}

impl Guide {
    /// The guide of a mixture, with `folds` for [`Guide::cross_fitted`]. An error on hyperbolic
    /// space, where the mixture's noised density is not known, and if a fold holds all training
    /// points.
    ///
    /// The mixture itself is the density at time `s_min`: its variances there are σ², and σ² −
    /// s_min + s at time s (bandwidths below √s_min count as that). On ℝ^d, where the noise also
    /// pulls centres inwards, up to a share s_min/2 of their distance from the origin.
    pub fn new(
        mixture: &KernelMixture,
        folds: Option<Folds>,
        s_min: f64,
    ) -> Result<Self, SolveError> {
        let KernelFamily::Heat { heat, .. } = &mixture.family else {
            return Err(no_noise(mixture.manifold.as_ref()));
        };
        if !(s_min >= 0.0 && s_min.is_finite()) {
            let (name, expected) = ("s_min", "it must be finite and not negative");
            return Err(SolveError::Setting { name, value: s_min, expected });
        }
        let squares: Vec<f64> =
            mixture.bandwidths.iter().map(|b| (b * b - s_min).max(0.0)).collect();
        let local = mixture.local_weights();
        let accuracy = Accuracy::merged(heat.space.dim, MERGE);
        let (weights, prior_weight) = (mixture.weights(), mixture.prior_weight());
        let kernels = Kernels::new(&heat.space, accuracy, &squares, weights, prior_weight, local);
        let cross =
            folds.map(|folds| Cross::new(heat, mixture.num_centres(), local, folds)).transpose()?;
        Ok(Self {
            manifold: Arc::clone(&mixture.manifold),
            prior: Arc::clone(&mixture.prior),
            heat: Arc::clone(heat),
            kernels,
            cross,
        })
    }

    /// `out ←` the score at every row of `x` (noised for time s from training row `centre`) of the
    /// mixture without the training points in that row's fold: in training no point sees its own
    /// kernel.
    pub fn cross_fitted(
        &self,
        x: Rows<'_>,
        s: &[f64],
        centre: &[usize],
        out: &mut [f64],
    ) -> Result<(), SolveError> {
        let Some(cross) = &self.cross else {
            let expected = "cross-fitting needs a guide that was made with folds";
            return Err(SolveError::Setting { name: "folds", value: 0.0, expected });
        };
        let m = self.manifold.ambient_dim();
        x.expect_width(m)?;
        expect_len(s.len(), x.len())?;
        expect_len(centre.len(), x.len())?;
        expect_len(out.len(), x.len() * m)?;
        if let Some(&row) = centre.iter().find(|row| **row >= cross.fold_of.len()) {
            let expected = "it must be the number of a training row";
            return Err(SolveError::Setting { name: "centre", value: row as f64, expected });
        }
        parallel::for_each_chunk(out, m, CHUNK, |first, chunk| {
            let mut row = RowScore::new(self);
            for (i, a) in chunk.chunks_exact_mut(m).enumerate() {
                let fold = cross.fold_of[centre[first + i]] as usize;
                row.evaluate(
                    &cross.without[fold],
                    i,
                    x.row(first + i),
                    s[first + i],
                    Order::Score,
                )?;
                row.score(a);
            }
            Ok(())
        })
    }
}

impl Field for Guide {
    fn eval(
        &self,
        x: Rows<'_>,
        s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        let m = self.manifold.ambient_dim();
        x.expect_width(m)?;
        expect_len(s.len(), x.len())?;
        expect_len(a.len(), x.len() * m)?;
        expect_len(e.len(), x.len() * per_row * m)?;
        expect_len(jvp.len(), e.len())?;
        let order = if per_row > 0 { Order::Hessian } else { Order::Score };
        // Value and derivatives of a row side by side, so that threads own their part.
        let width = (1 + per_row) * m;
        let mut both = vec![0.0; x.len() * width];
        parallel::for_each_chunk(&mut both, width, CHUNK, |first, chunk| {
            let mut row = RowScore::new(self);
            for (i, out) in chunk.chunks_exact_mut(width).enumerate() {
                let number = first + i;
                row.evaluate(&self.heat.all, i, x.row(number), s[number], order)?;
                let (a, jvp) = out.split_at_mut(m);
                row.score(a);
                let directions = &e[number * per_row * m..(number + 1) * per_row * m];
                for (e, jvp) in directions.chunks_exact(m).zip(jvp.chunks_exact_mut(m)) {
                    row.derivative(e, jvp);
                }
            }
            Ok(())
        })?;
        for (i, both) in both.chunks_exact(width).enumerate() {
            a[i * m..(i + 1) * m].copy_from_slice(&both[..m]);
            jvp[i * per_row * m..(i + 1) * per_row * m].copy_from_slice(&both[m..]);
        }
        Ok(())
    }
}

/// The evaluation of one row after another.
struct RowScore<'a> {
    guide: &'a Guide,
    x: Vec<f64>,
    work: Workspace,
}

impl<'a> RowScore<'a> {
    fn new(guide: &'a Guide) -> Self {
        Self { guide, x: Vec::new(), work: Workspace::default() }
    }

    fn space(&self) -> &'a Space {
        &self.guide.heat.space
    }

    fn point(&self) -> &Point {
        &self.work.point
    }

    fn evaluate(
        &mut self,
        view: &CellWeights,
        row: usize,
        x: &[f64],
        s: f64,
        order: Order,
    ) -> Result<(), SolveError> {
        check_time(row, s)?;
        let guide = self.guide;
        self.x.clear();
        self.x.extend_from_slice(x);
        // Solvers' stages are a little off the manifold.
        guide.manifold.project_point(&mut self.x).map_err(SolveError::at(row, s))?;
        self.space().place(&self.x, &mut self.work.point);
        let centres = Centres { view, ..guide.heat.centres() };
        let noised = guide.kernels.at(&guide.heat.space, s);
        noised.evaluate(centres, guide.prior.as_ref(), &self.x, order, &mut self.work);
        Ok(())
    }

    fn score(&self, a: &mut [f64]) {
        self.space().to_ambient(&self.x, self.point(), &self.work.score, a);
    }

    /// ∂/∂x of the score along e: the Hessian of log p_s and the turn of the tangent space.
    fn derivative(&self, e: &[f64], out: &mut [f64]) {
        let d = self.space().dim;
        let (mut along, mut turned) = (scratch(d), scratch(d));
        self.space().components(&self.x, self.point(), e, &mut along);
        for (i, turned) in turned.iter_mut().enumerate() {
            *turned = crate::linalg::dot(&self.work.hessian[i * d..(i + 1) * d], &along);
        }
        self.space().to_ambient(&self.x, self.point(), &turned, out);
        self.space().add_second_form(&self.x, &along, &self.work.score, out);
    }
}

impl Cross {
    fn new(
        heat: &Heat,
        points: usize,
        local: Option<&[f64]>,
        folds: Folds,
    ) -> Result<Self, SolveError> {
        if folds.count < 2 {
            let (value, expected) = (folds.count as f64, "at least two are needed");
            return Err(SolveError::Setting { name: "folds", value, expected });
        }
        let fold_of: Vec<u32> = (0..points).map(|row| folds.of(row) as u32).collect();
        let without: Vec<CellWeights> = (0..folds.count)
            .map(|fold| {
                let keep = |row: usize| fold_of[row] as usize != fold;
                heat.tree.view(&heat.space, &heat.metric, local, keep)
            })
            .collect();
        if without.iter().any(|view| view.total == 0.0) {
            let (value, expected) = (points as f64, "one fold holds them all; more are needed");
            return Err(SolveError::Setting { name: "number of training points", value, expected });
        }
        Ok(Self { fold_of, without })
    }
}
