//! Trains a model on generated points of the sphere and compares its exact likelihood with the entropy of the law that made them.

use std::sync::Arc;
use std::time::Instant;

use manifusion::data::Synthetic;
use manifusion::likelihood::{OdeLikelihoodOptions, log_density};
use manifusion::loss::LossKind;
use manifusion::nn::{Activation, NetConfig, OutputScale, TimeConditioning};
use manifusion::optim::{AdamConfig, Decay, Schedule};
use manifusion::path::PathChoice;
use manifusion::prior::default_prior;
use manifusion::rows::Rows;
use manifusion::train::{TimeSampling, TrainConfig, Trainer};

#[expect(clippy::print_stdout, reason = "an example shows its result")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let set = Synthetic::new("sphere-mixture")?;
    let (s_min, t_end, steps) = (1e-4, 6.0, 6000);
    let net = NetConfig {
        ambient_dim: 3,
        depth: 4,
        width: 128,
        activation: Activation::Swish,
        time: TimeConditioning::LogSines { pairs: 4, s_min, t_end },
        output_scale: OutputScale::InverseNoise,
        zero_output: true,
        ..NetConfig::default()
    };
    let config = TrainConfig {
        net,
        loss: LossKind::Denoising,
        path: PathChoice::Auto,
        times: TimeSampling::LogUniform,
        s_min,
        s_from: s_min,
        log_coordinates: false,
        prior_score: true,
        t_end,
        batch: 512,
        schedule: Schedule {
            base: 2e-3,
            warmup: 200,
            decay: Decay::Cosine,
            total: steps,
            floor: 0.0,
        },
        adam: AdamConfig::default(),
        clip: 10.0,
        ema: 0.999,
        seed: 1,
        partitions: 2,
    };
    let prior = default_prior(set.manifold())?;
    let mut trainer =
        Trainer::new(Arc::clone(set.manifold()), prior, set.sample(20_000, 1)?, config)?;
    let test = set.sample(1000, 2)?;
    let entropy = -test.chunks_exact(3).map(|x| set.log_density(x)).sum::<f64>() / 1000.0;
    let start = Instant::now();
    for step in 1..=steps {
        let report = trainer.step()?;
        if step % (steps / 6) == 0 {
            let found = log_density(
                &trainer.model()?,
                Rows::new(&test, 3)?,
                &OdeLikelihoodOptions::default(),
            )?;
            let nll = -found.log_p.iter().sum::<f64>() / 1000.0;
            println!(
                "step {step}, {:.0} s: loss {:.3}, test NLL {nll:.4}, true {entropy:.4}",
                start.elapsed().as_secs_f64(),
                report.loss
            );
        }
    }
    Ok(())
}
