//! The content of tensors in replays, as the kernels write and check it.
//!
//! 8-byte little-endian words, `base(tensor, version) + index × STEP`, where the index counts the
//! words of the tensor. Tensor and version are cut to 32 bits. `check` counts wrong bytes.

use super::Content;
use crate::memory::bytes;
use crate::space::Place;

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD: usize = 8;

/// Writes the content to a place, which the driver resolved for writing.
pub(super) fn fill(place: Place, content: Content) {
    let mut at = 0;
    while at < place.bytes {
        let (word, skip) = word_at(content, at);
        let bytes = (WORD - skip).min(place.bytes - at);
        if bytes == WORD {
            // SAFETY: the word lies in the place.
            unsafe { bytes::store(place.at + at, word.to_le()) };
        } else {
            let part = &word.to_le_bytes()[skip..skip + bytes];
            let from = part.as_ptr().expose_provenance();
            // SAFETY: the part lies in the place; the source is a word of our own.
            unsafe { bytes::copy(place.at + at, from, bytes) };
        }
        at += bytes;
    }
}

/// How much at a place, which the driver resolved for reading, is not the content.
pub(super) fn check(place: Place, content: Content) -> u64 {
    let mut wrong = 0;
    let mut at = 0;
    while at < place.bytes {
        let (word, skip) = word_at(content, at);
        let bytes = (WORD - skip).min(place.bytes - at);
        if bytes == WORD {
            // SAFETY: the word lies in the place.
            let found = u64::from_le(unsafe { bytes::load(place.at + at) });
            if found != word {
                wrong += differing(&found.to_le_bytes(), &word.to_le_bytes());
            }
        } else {
            let mut found = [0; WORD];
            let to = found.as_mut_ptr().expose_provenance();
            // SAFETY: the part lies in the place; the target is a word of our own.
            unsafe { bytes::copy(to, place.at + at, bytes) };
            wrong += differing(&found[..bytes], &word.to_le_bytes()[skip..skip + bytes]);
        }
        at += bytes;
    }
    wrong
}

fn differing(found: &[u8], wanted: &[u8]) -> u64 {
    found.iter().zip(wanted).filter(|(a, b)| a != b).count() as u64
}

/// The word around byte `at` of a range, and which byte of the word that is.
fn word_at(content: Content, at: usize) -> (u64, usize) {
    let offset = content.offset.wrapping_add(at as u64);
    let base = base(content.tensor, content.version);
    let word = base.wrapping_add((offset / WORD as u64).wrapping_mul(STEP));
    #[allow(clippy::cast_possible_truncation, reason = "below 8")]
    let skip = (offset % WORD as u64) as usize;
    (word, skip)
}

/// Where the words of a tensor's version begin.
#[allow(
    clippy::cast_possible_truncation,
    reason = "the kernels cut both to 32 bits"
)]
const fn base(tensor: u64, version: u64) -> u64 {
    const LOW_56: u64 = (1 << 56) - 1;
    let (tensor, version) = (tensor as u32, version as u32);
    let mut high = (tensor as u64) << 24 | (version >> 8) as u64;
    high = high.wrapping_mul(0xbf58_476d_1ce4_e5b9) & LOW_56;
    high ^= high >> 29;
    high = high.wrapping_mul(0x94d0_49bb_1331_11eb) & LOW_56;
    high ^= high >> 31;
    let of_tensor = tensor.wrapping_mul(0x9e37_79b1) >> 24;
    high << 8 | (version.wrapping_add(of_tensor) & 0xff) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: [(u64, u64, u64); 2] = [
        (5, 9, 0x3925_e116_e8bd_8e20),
        (70_000, 300, 0x75ea_1841_6779_db8d),
    ];

    fn place(bytes: &mut [u8]) -> Place {
        Place {
            at: bytes.as_mut_ptr().expose_provenance(),
            bytes: bytes.len(),
        }
    }

    fn content(tensor: u64, version: u64, offset: u64) -> Content {
        Content {
            tensor,
            version,
            offset,
        }
    }

    #[test]
    fn words_are_those_of_replays() {
        // What the replay's own writer puts there for tensor 5, version 9 and for 70000, 300.
        for (tensor, version, wanted) in WORDS {
            let mut bytes = [0; 16];
            fill(place(&mut bytes), content(tensor, version, 0));
            let words = [0, 8].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
            assert_eq!(words, [wanted, wanted.wrapping_add(STEP)]);
        }
    }

    #[test]
    fn what_was_filled_is_right_and_a_change_is_wrong_once() {
        for offset in [0, 3, 8, 4093] {
            for length in [1, 7, 8, 9, 100, 4099] {
                let mut bytes = vec![0; length + 2];
                fill(place(&mut bytes[1..=length]), content(5, 9, offset));
                assert_eq!((bytes[0], bytes[length + 1]), (0, 0), "nothing beside it");
                let found = |bytes: &mut [u8], version| {
                    check(place(&mut bytes[1..=length]), content(5, version, offset))
                };
                assert_eq!(found(&mut bytes, 9), 0);
                if length >= 8 {
                    assert!(
                        found(&mut bytes, 10) > 0,
                        "every word of another version is wrong"
                    );
                }
                bytes[length] ^= 1;
                assert_eq!(found(&mut bytes, 9), 1);
            }
        }
    }
}
