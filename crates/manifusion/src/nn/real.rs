//! The scalar type of a network, f32 or f64, and its vectors on each instruction set.

use pulp::Simd;
use std::fmt::Debug;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

use super::activation::VectorMath;

/// The passes of a network for one scalar type. As functions of a type they are compiled here,
/// once; generic ones would be compiled again, for every instruction set, by each crate that calls
/// them.
#[expect(private_interfaces, reason = "the trait cannot be named outside of the crate")]
pub(crate) mod passes {
    use super::super::core::Core;
    use super::super::error::NnError;
    use super::super::forward::{self, EvalBuffers};
    use super::super::gradient::{self, InputGradient, RowLoss, TrainWorkspace};
    use super::super::shard::ShardInput;

    pub trait Passes: Sized {
        fn new_core(config: super::super::NetConfig, seed: u64) -> Core<Self>;
        fn refresh(core: &mut Core<Self>);
        fn evaluate(
            core: &Core<Self>,
            input: &ShardInput<'_>,
            buffers: &mut EvalBuffers<Self>,
            a: &mut [f64],
            jvp: &mut [f64],
        );
        fn loss_gradient(
            core: &Core<Self>,
            input: ShardInput<'_>,
            loss: &dyn RowLoss,
            workspace: &mut TrainWorkspace<Self>,
            losses: &mut [f64],
            input_grad: Option<InputGradient<'_>>,
        ) -> Result<f64, NnError>;
    }

    macro_rules! passes {
        ($T:ty) => {
            impl Passes for $T {
                fn new_core(config: super::super::NetConfig, seed: u64) -> Core<Self> {
                    Core::new(config, seed)
                }

                fn refresh(core: &mut Core<Self>) {
                    core.refresh();
                }

                fn evaluate(
                    core: &Core<Self>,
                    input: &ShardInput<'_>,
                    buffers: &mut EvalBuffers<Self>,
                    a: &mut [f64],
                    jvp: &mut [f64],
                ) {
                    forward::evaluate(core, input, buffers, a, jvp);
                }

                fn loss_gradient(
                    core: &Core<Self>,
                    input: ShardInput<'_>,
                    loss: &dyn RowLoss,
                    workspace: &mut TrainWorkspace<Self>,
                    losses: &mut [f64],
                    input_grad: Option<InputGradient<'_>>,
                ) -> Result<f64, NnError> {
                    gradient::loss_gradient(core, input, loss, workspace, losses, input_grad)
                }
            }
        };
    }
    passes!(f32);
    passes!(f64);
}

/// A network's scalar: f32 for work, f64 for checks.
pub trait Real:
    passes::Passes
    + VectorMath
    + Copy
    + Default
    + Debug
    + PartialEq
    + PartialOrd
    + Send
    + Sync
    + Add<Output = Self>
    + AddAssign
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + 'static
{
    /// One register of scalars.
    type Vector<S: Simd>: Copy;
    /// The name of the type in a file's header, "f32" or "f64".
    const NAME: &'static str;
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;

    /// Rounds a double to this type.
    fn from_f64(x: f64) -> Self;
    /// This number as a double.
    fn to_f64(self) -> f64;
    /// Appends the number's little-endian bytes.
    fn push_bytes(self, bytes: &mut Vec<u8>);
    /// The number of as many little-endian bytes as it has; fewer count as zero bytes.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// A register of equal numbers.
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    /// a·b + c, fused where the machine has it.
    fn mul_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// a + b.
    fn plus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// a − b.
    fn minus<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// A slice as whole registers; a remainder is left out.
    fn vectors<S: Simd>(slice: &[Self]) -> &[Self::Vector<S>];
    /// A slice as whole registers to be written; a remainder is left out.
    fn vectors_mut<S: Simd>(slice: &mut [Self]) -> &mut [Self::Vector<S>];
}

impl Real for f32 {
    type Vector<S: Simd> = S::f32s;
    const NAME: &'static str = "f32";
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x as Self
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn push_bytes(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_le_bytes(std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0)))
    }
    #[inline(always)]
    fn splat<S: Simd>(simd: S, x: Self) -> S::f32s {
        simd.splat_f32s(x)
    }
    #[inline(always)]
    fn mul_add<S: Simd>(simd: S, a: S::f32s, b: S::f32s, c: S::f32s) -> S::f32s {
        simd.mul_add_e_f32s(a, b, c)
    }
    #[inline(always)]
    fn plus<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.add_f32s(a, b)
    }
    #[inline(always)]
    fn minus<S: Simd>(simd: S, a: S::f32s, b: S::f32s) -> S::f32s {
        simd.sub_f32s(a, b)
    }
    #[inline(always)]
    fn vectors<S: Simd>(slice: &[Self]) -> &[S::f32s] {
        S::as_simd_f32s(slice).0
    }
    #[inline(always)]
    fn vectors_mut<S: Simd>(slice: &mut [Self]) -> &mut [S::f32s] {
        S::as_mut_simd_f32s(slice).0
    }
}

impl Real for f64 {
    type Vector<S: Simd> = S::f64s;
    const NAME: &'static str = "f64";
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }
    fn push_bytes(self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_le_bytes());
    }
    fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_le_bytes(std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0)))
    }
    #[inline(always)]
    fn splat<S: Simd>(simd: S, x: Self) -> S::f64s {
        simd.splat_f64s(x)
    }
    #[inline(always)]
    fn mul_add<S: Simd>(simd: S, a: S::f64s, b: S::f64s, c: S::f64s) -> S::f64s {
        simd.mul_add_e_f64s(a, b, c)
    }
    #[inline(always)]
    fn plus<S: Simd>(simd: S, a: S::f64s, b: S::f64s) -> S::f64s {
        simd.add_f64s(a, b)
    }
    #[inline(always)]
    fn minus<S: Simd>(simd: S, a: S::f64s, b: S::f64s) -> S::f64s {
        simd.sub_f64s(a, b)
    }
    #[inline(always)]
    fn vectors<S: Simd>(slice: &[Self]) -> &[S::f64s] {
        S::as_simd_f64s(slice).0
    }
    #[inline(always)]
    fn vectors_mut<S: Simd>(slice: &mut [Self]) -> &mut [S::f64s] {
        S::as_mut_simd_f64s(slice).0
    }
}
