//! A network, its optimiser and its averaged weights as one safetensors file.
//!
//! Tensors: `weights.NAME` for each part of the parameters, `adam.first.NAME` and
//! `adam.second.NAME`, `ema.NAME`, `fourier.directions`, and `extra.NAME` for what the caller adds.
//! The metadata has one entry, `manifusion`: a JSON text with the format's version, the network's
//! configuration and the state that is not a tensor.

mod arrays;
mod bundle;

use safetensors::tensor::{Dtype, SafeTensorError, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use thiserror::Error;

use crate::atomic::write_atomic;
use crate::nn::{Mlp, NetConfig, NnError, ParamLayout, ParamView, Real};
use crate::optim::{Adam, AdamConfig, Ema, OptimError};

pub use arrays::Arrays;
pub use bundle::{pack_files, unpack_files};

/// The version that this program writes, and the newest that it reads.
pub const FORMAT_VERSION: u32 = 1;

/// The metadata's key.
const KEY: &str = "manifusion";

/// Why a checkpoint could not be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file ends too early.
    #[error("the checkpoint is cut off: {found} bytes of {expected}; was the copy interrupted?")]
    Truncated {
        /// Bytes found.
        found: usize,
        /// Bytes that the header promises, as far as it could be read.
        expected: usize,
    },
    /// The file is something else.
    #[error("the file is not a safetensors file: {source}")]
    NotSafetensors {
        /// What the parser said.
        source: SafeTensorError,
    },
    /// A safetensors file without our header.
    #[error("the safetensors file has no '{KEY}' header; it is not a checkpoint of this program")]
    NoHeader,
    /// The header's text does not parse.
    #[error("the checkpoint's header does not parse: {source}")]
    Header {
        /// What the parser said.
        source: serde_json::Error,
    },
    /// Written by a later version of this program.
    #[error("the checkpoint has format {found}, this program reads up to {supported}; update it")]
    NewerFormat {
        /// The file's format.
        found: u32,
        /// The newest format that can be read.
        supported: u32,
    },
    /// The network was trained in another precision.
    #[error("the checkpoint holds an {found} network, an {expected} network was asked for")]
    Scalar {
        /// The file's scalar.
        found: String,
        /// The scalar asked for.
        expected: &'static str,
    },
    /// A tensor that should be there is not.
    #[error("the checkpoint has no tensor '{name}'")]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// A tensor of another size or type than the configuration says.
    #[error("tensor '{name}' has {found:?} of {dtype:?}, the configuration needs {expected:?}")]
    Mismatch {
        /// Its name.
        name: String,
        /// The shape found.
        found: Vec<usize>,
        /// The type found.
        dtype: Dtype,
        /// The shape needed.
        expected: Vec<usize>,
    },
    /// The configuration describes a larger network than the file can hold.
    #[error(
        "the checkpoint's configuration (ambient_dim {ambient_dim}, depth {depth}, width {width}) describes a \
         network that does not fit into the file's {bytes} bytes"
    )]
    LargerThanFile {
        /// m of the configuration.
        ambient_dim: usize,
        /// Its depth.
        depth: usize,
        /// Its width.
        width: usize,
        /// Bytes of the file.
        bytes: usize,
    },
    /// The configuration in the file is not valid.
    #[error(transparent)]
    Network(#[from] NnError),
    /// The optimiser's state in the file is not valid.
    #[error(transparent)]
    Optimiser(#[from] OptimError),
}

/// Everything that training needs to go on.
#[derive(Debug)]
pub struct Checkpoint<T> {
    /// The network, ActNorm's state included.
    pub net: Mlp<T>,
    /// The optimiser.
    pub adam: Option<Adam<T>>,
    /// The averaged weights.
    pub ema: Option<Ema<T>>,
    /// The caller's own state: configuration, seed, step.
    pub extra: BTreeMap<String, serde_json::Value>,
    /// The caller's own numbers, for example the parameters of a proposal.
    pub extra_tensors: BTreeMap<String, Vec<f64>>,
}

#[derive(Serialize, Deserialize)]
struct Version {
    format_version: u32,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format_version: u32,
    scalar: String,
    config: NetConfig,
    actnorm_ready: bool,
    adam: Option<AdamState>,
    ema: Option<EmaState>,
    extra: BTreeMap<String, serde_json::Value>,
}

#[derive(Serialize, Deserialize)]
struct AdamState {
    config: AdamConfig,
    steps: u64,
}

#[derive(Serialize, Deserialize)]
struct EmaState {
    decay: f64,
}

impl<T: Real> Checkpoint<T> {
    /// A checkpoint of a network alone.
    pub fn new(net: Mlp<T>) -> Self {
        let (extra, extra_tensors) = (BTreeMap::new(), BTreeMap::new());
        Self { net, adam: None, ema: None, extra, extra_tensors }
    }

    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CheckpointError> {
        let header = Header {
            format_version: FORMAT_VERSION,
            scalar: T::NAME.to_owned(),
            config: self.net.config().clone(),
            actnorm_ready: self.net.actnorm_ready(),
            adam: self
                .adam
                .as_ref()
                .map(|adam| AdamState { config: *adam.config(), steps: adam.steps() }),
            ema: self.ema.as_ref().map(|ema| EmaState { decay: ema.decay() }),
            extra: self.extra.clone(),
        };
        serialize_tensors(&header, &self.tensors())
    }

    fn tensors(&self) -> Vec<Tensor> {
        let layout = self.net.layout();
        let mut tensors = parts("weights", layout, self.net.params());
        if let Some(adam) = &self.adam {
            let (first, second) = adam.moments();
            tensors.extend(parts("adam.first", layout, first));
            tensors.extend(parts("adam.second", layout, second));
        }
        if let Some(ema) = &self.ema {
            tensors.extend(parts("ema", layout, ema.weights()));
        }
        if let Some(b) = self.net.fourier_directions() {
            let dim = self.net.config().ambient_dim;
            tensors.push(Tensor::new("fourier.directions".into(), vec![b.len() / dim, dim], &b));
        }
        for (name, values) in &self.extra_tensors {
            tensors.push(Tensor::new(format!("extra.{name}"), vec![values.len()], values));
        }
        tensors
    }

    /// A checkpoint from a file's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let (text, file) = open(bytes)?;
        let header = read_header::<T>(&text)?;
        check_size::<T>(&header.config, bytes.len())?;
        let mut net = Mlp::<T>::new(header.config, 0)?;
        net.set_actnorm_ready(header.actnorm_ready);
        if let Some(fourier) = net.config().fourier {
            let shape = vec![fourier.features, net.config().ambient_dim];
            net.set_fourier_directions(&read::<f64>(&file, "fourier.directions", &shape)?)?;
        }
        let layout = net.layout().clone();
        net.set_params(&read_parts(&file, "weights", &layout)?)?;
        let adam = match header.adam {
            None => None,
            Some(AdamState { config, steps }) => {
                let first = read_parts(&file, "adam.first", &layout)?;
                let second = read_parts(&file, "adam.second", &layout)?;
                Some(Adam::from_moments(config, first, second, steps)?)
            }
        };
        let ema = match header.ema {
            None => None,
            Some(EmaState { decay }) => {
                Some(Ema::new(decay, &read_parts::<T>(&file, "ema", &layout)?)?)
            }
        };
        let extra_tensors = extra_numbers(&file)?;
        Ok(Self { net, adam, ema, extra: header.extra, extra_tensors })
    }

    /// Writes the file next to its place, waits until it is on the disk and then moves it there, so
    /// that a crash at any moment leaves the old checkpoint or the new one.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        write_file(path, &self.to_bytes()?)
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        Self::from_bytes(&read_file(path)?)
    }
}

/// A file's bytes from its header and tensors.
fn serialize_tensors(
    header: &impl Serialize,
    tensors: &[Tensor],
) -> Result<Vec<u8>, CheckpointError> {
    let text =
        serde_json::to_string(header).map_err(|source| CheckpointError::Header { source })?;
    let views: Result<Vec<_>, _> = tensors
        .iter()
        .map(|t| Ok((t.name.as_str(), TensorView::new(t.dtype, t.shape.clone(), &t.bytes)?)))
        .collect();
    let metadata = Some(HashMap::from([(KEY.to_owned(), text)]));
    views.and_then(|views| serialize(views, metadata)).map_err(not_safetensors)
}

/// Our header's text, of a version that can be read, and the tensors of a file.
fn open(bytes: &[u8]) -> Result<(String, SafeTensors<'_>), CheckpointError> {
    check_complete(bytes)?;
    let (_, metadata) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
    let text = metadata.metadata().as_ref().and_then(|map| map.get(KEY));
    let text = text.ok_or(CheckpointError::NoHeader)?.clone();
    // The version first: a later format may have another header.
    let found = serde_json::from_str::<Version>(&text)
        .map_err(|source| CheckpointError::Header { source })?
        .format_version;
    if found > FORMAT_VERSION {
        return Err(CheckpointError::NewerFormat { found, supported: FORMAT_VERSION });
    }
    let file = SafeTensors::deserialize(bytes).map_err(not_safetensors)?;
    Ok((text, file))
}

/// The tensors `extra.NAME` by name.
fn extra_numbers(file: &SafeTensors<'_>) -> Result<BTreeMap<String, Vec<f64>>, CheckpointError> {
    let mut found = BTreeMap::new();
    for (name, view) in file.iter() {
        if let Some(short) = name.strip_prefix("extra.") {
            let shape: usize = view.shape().iter().product();
            found.insert(short.to_owned(), read::<f64>(file, name, &[shape])?);
        }
    }
    Ok(found)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    write_atomic(path, bytes)
        .map_err(|source| CheckpointError::Io { path: path.to_owned(), source })
}

fn read_file(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    std::fs::read(path).map_err(|source| CheckpointError::Io { path: path.to_owned(), source })
}

fn not_safetensors(source: SafeTensorError) -> CheckpointError {
    CheckpointError::NotSafetensors { source }
}

/// The format is 8 bytes with the length of a JSON text, the text, and the data up to the largest
/// offset that the text names.
fn check_complete(bytes: &[u8]) -> Result<(), CheckpointError> {
    let found = bytes.len();
    let Some(length) = bytes.first_chunk::<8>() else {
        return Err(CheckpointError::Truncated { found, expected: 8 });
    };
    let header = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
    // A header of this size is no header: the parser will say that the file is something else.
    if header > 100_000_000 {
        return Ok(());
    }
    let start = 8 + header;
    let Some(text) = bytes.get(8..start) else {
        return Err(CheckpointError::Truncated { found, expected: start });
    };
    let Ok(serde_json::Value::Object(tensors)) = serde_json::from_slice(text) else {
        return Ok(());
    };
    let end = |tensor: &serde_json::Value| tensor.get("data_offsets")?.get(1)?.as_u64();
    let data = tensors.values().filter_map(end).max().unwrap_or(0) as usize;
    let expected = start.saturating_add(data);
    if found < expected { Err(CheckpointError::Truncated { found, expected }) } else { Ok(()) }
}

/// Refuses a network that the file cannot hold, before memory is taken for it.
fn check_size<T>(config: &NetConfig, bytes: usize) -> Result<(), CheckpointError> {
    config.validate()?;
    let needed = config.stored_numbers().and_then(|n| n.checked_mul(size_of::<T>()));
    if needed.is_some_and(|needed| needed <= bytes) {
        return Ok(());
    }
    let NetConfig { ambient_dim, depth, width, .. } = *config;
    Err(CheckpointError::LargerThanFile { ambient_dim, depth, width, bytes })
}

fn read_header<T: Real>(text: &str) -> Result<Header, CheckpointError> {
    let parse = |source| CheckpointError::Header { source };
    let header: Header = serde_json::from_str(text).map_err(parse)?;
    if header.scalar != T::NAME {
        let expected = T::NAME;
        return Err(CheckpointError::Scalar { found: header.scalar, expected });
    }
    Ok(header)
}

/// A tensor on its way into a file.
struct Tensor {
    name: String,
    shape: Vec<usize>,
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl Tensor {
    fn new<T: Real>(name: String, shape: Vec<usize>, values: &[T]) -> Self {
        let mut bytes = Vec::with_capacity(size_of_val(values));
        for value in values {
            value.push_bytes(&mut bytes);
        }
        Self { name, shape, dtype: dtype::<T>(), bytes }
    }
}

fn dtype<T: Real>() -> Dtype {
    if size_of::<T>() == 4 { Dtype::F32 } else { Dtype::F64 }
}

fn numbers<T: Real>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(size_of::<T>()).map(T::from_bytes).collect()
}

fn parts<T: Real>(prefix: &str, layout: &ParamLayout, values: &[T]) -> Vec<Tensor> {
    let tensor = |view: &ParamView| {
        let name = format!("{prefix}.{}", view.name);
        Tensor::new(name, view.shape.to_vec(), &values[view.range()])
    };
    layout.views().iter().map(tensor).collect()
}

fn read_parts<T: Real>(
    file: &SafeTensors<'_>,
    prefix: &str,
    layout: &ParamLayout,
) -> Result<Vec<T>, CheckpointError> {
    let mut values = Vec::with_capacity(layout.len());
    for view in layout.views() {
        values.extend(read::<T>(file, &format!("{prefix}.{}", view.name), &view.shape)?);
    }
    Ok(values)
}

fn read<T: Real>(
    file: &SafeTensors<'_>,
    name: &str,
    shape: &[usize],
) -> Result<Vec<T>, CheckpointError> {
    let missing = |_| CheckpointError::MissingTensor { name: name.to_owned() };
    let view = file.tensor(name).map_err(missing)?;
    if view.shape() != shape || view.dtype() != dtype::<T>() {
        return Err(CheckpointError::Mismatch {
            name: name.to_owned(),
            found: view.shape().to_vec(),
            dtype: view.dtype(),
            expected: shape.to_vec(),
        });
    }
    Ok(numbers(view.data()))
}
