//! Channels that use memory of somebody else's: sealed and opened there, or refused.

use std::num::NonZeroUsize;

use super::*;
use crate::error::RuntimeError;
use crate::region::Region;

/// A channel that uses memory of the test's, or `None` where the kernel does not allow `io_uring`.
fn lent(
    file: &SpillFile,
    seals: &Arc<Seals>,
    options: &StorageOptions,
    memory: NonNull<[u8]>,
) -> Option<Channel> {
    // SAFETY: callers keep the memory longer than the channel, and use it between copies only.
    match unsafe { Channel::lent(file, seals, options, memory) } {
        Ok(channel) => Some(channel),
        Err(error) => {
            assert_eq!(options.path, IoPath::Uring, "{error}");
            None
        }
    }
}

#[test]
fn lent_memory_is_sealed_and_opened_in_place() {
    for options in all() {
        let (file, seals) = file(&options);
        let mut ring = Buffers::new(4, 64 << 10).unwrap();
        let Some(mut channel) = lent(&file, &seals, &options, ring.all()) else {
            continue;
        };
        let sizes = [1, 4096, 4097, 16384, 50_001, 65_536];
        for (turn, bytes) in sizes.into_iter().enumerate() {
            let (index, plain) = (turn % 4, pattern(turn, bytes));
            let slot = 65_536 * turn as u64;
            ring.slice(index, bytes).copy_from_slice(&plain);
            let memory = ring.pointer(index);
            // SAFETY: the memory was lent, and the test does not use it meanwhile.
            unsafe { channel.write(slot, memory, bytes) }.unwrap();
            let readable = options.integrity == Integrity::Checksum;
            // A single byte may happen to be the same.
            if bytes > 16 {
                assert_eq!(ring.slice(index, bytes) == plain, readable);
            }
            ring.slice(index, 64 << 10).fill(0xee);
            // SAFETY: as above.
            unsafe { channel.read(slot, memory, bytes) }.unwrap();
            assert!(ring.slice(index, bytes) == plain, "{options:?} {bytes}");
            // Others see the same.
            let mut other = open(&file, &seals, &options).unwrap();
            assert!(read(&mut other, slot, bytes).unwrap() == plain);
        }
    }
}

#[test]
fn memory_that_files_are_not_read_into_is_refused() {
    let size = NonZeroUsize::new(64 << 10).unwrap();
    for options in all() {
        let (file, seals) = file(&options);
        if open(&file, &seals, &options).is_none() {
            continue;
        }
        let buffer = Buffers::new(1, size.get()).unwrap();
        // SAFETY: the buffer is longer.
        let odd = unsafe { buffer.pointer(0).add(512) };
        let region = Region::reserve(size).unwrap();
        let hidden = region.pointer(0, size.get());
        for (memory, errno) in [(odd, Errno::EINVAL), (hidden, Errno::EFAULT)] {
            let memory = NonNull::slice_from_raw_parts(memory, 4096);
            // SAFETY: the memory outlives what may come of it.
            match unsafe { Channel::lent(&file, &seals, &options, memory) } {
                Err(RuntimeError::System { errno: said, .. }) => assert_eq!(said, errno),
                Err(error) => panic!("{error}"),
                Ok(_) => panic!("{options:?}: {errno} is wanted"),
            }
        }
    }
}
