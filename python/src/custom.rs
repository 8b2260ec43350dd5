//! Manifolds whose two functions are written in Python.

use std::sync::{Arc, Mutex, PoisonError};

use manifusion::manifold::RowMaps;
use numpy::{PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Two functions on arrays of shape `(n, ambient_dim)`. The interpreter's lock is taken for a call
/// with all rows that a solver has, never row by row.
#[derive(Debug)]
pub(crate) struct Functions {
    pub(crate) name: String,
    pub(crate) dim: usize,
    pub(crate) ambient_dim: usize,
    pub(crate) tangent: Py<PyAny>,
    pub(crate) project: Py<PyAny>,
    /// The first exception of a function; the library sees NaN.
    pub(crate) raised: Mutex<Option<PyErr>>,
}

impl Functions {
    /// An error if a function has raised an exception since the last look.
    pub(crate) fn check(&self) -> PyResult<()> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }

    /// `out ← function(arguments)`, or NaN if it raises.
    fn call(&self, function: &Py<PyAny>, arguments: &[&[f64]], out: &mut [f64]) {
        let rows = out.len() / self.ambient_dim;
        let outcome = Python::attach(|py| {
            let array = |values: &&[f64]| -> PyResult<Bound<'_, PyArray2<f64>>> {
                numpy::PyArray1::from_slice(py, values).reshape([rows, self.ambient_dim])
            };
            let arguments = arguments.iter().map(array).collect::<PyResult<Vec<_>>>()?;
            let found = function.call1(py, PyTuple::new(py, arguments)?)?;
            self.take(found.bind(py), rows, out)
        });
        if let Err(error) = outcome {
            out.fill(f64::NAN);
            self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    fn take(&self, found: &Bound<'_, PyAny>, rows: usize, out: &mut [f64]) -> PyResult<()> {
        let numpy = found.py().import("numpy")?;
        let found = numpy.call_method1("asarray", (found, "float64"))?;
        let Ok(array) = found.extract::<PyReadonlyArray2<'_, f64>>() else {
            let shape: Vec<usize> = found.getattr("shape")?.extract()?;
            return Err(self.misfit(rows, &shape));
        };
        if array.shape() != [rows, self.ambient_dim] {
            return Err(self.misfit(rows, array.shape()));
        }
        out.iter_mut().zip(array.as_array()).for_each(|(out, value)| *out = *value);
        Ok(())
    }

    fn misfit(&self, rows: usize, shape: &[usize]) -> PyErr {
        PyValueError::new_err(format!(
            "a function of {} was given arrays of shape [{rows}, {}] and returned one of shape \
             {shape:?}",
            self.name, self.ambient_dim
        ))
    }
}

/// Shared by a manifold and its models.
#[derive(Clone, Debug)]
pub(crate) struct Shared(pub(crate) Arc<Functions>);

impl RowMaps for Shared {
    fn name(&self) -> String {
        self.0.name.clone()
    }

    fn dim(&self) -> usize {
        self.0.dim
    }

    fn ambient_dim(&self) -> usize {
        self.0.ambient_dim
    }

    fn tangents(&self, x: &[f64], u: &mut [f64]) {
        let given = u.to_vec();
        self.0.call(&self.0.tangent, &[x, &given], u);
    }

    fn points(&self, x: &mut [f64]) {
        let given = x.to_vec();
        self.0.call(&self.0.project, &[&given], x);
    }
}
