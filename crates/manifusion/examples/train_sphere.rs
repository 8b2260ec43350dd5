//! Trains a model on generated points of the sphere, shows how it goes, and compares its exact
//! likelihood with the ground-truth density.

use std::ops::ControlFlow;

use manifusion::Points;
use manifusion::data::Synthetic;
use manifusion::evaluation::{Baselines, EvaluationOptions, evaluate};
use manifusion::fit::Fit;
use manifusion::methods::Rdm;
use manifusion::watch::Watch;

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let points = Points::synthetic("sphere-mixture", 20_000, 1)?;
    let mut shown = 0;
    let done = Fit::new(Rdm::default().minutes(1.0))
        .progress(move |progress| {
            if progress.training.is_some() && progress.done >= shown + 500 {
                shown = progress.done;
                println!("{} of {} steps, {:?}", progress.done, progress.total, progress.training);
            }
            ControlFlow::Continue(())
        })
        .run(&points)?;
    let (test, truth) =
        (Points::synthetic("sphere-mixture", 1000, 2)?, Synthetic::new("sphere-mixture")?);
    let baselines = Baselines { truth: Some(&truth), ..Baselines::default() };
    let options = EvaluationOptions { bound_points: 0, ..EvaluationOptions::default() };
    let found = evaluate(done.model.as_ref(), &test, baselines, &options, 0, &Watch::default())?;
    println!("{found}");
    Ok(())
}
