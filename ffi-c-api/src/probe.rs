//! The probe: what this machine has, and what a runtime without wishes would take.
//!
//! GPUs are counted: a runtime takes one only if it is asked to.

use core::cell::RefCell;
use core::ffi::{c_char, c_int};
use core::fmt::Write;
use core::mem::size_of;
use core::ptr;
use std::fs;

use jetson_runtime::cuda::Driver;

use crate::config::{VT_BACKEND_HOST, VT_MECHANISM_MAPPED, VT_SPILL_HOST};
use crate::extensible::{self, Extensible};
use crate::guard::guard_status;
use crate::status::Status;

/// `vt_probe_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VtProbeInfo {
    /// Bytes of this struct.
    pub size: usize,
    /// The backend that `VT_BACKEND_AUTO` is: `VT_BACKEND_*`.
    pub backend: u32,
    /// The mechanism that `VT_MECHANISM_AUTO` is: `VT_MECHANISM_*`.
    pub mechanism: u32,
    /// The spill tier that `VT_SPILL_AUTO` without a folder is: `VT_SPILL_*`.
    pub spill: u32,
    /// GPUs that could be taken.
    pub cuda: u32,
    /// The budget of a runtime without one: what the machine can give now; 0: it does not tell.
    pub budget_bytes: u64,
    /// Memory of the machine; 0: it does not tell.
    pub memory_bytes: u64,
    /// The page of the machine, the smallest that a plan can have.
    pub page_bytes: u64,
    /// Mappings that the system grants a process; 0: it does not tell.
    pub mappings_max: u64,
    /// What was found and chosen, and why, as text; the library's, valid until the next probe on
    /// this thread.
    pub reasons: *const c_char,
}

// SAFETY: `repr(C)`, the size first; numbers and a raw pointer.
unsafe impl Extensible for VtProbeInfo {
    const NAME: &'static str = "vt_probe_info";
    const FIRST_SIZE: usize = 64;
}

thread_local! {
    static REASONS: RefCell<String> = const { RefCell::new(String::new()) };
}

unsafe extern "C" {
    safe fn getpagesize() -> c_int;
}

/// The page of the machine.
fn page() -> u64 {
    u64::try_from(getpagesize()).expect("a page has a positive size")
}

fn number(file: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// A field in kB of /proc/meminfo, in bytes; 0 if there is none.
fn memory(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let rest = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = rest.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.and_then(|kib| kib.checked_mul(1024)).unwrap_or(0)
}

/// How many GPUs there are, or why there is none.
fn gpus() -> Result<u32, String> {
    let driver = Driver::system().map_err(|error| error.to_string())?;
    let count = driver.devices().map_err(|error| error.to_string())?;
    u32::try_from(count).map_err(|error| error.to_string())
}

fn probe(gpus: &Result<u32, String>) -> VtProbeInfo {
    VtProbeInfo {
        size: size_of::<VtProbeInfo>(),
        backend: VT_BACKEND_HOST,
        mechanism: VT_MECHANISM_MAPPED,
        spill: VT_SPILL_HOST,
        cuda: gpus.as_ref().copied().unwrap_or(0),
        budget_bytes: memory("MemAvailable:"),
        memory_bytes: memory("MemTotal:"),
        page_bytes: page(),
        mappings_max: number("/proc/sys/vm/max_map_count"),
        reasons: ptr::null(),
    }
}

fn write_reasons(
    text: &mut String,
    info: &VtProbeInfo,
    gpus: &Result<u32, String>,
) -> std::fmt::Result {
    let amount = |bytes: u64| match bytes {
        0 => "unknown".to_owned(),
        bytes => vtensor::Bytes(bytes).to_string(),
    };
    text.clear();
    let gpus = match gpus {
        Ok(count) => format!("there are {count}"),
        Err(reason) => format!("there is none: {reason}"),
    };
    writeln!(
        text,
        "backend: host, which stands in for a device with a hard budget of ordinary memory. A GPU \
         is taken where VT_BACKEND_CUDA asks for one: {gpus}."
    )?;
    writeln!(
        text,
        "mechanism: mapped. Pages of a memory file, aliased by windows that are mapped once; a \
         process may have {} mappings.",
        match info.mappings_max {
            0 => "an unknown number of".to_owned(),
            mappings => mappings.to_string(),
        }
    )?;
    writeln!(
        text,
        "spill tier: host memory, the fastest; a file where a folder is named."
    )?;
    writeln!(
        text,
        "budget: none, that is, up to the {} available of {}; name one to have it kept.",
        amount(info.budget_bytes),
        amount(info.memory_bytes)
    )?;
    write!(
        text,
        "pages: multiples of {}, the machine's; chosen near 1/1024 of an iteration's peak.",
        vtensor::Bytes(info.page_bytes)
    )
}

/// Tells what this machine has, and what a runtime without wishes takes.
///
/// # Safety
/// `out` is NULL or as large as it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_probe(out: *mut VtProbeInfo) -> Status {
    guard_status(|| {
        // SAFETY: handed on from this function's caller.
        unsafe { extensible::size(out, "vt_probe: out") }?;
        let gpus = gpus();
        let mut info = probe(&gpus);
        REASONS.with(|reasons| {
            let mut text = reasons.borrow_mut();
            // Writing to a string does not fail.
            let _ = write_reasons(&mut text, &info, &gpus);
            text.push('\0');
            info.reasons = text.as_ptr().cast();
        });
        // SAFETY: handed on from this function's caller.
        unsafe { extensible::write(out, &info, "vt_probe: out") }
    })
}
