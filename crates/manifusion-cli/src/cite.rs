//! `manifusion cite`: the publications behind a run.

use std::path::PathBuf;

use anyhow::Result;
use manifusion_run::{StoredRun, references};
use serde_json::{Map, Value, json};

use crate::common::{Common, End};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder.
    dir: PathBuf,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> Result<End> {
    let output = args.common.start()?;
    let found = references(&StoredRun::open(&args.dir)?)?;
    if output.json {
        let entry = |r: &manifusion::methods::Reference| (r.key.to_owned(), json!(r.bibtex));
        let entries: Map<String, Value> = found.iter().map(entry).collect();
        output.line(&Value::Object(entries).to_string())?;
        return Ok(End::Done);
    }
    let entries: Vec<&str> = found.iter().map(|reference| reference.bibtex).collect();
    output.line(&entries.join("\n\n"))?;
    Ok(End::Done)
}
