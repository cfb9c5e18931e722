//! Each misuse yields its named report, and the status that a driver answers.

use crate::api::Api;

const BYTES: usize = 4096;

/// Checks one misuse: its status, and the one rule that it breaks.
fn misused(api: &Api, answer: Result<(), i32>, code: i32, rule: &str) {
    assert_eq!(answer, Err(code), "{rule}");
    let reports = api.control.reports();
    let last = reports.last().and_then(|report| report.split(':').next());
    assert_eq!(last, Some(rule), "{reports:?}");
}

#[test]
fn calls_before_their_time() {
    let api = Api::bare("orin");
    misused(&api, api.attribute(18).map(drop), 3, "not-initialised");
    api.init().unwrap();
    assert!(api.attribute(18).is_ok());
    misused(&api, api.alloc(1).map(drop), 201, "no-context");
    misused(&api, api.set_current(4711), 201, "wrong-context");
    misused(&api, api.release(), 201, "context-release");
}

#[test]
fn a_context_that_was_released() {
    let api = Api::new("orin");
    api.release().unwrap();
    misused(&api, api.alloc(1).map(drop), 709, "wrong-context");
    let again = api.retain().unwrap();
    misused(&api, api.alloc(1).map(drop), 709, "wrong-context");
    api.set_current(again).unwrap();
    assert!(api.alloc(1).is_ok());
}

#[test]
fn a_context_is_current_to_its_thread_only() {
    let api = Api::new("orin");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| misused(&api, api.alloc(1).map(drop), 201, "no-context"));
        other.join().unwrap();
    });
}

#[test]
fn memory_after_it_was_freed_and_before_it_was_there() {
    let api = Api::new("orin");
    let stream = api.stream().unwrap();
    let (a, host) = (api.alloc(BYTES).unwrap(), api.alloc_host(BYTES).unwrap());
    api.free(a).unwrap();
    misused(&api, api.set(a, 0, 1, stream), 1, "use-after-free");
    misused(&api, api.free(a), 1, "bad-free");
    misused(&api, api.set(16, 0, 1, stream), 1, "unknown-address");
    let b = api.alloc(BYTES).unwrap();
    misused(&api, api.set(b, 0, BYTES + 1, stream), 1, "unknown-address");
    misused(&api, api.free(b + 1), 1, "bad-free");
    misused(&api, api.set(b, 0, usize::MAX, stream), 1, "overflow");
    misused(&api, api.free(host as u64), 1, "bad-free");
    api.free_host(host).unwrap();
    misused(&api, api.upload(b, host, 1, stream), 1, "use-after-free");
    let touch = api.control.host_touch(host, 1, false);
    assert!(
        touch
            .unwrap_err()
            .to_string()
            .contains("CUDA_ERROR_INVALID_VALUE")
    );
    let back: *const u8 = std::ptr::without_provenance(usize::try_from(b).unwrap());
    misused(&api, api.upload(b, back, 1, stream), 1, "wrong-side");
    assert!(api.control.host_touch(back, 1, false).is_err());
    assert_eq!(api.rules().last().unwrap(), "host-touch-of-device");
}

#[test]
fn memory_that_is_still_in_use() {
    let api = Api::new("orin");
    let stream = api.stream().unwrap();
    let (_, [_, _, spin]) = api.kernels();
    for step in 0..4 {
        let device = api.alloc(BYTES).unwrap();
        let host = api.alloc_host(BYTES).unwrap();
        api.launch(spin, stream, &[2_000_000]).unwrap();
        api.upload(device, host, BYTES, stream).unwrap();
        if step % 2 == 1 {
            api.sync_stream(stream).unwrap();
        }
        match step / 2 {
            0 => {
                api.free(device).unwrap();
                api.sync_stream(stream).unwrap();
                api.free_host(host).unwrap();
            }
            _ => {
                api.free_host(host).unwrap();
                api.sync_stream(stream).unwrap();
                api.free(device).unwrap();
            }
        }
        let wanted = [1, 1, 2, 2][step];
        assert_eq!(
            api.control.reports().len(),
            wanted,
            "{:?}",
            api.control.reports()
        );
    }
    assert_eq!(api.rules(), ["in-use"]);
}

#[test]
fn handles_that_stand_for_nothing() {
    let api = Api::new("orin");
    let (stream, event) = (api.stream().unwrap(), api.event().unwrap());
    misused(&api, api.record(stream, stream), 400, "bad-handle");
    misused(&api, api.wait(event, event), 400, "bad-handle");
    misused(&api, api.launch(7, stream, &[1]), 400, "bad-handle");
    api.destroy_event(event).unwrap();
    misused(&api, api.destroy_event(event), 400, "bad-handle");
    misused(&api, api.record(event, stream), 400, "bad-handle");
    misused(&api, api.sync_event(event), 400, "bad-handle");
    misused(&api, api.query(event), 400, "bad-handle");
    api.destroy_stream(stream).unwrap();
    misused(&api, api.destroy_stream(stream), 400, "bad-handle");
    misused(&api, api.sync_stream(stream), 400, "bad-handle");
    misused(&api, api.set(0, 0, 0, stream), 400, "bad-handle");
    let reports = api.control.reports();
    assert!(reports[0].contains("is of another kind"), "{reports:?}");
    assert!(reports[2].contains("never given out"), "{reports:?}");
    assert!(reports[3].contains("was destroyed"), "{reports:?}");
}

#[test]
fn events_that_were_never_recorded() {
    let api = Api::new("orin");
    let (stream, event) = (api.stream().unwrap(), api.event().unwrap());
    // All of these are silent on a device.
    api.wait(stream, event).unwrap();
    assert_eq!(api.rules(), ["never-recorded"]);
    api.sync_event(event).unwrap();
    api.query(event).unwrap();
    assert_eq!(api.control.reports().len(), 3);
    misused(&api, api.elapsed(event, event).map(drop), 400, "no-time");
}

#[test]
fn events_that_are_recorded_anew() {
    let api = Api::new("orin");
    let (stream, other) = (api.stream().unwrap(), api.stream().unwrap());
    let event = api.event().unwrap();
    let (_, [_, _, spin]) = api.kernels();
    // Seen complete by the host, in whatever way: fine.
    api.launch(spin, stream, &[1000]).unwrap();
    api.record(event, stream).unwrap();
    api.sync_stream(stream).unwrap();
    // Somebody waits already: legal, and against the rules of a strict test only.
    api.launch(spin, stream, &[1000]).unwrap();
    api.record(event, stream).unwrap();
    api.wait(other, event).unwrap();
    api.launch(spin, stream, &[1000]).unwrap();
    api.record(event, stream).unwrap();
    assert_eq!(api.control.reports(), [""; 0]);
    // Nobody can wait for that record any more.
    api.launch(spin, stream, &[1000]).unwrap();
    api.record(event, stream).unwrap();
    assert_eq!(api.rules(), ["record-lost"]);
    api.control.strict_events(true).unwrap();
    api.wait(other, event).unwrap();
    api.record(event, stream).unwrap();
    assert_eq!(api.rules(), ["record-lost", "record-early"]);
}

#[test]
fn host_memory_that_is_registered_badly() {
    let api = Api::new("orin");
    let stream = api.stream().unwrap();
    let mut bytes = vec![3_u8; BYTES];
    let pointer = bytes.as_mut_ptr();
    api.register(pointer, BYTES).unwrap();
    misused(&api, api.register(pointer, 10), 712, "double-register");
    // The device knows it by another address.
    let device = api.device_pointer(pointer).unwrap();
    assert_ne!(device, pointer as u64);
    misused(
        &api,
        api.set(pointer as u64, 0, 1, stream),
        1,
        "host-pointer",
    );
    api.set(device + 1, 4, 1, stream).unwrap();
    api.sync_stream(stream).unwrap();
    misused(
        &api,
        api.unregister(pointer.wrapping_add(1)),
        713,
        "bad-free",
    );
    api.unregister(pointer).unwrap();
    assert_eq!(bytes[..3], [3, 4, 3]);
    misused(
        &api,
        api.device_pointer(pointer).map(drop),
        1,
        "bad-pointer",
    );
}

#[test]
fn a_kernel_that_leaves_its_memory_loses_the_context() {
    let api = Api::new("orin");
    let stream = api.stream().unwrap();
    let (_, [fill, _, _]) = api.kernels();
    let device = api.alloc(BYTES).unwrap();
    api.launch(fill, stream, &[device, BYTES as u64 + 1, 0, 0, 0])
        .unwrap();
    assert_eq!(api.rules(), ["unknown-address"]);
    assert_eq!(api.sync_stream(stream), Err(700));
    assert_eq!(api.alloc(1).map(drop), Err(700));
    assert_eq!(api.free(device), Err(700));
    api.release().unwrap();
    assert_eq!(api.control.leaks(), [""; 0]);
}

#[test]
fn what_is_left_when_the_context_goes() {
    let api = Api::new("orin");
    api.alloc(100).unwrap();
    api.alloc_host(100).unwrap();
    api.stream().unwrap();
    api.event().unwrap();
    let (_, _) = api.kernels();
    // Pages belong to no context.
    let page = api.create(1 << 16).unwrap();
    assert_eq!(api.control.leaks().len(), 7, "{:?}", api.control.leaks());
    api.release().unwrap();
    assert_eq!(api.rules(), ["leak"]);
    let reports = api.control.reports();
    let kinds = ["Pinned memory", "Plain memory", "event", "module", "stream"];
    for (report, kind) in reports.iter().zip(kinds) {
        assert!(report.starts_with(&format!("leak: {kind}: ")), "{report}");
    }
    assert_eq!(reports.len(), kinds.len());
    assert_eq!(api.control.leaks(), ["physical memory: 65536 bytes"]);
    api.release_page(page).unwrap();
    assert_eq!(api.control.leaks(), [""; 0]);
}
