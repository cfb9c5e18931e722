//! *Optical Recognition of Handwritten Digits*: 1,797 real images of 8 × 8 pixels, built in.
//!
//! Source and licence: `data/README.md` of this crate (CC BY 4.0). The file has no split of its
//! own; a fifth is held out, drawn once and for all.

use std::io::Read;

use flate2::read::GzDecoder;
use vtensor::Bytes;

use super::{DataError, Dataset, Images, shuffled};
use crate::train::model::Shape;

const FILE: &[u8] = include_bytes!("../../../data/digits.csv.gz");
/// More than the file unpacks to.
const TEXT_BYTES_MAX: Bytes = Bytes(1 << 20);
const PIXEL_MAX: u8 = 16;
/// Images that are held out.
const TEST: usize = 360;
/// Draws the split.
const SPLIT_SEED: u64 = 1797;

/// The size of each image.
pub const SHAPE: Shape = Shape {
    height: 8,
    width: 8,
    channels: 1,
};

/// The digits, 1,437 to learn from and 360 held out.
#[must_use]
pub fn digits() -> Dataset {
    let all = read(FILE).expect("the tests read the built-in file");
    let places = shuffled(all.len(), SPLIT_SEED);
    let (test, train) = places.split_at(TEST);
    let name = "Optical Recognition of Handwritten Digits (UCI, CC BY 4.0)";
    Dataset::new(name, SHAPE, 10, all.select(train), all.select(test))
}

/// Reads gzip'ed lines of 64 pixels and a digit.
fn read(file: &[u8]) -> Result<Images, DataError> {
    let mut text = String::new();
    let unpacked = GzDecoder::new(file)
        .take(TEXT_BYTES_MAX.0)
        .read_to_string(&mut text);
    unpacked.map_err(|error| DataError::Digits {
        line: 1,
        found: error.to_string(),
    })?;
    let mut images = Images::default();
    for (index, line) in text.lines().enumerate() {
        let wrong = |found: String| DataError::Digits {
            line: index + 1,
            found,
        };
        let numbers: Result<Vec<u8>, _> = line.split(',').map(str::parse).collect();
        let numbers = numbers.map_err(|error| wrong(error.to_string()))?;
        let Some((&label, pixels)) = numbers.split_last() else {
            return Err(wrong("nothing".into()));
        };
        if pixels.len() != SHAPE.floats() {
            return Err(wrong(format!("{} numbers", numbers.len())));
        }
        if label > 9 || pixels.iter().any(|pixel| *pixel > PIXEL_MAX) {
            return Err(wrong("a number that is too large".into()));
        }
        images.pixels.extend_from_slice(pixels);
        images.labels.push(label);
    }
    Ok(images)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use sha2::{Digest, Sha256};

    use super::*;

    /// Images of each digit, as published.
    const COUNTS: [usize; 10] = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180];

    #[test]
    fn the_built_in_file_is_the_published_one() {
        let all = read(FILE).expect("readable");
        assert_eq!(all.len(), 1797);
        for (digit, count) in (0_u8..).zip(COUNTS) {
            assert_eq!(
                all.labels.iter().filter(|l| **l == digit).count(),
                count,
                "{digit}"
            );
        }
        let sum: u64 = all.pixels.iter().map(|p| u64::from(*p)).sum();
        assert_eq!((sum, all.pixels.iter().max()), (561_718, Some(&16)));
        let digest = Sha256::digest(FILE);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let readme = include_str!("../../../data/README.md");
        assert!(readme.contains(&digest), "{digest}");
        assert!(readme.contains("10.24432/C50P49") && readme.contains("CC BY 4.0"));
    }

    #[test]
    fn the_split_is_whole_and_each_part_has_all_digits() {
        let data = digits();
        assert_eq!((data.train.len(), data.test.len()), (1437, 360));
        for (digit, count) in (0_u8..).zip(COUNTS) {
            let of = |images: &Images| images.labels.iter().filter(|l| **l == digit).count();
            assert_eq!(of(&data.train) + of(&data.test), count);
            assert!(of(&data.test) > 20, "{digit}");
        }
    }

    #[test]
    fn damage_is_named() {
        let packed = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text.as_bytes()).expect("memory");
            encoder.finish().expect("memory")
        };
        let line =
            |pixel: &str, label: &str| format!("{}{label}\n", format!("{pixel},").repeat(64));
        let good = line("16", "9");
        assert_eq!(read(&packed(&good)).expect("good").labels, [9]);
        for (text, wanted) in [
            (
                good.clone() + &line("17", "0"),
                "line 2: a number that is too large",
            ),
            (line("1", "10"), "line 1: a number that is too large"),
            ("1,2,3\n".into(), "line 1: 3 numbers"),
            (line("x", "1"), "line 1: invalid digit"),
            (line("-1", "1"), "line 1: invalid digit"),
        ] {
            let error = read(&packed(&text)).expect_err(wanted).to_string();
            assert!(
                error.contains(wanted) && error.contains("64 pixels"),
                "{error}"
            );
        }
        assert!(read(b"no gzip").is_err());
        assert!(read(&packed(&good)[..20]).is_err());
    }
}
