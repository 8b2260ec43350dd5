//! The data of a run: read or generated, divided and described.

use std::path::Path;
use std::sync::Arc;

use manifusion::checkpoint::Arrays;
use manifusion::data::Synthetic;
use manifusion::error::SolveError;
use manifusion::manifold::{Family, Manifold, Metric, parse};
use manifusion::points::{DuplicateReport, Points, Split, SplitSettings, duplicates};
use manifusion_io::{Dataset, FileFormat, Form, Forms, LoadOptions, OutputForm, load};
use serde::{Deserialize, Serialize};

use crate::config::{Choices, DataSettings, file_name, synthetic_name};
use crate::error::RunError;
use crate::folder::{DATA, DATA_FACTS, RunDir, SPLIT};
use crate::split_file::read_split;

/// What a run knows about its data beside the points: `data.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DataFile {
    /// How outputs are written.
    pub output: OutputForm,
    /// Fingerprint of the file.
    pub sha256: Option<String>,
    /// Equal points.
    pub duplicates: DuplicateReport,
    /// Test points that also occur in training.
    pub test_in_train: usize,
    /// Their share of the test points.
    pub test_in_train_share: f64,
    /// What a user should know, in sentences.
    pub findings: Vec<String>,
}

/// A data set with its split.
#[derive(Debug)]
pub struct Data {
    /// All points.
    pub points: Points,
    /// Which are learned from, chosen by and judged on.
    pub split: Split,
    /// What is known beside them.
    pub facts: DataFile,
}

/// `split.json`: the split with its hash.
#[derive(Serialize, Deserialize)]
pub(crate) struct SplitFile {
    #[serde(flatten)]
    pub(crate) split: Split,
    pub(crate) hash: String,
}

impl Data {
    /// Reads or generates the data that choices name.
    pub fn load(choices: &Choices) -> Result<Self, RunError> {
        let Choices { seed, data: settings, .. } = choices;
        let (data, name) = read(settings, choices.manifold.as_deref(), *seed)?;
        let split = divide(&data.points, settings, *seed, &name)?;
        Ok(Self::described(data, split, settings.dedup, &name))
    }

    /// A data set with its split, and what a user should know of them.
    pub(crate) fn described(data: Dataset, split: Split, dedup: bool, name: &str) -> Self {
        let manifold = Arc::clone(data.points.manifold());
        let duplicates = duplicates(data.points.coordinates(), manifold.ambient_dim());
        let mut findings: Vec<String> = data.note.iter().map(|n| format!("{name}: {n}")).collect();
        findings.push(format!(
            "{} rows: {} for training, {} for validation, {} for test",
            split.rows,
            split.train.len(),
            split.validation.len(),
            split.test.len()
        ));
        if duplicates.repeated_rows > 0 {
            findings.push(format!(
                "{} rows repeat an earlier one exactly ({} distinct places, at most {} rows at one){}",
                duplicates.repeated_rows,
                duplicates.distinct,
                duplicates.most,
                if dedup { "; only the first of each is used" } else { "" }
            ));
        }
        if split.test_in_train > 0 {
            findings.push(format!(
                "{} of {} test points ({:.1} %) also occur in training: likelihoods reward remembering them; --dedup makes a clean split",
                split.test_in_train,
                split.test.len(),
                100.0 * split.test_in_train_share()
            ));
        }
        if data.largest_move > 1e-6 {
            findings.push(format!(
                "rows were moved by up to {:.1e} onto the manifold (rounded decimals)",
                data.largest_move
            ));
        }
        findings.extend(far_out(manifold.as_ref(), data.points.coordinates()));
        findings.extend(globe_on_torus(manifold.as_ref(), &data.output.names));
        let facts = DataFile {
            output: data.output,
            sha256: Some(data.sha256).filter(|hash| !hash.is_empty()),
            duplicates,
            test_in_train: split.test_in_train,
            test_in_train_share: split.test_in_train_share(),
            findings,
        };
        Self { points: data.points, split, facts }
    }

    /// Keeps points, split and findings in a run's folder, so that it needs the file no more.
    pub(crate) fn write(&self, dir: &RunDir) -> Result<(), RunError> {
        let mut data = Arrays::default();
        data.values.insert("width".into(), self.points.manifold().ambient_dim().into());
        data.arrays.insert("points".into(), self.points.coordinates().to_vec());
        let bytes =
            data.to_bytes().map_err(|source| RunError::Damaged { path: dir.file(DATA), source })?;
        dir.write(DATA, &bytes)?;
        let split = SplitFile { split: self.split.clone(), hash: self.split.hash() };
        let text =
            serde_json::to_string(&split).map_err(|e| dir.does_not_parse(SPLIT, &e.to_string()))?;
        dir.write(SPLIT, format!("{text}\n").as_bytes())?;
        dir.write_json(DATA_FACTS, &self.facts)
    }
}

/// Divides points as a split file says, or by shares.
fn divide(
    points: &Points,
    settings: &DataSettings,
    seed: u64,
    name: &str,
) -> Result<Split, RunError> {
    let failed = |name: &str| {
        let name = name.to_owned();
        |source| RunError::Split { name, source }
    };
    let DataSettings { split, dedup, group_by, .. } = settings;
    let Some(file) = &settings.split_file else {
        let settings = SplitSettings { fractions: *split, seed, dedup: *dedup };
        return Split::of(points, settings).map_err(failed(name));
    };
    if *dedup || group_by.is_some() {
        let other = if *dedup { "data.dedup" } else { "data.group_by" };
        return Err(RunError::Settings(format!(
            "a split file and {other} exclude each other: the file alone says which rows a part has"
        )));
    }
    let list = read_split(Path::new(file))?;
    Split::of_list(points, &list, seed).map_err(failed(file_name(file)))
}

/// A sentence about points too far out for Brownian motion of the hyperboloid's Euclidean metric:
/// coordinates grow like e^r, the prior's do not.
fn far_out(manifold: &dyn Manifold, points: &[f64]) -> Option<String> {
    const FAR: f64 = 2.5;
    let Family::Hyperboloid { curvature, metric: Metric::Euclidean, .. } = manifold.family() else {
        return None;
    };
    let root = (-curvature).sqrt();
    let mut radii: Vec<f64> = points
        .chunks_exact(manifold.ambient_dim())
        .map(|x| (root * x[1..].iter().map(|y| y * y).sum::<f64>().sqrt()).asinh())
        .collect();
    radii.sort_by(f64::total_cmp);
    let outer = *radii.get(radii.len() * 9 / 10)?;
    (outer > FAR).then(|| {
        format!(
            "a tenth of the points lie beyond distance {:.1} from the origin, too far for Brownian motion of the Euclidean metric (the preset paper) and its prior; --manifold {},metric=lorentz suits such data",
            outer / root,
            manifold.name()
        )
    })
}

/// A sentence about places on the globe that are taken for two angles: on a torus the poles are
/// circles, and areas are wrong.
fn globe_on_torus(manifold: &dyn Manifold, names: &[String]) -> Option<String> {
    let Family::Torus { dim: 2 } = manifold.family() else { return None };
    let starts = |name: &str, with: &str| name.trim().to_ascii_lowercase().starts_with(with);
    let [first, second] = names else { return None };
    let longitude = |name: &str| starts(name, "lon") || starts(name, "lng");
    let globe =
        starts(first, "lat") && longitude(second) || longitude(first) && starts(second, "lat");
    globe.then(|| {
        format!("columns {first}, {second} look like places on the globe, where a pole is one point; --manifold sphere:2 suits such data")
    })
}

/// The points that settings name, and the name for messages.
pub(crate) fn read(
    settings: &DataSettings,
    manifold: Option<&str>,
    seed: u64,
) -> Result<(Dataset, String), RunError> {
    let source = settings.source.clone().ok_or(RunError::NotGiven(
        "no data: give --data FILE, or --data synthetic:NAME (see 'manifusion data list')",
    ))?;
    if let Some(name) = synthetic_name(&source) {
        let mut set = Synthetic::new(name)?;
        if let Some(asked) = manifold {
            set = set.on(&parse(asked)?)?;
        }
        return Ok((generate(&set, settings.rows, seed)?, source));
    }
    let spec = manifold.ok_or(RunError::NotGiven(
        "no manifold: give --manifold SPEC, for example sphere:2 for places on the globe or torus:2 for two angles",
    ))?;
    let data = load(Path::new(&source), &parse(spec)?, &load_options(settings)?)?;
    Ok((data, file_name(&source).to_owned()))
}

/// A generated set as if it had been read from a file.
fn generate(set: &Synthetic, rows: usize, seed: u64) -> Result<Dataset, RunError> {
    const MAX_ROWS: usize = 50_000_000;
    if !(1..=MAX_ROWS).contains(&rows) {
        let problem = format!("data.rows = {rows} is not allowed; 1 to {MAX_ROWS}");
        return Err(RunError::Settings(problem));
    }
    let manifold = set.manifold();
    let form = Form::of(manifold.as_ref()).first().copied().unwrap_or(Form::Ambient);
    let drawn = set.sample(rows, seed).map_err(SolveError::at(0, 0.0))?;
    Ok(Dataset {
        points: Points::on(Arc::clone(manifold), drawn)?,
        lines: (1..=rows as u64).collect(),
        columns: vec![],
        output: OutputForm { form: Forms::single(form), names: vec![], format: FileFormat::Csv },
        note: None,
        largest_move: 0.0,
        sha256: String::new(),
    })
}

pub(crate) fn load_options(data: &DataSettings) -> Result<LoadOptions, RunError> {
    let condition = |text: &String| {
        let (column, value) = text.split_once('=').ok_or_else(|| {
            RunError::Settings(format!("'{text}' is not of the form COLUMN=VALUE"))
        })?;
        Ok::<_, RunError>((column.trim().to_owned(), value.trim().to_owned()))
    };
    let filter = data.filter.as_ref().map(condition).transpose()?;
    Ok(LoadOptions {
        form: data.form.as_deref().map(str::parse).transpose()?,
        columns: data.columns.clone(),
        group_by: data.group_by.clone(),
        filter,
    })
}
