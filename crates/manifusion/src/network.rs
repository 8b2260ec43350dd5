//! A network as a field of the solvers, with its errors in their terms.

use crate::error::SolveError;
use crate::field::Field;
use crate::nn::{Directions, FieldInput, FieldOutput, Mlp, NnError, Real, VariationalField};
use crate::rows::Rows;

impl<T: Real> Field for Mlp<T>
where
    Self: VariationalField + std::fmt::Debug,
{
    fn eval(
        &self,
        x: Rows<'_>,
        s: &[f64],
        per_row: usize,
        e: &[f64],
        a: &mut [f64],
        jvp: &mut [f64],
    ) -> Result<(), SolveError> {
        let input = FieldInput { x, s, directions: Directions { per_row, e, e_s: &[] } };
        VariationalField::eval(self, input, FieldOutput { a, jvp }).map_err(solve_error)
    }
}

/// The same error in the solvers' terms.
pub(crate) fn solve_error(error: NnError) -> SolveError {
    match error {
        NnError::Shape { source, .. } => source.into(),
        NnError::Setting { name, value, expected } => SolveError::Setting { name, value, expected },
        NnError::Time { row, s } => {
            SolveError::Time { row, time: s, expected: "the network needs a finite s > 0" }
        }
        NnError::NotFinite { row, s, quantity, value } => {
            SolveError::NotFinite { row, time: s, quantity, value }
        }
        problem @ (NnError::ActNormNotReady | NnError::UnknownParameter { .. }) => {
            SolveError::Network { problem: problem.to_string() }
        }
    }
}
