//! One TOML per run: what a user may set, and, once resolved, everything that the run depends on.
//!
//! A setting that is left out is chosen from the data; the resolved file in the run's folder has them all.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The version of the file; a later one is refused.
pub(crate) const FORMAT: u32 = 1;

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Settings {
    pub(crate) format: u32,
    pub(crate) method: Method,
    pub(crate) manifold: Option<String>,
    pub(crate) seed: u64,
    pub(crate) data: DataSettings,
    pub(crate) model: ModelSettings,
    pub(crate) net: NetSettings,
    pub(crate) train: TrainSettings,
    pub(crate) evaluate: EvaluateSettings,
}

/// How the density is learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Method {
    /// A Riemannian diffusion model.
    #[default]
    Rdm,
    /// A mixture of heat kernels, no network.
    Kernel,
}

/// Where the points come from and how they are split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct DataSettings {
    /// A file, or `synthetic:NAME`.
    pub(crate) source: Option<String>,
    /// The form of its columns.
    pub(crate) form: Option<String>,
    pub(crate) columns: Option<Vec<String>>,
    /// Only rows with this value in this column: COLUMN=VALUE.
    pub(crate) filter: Option<String>,
    /// Rows with the same value in this column stay together.
    pub(crate) group_by: Option<String>,
    pub(crate) dedup: bool,
    /// Shares of training, validation and test.
    pub(crate) split: [f64; 3],
    /// Rows that a generated set gets.
    pub(crate) rows: usize,
}

impl Default for DataSettings {
    fn default() -> Self {
        Self {
            source: None,
            form: None,
            columns: None,
            filter: None,
            group_by: None,
            dedup: false,
            split: [0.8, 0.1, 0.1],
            rows: 20_000,
        }
    }
}

/// The noise, and what the network starts from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ModelSettings {
    pub(crate) guide: Option<GuideKind>,
    /// Whether the network is added to the score of the prior.
    pub(crate) prior_score: Option<bool>,
    /// Whether the kernel mixture's weights vary from centre to centre, in the kernel method. A guide's always do.
    pub(crate) local_weights: Option<bool>,
    /// Smallest noising time.
    pub(crate) s_min: Option<f64>,
    /// Smallest time at which the network is trained.
    pub(crate) s_from: Option<f64>,
    /// T.
    pub(crate) t_end: Option<f64>,
}

/// What the network is added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum GuideKind {
    /// Nothing: the network is the whole field.
    None,
    /// The score of a mixture of heat kernels.
    Kernel,
}

impl std::fmt::Display for GuideKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Kernel => "kernel",
        })
    }
}

/// The network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NetSettings {
    pub(crate) depth: Option<usize>,
    pub(crate) width: Option<usize>,
    pub(crate) activation: Option<manifusion::nn::Activation>,
    pub(crate) residual: Option<bool>,
    pub(crate) actnorm: Option<bool>,
    /// Whether the network sees the logarithm of points of hyperbolic space, not their coordinates.
    pub(crate) log_coordinates: Option<bool>,
    /// Pairs of sines of log s; 0 is the paper's plain s.
    pub(crate) time_pairs: Option<usize>,
    /// Damped Fourier features; 0 is none.
    pub(crate) fourier: Option<usize>,
    /// Their largest frequency.
    pub(crate) fourier_max: Option<f64>,
    /// Output divided by √(1 − e^{−s}).
    pub(crate) inverse_noise: Option<bool>,
    pub(crate) zero_output: Option<bool>,
}

/// The training loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TrainSettings {
    pub(crate) loss: Option<Loss>,
    pub(crate) divergence: Option<Divergence>,
    /// Hutchinson probes.
    pub(crate) probes: Option<usize>,
    pub(crate) times: Option<TimeLaw>,
    /// Steps between two updates of a learned law of times.
    pub(crate) times_every: Option<u64>,
    pub(crate) times_rate: Option<f64>,
    pub(crate) times_gradient: Option<TimesGradient>,
    /// Heun steps of the noise where no exact law is known; 0 leaves the choice to the program.
    pub(crate) noise_steps: Option<usize>,
    pub(crate) batch: Option<usize>,
    /// Steps of the run; found by measuring where only minutes are given.
    pub(crate) steps: Option<u64>,
    pub(crate) minutes: Option<f64>,
    pub(crate) rate: Option<f64>,
    pub(crate) warmup: Option<u64>,
    pub(crate) decay: Option<manifusion::optim::Decay>,
    pub(crate) weight_decay: Option<f64>,
    pub(crate) clip: Option<f64>,
    pub(crate) ema: Option<f64>,
    /// Validations in a run.
    pub(crate) validations: Option<u64>,
    /// Validation points used, at most.
    pub(crate) validation_points: Option<usize>,
    /// Validations without a better value after which the run ends.
    pub(crate) patience: Option<u64>,
    /// Time between two checkpoints.
    pub(crate) checkpoint_seconds: Option<f64>,
}

/// The form of the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Loss {
    Implicit,
    Denoising,
}

/// Divergences of the implicit loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Divergence {
    Frame,
    RandomFrame,
    Hutchinson,
    HutchinsonGaussian,
    ClosestPoint,
    Intrinsic,
}

/// Laws of training times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TimeLaw {
    Uniform,
    LogUniform,
    Learned,
}

/// Gradients of the learned law of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TimesGradient {
    Unbiased,
    Reparameterised,
}

/// How a run is judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EvaluateSettings {
    /// Relative and absolute tolerance of dopri5.
    pub(crate) tolerance: f64,
    /// K.
    pub(crate) kelbo_paths: usize,
    /// Test points on which ELBO and KELBO are computed, at most; 0 leaves them out.
    pub(crate) bound_points: usize,
    /// Evaluations of the density for its mass; 0 leaves it out.
    pub(crate) mass_points: usize,
    pub(crate) bootstrap: usize,
}

impl Default for EvaluateSettings {
    fn default() -> Self {
        Self {
            tolerance: 1e-5,
            kelbo_paths: 100,
            bound_points: 32,
            mass_points: 3000,
            bootstrap: 2000,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            format: FORMAT,
            method: Method::default(),
            manifold: None,
            seed: 0,
            data: DataSettings::default(),
            model: ModelSettings::default(),
            net: NetSettings::default(),
            train: TrainSettings::default(),
            evaluate: EvaluateSettings::default(),
        }
    }
}

impl Settings {
    /// From a TOML text, with `key.path=value` changes applied on top.
    pub(crate) fn parse(text: &str, changes: &[String]) -> Result<Self> {
        let mut table: toml::Table = text.parse().map_err(|e| one_line(&e))?;
        let found = table.get("format").and_then(toml::Value::as_integer);
        if let Some(found) = found
            && found > i64::from(FORMAT)
        {
            bail!(
                "the configuration has format {found}, this program reads up to {FORMAT}; update it"
            );
        }
        for change in changes {
            set(&mut table, change)?;
        }
        toml::Value::Table(table).try_into().map_err(|e| one_line(&e))
    }

    /// As a TOML text.
    pub(crate) fn to_toml(&self) -> Result<String> {
        toml::to_string(self).context("writing the configuration")
    }

    /// A hash of everything but the file's place, in hex.
    pub(crate) fn hash(&self) -> Result<String> {
        let mut same_elsewhere = self.clone();
        same_elsewhere.data.source =
            self.data.source.as_deref().map(|source| file_name(source).to_owned());
        Ok(hex(&Sha256::digest(same_elsewhere.to_toml()?.as_bytes())))
    }
}

/// The last part of a path.
pub(crate) fn file_name(source: &str) -> &str {
    source.rsplit(['/', '\\']).next().unwrap_or(source)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// The parser's message without its drawing of the line.
fn one_line(error: &toml::de::Error) -> anyhow::Error {
    let message = error.message().replace('\n', " ");
    anyhow::anyhow!("configuration: {message}")
}

/// Applies `key.path=value`; a value that is no TOML is taken as a string.
fn set(table: &mut toml::Table, change: &str) -> Result<()> {
    let Some((path, value)) = change.split_once('=') else {
        bail!("'{change}' is not of the form key=value, for example train.batch=256");
    };
    let parsed: Result<toml::Table, _> = format!("value = {value}").parse();
    let value = match parsed {
        Ok(mut parsed) => parsed.remove("value").unwrap_or(toml::Value::Boolean(false)),
        Err(_) => toml::Value::String(value.to_owned()),
    };
    let mut keys: Vec<&str> = path.trim().split('.').collect();
    let last = keys.pop().unwrap_or_default();
    let mut at = table;
    for key in keys {
        let entry = at.entry(key).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = match entry {
            toml::Value::Table(inner) => inner,
            _ => bail!("'{path}': '{key}' is a value, not a section"),
        };
    }
    at.insert(last.to_owned(), value);
    Ok(())
}
