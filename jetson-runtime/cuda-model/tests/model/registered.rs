//! Memory of the application that is registered for a while, or goes meanwhile.

use std::num::NonZeroUsize;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::api::Api;

#[test]
fn memory_that_went_while_it_was_registered() {
    const BYTES: usize = 1 << 30;
    let api = Api::new("rtx-linux");
    let bytes = NonZeroUsize::new(BYTES).unwrap();
    let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE;
    // SAFETY: new memory, wherever the system likes.
    let memory = unsafe { mmap_anonymous(None, bytes, ProtFlags::PROT_READ, flags) }.unwrap();
    api.register(memory.as_ptr().cast(), BYTES).unwrap();
    // SAFETY: nobody uses it.
    unsafe { munmap(memory, BYTES) }.unwrap();
    // Allocations of that size come to lie there, sooner or later.
    let found = (0..40).any(|_| {
        api.alloc(BYTES / 2).unwrap();
        !api.control.reports().is_empty()
    });
    assert!(found, "the system used other addresses");
    assert_eq!(api.rules(), ["freed-while-registered"]);
    assert_eq!(api.unregister(memory.as_ptr().cast()), Err(713));
}

#[test]
fn memory_that_was_registered_is_the_applications_again() {
    const BYTES: usize = 8192;
    let api = Api::new("rtx-linux");
    let mut memory = vec![7_u8; BYTES];
    api.register(memory.as_mut_ptr(), BYTES).unwrap();
    api.unregister(memory.as_mut_ptr()).unwrap();
    let device = api.alloc(BYTES).unwrap();
    api.upload_now(device, memory.as_ptr(), BYTES).unwrap();
    api.sync_stream(0).unwrap();
    let mut back = vec![0; BYTES];
    api.download_now(back.as_mut_ptr(), device, BYTES).unwrap();
    assert_eq!(back, memory);
    assert_eq!(api.rules(), Vec::<String>::new());
}
