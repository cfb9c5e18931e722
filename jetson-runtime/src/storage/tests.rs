//! Channels on both paths, with both seals, and on a disk that fails.

use std::os::unix::fs::FileExt;
use std::ptr::NonNull;
use std::sync::Arc;

use nix::errno::Errno;

use super::blocks::Blocks;
use super::buffers::Buffers;
use super::disk::{Disk, Ended, Request};
use super::plain::Plain;
use super::sealer::Sealer;
use super::uring::Uring;
use super::*;
use crate::tests::disk;

mod disks;
mod lent;
mod random;
mod refused;

const FILE_BYTES: u64 = 1 << 20;
const REQUEST: u32 = 16 << 10;

fn options(integrity: Integrity, path: IoPath) -> StorageOptions {
    StorageOptions {
        integrity,
        path,
        request_bytes: Some(REQUEST),
        depth: 3,
        sealers: Some(1),
        memory_backed: false,
    }
}

fn all() -> Vec<StorageOptions> {
    let mut all = Vec::new();
    for integrity in [Integrity::Encrypt, Integrity::Checksum] {
        for path in [IoPath::Plain, IoPath::Uring] {
            all.push(options(integrity, path));
        }
    }
    all
}

/// A file with its seals.
fn file(options: &StorageOptions) -> (SpillFile, Arc<Seals>) {
    let file = SpillFile::new(&disk(), FILE_BYTES, false).unwrap();
    file.claim(0, FILE_BYTES).unwrap();
    (
        file,
        Arc::new(Seals::new(options.integrity, FILE_BYTES).unwrap()),
    )
}

/// As channels have it, with a thread beside.
fn sealer(seals: &Arc<Seals>) -> Sealer {
    Sealer::new(seals, 1).unwrap()
}

/// A channel, or `None` where the kernel does not allow `io_uring`.
fn open(file: &SpillFile, seals: &Arc<Seals>, options: &StorageOptions) -> Option<Channel> {
    match Channel::new(file, seals, options) {
        Ok(channel) => Some(channel),
        Err(error) => {
            assert_eq!(options.path, IoPath::Uring, "{error}");
            println!("SKIPPED: {error}");
            None
        }
    }
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at * 31 + at / 251 + seed * 7) as u8)
        .collect()
}

fn write(channel: &mut Channel, slot: u64, bytes: &[u8]) -> Result<(), TransferError> {
    // SAFETY: the source is a borrowed buffer; the channel is this test's own.
    unsafe { channel.write(slot, NonNull::from(bytes).cast(), bytes.len()) }
}

fn read(channel: &mut Channel, slot: u64, bytes: usize) -> Result<Vec<u8>, TransferError> {
    let mut back = vec![0xee; bytes];
    let target = NonNull::from(back.as_mut_slice()).cast();
    // SAFETY: the target is a borrowed buffer; the channel is this test's own.
    unsafe { channel.read(slot, target, bytes) }.map(|()| back)
}

#[test]
fn what_is_written_is_read_in_every_size() {
    for options in all() {
        let (file, seals) = file(&options);
        let Some(mut out) = open(&file, &seals, &options) else {
            continue;
        };
        let mut back = open(&file, &seals, &options).unwrap();
        for (turn, bytes) in [1, 511, 4096, 4097, 16384, 16385, 200_001, 0]
            .into_iter()
            .enumerate()
        {
            let slot = 4096 * (turn as u64 + 3);
            let plain = pattern(turn, bytes);
            write(&mut out, slot, &plain).unwrap();
            assert!(
                read(&mut back, slot, bytes).unwrap() == plain,
                "{options:?} {bytes}"
            );
            // Parts of it, as pieces come back in other runs than they left in.
            if bytes > 8192 {
                let part = read(&mut back, slot + 4096, bytes - 4096).unwrap();
                assert!(part == plain[4096..], "{options:?} {bytes}");
            }
        }
    }
}

#[test]
fn any_range_can_be_patched_and_peeked() {
    for options in all() {
        let (file, seals) = file(&options);
        let Some(mut channel) = open(&file, &seals, &options) else {
            continue;
        };
        let mut model = pattern(1, 60_000);
        write(&mut channel, 8192, &model).unwrap();
        for (turn, (start, bytes)) in [(0, 1), (4095, 2), (5000, 40_000), (59_999, 1), (7, 0)]
            .into_iter()
            .enumerate()
        {
            let new = pattern(turn + 5, bytes);
            let source = NonNull::from(new.as_slice()).cast();
            // SAFETY: the source is a borrowed buffer; the channel is this test's own.
            unsafe { channel.patch(8192 + start as u64, source, bytes) }.unwrap();
            model[start..start + bytes].copy_from_slice(&new);
            let mut part = vec![0; bytes];
            let target = NonNull::from(part.as_mut_slice()).cast();
            // SAFETY: the target is a borrowed buffer; the channel is this test's own.
            unsafe { channel.peek(8192 + start as u64, target, bytes) }.unwrap();
            assert!(part == new);
            assert!(
                read(&mut channel, 8192, 60_000).unwrap() == model,
                "{options:?} {start}"
            );
        }
    }
}

#[test]
fn a_byte_that_changes_behind_the_engine_is_found_and_named() {
    for options in all() {
        let (file, seals) = file(&options);
        let Some(mut channel) = open(&file, &seals, &options) else {
            continue;
        };
        let plain = pattern(2, 100_000);
        write(&mut channel, 0, &plain).unwrap();
        for at in [0, 20_000, 99_999] {
            let block = at / 4096 * 4096;
            // Through the same file: direct I/O moves whole blocks at aligned addresses.
            let buffer = Buffers::new(1, 4096).unwrap();
            // SAFETY: the buffer is live, aligned, and this test's own.
            let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.pointer(0).as_ptr(), 4096) };
            file.file.read_exact_at(bytes, block).unwrap();
            bytes[at as usize % 4096] ^= 1;
            file.file.write_all_at(bytes, block).unwrap();
            let damaged = TransferError {
                errno: Errno::EBADMSG,
                offset: block,
            };
            assert_eq!(
                read(&mut channel, 0, plain.len()),
                Err(damaged),
                "{options:?}"
            );
            bytes[at as usize % 4096] ^= 1;
            file.file.write_all_at(bytes, block).unwrap();
            assert!(
                read(&mut channel, 0, plain.len()).unwrap() == plain,
                "{options:?}"
            );
        }
    }
}

#[test]
fn the_file_holds_no_plaintext_when_it_is_encrypted() {
    let plain = b"a secret that repeats itself, and again, and once more".repeat(200);
    for integrity in [Integrity::Encrypt, Integrity::Checksum] {
        let options = options(integrity, IoPath::Plain);
        let (file, seals) = file(&options);
        let mut channel = open(&file, &seals, &options).unwrap();
        write(&mut channel, 0, &plain).unwrap();
        let mut raw = Vec::new();
        for block in 0..plain.len().div_ceil(4096) as u64 {
            let mut buffer = Buffers::new(1, 4096).unwrap();
            let bytes = buffer.slice(0, 4096);
            file.file.read_exact_at(bytes, block * 4096).unwrap();
            raw.extend_from_slice(bytes);
        }
        let found = raw.windows(12).any(|window| window == b"secret that ");
        assert_eq!(found, integrity == Integrity::Checksum);
    }
}

#[test]
fn a_ring_goes_on_with_short_requests() {
    let options = options(Integrity::Encrypt, IoPath::Uring);
    let (file, seals) = file(&options);
    let buffers = Buffers::new(3, REQUEST as usize).unwrap();
    let uring = match Uring::new(
        file.file.try_clone().unwrap(),
        buffers.all(),
        buffers.count(),
    ) {
        Ok(uring) => uring.in_parts(4096),
        Err(errno) => return println!("SKIPPED: io_uring is not allowed here: {errno}"),
    };
    let mut channel = Channel::on(
        Box::new(uring),
        Blocks::Own(buffers),
        sealer(&seals),
        FILE_BYTES,
    );
    let plain = pattern(9, 150_000);
    write(&mut channel, 4096, &plain).unwrap();
    assert!(read(&mut channel, 4096, plain.len()).unwrap() == plain);
}

/// Fails one request.
struct Failing {
    inner: Plain,
    after: u32,
    errno: Errno,
    failed: Option<usize>,
}

impl Disk for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn room(&self) -> usize {
        self.inner.room()
    }

    unsafe fn start(&mut self, request: Request) {
        if self.after == 0 {
            self.after = u32::MAX;
            self.failed = Some(request.buffer);
            return;
        }
        self.after -= 1;
        // SAFETY: the caller's promise is passed on.
        unsafe { self.inner.start(request) };
    }

    fn poll(&mut self) -> Option<Ended> {
        let errno = self.errno;
        let failed = self.failed.take().map(|buffer| Ended {
            buffer,
            result: Err(errno),
        });
        failed.or_else(|| self.inner.poll())
    }

    fn finish(&mut self) -> Ended {
        self.poll().unwrap_or_else(|| self.inner.finish())
    }
}

#[test]
fn every_request_can_fail_with_every_error() {
    let options = options(Integrity::Encrypt, IoPath::Plain);
    let plain = pattern(4, 10 * REQUEST as usize + 5);
    let requests = 11;
    for errno in [
        Errno::EIO,
        Errno::ENOSPC,
        Errno::EAGAIN,
        Errno::EINTR,
        Errno::EINVAL,
    ] {
        for after in 0..2 * requests {
            let (file, seals) = file(&options);
            let disk = Failing {
                inner: Plain::new(&file.file, 2).unwrap(),
                after,
                errno,
                failed: None,
            };
            let buffers = Buffers::new(3, REQUEST as usize).unwrap();
            let mut channel = Channel::on(
                Box::new(disk),
                Blocks::Own(buffers),
                sealer(&seals),
                FILE_BYTES,
            );
            let failed = TransferError {
                errno,
                offset: u64::from(after % requests) * u64::from(REQUEST),
            };
            let written = write(&mut channel, 0, &plain);
            if after < requests {
                assert_eq!(written, Err(failed));
                write(&mut channel, 0, &plain).unwrap();
            } else {
                assert_eq!(written, Ok(()));
                assert_eq!(read(&mut channel, 0, plain.len()), Err(failed));
            }
            // The channel is good again: nothing is in flight any more.
            assert!(
                read(&mut channel, 0, plain.len()).unwrap() == plain,
                "{errno} {after}"
            );
        }
    }
}

/// A copy of a buffer that outlives it.
fn copy_of(write: bool, slot: u64, bytes: &mut [u8]) -> BlockCopy {
    BlockCopy {
        write,
        slot,
        memory: NonNull::from(&mut *bytes).cast(),
        bytes: bytes.len(),
    }
}

/// Announces copies, as far as there is room, and makes them. How many were made, and the error.
fn make(channel: &mut Channel, copies: &[BlockCopy]) -> (usize, Result<(), TransferError>) {
    let mut announced = 0;
    for (made, copy) in copies.iter().enumerate() {
        // SAFETY: the callers' buffers outlive this call, and they touch them after it.
        while announced < copies.len() && unsafe { channel.announce(copies[announced]) } {
            announced += 1;
        }
        let result = match copy.write {
            // SAFETY: as above.
            true => unsafe { channel.write(copy.slot, copy.memory, copy.bytes) },
            // SAFETY: as above.
            false => unsafe { channel.read(copy.slot, copy.memory, copy.bytes) },
        };
        if result.is_err() {
            return (made, result);
        }
    }
    (copies.len(), Ok(()))
}

/// Twelve contents of different sizes, one behind the other in the file, and copies of them.
fn contents(write: bool) -> (Vec<Vec<u8>>, Vec<BlockCopy>) {
    let sizes = [
        5000, 70_000, 1, 4096, 100_000, 0, 16384, 33_000, 9, 60_000, 8192, 20_000,
    ];
    let mut slot = 4096;
    let contents = sizes.iter().enumerate();
    let mut contents: Vec<Vec<u8>> = contents
        .map(|(seed, bytes)| match write {
            true => pattern(seed, *bytes),
            false => vec![0; *bytes],
        })
        .collect();
    let copies = contents.iter_mut().map(|content| {
        let copy = copy_of(write, slot, content);
        slot += content.len().next_multiple_of(4096) as u64;
        copy
    });
    let copies = copies.collect();
    (contents, copies)
}

#[test]
fn announced_copies_bring_the_same_bytes() {
    for options in all() {
        let (file, seals) = file(&options);
        let Some(mut channel) = open(&file, &seals, &options) else {
            continue;
        };
        let (plain, outs) = contents(true);
        let (back, ins) = contents(false);
        // As engines do, nothing is announced before what it depends on is made: the outs that lie
        // between the ins are of the other half of the file.
        let (mut other, mut others) = contents(true);
        others
            .iter_mut()
            .for_each(|copy| copy.slot += FILE_BYTES / 2);
        let turns: Vec<BlockCopy> = ins
            .iter()
            .zip(&others)
            .flat_map(|(a, b)| [*a, *b])
            .collect();
        for copies in [&outs, &turns] {
            let all = (copies.len(), Ok(()));
            assert_eq!(make(&mut channel, copies), all, "{options:?}");
        }
        assert!(back == plain, "{options:?}");
        other.iter_mut().for_each(|content| content.fill(0));
        others.iter_mut().for_each(|copy| copy.write = false);
        assert_eq!(make(&mut channel, &others), (others.len(), Ok(())));
        assert!(other == plain, "{options:?}");
    }
}

#[test]
fn when_announced_copies_fail_the_first_that_did_is_named_and_those_before_are_made() {
    let options = options(Integrity::Encrypt, IoPath::Plain);
    let (plain, outs) = contents(true);
    let requests: Vec<(usize, u64)> = (0..outs.len())
        .flat_map(|copy| {
            let parts = outs[copy].bytes.div_ceil(REQUEST as usize) as u64;
            (0..parts).map(move |part| (copy, part * u64::from(REQUEST)))
        })
        .collect();
    for (after, (copy, offset)) in requests.iter().copied().enumerate() {
        for write in [true, false] {
            let (file, seals) = file(&options);
            let mut good = open(&file, &seals, &options).unwrap();
            if !write {
                assert_eq!(make(&mut good, &outs), (outs.len(), Ok(())));
            }
            let disk = Failing {
                inner: Plain::new(&file.file, 2).unwrap(),
                after: after as u32,
                errno: Errno::EIO,
                failed: None,
            };
            let buffers = Buffers::new(4, REQUEST as usize).unwrap();
            let mut channel = Channel::on(
                Box::new(disk),
                Blocks::Own(buffers),
                sealer(&seals),
                FILE_BYTES,
            );
            let (mut back, ins) = contents(false);
            let failed = TransferError {
                errno: Errno::EIO,
                offset,
            };
            let copies = if write { &outs } else { &ins };
            assert_eq!(make(&mut channel, copies), (copy, Err(failed)), "{after}");
            if write {
                assert_eq!(make(&mut good, &ins[..copy]), (copy, Ok(())));
            }
            assert!(back[..copy] == plain[..copy], "{write} {after}");
            // The channel is good again.
            assert_eq!(make(&mut channel, &outs), (outs.len(), Ok(())));
            assert_eq!(make(&mut channel, &ins), (ins.len(), Ok(())));
            back.truncate(plain.len());
            assert!(back == plain, "{write} {after}");
        }
    }
}

#[test]
fn a_channel_may_end_while_announced_copies_are_under_way() {
    for options in all() {
        let (file, seals) = file(&options);
        for turn in 0..20 {
            let Some(mut channel) = open(&file, &seals, &options) else {
                break;
            };
            let (_plain, outs) = contents(true);
            let made = turn % outs.len();
            for copy in &outs[made..] {
                // SAFETY: the contents outlive the channel, which is dropped first.
                unsafe { channel.announce(*copy) };
            }
            assert_eq!(make(&mut channel, &outs[made..=made]).0, 1);
            drop(channel);
        }
    }
}

#[test]
fn a_probe_measures_something() {
    for options in all() {
        let time = std::time::Duration::from_millis(50);
        match probe(&disk(), &options, time) {
            Ok(probe) => {
                assert!(
                    probe.bps.iter().chain(&probe.raw_bps).all(|bps| *bps > 1e5),
                    "{probe:?}"
                );
                assert!(probe.latency_ns.iter().all(|ns| *ns > 100), "{probe:?}");
                println!("{options:?}: {probe:?}");
            }
            Err(error) => assert_eq!(options.path, IoPath::Uring, "{error}"),
        }
    }
}
