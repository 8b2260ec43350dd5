//! Several files in one: the checkpoints of networks that are trained side by side.

use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use super::{CheckpointError, FORMAT_VERSION, Tensor, open, serialize_tensors};

#[derive(Serialize, Deserialize)]
struct Header {
    format_version: u32,
    files: usize,
}

fn name(number: usize) -> String {
    format!("file.{number}")
}

/// The bytes of one file that holds these, in order.
pub fn pack_files(files: &[Vec<u8>]) -> Result<Vec<u8>, CheckpointError> {
    let header = Header { format_version: FORMAT_VERSION, files: files.len() };
    let tensor = |(number, bytes): (usize, &Vec<u8>)| Tensor {
        name: name(number),
        shape: vec![bytes.len()],
        dtype: Dtype::U8,
        bytes: bytes.clone(),
    };
    let tensors: Vec<Tensor> = files.iter().enumerate().map(tensor).collect();
    serialize_tensors(&header, &tensors)
}

/// The files in a file of [`pack_files`].
pub fn unpack_files(bytes: &[u8]) -> Result<Vec<Vec<u8>>, CheckpointError> {
    let (text, file) = open(bytes)?;
    let header: Header =
        serde_json::from_str(&text).map_err(|source| CheckpointError::Header { source })?;
    (0..header.files)
        .map(|number| {
            let name = name(number);
            let missing = |_| CheckpointError::MissingTensor { name: name.clone() };
            Ok(file.tensor(&name).map_err(missing)?.data().to_vec())
        })
        .collect()
}
