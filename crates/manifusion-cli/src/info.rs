//! `manifusion info`: what a run's folder holds.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use crate::common::Common;
use crate::evaluate;
use crate::run::RunDir;
use crate::settings::Method;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The run's folder.
    dir: PathBuf,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let output = args.common.start()?;
    let dir = RunDir::open(&args.dir)?;
    let (settings, split) = (dir.settings()?, dir.split()?);
    let finished = dir.has("model.safetensors");
    let step = if settings.method == Method::Rdm && dir.has("checkpoint.safetensors") {
        dir.checkpoint("checkpoint.safetensors")?.extra.get("step").and_then(Value::as_u64)
    } else {
        None
    };
    let optional = |name: &str| dir.has(name).then(|| dir.json(name)).transpose();
    let (summary, eval, data) =
        (optional("summary.json")?, optional("eval.json")?, optional("data.json")?);
    if output.json {
        let report = json!({
            "settings": settings,
            "finished": finished,
            "step": step,
            "rows": [split.train.len(), split.validation.len(), split.test.len()],
            "split_hash": split.hash(),
            "config_hash": settings.hash()?,
            "data": data,
            "summary": summary,
            "eval": eval,
        });
        return output.line(&report.to_string()).map(|()| true);
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| String::from("-"));
    output.line(&format!("run        {}", dir.path().display()))?;
    output.line(&format!("data       {}", text(&settings.data.source)))?;
    output.line(&format!("manifold   {}", text(&settings.manifold)))?;
    output.line(&format!("method     {}", json!(settings.method).as_str().unwrap_or("-")))?;
    output.line(&format!(
        "rows       {} training, {} validation, {} test",
        split.train.len(),
        split.validation.len(),
        split.test.len()
    ))?;
    let total = settings.train.steps.map_or(String::from("?"), |steps| steps.to_string());
    let state = match (finished, step) {
        (true, _) => String::from("finished"),
        (false, Some(step)) => {
            format!("stopped at step {step} of {total}; 'manifusion resume' goes on")
        }
        (false, None) => String::from("not started; 'manifusion resume' starts it"),
    };
    output.line(&format!("state      {state}"))?;
    if let Some(summary) = summary {
        let number = |name: &str| summary.get(name).and_then(Value::as_f64);
        if let (Some(nll), Some(step), Some(seconds)) =
            (number("validation_nll"), number("best_step"), number("train_seconds"))
        {
            output.line(&format!(
                "training   {seconds:.0} s, best validation NLL {nll:.4} at step {step}"
            ))?;
        }
    }
    if let Some(eval) = eval {
        evaluate::show(&output, &eval)?;
    }
    Ok(true)
}
