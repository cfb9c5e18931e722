//! Prefetching managed memory, by whichever form of the call the driver has.

use cudarc::driver::sys::{CUmemLocation, CUmemLocationType};

use super::device::Device;
use super::error::CudaError;
use super::stream::Stream;
use super::symbols::Address;
use super::vmm::location;
use crate::failure::Direction;

/// The host, for the older form.
const HOST: i32 = -1;

/// Lets the driver bring a range to the device (in), or to the host (out). No byte changes.
///
/// # Safety
/// The range is managed memory that outlives the stream's work.
pub(super) unsafe fn prefetch(
    device: &Device,
    address: Address,
    bytes: usize,
    to: Direction,
    stream: &Stream,
) -> Result<(), CudaError> {
    let symbols = device.driver().symbols();
    if symbols.prefetch_to_location.is_there() {
        let to = match to {
            Direction::In => location(device),
            Direction::Out => CUmemLocation {
                type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_HOST,
                id: 0,
            },
        };
        // SAFETY: the caller vouches for the range.
        unsafe { symbols.prefetch_to_location(address, bytes, to, 0, stream.raw()) }
    } else {
        let to = match to {
            Direction::In => device.number(),
            Direction::Out => HOST,
        };
        // SAFETY: the caller vouches for the range.
        unsafe { symbols.prefetch_to_device(address, bytes, to, stream.raw()) }
    }
}
