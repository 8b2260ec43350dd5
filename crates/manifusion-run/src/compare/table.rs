//! The table of a comparison, made from results alone.

use std::fmt;
use std::fmt::Write as _;
use std::path::Path;

use manifusion::stats::{Mean, mean};
use manifusion_io::{Column, FileFormat, table_to_bytes};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::result::{Ended, Measured, RunResult};
use crate::error::RunError;
use crate::folder::RunDir;

/// One column of the table, explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Its name in `comparison.csv` and `comparison.json`.
    pub key: &'static str,
    /// Its unit; empty for what has none.
    pub unit: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

/// Declares the fields of a row and their explanations at once.
macro_rules! columns {
    ($(#[doc = $about:literal])+ {
        $($(#[doc = $meaning:literal])+ $name:ident: $kind:ty, $unit:literal;)+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub struct MethodRow {
            $($(#[doc = $meaning])+ pub $name: $kind,)+
        }

        /// The columns of a comparison: the fields of a [`MethodRow`], in this order.
        pub const COLUMNS: &[ColumnInfo] = &[$(ColumnInfo {
            key: stringify!($name),
            unit: $unit,
            meaning: concat!($($meaning),+).trim_ascii(),
        },)+];
    };
}

columns! {
    /// What came of a method. Means are over the seeds that it has a result for.
    {
        /// Name of the method.
        method: String, "";
        /// best (lowest nll of those with the most seeds), tie (not told apart from the best:
        /// difference at most twice its standard error), better (on fewer seeds), worse, or failed.
        standing: Standing, "";
        /// Seeds with a result.
        seeds: usize, "";
        /// Negative log-likelihood of the test points, mean over the seeds; lower is better.
        nll: Option<f64>, "nats";
        /// Standard deviation of nll over the seeds; none for one seed.
        nll_std: Option<f64>, "nats";
        /// nll of each seed.
        nll_of_seeds: Vec<f64>, "nats";
        /// nll of the first network alone, for a method that has several.
        network_nll: Option<f64>, "nats";
        /// nll minus that of the best method, on the seeds that both have.
        difference: Option<f64>, "nats";
        /// Standard error of difference, paired point by point.
        difference_se: Option<f64>, "nats";
        /// Time of a training, fits before its first step included.
        train_seconds: Option<f64>, "s";
        /// Time of 1000 draws.
        sample_seconds: Option<f64>, "s";
        /// Time of 1000 log-densities.
        score_seconds: Option<f64>, "s";
        /// Processor threads behind the times; the most where runs differ.
        threads: Option<usize>, "";
        /// Numbers that a model learned from the data, rounded mean.
        parameters: Option<usize>, "";
        /// Total mass of the density; 1 for an exact density.
        mass: Option<f64>, "";
        /// Standard error of mass.
        mass_se: Option<f64>, "";
        /// Why there is no result for a seed.
        note: Option<String>, "";
    }
}

/// How a method stands beside the best one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// The lowest NLL of the methods that have the most seeds.
    Best,
    /// A lower NLL than the best on the seeds that both have, which are not all.
    Better,
    /// Not told apart from the best.
    Tie,
    /// A higher NLL than the best.
    Worse,
    /// No result.
    #[default]
    Failed,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Best => "best",
            Self::Better => "better",
            Self::Tie => "tie",
            Self::Worse => "worse",
            Self::Failed => "failed",
        })
    }
}

/// Methods beside each other. [`Display`](fmt::Display) is the table of the command line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The data.
    pub dataset: Option<String>,
    /// The space that they live on.
    pub manifold: Option<String>,
    /// The volume that densities are with respect to.
    pub measure: Option<String>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Test points of each seed; 0 where no method has a result.
    pub test_points: Vec<usize>,
    /// Mean over the seeds of the true density's NLL on the same test points, where it is known.
    pub truth: Option<f64>,
    /// The methods: the best first, those that have no result last.
    pub methods: Vec<MethodRow>,
    /// Runs that were not made yet.
    pub runs_left: usize,
}

/// Differences of so many standard errors or less are ties.
const TIE: f64 = 2.0;

impl Comparison {
    /// The table of these results, which need no folder. Methods keep their order where nothing
    /// tells them apart. An error if methods were judged on different splits of a seed.
    pub fn of(results: &[RunResult]) -> Result<Self, RunError> {
        let (mut names, mut seeds) = (Vec::new(), Vec::new());
        for result in results {
            if !names.contains(&&result.method) {
                names.push(&result.method);
            }
            if !seeds.contains(&result.seed) {
                seeds.push(result.seed);
            }
        }
        seeds.sort_unstable();
        check_splits(results, &seeds)?;
        let all: Vec<OfMethod<'_>> =
            names.iter().map(|name| OfMethod::new(name, results, &seeds)).collect();
        let most = all.iter().map(|method| method.measured().count()).max().unwrap_or(0);
        // A mean over fewer seeds is not comparable: it may lack the hard ones.
        let mut ranked: Vec<&OfMethod<'_>> = all.iter().collect();
        ranked.sort_by(|a, b| {
            let key = |method: &OfMethod<'_>| {
                let count = method.measured().count();
                (count < most, count == 0)
            };
            key(a).cmp(&key(b)).then(a.nll().total_cmp(&b.nll()))
        });
        let best = ranked.first().copied();
        let methods = ranked.iter().map(|method| method.row(best)).collect();
        let any = all.iter().find_map(|method| method.measured().next());
        let points = |number: usize| {
            all.iter().find_map(|method| method.runs[number]).map_or(0, |run| run.log_density.len())
        };
        let true_nll =
            |number: usize| all.iter().find_map(|method| method.runs[number]?.evaluation.true_nll);
        let truths: Option<Vec<f64>> = (0..seeds.len()).map(true_nll).collect();
        Ok(Self {
            truth: truths.filter(|values| !values.is_empty()).map(|values| mean(&values).value),
            dataset: any.and_then(|run| run.evaluation.dataset.clone()),
            manifold: any.map(|run| run.evaluation.manifold.clone()),
            measure: any.map(|run| run.evaluation.measure.clone()),
            test_points: (0..seeds.len()).map(points).collect(),
            seeds,
            methods,
            runs_left: 0,
        })
    }

    /// Writes `comparison.md`, `comparison.csv` and `comparison.json` into a folder.
    pub fn write(&self, folder: &Path) -> Result<(), RunError> {
        let dir = RunDir::other(folder);
        dir.write("comparison.md", self.to_markdown().as_bytes())?;
        dir.write("comparison.csv", &self.to_csv()?)?;
        dir.write_json("comparison.json", self)
    }

    /// The table as Markdown.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = format!("{}\n\n", self.caption());
        text += &line(SHOWN.iter().map(|(heading, _)| (*heading).to_owned()).collect());
        let sides = SHOWN.iter().enumerate();
        text += &line(sides.map(|(i, _)| if i < TEXTS { "---" } else { "---:" }.into()).collect());
        for row in &self.methods {
            text += &line(SHOWN.iter().map(|(_, cell)| cell(row).replace('|', "\\|")).collect());
        }
        for note in self.notes() {
            let _ = write!(text, "\n{note}\n");
        }
        text
    }

    /// All [`COLUMNS`] as CSV; lists are separated by spaces.
    pub fn to_csv(&self) -> Result<Vec<u8>, RunError> {
        let unwritable = |e: serde_json::Error| RunError::Settings(format!("comparison: {e}"));
        let rows: Result<Vec<Json>, _> = self.methods.iter().map(serde_json::to_value).collect();
        let rows = rows.map_err(unwritable)?;
        let cells = |key: &str| rows.iter().map(|row| plain(&row[key])).collect();
        let columns: Vec<Column> =
            COLUMNS.iter().map(|column| Column::text(column.key, cells(column.key))).collect();
        Ok(table_to_bytes(&columns, FileFormat::Csv)?)
    }

    /// What all rows have in common, in a sentence.
    fn caption(&self) -> String {
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| String::from("-"));
        let counted = |values: &[usize], what: &str| {
            let (least, most) = (values.iter().min()?, values.iter().max()?);
            let number =
                if least == most { most.to_string() } else { format!("{least} to {most}") };
            Some(format!("{number} {what}{}", if *most == 1 { "" } else { "s" }))
        };
        let threads: Vec<usize> = self.methods.iter().filter_map(|row| row.threads).collect();
        let mut parts = vec![format!("{} on {}", text(&self.dataset), text(&self.manifold))];
        parts.extend(counted(&[self.seeds.len()], "seed"));
        parts.extend(counted(&self.test_points, "test point"));
        parts.push(format!("NLL in nats per point (measure: {})", text(&self.measure)));
        parts.extend(self.truth.map(|truth| format!("that of the truth {truth:.4}")));
        parts.extend(counted(&threads, "thread").map(|threads| format!("times with {threads}")));
        if self.runs_left > 0 {
            parts
                .extend(counted(&[self.runs_left], "run").map(|n| format!("{n} still to be made")));
        }
        parts.join("; ")
    }

    /// What rows have to say beside their numbers.
    fn notes(&self) -> Vec<String> {
        let note = |row: &MethodRow| Some(format!("{}: {}", row.method, row.note.as_ref()?));
        self.methods.iter().filter_map(note).collect()
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.caption())?;
        let headings = SHOWN.iter().map(|(heading, _)| (*heading).to_owned()).collect();
        let rows = self.methods.iter().map(|row| SHOWN.iter().map(|(_, cell)| cell(row)).collect());
        let lines: Vec<Vec<String>> = std::iter::once(headings).chain(rows).collect();
        let width = |i: usize| lines.iter().map(|l| l[i].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..SHOWN.len()).map(width).collect();
        for line in &lines {
            let mut text = String::new();
            for (i, (cell, width)) in line.iter().zip(&widths).enumerate() {
                let padded =
                    if i < TEXTS { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
                text = format!("{text}  {padded}");
            }
            writeln!(f, "{}", text.trim_end())?;
        }
        for note in self.notes() {
            writeln!(f, "  {note}")?;
        }
        write!(f, "  tie: at most {TIE} paired standard errors from the best")
    }
}

/// A value as a field of a CSV file.
fn plain(value: &Json) -> String {
    match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => other.to_string(),
    }
}

/// The first columns of a table, which are texts; numbers stand on the right.
const TEXTS: usize = 2;

type Shown = (&'static str, fn(&MethodRow) -> String);

/// The columns of the tables that people read: a heading, and what stands below it.
const SHOWN: &[Shown] = &[
    ("method", |row| row.method.clone()),
    ("", |row| row.standing.to_string()),
    ("test NLL", |row| with_error(row.nll, row.nll_std, false)),
    ("to the best", |row| match row.standing {
        Standing::Best => String::from("0"),
        _ => with_error(row.difference, row.difference_se, true),
    }),
    ("training (s)", |row| digits(row.train_seconds)),
    ("1000 samples (s)", |row| digits(row.sample_seconds)),
    ("1000 scores (s)", |row| digits(row.score_seconds)),
    ("parameters", |row| row.parameters.map_or_else(nothing, |count| count.to_string())),
    ("mass", |row| with_error(row.mass, row.mass_se, false)),
];

fn nothing() -> String {
    String::from("-")
}

fn with_error(value: Option<f64>, error: Option<f64>, signed: bool) -> String {
    let Some(value) = value else { return nothing() };
    let value = if signed { format!("{value:+.4}") } else { format!("{value:.4}") };
    error.map_or(value.clone(), |error| format!("{value} ± {error:.4}"))
}

/// Three digits that count, six decimals at most.
fn digits(value: Option<f64>) -> String {
    let Some(value) = value else { return nothing() };
    let decimals = (2.0 - value.max(1e-9).log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.decimals$}")
}

/// An error if methods were judged on different test points of a seed: nothing could be paired.
fn check_splits(results: &[RunResult], seeds: &[u64]) -> Result<(), RunError> {
    for seed in seeds {
        let mut measured = results.iter().filter_map(|result| match &result.ended {
            Ended::Measured(run) if result.seed == *seed => {
                let hash = run.evaluation.split_hash.as_deref().unwrap_or("none");
                Some((&result.method, hash, run.log_density.len()))
            }
            _ => None,
        });
        let Some((first, hash, points)) = measured.next() else { continue };
        if let Some((other, ..)) = measured.find(|run| (run.1, run.2) != (hash, points)) {
            return Err(RunError::Settings(format!(
                "{first} and {other} were judged on different splits of seed {seed}; such results \
                 cannot be compared"
            )));
        }
    }
    Ok(())
}

/// The results of a method.
struct OfMethod<'a> {
    name: &'a str,
    /// By seed; none where it failed.
    runs: Vec<Option<&'a Measured>>,
    note: Option<String>,
}

impl<'a> OfMethod<'a> {
    fn new(name: &'a str, results: &'a [RunResult], seeds: &[u64]) -> Self {
        let (mut runs, mut failures) = (vec![None; seeds.len()], Vec::new());
        for result in results.iter().filter(|result| result.method == name) {
            let place = seeds.iter().position(|seed| *seed == result.seed);
            match (&result.ended, place) {
                (Ended::Measured(measured), Some(place)) => runs[place] = Some(&**measured),
                (Ended::Measured(_), None) => {}
                (Ended::Failed(reason), _) => failures.push((result.seed, reason)),
            }
        }
        let note = failures.first().map(|(seed, reason)| {
            let same = failures.len() == seeds.len() && failures.iter().all(|(_, r)| r == reason);
            if same { (*reason).clone() } else { format!("seed {seed}: {reason}") }
        });
        Self { name, runs, note }
    }

    fn measured(&self) -> impl Iterator<Item = &'a Measured> + '_ {
        self.runs.iter().flatten().copied()
    }

    fn nlls(&self) -> Vec<f64> {
        self.measured().map(|run| -mean(&run.log_density).value).collect()
    }

    /// The mean over the seeds; infinite without any.
    fn nll(&self) -> f64 {
        let nlls = self.nlls();
        if nlls.is_empty() { f64::INFINITY } else { mean(&nlls).value }
    }

    /// The mean over the seeds of what every run has; none if one lacks it.
    fn mean(&self, value: impl Fn(&Measured) -> Option<f64>) -> Option<f64> {
        let values: Option<Vec<f64>> = self.measured().map(value).collect();
        values.filter(|values| !values.is_empty()).map(|values| mean(&values).value)
    }

    fn row(&self, best: Option<&Self>) -> MethodRow {
        let row = MethodRow {
            method: self.name.to_owned(),
            note: self.note.clone(),
            ..MethodRow::default()
        };
        let (nlls, Some(best)) = (self.nlls(), best) else { return row };
        if nlls.is_empty() {
            return row;
        }
        let over_seeds = mean(&nlls);
        let is_best = std::ptr::eq(self, best);
        let (difference, difference_se) =
            if is_best { (Some(0.0), None) } else { difference(&self.runs, &best.runs) };
        let standing = match (difference, difference_se) {
            _ if is_best => Standing::Best,
            (Some(difference), Some(se)) if difference.abs() <= TIE * se => Standing::Tie,
            (Some(difference), Some(_)) if difference < 0.0 => Standing::Better,
            // A single point tells nothing apart, unless it has no density at all.
            (Some(difference), None) if difference.is_finite() => Standing::Tie,
            _ => Standing::Worse,
        };
        let count = nlls.len() as f64;
        MethodRow {
            standing,
            seeds: nlls.len(),
            nll: Some(over_seeds.value),
            nll_std: Some(over_seeds.se * count.sqrt()).filter(|std| !std.is_nan()),
            nll_of_seeds: nlls,
            network_nll: self.mean(|run| run.evaluation.network_nll),
            difference,
            difference_se,
            train_seconds: self.mean(|run| run.evaluation.train_seconds),
            sample_seconds: self.mean(|run| Some(run.sample_seconds)),
            score_seconds: self.mean(|run| Some(run.score_seconds)),
            threads: self.measured().map(|run| run.threads).max(),
            parameters: self
                .mean(|run| run.parameters.map(|count| count as f64))
                .map(|mean| mean.round() as usize),
            mass: self.mean(|run| run.evaluation.mass),
            // Masses of all seeds are estimated with the same draws of the prior, so that their
            // errors do not average out.
            mass_se: self.mean(|run| run.evaluation.mass_se),
            ..row
        }
    }
}

/// The NLL of a method minus that of another one, from the results of each: the mean over the seeds
/// that both have, with its standard error; none without such a seed. An error if they were judged
/// on different splits of a seed.
pub fn paired_difference(own: &[RunResult], other: &[RunResult]) -> Result<Option<Mean>, RunError> {
    fn of(results: &[RunResult], seed: u64) -> Option<&Measured> {
        results.iter().find_map(|result| match &result.ended {
            Ended::Measured(measured) if result.seed == seed => Some(&**measured),
            _ => None,
        })
    }
    let seeds: Vec<u64> = own.iter().map(|result| result.seed).collect();
    check_splits(&[own, other].concat(), &seeds)?;
    let runs = |results| seeds.iter().map(|seed| of(results, *seed)).collect::<Vec<_>>();
    let (own, other) = (runs(own), runs(other));
    let n = own.iter().zip(&other).filter(|(own, other)| own.is_some() && other.is_some()).count();
    let (value, se) = difference(&own, &other);
    Ok(value.map(|value| Mean { value, se: se.unwrap_or(f64::NAN), n }))
}

/// The mean over seeds of NLL minus the other's NLL, on the seeds that both have, and its standard
/// error. Differences are paired point by point within a seed; with d̄_s and se_s their mean and
/// its standard error in seed s of S, and b the standard deviation of the d̄_s, the variance of the
/// mean is the larger of Σ se_s²/S² and b²/S: points alone, or points and what trainings of
/// different seeds differ by (the moment estimate of a random effect of the seed, which is not
/// negative).
fn difference(
    own: &[Option<&Measured>],
    other: &[Option<&Measured>],
) -> (Option<f64>, Option<f64>) {
    let paired = own.iter().zip(other).filter_map(|(own, other)| {
        let (own, other) = ((*own)?, (*other)?);
        let pairs = own.log_density.iter().zip(&other.log_density);
        Some(mean(&pairs.map(|(own, other)| other - own).collect::<Vec<f64>>()))
    });
    let seeds: Vec<_> = paired.collect();
    if seeds.is_empty() {
        return (None, None);
    }
    let count = seeds.len() as f64;
    let within = seeds.iter().map(|seed| seed.se * seed.se).sum::<f64>().sqrt() / count;
    let all = mean(&seeds.iter().map(|seed| seed.value).collect::<Vec<f64>>());
    // `max` of a number and NaN, which a single value has, is the number.
    (Some(all.value), Some(within.max(all.se)).filter(|se| !se.is_nan()))
}
