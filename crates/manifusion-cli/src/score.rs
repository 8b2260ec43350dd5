//! `manifusion score`: log-densities of the rows of a file under a trained model.

use std::path::PathBuf;

use anyhow::Result;
use manifusion::rows::Rows;
use manifusion::sample::SampleOptions;
use manifusion::stats::mean;
use serde_json::json;

use crate::common::Common;
use crate::model::TrainedModel;
use crate::run::RunDir;
use crate::source::{DataArgs, OtherRows};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder.
    dir: PathBuf,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let output = args.common.start()?;
    let dir = RunDir::open(&args.dir)?;
    let model = TrainedModel::load(&dir)?;
    let mut rows = OtherRows::load(&args.data, &dir, model.manifold.as_ref())?;
    let points = Rows::new(rows.points(), model.manifold.ambient_dim())?;
    let log_p = model.density(SampleOptions::default())?.log_density(points)?;
    let total = mean(&log_p.iter().map(|v| -v).collect::<Vec<_>>());
    let (column, out) = (("log_density", log_p.as_slice()), args.common.out.as_deref());
    if out.is_some() || !output.json {
        rows.write_with(&dir, column, out)?;
    }
    if output.json {
        let report = json!({ "n": total.n, "nll": total.value, "nll_se": total.se, "out": out });
        output.line(&report.to_string())?;
    }
    for note in &rows.notes {
        output.remark(note);
    }
    output.remark(&format!(
        "{} rows, mean NLL {:.4} ± {:.4} nats{}",
        total.n,
        total.value,
        total.se,
        out.map(|path| format!(", written to {}", path.display())).unwrap_or_default()
    ));
    Ok(true)
}
