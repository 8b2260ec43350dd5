//! Points from a file or a generator, split and described.

use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use manifusion::checkpoint::Arrays;
use manifusion::data::Synthetic;
use manifusion::manifold::{Family, Manifold, Metric, parse};
use manifusion_io::{
    Column, DataError, Dataset, DuplicateReport, FileFormat, Form, Forms, IoError, LoadOptions,
    OutputForm, Split, SplitSettings, Values, duplicates, load, point_columns, read_as_written,
    read_table, save, table_to_bytes, write_table,
};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::run::{RunDir, geometry};
use crate::settings::{Settings, file_name};

/// A part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Part {
    Train,
    Validation,
    Test,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Test => "test",
        })
    }
}

/// Flags that name data.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DataArgs {
    /// A CSV, TSV, Parquet or .npy file, or synthetic:NAME (see 'manifusion data list').
    #[arg(long, value_name = "FILE")]
    data: Option<String>,
    /// The manifold, for example sphere:2, torus:7, so:3, hyperbolic:2, sphere:2*torus:1.
    #[arg(long, value_name = "SPEC")]
    manifold: Option<String>,
    /// How columns give points: latlon, angles-deg, quaternion, …; guessed where it is clear.
    #[arg(long = "as", value_name = "FORM")]
    form: Option<String>,
    /// Columns to use, by name or number.
    #[arg(long, value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Only rows with this value in this column.
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    filter: Option<String>,
    /// Rows of a generated set.
    #[arg(long)]
    rows: Option<usize>,
}

impl DataArgs {
    /// Overrides what a configuration says; an error if that makes no sense.
    pub(crate) fn apply(&self, settings: &mut Settings) -> Result<()> {
        let put = |from: &Option<String>, to: &mut Option<String>| {
            if from.is_some() {
                to.clone_from(from);
            }
        };
        put(&self.data, &mut settings.data.source);
        put(&self.manifold, &mut settings.manifold);
        put(&self.form, &mut settings.data.form);
        put(&self.filter, &mut settings.data.filter);
        if self.columns.is_some() {
            settings.data.columns.clone_from(&self.columns);
        }
        let source = settings.data.source.as_deref();
        if self.rows.is_some() && source.is_some_and(|source| synthetic_name(source).is_none()) {
            bail!("--rows is for generated sets; a file is read as a whole");
        }
        settings.data.rows = self.rows.unwrap_or(settings.data.rows);
        Ok(())
    }
}

/// `NAME` of `synthetic:NAME`.
pub(crate) fn synthetic_name(source: &str) -> Option<&str> {
    source.strip_prefix("synthetic:")
}

/// The rows of one part.
pub(crate) fn indices(split: &Split, part: Part) -> &[usize] {
    match part {
        Part::Train => &split.train,
        Part::Validation => &split.validation,
        Part::Test => &split.test,
    }
}

/// What a run knows about its data beside the points: `data.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DataFile {
    /// How outputs are written.
    pub(crate) output: OutputForm,
    pub(crate) sha256: Option<String>,
    pub(crate) duplicates: DuplicateReport,
    pub(crate) test_in_train: usize,
    pub(crate) test_in_train_share: f64,
    /// What a user should know, in sentences.
    pub(crate) findings: Vec<String>,
}

/// A data set with its split.
pub(crate) struct Source {
    points: Vec<f64>,
    split: Split,
    file: DataFile,
}

impl Source {
    /// Reads or generates the data of a run. A generated set brings its manifold.
    pub(crate) fn load(settings: &mut Settings) -> Result<Self> {
        let (data, name) = read(settings)?;
        let duplicates = duplicates(&data.points, data.width);
        let split_settings = SplitSettings {
            fractions: settings.data.split,
            seed: settings.seed,
            dedup: settings.data.dedup,
        };
        let split = Split::of(&data, split_settings).with_context(|| name.clone())?;
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
                if settings.data.dedup { "; only the first of each is used" } else { "" }
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
        if let Some(spec) = &settings.manifold {
            let manifold = parse(spec)?;
            findings.extend(far_out(manifold.as_ref(), &data.points));
            findings.extend(globe_on_torus(manifold.as_ref(), &data.output.names));
        }
        let file = DataFile {
            output: data.output,
            sha256: Some(data.sha256).filter(|hash| !hash.is_empty()),
            duplicates,
            test_in_train: split.test_in_train,
            test_in_train_share: split.test_in_train_share(),
            findings,
        };
        Ok(Self { points: data.points, split, file })
    }

    pub(crate) fn points(&self) -> &[f64] {
        &self.points
    }

    pub(crate) fn findings(&self) -> &[String] {
        &self.file.findings
    }

    /// The points of one part, rows of `m` numbers.
    pub(crate) fn part(&self, part: Part, m: usize) -> Vec<f64> {
        let row = |i: &usize| self.points[i * m..(i + 1) * m].iter().copied();
        indices(&self.split, part).iter().flat_map(row).collect()
    }

    /// Keeps points, split and findings in a run's folder, so that it needs the file no more.
    pub(crate) fn write(&self, dir: &RunDir, m: usize) -> Result<()> {
        let mut data = Arrays::default();
        data.values.insert("width".into(), m.into());
        data.arrays.insert("points".into(), self.points.clone());
        data.write(&dir.file("data.safetensors")).context("writing the data")?;
        let mut split = serde_json::to_value(&self.split)?;
        split["hash"] = json!(self.split.hash());
        dir.write("split.json", &format!("{split}\n"))?;
        dir.write_json("data.json", &serde_json::to_value(&self.file)?)
    }
}

/// A sentence about points too far out for the Euclidean metric of the hyperboloid: coordinates grow like e^r, the prior's do not.
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
            "a tenth of the points lie beyond distance {:.1} from the origin, too far for the Euclidean metric and its prior; --manifold {},metric=lorentz suits such data",
            outer / root,
            manifold.name()
        )
    })
}

/// A sentence about places on the globe that are taken for two angles: on a torus the poles are circles, and areas are wrong.
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
fn read(settings: &mut Settings) -> Result<(Dataset, String)> {
    let source = settings.data.source.clone().context(
        "no data: give --data FILE, or --data synthetic:NAME (see 'manifusion data list')",
    )?;
    if let Some(name) = synthetic_name(&source) {
        let mut set = Synthetic::new(name)?;
        if let Some(asked) = &settings.manifold {
            set = set.on(&parse(asked)?)?;
        }
        settings.manifold = Some(set.manifold().name());
        return Ok((generate(&set, settings)?, source));
    }
    let spec = settings.manifold.as_deref().context(
        "no manifold: give --manifold SPEC, for example sphere:2 for places on the globe or torus:2 for two angles",
    )?;
    let manifold = parse(spec)?;
    let data = load(Path::new(&source), manifold.as_ref(), &load_options(settings)?)?;
    Ok((data, file_name(&source).to_owned()))
}

/// A generated set as if it had been read from a file.
fn generate(set: &Synthetic, settings: &Settings) -> Result<Dataset> {
    const MAX_ROWS: usize = 50_000_000;
    let rows = settings.data.rows;
    if !(1..=MAX_ROWS).contains(&rows) {
        bail!("data.rows = {rows} is not allowed; 1 to {MAX_ROWS}");
    }
    let manifold = set.manifold().as_ref();
    let form = Form::of(manifold).first().copied().unwrap_or(Form::Ambient);
    Ok(Dataset {
        points: set.sample(rows, settings.seed)?,
        width: manifold.ambient_dim(),
        lines: (1..=rows as u64).collect(),
        columns: vec![],
        groups: None,
        output: OutputForm { form: Forms::single(form), names: vec![], format: FileFormat::Csv },
        note: None,
        largest_move: 0.0,
        sha256: String::new(),
    })
}

fn load_options(settings: &Settings) -> Result<LoadOptions> {
    let data = &settings.data;
    let filter = match &data.filter {
        None => None,
        Some(text) => match text.split_once('=') {
            Some((column, value)) => Some((column.trim().to_owned(), value.trim().to_owned())),
            None => bail!("'{text}' is not of the form COLUMN=VALUE"),
        },
    };
    Ok(LoadOptions {
        form: data.form.as_deref().map(str::parse).transpose()?,
        columns: data.columns.clone(),
        group_by: data.group_by.clone(),
        filter,
    })
}

/// Rows of another file for a trained model.
pub(crate) struct OtherRows {
    data: Dataset,
    /// Where all of a row's columns can be read again; none for a generated set or a pipe.
    file: Option<PathBuf>,
    /// What a user should know, in sentences.
    pub(crate) notes: Vec<String>,
}

impl OtherRows {
    /// Reads the rows. Columns are the run's unless others are given; where the file does not tell its form, it is that of the run's data.
    pub(crate) fn load(args: &DataArgs, dir: &RunDir, manifold: &dyn Manifold) -> Result<Self> {
        let Some(source) = &args.data else { bail!("no data: give --data FILE") };
        let mut settings = dir.settings()?;
        (settings.data.group_by, settings.data.filter) = (None, None);
        args.apply(&mut settings)?;
        let mut notes = Vec::new();
        let (data, name) = match read(&mut settings) {
            Err(error) if settings.data.form.is_none() && is_untold(&error) => {
                let form = output_form(dir)?.form.to_string();
                let note = format!("{} read as {form}, like the training data", file_name(source));
                settings.data.form = Some(form);
                // Where that does not help either, what was unclear is the better message.
                let read = read(&mut settings).map_err(|_| error)?;
                notes.push(note);
                read
            }
            read => read?,
        };
        if data.width != manifold.ambient_dim() {
            bail!(
                "{name} has points of {} coordinates, the model needs {}",
                data.width,
                manifold.ambient_dim()
            );
        }
        let file = Some(PathBuf::from(source)).filter(|path| path.is_file());
        if file.is_none() && synthetic_name(source).is_none() {
            notes.push(format!(
                "{name} can be read only once: of its columns only the coordinates are written"
            ));
        }
        Ok(Self { data, file, notes })
    }

    pub(crate) fn points(&self) -> &[f64] {
        &self.data.points
    }

    /// Writes the rows with one more column: to a file, or as CSV to standard output. Rows of a file keep all their columns, in text as
    /// they are written there; a NumPy file, which has numbers only, gets the coordinates.
    pub(crate) fn write_with(
        &mut self,
        dir: &RunDir,
        (name, values): (&str, &[f64]),
        path: Option<&Path>,
    ) -> Result<()> {
        let format = path.map_or(Ok(FileFormat::Csv), FileFormat::from_extension)?;
        let table = match (&self.file, format) {
            (None, _) | (_, FileFormat::Npy) => {
                return write_points(dir, &self.data.points, &[(name, values)], path);
            }
            (Some(file), FileFormat::Parquet) => read_table(file),
            (Some(file), FileFormat::Csv | FileFormat::Tsv) => read_as_written(file),
        };
        let mut table = table?;
        table.keep_lines(&self.data.lines);
        if !table.has_header {
            let (manifold, _) = geometry(&dir.settings()?)?;
            let usual = point_columns(&[], manifold.as_ref(), &self.data.output)?;
            for (column, usual) in self.data.columns.iter().zip(usual) {
                table.columns[*column].name = usual.name;
            }
        }
        let notes = &mut self.notes;
        table.columns.retain(|column| {
            let unread = matches!(column.values, Values::Unread(_));
            if unread {
                notes.push(format!(
                    "column '{}' is of a type that is not read: left out",
                    column.name
                ));
            } else if column.name == name {
                notes.push(format!("the file's own column '{name}' is replaced"));
            }
            !unread && column.name != name
        });
        table.columns.push(Column::numbers(name, values.to_vec()));
        match path {
            Some(path) => Ok(write_table(path, &table.columns)?),
            None => print_csv(&table.columns),
        }
    }
}

/// Whether a file could not be read because nothing says its form.
fn is_untold(error: &anyhow::Error) -> bool {
    let unclear =
        |p: &DataError| matches!(p, DataError::NoForm { .. } | DataError::Ambiguous { .. });
    matches!(error.downcast_ref(), Some(IoError::Data { problem, .. }) if unclear(problem))
}

/// How the run's data were written.
fn output_form(dir: &RunDir) -> Result<OutputForm> {
    let file: DataFile = serde_json::from_value(dir.json("data.json")?)
        .with_context(|| format!("{} does not parse", dir.file("data.json").display()))?;
    Ok(file.output)
}

/// Writes points in the form of the run's data, with more columns beside them: to a file, or as CSV to standard output.
pub(crate) fn write_points(
    dir: &RunDir,
    points: &[f64],
    extra: &[(&str, &[f64])],
    path: Option<&Path>,
) -> Result<()> {
    let (manifold, _) = geometry(&dir.settings()?)?;
    let output = output_form(dir)?;
    let extra: Vec<Column> =
        extra.iter().map(|(name, values)| Column::numbers(*name, values.to_vec())).collect();
    if let Some(path) = path {
        return Ok(save(path, points, manifold.as_ref(), &output, &extra)?);
    }
    let mut columns = point_columns(points, manifold.as_ref(), &output)?;
    columns.extend(extra);
    print_csv(&columns)
}

fn print_csv(columns: &[Column]) -> Result<()> {
    Ok(std::io::stdout().write_all(&table_to_bytes(columns, FileFormat::Csv)?)?)
}
