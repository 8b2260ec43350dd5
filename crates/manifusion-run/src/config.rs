//! One TOML per run: what a user chooses, and, once resolved, everything that the run depends on.

use manifusion::evaluation::EvaluationOptions;
use manifusion::fit::Request;
use manifusion::hash::sha256_hex;
use manifusion::methods::{METHODS, Method, method};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use crate::error::RunError;

/// The version of the file; a later one is refused.
pub const FORMAT: u32 = 4;

/// Where the points come from and how they are split, as the user says it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataSettings {
    /// A file, or `synthetic:NAME`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The form of its columns, where it is not guessed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The columns, where they are not found by their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub columns: Option<Vec<String>>,
    /// Only rows with this value in this column: COLUMN=VALUE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// Rows with the same value in this column stay together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_by: Option<String>,
    /// Whether only the first of equal rows is kept.
    pub dedup: bool,
    /// Shares of training, validation and test.
    pub split: [f64; 3],
    /// A file that says which rows each part has, instead of the shares: columns `row` and `part`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split_file: Option<String>,
    /// Rows that a generated set gets.
    pub rows: usize,
}

impl Default for DataSettings {
    fn default() -> Self {
        Self {
            source: None,
            form: None,
            columns: None,
            filter: None,
            group_by: None,
            dedup: false,
            split: [0.8, 0.1, 0.1],
            split_file: None,
            rows: 20_000,
        }
    }
}

impl DataSettings {
    /// The same without the places of files, which are others on another machine.
    pub(crate) fn same_elsewhere(&self) -> Self {
        let name = |path: &String| file_name(path).to_owned();
        let (source, split_file) =
            (self.source.as_ref().map(name), self.split_file.as_ref().map(name));
        Self { source, split_file, ..self.clone() }
    }
}

/// What a user has written so far: a file, then changes on top of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    table: toml::Table,
    /// Places and values, in order; none leaves a setting open.
    changes: Vec<(String, Option<toml::Value>)>,
}

/// A user's choices, each in its place; what is open in a method's section is chosen from the data.
#[derive(Clone, Debug, PartialEq)]
pub struct Choices {
    /// The name of the method.
    pub method: String,
    /// The manifold's string form; a generated set has its own.
    pub manifold: Option<String>,
    /// Seed of everything random.
    pub seed: u64,
    /// The data.
    pub data: DataSettings,
    /// How the run is judged.
    pub evaluate: EvaluationOptions,
    /// The section of the method.
    pub section: Json,
    /// What a user should know, in sentences.
    pub remarks: Vec<String>,
}

/// A whole run, nothing left open: `config.toml` of its folder.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSettings {
    /// The name of the method.
    pub method: String,
    /// The manifold's string form.
    pub manifold: String,
    /// Seed of everything random.
    pub seed: u64,
    /// The data.
    pub data: DataSettings,
    /// How the run is judged.
    pub evaluate: EvaluationOptions,
    /// The section of the method.
    pub section: Json,
}

/// The part of a configuration that does not depend on the method.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Common {
    format: u32,
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifold: Option<String>,
    seed: u64,
    data: DataSettings,
    evaluate: EvaluationOptions,
}

impl Default for Common {
    fn default() -> Self {
        Self {
            format: FORMAT,
            method: METHODS[0].info().name.to_owned(),
            manifold: None,
            seed: 0,
            data: DataSettings::default(),
            evaluate: EvaluationOptions::default(),
        }
    }
}

/// Settings that had another name in format 1, with the method that they belong to.
const RENAMED: [(&str, &str, &str); 1] = [("model.local_weights", "kernel", "local_weights")];

impl Config {
    /// From a TOML text.
    pub fn parse(text: &str) -> Result<Self, RunError> {
        let table: toml::Table = text.parse().map_err(|e| one_line(&e))?;
        Ok(Self { table, changes: Vec::new() })
    }

    /// Changes one setting, `key.path=value`; a value that is no TOML is taken as a string. A key
    /// may leave out the name of the chosen method: `train.batch` is `rdm.train.batch` in a run of
    /// `rdm`.
    pub fn set(&mut self, change: &str) -> Result<(), RunError> {
        let Some((path, value)) = change.split_once('=') else {
            return Err(RunError::Settings(format!(
                "'{change}' is not of the form key=value, for example train.batch=256"
            )));
        };
        let parsed: Result<toml::Table, _> = format!("value = {value}").parse();
        let value = match parsed {
            Ok(mut parsed) => parsed.remove("value").unwrap_or(toml::Value::Boolean(false)),
            Err(_) => toml::Value::String(value.to_owned()),
        };
        self.put(path.trim(), value);
        Ok(())
    }

    /// Changes one setting to a value.
    pub fn put(&mut self, path: &str, value: impl Into<toml::Value>) {
        self.changes.push((path.to_owned(), Some(value.into())));
    }

    /// Leaves one setting open.
    pub fn leave_open(&mut self, path: &str) {
        self.changes.push((path.to_owned(), None));
    }

    /// The first key of every setting that was changed to a value, with its whole place.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (&str, &str)> {
        let set = self.changes.iter().filter(|(_, value)| value.is_some());
        set.map(|(path, _)| (path.split('.').next().unwrap_or(path), path.as_str()))
    }

    /// The choices, each in its place.
    pub fn choices(self) -> Result<Choices, RunError> {
        let Self { mut table, changes } = self;
        let found = table.get("format").and_then(toml::Value::as_integer);
        let format = found.unwrap_or(i64::from(FORMAT));
        if let Some(found) = found
            && found > i64::from(FORMAT)
        {
            return Err(RunError::Settings(format!(
                "the configuration has format {found}, this program reads up to {FORMAT}; update it"
            )));
        }
        let named = changes.iter().rev().find(|(path, _)| path == "method");
        let named = named.map_or(table.get("method"), |(_, value)| value.as_ref());
        let chosen = match named.and_then(toml::Value::as_str) {
            Some(name) => method(name)?,
            None => METHODS[0],
        };
        let mut remarks = Vec::new();
        gather(&mut table, chosen, &mut remarks)?;
        for (path, value) in changes {
            match value {
                Some(value) => {
                    if let Some(place) = place(&path, chosen, &mut remarks)? {
                        insert(&mut table, &place, value)?;
                    }
                }
                // What another method has is open here anyway.
                None => {
                    if let Some(place) = place(&path, chosen, &mut Vec::new())? {
                        remove(&mut table, &place);
                    }
                }
            }
        }
        let name = chosen.info().name;
        let mut section = match table.remove(name) {
            None => Json::Object(Map::new()),
            Some(section) => {
                check_finite(name, &section)?;
                serde_json::to_value(section)
                    .map_err(|e| RunError::Settings(format!("configuration: {e}")))?
            }
        };
        if format < 2 {
            from_format_1(&mut section);
        }
        if format < 3 {
            from_format_2(&mut section)?;
        }
        if format < 4 {
            from_format_3(&mut section);
        }
        // Sections of other methods are theirs.
        for method in METHODS {
            table.remove(method.info().name);
        }
        let common: Common = toml::Value::Table(table).try_into().map_err(|e| one_line(&e))?;
        chosen.check(&section)?;
        let Common { method, manifold, seed, data, evaluate, .. } = common;
        Ok(Choices { method, manifold, seed, data, evaluate, section, remarks })
    }
}

/// An error for a number that is NaN or infinite: no setting of a method can be.
fn check_finite(path: &str, value: &toml::Value) -> Result<(), RunError> {
    match value {
        toml::Value::Float(number) if !number.is_finite() => {
            Err(RunError::Settings(format!("{path} = {number} is not allowed; a finite number")))
        }
        toml::Value::Array(values) => values.iter().try_for_each(|value| check_finite(path, value)),
        toml::Value::Table(table) => {
            table.iter().try_for_each(|(key, value)| check_finite(&format!("{path}.{key}"), value))
        }
        _ => Ok(()),
    }
}

/// Moves keys without a method's name into the section of the chosen method, where the longer form
/// has precedence.
fn gather(
    table: &mut toml::Table,
    chosen: &dyn Method,
    remarks: &mut Vec<String>,
) -> Result<(), RunError> {
    let short: Vec<String> = table
        .keys()
        .filter(|key| METHODS.iter().any(|method| method.info().knows(key)))
        .cloned()
        .collect();
    for key in short {
        let Some(value) = table.remove(&key) else { continue };
        let entries: Vec<(String, toml::Value)> = match value {
            toml::Value::Table(inner) => {
                inner.into_iter().map(|(name, value)| (format!("{key}.{name}"), value)).collect()
            }
            value => vec![(key, value)],
        };
        for (path, value) in entries {
            if let Some(place) = place(&path, chosen, remarks)?
                && !has(table, &place)
            {
                insert(table, &place, value)?;
            }
        }
    }
    Ok(())
}

/// Where a setting stands: a key without a method's name belongs to the chosen one. None, with a
/// remark, for a setting of another method.
fn place(
    path: &str,
    chosen: &dyn Method,
    remarks: &mut Vec<String>,
) -> Result<Option<String>, RunError> {
    let info = chosen.info();
    if let Some((_, owner, renamed)) = RENAMED.iter().find(|(old, ..)| *old == path) {
        if *owner == info.name {
            return Ok(Some(format!("{owner}.{renamed}")));
        }
        let problem =
            format!("{path} is a setting of --method {owner}, not of --method {}", info.name);
        return Err(RunError::Settings(problem));
    }
    let first = path.split('.').next().unwrap_or(path);
    if info.knows(first) {
        return Ok(Some(format!("{}.{path}", info.name)));
    }
    if METHODS.iter().any(|method| method.info().knows(first)) {
        remarks.push(format!("{path} is no setting of method {} and has no effect", info.name));
        return Ok(None);
    }
    Ok(Some(path.to_owned()))
}

/// Puts a value at a path of keys.
fn insert(table: &mut toml::Table, path: &str, value: toml::Value) -> Result<(), RunError> {
    let mut keys: Vec<&str> = path.split('.').collect();
    let last = keys.pop().unwrap_or_default();
    let mut at = table;
    for key in keys {
        let entry = at.entry(key).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        let toml::Value::Table(inner) = entry else {
            let problem = format!("'{path}': '{key}' is a value, not a section");
            return Err(RunError::Settings(problem));
        };
        at = inner;
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

/// Whether something stands at a path of keys.
fn has(table: &toml::Table, path: &str) -> bool {
    match path.split_once('.') {
        None => table.contains_key(path),
        Some((key, rest)) => {
            table.get(key).and_then(toml::Value::as_table).is_some_and(|t| has(t, rest))
        }
    }
}

/// Removes what stands at a path of keys.
fn remove(table: &mut toml::Table, path: &str) {
    match path.split_once('.') {
        None => {
            table.remove(path);
        }
        Some((key, rest)) => {
            if let Some(toml::Value::Table(inner)) = table.get_mut(key) {
                remove(inner, rest);
            }
        }
    }
}

/// The last part of a path.
pub fn file_name(source: &str) -> &str {
    source.rsplit(['/', '\\']).next().unwrap_or(source)
}

/// `NAME` of `synthetic:NAME`.
pub fn synthetic_name(source: &str) -> Option<&str> {
    source.strip_prefix("synthetic:")
}

#[expect(clippy::needless_pass_by_value, reason = "what map_err gives")]
fn unwritable(error: toml::ser::Error) -> RunError {
    RunError::Settings(format!("configuration: {error}"))
}

/// The parser's message without its drawing of the line.
fn one_line(error: &toml::de::Error) -> RunError {
    RunError::Settings(format!("configuration: {}", error.message().replace('\n', " ")))
}

impl Choices {
    /// What the front door takes.
    pub fn request(&self) -> Request {
        Request::named(&self.method, self.section.clone())
    }
}

impl RunSettings {
    /// From the text of a run's `config.toml`, of this format or an earlier one.
    pub fn parse(text: &str) -> Result<Self, RunError> {
        let mut config = Config::parse(text)?;
        config.table.entry("format").or_insert(toml::Value::Integer(1));
        let Choices { method, manifold, seed, data, evaluate, section, .. } = config.choices()?;
        let manifold =
            manifold.ok_or(RunError::NotGiven("the run's configuration has no manifold"))?;
        Ok(Self { method, manifold, seed, data, evaluate, section })
    }

    /// As a TOML text.
    pub fn to_toml(&self) -> Result<String, RunError> {
        toml::to_string(&self.to_table()?).map_err(unwritable)
    }

    /// As JSON, in the form of the TOML.
    pub fn to_json(&self) -> Result<Json, RunError> {
        serde_json::to_value(self.to_table()?)
            .map_err(|e| RunError::Settings(format!("configuration: {e}")))
    }

    fn to_table(&self) -> Result<toml::Table, RunError> {
        let Self { method, manifold, seed, data, evaluate, section } = self.clone();
        let common =
            Common { format: FORMAT, method, manifold: Some(manifold), seed, data, evaluate };
        let mut table = toml::Table::try_from(common).map_err(unwritable)?;
        let section = toml::Value::try_from(section).map_err(unwritable)?;
        table.insert(self.method.clone(), section);
        Ok(table)
    }

    /// A hash of everything but the places of the data's files, in hex.
    pub fn hash(&self) -> Result<String, RunError> {
        let mut same_elsewhere = self.clone();
        same_elsewhere.data = self.data.same_elsewhere();
        Ok(sha256_hex(same_elsewhere.to_toml()?.as_bytes()))
    }

    /// The method of the run.
    pub fn method(&self) -> Result<&'static dyn Method, RunError> {
        Ok(method(&self.method)?)
    }
}

/// Networks of format 3 were trained by Adam, those of a stack with the same smoothing.
fn from_format_3(section: &mut Json) {
    if section.get("members").is_some() && section.get("smoothing_ratio").is_none() {
        section["smoothing_ratio"] = json!(1.0);
    }
    let Some(train) = section.get_mut("train") else { return };
    // Only networks have an average of their weights.
    if train.get("ema").is_some() && train.get("optimiser").is_none() {
        train["optimiser"] = json!("adam");
    }
}

/// Runs of format 2 had neither smoothing nor grids, and networks that could be added to a
/// mixture's score.
fn from_format_2(section: &mut Json) -> Result<(), RunError> {
    if section.get("train").and_then(|train| train.get("steps")).is_some() {
        section["train"]["smoothing"] = json!(0.0);
        for (name, value) in
            [("grid_levels", json!(0)), ("grid_max", json!(1.0)), ("grid_entries", json!(16))]
        {
            section["net"][name] = value;
        }
    }
    let Some(Json::Object(model)) = section.get_mut("model") else { return Ok(()) };
    model.remove("s_from");
    match model.remove("guide") {
        Some(guide) if guide == "kernel" => Err(RunError::Settings(String::from(
            "the run is of version 0.1, its network guided by a kernel mixture, which later versions \
             have no more; train again without --guide, or read it with version 0.1",
        ))),
        _ => Ok(()),
    }
}

/// What runs of format 1 did without a setting for it. One whose steps were not planned yet stays
/// open.
fn from_format_1(section: &mut Json) {
    let Some(train) = section.get_mut("train") else { return };
    let Some(steps) = train.get("steps").and_then(Json::as_u64) else { return };
    for (name, value) in [
        ("partitions", json!(2)),
        ("minutes", json!(0.0)),
        ("warmup", json!((steps / 50).min(500))),
    ] {
        if train.get(name).is_none() {
            train[name] = value;
        }
    }
}
