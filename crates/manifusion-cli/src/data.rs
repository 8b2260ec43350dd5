//! `manifusion data list` and `manifusion data describe`, and the flags that name data.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use manifusion::data::{SYNTHETIC_NAMES, Synthetic};
use manifusion::mixture::nearest_distances;
use manifusion_run::{Choices, Config, Data, synthetic_name};
use serde_json::json;

use crate::common::{Common, End};

/// Flags that name data.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DataArgs {
    /// A CSV, TSV, Parquet or .npy file, or synthetic:NAME (see 'manifusion data list').
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<String>,
    /// The manifold, for example sphere:2, torus:7, so:3, hyperbolic:2, sphere:2*torus:1.
    #[arg(long, value_name = "SPEC")]
    pub(crate) manifold: Option<String>,
    /// How columns give points: latlon, angles-deg, quaternion, …; guessed where it is clear.
    #[arg(long = "as", value_name = "FORM")]
    pub(crate) form: Option<String>,
    /// Columns to use, by name or number.
    #[arg(long, value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// Only rows with this value in this column.
    #[arg(long = "where", value_name = "COLUMN=VALUE")]
    pub(crate) filter: Option<String>,
    /// Rows of a generated set.
    #[arg(long)]
    pub(crate) rows: Option<usize>,
}

impl DataArgs {
    /// Overrides what a configuration says.
    pub(crate) fn apply(&self, config: &mut Config) {
        for (path, value) in [
            ("data.source", &self.data),
            ("manifold", &self.manifold),
            ("data.form", &self.form),
            ("data.filter", &self.filter),
        ] {
            if let Some(value) = value {
                config.put(path, value.as_str());
            }
        }
        if let Some(columns) = &self.columns {
            config.put("data.columns", columns.clone());
        }
        if let Some(rows) = self.rows {
            config.put("data.rows", rows as i64);
        }
    }

    /// An error for flags that make no sense for this source of data.
    pub(crate) fn check(&self, source: Option<&str>) -> Result<()> {
        if self.rows.is_some() && source.is_some_and(|source| synthetic_name(source).is_none()) {
            bail!("--rows is for generated sets; a file is read as a whole");
        }
        Ok(())
    }
}

/// Flags that say how data are divided.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DivisionArgs {
    /// Drop repeated rows before splitting.
    #[arg(long)]
    dedup: bool,
    /// Keep rows with the same value in this column in one part of the split.
    #[arg(long, value_name = "COLUMN")]
    group_by: Option<String>,
}

impl DivisionArgs {
    /// Overrides what a configuration says.
    pub(crate) fn apply(&self, config: &mut Config) {
        if self.dedup {
            config.put("data.dedup", true);
        }
        if let Some(column) = &self.group_by {
            config.put("data.group_by", column.as_str());
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Generated sets, and the files of the data folder (MANIFUSION_DATA).
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Rows, repeats and length scales of a data set on a manifold.
    Describe {
        #[command(flatten)]
        data: DataArgs,
        #[command(flatten)]
        common: Common,
    },
}

pub(crate) fn run(args: &Args) -> Result<End> {
    match &args.command {
        Command::List { common } => list(common),
        Command::Describe { data, common } => describe(data, common),
    }
}

fn list(common: &Common) -> Result<End> {
    let output = common.start()?;
    let mut sets = Vec::new();
    for name in SYNTHETIC_NAMES {
        sets.push((format!("synthetic:{name}"), Synthetic::new(name)?.manifold().name()));
    }
    let mut files = Vec::new();
    if let Some(folder) = std::env::var_os("MANIFUSION_DATA").map(PathBuf::from) {
        let entries = std::fs::read_dir(&folder)
            .with_context(|| format!("MANIFUSION_DATA: reading {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if manifusion_io::FileFormat::from_extension(&path).is_ok() {
                files.push(path.display().to_string());
            }
        }
        files.sort();
    }
    if output.json {
        let sets: Vec<_> = sets.iter().map(|(n, m)| json!({ "name": n, "manifold": m })).collect();
        output.line(&json!({ "generated": sets, "files": files }).to_string())?;
        return Ok(End::Done);
    }
    for (name, manifold) in sets {
        output.line(&format!("{name:<36} {manifold}"))?;
    }
    for file in files {
        output.line(&file)?;
    }
    Ok(End::Done)
}

/// Places whose nearest neighbour is looked for.
const DISTANCES: usize = 1000;

fn describe(data: &DataArgs, common: &Common) -> Result<End> {
    let output = common.start()?;
    let mut config = Config::default();
    data.apply(&mut config);
    if let Some(seed) = common.seed {
        config.put("seed", i64::try_from(seed)?);
    }
    let choices: Choices = config.choices()?;
    data.check(choices.data.source.as_deref())?;
    let found = output.watch.stage("reading", || Data::load(&choices))?;
    let (points, findings) = (&found.points, &found.facts.findings);
    let manifold = points.manifold().name();
    let distances = output.watch.stage("distances", || nearest_distances(points.rows(), DISTANCES));
    let quantile = |share: f64| {
        let at = (share * distances.len() as f64) as usize;
        distances.get(at.min(distances.len().saturating_sub(1))).copied()
    };
    let (low, middle, high) = (quantile(0.1), quantile(0.5), quantile(0.9));
    if output.json {
        let report = json!({
            "data": choices.data.source,
            "manifold": manifold,
            "rows": points.len(),
            "findings": findings,
            "nearest_distance": { "q10": low, "median": middle, "q90": high },
        });
        output.line(&report.to_string())?;
        return Ok(End::Done);
    }
    output.line(&format!("{} rows on {manifold}", points.len()))?;
    for finding in findings {
        output.line(finding)?;
    }
    if let (Some(low), Some(middle), Some(high)) = (low, middle, high) {
        output.line(&format!(
            "distance to the nearest other place: 10 % below {low:.2e}, median {middle:.2e}, \
             90 % below {high:.2e}"
        ))?;
    }
    Ok(End::Done)
}
