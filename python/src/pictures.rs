//! Pictures, grids and the report of a fitted density.

use std::sync::Arc;

use manifusion::methods::WithOptions;
use manifusion::points::Points;
use manifusion::sample::SampleOptions;
use manifusion_io::Form;
use manifusion_plot::{
    Axis, Grid, Line, Options, PictureKind, PlotError, PlotSource, ReportInput, TrainingCurves,
    draw, report_html, to_geojson,
};
use manifusion_run::{MemoryRun, RunError};
use numpy::{IntoPyArray, PyArray2, PyArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::errors::{run_error, value_error};
use crate::run::Run;
use crate::table::table;
use crate::work::work_whole;

/// The tolerance of densities in pictures: colours show two digits.
const ROUGH: f64 = 1e-2;

/// What pictures are drawn from.
struct Source {
    density: WithOptions,
    points: Option<Points>,
    curves: TrainingCurves,
    title: String,
    geographic: bool,
    axis_names: Vec<String>,
}

impl Source {
    fn new(
        run: &MemoryRun,
        points: Option<Points>,
        tolerance: f64,
        coastlines: bool,
    ) -> Result<Self, RunError> {
        let model = Arc::clone(run.model());
        let output = run.output_form();
        let forms = output.form.as_slice();
        let angles = |form: &Form| [Form::AnglesDeg, Form::AnglesRad].contains(form);
        let curves = run.curves();
        Ok(Self {
            points: points.map_or_else(|| run.judged_points(), |points| Ok(Some(points)))?,
            curves: TrainingCurves { rows: curves.rows.clone(), proposal: curves.proposal.clone() },
            title: format!("{} on {}", model.title(), model.manifold().name()),
            geographic: coastlines
                && forms.iter().any(|form| [Form::LatLon, Form::LonLat].contains(form)),
            axis_names: if forms.iter().all(angles) { output.names } else { Vec::new() },
            density: WithOptions { model, tolerance, sampling: SampleOptions::default() },
        })
    }

    fn plot(&self) -> PlotSource<'_> {
        PlotSource {
            manifold: self.density.model.manifold().as_ref(),
            density: &self.density,
            data: self.points.as_ref().map(Points::rows),
            samples: None,
            geographic: self.geographic,
            title: &self.title,
            axis_names: &self.axis_names,
            curves: (!self.curves.is_empty()).then_some(&self.curves),
            grid: None,
        }
    }
}

/// A failure of the run or of its picture.
enum Failure {
    Run(RunError),
    Plot(PlotError),
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<PlotError> for Failure {
    fn from(error: PlotError) -> Self {
        Self::Plot(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Run(error) => run_error(error),
            Failure::Plot(error) => value_error(error),
        }
    }
}

/// Numbers of an axis' cells.
fn centres(axis: &Axis) -> Vec<f64> {
    (0..axis.len).map(|i| axis.centre(i)).collect()
}

/// A picture: the bytes of a PNG, and the SVG.
#[pyfunction]
#[pyo3(signature = (run, x, names, kind, width, value, evaluations, coastlines, samples, threads=None, show=None))]
#[expect(clippy::too_many_arguments, reason = "arguments of Python")]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
pub(crate) fn plot<'py>(
    run: &Run,
    py: Python<'py>,
    x: Option<&Bound<'py, PyAny>>,
    names: Option<Vec<String>>,
    kind: Option<&str>,
    width: u32,
    value: &str,
    evaluations: usize,
    coastlines: bool,
    samples: bool,
    threads: Option<usize>,
    show: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyBytes>, String)> {
    let rows = x.map(|x| table(x, names)).transpose()?;
    let manifold = run.run.model().manifold().as_ref();
    let kind = match kind {
        None => PictureKind::natural(manifold),
        Some(kind) => kind.parse().map_err(value_error)?,
    };
    let options = Options {
        width,
        value: value.parse().map_err(value_error)?,
        evaluations,
        even_spacing: true,
        show_samples: samples,
        ..Options::default()
    };
    let drawn = work_whole(py, threads, show.as_ref(), |watch| {
        let points = rows.map(|rows| run.run.rows(rows)).transpose()?;
        let source = Source::new(&run.run, points, ROUGH, coastlines)?;
        let picture = watch.stage("picture", || draw(kind, &source.plot(), &options))?;
        Ok::<_, Failure>((picture.to_png()?, picture.to_svg()))
    })?;
    let (png, svg) = run.whole(drawn)?;
    Ok((PyBytes::new(py, &png), svg))
}

/// log p at the centres of a grid's cells, as a dictionary.
#[pyfunction]
#[pyo3(signature = (run, evaluations, threads=None, show=None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
pub(crate) fn grid<'py>(
    run: &Run,
    py: Python<'py>,
    evaluations: usize,
    threads: Option<usize>,
    show: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = Options { evaluations, ..Options::default() };
    let grid = work_whole(py, threads, show.as_ref(), |watch| {
        let tolerance = run.run.settings().evaluate.tolerance;
        let source = Source::new(&run.run, None, tolerance, false)?;
        Ok::<_, Failure>(watch.stage("density", || Grid::new(&source.plot(), &options))?)
    })?;
    let grid = run.whole(grid)?;
    let (shape, found) = ([grid.y.len, grid.x.len], PyDict::new(py));
    found.set_item("x_name", &grid.x.name)?;
    found.set_item("y_name", &grid.y.name)?;
    found.set_item("x", centres(&grid.x).into_pyarray(py))?;
    found.set_item("y", centres(&grid.y).into_pyarray(py))?;
    found.set_item("log_density", grid.log_density.into_pyarray(py).reshape(shape)?)?;
    found.set_item("volume", grid.volume.into_pyarray(py).reshape(shape)?)?;
    found.set_item("measure", grid.measure)?;
    Ok(found)
}

/// Lines of log p = level, for levels and for the boundaries of the regions that hold shares of the
/// mass.
#[pyfunction]
#[pyo3(signature = (run, levels, shares, evaluations, threads=None, show=None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
pub(crate) fn contours<'py>(
    run: &Run,
    py: Python<'py>,
    levels: Vec<f64>,
    shares: Vec<f64>,
    evaluations: usize,
    threads: Option<usize>,
    show: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    if let Some(share) = shares.iter().find(|share| !(**share > 0.0 && **share < 1.0)) {
        let problem = format!("a share of {share} is not allowed; more than 0 and less than 1");
        return Err(PyValueError::new_err(problem));
    }
    let options = Options { evaluations, even_spacing: true, ..Options::default() };
    let found = work_whole(py, threads, show.as_ref(), |watch| {
        let source = Source::new(&run.run, None, ROUGH, false)?;
        let grid = watch.stage("density", || Grid::new(&source.plot(), &options))?;
        let of_shares = shares.iter().map(|share| Some(*share)).zip(grid.levels(&shares));
        let all = of_shares.chain(levels.iter().map(|level| (None, *level)));
        let lines = |(share, level): (Option<f64>, f64)| {
            Ok((share, level, grid.contour_lines(level)?, grid.region_rings(level)?))
        };
        all.map(lines).collect::<Result<Vec<_>, Failure>>()
    })?;
    let arrays = |lines: Vec<Line>| -> PyResult<Vec<Bound<'py, PyArray2<f64>>>> {
        let array = |line: Line| {
            let rows = line.len();
            line.into_iter().flatten().collect::<Vec<f64>>().into_pyarray(py).reshape([rows, 2])
        };
        lines.into_iter().map(array).collect()
    };
    let list = PyList::empty(py);
    for (share, level, lines, rings) in run.whole(found)? {
        let entry = PyDict::new(py);
        entry.set_item("share", share)?;
        entry.set_item("log_density", level)?;
        entry.set_item("lines", arrays(lines)?)?;
        entry.set_item("rings", arrays(rings)?)?;
        list.append(entry)?;
    }
    Ok(list)
}

/// Regions of highest density and contours on the sphere, as GeoJSON.
#[pyfunction]
#[pyo3(signature = (run, evaluations, threads=None, show=None))]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
pub(crate) fn geojson(
    run: &Run,
    py: Python<'_>,
    evaluations: usize,
    threads: Option<usize>,
    show: Option<Py<PyAny>>,
) -> PyResult<String> {
    let options = Options { evaluations, even_spacing: true, ..Options::default() };
    let json = work_whole(py, threads, show.as_ref(), |watch| {
        let source = Source::new(&run.run, None, ROUGH, false)?;
        let grid = watch.stage("density", || Grid::new(&source.plot(), &options))?;
        Ok::<_, Failure>(to_geojson(&grid)?)
    })?;
    Ok(run.whole(json)?.to_string())
}

/// The report, one HTML page.
#[pyfunction]
#[pyo3(signature = (run, x, names, evaluations, coastlines, threads=None, show=None))]
#[expect(clippy::too_many_arguments, reason = "arguments of Python")]
#[expect(clippy::needless_pass_by_value, reason = "arguments of Python are owned")]
pub(crate) fn html(
    run: &Run,
    py: Python<'_>,
    x: Option<&Bound<'_, PyAny>>,
    names: Option<Vec<String>>,
    evaluations: usize,
    coastlines: bool,
    threads: Option<usize>,
    show: Option<Py<PyAny>>,
) -> PyResult<String> {
    let rows = x.map(|x| table(x, names)).transpose()?;
    let options = Options { evaluations, even_spacing: true, ..Options::default() };
    let page = work_whole(py, threads, show.as_ref(), |watch| {
        let settings = run.run.settings();
        let points = rows.map(|rows| run.run.rows(rows)).transpose()?;
        let source = Source::new(&run.run, points, ROUGH, coastlines)?;
        let evaluation = match &source.points {
            None => None,
            Some(points) => Some(run.run.evaluate(points, &settings.evaluate, 0, watch)?),
        };
        let findings = run.run.data_facts().map(|facts| facts.findings.clone());
        let input = ReportInput {
            source: source.plot(),
            options: &options,
            evaluation: evaluation.as_ref(),
            findings: &findings.unwrap_or_default(),
            config: &settings.to_toml()?,
            commands: &[String::from("manifusion.load(RUN).to_html()")],
            generator: concat!("manifusion ", env!("CARGO_PKG_VERSION")),
        };
        Ok::<_, Failure>(watch.stage("report", || report_html(&input))?)
    })?;
    run.whole(page)
}
