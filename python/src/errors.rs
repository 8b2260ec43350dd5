//! Errors of the library as exceptions of Python.

use std::fmt::Display;

use manifusion_run::RunError;
use pyo3::PyErr;
use pyo3::exceptions::{
    PyFileExistsError, PyFileNotFoundError, PyKeyboardInterrupt, PyOSError, PyValueError,
};

/// Flags of the command line in the library's sentences, and the parameters that they are here.
const FLAGS: [(&str, &str); 4] = [
    ("--as", "form"),
    ("--columns", "columns"),
    ("--manifold", "manifold"),
    ("--method", "method"),
];

/// A sentence of the library for a reader who has no command line.
pub(crate) fn in_python(sentence: &str) -> String {
    FLAGS.iter().fold(sentence.to_owned(), |text, (flag, name)| text.replace(flag, name))
}

/// An error about what was given, with the library's sentence.
pub(crate) fn value_error(error: impl Display) -> PyErr {
    PyValueError::new_err(in_python(&error.to_string()))
}

/// The exception of an error of a run.
pub(crate) fn run_error(error: RunError) -> PyErr {
    let text = in_python(&error.to_string());
    match error {
        error if error.is_stopped() => PyKeyboardInterrupt::new_err(()),
        RunError::Absent { .. } | RunError::NoRun { .. } | RunError::MissingFile { .. } => {
            PyFileNotFoundError::new_err(text)
        }
        // The library's sentence speaks of the command line.
        RunError::Taken { path } => PyFileExistsError::new_err(format!(
            "{} already holds a run; choose another folder",
            path.display()
        )),
        RunError::Io { .. } => PyOSError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}
