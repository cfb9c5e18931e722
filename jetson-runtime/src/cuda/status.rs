//! What a function of the driver answers, as a checked integer.
//!
//! A newer driver answers codes that older bindings do not know. An enum made from such a code
//! would be undefined behaviour; so a status stays a number, with a table of the names that matter.

use std::fmt;

/// A status of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub i32);

/// What is to be done about a status.
const ADVICE: &[(i32, &str)] = &[
    (1, "this is a bug of the runtime, please report it"),
    (
        2,
        "give less memory to other programs, or take a smaller budget",
    ),
    (
        3,
        "initialise the driver first; this is a bug of the runtime, please report it",
    ),
    (4, "the process ends, or was ended"),
    (
        34,
        "the process has the stub of the driver; remove `stubs` from the library path",
    ),
    (35, "the driver is older than the program; update it"),
    (46, "another process has the device to itself; wait for it"),
    (100, "there is no device, or this user may not use it"),
    (
        101,
        "name a device that exists; prefetching is refused like this where it cannot work",
    ),
    (
        200,
        "the kernels do not fit this device; please report it with the device's name",
    ),
    (
        218,
        "the kernels do not fit this driver; please report it with the driver's version",
    ),
    (
        700,
        "a kernel touched memory that is not its own: the context is lost",
    ),
    (709, "the context was lost by an earlier error; start anew"),
    (719, "a kernel failed: the context is lost"),
    (801, "this device or driver has no such function"),
];

macro_rules! names {
    ($($code:literal $name:ident)*) => {
        /// Every status that has a name here.
        const NAMES: &[(i32, &str)] = &[$(($code, concat!("CUDA_", stringify!($name)))),*];
    };
}

names! {
    0 SUCCESS
    1 ERROR_INVALID_VALUE
    2 ERROR_OUT_OF_MEMORY
    3 ERROR_NOT_INITIALIZED
    4 ERROR_DEINITIALIZED
    34 ERROR_STUB_LIBRARY
    35 ERROR_INSUFFICIENT_DRIVER
    36 ERROR_CALL_REQUIRES_NEWER_DRIVER
    46 ERROR_DEVICE_UNAVAILABLE
    100 ERROR_NO_DEVICE
    101 ERROR_INVALID_DEVICE
    200 ERROR_INVALID_IMAGE
    201 ERROR_INVALID_CONTEXT
    205 ERROR_MAP_FAILED
    206 ERROR_UNMAP_FAILED
    208 ERROR_ALREADY_MAPPED
    209 ERROR_NO_BINARY_FOR_GPU
    211 ERROR_NOT_MAPPED
    214 ERROR_ECC_UNCORRECTABLE
    218 ERROR_INVALID_PTX
    222 ERROR_UNSUPPORTED_PTX_VERSION
    304 ERROR_OPERATING_SYSTEM
    400 ERROR_INVALID_HANDLE
    401 ERROR_ILLEGAL_STATE
    500 ERROR_NOT_FOUND
    600 ERROR_NOT_READY
    700 ERROR_ILLEGAL_ADDRESS
    701 ERROR_LAUNCH_OUT_OF_RESOURCES
    702 ERROR_LAUNCH_TIMEOUT
    708 ERROR_PRIMARY_CONTEXT_ACTIVE
    709 ERROR_CONTEXT_IS_DESTROYED
    710 ERROR_ASSERT
    712 ERROR_HOST_MEMORY_ALREADY_REGISTERED
    713 ERROR_HOST_MEMORY_NOT_REGISTERED
    714 ERROR_HARDWARE_STACK_ERROR
    715 ERROR_ILLEGAL_INSTRUCTION
    716 ERROR_MISALIGNED_ADDRESS
    717 ERROR_INVALID_ADDRESS_SPACE
    718 ERROR_INVALID_PC
    719 ERROR_LAUNCH_FAILED
    800 ERROR_NOT_PERMITTED
    801 ERROR_NOT_SUPPORTED
    802 ERROR_SYSTEM_NOT_READY
    803 ERROR_SYSTEM_DRIVER_MISMATCH
    804 ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE
    900 ERROR_STREAM_CAPTURE_UNSUPPORTED
    901 ERROR_STREAM_CAPTURE_INVALIDATED
    906 ERROR_STREAM_CAPTURE_IMPLICIT
    912 ERROR_CAPTURED_EVENT
    999 ERROR_UNKNOWN
}

impl Status {
    /// All went well.
    pub const SUCCESS: Self = Self(0);
    /// An argument is none that the driver knows.
    pub const INVALID_VALUE: Self = Self(1);
    /// Memory, or what the driver counts as such, is exhausted.
    pub const OUT_OF_MEMORY: Self = Self(2);
    /// Work is still under way: no error.
    pub const NOT_READY: Self = Self(600);

    /// The driver's name for it, where this runtime knows one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        let row = NAMES.binary_search_by_key(&self.0, |(code, _)| *code);
        row.ok().map(|row| NAMES[row].1)
    }

    fn advice(self) -> &'static str {
        let row = ADVICE.binary_search_by_key(&self.0, |(code, _)| *code);
        row.map_or("look it up in the documentation of CUDA", |row| {
            ADVICE[row].1
        })
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({}); {}", self.0, self.advice()),
            None => write!(f, "status {}, unknown here; {}", self.0, self.advice()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_can_be_searched_and_any_number_has_a_text() {
        for table in [NAMES, ADVICE] {
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
        for (code, _) in ADVICE {
            assert!(Status(*code).name().is_some(), "{code}");
        }
        for code in [i32::MIN, -1, 36, 912, 913, 4711, i32::MAX] {
            assert!(Status(code).to_string().contains(&code.to_string()));
        }
        assert!(
            Status::OUT_OF_MEMORY
                .to_string()
                .starts_with("CUDA_ERROR_OUT_OF_MEMORY (2); ")
        );
    }
}
