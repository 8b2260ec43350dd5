//! Every number that a model is judged by, with its error, its unit and what it means.
//!
//! [`Evaluation`] is the one definition of these numbers: `eval.json` is its JSON form, the table
//! of the command line its [`Display`](fmt::Display) form, and [`METRICS`] explains each to a
//! reader of the report.

use std::borrow::Cow;
use std::fmt;
use std::time::Instant;

use serde::{Deserialize, Deserializer, Serialize};

use crate::data::Synthetic;
use crate::density::Density;
use crate::error::SolveError;
use crate::likelihood::BoundOptions;
use crate::manifold::{Family, Hyperboloid, Manifold, Metric};
use crate::mass::{MassKind, agreed_quadrature, importance, total_mass};
use crate::methods::{Fitted, LikelihoodKind, Member};
use crate::mixture::KernelMixture;
use crate::points::Points;
use crate::rows::Rows;
use crate::sample::{SampleOptions, Steps};
use crate::stats::{bootstrap_interval, mean};
use crate::watch::Watch;

/// One number of an evaluation, explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricInfo {
    /// Its key in `eval.json`.
    pub key: &'static str,
    /// Its unit; empty for what has none.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

/// Declares the fields of an evaluation and their explanations at once.
macro_rules! evaluation {
    ($(#[doc = $about:literal])+ {
        $($(#[doc = $meaning:literal])+ $(#[serde($($serde:tt)+)])? $name:ident: $kind:ty, $unit:literal;)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct Evaluation {
            $($(#[doc = $meaning])+ $(#[serde($($serde)+)])? pub $name: $kind,)+
        }

        /// The numbers of an [`Evaluation`], in the order in which a reader wants them.
        pub const METRICS: &[MetricInfo] = &[$(MetricInfo {
            key: stringify!($name),
            unit: $unit,
            meaning: concat!($($meaning),+).trim_ascii(),
        },)+];
    };
}

evaluation! {
    /// A model judged on points that it has not seen. What was not computed is none.
    {
        /// Mean negative log-likelihood of the test points; lower is better.
        #[serde(deserialize_with = "number_or_nan")]
        nll: f64, "nats";
        /// Standard error of nll over the test points.
        nll_se: Option<f64>, "nats";
        /// Bootstrap interval of nll over the test points, 95 %.
        nll_interval_95: Option<[f64; 2]>, "nats";
        /// How nll was computed: ode (the model's equivalent flow, solved numerically) or
        /// closed-form.
        nll_kind: String, "";
        /// nll with respect to the other usual measure.
        nll_other_measure: Option<f64>, "nats";
        /// The measure of nll_other_measure.
        other_measure: Option<String>, "";
        /// nll of the uniform density, the least that a model must beat.
        uniform_nll: Option<f64>, "nats";
        /// nll of the first network of a stack alone.
        network_nll: Option<f64>, "nats";
        /// nll of a kernel mixture fitted to the same training points: a simple, strong rival.
        kernel_nll: Option<f64>, "nats";
        /// Standard error of kernel_nll.
        kernel_nll_se: Option<f64>, "nats";
        /// Training points that are centres of the kernel mixture; of many, as many as its share of
        /// the time is enough for.
        kernel_centres: Option<usize>, "points";
        /// nll of the ground-truth density of generated data: what no model beats on average.
        true_nll: Option<f64>, "nats";
        /// Negated evidence lower bound: an upper bound of the negative log-likelihood of the
        /// stochastic model.
        elbo_nll: Option<f64>, "nats";
        /// Standard error of elbo_nll.
        elbo_nll_se: Option<f64>, "nats";
        /// The same bound, tightened by averaging K paths per point.
        kelbo_nll: Option<f64>, "nats";
        /// Standard error of kelbo_nll.
        kelbo_nll_se: Option<f64>, "nats";
        /// K, the number of paths per point in kelbo_nll.
        kelbo_k: Option<usize>, "paths";
        /// kelbo_nll with steps twice as long; near kelbo_nll when the steps are short enough.
        kelbo_nll_doubled_steps: Option<f64>, "nats";
        /// Standard error of kelbo_nll_doubled_steps.
        kelbo_nll_doubled_steps_se: Option<f64>, "nats";
        /// Test points on which the bounds were computed.
        bound_points: usize, "points";
        /// nll on the points of the bounds, to compare them with.
        nll_on_bound_points: Option<f64>, "nats";
        /// Standard error of kelbo_nll − nll_on_bound_points, paired point by point.
        kelbo_gap_se: Option<f64>, "nats";
        /// The members of a stack, each with its weight and its nll alone.
        members: Option<Vec<MemberNll>>, "nats";
        /// nll of the density that the method states without its flow (Moser flow); where its mass
        /// is not one, it is not comparable.
        direct_nll: Option<f64>, "nats";
        /// Mass of the density that the method states without its flow.
        direct_mass: Option<f64>, "";
        /// Error of direct_mass.
        direct_mass_se: Option<f64>, "";
        /// Total mass of the density over the manifold; 1 for an exact density.
        mass: Option<f64>, "";
        /// Error of mass.
        mass_se: Option<f64>, "";
        /// How mass was computed: quadrature, bridge sampling, or importance sampling.
        mass_kind: Option<String>, "";
        /// The volume that the density is with respect to.
        measure: String, "";
        /// Number of test points behind the averages.
        n: usize, "points";
        /// Share of the test points that also occur in training; likelihoods reward remembering
        /// them.
        test_in_train: Option<f64>, "";
        /// How the density was learned.
        method: String, "";
        /// How far the training points were smoothed, in squared bandwidths of the kernel mixture.
        smoothing: Option<f64>, "";
        /// The space that the data live on.
        manifold: String, "";
        /// The data.
        dataset: Option<String>, "";
        /// The part of the data that the model was judged on.
        split: Option<String>, "";
        /// Seed of every random number of the run.
        seed: Option<u64>, "";
        /// Whether exact duplicates were removed before the data were divided.
        dedup: Option<bool>, "";
        /// The form of the training loss.
        loss: Option<String>, "";
        /// Smallest noise time; the density is that of data noised for this long.
        s_min: Option<f64>, "";
        /// Largest noise time, where the prior takes over.
        t_end: Option<f64>, "";
        /// Tolerance of the solver behind nll.
        tolerance: Option<f64>, "";
        /// Evaluations of the model per point behind nll.
        evaluations: f64, "";
        /// Time of the training, fits before its first step included.
        train_seconds: Option<f64>, "s";
        /// Processor threads of the training.
        train_threads: Option<usize>, "";
        /// Time of this evaluation.
        eval_seconds: f64, "s";
        /// Processor threads of this evaluation.
        threads: usize, "";
        /// Fingerprint of the resolved configuration.
        config_hash: Option<String>, "";
        /// Fingerprint of the division of the data.
        split_hash: Option<String>, "";
        /// Whether the evaluation was stopped before all of it was computed.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        stopped: bool, "";
        /// Version of the program.
        version: String, "";
    }
}

/// What one member contributes to a stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MemberNll {
    /// The method that learned it.
    pub method: String,
    /// Its weight in the stack.
    pub weight: f64,
    /// Its nll alone, in nats.
    pub nll: f64,
}

/// JSON has no NaN: it is null there.
fn number_or_nan<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// How a model is judged.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvaluationOptions {
    /// Points that are judged, at most, drawn at random; 0 judges all.
    pub points: usize,
    /// Relative and absolute tolerance of dopri5.
    pub tolerance: f64,
    /// K.
    pub kelbo_paths: usize,
    /// Test points on which ELBO and KELBO are computed, at most; 0 leaves them out.
    pub bound_points: usize,
    /// Evaluations of the density for its mass; 0 leaves it out.
    pub mass_points: usize,
    /// Resamplings behind the interval of nll.
    pub bootstrap: usize,
}

impl Default for EvaluationOptions {
    fn default() -> Self {
        Self {
            points: 20_000,
            tolerance: 1e-5,
            kelbo_paths: 100,
            bound_points: 32,
            mass_points: 3000,
            bootstrap: 2000,
        }
    }
}

impl EvaluationOptions {
    /// Those of the points that are judged: all, or where there are too many a random choice of the
    /// seed, since a million would take an hour.
    pub fn judged<'a>(&self, points: &'a Points, seed: u64) -> Result<Cow<'a, Points>, SolveError> {
        if self.points == 0 || points.len() <= self.points {
            return Ok(Cow::Borrowed(points));
        }
        Ok(Cow::Owned(points.some(self.points, seed)?))
    }
}

/// What a model is compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Baselines<'a> {
    /// A kernel mixture of the same training points.
    pub kernel: Option<&'a KernelMixture>,
    /// The generated set that the points are from.
    pub truth: Option<&'a Synthetic>,
}

fn negated(log_p: &[f64]) -> Vec<f64> {
    log_p.iter().map(|v| -v).collect()
}

/// NaN, the error of a single value, as none.
fn known(value: f64) -> Option<f64> {
    Some(value).filter(|value| !value.is_nan())
}

/// Judges a model on points. If the watch stops it after nll, what is left out is none and
/// [`Evaluation::stopped`] says so.
pub fn evaluate(
    model: &dyn Fitted,
    points: &Points,
    baselines: Baselines<'_>,
    options: &EvaluationOptions,
    seed: u64,
    watch: &Watch,
) -> Result<Evaluation, SolveError> {
    let start = Instant::now();
    let points = options.judged(points, seed)?;
    let (x, manifold) = (points.rows(), model.manifold().as_ref());
    let scored = watch.stage("likelihood", || model.log_density_to(x, options.tolerance))?;
    let values = negated(&scored.log_p);
    let nll = mean(&values);
    let interval = bootstrap_interval(&values, 0.95, options.bootstrap, seed);
    let kind = model.likelihood_kind();
    let facts = model.facts();
    let mut found = Evaluation {
        nll: nll.value,
        nll_se: known(nll.se),
        nll_interval_95: Some([interval.0, interval.1]),
        nll_kind: match kind {
            LikelihoodKind::Ode => "ode",
            LikelihoodKind::ClosedForm => "closed-form",
        }
        .to_owned(),
        uniform_nll: manifold.log_volume(),
        measure: measure(manifold).to_owned(),
        n: x.len(),
        method: model.info().name.to_owned(),
        manifold: manifold.name(),
        smoothing: facts.smoothing,
        loss: facts.loss.map(str::to_owned),
        s_min: facts.s_min,
        t_end: facts.t_end,
        tolerance: (kind == LikelihoodKind::Ode).then_some(options.tolerance),
        evaluations: scored.evaluations,
        threads: rayon::current_num_threads(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..Evaluation::default()
    };
    if !scored.members.is_empty() {
        let members = members(model, &scored.members);
        let is_network = |m: &Member| m.model.likelihood_kind() == LikelihoodKind::Ode;
        let mut networks = model.members().iter().zip(&members).filter(|(m, _)| is_network(m));
        found.network_nll = networks.next().map(|(_, network)| network.nll);
        found.members = Some(members);
    }
    if let Some((name, change)) = other_measure(manifold, x) {
        found.other_measure = Some(name.to_owned());
        found.nll_other_measure = Some(nll.value - change);
    }
    let mut rest = || -> Result<(), SolveError> {
        let kernel = model.mixture().or(baselines.kernel);
        if let Some(kernel) = kernel {
            let log_p = watch.stage("kernel mixture", || kernel.log_density(x))?;
            let nll = mean(&negated(&log_p));
            (found.kernel_nll, found.kernel_nll_se) = (Some(nll.value), known(nll.se));
            found.kernel_centres = Some(kernel.num_centres());
        }
        if let Some(truth) = baselines.truth {
            let values: Vec<f64> = x.rows().map(|x| -truth.log_density(x)).collect();
            found.true_nll = Some(mean(&values).value);
        }
        if let Some(direct) = model.direct() {
            found.direct_nll = Some(mean(&negated(&direct.log_density(x)?)).value);
        }
        add_bounds(&mut found, model, &points, &values, options, seed, watch)?;
        add_mass(&mut found, model, kernel, options, seed, watch)
    };
    match rest() {
        Err(SolveError::Stopped) => found.stopped = true,
        done => done?,
    }
    found.eval_seconds = start.elapsed().as_secs_f64();
    Ok(found)
}

/// What the members of a model are worth alone, from their log-densities.
fn members(model: &dyn Fitted, log_p: &[Vec<f64>]) -> Vec<MemberNll> {
    let one = |(member, log_p): (&Member, &Vec<f64>)| MemberNll {
        method: member.model.info().name.to_owned(),
        weight: member.weight,
        nll: mean(&negated(log_p)).value,
    };
    model.members().iter().zip(log_p).map(one).collect()
}

/// ELBO and KELBO on the first of the points, and the exact value on the same ones.
fn add_bounds(
    found: &mut Evaluation,
    model: &dyn Fitted,
    points: &Points,
    negated_log_p: &[f64],
    options: &EvaluationOptions,
    seed: u64,
    watch: &Watch,
) -> Result<(), SolveError> {
    let wanted = options.bound_points.min(negated_log_p.len());
    if wanted == 0 {
        return Ok(());
    }
    let num_paths = options.kelbo_paths;
    let bound_options = BoundOptions { num_paths, seed, ..BoundOptions::default() };
    // Points of a split are in random order.
    let some = points.first_rows(wanted);
    let bounds = || model.bounds(some, &bound_options);
    let Some(bounds) = watch.stage("bounds", bounds)? else { return Ok(()) };
    let of = |values: &[f64]| {
        let value = mean(&negated(values));
        (Some(value.value), known(value.se))
    };
    found.bound_points = wanted;
    found.kelbo_k = Some(num_paths);
    (found.elbo_nll, found.elbo_nll_se) = of(&bounds.elbo);
    (found.kelbo_nll, found.kelbo_nll_se) = of(&bounds.kelbo);
    (found.kelbo_nll_doubled_steps, found.kelbo_nll_doubled_steps_se) = of(&bounds.kelbo_doubled);
    found.nll_on_bound_points = Some(mean(&negated_log_p[..wanted]).value);
    let gaps = bounds.kelbo.iter().zip(negated_log_p).map(|(kelbo, exact)| -kelbo - exact);
    found.kelbo_gap_se = known(mean(&gaps.collect::<Vec<f64>>()).se);
    Ok(())
}

/// A density without a flow is cheap: its mass can have more points.
const DIRECT_FACTOR: usize = 10;

fn add_mass(
    found: &mut Evaluation,
    model: &dyn Fitted,
    kernel: Option<&KernelMixture>,
    options: &EvaluationOptions,
    seed: u64,
    watch: &Watch,
) -> Result<(), SolveError> {
    if options.mass_points == 0 {
        return Ok(());
    }
    let density = AtTolerance { model, tolerance: options.tolerance };
    let proposal = model.mass_proposal()?;
    let near = proposal.as_deref().or(kernel.map(|kernel| kernel as &dyn Density));
    let (prior, budget) = (model.prior().as_ref(), options.mass_points);
    let mass = watch.stage("mass", || total_mass(&density, near, prior, budget, seed))?;
    let kind = match mass.kind {
        MassKind::Quadrature => "quadrature",
        MassKind::Bridge => "bridge sampling",
        MassKind::Importance => "importance sampling",
    };
    (found.mass, found.mass_se) = (known(mass.value), known(mass.se));
    if let Some(direct) = model.direct() {
        // It cannot be drawn from.
        let budget = DIRECT_FACTOR * budget;
        let mass = match agreed_quadrature(direct, near, budget)? {
            Some(mass) => mass,
            None => importance(direct, near, prior, budget, seed)?,
        };
        (found.direct_mass, found.direct_mass_se) = (known(mass.value), known(mass.se));
    }
    found.mass_kind = Some(kind.to_owned());
    Ok(())
}

/// A model with the tolerance of the evaluation.
#[derive(Debug)]
struct AtTolerance<'a> {
    model: &'a dyn Fitted,
    tolerance: f64,
}

impl Density for AtTolerance<'_> {
    fn manifold(&self) -> &std::sync::Arc<dyn Manifold> {
        self.model.manifold()
    }

    fn log_density(&self, x: Rows<'_>) -> Result<Vec<f64>, SolveError> {
        Ok(self.model.log_density_to(x, self.tolerance)?.log_p)
    }

    fn sample(&self, n: usize, seed: u64) -> Result<Vec<f64>, SolveError> {
        let steps = Steps::to_tolerance(self.tolerance);
        self.model.sample_with(n, &SampleOptions { steps, seed, ..SampleOptions::default() })
    }
}

const G_E: &str = "volume of the metric induced from the Euclidean space (g_E)";
const G_L: &str = "volume of the Lorentz metric (g_L)";

/// The measure that densities on a manifold refer to.
pub fn measure(manifold: &dyn Manifold) -> &'static str {
    match manifold.family() {
        Family::Sphere { .. } => "area of the unit sphere",
        Family::Torus { .. } => "product of angles in radians",
        Family::Hyperboloid { metric: Metric::Euclidean, .. } => G_E,
        Family::Hyperboloid { metric: Metric::Lorentz, .. } => G_L,
        Family::Orthogonal { .. } => "volume of the metric induced from matrices (Frobenius)",
        Family::Euclidean { .. } => "Lebesgue measure",
        _ => "Riemannian volume of the induced metric",
    }
}

/// The other usual measure of a manifold, and the mean change of log p into it.
fn other_measure(manifold: &dyn Manifold, x: Rows<'_>) -> Option<(&'static str, f64)> {
    match manifold.family() {
        Family::Hyperboloid { dim, curvature, metric } => {
            let space = Hyperboloid::new(dim, curvature).ok()?;
            let changes: Vec<f64> = x.rows().map(|x| space.log_lorentz_over_euclid(x)).collect();
            let change = mean(&changes).value;
            Some(match metric {
                Metric::Euclidean => (G_L, change),
                Metric::Lorentz => (G_E, -change),
            })
        }
        // A rotation by ω moves a matrix by √2 ω, in each of three directions.
        Family::Orthogonal { n: 3, .. } => {
            Some(("volume of the rotation-angle metric, total 8 pi^2", 1.5 * 2f64.ln()))
        }
        _ => None,
    }
}

impl Evaluation {
    /// The KELBO's bound less the exact value on the same points.
    pub fn kelbo_gap(&self) -> Option<f64> {
        Some(self.kelbo_nll? - self.nll_on_bound_points?)
    }

    /// Whether the KELBO is further from the exact value than its error explains, with a tenth of a
    /// nat left to its quadrature and to a finite K: the reverse SDE then has another density than
    /// the ODE.
    pub fn kelbo_is_off(&self) -> bool {
        let (Some(gap), Some(se)) = (self.kelbo_gap(), self.kelbo_gap_se) else { return false };
        gap.abs() > 3.0 * se + 0.1
    }

    /// Whether the mass is not one within its error.
    pub fn mass_is_off(&self) -> bool {
        let (Some(mass), Some(se)) = (self.mass, self.mass_se) else { return false };
        (mass - 1.0).abs() > 3.0 * se + 0.005
    }
}

/// The table of the command line.
impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| String::from("-"));
        writeln!(
            f,
            "{} on {}, {} points of {} ({})",
            self.method,
            self.manifold,
            self.n,
            text(&self.dataset),
            text(&self.split)
        )?;
        let on_points = self.nll_on_bound_points.map_or_else(String::new, |nll| {
            format!("on {} points, where the exact value is {nll:.4}", self.bound_points)
        });
        let kind = match self.tolerance {
            Some(tolerance) => format!("exact, by the ODE (tolerance {tolerance:e})"),
            None => String::from("exact, closed form"),
        };
        let mass_note = if self.mass_is_off() {
            "; not 1 within its error: these likelihoods are not to be relied on"
        } else {
            ""
        };
        let gap_note = if self.kelbo_is_off() {
            "paired; beyond its error: the reverse SDE may have another density than the ODE"
        } else {
            "paired"
        };
        let rows = [
            ("NLL", Some(self.nll), self.nll_se, kind),
            ("KELBO", self.kelbo_nll, self.kelbo_nll_se, on_points.clone()),
            ("  less exact value", self.kelbo_gap(), self.kelbo_gap_se, gap_note.to_owned()),
            (
                "  with doubled steps",
                self.kelbo_nll_doubled_steps,
                self.kelbo_nll_doubled_steps_se,
                String::new(),
            ),
            ("ELBO", self.elbo_nll, self.elbo_nll_se, on_points),
            ("NLL, other measure", self.nll_other_measure, None, text(&self.other_measure)),
            (
                "kernel mixture",
                self.kernel_nll,
                self.kernel_nll_se,
                match self.kernel_centres {
                    Some(centres) => format!("around {centres} training points, no network"),
                    None => String::from("no network"),
                },
            ),
            ("uniform", self.uniform_nll, None, String::new()),
            (
                "ground truth",
                self.true_nll,
                None,
                String::from("the density of the generated data"),
            ),
            ("mass", self.mass, self.mass_se, text(&self.mass_kind) + mass_note),
            (
                "NLL as stated",
                self.direct_nll,
                None,
                String::from("the method's own density, without its flow"),
            ),
            ("mass as stated", self.direct_mass, self.direct_mass_se, String::new()),
        ];
        let members = self.members.iter().flatten().map(|member| {
            let note = format!("member of the stack, weight {:.3}", member.weight);
            (member.method.as_str(), Some(member.nll), None, note)
        });
        let rows = rows[..1].iter().cloned().chain(members).chain(rows[1..].iter().cloned());
        for (label, value, se, note) in rows {
            let Some(value) = value else { continue };
            let value = match se {
                Some(se) => format!("{value:9.4} ± {se:.4}"),
                None => format!("{value:9.4}"),
            };
            writeln!(f, "{}", format!("  {label:<20} {value:<20} {note}").trim_end())?;
        }
        write!(f, "  in nats per point; measure: {}", self.measure)
    }
}
