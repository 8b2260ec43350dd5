//! `manifusion score`: log-densities of the rows of a file under a trained model.

use std::path::PathBuf;

use anyhow::{Result, bail};
use manifusion::error::SolveError;
use manifusion::parallel::in_pool;
use manifusion::stats::mean;
use manifusion_io::FileFormat;
use manifusion_run::{NewRows, RowsRequest, StoredRun};
use serde_json::json;

use crate::common::{Common, End, Output};
use crate::data::DataArgs;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder.
    dir: PathBuf,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> Result<End> {
    let output = args.common.start()?;
    let run = StoredRun::open(&args.dir)?;
    let Some(source) = args.data.data.clone() else { bail!("no data: give --data FILE") };
    args.data.check(Some(&source))?;
    let DataArgs { manifold, form, columns, filter, rows, .. } = args.data.clone();
    let seed = args.common.seed;
    let request = RowsRequest { source, manifold, form, columns, filter, rows, seed };
    // A model that is not there is said before a large file is read.
    run.model()?;
    let mut rows = output.watch.stage("reading", || NewRows::load(&request, &run))?;
    let log_p = in_pool(|| score(&run, &rows, &output))?;
    let (done, all) = (log_p.len(), rows.points().len());
    if done == 0 {
        return Err(SolveError::Stopped.into());
    }
    if done < all {
        rows.truncate(done)?;
    }
    let total = mean(&log_p.iter().map(|v| -v).collect::<Vec<_>>());
    let (column, out) = (("log_density", log_p.as_slice()), args.common.out.as_deref());
    if out.is_some() || !output.json {
        let format = out.map_or(Ok(FileFormat::Csv), FileFormat::from_extension)?;
        let columns = rows.columns_with(&run, column, format)?;
        output.table(&columns, out)?;
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
    if done < all {
        output.remark(&format!("stopped after {done} of {all} rows"));
        return Ok(End::Stopped);
    }
    Ok(End::Done)
}

/// Rows that are scored between two looks at what is done.
const BLOCK: usize = 2048;

/// log p of the rows, as far as it comes before it is stopped.
fn score(run: &StoredRun, rows: &NewRows, output: &Output) -> Result<Vec<f64>> {
    let (model, tolerance) = (run.model()?, run.settings().evaluate.tolerance);
    let x = rows.points().rows();
    let mut log_p = Vec::with_capacity(x.len());
    while log_p.len() < x.len() {
        let done = log_p.len();
        let block = x.range(done..(done + BLOCK).min(x.len()))?;
        let scored = || model.log_density_to(block, tolerance);
        match output.watch.part("likelihood", x.len() as u64, done as u64, scored) {
            Ok(scored) => log_p.extend(scored.log_p),
            Err(SolveError::Stopped) => break,
            // Numbered as in the file.
            Err(error) => return Err(error.map_row(|row| row + done).into()),
        }
    }
    Ok(log_p)
}
