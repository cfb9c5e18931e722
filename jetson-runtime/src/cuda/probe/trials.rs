//! Small calls that show what works: attributes have promised what then failed.

use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::cuda::device::{Device, Rest};
use crate::cuda::error::CudaError;
use crate::cuda::memory::{Kind, Memory};
use crate::cuda::prefetch::prefetch;
use crate::cuda::stream::{EventUse, Events, Stream};
use crate::cuda::vmm::{Pages, Window, granularity};
use crate::failure::Direction;

/// Bytes that trials copy.
const BYTES: usize = 64 << 10;
/// Pages of the trial of virtual memory.
const PAGES: u32 = 4;

/// What was tried, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// What was tried.
    pub name: String,
    /// Whether it works.
    pub works: bool,
    /// What was found: a cost, or why it does not work.
    pub found: String,
}

/// Tries everything. Also answers the smallest page that can be mapped.
pub(super) fn all(device: &Device) -> Result<(Vec<Trial>, Option<u64>), CudaError> {
    let page = granularity(device).ok().filter(|bytes| *bytes > 0);
    let stream = Stream::new(device)?;
    let mut trials = Vec::new();
    let mut note = |name: &str, found: Result<String, String>| {
        trials.push(Trial {
            name: name.into(),
            works: found.is_ok(),
            found: found.unwrap_or_else(|why| why),
        });
    };
    note("aliased windows", aliases(device, page));
    note("one allocation", said(plain(device)));
    note("prefetch", said(prefetches(device, &stream)));
    note("host registration", registers(device));
    note("order of streams", order(device, &stream));
    // A trial that failed may have left something running.
    device.synchronize()?;
    Ok((trials, page))
}

fn said(found: Result<String, CudaError>) -> Result<String, String> {
    found.map_err(|error| error.to_string())
}

/// Maps the same pages twice, in another order, and reads through one what was written through the
/// other.
fn aliases(device: &Device, page: Option<u64>) -> Result<String, String> {
    if !device.facts().virtual_memory {
        return Err("the device has no virtual memory management".into());
    }
    let page = page.ok_or("the driver does not tell the size of a page")?;
    let mapped = || -> Result<(bool, String), CudaError> {
        let begin = Instant::now();
        let pages = Arc::new(Pages::new(device, page, PAGES)?);
        let created = begin.elapsed().as_secs_f64();
        let forward = Window::new(&pages, 0..PAGES)?;
        let windows = begin.elapsed().as_secs_f64() - created;
        let order: Vec<u32> = (0..PAGES).rev().collect();
        let backward = Window::new(&pages, order.into_iter())?;
        let _rest = Rest(device);
        let mut equal = true;
        for index in 0..u64::from(PAGES) {
            let mark = [0x5a ^ u8::try_from(index).unwrap_or(0); 16];
            let mut back = [0; 16];
            let at = forward.address() + index * page;
            let same = backward.address() + (u64::from(PAGES) - 1 - index) * page;
            // SAFETY: both addresses show a page that was just mapped, and nothing runs.
            unsafe { device.store(at, &mark) }?;
            // SAFETY: as above.
            unsafe { device.load(same, &mut back) }?;
            equal &= back == mark;
        }
        let micros = |seconds: f64| seconds * 1e6 / f64::from(PAGES);
        let costs = format!(
            "a page of {}: {:.1} µs to create, {:.1} µs to map",
            vtensor::Bytes(page),
            micros(created),
            micros(windows)
        );
        Ok((equal, costs))
    };
    match mapped() {
        Ok((true, costs)) => Ok(costs),
        Ok((false, _)) => Err("two addresses of a page show different bytes".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn plain(device: &Device) -> Result<String, CudaError> {
    Memory::new(device, Kind::Plain, BYTES)?;
    Ok("taken and given back".into())
}

/// Brings managed memory to the device and to the host.
fn prefetches(device: &Device, stream: &Stream) -> Result<String, CudaError> {
    let memory = Memory::new(device, Kind::Managed, BYTES)?;
    // It goes only when the device is at rest, whatever fails.
    let _rest = Rest(device);
    for to in [Direction::In, Direction::Out] {
        // SAFETY: the range is managed, and the stream comes to rest before it goes.
        unsafe { prefetch(device, memory.at(0, BYTES), BYTES, to, stream) }?;
    }
    stream.synchronize()?;
    Ok("to the device and to the host".into())
}

/// Registers ordinary memory.
fn registers(device: &Device) -> Result<String, String> {
    if !device.facts().host_register {
        return Err("the device says that it cannot".into());
    }
    if !device.driver().symbols().host_unregister.is_there() {
        return Err("the driver could not take it back".into());
    }
    // Whole pages of the system, whatever their size up to 64 KiB.
    let memory = vec![0_u8; 3 * BYTES];
    let start = memory.as_ptr().addr().next_multiple_of(BYTES) - memory.as_ptr().addr();
    let pointer = memory[start..start + BYTES].as_ptr().cast_mut().cast();
    let registered = || -> Result<(), CudaError> {
        let calls = device.calls()?;
        // SAFETY: the range is this function's, and outlives the registration.
        unsafe { calls.host_register(pointer, BYTES, 0) }?;
        // SAFETY: it was just registered, and nothing uses it.
        unsafe { calls.host_unregister(pointer) }
    };
    registered()
        .map(|()| "ordinary memory".into())
        .map_err(|error| error.to_string())
}

/// A copy on one stream, an event, and a copy back on another stream, which must see it.
fn order(device: &Device, first: &Stream) -> Result<String, String> {
    let tried = || -> Result<bool, CudaError> {
        let second = Stream::new(device)?;
        let events = Events::new(device, 1, EventUse::Order)?;
        let on_device = Memory::new(device, Kind::Plain, BYTES)?;
        let host = Memory::new(device, Kind::Pinned, 2 * BYTES)?;
        let (from, to) = (host.host(0, BYTES), host.host(BYTES as u64, BYTES));
        // SAFETY: the range is pinned memory of this function.
        unsafe { std::ptr::write_bytes(from.as_ptr(), 0x77, BYTES) };
        // SAFETY: as above.
        unsafe { std::ptr::write_bytes(to.as_ptr(), 0, BYTES) };
        let address = on_device.at(0, BYTES);
        // It goes only when the device is at rest, whatever fails.
        let _rest = Rest(device);
        // SAFETY: both streams come to rest before this memory goes.
        unsafe { device.copy_in(address, from, BYTES, first.raw()) }?;
        first.record(events.get(0))?;
        second.wait(events.get(0))?;
        // SAFETY: as above.
        unsafe { device.copy_out(to, address, BYTES, second.raw()) }?;
        first.synchronize()?;
        second.synchronize()?;
        // SAFETY: the range is pinned memory of this function, and nothing copies there any more.
        let back = unsafe { std::slice::from_raw_parts(to.as_ptr(), BYTES) };
        Ok(back.iter().all(|byte| *byte == 0x77))
    };
    match tried() {
        Ok(true) => Ok("a wait orders a copy after a copy".into()),
        Ok(false) => Err("a copy did not wait for the copy before it".into()),
        Err(error) => Err(error.to_string()),
    }
}
