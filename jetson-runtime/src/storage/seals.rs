//! Seals: each block of the file is sealed under its place, and a change of it is noticed.
//!
//! Encrypted blocks use AES-256-GCM (NIST SP 800-38D). The nonce is a 64-bit counter of block
//! writes, which never repeats for a key; the key is made for the file and dies with it. The
//! additional data is the block's number, so that blocks cannot change places. Tag and counter stay
//! in memory, 24 bytes for each block that was written: an old content of the same block is
//! noticed, too.
//!
//! Guarantees: no lock, no allocation. Blocks of one file may be sealed and opened by several
//! threads at once, as long as no block is used by two: that is what a verified plan proves.

use std::num::NonZeroUsize;
use std::ops::RangeFrom;
use std::ptr::{self, NonNull};
use std::slice::ChunksExactMut;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};

use super::BLOCK_BYTES;
use super::options::Integrity;
use super::vault::Vault;
use crate::error::RuntimeError;
use crate::region::Region;
use crate::scale::to_usize;

/// Words of a row: the counter of the write, or 0; then tag or checksum.
const ROW_WORDS: usize = 3;
const ROW_BYTES: usize = ROW_WORDS * size_of::<u64>();

enum Method {
    Encrypt(Vault<LessSafeKey>),
    Checksum,
}

/// The seals of a file.
pub(crate) struct Seals {
    method: Method,
    /// Block writes so far.
    writes: AtomicU64,
    /// A row for each block; memory is taken as they are written. `None` for an empty file.
    rows: Option<Region>,
}

/// The first block that does not hold what was written, counted from those given.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damaged(pub(super) usize);

impl Seals {
    /// Seals for a file of `bytes` bytes.
    pub(crate) fn new(integrity: Integrity, bytes: u64) -> Result<Self, RuntimeError> {
        let method = match integrity {
            Integrity::Checksum => Method::Checksum,
            Integrity::Encrypt => Method::Encrypt(key()?),
        };
        let rows = to_usize(bytes).div_ceil(BLOCK_BYTES) * ROW_BYTES;
        let rows = NonZeroUsize::new(rows).map(Region::lazy).transpose();
        Ok(Self {
            method,
            writes: AtomicU64::new(0),
            rows: rows.map_err(RuntimeError::system(
                "reserve memory for the seals of the spill",
            ))?,
        })
    }

    /// Seals whole blocks, in place, as block `first` and those after it.
    pub(super) fn seal(&self, first: u64, data: &mut [u8]) {
        let Method::Encrypt(key) = &self.method else {
            return self.sum(first, data);
        };
        for (counter, (block, data)) in self.counters(data).zip((first..).zip(blocks_mut(data))) {
            let tag = key
                .seal_in_place_separate_tag(nonce(counter), place(block), data)
                .expect("a block is far below the limit of the cipher");
            let [low, high] = words(tag.as_ref());
            self.note(block, [counter, low, high]);
        }
    }

    /// Notes the checksums of whole blocks, as block `first` and those after it.
    fn sum(&self, first: u64, data: &[u8]) {
        let blocks = (first..).zip(data.chunks_exact(BLOCK_BYTES));
        for (counter, (block, data)) in self.counters(data).zip(blocks) {
            self.note(block, [counter, crc32c::crc32c(data).into(), 0]);
        }
    }

    /// Numbers for the writes of whole blocks. They begin with 1: a row of zeroes is a block that
    /// was never written.
    fn counters(&self, data: &[u8]) -> RangeFrom<u64> {
        assert!(data.len().is_multiple_of(BLOCK_BYTES), "blocks are whole");
        let count = (data.len() / BLOCK_BYTES) as u64;
        // Relaxed: all that is asked of it is that no two writes get the same, and nothing is
        // concluded from its order.
        self.writes.fetch_add(count, Ordering::Relaxed) + 1..
    }

    /// Opens whole blocks, in place.
    pub(super) fn open(&self, first: u64, data: &mut [u8]) -> Result<(), Damaged> {
        let Method::Encrypt(key) = &self.method else {
            return self.check(first, data);
        };
        for (at, data) in blocks_mut(data).enumerate() {
            let block = first + at as u64;
            let [counter, low, high] = self.row(block);
            let mut tag = [0; 16];
            tag[..8].copy_from_slice(&low.to_le_bytes());
            tag[8..].copy_from_slice(&high.to_le_bytes());
            let (nonce, place) = (nonce(counter), place(block));
            let opened = key.open_in_place_separate_tag(nonce, place, Tag::from(tag), data, 0..);
            if counter == 0 || opened.is_err() {
                return Err(Damaged(at));
            }
        }
        Ok(())
    }

    /// Compares the checksums of whole blocks.
    fn check(&self, first: u64, data: &[u8]) -> Result<(), Damaged> {
        let mut blocks = (first..).zip(data.chunks_exact(BLOCK_BYTES));
        let damaged = blocks.position(|(block, data)| {
            let [counter, sum, _] = self.row(block);
            counter == 0 || u64::from(crc32c::crc32c(data)) != sum
        });
        damaged.map_or(Ok(()), |at| Err(Damaged(at)))
    }

    /// Copies `bytes` bytes into a buffer, with zeroes after them, and seals it as block `first`
    /// and those after it. A buffer that a core's cache holds is sealed there.
    ///
    /// # Safety
    /// `source` is readable for `bytes` bytes and is the buffer or lies elsewhere, and nobody
    /// writes them meanwhile. The buffer has the blocks of these bytes and no more.
    pub(super) unsafe fn copy_in(
        &self,
        first: u64,
        source: NonNull<u8>,
        bytes: usize,
        buffer: &mut [u8],
    ) {
        let (whole, rest) = buffer.split_at_mut(bytes);
        if source.as_ptr() != whole.as_mut_ptr() {
            // SAFETY: the caller vouches for the source; the buffer is as long, elsewhere.
            unsafe { ptr::copy_nonoverlapping(source.as_ptr(), whole.as_mut_ptr(), bytes) };
        }
        rest.fill(0);
        self.seal(first, buffer);
    }

    /// Opens a buffer that holds block `first` and those after it, in place, and copies `bytes`
    /// bytes of it out, if no block is damaged.
    ///
    /// # Safety
    /// `target` is writable for `bytes` bytes and is the buffer or lies elsewhere, and nobody uses
    /// them meanwhile. The buffer has the blocks of these bytes and no more.
    pub(super) unsafe fn copy_out(
        &self,
        first: u64,
        buffer: &mut [u8],
        target: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), Damaged> {
        self.open(first, buffer)?;
        let opened = &buffer[..bytes];
        if target.as_ptr().cast_const() != opened.as_ptr() {
            // SAFETY: the caller vouches for the target; what was opened is as long, elsewhere.
            unsafe { ptr::copy_nonoverlapping(opened.as_ptr(), target.as_ptr(), bytes) };
        }
        Ok(())
    }

    /// Whether a block was written since it was last forgotten.
    pub(super) fn is_written(&self, block: u64) -> bool {
        self.row(block)[0] > 0
    }

    /// Forgets whole blocks: their space was given back.
    pub(crate) fn forget(&self, start: u64, bytes: u64) -> Result<(), Errno> {
        let Some(rows) = &self.rows else {
            return Ok(());
        };
        let first = start.div_ceil(BLOCK_BYTES as u64);
        let end = (start + bytes) / BLOCK_BYTES as u64;
        let count = end.saturating_sub(first);
        // Whole pages go back to the system; the rest is zeroed.
        let (from, to) = (first * ROW_BYTES as u64, (first + count) * ROW_BYTES as u64);
        let page = crate::scale::system_page();
        let pages = from.next_multiple_of(page)..to / page * page;
        if pages.start >= pages.end {
            (first..first + count).for_each(|block| self.note(block, [0; ROW_WORDS]));
            return Ok(());
        }
        rows.release(pages.start, to_usize(pages.end - pages.start))?;
        let row = ROW_BYTES as u64;
        let edges = (first..pages.start.div_ceil(row)).chain(pages.end / row..end);
        edges.for_each(|block| self.note(block, [0; ROW_WORDS]));
        Ok(())
    }

    /// Block writes so far: the last nonce.
    #[cfg(test)]
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    fn words(&self, block: u64) -> [&AtomicU64; ROW_WORDS] {
        let rows = self.rows.as_ref().expect("a file with blocks has rows");
        let start: NonNull<AtomicU64> = rows.pointer(block * ROW_BYTES as u64, ROW_BYTES).cast();
        std::array::from_fn(|word| {
            // SAFETY: `pointer` has checked that the row lies in the region.
            let word = unsafe { start.add(word) };
            // SAFETY: the region lives as long as `self`, begins at a page, and rows are whole
            // words: the word is aligned. It is only ever used as an atomic.
            unsafe { word.as_ref() }
        })
    }

    // Whoever opens a block knows that it was sealed through the counters of the engines, which
    // order more than these words.
    fn note(&self, block: u64, row: [u64; ROW_WORDS]) {
        for (word, value) in self.words(block).into_iter().zip(row) {
            word.store(value, Ordering::Relaxed);
        }
    }

    fn row(&self, block: u64) -> [u64; ROW_WORDS] {
        self.words(block).map(|word| word.load(Ordering::Relaxed))
    }
}

fn blocks_mut(data: &mut [u8]) -> ChunksExactMut<'_, u8> {
    data.chunks_exact_mut(BLOCK_BYTES)
}

/// A new key, in locked memory.
fn key() -> Result<Vault<LessSafeKey>, RuntimeError> {
    let mut bytes = [0; 32];
    let random = SystemRandom::new().fill(&mut bytes);
    random.map_err(|_| RuntimeError::System {
        what: "give random bytes for a key",
        errno: Errno::EIO,
    })?;
    let make = || {
        let key = UnboundKey::new(&AES_256_GCM, &bytes).expect("the key has the right length");
        LessSafeKey::new(key)
    };
    let key = Vault::new(make).map_err(RuntimeError::system(
        "lock the key of the spill file in memory; raise the limit on that (RLIMIT_MEMLOCK)",
    ));
    // The copy on the stack.
    for byte in &mut bytes {
        // SAFETY: the byte is a live local variable.
        unsafe { std::ptr::write_volatile(byte, 0) };
    }
    key
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[NONCE_LEN - 8..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn place(block: u64) -> Aad<[u8; 8]> {
    Aad::from(block.to_be_bytes())
}

fn words(tag: &[u8]) -> [u64; 2] {
    let word = |at: usize| {
        u64::from_le_bytes(tag[at..at + 8].try_into().expect("a tag has sixteen bytes"))
    };
    [word(0), word(8)]
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)]
mod tests {
    use std::collections::HashSet;
    use std::fs;

    use super::*;

    const BLOCKS: u64 = 1000;

    fn data(seed: u8, blocks: usize) -> Vec<u8> {
        (0..blocks * BLOCK_BYTES)
            .map(|at| (at / 7) as u8 ^ seed)
            .collect()
    }

    #[test]
    fn what_is_sealed_is_opened_and_every_change_is_noticed() {
        for integrity in [Integrity::Encrypt, Integrity::Checksum] {
            let seals = Seals::new(integrity, BLOCKS * BLOCK_BYTES as u64).unwrap();
            let plain = data(3, 5);
            let mut sealed = plain.clone();
            seals.seal(10, &mut sealed);
            assert_eq!(sealed == plain, integrity == Integrity::Checksum);
            let mut opened = sealed.clone();
            seals.open(10, &mut opened).unwrap();
            assert!(opened == plain);
            for (block, byte) in [(0, 0), (2, 4095), (4, 2000)] {
                let mut changed = sealed.clone();
                changed[block * BLOCK_BYTES + byte] ^= 0x10;
                assert_eq!(
                    seals.open(10, &mut changed),
                    Err(Damaged(block)),
                    "{integrity:?}"
                );
            }
            assert_eq!(
                seals.open(11, &mut sealed.clone()),
                Err(Damaged(0)),
                "moved"
            );
            assert_eq!(
                seals.open(500, &mut sealed.clone()),
                Err(Damaged(0)),
                "never written"
            );
            // An old content does not come back.
            let mut newer = data(4, 1);
            seals.seal(12, &mut newer);
            assert_eq!(seals.open(10, &mut sealed.clone()), Err(Damaged(2)));
        }
    }

    /// What the stack of this thread holds, its unused part included.
    fn stack() -> Vec<u8> {
        let here = 0_u8;
        let here = ptr::from_ref(&here).expose_provenance();
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let ranges = maps.lines().filter_map(|line| {
            let (start, rest) = line.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some((number(start)?, number(rest.split_once(' ')?.0)?))
        });
        let (start, end) = ranges
            .into_iter()
            .find(|(start, end)| (*start..*end).contains(&here))
            .unwrap();
        let byte = |at| ptr::with_exposed_provenance::<u8>(at);
        // SAFETY: what is mapped there is this thread's stack, which can be read to its end.
        (start..end)
            .map(|at| unsafe { byte(at).read_volatile() })
            .collect()
    }

    #[test]
    fn the_key_is_in_its_vault_and_nowhere_else() {
        let seals = Seals::new(Integrity::Encrypt, BLOCK_BYTES as u64).unwrap();
        seals.seal(0, &mut data(1, 1));
        let stack = stack();
        let Method::Encrypt(vault) = &seals.method else {
            unreachable!("that was asked for");
        };
        let key = NonNull::from(&**vault).cast::<u8>();
        // SAFETY: the vault has zeroes where its value has padding: every byte can be read.
        let key = unsafe { std::slice::from_raw_parts(key.as_ptr(), size_of::<LessSafeKey>()) };
        let telling = |part: &&[u8]| part.iter().filter(|byte| **byte > 0).count() > 6;
        let parts: HashSet<&[u8]> = key.chunks_exact(8).filter(telling).collect();
        assert!(parts.len() >= 4, "a key has 32 bytes");
        let found = stack.windows(8).filter(|part| parts.contains(part)).count();
        assert_eq!(found, 0, "parts of the key, of {}", parts.len());
    }

    #[test]
    fn nonces_do_not_repeat_whoever_seals() {
        let seals = Seals::new(Integrity::Encrypt, BLOCKS * BLOCK_BYTES as u64).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let seals = &seals;
                scope.spawn(move || {
                    for turn in 0..50 {
                        let first = thread * 250 + turn % 5 * 50;
                        seals.seal(first, &mut data(turn as u8, 1 + turn as usize % 3));
                    }
                });
            }
        });
        let mut counters: Vec<u64> = (0..BLOCKS).map(|block| seals.row(block)[0]).collect();
        counters.retain(|counter| *counter > 0);
        counters.sort_unstable();
        let written = counters.len();
        counters.dedup();
        assert_eq!(counters.len(), written);
        let per_thread: u64 = (0..50).map(|turn| 1 + turn % 3).sum();
        assert_eq!(
            seals.writes(),
            4 * per_thread,
            "each block write has its own"
        );
        assert_eq!(nonce(258).as_ref()[10..], [1, 2]);
    }

    #[test]
    fn forgotten_blocks_are_as_never_written() {
        let bytes = BLOCKS * BLOCK_BYTES as u64;
        for range in [0..BLOCKS, 3..7, 100..900, 5..5] {
            let seals = Seals::new(Integrity::Checksum, bytes).unwrap();
            seals.seal(0, &mut data(1, BLOCKS as usize));
            let block = BLOCK_BYTES as u64;
            let length = (range.end - range.start) * block;
            seals.forget(range.start * block, length).unwrap();
            for at in 0..BLOCKS {
                assert_eq!(seals.is_written(at), !range.contains(&at), "{range:?} {at}");
            }
        }
    }
}
