//! All parameters of a network in one flat buffer, with a name and a shape for each part.

use super::config::NetConfig;
use super::error::NnError;
use super::grid::FEATURES;
use super::real::Real;
use crate::rng::Streams;

/// The numbers of grids start at most this large.
const GRID_START: f64 = 1e-4;

/// One named part of the flat buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamView {
    /// For example `layers.0.weight`.
    pub name: String,
    /// Rows (inputs) and columns (outputs); a vector has one row.
    pub shape: [usize; 2],
    /// Where it starts.
    pub offset: usize,
}

impl ParamView {
    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.shape[0] * self.shape[1]
    }

    /// Never true: every part has parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its place in the flat buffer.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// The names, shapes and places of all parameters: ActNorm's shift and log-scale, then weight
/// (inputs × outputs, row-major) and bias of each layer, the output layer last, then the numbers of
/// grids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamLayout {
    views: Vec<ParamView>,
    actnorm: bool,
    grid: bool,
}

impl ParamLayout {
    /// The layout of a network.
    pub fn new(config: &NetConfig) -> Self {
        let mut layout = Self { views: Vec::new(), actnorm: config.actnorm, grid: false };
        let inputs = config.input_width();
        if config.actnorm {
            layout.push("actnorm.shift".into(), [1, inputs]);
            layout.push("actnorm.log_scale".into(), [1, inputs]);
        }
        for l in 0..=config.depth {
            let rows = if l == 0 { inputs } else { config.width };
            let columns = if l == config.depth { config.ambient_dim } else { config.width };
            layout.push(format!("layers.{l}.weight"), [rows, columns]);
            layout.push(format!("layers.{l}.bias"), [1, columns]);
        }
        if let Some(grid) = config.grid {
            layout.push("grid.table".into(), [grid.levels << grid.log2_entries, FEATURES]);
            layout.grid = true;
        }
        layout
    }

    fn push(&mut self, name: String, shape: [usize; 2]) {
        let offset = self.len();
        self.views.push(ParamView { name, shape, offset });
    }

    /// Number of parameters.
    pub fn len(&self) -> usize {
        self.views.last().map_or(0, |view| view.range().end)
    }

    /// Never true for a network.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// All parts in order.
    pub fn views(&self) -> &[ParamView] {
        &self.views
    }

    /// The part with this name.
    pub fn view(&self, name: &str) -> Result<&ParamView, NnError> {
        self.views
            .iter()
            .find(|view| view.name == name)
            .ok_or_else(|| NnError::UnknownParameter { name: name.to_owned() })
    }

    /// Number of linear layers, the output layer included.
    pub(crate) fn layers(&self) -> usize {
        (self.views.len() - usize::from(self.grid)) / 2 - usize::from(self.actnorm)
    }

    /// Weight and bias of layer `l`.
    pub(crate) fn layer(&self, l: usize) -> (&ParamView, &ParamView) {
        let first = 2 * (l + usize::from(self.actnorm));
        (&self.views[first], &self.views[first + 1])
    }

    /// Shift and log-scale of ActNorm.
    pub(crate) fn actnorm(&self) -> Option<(&ParamView, &ParamView)> {
        self.actnorm.then(|| (&self.views[0], &self.views[1]))
    }

    /// The trained numbers of the grids; empty without them.
    pub(crate) fn grid(&self) -> std::ops::Range<usize> {
        match self.views.last() {
            Some(view) if self.grid => view.range(),
            _ => 0..0,
        }
    }

    /// Initial parameters: weights and biases uniform in ±1/√inputs (PyTorch's default for a
    /// linear layer, which the paper used), each from its own stream of `seed`; ActNorm starts as
    /// the identity; the output layer at zero if the configuration says so;
    /// the numbers of grids near zero.
    pub(crate) fn initial<T: Real>(&self, config: &NetConfig, seed: u64) -> Vec<T> {
        let mut params = vec![T::ZERO; self.len()];
        let streams = Streams::new(seed, "nn/init");
        for l in 0..self.layers() {
            if config.zero_output && l + 1 == self.layers() {
                continue;
            }
            let (weight, bias) = self.layer(l);
            let bound = 1.0 / (weight.shape[0] as f64).sqrt();
            for (part, view) in [weight, bias].into_iter().enumerate() {
                let mut stream = streams.stream(l as u64, part as u64);
                for p in &mut params[view.range()] {
                    *p = T::from_f64(bound * (2.0 * stream.uniform() - 1.0));
                }
            }
        }
        let mut stream = streams.stream(self.layers() as u64, 0);
        for p in &mut params[self.grid()] {
            *p = T::from_f64(GRID_START * (2.0 * stream.uniform() - 1.0));
        }
        params
    }
}
