//! Managed memory: one address for host and device, and rules about when.

use crate::api::{Api, Location};

const BYTES: usize = 4096;

#[test]
fn host_and_device_share_the_bytes() {
    let api = Api::new("rtx-linux");
    let stream = api.stream().unwrap();
    let memory = api.alloc_managed(BYTES).unwrap();
    let pointer: *mut u8 = std::ptr::with_exposed_provenance_mut(usize::try_from(memory).unwrap());
    api.set(memory, 7, BYTES, stream).unwrap();
    api.prefetch(memory, BYTES, Location(2, 0), stream).unwrap();
    api.sync_stream(stream).unwrap();
    api.control.host_touch(pointer, BYTES, true).unwrap();
    // SAFETY: managed memory of this size; the device is done with it.
    let bytes = unsafe { std::slice::from_raw_parts_mut(pointer, BYTES) };
    assert_eq!(bytes, [7; BYTES]);
    bytes.fill(8);
    api.prefetch(memory, BYTES, Location(1, 0), stream).unwrap();
    let mut found = [0; BYTES];
    api.download(found.as_mut_ptr(), memory, BYTES, stream)
        .unwrap();
    assert_eq!(found, [8; BYTES]);
    api.free(memory).unwrap();
    api.destroy_stream(stream).unwrap();
    api.end_clean();
}

#[test]
fn a_device_without_concurrent_access_wants_to_be_idle() {
    for (profile, reports) in [("orin", 1), ("thor", 0)] {
        let api = Api::new(profile);
        let stream = api.stream().unwrap();
        let (_, [_, _, spin]) = api.kernels();
        let memory = api.alloc_managed(BYTES).unwrap();
        let pointer: *const u8 = std::ptr::without_provenance(usize::try_from(memory).unwrap());
        api.launch(spin, stream, &[1]).unwrap();
        api.control.host_touch(pointer, 1, false).unwrap();
        assert_eq!(api.control.reports().len(), reports, "{profile}");
        api.sync_stream(stream).unwrap();
        api.control.host_touch(pointer, 1, false).unwrap();
        assert_eq!(api.control.reports().len(), reports, "{profile}");
        assert!(reports == 0 || api.rules() == ["managed-while-busy"]);
    }
}

#[test]
fn discarded_bytes_must_be_written_before_they_are_read() {
    let api = Api::new("rtx-linux");
    let stream = api.stream().unwrap();
    let memory = api.alloc_managed(BYTES).unwrap();
    let host = api.alloc_host(BYTES).unwrap();
    api.set(memory, 1, BYTES, stream).unwrap();
    api.discard(memory, BYTES, stream).unwrap();
    api.set(memory, 2, 100, stream).unwrap();
    api.download(host, memory, 100, stream).unwrap();
    assert_eq!(api.control.reports(), [""; 0]);
    api.download(host, memory, 101, stream).unwrap();
    assert_eq!(api.rules(), ["read-of-discarded"]);
    let other = api.stream().unwrap();
    api.discard(memory, 1, other).unwrap();
    assert_eq!(api.rules(), ["read-of-discarded", "race"]);
}

#[test]
fn only_managed_memory_can_be_told_where_to_be() {
    let api = Api::new("rtx-linux");
    let memory = api.alloc(BYTES).unwrap();
    assert_eq!(api.prefetch_to(memory, BYTES, 0), Err(1));
    assert_eq!(api.rules(), ["not-managed"]);
    let managed = api.alloc_managed(BYTES).unwrap();
    assert_eq!(api.prefetch_to(managed, BYTES, 3), Err(101));
    assert_eq!(api.prefetch_to(managed, BYTES, -1), Ok(()));
    assert_eq!(api.prefetch(managed, BYTES, Location(9, 0), 0), Err(1));
    assert_eq!(api.prefetch(managed, BYTES + 1, Location(1, 0), 0), Err(1));
}

#[test]
fn what_is_on_the_device_is_counted() {
    let api = Api::new("rtx-linux");
    let stream = api.stream().unwrap();
    let (module, [fill, _, _]) = api.kernels();
    let memory = api.alloc_managed(10 * BYTES).unwrap();
    let counts = || {
        let managed = api.control.managed().unwrap();
        let counts = [
            managed.resident,
            managed.resident_max,
            managed.faulted,
            managed.prefetched,
        ];
        counts.map(|bytes| bytes / BYTES as u64)
    };
    api.prefetch(memory, 4 * BYTES, Location(1, 0), stream)
        .unwrap();
    api.launch(fill, stream, &[memory, 6 * BYTES as u64, 1, 1, 0])
        .unwrap();
    assert_eq!(counts(), [6, 6, 2, 4]);
    api.prefetch(memory, 3 * BYTES, Location(2, 0), stream)
        .unwrap();
    api.discard(memory + 5 * BYTES as u64, BYTES, stream)
        .unwrap();
    api.set(memory, 1, BYTES, stream).unwrap();
    assert_eq!(counts(), [3, 6, 3, 4]);
    api.sync_stream(stream).unwrap();
    api.free(memory).unwrap();
    assert_eq!(counts(), [0, 6, 3, 4]);
    api.destroy_stream(stream).unwrap();
    api.unload(module).unwrap();
    api.end_clean();
}
