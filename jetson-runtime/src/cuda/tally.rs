//! Counters on the device: how many bytes a check found wrong.

use super::device::Device;
use super::error::CudaError;
use super::memory::{Kind, Memory};
use crate::scale::to_usize;

/// Bytes of a counter.
const COUNTER: usize = 8;

/// Counters on the device, which begin at 0.
#[derive(Debug)]
pub struct Tally {
    memory: Memory,
    device: Device,
}

impl Tally {
    /// Takes memory for `counters` counters.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn new(device: &Device, counters: usize) -> Result<Self, CudaError> {
        let bytes = counters.max(1) * COUNTER;
        let tally = Self {
            memory: Memory::new(device, Kind::Plain, bytes)?,
            device: device.clone(),
        };
        // SAFETY: the memory is the tally's own, and nothing uses it yet.
        unsafe { device.store(tally.memory.at(0, bytes), &vec![0; bytes]) }?;
        Ok(tally)
    }

    /// Waits until the device is at rest, and reads all counters.
    ///
    /// # Errors
    /// If the GPU failed.
    pub fn read(&self) -> Result<Vec<u64>, CudaError> {
        self.device.synchronize()?;
        let mut bytes = vec![0; self.memory.bytes()];
        // SAFETY: the memory is the tally's own, and the device is at rest.
        unsafe { self.device.load(self.memory.at(0, bytes.len()), &mut bytes) }?;
        let words = bytes.chunks_exact(COUNTER);
        let word = |word: &[u8]| u64::from_le_bytes(word.try_into().expect("chunks of 8 bytes"));
        Ok(words.map(word).collect())
    }

    /// The address of a counter.
    ///
    /// # Panics
    /// If there is no such counter.
    pub(crate) fn address(&self, counter: usize) -> u64 {
        let offset = counter as u64 * COUNTER as u64;
        let address = self.memory.at(offset, COUNTER);
        debug_assert!(
            to_usize(address).is_multiple_of(COUNTER),
            "counters are words"
        );
        address
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        // Checks that are under way come to their end first.
        self.device.rest();
    }
}
