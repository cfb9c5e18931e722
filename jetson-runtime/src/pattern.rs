//! The bytes that a replay writes into tensors and expects to read back.
//!
//! The content of a tensor is a function of its id, a version that counts its writes, and the
//! offset: 8-byte little-endian words, `base(tensor, version) + index × STEP`, wrapping.
//!
//! Guarantees, for the bytes of one whole word: another tensor or version has another base, so
//! every word of it is wrong; another offset in the same tensor is another word, since `STEP` is
//! odd. For less than a word: the lowest byte of a base differs between any two versions of a
//! tensor that are fewer than 256 writes apart, so that even a tensor of one byte shows a lost or
//! repeated write; other confusions of less than a word may go unseen, once in 256 for one byte,
//! and always where the offset is wrong by a multiple of 2 KiB.
//!
//! *Not here*: when to write and to check (the replay's synthetic ops).

/// What a word adds to the one before it. Odd, so that no two words of a tensor are equal; its
/// bytes are those of 2^64 over the golden ratio, so that neighbours differ in all of them.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const WORD: usize = 8;
/// Words that are compared before anyone looks which bytes differ.
const BLOCK_WORDS: usize = 512;

/// Writes the content of version `version` of tensor `tensor` into `bytes`, which begin
/// `byte_offset` bytes behind the tensor's start.
pub fn fill(bytes: &mut [u8], tensor: u32, version: u32, byte_offset: u64) {
    let words = Words::at(tensor, version, byte_offset);
    let (head, rest) = bytes.split_at_mut(words.head.min(bytes.len()));
    words.copy_partial(head, words.skip);
    let mut word = words.first_whole(head.len());
    let mut chunks = rest.chunks_exact_mut(WORD);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(STEP);
    }
    let tail = chunks.into_remainder();
    tail.copy_from_slice(&word.to_le_bytes()[..tail.len()]);
}

/// How many of `bytes`, which begin `byte_offset` bytes behind the tensor's start, are not the
/// content of version `version` of tensor `tensor`.
#[must_use]
pub fn check(bytes: &[u8], tensor: u32, version: u32, byte_offset: u64) -> u64 {
    let words = Words::at(tensor, version, byte_offset);
    let (head, rest) = bytes.split_at(words.head.min(bytes.len()));
    let mut wanted = [0; WORD];
    words.copy_partial(&mut wanted[..head.len()], words.skip);
    let mut mismatches = count_differences(head, &wanted);
    let mut word = words.first_whole(head.len());
    let (whole, tail) = rest.split_at(rest.len() / WORD * WORD);
    for block in whole.chunks(BLOCK_WORDS * WORD) {
        if differs(block, word) {
            mismatches += count_block(block, word);
        }
        word = word.wrapping_add(STEP.wrapping_mul((block.len() / WORD) as u64));
    }
    mismatches += count_differences(tail, &word.to_le_bytes());
    mismatches
}

/// Where a slice lies among the words of its tensor.
struct Words {
    /// The word that the first byte belongs to.
    first: u64,
    /// Which byte of it that is.
    skip: usize,
    /// How many bytes come before the first whole word.
    head: usize,
}

impl Words {
    fn at(tensor: u32, version: u32, byte_offset: u64) -> Self {
        let index = byte_offset / WORD as u64;
        #[allow(clippy::cast_possible_truncation, reason = "below 8")]
        let skip = (byte_offset % WORD as u64) as usize;
        Self {
            first: base(tensor, version).wrapping_add(index.wrapping_mul(STEP)),
            skip,
            head: (WORD - skip) % WORD,
        }
    }

    /// Copies a part of the first word, from byte `skip` on.
    fn copy_partial(&self, bytes: &mut [u8], skip: usize) {
        if !bytes.is_empty() {
            bytes.copy_from_slice(&self.first.to_le_bytes()[skip..skip + bytes.len()]);
        }
    }

    /// The word behind a head of that many bytes.
    const fn first_whole(&self, head: usize) -> u64 {
        if head == 0 {
            self.first
        } else {
            self.first.wrapping_add(STEP)
        }
    }
}

/// A different number for each pair, with the property of the lowest byte that the module states.
const fn base(tensor: u32, version: u32) -> u64 {
    const LOW_56: u64 = (1 << 56) - 1;
    // A permutation of 56 bits mixes the tensor and all of the version but its lowest byte; that
    // byte, moved by a constant of the tensor, is the lowest one of the result.
    let mut high = (tensor as u64) << 24 | (version >> 8) as u64;
    high = high.wrapping_mul(0xbf58_476d_1ce4_e5b9) & LOW_56;
    high ^= high >> 29;
    high = high.wrapping_mul(0x94d0_49bb_1331_11eb) & LOW_56;
    high ^= high >> 31;
    let of_tensor = tensor.wrapping_mul(0x9e37_79b1) >> 24;
    high << 8 | (version.wrapping_add(of_tensor) & 0xff) as u64
}

/// Whether a block of whole words differs anywhere.
fn differs(block: &[u8], mut word: u64) -> bool {
    let mut difference = 0;
    for chunk in block.chunks_exact(WORD) {
        let found = u64::from_le_bytes(chunk.try_into().expect("chunks of one word"));
        difference |= found ^ word;
        word = word.wrapping_add(STEP);
    }
    difference != 0
}

#[cold]
fn count_block(block: &[u8], mut word: u64) -> u64 {
    let mut mismatches = 0;
    for chunk in block.chunks_exact(WORD) {
        mismatches += count_differences(chunk, &word.to_le_bytes());
        word = word.wrapping_add(STEP);
    }
    mismatches
}

fn count_differences(found: &[u8], wanted: &[u8]) -> u64 {
    found
        .iter()
        .zip(wanted)
        .filter(|(found, wanted)| found != wanted)
        .count() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The definition, byte by byte.
    fn byte(tensor: u32, version: u32, offset: u64) -> u8 {
        let word = base(tensor, version).wrapping_add((offset / 8).wrapping_mul(STEP));
        word.to_le_bytes()[(offset % 8) as usize]
    }

    #[test]
    fn slices_of_any_place_and_length_follow_the_definition() {
        for offset in (0..24).chain([4096, 1_000_003, (1 << 43) - 9]) {
            for length in (0..40).chain([4096, 4099, 10_001]) {
                let mut bytes = vec![0xaa; length + 2];
                fill(&mut bytes[1..=length], 5, 9, offset);
                let wanted: Vec<u8> = (0..length as u64).map(|i| byte(5, 9, offset + i)).collect();
                assert_eq!(bytes[1..=length], wanted, "{length} bytes at {offset}");
                assert_eq!(
                    (bytes[0], bytes[length + 1]),
                    (0xaa, 0xaa),
                    "nothing beside them"
                );
                assert_eq!(check(&bytes[1..=length], 5, 9, offset), 0);
            }
        }
    }

    #[test]
    fn each_wrong_byte_is_counted() {
        let mut bytes = vec![0; 9_000];
        fill(&mut bytes, 1, 1, 3);
        for position in (0..30).chain((30..9_000).step_by(97)).chain(8_990..9_000) {
            bytes[position] ^= 0x10;
            assert_eq!(check(&bytes, 1, 1, 3), 1, "byte {position}");
            bytes[position] ^= 0x10;
        }
        for byte in &mut bytes[100..5_000] {
            *byte = !*byte;
        }
        assert_eq!(check(&bytes, 1, 1, 3), 4_900);
    }

    #[test]
    fn every_word_of_another_content_is_wrong() {
        let mut bytes = vec![0; 800];
        let confusions = [
            (7, 4, 0),
            (7, 2, 0),
            (6, 3, 0),
            (8, 3, 0),
            (3, 7, 0),
            (0, 0, 0),
            (7, 3, 8),
        ];
        for (tensor, version, offset) in confusions {
            fill(&mut bytes, tensor, version, offset);
            for word in 0..100 {
                let found = check(&bytes[word * 8..][..8], 7, 3, word as u64 * 8);
                assert!(found > 0, "({tensor}, {version}) at {offset}, word {word}");
            }
        }
        let pages = (12..34).map(|power| 1 << power);
        for shift in (1..4096).chain(pages) {
            fill(&mut bytes, 7, 3, shift);
            for (word, found) in bytes.chunks_exact(8).enumerate() {
                assert!(
                    check(found, 7, 3, word as u64 * 8) > 0,
                    "shifted by {shift}, word {word}"
                );
            }
        }
        bytes.fill(0);
        assert!(check(&bytes, 7, 3, 0) > 700, "fresh pages");
    }

    #[test]
    fn bases_are_distinct() {
        let bases: HashSet<u64> = (0..1000)
            .flat_map(|t| (0..1000).map(move |v| base(t, v)))
            .collect();
        assert_eq!(bases.len(), 1_000_000);
        let far = [
            (u32::MAX, 0),
            (0, u32::MAX),
            (u32::MAX, u32::MAX),
            (1 << 24, 0),
            (0, 1 << 24),
        ];
        let far: HashSet<u64> = far.into_iter().map(|(t, v)| base(t, v)).collect();
        assert_eq!(far.len(), 5);
    }

    #[test]
    fn one_byte_shows_a_lost_write() {
        for tensor in 0..50 {
            for version in 0..600_u32 {
                let mut content = [0];
                fill(&mut content, tensor, version, 0);
                for lost in 1..256 {
                    assert_eq!(check(&content, tensor, version + lost, 0), 1);
                }
            }
        }
    }
}
