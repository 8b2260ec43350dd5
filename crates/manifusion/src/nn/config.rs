//! The description of a network: what a configuration file holds and a checkpoint repeats.

use serde::{Deserialize, Serialize};

use super::activation::Activation;
use super::error::NnError;
use super::grid::{FEATURES, MAX_DIM};

/// A multi-layer perceptron a_θ(x, s) from ℝᵐ × (0, T] to ℝᵐ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetConfig {
    /// m, the width of the inputs x and of the outputs a.
    pub ambient_dim: usize,
    /// Number of hidden layers.
    pub depth: usize,
    /// Width of the hidden layers.
    pub width: usize,
    /// The nonlinearity of the hidden layers.
    pub activation: Activation,
    /// Adds each hidden layer's input to its output, from the second layer on.
    pub residual: bool,
    /// Normalises the inputs by a trained shift and scale, set from one batch.
    pub actnorm: bool,
    /// How the time enters.
    pub time: TimeConditioning,
    /// Damped Fourier features of x; none by default.
    pub fourier: Option<FourierConfig>,
    /// Learned features of x on grids; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grid: Option<GridConfig>,
    /// The factor on the output.
    pub output_scale: OutputScale,
    /// Starts the output layer at zero, so that the untrained field vanishes.
    pub zero_output: bool,
}

/// How the time s enters the first layer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields, tag = "kind")]
pub enum TimeConditioning {
    /// s itself, one more input (the paper).
    Concat,
    /// With λ = (ln s − ln s_min)/(ln T − ln s_min): 2λ − 1, sin(ω_i λ) and cos(ω_i λ),
    /// ω_i = 2ⁱ·π/2 for i = 0, …, pairs − 1.
    LogSines {
        /// Number of sine and cosine pairs.
        pairs: usize,
        /// The smallest time of training.
        s_min: f64,
        /// The largest time, T.
        t_end: f64,
    },
}

impl TimeConditioning {
    /// Number of inputs that the time takes.
    pub fn width(&self) -> usize {
        match self {
            Self::Concat => 1,
            Self::LogSines { pairs, .. } => 1 + 2 * pairs,
        }
    }
}

/// Damped Fourier features: sin(Bx)·e^{−s|B|²/2} and cos(Bx)·e^{−s|B|²/2}, so that what the noise
/// has blurred fades out of the input. Directions of B are uniform on the sphere of ℝᵐ, lengths
/// are log-uniform in [1, f_max]; B is drawn once from the network's seed and not trained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FourierConfig {
    /// Rows of B; each gives a sine and a cosine.
    pub features: usize,
    /// The largest length |B|.
    pub f_max: f64,
}

/// Learned features on grids of several resolutions over x, for points of at most four coordinates:
/// quadratic B-splines through two trained numbers per node, times e^{−sN²/2} on the grid of
/// spacing 1/N. Spacings are geometric; the nodes of a level share a hash table.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridConfig {
    /// Number of grids.
    pub levels: usize,
    /// N of the coarsest grid.
    pub coarsest: f64,
    /// N of the finest grid.
    pub finest: f64,
    /// log₂ of the entries of a level's table.
    pub log2_entries: u32,
    /// Whether neighbours on the first axis have entries beside each other; networks of before had
    /// them scattered.
    #[serde(default)]
    pub lines: bool,
}

impl GridConfig {
    /// Trained numbers of all levels.
    pub(crate) fn numbers(&self) -> usize {
        (self.levels << self.log2_entries) * FEATURES
    }
}

/// The factor on the network's output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputScale {
    /// 1, the paper's plain form.
    #[default]
    One,
    /// 1/σ(s) with σ(s) = √(1 − e^{−s}), the size of the score near the data.
    InverseNoise,
}

impl Default for NetConfig {
    /// The paper's network for S² ⊂ ℝ³.
    fn default() -> Self {
        Self::paper_sphere(3)
    }
}

impl NetConfig {
    fn plain(ambient_dim: usize, depth: usize, width: usize, activation: Activation) -> Self {
        Self {
            ambient_dim,
            depth,
            width,
            activation,
            residual: false,
            actnorm: false,
            time: TimeConditioning::Concat,
            fourier: None,
            grid: None,
            output_scale: OutputScale::One,
            zero_output: false,
        }
    }

    /// Spheres in the paper \[tab:arch-detail\]: 5 × 512, sine.
    pub fn paper_sphere(ambient_dim: usize) -> Self {
        Self::plain(ambient_dim, 5, 512, Activation::Sine)
    }

    /// Tori in the paper \[tab:arch-detail\]: 4 × 256, swish.
    pub fn paper_torus(ambient_dim: usize) -> Self {
        Self::plain(ambient_dim, 4, 256, Activation::Swish)
    }

    /// Hyperbolic spaces in the paper \[tab:arch-detail\]: 2 × 512, swish, ActNorm first.
    pub fn paper_hyperbolic(ambient_dim: usize) -> Self {
        Self { actnorm: true, ..Self::plain(ambient_dim, 2, 512, Activation::Swish) }
    }

    /// Orthogonal groups in the paper \[tab:arch-detail\]: 256 wide, swish. The printed "256 hidden
    /// layers" is a misprint; we take the 4 layers of the tori.
    pub fn paper_orthogonal(ambient_dim: usize) -> Self {
        Self::plain(ambient_dim, 4, 256, Activation::Swish)
    }

    /// Number of inputs of the first layer.
    pub fn input_width(&self) -> usize {
        let fourier = self.fourier.map_or(0, |f| 2 * f.features);
        let grid = self.grid.map_or(0, |grid| grid.levels * FEATURES);
        self.ambient_dim + self.time.width() + fourier + grid
    }

    /// Parameters and Fourier directions together; none if a machine word cannot count them. Valid
    /// configurations only.
    pub(crate) fn stored_numbers(&self) -> Option<usize> {
        let features = self.fourier.map_or(0, |f| f.features);
        let inputs = features
            .checked_mul(2)?
            .checked_add(self.ambient_dim)?
            .checked_add(self.grid.map_or(0, |grid| grid.levels * FEATURES))?
            .checked_add(self.time.width())?;
        let layer = |rows: usize, columns: usize| rows.checked_add(1)?.checked_mul(columns);
        let hidden = layer(self.width, self.width)?.checked_mul(self.depth - 1)?;
        let actnorm = if self.actnorm { inputs.checked_mul(2)? } else { 0 };
        features
            .checked_mul(self.ambient_dim)?
            .checked_add(actnorm)?
            .checked_add(layer(inputs, self.width)?)?
            .checked_add(hidden)?
            .checked_add(layer(self.width, self.ambient_dim)?)?
            .checked_add(self.grid.map_or(0, |grid| grid.numbers()))
    }

    /// An error unless every setting is in its range.
    pub fn validate(&self) -> Result<(), NnError> {
        at_least_one("ambient_dim", self.ambient_dim)?;
        at_least_one("depth", self.depth)?;
        at_least_one("width", self.width)?;
        if let TimeConditioning::LogSines { pairs, s_min, t_end } = self.time {
            if pairs > 16 {
                return Err(setting("time.pairs", pairs as f64, "at most 16"));
            }
            if !(s_min > 0.0 && s_min.is_finite()) {
                return Err(setting("time.s_min", s_min, "a finite number above 0"));
            }
            if !(t_end > s_min && t_end.is_finite()) {
                return Err(setting("time.t_end", t_end, "a finite number above s_min"));
            }
        }
        if let Some(FourierConfig { features, f_max }) = self.fourier {
            at_least_one("fourier.features", features)?;
            if !(1.0..=1e5).contains(&f_max) {
                return Err(setting("fourier.f_max", f_max, "a number in [1, 100000]"));
            }
        }
        if let Some(GridConfig { levels, coarsest, finest, log2_entries, .. }) = self.grid {
            if self.ambient_dim > MAX_DIM {
                let expected = "at most 4 for a network with grids";
                return Err(setting("ambient_dim", self.ambient_dim as f64, expected));
            }
            if !(1..=32).contains(&levels) {
                return Err(setting("grid.levels", levels as f64, "a number in [1, 32]"));
            }
            if !(6..=22).contains(&log2_entries) {
                let value = f64::from(log2_entries);
                return Err(setting("grid.log2_entries", value, "a number in [6, 22]"));
            }
            if !(coarsest >= 0.1 && finest >= coarsest && finest <= 1e6) {
                return Err(setting("grid.finest", finest, "a number in [grid.coarsest, 1000000]"));
            }
        }
        Ok(())
    }
}

fn at_least_one(name: &'static str, value: usize) -> Result<(), NnError> {
    if value == 0 { Err(setting(name, 0.0, "at least 1")) } else { Ok(()) }
}

fn setting(name: &'static str, value: f64, expected: &'static str) -> NnError {
    NnError::Setting { name, value, expected }
}
