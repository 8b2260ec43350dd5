//! Geometry on arrays.

use std::sync::{Arc, Mutex, OnceLock};

use manifusion::check::{CheckOptions, check_manifold};
use manifusion::error::SolveError;
use manifusion::heat_kernel::TransitionKernel;
use manifusion::manifold::{
    ByRows, Manifold as Geometry, RowFault, check_points, frames_at, parse, project_points,
    project_tangents,
};
use manifusion::methods::Geometry as WithPrior;
use manifusion::path::{NoisingPath, PathChoice};
use manifusion::rng::Streams;
use manifusion::rows::{Rows, RowsMut};
use manifusion_io::{
    FileFormat, Forms, LoadOptions, OutputForm, dataset_from_table, point_columns,
};
use numpy::{
    IntoPyArray, PyArray2, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::custom::{Functions, Shared};
use crate::errors::value_error;
use crate::table::{array, table};
use crate::work::work_whole;

/// A Riemannian manifold, given by a string such as ``"sphere:2"``.
///
/// Points and vectors are arrays of shape ``(..., ambient_dim)``; lists and other numbers are
/// turned into float64. ``manifusion.MANIFOLDS`` has the strings that are understood.
///
/// Examples
/// --------
/// >>> from manifusion import Manifold
/// >>> sphere = Manifold("sphere:2")
/// >>> sphere.dim, sphere.ambient_dim
/// (2, 3)
/// >>> sphere.project([0.0, 0.0, 2.0])
/// array([0., 0., 1.])
/// >>> sphere.tangent([0.0, 0.0, 1.0], [1.0, 2.0, 3.0])
/// array([1., 2., 0.])
/// >>> x = sphere.random(5, seed=0)
/// >>> y = sphere.noise(x, 0.1, seed=1)
/// >>> sphere.heat_kernel_score(x, y, 0.1).shape
/// (5, 3)
#[pyclass(frozen, module = "manifusion")]
#[derive(Debug)]
pub(crate) struct Manifold {
    pub(crate) geometry: Arc<dyn Geometry>,
    /// The functions of a user, where it is made of these.
    pub(crate) own: Option<Arc<Functions>>,
    /// With the prior, which can take seconds to make.
    with_prior: OnceLock<WithPrior>,
}

/// Numbers of any shape with rows along the last axis.
struct Batch {
    values: Vec<f64>,
    shape: Vec<usize>,
}

fn float64<'py>(x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let numpy = x.py().import("numpy")?;
    let options = PyDict::new(x.py());
    options.set_item("dtype", "float64")?;
    numpy.call_method("asarray", (x,), Some(&options))
}

fn numbers(x: &Bound<'_, PyAny>) -> PyResult<Batch> {
    let array: PyReadonlyArrayDyn<'_, f64> = x.extract()?;
    let shape = array.shape().to_vec();
    Ok(Batch { values: array.as_array().iter().copied().collect(), shape })
}

/// Arrays of one shape, as NumPy broadcasts them.
fn broadcast(arrays: &[&Bound<'_, PyAny>]) -> PyResult<Vec<Batch>> {
    let arrays: Vec<_> = arrays.iter().map(|x| float64(x)).collect::<PyResult<_>>()?;
    let Some(first) = arrays.first() else { return Ok(Vec::new()) };
    let numpy = first.py().import("numpy")?;
    let together =
        numpy.call_method1("broadcast_arrays", pyo3::types::PyTuple::new(first.py(), &arrays)?)?;
    together.try_iter()?.map(|x| numbers(&x?)).collect()
}

fn shaped(
    py: Python<'_>,
    values: Vec<f64>,
    shape: Vec<usize>,
) -> PyResult<Bound<'_, PyArrayDyn<f64>>> {
    values.into_pyarray(py).reshape(shape)
}

impl Manifold {
    pub(crate) fn of(geometry: Arc<dyn Geometry>, own: Option<Arc<Functions>>) -> Self {
        Self { geometry, own, with_prior: OnceLock::new() }
    }

    /// The exception of a user's function, if it raised one.
    fn whole(&self) -> PyResult<()> {
        self.own.as_ref().map_or(Ok(()), |own| own.check())
    }

    fn expect_rows(&self, batch: &Batch) -> PyResult<()> {
        let (m, shape) = (self.geometry.ambient_dim(), &batch.shape);
        if shape.last() == Some(&m) && !batch.values.is_empty() {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "an array of shape {shape:?} is given, and points of {} are arrays of shape (..., {m}) \
             with at least one row",
            self.geometry.name()
        )))
    }

    fn batch(&self, x: &Bound<'_, PyAny>) -> PyResult<Batch> {
        let batch = numbers(&float64(x)?)?;
        self.expect_rows(&batch)?;
        Ok(batch)
    }

    /// The same, each row a point of the manifold.
    fn points(&self, x: &Bound<'_, PyAny>) -> PyResult<Batch> {
        let batch = self.batch(x)?;
        self.on_manifold(&batch)?;
        Ok(batch)
    }

    fn on_manifold(&self, batch: &Batch) -> PyResult<()> {
        let found = check_points(self.geometry.as_ref(), &batch.values);
        self.whole()?;
        found.map_err(at_row)
    }

    /// Arrays of points or vectors of one shape, the first of which lies on the manifold.
    fn together(&self, arrays: &[&Bound<'_, PyAny>]) -> PyResult<Vec<Batch>> {
        let batches = broadcast(arrays)?;
        for batch in &batches {
            self.expect_rows(batch)?;
        }
        if let Some(first) = batches.first() {
            self.on_manifold(first)?;
        }
        Ok(batches)
    }

    /// The manifold with its prior, which is made once.
    pub(crate) fn with_prior(&self, py: Python<'_>) -> PyResult<&WithPrior> {
        if let Some(known) = self.with_prior.get() {
            return Ok(known);
        }
        let made = work_whole(py, None, None, |watch| {
            watch.stage("prior", || WithPrior::of(&self.geometry))
        })?;
        self.whole()?;
        let made = made.map_err(value_error)?;
        Ok(self.with_prior.get_or_init(|| made))
    }

    fn kernel(&self, py: Python<'_>) -> PyResult<TransitionKernel> {
        let WithPrior { manifold, prior } = self.with_prior(py)?;
        TransitionKernel::new(manifold.as_ref(), prior.as_ref()).map_err(value_error)
    }
}

/// One time per row, from a number or an array of the rows' shape.
fn times(s: &Bound<'_, PyAny>, shape: &[usize]) -> PyResult<Vec<f64>> {
    let rows = &shape[..shape.len() - 1];
    let numpy = s.py().import("numpy")?;
    let times = numpy.call_method1("broadcast_to", (float64(s)?, rows.to_vec()))?;
    Ok(numbers(&times)?.values)
}

fn at_row((row, error): RowFault) -> PyErr {
    value_error(format!("row {row}: {error}"))
}

#[pymethods]
impl Manifold {
    #[new]
    fn new(spec: &str) -> PyResult<Self> {
        Ok(Self::of(parse(spec).map_err(value_error)?, None))
    }

    /// A manifold of your own, from two functions on arrays of shape ``(n, ambient_dim)``.
    ///
    /// Everything else follows from them: frame, noise, the uniform distribution and its volume,
    /// training and evaluation. Functions are called with many rows at once. ``check`` measures
    /// whether they fit together.
    ///
    /// Parameters
    /// ----------
    /// name : str
    ///     A name for messages and for saved models, which ``load`` needs the manifold for again.
    /// dim, ambient_dim : int
    ///     The dimension, and the number of coordinates of a point.
    /// tangent : callable
    ///     ``tangent(x, u)``: the orthogonal projections of vectors u on the tangent spaces at
    ///     points x, smooth also a little off the manifold.
    /// project : callable
    ///     ``project(x)``: points of the manifold near x, and x itself where it is one; NaN where
    ///     there is none.
    ///
    /// Examples
    /// --------
    /// >>> import numpy as np
    /// >>> from manifusion import Manifold
    /// >>> def tangent(x, u):
    /// ...     return u - np.sum(x * u, axis=1, keepdims=True) * x
    /// >>> def project(x):
    /// ...     return x / np.linalg.norm(x, axis=1, keepdims=True)
    /// >>> circle = Manifold.from_functions("circle", 1, 2, tangent, project)
    /// >>> circle
    /// Manifold("python:circle")
    /// >>> circle.project([3.0, 4.0])
    /// array([0.6, 0.8])
    /// >>> all(law.get("holds") for law in circle.check())
    /// True
    #[staticmethod]
    fn from_functions(
        name: &str,
        dim: usize,
        ambient_dim: usize,
        tangent: Py<PyAny>,
        project: Py<PyAny>,
    ) -> PyResult<Self> {
        if !(1..=ambient_dim).contains(&dim) {
            return Err(PyValueError::new_err(format!(
                "dim = {dim} is not allowed; 1 to ambient_dim = {ambient_dim}"
            )));
        }
        let name = format!("python:{name}");
        let raised = Mutex::new(None);
        let own = Arc::new(Functions { name, dim, ambient_dim, tangent, project, raised });
        Ok(Self::of(Arc::new(ByRows(Shared(Arc::clone(&own)))), Some(own)))
    }

    /// Measures the laws that everything else relies on, at random points: a list of dictionaries
    /// with ``law``, ``value`` (the largest deviation), ``tolerance`` and ``holds``.
    fn check<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        // Draws in the thousands: a user's functions are slower than the library's own.
        let draws = if self.own.is_some() { 4000 } else { CheckOptions::default().draws };
        let options = CheckOptions { draws, ..CheckOptions::default() };
        let report = work_whole(py, None, None, |watch| {
            watch.stage("laws", || check_manifold(&self.geometry, &options))
        })?;
        self.whole()?;
        let list = PyList::empty(py);
        for check in report.map_err(value_error)?.checks {
            let entry = PyDict::new(py);
            entry.set_item("law", check.law)?;
            entry.set_item("value", check.value)?;
            entry.set_item("tolerance", check.tolerance)?;
            entry.set_item("holds", check.passed())?;
            list.append(entry)?;
        }
        Ok(list)
    }

    /// Whether it is made of functions of a user.
    #[getter]
    fn is_own(&self) -> bool {
        self.own.is_some()
    }

    fn __repr__(&self) -> String {
        format!("Manifold(\"{}\")", self.geometry.name())
    }

    fn __eq__(&self, other: &Self) -> bool {
        let same = match (&self.own, &other.own) {
            (None, None) => true,
            (Some(own), Some(other)) => {
                own.tangent.is(&other.tangent) && own.project.is(&other.project)
            }
            _ => false,
        };
        same && self.geometry.name() == other.geometry.name()
    }

    fn __hash__(&self) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        self.geometry.name().hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Py<PyTuple>)> {
        let class = py.get_type::<Self>();
        let Some(own) = &self.own else {
            return Ok((class.into_any(), (self.geometry.name(),).into_pyobject(py)?.unbind()));
        };
        let name = own.name.trim_start_matches("python:");
        let (tangent, project) = (own.tangent.clone_ref(py), own.project.clone_ref(py));
        let arguments = (name, own.dim, own.ambient_dim, tangent, project).into_pyobject(py)?;
        Ok((class.getattr("from_functions")?, arguments.unbind()))
    }

    /// The string form.
    #[getter]
    fn name(&self) -> String {
        self.geometry.name()
    }

    /// The dimension d.
    #[getter]
    fn dim(&self) -> usize {
        self.geometry.dim()
    }

    /// The number of coordinates m of a point.
    #[getter]
    fn ambient_dim(&self) -> usize {
        self.geometry.ambient_dim()
    }

    /// The logarithm of the Riemannian volume; None where it is infinite or not known.
    #[getter]
    fn log_volume(&self) -> Option<f64> {
        self.geometry.log_volume()
    }

    /// Points of the manifold near the given ones: the point map of the library, which fixes the
    /// manifold and is the closest point on most of the built-in spaces.
    fn project<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let Batch { mut values, shape } = self.batch(x)?;
        let found = project_points(self.geometry.as_ref(), &mut values);
        self.whole()?;
        found.map_err(at_row)?;
        shaped(py, values, shape)
    }

    /// How far each point is off the manifold.
    fn residual<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let Batch { values, mut shape } = self.batch(x)?;
        shape.pop();
        let rows = values.chunks_exact(self.geometry.ambient_dim());
        let found = rows.map(|x| self.geometry.residual(x)).collect();
        self.whole()?;
        shaped(py, found, shape)
    }

    /// The orthogonal projection of vectors u on the tangent spaces at points x.
    fn tangent<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        u: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let mut batches = self.together(&[x, u])?.into_iter();
        let (Some(x), Some(mut u)) = (batches.next(), batches.next()) else {
            return Err(PyValueError::new_err("points and vectors are needed"));
        };
        project_tangents(self.geometry.as_ref(), &x.values, &mut u.values);
        self.whole()?;
        shaped(py, u.values, u.shape)
    }

    /// A step along tangent vectors u from points x, back on the manifold by the point map.
    fn retract<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        u: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let mut batches = self.together(&[x, u])?.into_iter();
        let (Some(mut x), Some(mut u)) = (batches.next(), batches.next()) else {
            return Err(PyValueError::new_err("points and vectors are needed"));
        };
        let m = self.geometry.ambient_dim();
        let rows = x.values.chunks_exact_mut(m).zip(u.values.chunks_exact_mut(m));
        for (x, u) in rows {
            self.geometry.velocity(x, u);
            x.iter_mut().zip(&*u).for_each(|(x, u)| *x += u);
        }
        let found = project_points(self.geometry.as_ref(), &mut x.values);
        self.whole()?;
        found.map_err(at_row)?;
        shaped(py, x.values, x.shape)
    }

    /// Orthonormal bases of the tangent spaces at points x, of shape ``(..., dim, ambient_dim)``.
    fn frame<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let Batch { values, mut shape } = self.points(x)?;
        let d = self.geometry.dim();
        let mut frames = vec![0.0; values.len() * d];
        frames_at(self.geometry.as_ref(), &values, &mut frames);
        self.whole()?;
        shape.insert(shape.len() - 1, d);
        shaped(py, frames, shape)
    }

    /// n draws from the prior: uniform where the volume is finite, normal elsewhere.
    #[pyo3(signature = (n, seed=0))]
    fn random<'py>(
        &self,
        py: Python<'py>,
        n: usize,
        seed: u64,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let prior = &self.with_prior(py)?.prior;
        let m = self.geometry.ambient_dim();
        let mut drawn = vec![0.0; n * m];
        let streams = Streams::new(seed, "manifold-random");
        let rows: Vec<u64> = (0..n as u64).collect();
        let found = prior.sample_rows(&streams, &rows, &mut drawn);
        self.whole()?;
        found.map_err(at_row)?;
        shaped(py, drawn, vec![n, m])
    }

    /// The log-density of the prior at points, in nats.
    fn prior_log_density<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let Batch { values, mut shape } = self.points(x)?;
        shape.pop();
        let prior = &self.with_prior(py)?.prior;
        let rows = values.chunks_exact(self.geometry.ambient_dim());
        shaped(py, rows.map(|x| prior.log_density(x)).collect(), shape)
    }

    /// Points x noised for times s: Brownian motion, or the Langevin diffusion of the prior where
    /// that is not uniform. Exact where a law is known, else by Heun steps.
    #[pyo3(signature = (x, s, seed=0))]
    fn noise<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        s: &Bound<'py, PyAny>,
        seed: u64,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let Batch { values, shape } = self.points(x)?;
        let times = times(s, &shape)?;
        let WithPrior { manifold, prior } = self.with_prior(py)?.clone();
        let m = manifold.ambient_dim();
        let noised = work_whole(py, None, None, |watch| -> Result<Vec<f64>, SolveError> {
            let path = NoisingPath::new(manifold, prior, PathChoice::Auto)?;
            let mut noised = vec![0.0; values.len()];
            let (streams, from) = (Streams::new(seed, "manifold-noise"), Rows::new(&values, m)?);
            watch.stage("noise", || {
                path.sample(from, &times, &streams, 0, RowsMut::new(&mut noised, m)?)
            })?;
            Ok(noised)
        })?;
        self.whole()?;
        shaped(py, noised.map_err(value_error)?, shape)
    }

    /// The logarithm of the heat kernel K_s(y|x), the density at y of the point x noised for time
    /// s, with respect to the Riemannian volume.
    fn heat_kernel<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        y: &Bound<'py, PyAny>,
        s: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let kernel = self.kernel(py)?;
        let batches = self.together(&[x, y])?;
        let [x, y] = &batches[..] else { return Err(PyValueError::new_err("two are needed")) };
        self.on_manifold(y)?;
        let (m, times) = (self.geometry.ambient_dim(), times(s, &x.shape)?);
        let rows = x.values.chunks_exact(m).zip(y.values.chunks_exact(m)).zip(&times).enumerate();
        let log_k = rows
            .map(|(row, ((x, y), s))| {
                kernel.log_density(x, y, *s).map_err(|error| error.map_row(|_| row))
            })
            .collect::<Result<_, _>>()
            .map_err(value_error)?;
        shaped(py, log_k, x.shape[..x.shape.len() - 1].to_vec())
    }

    /// The score ∇_y log K_s(y|x) of the heat kernel, tangent at y.
    fn heat_kernel_score<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        y: &Bound<'py, PyAny>,
        s: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let kernel = self.kernel(py)?;
        let batches = self.together(&[x, y])?;
        let [x, y] = &batches[..] else { return Err(PyValueError::new_err("two are needed")) };
        self.on_manifold(y)?;
        let (m, times) = (self.geometry.ambient_dim(), times(s, &x.shape)?);
        let scores = work_whole(py, None, None, |watch| -> Result<Vec<f64>, SolveError> {
            let mut scores = vec![0.0; x.values.len()];
            let (from, to) = (Rows::new(&x.values, m)?, Rows::new(&y.values, m)?);
            watch.stage("scores", || {
                kernel.score_rows(from, to, &times, None, RowsMut::new(&mut scores, m)?)
            })?;
            Ok(scores)
        })?;
        shaped(py, scores.map_err(value_error)?, x.shape.clone())
    }

    /// Points of the manifold from rows in a form such as ``"latlon"`` (``manifusion.FORMS``).
    ///
    /// >>> from manifusion import Manifold
    /// >>> Manifold("sphere:2").from_form([[90.0, 0.0]], "latlon").round(12)
    /// array([[0., 0., 1.]])
    #[expect(clippy::wrong_self_convention, reason = "the name that Python has")]
    fn from_form<'py>(
        &self,
        py: Python<'py>,
        rows: &Bound<'py, PyAny>,
        form: &str,
    ) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let form = Some(form.parse().map_err(value_error)?);
        let (rows, options) =
            (table(&float64(rows)?, None)?, LoadOptions { form, ..LoadOptions::default() });
        let data = dataset_from_table(rows, &self.geometry, &options, String::new());
        let points = data.map_err(value_error)?.points;
        let (n, m) = (points.len(), self.geometry.ambient_dim());
        shaped(py, points.coordinates().to_vec(), vec![n, m])
    }

    /// Rows in a form such as ``"latlon"`` from points of shape ``(n, ambient_dim)``.
    fn to_form<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        form: &str,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let form: Forms = form.parse().map_err(value_error)?;
        let output = OutputForm { form, names: Vec::new(), format: FileFormat::Npy };
        let points = self.points(x)?.values;
        let columns = point_columns(&points, self.geometry.as_ref(), &output);
        array(py, &columns.map_err(value_error)?)
    }
}
