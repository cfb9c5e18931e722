//! The spill tier: where pieces go. Either memory, or an unlinked file.
//!
//! In: a size, taken before the first use. Out: reads and writes of slots, from any thread.
//!
//! Guarantees: space is taken at freeze, so a full disk is an error there and not in the loop. For
//! what a file guarantees see `storage`. Limits: memory of a tier in RAM is the host's.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use tracing::info;
use vtensor::Bytes;

use crate::error::RuntimeError;
use crate::memory;
use crate::region::Region;
use crate::scale::to_usize;
use crate::storage::{BlockCopy, Channel, Seals, SpillFile, StorageOptions, TransferError};

/// Requests in flight for the application between iterations, which is not in a hurry: fewer take
/// less memory, as does sealing alone.
const DEPTH_AT_REST: u32 = 2;

/// Where pieces go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Spill {
    /// Memory of the host, beside the arena.
    #[default]
    Ram,
    /// An unlinked file in this directory.
    File(PathBuf),
}

/// A spill tier of a fixed size.
#[derive(Debug)]
pub(crate) enum Tier {
    /// A plan that spills nothing.
    Empty,
    Ram(Region),
    File(Storage),
    /// A file of a replay at a smaller scale, whose pieces are smaller than any block: it goes
    /// through the page cache, unsealed. What is replayed there are patterns.
    Scaled(SpillFile),
}

/// A file with its seals.
pub(crate) struct Storage {
    file: SpillFile,
    seals: Arc<Seals>,
    options: StorageOptions,
    /// For the application, between iterations; made at its first use. Engines have their own.
    rest: Mutex<Option<Box<Channel>>>,
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, options) = (&self.file, &self.options);
        write!(f, "Storage {{ {file:?}, {options:?} }}")
    }
}

impl Storage {
    fn new(
        directory: &std::path::Path,
        bytes: u64,
        options: &StorageOptions,
    ) -> Result<Self, RuntimeError> {
        Ok(Self {
            file: SpillFile::new(directory, bytes, options.memory_backed)?,
            seals: Arc::new(Seals::new(options.integrity, bytes)?),
            options: *options,
            rest: Mutex::new(None),
        })
    }

    fn channel(&self) -> Result<Channel, RuntimeError> {
        Channel::new(&self.file, &self.seals, &self.options)
    }

    /// A channel that uses a driver's memory, which its copies lie in.
    ///
    /// # Safety
    /// As [`Channel::lent`].
    unsafe fn lent(&self, memory: NonNull<[u8]>) -> Result<Channel, RuntimeError> {
        // SAFETY: the caller's promise is passed on.
        unsafe { Channel::lent(&self.file, &self.seals, &self.options, memory) }
    }

    /// Lets the application use the file.
    fn at_rest(
        &self,
        work: impl FnOnce(&mut Channel) -> Result<(), TransferError>,
    ) -> Result<(), TransferError> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if rest.is_none() {
            let options = StorageOptions {
                depth: self.options.depth.min(DEPTH_AT_REST),
                sealers: Some(0),
                ..self.options
            };
            let channel = Channel::new(&self.file, &self.seals, &options);
            *rest = Some(Box::new(channel.map_err(|error| match error {
                RuntimeError::System { errno, .. } => errno,
                // What it demands is memory.
                _ => Errno::ENOMEM,
            })?));
        }
        let channel = rest.as_mut().expect("it was just made");
        work(channel)
    }
}

impl Tier {
    /// Takes `bytes` bytes for a tier.
    pub(crate) fn new(
        spill: &Spill,
        options: &StorageOptions,
        bytes: u64,
    ) -> Result<Self, RuntimeError> {
        let tier = match (spill, NonZeroUsize::new(to_usize(bytes))) {
            (_, None) => Self::Empty,
            (Spill::Ram, Some(size)) => {
                memory::demand("spill tier in RAM", bytes)?;
                Region::memory(size)
                    .map(Self::Ram)
                    .map_err(RuntimeError::system("take memory for the spill tier"))?
            }
            (Spill::File(directory), Some(_)) => {
                let bytes = bytes.next_multiple_of(vtensor::limits::SLOT_ALIGN);
                let storage = Storage::new(directory, bytes, options)?;
                storage.file.claim(0, bytes)?;
                Self::File(storage)
            }
        };
        Ok(tier)
    }

    /// Takes `bytes` bytes for a replay at a smaller scale.
    pub(crate) fn scaled(
        spill: &Spill,
        options: &StorageOptions,
        bytes: u64,
    ) -> Result<Self, RuntimeError> {
        match spill {
            Spill::File(directory) if bytes > 0 => {
                let file = SpillFile::cached(directory, bytes, options.memory_backed)?;
                file.claim(0, bytes)?;
                Ok(Self::Scaled(file))
            }
            _ => Self::new(spill, options, bytes),
        }
    }

    /// A tier of at most `bytes` bytes that takes no space until it is claimed.
    pub(crate) fn unclaimed(
        spill: &Spill,
        options: &StorageOptions,
        bytes: u64,
    ) -> Result<Self, RuntimeError> {
        match (spill, NonZeroUsize::new(to_usize(bytes))) {
            (_, None) => Ok(Self::Empty),
            (Spill::Ram, Some(size)) => {
                Region::lazy(size)
                    .map(Self::Ram)
                    .map_err(RuntimeError::system(
                        "reserve addresses for the spill tier in RAM",
                    ))
            }
            (Spill::File(directory), Some(_)) => {
                Storage::new(directory, bytes, options).map(Self::File)
            }
        }
    }

    /// Takes the space of slots, so that writing them cannot fail for lack of it.
    pub(crate) fn claim(&self, slot: u64, bytes: u64) -> Result<(), RuntimeError> {
        match self {
            Self::Empty => Ok(()),
            Self::Ram(_) => memory::demand("spill tier in RAM", bytes),
            Self::File(storage) => storage.file.claim(slot, bytes),
            Self::Scaled(file) => file.claim(slot, bytes),
        }
    }

    /// Gives the space of slots back; what they hold is gone. What is not a whole block stays.
    pub(crate) fn release(&self, slot: u64, bytes: u64) -> Result<(), RuntimeError> {
        let released = match self {
            Self::Empty => Ok(()),
            Self::Ram(region) => region.release(slot, to_usize(bytes)),
            Self::File(storage) => storage
                .seals
                .forget(slot, bytes)
                .and_then(|()| storage.file.release(slot, bytes)),
            Self::Scaled(file) => file.release(slot, bytes),
        };
        released.map_err(RuntimeError::system("give space of the spill tier back"))
    }

    /// The size of the tier.
    pub(crate) const fn bytes(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Ram(region) => region.bytes() as u64,
            Self::File(storage) => storage.file.bytes(),
            Self::Scaled(file) => file.bytes(),
        }
    }

    /// Copies `bytes` bytes from `source` to a slot, or a part of one. Not for the loop.
    ///
    /// # Safety
    /// `source` is readable for `bytes` bytes, and nobody writes them, or touches the slot,
    /// meanwhile.
    pub(crate) unsafe fn write(
        &self,
        slot: u64,
        source: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), TransferError> {
        match self {
            Self::File(storage) => storage.at_rest(|channel| {
                // SAFETY: the caller's promise is passed on.
                unsafe { channel.patch(slot, source, bytes) }
            }),
            // SAFETY: the caller's promise is passed on.
            simple => Ok(unsafe { simple.copy_in(slot, source, bytes) }?),
        }
    }

    /// Copies `bytes` bytes from a slot, or a part of one, to `target`. Not for the loop.
    ///
    /// # Safety
    /// `target` is writable for `bytes` bytes, and nobody touches them, or writes the slot,
    /// meanwhile.
    pub(crate) unsafe fn read(
        &self,
        slot: u64,
        target: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), TransferError> {
        match self {
            Self::File(storage) => storage.at_rest(|channel| {
                // SAFETY: the caller's promise is passed on.
                unsafe { channel.peek(slot, target, bytes) }
            }),
            // SAFETY: the caller's promise is passed on.
            simple => Ok(unsafe { simple.copy_out(slot, target, bytes) }?),
        }
    }

    /// Copies into a tier that has no blocks.
    ///
    /// # Safety
    /// As [`Self::write`].
    unsafe fn copy_in(&self, slot: u64, source: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
        match self {
            Self::Empty => assert_eq!(bytes, 0, "slots lie in the tier"),
            Self::Ram(region) => {
                let target = region.pointer(slot, bytes);
                // SAFETY: the caller vouches for the source, `pointer` for the target; a tier's
                // region and the windows are different mappings of different memory.
                unsafe { ptr::copy_nonoverlapping(source.as_ptr(), target.as_ptr(), bytes) };
            }
            Self::Scaled(file) => {
                // SAFETY: the caller vouches for the source.
                let source = unsafe { std::slice::from_raw_parts(source.as_ptr(), bytes) };
                file.write_bytes(slot, source)?;
            }
            Self::File(_) => unreachable!("blocks go through a channel"),
        }
        Ok(())
    }

    /// Copies out of a tier that has no blocks.
    ///
    /// # Safety
    /// As [`Self::read`].
    unsafe fn copy_out(&self, slot: u64, target: NonNull<u8>, bytes: usize) -> Result<(), Errno> {
        match self {
            Self::Empty => assert_eq!(bytes, 0, "slots lie in the tier"),
            Self::Ram(region) => {
                let source = region.pointer(slot, bytes);
                // SAFETY: the caller vouches for the target, `pointer` for the source; a tier's
                // region and the windows are different mappings of different memory.
                unsafe { ptr::copy_nonoverlapping(source.as_ptr(), target.as_ptr(), bytes) };
            }
            Self::Scaled(file) => {
                // SAFETY: the caller vouches for the target, which is initialised memory.
                let target = unsafe { std::slice::from_raw_parts_mut(target.as_ptr(), bytes) };
                file.read_bytes(slot, target)?;
            }
            Self::File(_) => unreachable!("blocks go through a channel"),
        }
        Ok(())
    }

    /// Memory, or disk, that the system holds for the tier now.
    pub(crate) fn allocated(&self) -> Result<Bytes, RuntimeError> {
        match self {
            Self::Empty => Ok(Bytes(0)),
            Self::Ram(region) => Ok(Bytes(region.bytes() as u64)),
            Self::File(storage) => storage
                .file
                .allocated()
                .map_err(RuntimeError::system("measure the spill file")),
            Self::Scaled(file) => file
                .allocated()
                .map_err(RuntimeError::system("measure the spill file")),
        }
    }
}

/// The tier as one engine uses it.
pub(crate) struct Port {
    tier: Arc<Tier>,
    /// `None` for a tier in memory.
    channel: Option<Channel>,
}

impl Port {
    /// Takes what an engine needs.
    pub(crate) fn new(tier: &Arc<Tier>) -> Result<Self, RuntimeError> {
        let channel = match &**tier {
            Tier::Empty | Tier::Ram(_) | Tier::Scaled(_) => None,
            Tier::File(storage) => Some(storage.channel()?),
        };
        Ok(Self {
            tier: Arc::clone(tier),
            channel,
        })
    }

    /// As [`Self::new`], for copies that all lie in `memory`, at blocks of it and with the whole of
    /// their last one: it takes the place of buffers, if the kernel reads files into such memory.
    ///
    /// # Safety
    /// The memory outlives the port. It is the port's where copies are made or announced, whole
    /// blocks of it; what a copy to the tier leaves there is anything.
    pub(crate) unsafe fn lent(
        tier: &Arc<Tier>,
        memory: NonNull<[u8]>,
    ) -> Result<Self, RuntimeError> {
        let Tier::File(storage) = &**tier else {
            return Self::new(tier);
        };
        // SAFETY: the caller's promise is passed on.
        match unsafe { storage.lent(memory) } {
            Ok(channel) => Ok(Self {
                tier: Arc::clone(tier),
                channel: Some(channel),
            }),
            Err(error) => {
                info!(%error, "copies go through buffers of the host's");
                Self::new(tier)
            }
        }
    }

    /// Lets a copy begin while others are made. Answers whether it was taken on.
    ///
    /// # Safety
    /// As for the copy itself, from now on until it was made, or one before it has failed, or the
    /// port is gone. The copies that follow are the announced ones, in this order.
    pub(crate) unsafe fn announce(&mut self, copy: BlockCopy) -> bool {
        match &mut self.channel {
            // SAFETY: the caller's promise is passed on.
            Some(channel) => unsafe { channel.announce(copy) },
            None => false,
        }
    }

    /// Copies pieces to their slot, which begins at a block and has the whole of its last one.
    ///
    /// # Safety
    /// `source` is readable for `bytes` bytes, and nobody writes them, or touches the slot,
    /// meanwhile. Callers hold a verified plan, which proves it for its commands.
    pub(crate) unsafe fn write(
        &mut self,
        slot: u64,
        source: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), TransferError> {
        match &mut self.channel {
            // SAFETY: the caller's promise is passed on.
            Some(channel) => unsafe { channel.write(slot, source, bytes) },
            // SAFETY: the caller's promise is passed on.
            None => unsafe { self.tier.copy_in(slot, source, bytes) }.map_err(TransferError::from),
        }
    }

    /// Copies pieces from their slot.
    ///
    /// # Safety
    /// `target` is writable for `bytes` bytes, and nobody touches them, or writes the slot,
    /// meanwhile. Callers hold a verified plan, which proves it for its commands.
    pub(crate) unsafe fn read(
        &mut self,
        slot: u64,
        target: NonNull<u8>,
        bytes: usize,
    ) -> Result<(), TransferError> {
        match &mut self.channel {
            // SAFETY: the caller's promise is passed on.
            Some(channel) => unsafe { channel.read(slot, target, bytes) },
            // SAFETY: the caller's promise is passed on.
            None => unsafe { self.tier.copy_out(slot, target, bytes) }.map_err(TransferError::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::disk;

    fn tier(spill: &Spill, bytes: u64) -> Tier {
        Tier::new(spill, &StorageOptions::default(), bytes).unwrap()
    }

    fn round_trip(tier: &Tier, slot: u64, bytes: &[u8]) {
        let mut back = vec![0; bytes.len()];
        // SAFETY: the source is a borrowed buffer; the tier is this test's own.
        unsafe { tier.write(slot, NonNull::from(bytes).cast(), bytes.len()) }.unwrap();
        let target = NonNull::from(back.as_mut_slice()).cast();
        // SAFETY: the target is a borrowed buffer; the tier is this test's own.
        unsafe { tier.read(slot, target, bytes.len()) }.unwrap();
        assert_eq!(back, bytes);
    }

    #[test]
    fn tiers_keep_bytes_at_any_place() {
        let bytes: Vec<u8> = (0..5000_u32).map(|i| (i * 7 % 251) as u8).collect();
        for spill in [Spill::Ram, Spill::File(disk())] {
            let tier = tier(&spill, 8192);
            for slot in [0, 1, 3000, 8192 - 5000] {
                round_trip(&tier, slot, &bytes);
            }
            assert_eq!(tier.allocated().unwrap(), Bytes(8192), "{spill:?}");
        }
        assert_eq!(tier(&Spill::Ram, 0).allocated().unwrap(), Bytes(0));
    }

    #[test]
    fn space_is_claimed_and_given_back() {
        for spill in [Spill::Ram, Spill::File(disk())] {
            let tier = Tier::unclaimed(&spill, &StorageOptions::default(), 1 << 30).unwrap();
            assert_eq!(tier.bytes(), 1 << 30);
            tier.claim(4096, 8192).unwrap();
            round_trip(&tier, 4096, &[7; 8192]);
            tier.release(4096, 8192).unwrap();
            round_trip(&tier, 5000, &[9; 10]);
        }
    }
}
