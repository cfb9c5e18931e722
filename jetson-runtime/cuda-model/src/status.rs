//! The driver's status codes, as the integers that cross the C ABI.
//!
//! Numbers and names are those of the public header `cuda.h`; the texts are the model's own. A
//! code that is not in the table has no name here, as in a driver that is older than the code.

use std::ffi::CStr;

/// What a call answers; never success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Status(pub(crate) i32);

/// The code of success.
pub(crate) const SUCCESS: i32 = 0;

macro_rules! statuses {
    ($($name:ident = $code:literal, $symbol:literal, $text:literal;)*) => {
        #[allow(dead_code, reason = "some codes are only ever chosen by tests")]
        impl Status {
            $(pub(crate) const $name: Self = Self($code);)*
        }

        /// The symbol and the text of a code.
        pub(crate) const fn texts(code: i32) -> Option<(&'static CStr, &'static CStr)> {
            match code {
                SUCCESS => Some((c"CUDA_SUCCESS", c"no error")),
                $($code => Some(($symbol, $text)),)*
                _ => None,
            }
        }
    };
}

statuses! {
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"an argument is not allowed";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"cuInit was not called";
    DEINITIALIZED = 4, c"CUDA_ERROR_DEINITIALIZED", c"the driver is shutting down";
    DEVICE_UNAVAILABLE = 46, c"CUDA_ERROR_DEVICE_UNAVAILABLE", c"the device is busy or gone";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"there is no device";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"the device cannot be meant here";
    INVALID_IMAGE = 200, c"CUDA_ERROR_INVALID_IMAGE", c"the module image cannot be read";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"no valid context is current";
    MAP_FAILED = 205, c"CUDA_ERROR_MAP_FAILED", c"mapping failed";
    NO_BINARY = 209, c"CUDA_ERROR_NO_BINARY_FOR_GPU", c"the module is for another device";
    ECC_UNCORRECTABLE = 214, c"CUDA_ERROR_ECC_UNCORRECTABLE", c"a memory error was seen";
    INVALID_PTX = 218, c"CUDA_ERROR_INVALID_PTX", c"the PTX cannot be compiled";
    PTX_VERSION = 222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", c"the PTX is newer than the driver";
    OPERATING_SYSTEM = 304, c"CUDA_ERROR_OPERATING_SYSTEM", c"a call of the system failed";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"the handle stands for nothing";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"the name was not found";
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY", c"the work is not complete yet";
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"a kernel left its memory";
    LAUNCH_TIMEOUT = 702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"a kernel took too long";
    CONTEXT_IS_DESTROYED = 709, c"CUDA_ERROR_CONTEXT_IS_DESTROYED", c"the context is gone";
    ALREADY_REGISTERED = 712, c"CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        c"the host memory is registered already";
    NOT_REGISTERED = 713, c"CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        c"the host memory is not registered";
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"a kernel failed";
    NOT_PERMITTED = 800, c"CUDA_ERROR_NOT_PERMITTED", c"not permitted";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"this device or driver cannot do that";
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN", c"an unknown failure";
}

impl Status {
    /// Whether a failure of asynchronous work takes the whole context with it.
    pub(crate) const fn loses_context(self) -> bool {
        matches!(self.0, 46 | 214 | 700 | 702 | 710 | 714..=719)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_header() {
        let (name, _) = texts(0).unwrap();
        assert_eq!(name, c"CUDA_SUCCESS");
        for code in [1, 2, 3, 101, 201, 400, 600, 700, 719, 801, 999] {
            let (name, text) = texts(code).unwrap();
            assert!(name.to_bytes().starts_with(b"CUDA_ERROR_"), "{name:?}");
            assert!(!text.is_empty());
        }
        assert_eq!(texts(36), None, "a code of newer drivers");
    }

    #[test]
    fn failures_of_the_device_lose_the_context_and_refusals_do_not() {
        for status in [Status::ILLEGAL_ADDRESS, Status::LAUNCH_FAILED] {
            assert!(status.loses_context(), "{status:?}");
        }
        for status in [
            Status::OUT_OF_MEMORY,
            Status::NOT_READY,
            Status::INVALID_VALUE,
        ] {
            assert!(!status.loses_context(), "{status:?}");
        }
    }
}
