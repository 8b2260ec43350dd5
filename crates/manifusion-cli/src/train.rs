//! `manifusion train` and `manifusion resume`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use manifusion::checkpoint::Arrays;
use manifusion::error::SolveError;
use manifusion::mixture::{KernelMixture, MixtureOptions};
use manifusion::rows::Rows;
use serde_json::json;

use crate::common::{Common, Output};
use crate::model::GUIDE;
use crate::progress::Progress;
use crate::recipe::{Preset, check, resolve};
use crate::run::{RunDir, geometry};
use crate::session::{Session, check_start};
use crate::settings::{GuideKind, Loss, Method, Settings};
use crate::source::{DataArgs, Part, Source};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// How the density is learned.
    #[arg(long, value_enum)]
    method: Option<Method>,
    /// What the network is added to.
    #[arg(long, value_enum)]
    guide: Option<GuideKind>,
    /// The form of the bound that is trained.
    #[arg(long, value_enum)]
    loss: Option<Loss>,
    /// Drop repeated rows before splitting.
    #[arg(long)]
    dedup: bool,
    /// Keep rows with the same value in this column in one part of the split.
    #[arg(long, value_name = "COLUMN")]
    group_by: Option<String>,
    /// A TOML file with settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting, for example train.batch=256; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// A bundle of settings.
    #[arg(long, value_enum, default_value_t = Preset::Fast)]
    preset: Preset,
    /// Time to train for; turned into steps by measuring.
    #[arg(long, allow_negative_numbers = true)]
    minutes: Option<f64>,
    /// Steps to train for.
    #[arg(long, conflicts_with = "minutes")]
    steps: Option<u64>,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> Result<bool> {
    let output = args.common.start()?;
    let out = args.common.out.as_deref().context("--out DIR is needed: the folder of the run")?;
    let settings = settings(args)?;
    let dir = begin(settings, args.preset, out, &output)?;
    finish(dir, &output)?;
    Ok(true)
}

/// File, then `--set`, then the flags.
fn settings(args: &Args) -> Result<Settings> {
    let text = match &args.config {
        None => String::new(),
        Some(path) => {
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?
        }
    };
    let mut settings = Settings::parse(&text, &args.set)?;
    args.data.apply(&mut settings)?;
    settings.method = args.method.unwrap_or(settings.method);
    settings.seed = args.common.seed.unwrap_or(settings.seed);
    settings.data.dedup |= args.dedup;
    if args.group_by.is_some() {
        settings.data.group_by.clone_from(&args.group_by);
    }
    settings.model.guide = args.guide.or(settings.model.guide);
    settings.train.loss = args.loss.or(settings.train.loss);
    if args.minutes.is_some() {
        (settings.train.minutes, settings.train.steps) = (args.minutes, None);
    }
    if args.steps.is_some() {
        (settings.train.steps, settings.train.minutes) = (args.steps, None);
    }
    Ok(settings)
}

/// Reads and splits the data, chooses what was left open and makes the run's folder.
pub(crate) fn begin(
    mut settings: Settings,
    preset: Preset,
    out: &Path,
    output: &Output,
) -> Result<RunDir> {
    if out.join("config.toml").exists() {
        return RunDir::create(out);
    }
    check(&settings)?;
    let source = Source::load(&mut settings)?;
    for finding in source.findings() {
        output.remark(finding);
    }
    let (manifold, prior) = geometry(&settings)?;
    let m = manifold.ambient_dim();
    let train = source.part(Part::Train, m);
    let fitted = fit_kernel(&settings, &train)?;
    if settings.method == Method::Rdm {
        let (manifold, prior) = (manifold.as_ref(), prior.as_ref());
        resolve(&mut settings, preset, manifold, prior, fitted.as_ref().map(|fit| &fit.mixture))?;
        check_start(&settings, &train)?;
    }
    let dir = RunDir::create(out)?;
    source.write(&dir, m)?;
    if let Some(fit) = fitted {
        fit.write(&dir, settings.method)?;
        if settings.model.guide == Some(GuideKind::Kernel) {
            let guide = fit.mixture.localised(&mixture_options(&settings))?;
            write_kernel(&dir, GUIDE, &guide)?;
        }
    }
    dir.write("config.toml", &settings.to_toml()?)?;
    Ok(dir)
}

fn nothing_to_do(dir: &RunDir) -> anyhow::Error {
    anyhow!("the run in {} is finished; nothing to do", dir.path().display())
}

/// Trains the run of a folder to its end.
pub(crate) fn finish(dir: RunDir, output: &Output) -> Result<()> {
    let settings = dir.settings()?;
    if settings.method == Method::Rdm && dir.has("model.safetensors") {
        return Err(nothing_to_do(&dir));
    }
    let path = dir.path().to_owned();
    match settings.method {
        Method::Kernel => output.remark(&format!("kernel mixture written to {}", path.display())),
        Method::Rdm => {
            // On a thread of the pool: for a caller outside, every parallel part of a step would have to wake it.
            let outcome =
                rayon::scope(|_| Session::open(dir)?.run(&mut Progress::new(output.quiet)))?;
            let end = if outcome.stopped_early { "stopped early" } else { "done" };
            output.remark(&format!(
                "{end} after {} steps and {:.0} s; best validation NLL {:.4} at step {}",
                outcome.steps, outcome.seconds, outcome.best_nll, outcome.best_step
            ));
        }
    }
    if output.json {
        return output.line(&json!({ "out": path.display().to_string() }).to_string());
    }
    output.remark(&format!("next: manifusion evaluate {}", path.display()));
    Ok(())
}

/// The kernel mixture of the training points: the model of one method, the baseline and guide of the other.
struct FittedKernel {
    mixture: KernelMixture,
    seconds: f64,
}

/// Fits it where one is known. Where none is, a network needs none.
fn fit_kernel(settings: &Settings, train: &[f64]) -> Result<Option<FittedKernel>> {
    let start = Instant::now();
    let (manifold, prior) = geometry(settings)?;
    let rows = Rows::new(train, manifold.ambient_dim())?;
    let options = mixture_options(settings);
    let needed =
        settings.method == Method::Kernel || settings.model.guide == Some(GuideKind::Kernel);
    match KernelMixture::fit(manifold, prior, rows, &options) {
        Ok(mut mixture) => {
            if settings.method == Method::Kernel && settings.model.local_weights == Some(true) {
                mixture = mixture.localised(&options)?;
            }
            Ok(Some(FittedKernel { mixture, seconds: start.elapsed().as_secs_f64() }))
        }
        Err(SolveError::Unsupported { .. }) if !needed => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl FittedKernel {
    fn write(&self, dir: &RunDir, method: Method) -> Result<()> {
        let name = match method {
            Method::Kernel => "model.safetensors",
            Method::Rdm => "kernel.safetensors",
        };
        if method == Method::Kernel {
            let threads = rayon::current_num_threads();
            dir.write_json(
                "summary.json",
                &json!({ "train_seconds": self.seconds, "threads": threads }),
            )?;
        }
        write_kernel(dir, name, &self.mixture)
    }
}

fn mixture_options(settings: &Settings) -> MixtureOptions {
    MixtureOptions { seed: settings.seed, ..MixtureOptions::default() }
}

fn write_kernel(dir: &RunDir, name: &str, mixture: &KernelMixture) -> Result<()> {
    let arrays = Arrays { arrays: mixture.to_tensors(), ..Arrays::default() };
    arrays.write(&dir.file(name)).context("writing the kernel mixture")
}

#[derive(clap::Args)]
pub(crate) struct ResumeArgs {
    /// The run's folder.
    dir: PathBuf,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn resume(args: &ResumeArgs) -> Result<bool> {
    let output = args.common.start()?;
    let dir = RunDir::open(&args.dir)?;
    if dir.settings()?.method == Method::Kernel {
        return Err(nothing_to_do(&dir));
    }
    finish(dir, &output)?;
    Ok(true)
}
