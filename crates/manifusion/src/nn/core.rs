//! What every pass reads: the network's description, parameters and packed weights.

use pulp::{Simd, WithSimd};

use super::config::NetConfig;
use super::features::Features;
use super::matmul::{LANES, Line, panels};
use super::packed::Packed;
use super::params::ParamLayout;
use super::real::Real;
use super::shard::{ShardInput, Stack};

#[derive(Clone, Debug)]
pub(crate) struct Core<T> {
    pub(crate) config: NetConfig,
    pub(crate) layout: ParamLayout,
    pub(crate) params: Vec<T>,
    pub(crate) packed: Packed<T>,
    pub(crate) features: Features,
    /// e^{log-scale} of ActNorm, padded to whole panels; empty without ActNorm.
    scale: Vec<T>,
    /// The shift of ActNorm, padded likewise.
    shift: Vec<T>,
}

impl<T: Real> Core<T> {
    pub(crate) fn new(config: NetConfig, seed: u64) -> Self {
        let layout = ParamLayout::new(&config);
        let params = layout.initial(&config, seed);
        let packed = Packed::new(&layout, &params);
        let features = Features::new(&config, seed);
        let padded = if config.actnorm { panels(config.input_width()) * LANES } else { 0 };
        let (scale, shift) = (vec![T::ZERO; padded], vec![T::ZERO; padded]);
        let mut core = Self { config, layout, params, packed, features, scale, shift };
        core.refresh();
        core
    }

    /// Brings everything derived from the parameters up to date.
    pub(crate) fn refresh(&mut self) {
        self.packed.update(&self.layout, &self.params);
        if let Some((shift, log_scale)) = self.layout.actnorm() {
            let (shift, log_scale) = (&self.params[shift.range()], &self.params[log_scale.range()]);
            self.shift[..shift.len()].copy_from_slice(shift);
            for (scale, log) in self.scale.iter_mut().zip(log_scale) {
                *scale = T::from_f64(log.to_f64().exp());
            }
        }
    }

    /// Numbers of an input row, padded to whole panels.
    pub(crate) fn input_stride(&self) -> usize {
        panels(self.config.input_width()) * LANES
    }

    /// The trained numbers of the grids; empty without them.
    pub(crate) fn table(&self) -> &[T] {
        &self.params[self.layout.grid()]
    }

    /// The factors of ActNorm; empty without it.
    pub(crate) fn actnorm_scale(&self) -> &[T] {
        &self.scale
    }

    /// Fills `lines`, the first layer's inputs of a shard, value rows first; `rows` is scratch for
    /// the 1 + k rows of one point.
    pub(crate) fn fill_input(
        &self,
        input: &ShardInput<'_>,
        stack: Stack,
        rows: &mut [T],
        lines: &mut [Line<T>],
    ) {
        pulp::Arch::new().dispatch(FillInput { core: self, input, stack, rows, lines });
    }

    /// ActNorm (Kingma & Dhariwal 2018) of one point's rows: y = (u + shift)·scale, ẏ = u̇·scale.
    #[inline(always)]
    fn normalise(&self, rows: &mut [T]) {
        if self.scale.is_empty() {
            return;
        }
        let (value, tangents) = rows.split_at_mut(self.scale.len());
        for ((u, scale), shift) in value.iter_mut().zip(&self.scale).zip(&self.shift) {
            *u = (*u + *shift) * *scale;
        }
        for row in tangents.chunks_exact_mut(self.scale.len()) {
            for (u, scale) in row.iter_mut().zip(&self.scale) {
                *u = *u * *scale;
            }
        }
    }
}

struct FillInput<'a, T> {
    core: &'a Core<T>,
    input: &'a ShardInput<'a>,
    stack: Stack,
    rows: &'a mut [T],
    lines: &'a mut [Line<T>],
}

impl<T: Real> WithSimd for FillInput<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _simd: S) {
        let Self { core, input, stack, rows, lines } = self;
        let (n, stride) = (input.rows(), core.input_stride());
        for i in 0..n {
            core.features.forward(core.table(), input.place(i), rows, stride);
            core.normalise(rows);
            for (j, row) in rows.chunks_exact(stride).enumerate() {
                for (panel, chunk) in row.as_chunks::<LANES>().0.iter().enumerate() {
                    lines[stack.line(panel, j, i)].0 = *chunk;
                }
            }
        }
    }
}
