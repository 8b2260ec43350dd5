//! A fitted density.

use std::path::PathBuf;
use std::sync::Arc;

use manifusion_run::{Config, MemoryRun, RunError};
use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::prelude::*;
use serde_json::{Map, Value as Json};

use crate::custom::Functions;
use crate::errors::{in_python, run_error, value_error};
use crate::manifold::Manifold;
use crate::table::{array, table};
use crate::work::{Worked, work, work_whole};

/// A fitted density with its settings and data, as a run folder has them.
#[pyclass(frozen, module = "manifusion._native")]
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) run: MemoryRun,
    /// The functions of a manifold of the user's own.
    own: Option<Arc<Functions>>,
}

impl Run {
    /// What an operation ended in; an exception of a user's function comes first.
    pub(crate) fn whole<T, E>(&self, found: Result<T, E>) -> PyResult<T>
    where
        PyErr: From<E>,
    {
        whole(self.own.as_ref(), found)
    }
}

fn whole<T, E>(own: Option<&Arc<Functions>>, found: Result<T, E>) -> PyResult<T>
where
    PyErr: From<E>,
{
    own.map_or(Ok(()), |own| own.check())?;
    Ok(found?)
}

/// Settings, `key=value` with TOML values, and those that are left open.
pub(crate) fn config(changes: &[String], open: &[String]) -> Result<Config, RunError> {
    let mut config = Config::default();
    for change in changes {
        config.set(change)?;
    }
    for path in open {
        config.leave_open(path);
    }
    Ok(config)
}

/// JSON text.
pub(crate) fn text(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(value_error)
}

#[pymethods]
impl Run {
    /// Learns from rows.
    #[staticmethod]
    #[pyo3(signature = (changes, open, x, names, threads=None, show=None, own=None))]
    #[expect(clippy::too_many_arguments, reason = "arguments of Python")]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
    fn fit(
        py: Python<'_>,
        changes: Vec<String>,
        open: Vec<String>,
        x: &Bound<'_, PyAny>,
        names: Option<Vec<String>>,
        threads: Option<usize>,
        show: Option<Py<PyAny>>,
        own: Option<PyRef<'_, Manifold>>,
    ) -> PyResult<Self> {
        let geometry = own.as_ref().map(|own| own.with_prior(py).cloned()).transpose()?;
        let own = own.and_then(|own| own.own.clone());
        let choices = config(&changes, &open).and_then(Config::choices).map_err(run_error)?;
        let rows = table(x, names)?;
        let fitted = work(py, threads, show.as_ref(), |watch| match &geometry {
            Some(geometry) => MemoryRun::fit_on(geometry, choices, rows, watch),
            None => MemoryRun::fit(choices, rows, watch),
        });
        let Worked { value, interrupt } = fitted?;
        let interrupted_by_key =
            |error: &PyErr| error.is_instance_of::<pyo3::exceptions::PyKeyboardInterrupt>(py);
        whole(own.as_ref(), Ok::<_, PyErr>(()))?;
        match (value, interrupt) {
            // Ctrl-C ends a training early; what it has learned is there.
            (Ok(run), Some(error)) if interrupted_by_key(&error) => Ok(Self { run, own }),
            (_, Some(error)) => Err(error),
            (run, None) => Ok(Self { run: run.map_err(run_error)?, own }),
        }
    }

    /// Reads a run folder.
    #[staticmethod]
    #[pyo3(signature = (path, own=None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
    fn open(py: Python<'_>, path: PathBuf, own: Option<PyRef<'_, Manifold>>) -> PyResult<Self> {
        let geometry = own.as_ref().map(|own| Arc::clone(&own.geometry));
        let own = own.and_then(|own| own.own.clone());
        let run = work_whole(py, None, None, |_| match geometry {
            Some(manifold) => MemoryRun::open_on(&path, manifold),
            None => MemoryRun::open(&path),
        })?;
        let run = whole(own.as_ref(), run.map_err(run_error))?;
        Ok(Self { run, own })
    }

    /// Writes a run folder.
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        py.detach(|| self.run.save(&path)).map_err(run_error)
    }

    /// log p of rows.
    #[pyo3(signature = (x, names, threads=None, show=None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
    fn log_density<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        names: Option<Vec<String>>,
        threads: Option<usize>,
        show: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let rows = table(x, names)?;
        let log_p = work_whole(py, threads, show.as_ref(), |watch| {
            self.run.log_density(&self.run.rows(rows)?, watch)
        })?;
        Ok(self.whole(log_p.map_err(run_error))?.into_pyarray(py))
    }

    /// Draws, as rows in the form of the data.
    #[pyo3(signature = (n, seed, threads=None, show=None, first=0))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
    fn sample<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        seed: u64,
        threads: Option<usize>,
        show: Option<Py<PyAny>>,
        first: usize,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let drawn = work_whole(py, threads, show.as_ref(), |watch| {
            self.run.sample_from(first, n, seed, watch)
        })?;
        array(py, &self.whole(drawn.map_err(run_error))?)
    }

    /// The numbers that the model is judged by on rows, as JSON; `options` is JSON too.
    #[pyo3(signature = (x, names, options, seed, threads=None, show=None))]
    #[expect(clippy::too_many_arguments, reason = "arguments of Python")]
    #[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
    fn evaluate(
        &self,
        py: Python<'_>,
        x: &Bound<'_, PyAny>,
        names: Option<Vec<String>>,
        options: &str,
        seed: u64,
        threads: Option<usize>,
        show: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let rows = table(x, names)?;
        let mut all = serde_json::to_value(self.run.settings().evaluate).map_err(value_error)?;
        let own: Map<String, Json> = serde_json::from_str(options).map_err(value_error)?;
        for (name, value) in own {
            all[name] = value;
        }
        let options = serde_json::from_value(all).map_err(value_error)?;
        let found = work_whole(py, threads, show.as_ref(), |watch| {
            self.run.evaluate(&self.run.rows(rows)?, &options, seed, watch)
        })?;
        text(&self.whole(found.map_err(run_error))?)
    }

    /// The method's name.
    #[getter]
    fn method(&self) -> &'static str {
        self.run.model().info().name
    }

    /// The manifold's string form.
    #[getter]
    fn manifold(&self) -> String {
        self.run.model().manifold().name()
    }

    /// The manifold.
    #[getter]
    fn geometry(&self) -> Manifold {
        Manifold::of(Arc::clone(self.run.model().manifold()), self.own.clone())
    }

    /// The form of rows.
    #[getter]
    fn form(&self) -> String {
        self.run.output_form().form.to_string()
    }

    /// The names of columns, in the order of the form; empty where they had none.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.run.output_form().names
    }

    /// How many columns rows have.
    #[getter]
    fn width(&self) -> PyResult<usize> {
        self.run.columns().map_err(run_error)
    }

    /// The seed of the run.
    #[getter]
    fn seed(&self) -> u64 {
        self.run.settings().seed
    }

    /// What was said of the data when the run began, as JSON.
    #[getter]
    fn data(&self) -> PyResult<String> {
        text(&self.run.settings().data)
    }

    /// The method's settings, nothing left open, as JSON.
    #[getter]
    fn section(&self) -> PyResult<String> {
        text(&self.run.settings().section)
    }

    /// How the training went, as JSON.
    #[getter]
    fn outcome(&self) -> PyResult<String> {
        text(&self.run.outcome())
    }

    /// Numbers that were learned.
    #[getter]
    fn parameters(&self) -> Option<usize> {
        self.run.model().parameters()
    }

    /// Whether the training was stopped before its end.
    #[getter]
    fn stopped(&self) -> bool {
        self.run.is_stopped()
    }

    /// What a user should know, in sentences.
    #[getter]
    fn remarks(&self) -> Vec<String> {
        self.run.remarks().iter().map(|remark| in_python(remark)).collect()
    }
}
