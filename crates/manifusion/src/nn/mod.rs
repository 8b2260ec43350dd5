//! The network a_θ(x, s) with forward tangents, its gradient, and nothing about geometry.
//!
//! One forward pass gives the value and k directional derivatives per row; the reverse pass takes
//! cotangents of both and returns the gradient of all parameters. A loss is a closure over the
//! rows of a shard:
//!
//! ```
//! use manifusion::nn::{FieldInput, Mlp, NetConfig, ShardCotangents, ShardValues};
//! use manifusion::rows::Rows;
//!
//! let net = Mlp::<f32>::new(NetConfig { depth: 2, width: 32, ..NetConfig::default() }, 7)?;
//! let (x, s, target) = ([0.6, 0.0, 0.8, 0.0, 1.0, 0.0], [0.1, 0.2], [0.0; 6]);
//! // ½|a − target|², row by row.
//! let loss = |v: ShardValues<'_>, c: ShardCotangents<'_>| {
//!     for i in 0..v.rows * v.dim {
//!         let error = v.a[i] - target[v.first_row * v.dim + i];
//!         c.loss[i / v.dim] += 0.5 * error * error;
//!         c.a[i] = error;
//!     }
//! };
//! let mut workspace = net.train_workspace(2);
//! let mut losses = [0.0; 2];
//! let input = FieldInput::value(Rows::new(&x, 3)?, &s);
//! let total = net.loss_gradient(input, &loss, &mut workspace, &mut losses, None)?;
//! assert!(total > 0.0 && workspace.gradient().len() == net.params().len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod activation;
mod backward;
mod config;
mod core;
mod error;
pub(crate) mod features;
mod forward;
mod gradient;
mod grid;
mod layer;
pub(crate) mod matmul;
mod mlp;
mod output;
mod packed;
mod params;
mod product;
mod real;
mod shard;
pub(crate) mod support;
mod task;
mod weights;

pub use activation::{Activation, VectorMath};
pub use config::{FourierConfig, GridConfig, NetConfig, OutputScale, TimeConditioning};
pub use error::NnError;
pub use gradient::{InputGradient, RowLoss, ShardCotangents, ShardValues, TrainWorkspace};
pub use grid::MAX_DIM as GRID_DIM;
pub use mlp::Mlp;
pub use params::{ParamLayout, ParamView};
pub use real::Real;
pub use shard::{Directions, FieldInput};
pub use support::Support;

/// Caller-owned buffers for an evaluation.
#[derive(Debug)]
pub struct FieldOutput<'a> {
    /// a, n × m.
    pub a: &'a mut [f64],
    /// The directional derivatives, n × k × m; empty for k = 0.
    pub jvp: &'a mut [f64],
}

/// A field a(x, s) together with k directional derivatives per row, in one forward pass.
pub trait VariationalField: Send + Sync {
    /// m, the width of x and of a.
    fn ambient_dim(&self) -> usize;

    /// `a ← a(x, s)` and `jvp ← (∂a/∂x)·e_j + ∂a/∂s·e_{s,j}` for each row and direction.
    ///
    /// Results of a row do not depend on the other rows or on the number of threads.
    fn eval(&self, input: FieldInput<'_>, output: FieldOutput<'_>) -> Result<(), NnError>;
}
