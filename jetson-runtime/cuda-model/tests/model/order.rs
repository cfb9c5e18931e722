//! A missing wait is reported, however lucky the timing was; the right wait is not.

use std::thread;
use std::time::Duration;

use crate::api::Api;

const BYTES: usize = 1 << 12;

/// Two streams, and a buffer on each side.
struct Pair {
    api: Api,
    streams: [usize; 2],
    device: u64,
    host: *mut u8,
    event: usize,
}

impl Pair {
    fn new() -> Self {
        let api = Api::new("rtx-linux");
        Self {
            streams: [(); 2].map(|()| api.stream().unwrap()),
            device: api.alloc(BYTES).unwrap(),
            host: api.alloc_host(BYTES).unwrap(),
            event: api.event().unwrap(),
            api,
        }
    }

    /// Ends everything; what was reported.
    fn end(self) -> Vec<String> {
        let reports = self.api.control.reports();
        self.api.synchronize().unwrap();
        self.api.free(self.device).unwrap();
        self.api.free_host(self.host).unwrap();
        for stream in self.streams {
            self.api.destroy_stream(stream).unwrap();
        }
        self.api.destroy_event(self.event).unwrap();
        self.api.release().unwrap();
        assert_eq!(self.api.control.reports(), reports, "the end adds none");
        assert_eq!(self.api.control.leaks(), [""; 0]);
        reports
    }
}

#[test]
fn a_pair_of_copies_out_of_order_is_a_race() {
    let pair = Pair::new();
    let [one, other] = pair.streams;
    pair.api.upload(pair.device, pair.host, BYTES, one).unwrap();
    // By now the copy is done; but nothing says so.
    thread::sleep(Duration::from_millis(20));
    pair.api.set(pair.device + 100, 7, 100, other).unwrap();
    let reports = pair.end();
    assert_eq!(reports.len(), 1, "{reports:?}");
    for part in [
        "race: ",
        "cuMemsetD8Async on stream 3 writes bytes 100..200",
        "cuMemcpyHtoDAsync_v2 (work 1 of stream 2) writes",
    ] {
        assert!(reports[0].contains(part), "{part}: {reports:?}");
    }
}

#[test]
fn an_event_orders_two_streams() {
    let pair = Pair::new();
    let ([one, other], api) = (pair.streams, &pair.api);
    api.upload(pair.device, pair.host, BYTES, one).unwrap();
    api.record(pair.event, one).unwrap();
    api.wait(other, pair.event).unwrap();
    api.set(pair.device, 7, BYTES, other).unwrap();
    assert_eq!(pair.end(), [""; 0]);
}

#[test]
fn a_record_before_the_copy_orders_nothing() {
    let pair = Pair::new();
    let ([one, other], api) = (pair.streams, &pair.api);
    api.record(pair.event, one).unwrap();
    api.upload(pair.device, pair.host, BYTES, one).unwrap();
    api.wait(other, pair.event).unwrap();
    api.set(pair.device, 7, BYTES, other).unwrap();
    assert_eq!(pair.end().len(), 1);
}

#[test]
fn a_wait_takes_the_record_of_its_time() {
    let pair = Pair::new();
    let ([one, other], api) = (pair.streams, &pair.api);
    api.record(pair.event, one).unwrap();
    api.wait(other, pair.event).unwrap();
    api.upload(pair.device, pair.host, BYTES, one).unwrap();
    api.record(pair.event, one).unwrap();
    api.set(pair.device, 7, BYTES, other).unwrap();
    let reports = pair.end();
    assert_eq!(
        reports.len(),
        1,
        "the later record does not help: {reports:?}"
    );
}

#[test]
fn order_is_passed_on() {
    let pair = Pair::new();
    let ([one, other], api) = (pair.streams, &pair.api);
    let third = api.stream().unwrap();
    api.set(pair.device, 1, BYTES, one).unwrap();
    api.record(pair.event, one).unwrap();
    api.wait(third, pair.event).unwrap();
    let second = api.event().unwrap();
    api.record(second, third).unwrap();
    api.wait(other, second).unwrap();
    api.set(pair.device, 2, BYTES, other).unwrap();
    api.sync_stream(other).unwrap();
    // What the other stream waited for is complete too.
    api.destroy_event(second).unwrap();
    api.destroy_stream(third).unwrap();
    assert_eq!(pair.end(), [""; 0]);
}

#[test]
fn the_host_orders_what_it_waited_for() {
    type Wait = fn(&Pair);
    let waits: [(Wait, bool); 6] = [
        (|pair| pair.api.sync_stream(pair.streams[0]).unwrap(), true),
        (|pair| pair.api.synchronize().unwrap(), true),
        (|pair| pair.api.sync_event(pair.event).unwrap(), true),
        (|pair| while pair.api.query(pair.event) == Err(600) {}, true),
        (
            |pair| while pair.api.query_stream(pair.streams[0]) == Err(600) {},
            true,
        ),
        (|pair| pair.api.sync_stream(pair.streams[1]).unwrap(), false),
    ];
    for (index, (wait, orders)) in waits.into_iter().enumerate() {
        let pair = Pair::new();
        let api = &pair.api;
        api.download(pair.host, pair.device, BYTES, pair.streams[0])
            .unwrap();
        api.record(pair.event, pair.streams[0]).unwrap();
        wait(&pair);
        api.control.host_touch(pair.host, BYTES, false).unwrap();
        api.upload(pair.device, pair.host, BYTES, pair.streams[1])
            .unwrap();
        let reports = pair.end();
        assert_eq!(reports.is_empty(), orders, "wait {index}: {reports:?}");
    }
}

#[test]
fn the_host_must_not_touch_what_a_copy_uses() {
    for (write, races) in [(true, true), (false, false)] {
        let pair = Pair::new();
        let api = &pair.api;
        api.upload(pair.device, pair.host, BYTES, pair.streams[0])
            .unwrap();
        api.control.host_touch(pair.host, 1, write).unwrap();
        let reports = pair.end();
        assert_eq!(!reports.is_empty(), races, "{reports:?}");
        assert!(!races || reports[0].contains("the host's access on the host writes"));
    }
}

#[test]
fn an_access_after_the_host_is_ordered_after_it() {
    let pair = Pair::new();
    let api = &pair.api;
    api.control.host_touch(pair.host, BYTES, true).unwrap();
    api.upload(pair.device, pair.host, BYTES, pair.streams[0])
        .unwrap();
    assert_eq!(pair.end(), [""; 0]);
}

#[test]
fn readers_and_counters_do_not_race_with_each_other() {
    let pair = Pair::new();
    let ([one, other], api) = (pair.streams, &pair.api);
    let (module, [fill, check, _]) = api.kernels();
    let count = api.alloc(8).unwrap();
    api.set(count, 0, 8, one).unwrap();
    api.launch(fill, one, &[pair.device, BYTES as u64, 1, 1, 0])
        .unwrap();
    api.sync_stream(one).unwrap();
    for stream in [one, other, one] {
        let values = [pair.device, BYTES as u64, 1, 1, 0, count];
        api.launch(check, stream, &values).unwrap();
    }
    assert_eq!(api.control.reports(), [""; 0]);
    // A plain read of the counter is no atomic update.
    api.download(pair.host, count, 8, other).unwrap();
    assert_eq!(api.rules(), ["race"]);
    api.synchronize().unwrap();
    api.free(count).unwrap();
    api.unload(module).unwrap();
    assert_eq!(pair.end().len(), 1);
}

#[test]
fn the_default_stream_orders_blocking_streams_only() {
    for (flags, races) in [(0, 0), (1, 2)] {
        let pair = Pair::new();
        let api = &pair.api;
        let stream = api.stream_of(flags).unwrap();
        api.set(pair.device, 1, BYTES, stream).unwrap();
        api.set(pair.device, 2, BYTES, 0).unwrap();
        api.set(pair.device, 3, BYTES, stream).unwrap();
        let mut bytes = [0; 1];
        api.sync_stream(stream).unwrap();
        api.sync_stream(0).unwrap();
        api.download_now(bytes.as_mut_ptr(), pair.device, 1)
            .unwrap();
        assert!(races > 0 || bytes == [3]);
        api.destroy_stream(stream).unwrap();
        assert_eq!(pair.end().len(), races, "flags {flags}");
    }
}

#[test]
fn a_pageable_upload_may_still_be_on_its_way() {
    let pair = Pair::new();
    let api = &pair.api;
    let pageable = vec![5_u8; BYTES];
    api.upload_now(pair.device, pageable.as_ptr(), BYTES)
        .unwrap();
    api.set(pair.device, 7, 1, pair.streams[0]).unwrap();
    assert_eq!(pair.end().len(), 1);

    // From pinned memory the call returns when it is complete; so does one to the host.
    let pair = Pair::new();
    let api = &pair.api;
    let mut pageable = vec![5_u8; BYTES];
    api.upload_now(pair.device, pair.host, BYTES).unwrap();
    api.set(pair.device, 7, BYTES, pair.streams[0]).unwrap();
    api.download(pageable.as_mut_ptr(), pair.device, BYTES, pair.streams[0])
        .unwrap();
    assert_eq!(pageable, [7; BYTES]);
    api.set(pair.device, 8, BYTES, pair.streams[1]).unwrap();
    assert_eq!(pair.end(), [""; 0]);
}

#[test]
fn a_staged_source_may_change_at_once() {
    let pair = Pair::new();
    let api = &pair.api;
    let mut pageable = vec![5_u8; BYTES];
    api.control.jitter(1, 3_000_000).unwrap();
    api.upload(pair.device, pageable.as_ptr(), BYTES, pair.streams[0])
        .unwrap();
    pageable.fill(6);
    api.download(pageable.as_mut_ptr(), pair.device, BYTES, pair.streams[0])
        .unwrap();
    assert_eq!(pageable, [5; BYTES]);
    assert_eq!(pair.end(), [""; 0]);
}

#[test]
fn every_wait_of_a_ring_is_needed_and_its_lack_is_seen() {
    // Three streams pass a buffer on; each pass needs its wait.
    let run = |elided: Option<u64>| {
        let api = Api::new("thor");
        let streams = [(); 3].map(|()| api.stream().unwrap());
        let events = [(); 3].map(|()| api.event().unwrap());
        let buffer = api.alloc(BYTES).unwrap();
        if let Some(nth) = elided {
            api.control.elide("cuStreamWaitEvent", nth).unwrap();
        }
        for step in 0..9_usize {
            if step > 0 {
                api.wait(streams[step % 3], events[(step - 1) % 3]).unwrap();
            }
            api.set(buffer, 1, BYTES, streams[step % 3]).unwrap();
            api.record(events[step % 3], streams[step % 3]).unwrap();
        }
        api.synchronize().unwrap();
        api.free(buffer).unwrap();
        for stream in streams {
            api.destroy_stream(stream).unwrap();
        }
        for event in events {
            api.destroy_event(event).unwrap();
        }
        api.release().unwrap();
        assert_eq!(api.control.leaks(), [""; 0]);
        assert_eq!(api.control.calls("cuStreamWaitEvent").unwrap(), 8);
        api.rules()
    };
    assert_eq!(run(None), [""; 0]);
    for nth in 1..=8 {
        let rules = run(Some(nth));
        assert!(rules.contains(&"race".to_owned()), "wait {nth}: {rules:?}");
    }
}

#[test]
fn the_work_of_a_destroyed_stream_can_be_waited_for() {
    for waits in [true, false] {
        let pair = Pair::new();
        let api = &pair.api;
        let stream = api.stream().unwrap();
        let memory = api.alloc(BYTES).unwrap();
        api.control.jitter(3, 2_000_000).unwrap();
        api.set(memory, 1, BYTES, stream).unwrap();
        api.destroy_stream(stream).unwrap();
        if waits {
            api.synchronize().unwrap();
        }
        api.free(memory).unwrap();
        assert_eq!(pair.end().is_empty(), waits);
    }
}

#[test]
fn an_elided_call_answers_success_and_orders_nothing() {
    type Call = fn(&Pair) -> Result<(), i32>;
    let calls: [(&str, Call, &str); 6] = [
        (
            "cuStreamSynchronize",
            |p| p.api.sync_stream(p.streams[0]),
            "race",
        ),
        (
            "cuStreamQuery",
            |p| p.api.query_stream(p.streams[0]),
            "race",
        ),
        ("cuEventSynchronize", |p| p.api.sync_event(p.event), "race"),
        ("cuEventQuery", |p| p.api.query(p.event), "race"),
        ("cuCtxSynchronize", |p| p.api.synchronize(), "race"),
        (
            "cuEventRecord",
            |p| p.api.record(p.event, p.streams[0]),
            "never-recorded",
        ),
    ];
    for (name, call, rule) in calls {
        let pair = Pair::new();
        let api = &pair.api;
        let (module, [_, _, spin]) = api.kernels();
        api.launch(spin, pair.streams[0], &[30_000_000]).unwrap();
        api.set(pair.device, 1, BYTES, pair.streams[0]).unwrap();
        if rule == "race" {
            api.record(pair.event, pair.streams[0]).unwrap();
        }
        api.control.elide(name, 1).unwrap();
        assert_eq!(call(&pair), Ok(()), "{name}");
        api.wait(pair.streams[1], pair.event).unwrap();
        // Ordered by the record, if there is one; by the host's wait it is not.
        let fresh = api.stream().unwrap();
        api.set(pair.device, 2, BYTES, fresh).unwrap();
        assert_eq!(api.rules()[0], rule, "{name}");
        api.synchronize().unwrap();
        api.destroy_stream(fresh).unwrap();
        api.unload(module).unwrap();
        pair.end();
    }
}
