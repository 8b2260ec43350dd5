//! Named numbers in a safetensors file: a mixture, a data set, or what a run remembers beside its
//! network.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    CheckpointError, FORMAT_VERSION, Tensor, extra_numbers, open, read_file, serialize_tensors,
    write_file,
};

/// Values and arrays by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays {
    /// Anything that is not an array.
    pub values: BTreeMap<String, Value>,
    /// Arrays.
    pub arrays: BTreeMap<String, Vec<f64>>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    format_version: u32,
    values: BTreeMap<String, Value>,
}

impl Arrays {
    /// The file's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CheckpointError> {
        let header = Header { format_version: FORMAT_VERSION, values: self.values.clone() };
        let tensor = |(name, values): (&String, &Vec<f64>)| {
            Tensor::new(format!("extra.{name}"), vec![values.len()], values)
        };
        let tensors: Vec<Tensor> = self.arrays.iter().map(tensor).collect();
        serialize_tensors(&header, &tensors)
    }

    /// From a file's bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let (text, file) = open(bytes)?;
        let header: Header =
            serde_json::from_str(&text).map_err(|source| CheckpointError::Header { source })?;
        Ok(Self { values: header.values, arrays: extra_numbers(&file)? })
    }

    /// Writes the file so that a crash at any moment leaves the old one or the new one.
    pub fn write(&self, path: &Path) -> Result<(), CheckpointError> {
        write_file(path, &self.to_bytes()?)
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, CheckpointError> {
        Self::from_bytes(&read_file(path)?)
    }
}
