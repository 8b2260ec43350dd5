//! What is to be compared, and the file that a comparison's folder keeps of it.

use std::path::{Path, PathBuf};

use manifusion::hash::sha256_hex;
use manifusion::methods::{METHODS, Method, method};
use serde_json::{Map, Value as Json, json};

use crate::config::{Choices, Config};
use crate::data::Data;
use crate::error::RunError;
use crate::folder::io_error;

/// The file of the plan.
pub(super) const FILE: &str = "plan.json";
/// The version of the file.
const FORMAT: u32 = 1;

/// Methods to compare, and what their runs have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Data and settings. A setting without a method's name is for every method that has it; one of
    /// a single method begins with its name, `kernel.local_weights=false`.
    pub config: Config,
    /// The names of the methods.
    pub methods: Vec<String>,
    /// The seeds. A seed decides the split, the same for all methods, and everything random in a
    /// run; of generated data also the points.
    pub seeds: Vec<u64>,
    /// A file of rows and parts for each of the seeds; none for splits that the seeds decide.
    pub splits: Vec<PathBuf>,
    /// Runs side by side; by default one per thread, as far as there are runs. Each has its share
    /// of the threads, also where fewer are left to be made: a budget of time is then worth the
    /// same for all.
    pub jobs: Option<usize>,
}

impl Plan {
    /// All runs: the methods of the first seed, then those of the next.
    pub(super) fn runs(&self) -> Vec<(String, u64)> {
        let pairs = self.seeds.iter().flat_map(|seed| self.methods.iter().map(move |m| (m, seed)));
        pairs.map(|(method, seed)| (method.clone(), *seed)).collect()
    }

    /// The choices of one run.
    pub fn choices(&self, method: &str, seed: u64) -> Result<Choices, RunError> {
        let mut config = self.config.clone();
        config.put("method", method);
        let number = i64::try_from(seed);
        let too_large = |_| RunError::Settings(format!("seed {seed} is larger than {}", i64::MAX));
        config.put("seed", number.map_err(too_large)?);
        let place = self.seeds.iter().position(|other| *other == seed);
        if let Some(file) = place.and_then(|place| self.splits.get(place)) {
            config.put("data.split_file", file.display().to_string());
        }
        config.choices()
    }

    /// An error for a plan that makes no sense; remarks on settings that no method has.
    pub fn check(&self) -> Result<Vec<String>, RunError> {
        let wrong = |sentence: String| Err(RunError::Settings(sentence));
        if self.methods.is_empty() || self.seeds.is_empty() {
            return wrong(format!(
                "{} methods and {} seeds make no comparison; at least one of each",
                self.methods.len(),
                self.seeds.len()
            ));
        }
        if let Some(twice) = first_repeated(&self.methods) {
            return wrong(format!("method {twice} is named twice"));
        }
        if let Some(twice) = first_repeated(&self.seeds) {
            return wrong(format!("seed {twice} is named twice"));
        }
        if !self.splits.is_empty() && self.splits.len() != self.seeds.len() {
            let (files, seeds) = (self.splits.len(), self.seeds.len());
            return wrong(format!("there are {files} split files for {seeds} seeds; one for each"));
        }
        if self.jobs == Some(0) {
            return wrong(String::from("0 runs side by side are not allowed; at least 1"));
        }
        let mut compared = Vec::new();
        for name in &self.methods {
            self.choices(name, self.seeds[0])?;
            compared.push(method(name)?);
        }
        let names = self.methods.join(", ");
        let idle = self.config.changed().filter(|(first, _)| {
            let has =
                |method: &&dyn Method| method.info().name == *first || method.info().knows(first);
            METHODS.iter().any(has) && !compared.iter().any(has)
        });
        Ok(idle.map(|(_, path)| format!("{path} is a setting of none of {names}")).collect())
    }

    /// What the runs depend on, as the folder keeps it. The data are read, which also finds what is
    /// wrong with them before anything runs; `remark` gets what is to be known of those of the
    /// first seed.
    pub(super) fn record(&self, remark: &dyn Fn(&str)) -> Result<Json, RunError> {
        let first = self.choices(&self.methods[0], self.seeds[0])?;
        let data = Data::load(&first)?;
        for finding in &data.facts.findings {
            remark(finding);
        }
        let mut splits = Map::new();
        for (number, seed) in self.seeds.iter().enumerate() {
            let hash = match self.splits.get(number) {
                None => Json::Null,
                Some(path) => {
                    if number > 0 {
                        Data::load(&self.choices(&self.methods[0], *seed)?)?;
                    }
                    let bytes = std::fs::read(path).map_err(io_error("reading", path))?;
                    Json::String(sha256_hex(&bytes))
                }
            };
            splits.insert(seed.to_string(), hash);
        }
        let mut methods = Map::new();
        for name in &self.methods {
            methods.insert(name.clone(), self.choices(name, self.seeds[0])?.section);
        }
        let mut settings = first.data.same_elsewhere();
        settings.split_file = None;
        let unwritable = |e: serde_json::Error| RunError::Settings(format!("plan: {e}"));
        let mut settings = serde_json::to_value(settings).map_err(unwritable)?;
        settings["sha256"] = json!(data.facts.sha256);
        Ok(json!({
            "format": FORMAT,
            "manifold": data.points.manifold().name(),
            "data": settings,
            "evaluate": serde_json::to_value(first.evaluate).map_err(unwritable)?,
            METHODS_KEY: methods,
            SPLITS_KEY: splits,
        }))
    }
}

/// The choices by method.
const METHODS_KEY: &str = "methods";
/// The hash of the split file by seed; null where the seed decides.
const SPLITS_KEY: &str = "splits";

fn first_repeated<T: PartialEq>(values: &[T]) -> Option<&T> {
    values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)).map(|(_, v)| v)
}

/// Two plans as one: methods and seeds of both, and an error where they differ otherwise.
pub(super) fn merged(path: &Path, before: &Json, now: &Json) -> Result<Json, RunError> {
    if let Some(key) = [METHODS_KEY, SPLITS_KEY].iter().find(|key| !before[**key].is_object()) {
        let problem = format!("it has no section {key}; choose another --out");
        return Err(RunError::Content { path: path.join(FILE), problem });
    }
    let (all, known) = (with_entries_of(now, before), with_entries_of(before, now));
    match first_difference("", &known, &all) {
        None => Ok(all),
        Some((key, before, now)) => {
            // The name of a method is enough to say whose setting it is.
            let key = key.strip_prefix("methods.").unwrap_or(&key).to_owned();
            let path = path.to_owned();
            let said = |value: &Json| match value {
                Json::Null => String::from("nothing"),
                value => value.to_string(),
            };
            let (before, now) = (said(before), said(now));
            Err(RunError::OtherPlan { path, key, before, now })
        }
    }
}

/// A plan with the methods and seeds of another one that it does not have itself.
fn with_entries_of(plan: &Json, other: &Json) -> Json {
    let mut all = plan.clone();
    for key in [METHODS_KEY, SPLITS_KEY] {
        for (name, value) in other[key].as_object().into_iter().flatten() {
            if plan[key].get(name).is_none() {
                all[key][name] = value.clone();
            }
        }
    }
    all
}

/// The place of the first difference, with what stands there in either.
fn first_difference<'a>(
    at: &str,
    a: &'a Json,
    b: &'a Json,
) -> Option<(String, &'a Json, &'a Json)> {
    let (Json::Object(one), Json::Object(other)) = (a, b) else {
        return (a != b).then(|| (at.to_owned(), a, b));
    };
    let mut keys: Vec<&String> = one.keys().chain(other.keys()).collect();
    keys.sort();
    keys.into_iter().find_map(|key| {
        let place = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
        first_difference(&place, &a[key.as_str()], &b[key.as_str()])
    })
}
