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
use crate::source::{DataArgs, load_points, write_points};

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
    let points = load_points(&args.data, &model.settings, model.manifold.as_ref())?;
    let rows = Rows::new(&points, model.manifold.ambient_dim())?;
    let log_p = model.density(SampleOptions::default())?.log_density(rows)?;
    let total = mean(&log_p.iter().map(|v| -v).collect::<Vec<_>>());
    let (extra, out) = ([("log_density", log_p.as_slice())], args.common.out.as_deref());
    if let Some(path) = out {
        write_points(&dir, &points, &extra, Some(path))?;
    }
    if output.json {
        let report = json!({ "n": total.n, "nll": total.value, "nll_se": total.se, "out": out });
        output.line(&report.to_string())?;
    } else if out.is_none() {
        write_points(&dir, &points, &extra, None)?;
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
