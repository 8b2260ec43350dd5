//! Arrays and columns of Python as a table, and columns as an array.

use manifusion_io::{Column, FileFormat, Table, Values};
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A two-dimensional array without names; or columns with names, each an array, or the name of a
/// type that cannot be used.
pub(crate) fn table(x: &Bound<'_, PyAny>, names: Option<Vec<String>>) -> PyResult<Table> {
    let (columns, has_header) = match names {
        None => {
            let array: PyReadonlyArray2<'_, f64> = x.extract()?;
            let view = array.as_array();
            let column = |(number, column): (usize, numpy::ndarray::ArrayView1<'_, f64>)| {
                Column::numbers(number.to_string(), column.to_vec())
            };
            (view.columns().into_iter().enumerate().map(column).collect::<Vec<_>>(), false)
        }
        Some(names) => {
            let mut columns = Vec::with_capacity(names.len());
            for (name, values) in names.into_iter().zip(x.try_iter()?) {
                let values = values?;
                let values = match values.extract::<PyReadonlyArray1<'_, f64>>() {
                    Ok(numbers) => Values::Numbers(numbers.as_array().to_vec()),
                    Err(_) => Values::Unread(values.extract()?),
                };
                columns.push(Column { name, values });
            }
            (columns, true)
        }
    };
    let rows = columns.iter().find_map(Column::len).unwrap_or(0);
    if let Some(found) = columns.iter().filter_map(Column::len).find(|len| *len != rows) {
        let problem = format!("columns have {rows} and {found} rows");
        return Err(PyValueError::new_err(problem));
    }
    // Counted from 0, as arrays are.
    let lines = (0..rows as u64).collect();
    Ok(Table { columns, lines, has_header, format: FileFormat::Npy })
}

/// Columns of numbers side by side.
pub(crate) fn array<'py>(
    py: Python<'py>,
    columns: &[Column],
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let rows = columns.first().and_then(Column::len).unwrap_or(0);
    let mut array = Array2::zeros((rows, columns.len()));
    for (column, mut place) in columns.iter().zip(array.columns_mut()) {
        let Values::Numbers(values) = &column.values else {
            return Err(PyValueError::new_err(format!("column {} has no numbers", column.name)));
        };
        for (place, value) in place.iter_mut().zip(values) {
            *place = *value;
        }
    }
    Ok(array.into_pyarray(py))
}
