//! What an error of the runtime is in C: a status, and its sentence as this thread's detail.

use jetson_runtime::RuntimeError;
use jetson_runtime::cuda::{CudaError, Status as CudaStatus};

use crate::guard::failure;
use crate::status::{
    Status, VT_ERROR_BUDGET, VT_ERROR_INVALID_ARGUMENT, VT_ERROR_LOST, VT_ERROR_NO_MEMORY,
    VT_ERROR_NOT_FOUND, VT_ERROR_ORDER, VT_ERROR_PLAN, VT_ERROR_SPILL_FULL, VT_ERROR_SYSTEM,
    VT_ERROR_UNSUPPORTED,
};

/// Leaves the detail of a refused call, and answers its status.
pub(crate) fn refusal(call: &'static str) -> impl Fn(RuntimeError) -> Status {
    move |error| failure(status(&error), format_args!("{call}: {error}"))
}

fn status(error: &RuntimeError) -> Status {
    use RuntimeError as E;
    match error {
        E::SpillInMemory { .. }
        | E::TensorDesc { .. }
        | E::Bounds { .. }
        | E::OutOfRange { .. }
        | E::NotPersistent(_) => VT_ERROR_INVALID_ARGUMENT,
        E::NoTensor(_) | E::NoAllocation(_) => VT_ERROR_NOT_FOUND,
        E::Order { .. }
        | E::DestroyedInside { .. }
        | E::ReadBeforeWrite { .. }
        | E::Diverged { .. }
        | E::PastTheEnd { .. }
        | E::EndedEarly { .. } => VT_ERROR_ORDER,
        E::Memory { .. } | E::VirtualMemory { .. } | E::Mappings { .. } => VT_ERROR_NO_MEMORY,
        E::OpTooLarge { .. } | E::PinTooLarge { .. } | E::Wear { .. } => VT_ERROR_BUDGET,
        E::SpillFull { .. } | E::SpillSpace { .. } => VT_ERROR_SPILL_FULL,
        E::LostContent { .. } | E::Lost { .. } | E::Dead { .. } | E::Replay { .. } => VT_ERROR_LOST,
        E::NotPlanned { .. }
        | E::NotLoaded { .. }
        | E::Transcript(_)
        | E::PageSize { .. }
        | E::Indivisible { .. }
        | E::StepKind(_) => VT_ERROR_PLAN,
        E::Cuda(error) => match error {
            CudaError::Call { status, .. } if *status == CudaStatus::OUT_OF_MEMORY => {
                VT_ERROR_NO_MEMORY
            }
            CudaError::NoDriver { .. }
            | CudaError::Missing { .. }
            | CudaError::NoDevice { .. }
            | CudaError::Refused { .. } => VT_ERROR_UNSUPPORTED,
            CudaError::Granularity { .. } => VT_ERROR_PLAN,
            _ => VT_ERROR_SYSTEM,
        },
        // Failed copies, files, threads: all of them are the system's word. The enum is
        // non-exhaustive; what comes to it needs a row above if it is not.
        _ => VT_ERROR_SYSTEM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtensor::Bytes;

    #[test]
    fn the_sentence_names_the_call_and_the_status_its_kind() {
        let error = RuntimeError::SpillFull {
            needed: Bytes(2),
            used: Bytes(3),
            max: Bytes(4),
        };
        assert_eq!(refusal("vt_x")(error), VT_ERROR_SPILL_FULL);
        // SAFETY: the library's own C string, valid until the next call on this thread.
        let text = unsafe { core::ffi::CStr::from_ptr(crate::last_error::get()) };
        let text = text.to_str().unwrap();
        assert!(
            text.starts_with("vt_x: the spill tier has no room for 2 B"),
            "{text}"
        );
    }
}
