//! A target: a GPU for an application, with the stream that its ops are enqueued on.

use std::ffi::c_void;
use std::sync::Arc;

use super::device::Device;
use super::error::CudaError;
use super::stream::Stream;

/// A GPU for an application.
#[derive(Clone, Debug)]
pub struct Target {
    device: Device,
    /// The application's, by its address; `None`: one that is made for it.
    stream: Option<usize>,
}

impl Target {
    /// A GPU, with a stream of its own for the application's ops.
    #[must_use]
    pub const fn new(device: Device) -> Self {
        Self {
            device,
            stream: None,
        }
    }

    /// A GPU, with a stream of the application, a `CUstream`.
    ///
    /// # Safety
    /// It is a stream of the device's primary context, and outlives whatever is made with this.
    #[must_use]
    pub unsafe fn with_stream(device: Device, stream: *mut c_void) -> Self {
        Self {
            device,
            stream: Some(stream.expose_provenance()),
        }
    }

    /// The GPU.
    #[must_use]
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// The stream, made now if it is not the application's.
    pub(super) fn stream(&self) -> Result<Arc<Stream>, CudaError> {
        let stream = match self.stream {
            None => Stream::new(&self.device)?,
            Some(stream) => {
                let stream = std::ptr::with_exposed_provenance_mut(stream);
                // SAFETY: by the word of who made this.
                unsafe { Stream::of_application(&self.device, stream) }
            }
        };
        Ok(Arc::new(stream))
    }
}
