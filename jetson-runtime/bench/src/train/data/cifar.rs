//! CIFAR-10 in its binary version: a folder of batches.
//!
//! In: `data_batch_1.bin` to `data_batch_5.bin` and `test_batch.bin`, each one or more records of a
//! label and 3 × 32 × 32 pixels, colour by colour. Out: images with the colours of each pixel side
//! by side. Guarantees: what is no such file is an error that says what was wanted.
//!
//! Source of the format: A. Krizhevsky, *Learning Multiple Layers of Features from Tiny Images*,
//! 2009, and the description beside the data.

use std::fs;
use std::path::Path;

use super::{DataError, Dataset, Images};
use crate::train::model::Shape;

/// The files, for people.
const FILES: &str = "data_batch_1.bin to data_batch_5.bin and test_batch.bin";
/// A label, and the pixels of an image.
const RECORD_BYTES: usize = 1 + SHAPE.floats();

/// The size of each image.
pub const SHAPE: Shape = Shape {
    height: 32,
    width: 32,
    channels: 3,
};
/// Labels are below this.
pub const CLASSES: usize = 10;

/// Reads the folder.
///
/// # Errors
/// See [`DataError`].
pub fn cifar10(folder: &Path) -> Result<Dataset, DataError> {
    let mut train = Images::default();
    for batch in 1..=5 {
        append(&mut train, &folder.join(format!("data_batch_{batch}.bin")))?;
    }
    let mut test = Images::default();
    append(&mut test, &folder.join("test_batch.bin"))?;
    Ok(Dataset::new("CIFAR-10", SHAPE, CLASSES, train, test))
}

fn append(images: &mut Images, path: &Path) -> Result<(), DataError> {
    let path = || path.to_path_buf();
    let bytes = fs::read(path()).map_err(|source| DataError::File {
        path: path(),
        source,
        files: FILES,
    })?;
    let records = bytes.chunks_exact(RECORD_BYTES);
    if bytes.is_empty() || !records.remainder().is_empty() {
        let found = bytes.len() as u64;
        return Err(DataError::Records {
            path: path(),
            found,
            record: RECORD_BYTES,
        });
    }
    for (record, bytes) in records.enumerate() {
        let (&label, planes) = bytes.split_first().expect("a record has its size");
        if usize::from(label) >= CLASSES {
            return Err(DataError::Label {
                path: path(),
                record,
                found: label,
            });
        }
        images.labels.push(label);
        for pixel in 0..SHAPE.pixels() {
            let colours = planes.iter().skip(pixel).step_by(SHAPE.pixels());
            images.pixels.extend(colours);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output_file::tests::Folder;

    /// Two records in each file to learn from, one in the other.
    fn folder(name: &str) -> Folder {
        let folder = Folder::new(&format!("cifar-{name}"));
        for batch in 1..=5 {
            let name = format!("data_batch_{batch}.bin");
            fs::write(folder.0.join(name), record(batch).repeat(2)).expect("written");
        }
        fs::write(folder.0.join("test_batch.bin"), record(9)).expect("written");
        folder
    }

    /// All red is 10, all green 20, all blue 30; the last pixel is 11, 21, 31.
    fn record(label: u8) -> Vec<u8> {
        let plane = |colour: u8| [vec![colour; 1023], vec![colour + 1]].concat();
        [vec![label], plane(10), plane(20), plane(30)].concat()
    }

    #[test]
    fn colours_come_side_by_side() {
        let folder = folder("good");
        let data = cifar10(&folder.0).expect("good");
        assert_eq!(data.train.labels, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
        assert_eq!(data.test.labels, [9]);
        assert_eq!(data.test.pixels[..6], [10, 20, 30, 10, 20, 30]);
        assert_eq!(data.test.pixels[3069..], [11, 21, 31]);
    }

    #[test]
    fn damage_is_named() {
        let folder = folder("damage");
        let error = |name: &str, bytes: &[u8]| {
            fs::write(folder.0.join(name), bytes).expect("written");
            let error = cifar10(&folder.0).expect_err(name).to_string();
            fs::write(folder.0.join(name), record(0)).expect("written");
            error
        };
        let message = error("data_batch_3.bin", &[0; RECORD_BYTES + 1]);
        assert!(
            message.contains("data_batch_3.bin: 3074 bytes"),
            "{message}"
        );
        assert!(message.contains("records of 3073 bytes"), "{message}");
        assert!(error("test_batch.bin", &[]).contains("0 bytes"));
        let message = error("test_batch.bin", &[record(1), record(10)].concat());
        assert!(message.contains("record 1 has label 10"), "{message}");
        fs::remove_file(folder.0.join("data_batch_5.bin")).expect("there");
        let message = cifar10(&folder.0).expect_err("missing").to_string();
        assert!(
            message.contains("data_batch_5.bin: No such file"),
            "{message}"
        );
        assert!(message.contains("--data takes a folder with"), "{message}");
    }
}
