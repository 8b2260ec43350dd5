//! What tests see and users do not: parts below the library's interface, with no promise to stay.
//! Tests are a program of their own, since tests within the library would compile all of it a
//! second time.

use pulp::{Simd, WithSimd};

pub use crate::linalg::{
    Determinant, axpy, cholesky, determinant, distance, dot, norm, polar, rotate_columns, scale,
    solve, solve_lower, solve_lower_transposed, symmetric_eigen,
};
pub use crate::methods::mops::components::sphere_blocks;
pub use crate::methods::mops::learning::Learning;
pub use crate::methods::parametric::Component;
pub use crate::methods::parametric::em::{Sums, expected};
pub use crate::methods::stack::run::{MemberTraining, worthwhile_members};
pub use crate::methods::stack::weights::weights as stack_weights;
use crate::nn::Real;
pub use crate::nn::activation::{Phi, Sine, Softplus, Swish, Tanh};
pub use crate::nn::features::{Fourier, Place};
pub use crate::nn::matmul::strassen::GROUP;
pub use crate::nn::matmul::{
    LANES, Line, MultiplyPanel, PRODUCTS, Quadrants, RowPair, Sink, StrassenGradient,
    WeightGradient, WeightPanels, panels,
};
use crate::nn::matmul::{
    add_strassen_gradient, add_weight_gradient, multiply_into, multiply_step, quadrant_sums,
    weight_sums,
};
pub use crate::optim::soap::{Matrix, Side, Turn, orthonormalise};
pub use crate::rng::normal::{ln_reduced, quarter_turn, reduced};
pub use crate::rng::philox::{philox, philox_lanes};
pub use crate::transport::{Places, Transport};

/// The matrix products of a layer.
pub trait Products<T> {
    /// One panel of a product.
    fn multiply(&self, panel: MultiplyPanel<'_, T>);
    /// The gradient of one panel of weights.
    fn add_weight_gradient(&self, gradient: WeightGradient<'_, T>);
    /// The gradient of a layer's weights by quadrants.
    fn add_strassen_gradient(&self, gradient: StrassenGradient<'_, T>);
}

/// The products on one instruction set, compiled where they are used.
#[derive(Debug)]
pub struct On<S>(pub S);

impl<T: Real, S: Simd> Products<T> for On<S> {
    fn multiply(&self, panel: MultiplyPanel<'_, T>) {
        panel.with_simd(self.0);
    }

    fn add_weight_gradient(&self, gradient: WeightGradient<'_, T>) {
        gradient.with_simd(self.0);
    }

    fn add_strassen_gradient(&self, gradient: StrassenGradient<'_, T>) {
        gradient.with_simd(self.0);
    }
}

/// The products as the library does them on this machine: its own code, not another compilation.
#[derive(Debug)]
pub struct Here;

/// The steps of a product by quadrants, as the library does them.
pub trait Steps: Real {
    /// The sums of the quadrants of rows.
    fn quadrant_sums(
        quadrants: [&[Line<Self>]; 4],
        stride: usize,
        rows: usize,
        sums: &mut [Line<Self>],
    );
    /// The sums of the quadrants of weights.
    fn weight_sums(first: &[Line<Self>], second: &[Line<Self>], sums: &mut [Line<Self>]);
    /// One of [`PRODUCTS`] steps.
    fn multiply_step(
        step: usize,
        a: Quadrants<'_, Self>,
        b: WeightPanels<'_, Self>,
        c: [&mut [Line<Self>]; 4],
    );
}

macro_rules! compiled_here {
    ($T:ty) => {
        impl Products<$T> for Here {
            fn multiply(&self, panel: MultiplyPanel<'_, $T>) {
                let MultiplyPanel { a, stride, b, next, sink } = panel;
                multiply_into(a, stride, b, next, sink);
            }

            fn add_weight_gradient(&self, gradient: WeightGradient<'_, $T>) {
                let WeightGradient { h, z, g, row_len, column, fresh } = gradient;
                add_weight_gradient(h, z, g, row_len, column, fresh);
            }

            fn add_strassen_gradient(&self, gradient: StrassenGradient<'_, $T>) {
                let StrassenGradient { h, z, g, fresh } = gradient;
                add_strassen_gradient(h, z, g, fresh);
            }
        }

        impl Steps for $T {
            fn quadrant_sums(
                quadrants: [&[Line<Self>]; 4],
                stride: usize,
                rows: usize,
                sums: &mut [Line<Self>],
            ) {
                quadrant_sums(quadrants, stride, rows, sums);
            }

            fn weight_sums(first: &[Line<Self>], second: &[Line<Self>], sums: &mut [Line<Self>]) {
                weight_sums(first, second, sums);
            }

            fn multiply_step(
                step: usize,
                a: Quadrants<'_, Self>,
                b: WeightPanels<'_, Self>,
                c: [&mut [Line<Self>]; 4],
            ) {
                multiply_step(step, a, b, &[], c);
            }
        }
    };
}
compiled_here!(f32);
compiled_here!(f64);
