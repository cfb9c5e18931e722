//! `vt_config`: what an application chooses about a runtime.
//!
//! Every member's zero is its default: what the device's owner has set, else the library's. So a
//! struct that an older header knows is one with zeroes at the end. Guarantees: what this version
//! cannot do is refused here, before anything is taken from the machine.

use core::ffi::{c_char, c_void};
use core::fmt;
use core::mem::size_of;
use std::path::PathBuf;

use jetson_runtime::cuda::{Device, Driver, Target};
use jetson_runtime::{Config, Integrity, RuntimeError, Settings, Spill, StorageOptions};
use lgm::planner::Methods;
use lgm::policy::Policy;
use vtensor::{Bytes, Kinds, PageBytes};

use crate::arguments::{invalid, not_null, text, text_or_empty};
use crate::extensible::Extensible;
use crate::guard::{failure, guard_status};
use crate::log::{Sink, VT_LOG_INFO, VT_LOG_TRACE, VtLogFn};
use crate::refusal::refusal;
use crate::status::{Status, VT_ERROR_UNSUPPORTED};

/// The host.
pub const VT_BACKEND_AUTO: u32 = 0;
/// Ordinary memory.
pub const VT_BACKEND_HOST: u32 = 1;
/// A GPU by CUDA.
pub const VT_BACKEND_CUDA: u32 = 2;

/// What the backend does best.
pub const VT_MECHANISM_AUTO: u32 = 0;
/// Windows that alias pages, mapped once.
pub const VT_MECHANISM_MAPPED: u32 = 1;
/// One allocation, packed; not supported yet.
pub const VT_MECHANISM_PACKED: u32 = 2;
/// Pages that the driver places; not supported yet.
pub const VT_MECHANISM_MANAGED: u32 = 3;

/// A file if a folder for it is named, host memory otherwise.
pub const VT_SPILL_AUTO: u32 = 0;
/// Host memory.
pub const VT_SPILL_HOST: u32 = 1;
/// An unlinked file in `spill_dir`.
pub const VT_SPILL_FILE: u32 = 2;

/// What the device's owner has set, else both.
pub const VT_METHODS_DEFAULT: u32 = 0;
/// Tensors move.
pub const VT_METHODS_SWAP: u32 = 1;
/// Ops run again.
pub const VT_METHODS_RECOMPUTE: u32 = 2;
/// Both, each where it is faster.
pub const VT_METHODS_BOTH: u32 = 3;

/// A spill file is kept readable, with checksums, instead of encrypted.
pub const VT_CONFIG_SPILL_READABLE: u32 = 1;
/// A `spill_dir` whose files are in memory is accepted.
pub const VT_CONFIG_SPILL_IN_MEMORY: u32 = 2;
/// Parameters, optimizer state and buffers go to a spill file, too.
pub const VT_CONFIG_SPILL_MODEL: u32 = 4;
/// Ops that may run again do so once while they are recorded, and bits are compared.
pub const VT_CONFIG_CHECK_REPLAYS: u32 = 8;
/// All flags.
const FLAGS: u32 = VT_CONFIG_SPILL_READABLE
    | VT_CONFIG_SPILL_IN_MEMORY
    | VT_CONFIG_SPILL_MODEL
    | VT_CONFIG_CHECK_REPLAYS;

/// `vt_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VtConfig {
    /// Bytes of this struct.
    pub size: usize,
    /// The memory of the arena, hard; 0: what the probe finds.
    pub budget_bytes: u64,
    /// The page of plans, a power of two; 0: chosen for each plan.
    pub page_bytes: u64,
    /// `VT_BACKEND_*`.
    pub backend: u32,
    /// `VT_MECHANISM_*`.
    pub mechanism: u32,
    /// `VT_SPILL_*`.
    pub spill: u32,
    /// Equal iterations before a program is made; 0: the default of 3.
    pub warmup_iterations: u32,
    /// The folder of a spill file.
    pub spill_dir: *const c_char,
    /// What the spill tier may take while nothing is frozen; 0: what the machine has.
    pub spill_bytes_max: u64,
    /// A CUDA stream of the application; NULL: one of the library's, or the host.
    pub compute_stream: *mut c_void,
    /// Hears what the library says; NULL: nobody.
    pub log: Option<VtLogFn>,
    /// Handed to `log`.
    pub log_user: *mut c_void,
    /// The most talkative `VT_LOG_*` level; 0: `VT_LOG_INFO`.
    pub log_level: u32,
    /// `VT_CONFIG_*`, or 0.
    pub flags: u32,
    /// What chooses the moves; NULL: `vtensor`.
    pub policy: *const c_char,
    /// What frozen programs may write to a spill file in a day; 0: no limit.
    pub spill_write_bytes_per_day_max: u64,
    /// `VT_METHODS_*`.
    pub methods: u32,
    /// Which GPU, by its number.
    pub device: u32,
}

// SAFETY: `repr(C)`, the size first; numbers, raw pointers, and a function pointer that may be
// NULL and is otherwise the caller's promise.
unsafe impl Extensible for VtConfig {
    const NAME: &'static str = "vt_config";
    const FIRST_SIZE: usize = 96;
}

/// Sets every member to its default: zeroes, but for `size`, which becomes `size`.
///
/// # Safety
/// `config` is NULL or points to `size` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vt_config_init_sized(config: *mut VtConfig, size: usize) -> Status {
    guard_status(|| {
        not_null(config, "vt_config_init: config")?;
        if !(size_of::<usize>()..=4096).contains(&size) {
            return Err(invalid(format_args!(
                "vt_config_init: a vt_config of {size} bytes; take sizeof(vt_config)"
            )));
        }
        // SAFETY: not NULL; the caller promises `size` bytes.
        unsafe { config.cast::<u8>().write_bytes(0, size) };
        // SAFETY: aligned, and `size` has room for its first member, both checked above.
        unsafe { config.cast::<usize>().write(size) };
        Ok(())
    })
}

const CALL: &str = "vt_runtime_create: config";

impl VtConfig {
    /// What it means to the runtime.
    ///
    /// # Safety
    /// Its texts are NULL or C strings.
    pub(crate) unsafe fn read(&self) -> Result<(Config, Option<Sink>), Status> {
        self.supported()?;
        let unknown = self.flags & !FLAGS;
        if unknown != 0 {
            return Err(invalid(format_args!(
                "{CALL}->flags has unknown bits, {unknown:#x}"
            )));
        }
        let settings = Settings::load();
        let settings = settings.map_err(|error| invalid(format_args!("{CALL}: {error}")))?;
        let defaults = settings.config();
        let bytes = |wanted: u64, default| match wanted {
            0 => default,
            wanted => Some(Bytes(wanted)),
        };
        let config = Config {
            budget: bytes(self.budget_bytes, defaults.budget),
            page: self.page()?.or(defaults.page),
            // SAFETY: handed on from this function's caller.
            spill: unsafe { self.spill(&defaults.spill) }?,
            spill_bytes_max: bytes(self.spill_bytes_max, defaults.spill_bytes_max),
            keep: match self.flags & VT_CONFIG_SPILL_MODEL {
                0 => defaults.keep,
                _ => Some(Kinds::NONE),
            },
            written_per_day_max: bytes(
                self.spill_write_bytes_per_day_max,
                defaults.written_per_day_max,
            ),
            warmup: match self.warmup_iterations {
                0 => defaults.warmup,
                1 => {
                    return Err(invalid(format_args!(
                        "{CALL}->warmup_iterations is 1: it takes two equal iterations to know \
                         that they are equal"
                    )));
                }
                warmup => warmup,
            },
            // SAFETY: handed on from this function's caller.
            policy: unsafe { self.policy(defaults.policy) }?,
            methods: self.methods(defaults.methods)?,
            check_replays: defaults.check_replays || self.flags & VT_CONFIG_CHECK_REPLAYS != 0,
            storage: StorageOptions {
                integrity: match self.flags & VT_CONFIG_SPILL_READABLE {
                    0 => defaults.storage.integrity,
                    _ => Integrity::Checksum,
                },
                memory_backed: defaults.storage.memory_backed
                    || self.flags & VT_CONFIG_SPILL_IN_MEMORY != 0,
                ..defaults.storage
            },
            gpu: self.gpu()?,
            ..defaults
        };
        Ok((config, self.sink()?))
    }

    /// Refuses what this version does not have.
    fn supported(&self) -> Result<(), Status> {
        match self.mechanism {
            VT_MECHANISM_AUTO | VT_MECHANISM_MAPPED => {}
            VT_MECHANISM_PACKED | VT_MECHANISM_MANAGED => {
                return Err(unsupported(format_args!(
                    "{CALL}->mechanism is {}: an application's programs show windows of mapped \
                     pages, and no other mechanism is here yet; take VT_MECHANISM_AUTO",
                    self.mechanism
                )));
            }
            other => return Err(unknown("mechanism", "VT_MECHANISM", other)),
        }
        Ok(())
    }

    /// The GPU that is asked for.
    fn gpu(&self) -> Result<Option<Target>, Status> {
        match self.backend {
            VT_BACKEND_AUTO | VT_BACKEND_HOST => {
                if !self.compute_stream.is_null() || self.device != 0 {
                    return Err(unsupported(format_args!(
                        "{CALL}->compute_stream or device is set: the host backend has neither; \
                         take VT_BACKEND_CUDA"
                    )));
                }
                Ok(None)
            }
            VT_BACKEND_CUDA => {
                let refused = |error| refusal(CALL)(RuntimeError::Cuda(error));
                let driver = Driver::system().map_err(refused)?;
                let ordinal = i32::try_from(self.device).unwrap_or(i32::MAX);
                let device = Device::open(&driver, ordinal).map_err(refused)?;
                Ok(Some(match self.compute_stream.is_null() {
                    true => Target::new(device),
                    // SAFETY: the header asks for a stream of the primary context that outlives
                    // the runtime.
                    false => unsafe { Target::with_stream(device, self.compute_stream) },
                }))
            }
            other => Err(unknown("backend", "VT_BACKEND", other)),
        }
    }

    fn methods(&self, default: Methods) -> Result<Methods, Status> {
        match self.methods {
            VT_METHODS_DEFAULT => Ok(default),
            VT_METHODS_SWAP => Ok(Methods::Swap),
            VT_METHODS_RECOMPUTE => Ok(Methods::Recompute),
            VT_METHODS_BOTH => Ok(Methods::Both),
            other => Err(unknown("methods", "VT_METHODS", other)),
        }
    }

    fn page(&self) -> Result<Option<PageBytes>, Status> {
        if self.page_bytes == 0 {
            return Ok(None);
        }
        let page = PageBytes::new(self.page_bytes)
            .map_err(|error| invalid(format_args!("{CALL}->page_bytes: {error}")))?;
        Ok(Some(page))
    }

    /// # Safety
    /// `spill_dir` is NULL or a C string.
    unsafe fn spill(&self, default: &Spill) -> Result<Spill, Status> {
        // SAFETY: handed on from this function's caller.
        let folder = unsafe { text_or_empty(self.spill_dir, "vt_config: spill_dir") }?;
        match (self.spill, folder) {
            (VT_SPILL_HOST, _) => Ok(Spill::Ram),
            (VT_SPILL_FILE, "") if matches!(default, Spill::Ram) => Err(invalid(format_args!(
                "{CALL}->spill is VT_SPILL_FILE and spill_dir is empty: name a folder on a fast \
                 disk"
            ))),
            (VT_SPILL_AUTO | VT_SPILL_FILE, "") => Ok(default.clone()),
            (VT_SPILL_AUTO | VT_SPILL_FILE, folder) => Ok(Spill::File(PathBuf::from(folder))),
            (other, _) => Err(unknown("spill", "VT_SPILL", other)),
        }
    }

    /// # Safety
    /// `policy` is NULL or a C string.
    unsafe fn policy(&self, default: Policy) -> Result<Policy, Status> {
        if self.policy.is_null() {
            return Ok(default);
        }
        // SAFETY: handed on from this function's caller.
        let name = unsafe { text(self.policy, "vt_config: policy") }?;
        name.parse()
            .map_err(|error| invalid(format_args!("{CALL}->policy: {error}")))
    }

    fn sink(&self) -> Result<Option<Sink>, Status> {
        let level = match self.log_level {
            0 => VT_LOG_INFO,
            level if level <= VT_LOG_TRACE => level,
            other => return Err(unknown("log_level", "VT_LOG", other)),
        };
        let user = self.log_user;
        Ok(self.log.map(|callback| Sink {
            callback,
            user,
            level,
        }))
    }
}

fn unsupported(detail: fmt::Arguments<'_>) -> Status {
    failure(VT_ERROR_UNSUPPORTED, detail)
}

fn unknown(member: &str, family: &str, found: u32) -> Status {
    invalid(format_args!(
        "{CALL}->{member} is {found}, which is none of {family}_*"
    ))
}
