//! `manifusion data list` and `manifusion data describe`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use manifusion::data::{SYNTHETIC_NAMES, Synthetic};
use manifusion::manifold::parse;
use serde_json::json;

use crate::common::Common;
use crate::recipe::nearest_distances;
use crate::settings::Settings;
use crate::source::{DataArgs, Source};

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

pub(crate) fn run(args: &Args) -> Result<bool> {
    match &args.command {
        Command::List { common } => list(common),
        Command::Describe { data, common } => describe(data, common),
    }
}

fn list(common: &Common) -> Result<bool> {
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
        return Ok(true);
    }
    for (name, manifold) in sets {
        output.line(&format!("{name:<36} {manifold}"))?;
    }
    for file in files {
        output.line(&file)?;
    }
    Ok(true)
}

fn describe(data: &DataArgs, common: &Common) -> Result<bool> {
    let output = common.start()?;
    let mut settings = Settings { seed: common.seed.unwrap_or(0), ..Settings::default() };
    data.apply(&mut settings)?;
    let source = Source::load(&mut settings)?;
    let manifold = parse(settings.manifold.as_deref().unwrap_or_default())?;
    let distances = nearest_distances(manifold.as_ref(), source.points());
    let quantile = |share: f64| {
        let at = (share * distances.len() as f64) as usize;
        distances.get(at.min(distances.len().saturating_sub(1))).copied()
    };
    let report = json!({
        "data": settings.data.source,
        "manifold": manifold.name(),
        "rows": source.points().len() / manifold.ambient_dim(),
        "findings": source.findings(),
        "nearest_distance": {
            "q10": quantile(0.1), "median": quantile(0.5), "q90": quantile(0.9),
        },
    });
    if output.json {
        output.line(&report.to_string())?;
        return Ok(true);
    }
    output.line(&format!("{} rows on {}", report["rows"], manifold.name()))?;
    for finding in source.findings() {
        output.line(finding)?;
    }
    if let (Some(low), Some(middle), Some(high)) = (quantile(0.1), quantile(0.5), quantile(0.9)) {
        output.line(&format!(
            "distance to the nearest other place: 10 % below {low:.2e}, median {middle:.2e}, 90 % below {high:.2e}"
        ))?;
    }
    Ok(true)
}
