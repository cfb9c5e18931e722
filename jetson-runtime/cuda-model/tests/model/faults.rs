//! Failures come on cue, once or for ever, at once or late, and hang nobody.

use cuda_model::Failing;

use crate::api::Api;

#[test]
fn the_nth_call_fails_and_does_nothing() {
    let api = Api::new("orin");
    api.control
        .inject("cuMemAlloc_v2", 2, Failing::Now, 2)
        .unwrap();
    let found = [(); 3].map(|()| api.alloc(64).map(drop));
    assert_eq!(found, [Ok(()), Err(2), Ok(())]);
    assert_eq!(api.control.leaks().len(), 3, "context, and two allocations");
    assert_eq!(api.control.calls("cuMemAlloc_v2").unwrap(), 3);
    api.control
        .inject_many("*", 1, 2, Failing::Now, 36)
        .unwrap();
    assert_eq!(api.event().map(drop), Err(36), "a code that has no name");
    assert_eq!(api.alloc(1).map(drop), Err(36));
    assert!(api.event().is_ok());
    api.control.inject("cuInit", 1, Failing::Now, 2).unwrap();
    api.control.clear_faults().unwrap();
    assert!(api.init().is_ok());
    for name in ["a\0b", "cuNothing", ""] {
        assert!(
            api.control.inject(name, 1, Failing::Now, 2).is_err(),
            "{name:?}"
        );
    }
    assert!(
        api.control.elide("cuMemFree_v2", 1).is_err(),
        "it orders nothing"
    );
}

#[test]
fn a_release_that_is_refused_is_no_leak() {
    let api = Api::new("orin");
    let (stream, event) = (api.stream().unwrap(), api.event().unwrap());
    let memory = api.alloc(64).unwrap();
    api.control
        .inject_many("*", 1, 3, Failing::Now, 999)
        .unwrap();
    assert_eq!(api.free(memory), Err(999));
    assert_eq!(api.destroy_event(event), Err(999));
    assert_eq!(api.destroy_stream(stream), Err(999));
    assert_eq!(api.control.leaks(), ["context: retained 1 times"]);
    api.free(memory).unwrap();
}

#[test]
fn late_failures_are_told_later() {
    let api = Api::new("orin");
    let stream = api.stream().unwrap();
    let memory = api.alloc(64).unwrap();
    api.set(memory, 1, 64, stream).unwrap();
    api.control
        .inject("cuMemsetD8Async", 1, Failing::Late, 999)
        .unwrap();
    api.set(memory, 2, 64, stream).unwrap();
    assert_eq!(api.sync_stream(stream), Err(999));
    api.sync_stream(stream).unwrap();
    let mut bytes = [0; 2];
    api.download_now(bytes.as_mut_ptr(), memory, 2).unwrap();
    assert_eq!(bytes, [1, 1], "the failed fill did nothing");
    // A call that enqueues nothing is told by the next one.
    api.control
        .inject("cuMemAlloc_v2", 1, Failing::Late, 2)
        .unwrap();
    assert!(api.alloc(64).is_ok());
    assert_eq!(api.alloc(64), Err(2));
    assert!(api.alloc(64).is_ok());
}

#[test]
fn a_lost_context_stays_lost_and_nothing_hangs() {
    for late in [false, true] {
        let api = Api::new("orin");
        let [one, other] = [(); 2].map(|()| api.stream().unwrap());
        let event = api.event().unwrap();
        let memory = api.alloc(64).unwrap();
        api.record(event, one).unwrap();
        let (failing, code) = match late {
            true => (Failing::Late, 719),
            false => (Failing::ForEver, 46),
        };
        api.control
            .inject("cuMemsetD8Async", 1, failing, code)
            .unwrap();
        let answer = api.set(memory, 1, 64, one);
        assert_eq!(answer, if late { Ok(()) } else { Err(code) });
        assert_eq!(api.sync_stream(one), Err(code));
        for _ in 0..2 {
            assert_eq!(api.record(event, one), Err(code));
            assert_eq!(api.wait(other, event), Err(code));
            assert_eq!(api.query(event), Err(code));
            assert_eq!(api.synchronize(), Err(code));
            assert_eq!(api.create(1 << 16), Err(code));
        }
        assert_eq!(api.free(memory), Err(code));
        for stream in [one, other] {
            assert_eq!(api.destroy_stream(stream), Err(code));
        }
        assert_eq!(api.destroy_event(event), Err(code));
        api.release().unwrap();
        assert_eq!(api.control.leaks(), [""; 0]);
        assert_eq!(api.control.reports(), [""; 0]);
        api.control.reset("orin").unwrap();
        api.init().unwrap();
        assert!(api.retain().is_ok(), "a reset heals");
    }
}

#[test]
fn memory_has_an_end() {
    let api = Api::new("rtx-linux");
    api.control.memory(1000).unwrap();
    let first = api.alloc(600).unwrap();
    assert_eq!(api.alloc(401), Err(2));
    assert_eq!(api.memory_info(), Ok((400, 1000)));
    assert!(api.alloc_managed(4000).is_ok(), "the driver pages it");
    api.free(first).unwrap();
    assert!(api.alloc(1000).is_ok());
    let wsl = Api::new("rtx-wsl");
    wsl.control.memory(1000).unwrap();
    assert_eq!(wsl.alloc_managed(4000), Err(2));
}

#[test]
fn jitter_reorders_streams_and_breaks_no_order() {
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let api = Api::new("rtx-linux");
        api.control.jitter(seed, 2_000_000).unwrap();
        let streams = [(); 3].map(|()| api.stream().unwrap());
        let events = [(); 3].map(|()| api.event().unwrap());
        let start = api.event().unwrap();
        api.record(start, streams[0]).unwrap();
        api.sync_event(start).unwrap();
        for (stream, event) in streams.iter().zip(events) {
            api.record(event, *stream).unwrap();
        }
        api.synchronize().unwrap();
        let mut order = [0, 1, 2];
        let at = |index: usize| api.elapsed(start, events[index]).unwrap();
        order.sort_by(|a, b| at(*a).total_cmp(&at(*b)));
        orders.insert(order);
    }
    assert!(orders.len() > 1, "{orders:?}");
}
