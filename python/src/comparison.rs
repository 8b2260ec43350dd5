//! Methods against each other, run by run: who shares the runs out is in Python.

use std::path::PathBuf;

use manifusion_run::{Comparison, Plan, RunResult, compare_run as run};
use pyo3::prelude::*;

use crate::errors::{in_python, run_error, value_error};
use crate::run::{config, text};
use crate::work::work_whole;

fn plan(
    changes: &[String],
    open: &[String],
    methods: Vec<String>,
    seeds: Vec<u64>,
) -> PyResult<Plan> {
    let config = config(changes, open).map_err(run_error)?;
    Ok(Plan { config, methods, seeds, ..Plan::default() })
}

/// An error for a comparison that makes no sense; remarks on settings that no method has.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
pub(crate) fn compare_check(
    changes: Vec<String>,
    open: Vec<String>,
    methods: Vec<String>,
    seeds: Vec<u64>,
) -> PyResult<Vec<String>> {
    let remarks = plan(&changes, &open, methods, seeds)?.check().map_err(run_error)?;
    Ok(remarks.iter().map(|remark| in_python(remark)).collect())
}

/// One run in a folder of its own, and what came of it, as JSON.
#[pyfunction]
#[pyo3(signature = (changes, open, method, seed, out, threads=None, show=None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
#[expect(clippy::too_many_arguments, reason = "arguments of Python")]
pub(crate) fn compare_run(
    py: Python<'_>,
    changes: Vec<String>,
    open: Vec<String>,
    method: String,
    seed: u64,
    out: PathBuf,
    threads: Option<usize>,
    show: Option<Py<PyAny>>,
) -> PyResult<String> {
    let plan = plan(&changes, &open, vec![method.clone()], vec![seed])?;
    let found =
        work_whole(py, threads, show.as_ref(), |watch| run(&plan, &method, seed, &out, watch))?;
    text(&found.map_err(run_error)?)
}

/// The table of results (JSON each): JSON and Markdown.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
pub(crate) fn compare_table(results: Vec<String>) -> PyResult<(String, String)> {
    let results: Result<Vec<RunResult>, _> =
        results.iter().map(|result| serde_json::from_str(result)).collect();
    let table = Comparison::of(&results.map_err(value_error)?).map_err(run_error)?;
    Ok((text(&table)?, table.to_markdown()))
}
