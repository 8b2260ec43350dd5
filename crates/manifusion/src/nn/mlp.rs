//! The network as the rest of the crate sees it.

use std::sync::{Mutex, PoisonError};

use super::config::NetConfig;
use super::core::Core;
use super::error::NnError;
use super::forward::EvalBuffers;
use super::gradient::{InputGradient, LossOf, RowLoss, TrainWorkspace};
use super::matmul::LANES;
use super::params::ParamLayout;
use super::real::Real;
use super::shard::{EVAL_ROWS, FieldInput, ShardInput, shard_points};
use super::{FieldOutput, OutputScale, VariationalField};

/// A multi-layer perceptron a_θ(x, s) with directional derivatives and gradients.
///
/// Evaluation takes `&self` and may run on many threads; buffers are kept in a pool and reused.
#[derive(Debug)]
pub struct Mlp<T> {
    core: Core<T>,
    actnorm_ready: bool,
    pool: Mutex<Vec<EvalBuffers<T>>>,
}

impl<T: Real> Clone for Mlp<T> {
    fn clone(&self) -> Self {
        let pool = Mutex::new(Vec::new());
        Self { core: self.core.clone(), actnorm_ready: self.actnorm_ready, pool }
    }
}

impl<T: Real> Mlp<T> {
    /// A network with initial parameters drawn from `seed`: weights and biases uniform in
    /// ±1/√inputs, Fourier directions as in [`super::FourierConfig`], ActNorm the identity.
    pub fn new(config: NetConfig, seed: u64) -> Result<Self, NnError> {
        config.validate()?;
        let actnorm_ready = !config.actnorm;
        Ok(Self { core: T::new_core(config, seed), actnorm_ready, pool: Mutex::new(Vec::new()) })
    }

    /// The network's description.
    pub fn config(&self) -> &NetConfig {
        &self.core.config
    }

    /// Names, shapes and places of the parameters.
    pub fn layout(&self) -> &ParamLayout {
        &self.core.layout
    }

    /// All parameters, flat.
    pub fn params(&self) -> &[T] {
        &self.core.params
    }

    /// One named part of the parameters.
    pub fn param(&self, name: &str) -> Result<&[T], NnError> {
        Ok(&self.core.params[self.core.layout.view(name)?.range()])
    }

    /// Changes the parameters in place and packs them again.
    pub fn update_params<R>(&mut self, change: impl FnOnce(&mut [T]) -> R) -> R {
        let result = change(&mut self.core.params);
        T::refresh(&mut self.core);
        result
    }

    /// Replaces all parameters.
    pub fn set_params(&mut self, params: &[T]) -> Result<(), NnError> {
        NnError::check_len("parameters", params.len(), self.core.params.len())?;
        self.update_params(|own| own.copy_from_slice(params));
        Ok(())
    }

    /// The Fourier directions B, features × m, if the network has any.
    pub fn fourier_directions(&self) -> Option<Vec<f64>> {
        self.core.features.frequencies()
    }

    /// Replaces the Fourier directions B, features × m.
    pub fn set_fourier_directions(&mut self, b: &[f64]) -> Result<(), NnError> {
        let features = self.core.config.fourier.map_or(0, |f| f.features);
        NnError::check_len("Fourier directions", b.len(), features * self.core.config.ambient_dim)?;
        self.core.features.set_frequencies(b);
        Ok(())
    }

    /// Whether ActNorm has seen its batch, or is not there.
    pub fn actnorm_ready(&self) -> bool {
        self.actnorm_ready
    }

    pub(crate) fn set_actnorm_ready(&mut self, ready: bool) {
        self.actnorm_ready = ready;
    }

    /// Sets ActNorm's shift and scale so that each input of the first layer has mean 0 and
    /// standard deviation 1 over this batch of noised points and their times. Without ActNorm
    /// nothing happens. An input that does not vary keeps scale 1.
    pub fn init_actnorm(&mut self, input: FieldInput<'_>) -> Result<(), NnError> {
        let all = self.check(FieldInput::value(input.x, input.s))?;
        let Some((shift, log_scale)) = self.core.layout.actnorm() else { return Ok(()) };
        let (shift, log_scale) = (shift.range(), log_scale.range());
        let width = self.core.config.input_width();
        let stride = self.core.input_stride();
        let mut row = vec![T::ZERO; stride];
        let (mut mean, mut square) = (vec![0.0; width], vec![0.0; width]);
        let n = all.rows();
        for i in 0..n {
            self.core.features.forward(self.core.table(), all.place(i), &mut row, stride);
            // Welford's update: no cancellation when the mean is far from 0.
            for ((u, mean), square) in row.iter().zip(&mut mean).zip(&mut square) {
                let delta = u.to_f64() - *mean;
                *mean += delta / (i + 1) as f64;
                *square += delta * (u.to_f64() - *mean);
            }
        }
        self.update_params(|params| {
            for c in 0..width {
                let std = (square[c] / n as f64).sqrt();
                let log = if std > 1e-12 { -std.ln() } else { 0.0 };
                params[shift.start + c] = T::from_f64(-mean[c]);
                params[log_scale.start + c] = T::from_f64(log);
            }
        });
        self.actnorm_ready = true;
        Ok(())
    }

    /// Buffers for [`Mlp::loss_gradient`] with this many gradient partitions; see
    /// [`TrainWorkspace`].
    pub fn train_workspace(&self, partitions: usize) -> TrainWorkspace<T> {
        TrainWorkspace::for_core(&self.core, partitions)
    }

    /// The sum of a loss over the rows and its gradient, in one pass over value and tangents.
    ///
    /// The gradient of all parameters is then in `workspace`; `losses` gets the loss of each row;
    /// `input_gradient`, if given, the gradient with respect to x, s and e. Nothing is allocated
    /// once `workspace` has seen a batch of this shape and the caller runs inside a rayon pool.
    pub fn loss_gradient<L: RowLoss + ?Sized>(
        &self,
        input: FieldInput<'_>,
        loss: &L,
        workspace: &mut TrainWorkspace<T>,
        losses: &mut [f64],
        input_gradient: Option<InputGradient<'_>>,
    ) -> Result<f64, NnError> {
        let all = self.check(input)?;
        if !self.actnorm_ready {
            return Err(NnError::ActNormNotReady);
        }
        let (n, k, m) = (all.rows(), all.per_row, all.dim);
        NnError::check_len("losses", losses.len(), n)?;
        let params = self.core.params.len();
        NnError::check_len("workspace gradient", workspace.gradient().len(), params)?;
        if let Some(grad) = &input_gradient {
            NnError::check_len("gradient by x", grad.x.len(), n * m)?;
            NnError::check_len("gradient by s", grad.s.len(), n)?;
            NnError::check_len("gradient by e", grad.e.len(), n * k * m)?;
        }
        T::loss_gradient(&self.core, all, &LossOf(loss), workspace, losses, input_gradient)
    }

    fn check<'a>(&self, input: FieldInput<'a>) -> Result<ShardInput<'a>, NnError> {
        let core = &self.core;
        let positive = core.features.needs_positive_time()
            || core.config.output_scale == OutputScale::InverseNoise;
        input.check(core.config.ambient_dim, positive)
    }

    /// Cuts rows at multiples of the shard and evaluates the parts in parallel.
    fn eval_rows(&self, input: &ShardInput<'_>, shard: usize, a: &mut [f64], jvp: &mut [f64]) {
        let rows = input.rows();
        if rows <= shard {
            let mut buffers = self.lock().pop().unwrap_or_else(EvalBuffers::new);
            T::evaluate(&self.core, input, &mut buffers, a, jvp);
            self.lock().push(buffers);
            return;
        }
        let cut = rows.div_ceil(shard) / 2 * shard;
        let (before, after) = input.split_at(cut);
        let (a0, a1) = a.split_at_mut(cut * input.dim);
        let (j0, j1) = jvp.split_at_mut(cut * input.per_row * input.dim);
        rayon::join(
            || self.eval_rows(&before, shard, a0, j0),
            || self.eval_rows(&after, shard, a1, j1),
        );
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<EvalBuffers<T>>> {
        // A panic elsewhere cannot leave the list half changed: push and pop are atomic here.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Real> VariationalField for Mlp<T> {
    fn ambient_dim(&self) -> usize {
        self.core.config.ambient_dim
    }

    fn eval(&self, input: FieldInput<'_>, output: FieldOutput<'_>) -> Result<(), NnError> {
        let all = self.check(input)?;
        if !self.actnorm_ready {
            return Err(NnError::ActNormNotReady);
        }
        NnError::check_len("a", output.a.len(), all.rows() * all.dim)?;
        NnError::check_len("jvp", output.jvp.len(), all.rows() * all.per_row * all.dim)?;
        // Small batches are not cut, large ones evenly.
        let shard = shard_points(all.rows(), all.per_row, EVAL_ROWS).max(LANES);
        self.eval_rows(&all, shard, output.a, output.jvp);
        Ok(())
    }
}
