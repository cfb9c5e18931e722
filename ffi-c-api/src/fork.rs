//! `fork()`: a child has none of its parent's runtimes.
//!
//! Their threads do not run there, and their memory is not mapped. So a handle that a child has
//! inherited is told apart from a living one and refused, as one that was destroyed is, and nothing
//! is given back twice. The child may create runtimes of its own.

use core::ffi::c_int;
use std::sync::Once;

type Handler = Option<unsafe extern "C" fn()>;

unsafe extern "C" {
    /// POSIX: calls `child` in each child of this process, before `fork` returns there.
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
}

/// Lets every child do something from now on, the first time that it is asked for. Without memory
/// for that, they are on their own.
///
/// # Safety
/// `in_child` does only what may be done in a child: it allocates nothing and takes no lock.
pub(crate) unsafe fn watch(in_child: unsafe extern "C" fn()) {
    static WATCHING: Once = Once::new();
    WATCHING.call_once(|| {
        // SAFETY: the function is there for ever (the library is never unloaded); the caller
        // vouches for what it does.
        let _ = unsafe { pthread_atfork(None, None, Some(in_child)) };
    });
}
