//! Methods: what can be learned from points. One file or folder each, one line in [`METHODS`].
//!
//! A [`Method`] turns points into a [`Run`] with every open choice made; a run goes on step by step
//! and ends in a [`Fitted`] density, which can be kept as files and loaded again. The loop, the
//! budget of time and the checkpoints belong to [`mod@crate::fit`] and to whoever keeps the files.

mod error;
mod kernel;
pub mod mops;
mod moser;
pub mod network;
pub(crate) mod parametric;
mod parzen;
mod rcnf;
pub mod rdm;
mod references;
mod rfm;
mod rsgm;
pub(crate) mod settings;
pub mod stack;
mod stereographic;
mod task;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value as Json;

pub use error::FitError;
pub use kernel::{Kernel, KernelMethod, KernelSettings, read_mixture, write_mixture};
pub use mops::Mops;
pub use moser::{Moser, MoserMethod, MoserModelChoices, MoserModelSettings, MoserRecipe};
pub use parametric::{Parametric, ParametricMethod, ParametricSettings};
pub use parzen::{Parzen, ParzenMethod, ParzenSettings};
pub use rcnf::{Rcnf, RcnfMethod, RcnfModelChoices, RcnfModelSettings, RcnfRecipe};
pub use rdm::Rdm;
pub use references::Reference;
pub use rfm::{FlowTimes, Rfm, RfmMethod, RfmModelChoices, RfmModelSettings};
pub use rsgm::{
    Noising, Rsgm, RsgmMethod, RsgmModelChoices, RsgmModelSettings, ScoreForm, ScoreLoss,
};
pub use settings::Setting;
pub use stack::Stack;
pub use stereographic::{
    Stereographic, StereographicMethod, StereographicModelChoices, StereographicModelSettings,
};
pub use task::Task;

use crate::density::Density;
use crate::error::SolveError;
use crate::likelihood::{BoundOptions, Bounds};
use crate::manifold::{Euclidean, Manifold};
use crate::mixture::KernelMixture;
use crate::points::Points;
use crate::prior::{Prior, StandardNormal, default_prior};
use crate::rows::Rows;
use crate::sample::SampleOptions;
use crate::train::{MetricsRow, Outcome};
use crate::watch::Watch;

/// Every method, the default first.
pub static METHODS: &[&dyn Method] = &[
    &stack::StackMethod,
    &rdm::RdmMethod::NEW,
    &KernelMethod,
    &ParzenMethod,
    &ParametricMethod::VMF,
    &ParametricMethod::KENT,
    &mops::MopsMethod,
    &RsgmMethod::NEW,
    &StereographicMethod::NEW,
    &MoserMethod::NEW,
    &RcnfMethod::NEW,
    &RfmMethod::NEW,
];

/// The method of a name.
pub fn method(name: &str) -> Result<&'static dyn Method, FitError> {
    let found = METHODS.iter().find(|method| method.info().name == name);
    found.copied().ok_or_else(|| FitError::UnknownMethod {
        name: name.to_owned(),
        allowed: METHODS.iter().map(|method| method.info().name).collect::<Vec<_>>().join(", "),
    })
}

/// A method, with what is chosen of its settings.
#[derive(Clone, Debug)]
pub struct Request {
    method: Chosen,
    choices: Json,
}

#[derive(Clone, Debug)]
enum Chosen {
    /// One of [`METHODS`].
    Named(String),
    /// A caller's own.
    Own(&'static dyn Method),
}

impl Request {
    /// A method of the registry by its name, with choices as in its section of a configuration
    /// file.
    pub fn named(name: &str, choices: Json) -> Self {
        Self { method: Chosen::Named(name.to_owned()), choices }
    }

    /// A method that is not in the registry.
    pub fn own(method: &'static dyn Method, choices: Json) -> Self {
        Self { method: Chosen::Own(method), choices }
    }

    /// The method; an error if there is none of that name.
    pub fn method(&self) -> Result<&'static dyn Method, FitError> {
        match &self.method {
            Chosen::Named(name) => method(name),
            Chosen::Own(method) => Ok(*method),
        }
    }

    /// What is chosen of its settings.
    pub fn choices(&self) -> &Json {
        &self.choices
    }
}

/// A method with its defaults.
impl From<&str> for Request {
    fn from(method: &str) -> Self {
        Self::named(method, Json::Object(serde_json::Map::new()))
    }
}

/// What is to be known of a method without running it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MethodInfo {
    /// Its name on the command line and in configuration files, where its section has that name
    /// too.
    pub name: &'static str,
    /// What it is called in a sentence: `kernel mixture`.
    pub title: &'static str,
    /// What it does, in a line.
    pub help: &'static str,
    /// The manifolds that it knows, in words.
    pub manifolds: &'static str,
    /// Its settings, by section.
    pub settings: &'static [&'static [Setting]],
    /// What describes it.
    pub references: &'static [Reference],
}

impl MethodInfo {
    /// Whether there is a setting of this name, or a section of settings.
    pub fn knows(&self, name: &str) -> bool {
        self.settings.iter().copied().flatten().any(|setting| {
            let section = setting.name.rsplit_once('.').map_or("", |(section, _)| section);
            setting.name == name || section == name
        })
    }
}

/// A manifold with its prior.
#[derive(Clone, Debug)]
pub struct Geometry {
    /// M.
    pub manifold: Arc<dyn Manifold>,
    /// p₀.
    pub prior: Arc<dyn Prior>,
}

impl Geometry {
    /// The manifold with its default prior.
    pub fn of(manifold: &Arc<dyn Manifold>) -> Result<Self, SolveError> {
        Ok(Self { manifold: Arc::clone(manifold), prior: default_prior(manifold)? })
    }

    /// ℝ^d with the standard normal.
    pub(crate) fn flat(dim: usize) -> Result<Self, FitError> {
        let plane =
            Euclidean::new(dim).map_err(|e| FitError::Settings { problem: e.to_string() })?;
        Ok(Self { manifold: Arc::new(plane), prior: Arc::new(StandardNormal::new(dim)) })
    }
}

/// A way to learn a density from points.
pub trait Method: Debug + Send + Sync {
    /// Name, settings and manifolds.
    fn info(&self) -> &'static MethodInfo;

    /// An error on a manifold that the method does not know.
    fn supports(&self, geometry: &Geometry) -> Result<(), FitError>;

    /// An error for points with something that the method cannot use: weights and context, unless
    /// it says otherwise.
    fn accepts(&self, points: &Points) -> Result<(), FitError> {
        let refused = |what| Err(FitError::Refused { method: self.info().name, what });
        match (points.weights(), points.context()) {
            (Some(_), _) => refused("weights"),
            (_, Some(_)) => refused("context columns"),
            (None, None) => Ok(()),
        }
    }

    /// Whether [`Task::mixture`] is to be fitted: yes, unless the method says otherwise.
    fn needs_mixture(&self) -> bool {
        true
    }

    /// Seconds that a run with these choices is to take, where it has a budget of time.
    fn seconds(&self, _choices: &Json) -> Option<f64> {
        None
    }

    /// An error for choices that no run could have, before any data are read.
    fn check(&self, choices: &Json) -> Result<(), FitError>;

    /// A run with every open choice made from the data.
    fn start(&self, task: &Task, choices: &Json) -> Result<Box<dyn Run>, FitError>;

    /// The same run again, from its settings and the files that it started with. A method without
    /// steps starts again.
    fn open(
        &self,
        task: &Task,
        settings: &Json,
        _files: &dyn Files,
    ) -> Result<Box<dyn Run>, FitError> {
        self.start(task, settings)
    }

    /// Steps done and steps in all of a run that left this checkpoint; none for a method without
    /// steps.
    fn steps_of(
        &self,
        _settings: &Json,
        _checkpoint: &[u8],
    ) -> Result<Option<(u64, u64)>, FitError> {
        Ok(None)
    }

    /// What a finished run left.
    fn load(
        &self,
        geometry: &Geometry,
        settings: &Json,
        files: &dyn Files,
    ) -> Result<Arc<dyn Fitted>, FitError>;
}

/// Files by name: a folder, or memory.
pub trait Files {
    /// The bytes of a file; none if there is no such file.
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FitError>;

    /// The bytes of a file that must be there.
    fn need(&self, name: &str) -> Result<Vec<u8>, FitError> {
        self.read(name)?.ok_or_else(|| FitError::MissingFile { name: name.to_owned() })
    }
}

/// Files in memory.
pub type FileMap = BTreeMap<String, Vec<u8>>;

impl Files for FileMap {
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>, FitError> {
        Ok(self.get(name).cloned())
    }
}

/// The file of a finished model.
pub const MODEL_FILE: &str = "model.safetensors";
/// The file of a run that is under way.
pub const CHECKPOINT_FILE: &str = "checkpoint.safetensors";

/// Learning in progress.
pub trait Run: Send {
    /// Its settings, nothing left open.
    fn settings(&self) -> Result<Json, FitError>;

    /// What [`Method::open`] needs beside them.
    fn files(&self) -> Result<FileMap, FitError>;

    /// What a user should know of the choices that were made, in sentences.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// Steps done and steps in all.
    fn steps(&self) -> (u64, u64);

    /// Whether there is nothing left to do.
    fn is_done(&self) -> bool;

    /// One step; lines for the record.
    fn advance(&mut self, watch: &Watch) -> Result<Vec<MetricsRow>, FitError>;

    /// Seconds between two checkpoints.
    fn checkpoint_seconds(&self) -> f64 {
        f64::INFINITY
    }

    /// Everything that is needed to go on from here; none for a run without steps.
    fn checkpoint(&self) -> Result<Option<Vec<u8>>, FitError>;

    /// Goes on from a checkpoint.
    fn restore(&mut self, checkpoint: &[u8]) -> Result<(), FitError>;

    /// The density as learned so far, and how it went.
    fn finish(&self) -> Result<Finished, FitError>;
}

/// A run of a method without steps: done when it starts.
#[derive(Debug)]
pub struct Done {
    model: Arc<dyn Fitted>,
    outcome: Outcome,
}

impl Done {
    /// A run that has learned this model since the task began.
    pub fn new(model: Arc<dyn Fitted>, task: &Task) -> Self {
        let train_seconds = task.began.elapsed().as_secs_f64();
        let threads = rayon::current_num_threads();
        Self { model, outcome: Outcome { train_seconds, threads, ..Outcome::default() } }
    }
}

impl Run for Done {
    fn settings(&self) -> Result<Json, FitError> {
        self.model.settings()
    }

    fn files(&self) -> Result<FileMap, FitError> {
        Ok(FileMap::new())
    }

    fn steps(&self) -> (u64, u64) {
        (0, 0)
    }

    fn is_done(&self) -> bool {
        true
    }

    fn advance(&mut self, _watch: &Watch) -> Result<Vec<MetricsRow>, FitError> {
        Ok(Vec::new())
    }

    fn checkpoint(&self) -> Result<Option<Vec<u8>>, FitError> {
        Ok(None)
    }

    fn restore(&mut self, _checkpoint: &[u8]) -> Result<(), FitError> {
        Ok(())
    }

    fn finish(&self) -> Result<Finished, FitError> {
        let (model, outcome) = (Arc::clone(&self.model), self.outcome.clone());
        Ok(Finished { model, outcome, proposal: Vec::new() })
    }
}

/// What a run ends in.
#[derive(Debug)]
pub struct Finished {
    /// The density.
    pub model: Arc<dyn Fitted>,
    /// How the run went.
    pub outcome: Outcome,
    /// The proposal of times at the end, as pairs (s, q(s)); empty for methods without one.
    pub proposal: Vec<[f64; 2]>,
}

/// How log p is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikelihoodKind {
    /// By the flow of an ordinary differential equation, to a tolerance.
    Ode,
    /// By a formula.
    ClosedForm,
}

/// Log-densities, and what they took.
#[derive(Clone, Debug)]
pub struct LogDensities {
    /// log p(x) of every row, in nats.
    pub log_p: Vec<f64>,
    /// Evaluations of the model per row.
    pub evaluations: f64,
    /// log p of every row under each member of a weighted sum; none for other densities.
    pub members: Vec<Vec<f64>>,
}

/// What a report says of a model beside its numbers; absent where it makes no sense.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ModelFacts {
    /// How far the data were smoothed.
    pub smoothing: Option<f64>,
    /// The form of the loss.
    pub loss: Option<&'static str>,
    /// Smallest noising time.
    pub s_min: Option<f64>,
    /// T.
    pub t_end: Option<f64>,
}

/// A density in a weighted sum of densities.
#[derive(Clone, Debug)]
pub struct Member {
    /// The density.
    pub model: Arc<dyn Fitted>,
    /// Its weight; all weights sum to one.
    pub weight: f64,
}

/// A learned density that can be kept.
pub trait Fitted: Density {
    /// The method that learned it.
    fn info(&self) -> &'static MethodInfo;

    /// Its settings, nothing left open.
    fn settings(&self) -> Result<Json, FitError>;

    /// What [`Method::load`] needs beside them; [`MODEL_FILE`] is among them.
    fn files(&self) -> Result<FileMap, FitError>;

    /// The prior of its manifold.
    fn prior(&self) -> &Arc<dyn Prior>;

    /// What it is called in a title.
    fn title(&self) -> &'static str {
        self.info().title
    }

    /// How log p is computed.
    fn likelihood_kind(&self) -> LikelihoodKind {
        LikelihoodKind::ClosedForm
    }

    /// log p of every row, to a tolerance where it is not a formula.
    fn log_density_to(&self, x: Rows<'_>, _tolerance: f64) -> Result<LogDensities, SolveError> {
        let members = Vec::new();
        Ok(LogDensities { log_p: self.log_density(x)?, evaluations: 1.0, members })
    }

    /// `n` draws in a given way. A density that is sampled exactly has only one way.
    fn sample_with(&self, n: usize, options: &SampleOptions) -> Result<Vec<f64>, SolveError> {
        let m = self.manifold().ambient_dim();
        let mut drawn = self.sample(options.first_row + n, options.seed)?;
        Ok(drawn.split_off(options.first_row * m))
    }

    /// Lower bounds of log p of the stochastic model, where it is one.
    fn bounds(&self, _x: Rows<'_>, _options: &BoundOptions) -> Result<Option<Bounds>, SolveError> {
        Ok(None)
    }

    /// A density that is nowhere small beside this one, to check its mass with.
    fn mass_proposal(&self) -> Result<Option<Arc<dyn Density>>, SolveError> {
        Ok(None)
    }

    /// The kernel mixture, if it is one or has one.
    fn mixture(&self) -> Option<&KernelMixture> {
        None
    }

    /// The density that the method states without its flow, where that is another one: it need not
    /// have mass one.
    fn direct(&self) -> Option<&dyn Density> {
        None
    }

    /// The densities that it is a weighted sum of, if it is one.
    fn members(&self) -> &[Member] {
        &[]
    }

    /// Numbers that were learned from the data; none where it does not say.
    fn parameters(&self) -> Option<usize> {
        None
    }

    /// What a report says of it.
    fn facts(&self) -> ModelFacts {
        ModelFacts::default()
    }
}

/// A fitted density with another tolerance and way of sampling.
#[derive(Clone, Debug)]
pub struct WithOptions {
    /// The density.
    pub model: Arc<dyn Fitted>,
    /// The tolerance of log p.
    pub tolerance: f64,
    /// How samples are drawn; the seed is the caller's.
    pub sampling: SampleOptions,
}

impl Density for WithOptions {
    fn manifold(&self) -> &Arc<dyn Manifold> {
        self.model.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(self.model.log_density_to(x, self.tolerance)?.log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        self.model.sample_with(n, &SampleOptions { seed, ..self.sampling })
    }
}

/// Choices or settings of a method from their JSON form.
pub fn read_settings<T: serde::de::DeserializeOwned>(json: &Json) -> Result<T, FitError> {
    serde_json::from_value(json.clone())
        .map_err(|e| FitError::Settings { problem: e.to_string().replace('\n', " ") })
}

/// The JSON form of choices or settings.
pub fn write_settings<T: serde::Serialize>(settings: &T) -> Result<Json, FitError> {
    serde_json::to_value(settings).map_err(|e| FitError::Settings { problem: e.to_string() })
}
