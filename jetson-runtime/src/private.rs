//! A buffer that contents pass through: kept out of core dumps and forked children, as all
//! memory of tensors is.

use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::slice;

use crate::error::RuntimeError;
use crate::region::Region;

/// Zeroed memory that is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct PrivateBuffer {
    region: Region,
    bytes: usize,
}

impl PrivateBuffer {
    /// Takes so many bytes.
    ///
    /// # Errors
    /// If the system does not have them.
    pub(crate) fn new(bytes: usize) -> Result<Self, RuntimeError> {
        let size = NonZeroUsize::new(bytes).unwrap_or(NonZeroUsize::MIN);
        let region = Region::lazy(size);
        Ok(Self {
            region: region.map_err(RuntimeError::system("take memory for a buffer"))?,
            bytes,
        })
    }
}

impl Deref for PrivateBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let start = self.region.pointer(0, self.bytes);
        // SAFETY: the region has so many bytes, which began as zeroes, and is the buffer's own.
        unsafe { slice::from_raw_parts(start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for PrivateBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.region.pointer(0, self.bytes);
        // SAFETY: as above, and it is borrowed for writing.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), self.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel says of the mapping that an address is in.
    fn flags(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().unwrap().split_once('-');
            let number = |text| usize::from_str_radix(text, 16).ok();
            if let Some((start, end)) = range.and_then(|(a, b)| Some((number(a)?, number(b)?))) {
                inside = (start..end).contains(&address);
            }
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| inside) {
                return format!("{flags} ");
            }
        }
        panic!("the address is mapped");
    }

    #[test]
    fn a_buffer_is_in_no_core_dump_and_no_child() {
        let mut buffer = PrivateBuffer::new(5000).unwrap();
        assert!(buffer.len() == 5000 && buffer.iter().all(|byte| *byte == 0));
        buffer[4999] = 1;
        let flags = flags(buffer.as_ptr().expose_provenance());
        assert!(flags.contains(" dd ") && flags.contains(" dc "), "{flags}");
        assert!(PrivateBuffer::new(0).unwrap().is_empty());
    }
}
