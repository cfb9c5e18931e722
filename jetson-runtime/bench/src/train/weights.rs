//! A model's parameters and running statistics as a file: safetensors.
//!
//! In and out: a tensor of 32-bit floats for each, by its name. A convolution's weights have the
//! shape (output channels, rows, columns, input channels). Guarantees: a file is there whole or not
//! at all; one that does not fit the model changes nothing of it.
//!
//! Limits: the machine is little-endian, as the format is.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jetson_runtime::{Runtime, RuntimeError};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use super::step::Model;
use crate::output_file;

/// Why parameters were not saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WeightsError {
    /// The file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is no safetensors file.
    #[error("{}: {source}; wanted a safetensors file, as --save writes it", path.display())]
    Format {
        /// Which.
        path: PathBuf,
        /// Why.
        source: SafeTensorError,
    },
    /// The file is for another model.
    #[error("{}: {found}; {name} wants {wanted}: is the file for this --model?", path.display())]
    Fit {
        /// Which.
        path: PathBuf,
        /// Which tensor.
        name: String,
        /// What it should be.
        wanted: String,
        /// What it is.
        found: String,
    },
    /// The runtime refuses.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

/// Writes the model to a file.
///
/// # Errors
/// See [`WeightsError`]; then the path is as it was before.
pub fn save(path: &Path, model: &Model, runtime: &mut Runtime) -> Result<(), WeightsError> {
    let mut contents = Vec::new();
    for kept in model.state.model() {
        contents.push((kept, kept.read(runtime)?));
    }
    let mut tensors = Vec::new();
    for (kept, numbers) in &contents {
        let bytes = bytemuck::cast_slice(numbers);
        let view = TensorView::new(Dtype::F32, kept.weights.shape.clone(), bytes);
        tensors.push((
            &kept.weights.name,
            view.map_err(|error| format(path, error))?,
        ));
    }
    let file = safetensors::serialize(tensors, None).map_err(|error| format(path, error))?;
    output_file::write(path, &file).map_err(|error| file_error(path, error))
}

/// Reads the model from a file.
///
/// # Errors
/// See [`WeightsError`].
pub fn load(path: &Path, model: &Model, runtime: &mut Runtime) -> Result<(), WeightsError> {
    let file = fs::read(path).map_err(|error| file_error(path, error))?;
    let tensors = SafeTensors::deserialize(&file).map_err(|error| format(path, error))?;
    let mut contents = Vec::new();
    for kept in model.state.model() {
        let weights = &kept.weights;
        let fit = |found: String| WeightsError::Fit {
            path: path.into(),
            name: weights.name.clone(),
            wanted: format!("32-bit floats of shape {:?}", weights.shape),
            found,
        };
        let tensor = tensors.tensor(&weights.name);
        let tensor = tensor.map_err(|_| fit(format!("no tensor {}", weights.name)))?;
        if tensor.dtype() != Dtype::F32 || tensor.shape() != weights.shape {
            let (dtype, shape) = (tensor.dtype(), tensor.shape());
            return Err(fit(format!(
                "{} is {dtype:?} of shape {shape:?}",
                weights.name
            )));
        }
        contents.push((kept, tensor.data()));
    }
    if tensors.len() != contents.len() {
        let (wanted, found) = (contents.len(), tensors.len());
        return Err(WeightsError::Fit {
            path: path.into(),
            name: model.network.name.into(),
            wanted: format!("{wanted} tensors"),
            found: format!("{found} tensors"),
        });
    }
    for (kept, bytes) in contents {
        // A file has them in little-endian order, and anywhere.
        let (numbers, _) = bytes.as_chunks();
        let numbers = numbers.iter().map(|number| f32::from_le_bytes(*number));
        kept.write(runtime, &numbers.collect::<Vec<f32>>())?;
    }
    Ok(())
}

fn file_error(path: &Path, source: io::Error) -> WeightsError {
    WeightsError::File {
        path: path.into(),
        source,
    }
}

fn format(path: &Path, source: SafeTensorError) -> WeightsError {
    WeightsError::Format {
        path: path.into(),
        source,
    }
}
