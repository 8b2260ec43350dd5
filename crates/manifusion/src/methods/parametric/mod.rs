//! Mixtures of parametric components by expectation–maximisation: `vmf` on spheres and `kent` on
//! S².

pub(crate) mod em;
mod kent;
mod vmf;

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use rayon::prelude::*;
use serde_json::Value as Json;

use super::settings::settings;
use super::{
    Done, FileMap, Files, FitError, Fitted, Geometry, MODEL_FILE, Method, MethodInfo, Request, Run,
    Task, read_settings, write_settings,
};
use crate::checkpoint::Arrays;
use crate::density::Density;
use crate::directional::{Kent, VonMisesFisher};
use crate::error::{ShapeError, SolveError};
use crate::linalg::log_sum_exp;
use crate::manifold::Manifold;
use crate::prior::Prior;
use crate::rng::{Stream, Streams};
use crate::rows::{Rows, RowsMut};
use crate::sample::SampleOptions;

settings! {
    /// A mixture of parametric components.
    "": ParametricSettings, Parametric {
        /// Number of components; by default the best for the validation points.
        components: usize,
    }
}

impl Parametric {
    /// These choices for a mixture of von Mises–Fisher distributions.
    pub fn vmf(&self) -> Request {
        Request::named(VonMisesFisher::INFO.name, write_settings(self).unwrap_or_default())
    }

    /// These choices for a mixture of Kent distributions.
    pub fn kent(&self) -> Request {
        Request::named(Kent::INFO.name, write_settings(self).unwrap_or_default())
    }
}

/// A kind of components.
pub trait Component: Clone + Debug + Send + Sync + 'static {
    /// The method of mixtures of these.
    const INFO: &'static MethodInfo;

    /// Whether points of this manifold have such a density.
    fn knows(manifold: &dyn Manifold) -> bool;

    /// Free parameters of one, for points of m coordinates.
    fn free_parameters(m: usize) -> usize;

    /// How many numbers one is stored in, for points of m coordinates.
    fn stored_len(m: usize) -> usize;

    /// The numbers that one is stored in.
    fn store(&self) -> Vec<f64>;

    /// One from its numbers, for points of m coordinates.
    fn restore(m: usize, numbers: &[f64]) -> Self;

    /// log p(x).
    fn log_density(&self, x: &[f64]) -> f64;

    /// log of the constant that p is an exponential over.
    fn log_norm(&self) -> f64;

    /// `x ←` a draw.
    fn sample(&self, stream: &mut Stream, x: &mut [f64]);

    /// The same with half the concentration.
    #[must_use]
    fn widened(&self) -> Self;

    /// How many numbers of a point the estimate depends on, for points of m coordinates.
    fn statistics_len(m: usize) -> usize;

    /// `out ←` these numbers.
    fn statistics(x: &[f64], out: &mut [f64]);

    /// The one that maximises Σ w log p(x) − pseudo·log_norm, or at least has a higher value than
    /// `before`, for points with Σ w = `weight` whose weighted statistics have these `sums`.
    fn estimate(weight: f64, sums: &[f64], pseudo: f64, before: Option<&Self>) -> Self;
}

/// The method for one kind of components.
#[derive(Debug)]
pub struct ParametricMethod<C>(PhantomData<C>);

impl ParametricMethod<VonMisesFisher> {
    /// Mixtures of von Mises–Fisher distributions.
    pub const VMF: Self = Self(PhantomData);
}

impl ParametricMethod<Kent> {
    /// Mixtures of Kent distributions.
    pub const KENT: Self = Self(PhantomData);
}

impl<C: Component> Method for ParametricMethod<C> {
    fn info(&self) -> &'static MethodInfo {
        C::INFO
    }

    fn supports(&self, geometry: &Geometry) -> Result<(), FitError> {
        if C::knows(geometry.manifold.as_ref()) {
            return Ok(());
        }
        let (method, known) = (C::INFO.name, C::INFO.manifolds);
        Err(FitError::Unsupported { method, manifold: geometry.manifold.name(), known })
    }

    fn needs_mixture(&self) -> bool {
        false
    }

    fn check(&self, choices: &Json) -> Result<(), FitError> {
        let choices: Parametric = read_settings(choices)?;
        if choices.components == Some(0) {
            let (name, expected) = ("components", "at least one component");
            return Err(FitError::Setting { name, value: String::from("0"), expected });
        }
        Ok(())
    }

    fn start(&self, task: &Task, choices: &Json) -> Result<Box<dyn Run>, FitError> {
        let choices: Parametric = read_settings(choices)?;
        let (train, validation) = (task.train.rows(), task.validation.rows());
        let mixture = match choices.components {
            Some(count) if count > train.len() => {
                let (value, expected) = (count.to_string(), "at most one for each training point");
                return Err(FitError::Setting { name: "components", value, expected });
            }
            Some(count) => em::fit::<C>(train, count, task.seed, &task.watch),
            None => em::fit_best::<C>(train, validation, task.seed, &task.watch),
        };
        let model = FittedParametric { geometry: task.geometry.clone(), mixture };
        Ok(Box::new(Done::new(Arc::new(model), task)))
    }

    fn load(
        &self,
        geometry: &Geometry,
        settings: &Json,
        files: &dyn Files,
    ) -> Result<Arc<dyn Fitted>, FitError> {
        let settings: ParametricSettings = read_settings(settings)?;
        let bytes = files.need(MODEL_FILE)?;
        let damaged = |source| FitError::File { name: MODEL_FILE.to_owned(), source };
        let mut arrays = Arrays::from_bytes(&bytes).map_err(damaged)?.arrays;
        let m = geometry.manifold.ambient_dim();
        let mut array = |name: &str, len: usize| -> Result<Vec<f64>, FitError> {
            let found = arrays.remove(name).unwrap_or_default();
            crate::rows::expect_len(found.len(), len)?;
            Ok(found)
        };
        let weights = array("weights", settings.components)?;
        let width = C::stored_len(m);
        let numbers = array("components", settings.components * width)?;
        let components = numbers.chunks_exact(width).map(|one| C::restore(m, one)).collect();
        let mixture = Mixture { weights, components };
        Ok(Arc::new(FittedParametric { geometry: geometry.clone(), mixture }))
    }
}

/// Σ w_k p_k.
#[derive(Clone, Debug)]
pub struct Mixture<C> {
    /// w_k.
    pub weights: Vec<f64>,
    /// p_k.
    pub components: Vec<C>,
}

impl<C: Component> Mixture<C> {
    /// log w_k p_k(x) of every component.
    fn log_terms(&self, x: &[f64], terms: &mut [f64]) {
        for ((term, weight), component) in terms.iter_mut().zip(&self.weights).zip(&self.components)
        {
            *term = weight.ln() + component.log_density(x);
        }
    }

    fn log_density(&self, x: Rows<'_>) -> Vec<f64> {
        let one = |terms: &mut Vec<f64>, row: usize| {
            self.log_terms(x.row(row), terms);
            log_sum_exp(terms)
        };
        let terms = || vec![0.0; self.weights.len()];
        (0..x.len()).into_par_iter().map_init(terms, one).collect()
    }
}

/// A mixture as a fitted density.
#[derive(Debug)]
struct FittedParametric<C> {
    geometry: Geometry,
    mixture: Mixture<C>,
}

impl<C: Component> Density for FittedParametric<C> {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        &self.geometry.manifold
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        x.expect_width(self.geometry.manifold.ambient_dim())?;
        Ok(self.mixture.log_density(x))
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.sample_with(n, &SampleOptions { seed, ..SampleOptions::default() })
    }
}

impl<C: Component> Fitted for FittedParametric<C> {
    fn info(&self) -> &'static MethodInfo {
        C::INFO
    }

    fn settings(&self) -> Result<Json, FitError> {
        write_settings(&ParametricSettings { components: self.mixture.components.len() })
    }

    fn files(&self) -> Result<FileMap, FitError> {
        let mut arrays = Arrays::default();
        let numbers = self.mixture.components.iter().flat_map(C::store).collect();
        arrays.arrays.insert("weights".to_owned(), self.mixture.weights.clone());
        arrays.arrays.insert("components".to_owned(), numbers);
        Ok(FileMap::from([(MODEL_FILE.to_owned(), arrays.to_bytes()?)]))
    }

    fn prior(&self) -> &Arc<dyn Prior> {
        &self.geometry.prior
    }

    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        if n == 0 {
            return Err(ShapeError::Empty.into());
        }
        let m = self.geometry.manifold.ambient_dim();
        let mut drawn = vec![0.0; n * m];
        let streams = Streams::new(options.seed, "parametric-draws");
        for (i, x) in RowsMut::new(&mut drawn, m)?.rows_mut().enumerate() {
            let mut stream = streams.stream((options.first_row + i) as u64, 0);
            let mut level = stream.uniform();
            let below = |weight: &f64| {
                level -= weight;
                level <= 0.0
            };
            let weights = &self.mixture.weights;
            let pick = weights.iter().position(below).unwrap_or(weights.len() - 1);
            self.mixture.components[pick].sample(&mut stream, x);
        }
        Ok(drawn)
    }

    /// Those of the components, and all weights but one.
    fn parameters(&self) -> Option<usize> {
        let (count, m) = (self.mixture.weights.len(), self.geometry.manifold.ambient_dim());
        Some(count * C::free_parameters(m) + count - 1)
    }

    /// The mixture with wider components: one checked by itself would have mass one whatever it is.
    fn mass_proposal(&self) -> Result<Option<Arc<dyn Density>>, SolveError> {
        let components = self.mixture.components.iter().map(C::widened).collect();
        let mixture = Mixture { weights: self.mixture.weights.clone(), components };
        Ok(Some(Arc::new(Self { geometry: self.geometry.clone(), mixture })))
    }
}
