//! `manifusion info`: what a run's folder holds.

use std::path::PathBuf;

use anyhow::Result;
use manifusion::watch::duration;
use manifusion_run::StoredRun;
use serde_json::json;

use crate::common::{Common, End};
use crate::evaluate;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder.
    dir: PathBuf,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> Result<End> {
    let output = args.common.start()?;
    let run = StoredRun::open(&args.dir)?;
    let (settings, finished) = (run.settings(), run.is_finished());
    let (split, facts) = (run.split()?, run.data_facts()?);
    let progress = run.progress()?;
    let (outcome, evaluation) = (run.outcome()?, run.evaluation(run.judged_part()?)?);
    if output.json {
        let report = json!({
            "settings": settings.to_json()?,
            "finished": finished,
            "step": outcome.as_ref().map(|o| o.steps).or(progress.map(|(step, _)| step)),
            "rows": [split.train.len(), split.validation.len(), split.test.len()],
            "split_hash": split.hash(),
            "config_hash": settings.hash()?,
            "data": facts,
            "summary": outcome,
            "eval": evaluation,
        });
        output.line(&report.to_string())?;
        return Ok(End::Done);
    }
    output.line(&format!("run        {}", run.dir().path().display()))?;
    output.line(&format!("data       {}", settings.data.source.as_deref().unwrap_or("-")))?;
    output.line(&format!("manifold   {}", settings.manifold))?;
    output.line(&format!("method     {}", settings.method))?;
    output.line(&format!(
        "rows       {} training, {} validation, {} test",
        split.train.len(),
        split.validation.len(),
        split.test.len()
    ))?;
    let state = match (finished, progress) {
        (true, _) => String::from("finished"),
        (false, Some((step, total))) => {
            format!("stopped at step {step} of {total}; 'manifusion resume' goes on")
        }
        (false, None) => String::from("not started; 'manifusion resume' starts it"),
    };
    output.line(&format!("state      {state}"))?;
    if let Some(outcome) = outcome
        && let Some(nll) = outcome.validation_nll
    {
        output.line(&format!(
            "training   {}, best validation NLL {nll:.4} at step {}",
            duration(outcome.train_seconds),
            outcome.best_step
        ))?;
    }
    if let Some(evaluation) = evaluation {
        evaluate::show(&output, &evaluation)?;
    }
    Ok(End::Done)
}
