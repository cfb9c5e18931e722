//! The driver, opened at run time.
//!
//! In: the path of a library, by default `libcuda.so.1`. Out: its functions. Guarantees: opening
//! fails with a reason where there is no driver, or where it lacks a function that nothing works
//! without; what only some mechanisms need may be missing until it is called. Limit: a library is
//! trusted to be what its name says; name none that you would not run.

use std::error::Error;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libloading::Library;

use super::error::CudaError;
use super::symbols::Symbols;

/// The library that a system has.
pub const LIBRARY: &str = "libcuda.so.1";
/// The variable of the environment that names another one.
pub const LIBRARY_VARIABLE: &str = "VTENSOR_CUDA_LIBRARY";

/// Functions that not every device, mechanism or measurement needs.
const OPTIONAL: &[&str] = &[
    "cuDeviceGetUuid_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemAllocManaged",
    "cuMemPrefetchAsync_v2",
    "cuMemPrefetchAsync",
    "cuMemDiscardBatchAsync",
    "cuMemGetAllocationGranularity",
    "cuMemAddressReserve",
    "cuMemAddressFree",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemMap",
    "cuMemUnmap",
    "cuMemSetAccess",
];

/// An open driver; clones share it.
#[derive(Clone, Debug)]
pub struct Driver {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Before the library: they end with it.
    symbols: Symbols,
    path: PathBuf,
    version: c_int,
    _library: Library,
}

impl Driver {
    /// Opens the driver that the environment names, or the system's.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn system() -> Result<Self, CudaError> {
        // Empty is unset: the loader would take the program itself.
        match std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()) {
            Some(path) => Self::open(Path::new(&path)),
            None => Self::open(Path::new(LIBRARY)),
        }
    }

    /// Opens and initialises the driver at `path`.
    ///
    /// # Errors
    /// If there is none, if it lacks a function that is always needed, or if it finds no device.
    pub fn open(path: &Path) -> Result<Self, CudaError> {
        // SAFETY: a driver's library may be loaded at any time; which one is the user's choice.
        let library = unsafe { Library::new(path) }.map_err(|error| CudaError::NoDriver {
            library: path.into(),
            // The loader's own words are in the cause.
            reason: error
                .source()
                .map_or(error.to_string(), ToString::to_string),
        })?;
        // SAFETY: the library is a driver by the user's word, and types are the documentation's.
        let symbols = unsafe { Symbols::resolve(&library) };
        if !symbols.init.is_there() {
            return Err(CudaError::NoDriver {
                library: path.into(),
                reason: "it has no cuInit, so it is no driver".into(),
            });
        }
        for (name, there) in symbols.all() {
            let symbol = name.to_str().expect("names of functions are ASCII");
            if !there && !OPTIONAL.contains(&symbol) {
                return Err(CudaError::Missing { symbol });
            }
        }
        // SAFETY: it may be called at any time, any number of times.
        unsafe { symbols.init(0) }?;
        let mut version = 0;
        // SAFETY: the target is a local.
        unsafe { symbols.driver_version(&raw mut version) }?;
        Ok(Self {
            inner: Arc::new(Inner {
                symbols,
                path: path.into(),
                version,
                _library: library,
            }),
        })
    }

    /// The version of CUDA that the driver supports, as 1000 × major + 10 × minor.
    #[must_use]
    pub fn version(&self) -> i32 {
        self.inner.version
    }

    /// The library, as it was named.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// How many devices there are.
    ///
    /// # Errors
    /// If the driver does not tell.
    pub fn devices(&self) -> Result<i32, CudaError> {
        let mut count = 0;
        // SAFETY: the target is a local.
        unsafe { self.symbols().device_count(&raw mut count) }?;
        Ok(count)
    }

    pub(crate) fn symbols(&self) -> &Symbols {
        &self.inner.symbols
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_driver_is_an_error_with_its_name() {
        let error = Driver::open(Path::new("/nowhere/libcuda.so.1")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/nowhere/libcuda.so.1"), "{text}");
        assert!(text.contains("install the driver"), "{text}");
    }

    #[test]
    fn a_library_that_is_no_driver_is_told_by_what_it_lacks() {
        let error = Driver::open(Path::new("libc.so.6")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("libc.so.6 cannot be used"), "{text}");
        assert!(text.contains("no cuInit"), "{text}");
    }
}
