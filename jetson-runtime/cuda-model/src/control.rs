//! The control of a loaded model, for tests.
//!
//! A process loads a file once, so all who load one path share one machine. [`Control::new`] makes
//! a copy of the library, and with it a machine that no other test knows; load the driver from
//! [`Control::path`]. Nothing is ever unloaded.

use std::ffi::{CString, c_char, c_int};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

use libloading::Library;

use crate::ModelError;
use crate::library::{copy_without, library};
use crate::profile::Profile;
use crate::stamp;

/// How a call is to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failing {
    /// It answers the code and does nothing.
    Now,
    /// It succeeds, and what it enqueued fails: a later call answers the code. Codes of failed
    /// kernels and devices lose the context.
    Late,
    /// It and every later call answer the code.
    ForEver,
}

/// What was counted of managed memory, in the order in which work was enqueued. Nothing is ever
/// evicted: a device too small for `resident_max` would have had to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Managed {
    /// Bytes on the device now.
    pub resident: u64,
    /// The most that were there.
    pub resident_max: u64,
    /// Bytes that kernels and fills touched before they were there.
    pub faulted: u64,
    /// Bytes that prefetches brought there.
    pub prefetched: u64,
}

/// A loaded model.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    functions: Functions,
    /// Never unloaded: functions, and threads of streams, must outlive everything.
    library: ManuallyDrop<Library>,
}

macro_rules! functions {
    ($($name:ident($($argument:ty),*) -> $answer:ty;)*) => {
        #[derive(Debug)]
        struct Functions {
            $($name: unsafe extern "C" fn($($argument),*) -> $answer,)*
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self, ModelError> {
                Ok(Self {
                    $($name: {
                        let name = concat!(stringify!($name), "\0").as_bytes();
                        // SAFETY: the types are those of `abi::control` of the same build, which
                        // the stamp tells.
                        *unsafe { library.get(name) }?
                    },)*
                })
            }
        }
    };
}

functions! {
    vtm_reset(*const c_char) -> c_int;
    vtm_inject_as(*const c_char, u64, u64, c_int, c_int) -> c_int;
    vtm_elide(*const c_char, u64) -> c_int;
    vtm_clear_faults() -> c_int;
    vtm_calls(*const c_char) -> u64;
    vtm_throttle(u64, u64, u64) -> c_int;
    vtm_jitter(u64, u64) -> c_int;
    vtm_memory(u64) -> c_int;
    vtm_granularity(u64) -> c_int;
    vtm_strict_events(c_int) -> c_int;
    vtm_host_touch(usize, usize, c_int) -> c_int;
    vtm_managed(*mut [u64; 4]) -> c_int;
    vtm_reports(*mut u8, usize) -> usize;
    vtm_leaks(*mut u8, usize) -> usize;
}

impl Control {
    /// A machine of its own with the device `profile`: `orin`, `thor`, `gh200`, `rtx-linux`,
    /// `rtx-wsl` or `nano`. Its driver lacks the functions that its version lacks.
    ///
    /// # Errors
    /// If the library is not there or cannot be loaded, or if there is no such profile.
    pub fn new(profile: &str) -> Result<Self, ModelError> {
        Self::without(profile, &[])
    }

    /// A machine of its own whose driver also lacks these functions.
    ///
    /// # Errors
    /// As [`new`](Self::new), and if the model has no such function to lack.
    pub fn without(profile: &str, functions: &[&str]) -> Result<Self, ModelError> {
        let mut missing = functions.to_vec();
        if let Some(profile) = Profile::named(profile) {
            missing.extend(profile.missing().map(|name: &str| name));
        }
        let control = Self::open(&copy_without(&missing)?)?;
        control.reset(profile)?;
        Ok(control)
    }

    /// The machine that everybody in this process shares who loads the library itself.
    ///
    /// # Errors
    /// If the library is not there or cannot be loaded.
    pub fn shared() -> Result<Self, ModelError> {
        Self::open(&library()?)
    }

    /// The machine that everybody in this process shares who loads the library at `path`.
    ///
    /// # Errors
    /// If the library cannot be loaded, or is of another build.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        // SAFETY: the model's library runs no code when it is loaded.
        let library = unsafe { Library::new(path) }?;
        type Stamp = unsafe extern "C" fn() -> u64;
        // SAFETY: this function has had this type in every build.
        let found: Stamp = *unsafe { library.get(b"vtm_stamp\0") }?;
        // SAFETY: it takes nothing and only answers a number.
        let found = unsafe { found() };
        if found != stamp::STAMP {
            return Err(ModelError::Stale {
                path: path.to_owned(),
                found,
                wanted: stamp::STAMP,
            });
        }
        let functions = Functions::of(&library)?;
        Ok(Self {
            path: path.to_owned(),
            functions,
            library: ManuallyDrop::new(library),
        })
    }

    /// What to load as the driver.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Forgets everything, and becomes a machine with this device. Nothing may be using it. Which
    /// functions it has does not change.
    ///
    /// # Errors
    /// If there is no such profile.
    pub fn reset(&self, profile: &str) -> Result<(), ModelError> {
        let name = c_string(profile)?;
        // SAFETY: the name is a C string.
        done("vtm_reset", unsafe {
            (self.functions.vtm_reset)(name.as_ptr())
        })
    }

    /// Lets the `nth` call from now (1: the next one) of a function fail with a code. The name `*`
    /// stands for any function.
    ///
    /// # Errors
    /// If there is no such function.
    pub fn inject(
        &self,
        function: &str,
        nth: u64,
        failing: Failing,
        code: i32,
    ) -> Result<(), ModelError> {
        self.inject_many(function, nth, 1, failing, code)
    }

    /// As [`inject`](Self::inject), for `count` calls from the `nth` on.
    ///
    /// # Errors
    /// If there is no such function.
    pub fn inject_many(
        &self,
        function: &str,
        nth: u64,
        count: u64,
        failing: Failing,
        code: i32,
    ) -> Result<(), ModelError> {
        let name = self.function(function)?;
        let kind = match failing {
            Failing::Now => 0,
            Failing::Late => 1,
            Failing::ForEver => 2,
        };
        let inject = self.functions.vtm_inject_as;
        // SAFETY: the name is a C string.
        let answer = unsafe { inject(name.as_ptr(), nth, count, kind, code) };
        done("vtm_inject_as", answer)
    }

    /// Lets the `nth` call from now of a wait, query or record answer success and do nothing.
    ///
    /// # Errors
    /// If it is not one of `cuStreamWaitEvent`, `cuStreamSynchronize`, `cuStreamQuery`,
    /// `cuEventRecord`, `cuEventSynchronize`, `cuEventQuery` and `cuCtxSynchronize`.
    pub fn elide(&self, function: &str, nth: u64) -> Result<(), ModelError> {
        let name = self.function(function)?;
        // SAFETY: the name is a C string.
        done("vtm_elide", unsafe {
            (self.functions.vtm_elide)(name.as_ptr(), nth)
        })
    }

    /// Takes back what was injected and elided and has not come yet.
    ///
    /// # Errors
    /// If the machine cannot be made.
    pub fn clear_faults(&self) -> Result<(), ModelError> {
        // SAFETY: it takes nothing.
        done("vtm_clear_faults", unsafe {
            (self.functions.vtm_clear_faults)()
        })
    }

    /// How often a function was called since the reset; `*` for all together.
    ///
    /// # Errors
    /// If there is no such function.
    pub fn calls(&self, function: &str) -> Result<u64, ModelError> {
        let name = self.function(function)?;
        // SAFETY: the name is a C string.
        Ok(unsafe { (self.functions.vtm_calls)(name.as_ptr()) })
    }

    /// The name of a function that this driver has, or `*`.
    fn function(&self, name: &str) -> Result<CString, ModelError> {
        let c_name = c_string(name)?;
        let symbol = c_name.as_bytes_with_nul();
        // SAFETY: the symbol is looked up, and not called.
        let found = unsafe { self.library.get::<unsafe extern "C" fn()>(symbol) };
        match found.is_ok() || name == "*" {
            true => Ok(c_name),
            false => Err(ModelError::Function(name.to_owned())),
        }
    }

    /// Limits copies to so many bytes per second in each direction (0: no limit), and adds
    /// nanoseconds to each.
    ///
    /// # Errors
    /// If the machine cannot be made.
    pub fn throttle(&self, to_device: u64, to_host: u64, ns: u64) -> Result<(), ModelError> {
        // SAFETY: numbers only.
        done("vtm_throttle", unsafe {
            (self.functions.vtm_throttle)(to_device, to_host, ns)
        })
    }

    /// Delays each command by up to so many nanoseconds, by the seed, so that streams complete in
    /// other orders.
    ///
    /// # Errors
    /// If the machine cannot be made.
    pub fn jitter(&self, seed: u64, ns_max: u64) -> Result<(), ModelError> {
        // SAFETY: numbers only.
        done("vtm_jitter", unsafe {
            (self.functions.vtm_jitter)(seed, ns_max)
        })
    }

    /// Sets how much memory the device has, in bytes.
    ///
    /// # Errors
    /// If the machine cannot be made.
    pub fn memory(&self, bytes: u64) -> Result<(), ModelError> {
        // SAFETY: a number only.
        done("vtm_memory", unsafe { (self.functions.vtm_memory)(bytes) })
    }

    /// Sets the granularity of mappings, in bytes: a power of two, at least a page of the system.
    ///
    /// # Errors
    /// If it is not such a number.
    pub fn granularity(&self, bytes: u64) -> Result<(), ModelError> {
        // SAFETY: a number only.
        done("vtm_granularity", unsafe {
            (self.functions.vtm_granularity)(bytes)
        })
    }

    /// Also reports events that are recorded anew before the host saw their record complete, which
    /// is legal where somebody waits for it already.
    ///
    /// # Errors
    /// If the machine cannot be made.
    pub fn strict_events(&self, on: bool) -> Result<(), ModelError> {
        // SAFETY: a number only.
        done("vtm_strict_events", unsafe {
            (self.functions.vtm_strict_events)(c_int::from(on))
        })
    }

    /// Declares that the host touches these bytes now; nothing is accessed. Memory that the driver
    /// does not know is passed over.
    ///
    /// # Errors
    /// If the bytes are not the host's to touch; that is also reported.
    pub fn host_touch<T>(
        &self,
        pointer: *const T,
        bytes: usize,
        write: bool,
    ) -> Result<(), ModelError> {
        let address = pointer.addr();
        // SAFETY: numbers only; the address is not followed.
        done("vtm_host_touch", unsafe {
            (self.functions.vtm_host_touch)(address, bytes, c_int::from(write))
        })
    }

    /// What was counted of managed memory.
    ///
    /// # Errors
    /// If the machine cannot be made.
    pub fn managed(&self) -> Result<Managed, ModelError> {
        let mut numbers = [0; 4];
        // SAFETY: the output is a local of that size.
        done("vtm_managed", unsafe {
            (self.functions.vtm_managed)(&raw mut numbers)
        })?;
        let [resident, resident_max, faulted, prefetched] = numbers;
        Ok(Managed {
            resident,
            resident_max,
            faulted,
            prefetched,
        })
    }

    /// What was found wrong so far, one line each: the name of the rule, a colon, what happened.
    #[must_use]
    pub fn reports(&self) -> Vec<String> {
        lines(self.functions.vtm_reports)
    }

    /// What was not given back so far, one line each.
    #[must_use]
    pub fn leaks(&self) -> Vec<String> {
        lines(self.functions.vtm_leaks)
    }
}

fn c_string(name: &str) -> Result<CString, ModelError> {
    CString::new(name).map_err(|_| ModelError::Name(name.to_owned()))
}

fn done(function: &'static str, code: c_int) -> Result<(), ModelError> {
    match code {
        0 => Ok(()),
        code => Err(ModelError::Refused { function, code }),
    }
}

fn lines(tell: unsafe extern "C" fn(*mut u8, usize) -> usize) -> Vec<String> {
    let mut text = Vec::new();
    loop {
        // SAFETY: the buffer has that room; only bytes inside it are written.
        let needed = unsafe { tell(text.as_mut_ptr(), text.len()) };
        if needed <= text.len() {
            text.truncate(needed);
            break;
        }
        text.resize(needed, 0);
    }
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}
