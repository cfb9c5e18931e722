//! A load like a replay's: many copies and kernels over thousands of pages in aliased windows.

use std::time::Instant;

use crate::api::Api;

const PAGE: usize = 4096;
const PAGES: usize = 4000;
/// Pages of a window, and windows; neighbours share half of their pages.
const SLOTS: usize = 16;
const WINDOWS: usize = PAGES / (SLOTS / 2) - 1;
const ROUNDS: usize = 40;

#[test]
fn many_operations_over_many_pages() {
    let api = Api::new("rtx-linux");
    api.control.granularity(PAGE as u64).unwrap();
    let (module, [fill, check, _]) = api.kernels();
    let pages: Vec<u64> = (0..PAGES).map(|_| api.create(PAGE).unwrap()).collect();
    let mut windows = Vec::new();
    for window in 0..WINDOWS {
        let address = api.reserve(SLOTS * PAGE).unwrap();
        for slot in 0..SLOTS {
            let page = pages[window * SLOTS / 2 + slot];
            api.map(address + (slot * PAGE) as u64, PAGE, page).unwrap();
        }
        api.allow(address, SLOTS * PAGE, 3).unwrap();
        windows.push(address);
    }
    let [compute, out] = [(); 2].map(|()| api.stream().unwrap());
    let events = [(); 2].map(|()| api.event().unwrap());
    let (host, count) = (api.alloc_host(SLOTS * PAGE).unwrap(), api.alloc(8).unwrap());
    api.set(count, 0, 8, compute).unwrap();
    let before = api.control.calls("*").unwrap();
    let start = Instant::now();
    for round in 0..ROUNDS as u64 {
        for (tensor, window) in windows.iter().enumerate() {
            let bytes = (SLOTS * PAGE) as u64 - 100;
            let values = [*window, bytes, tensor as u64, round, 64, count];
            api.launch(fill, compute, &values[..5]).unwrap();
            api.launch(check, compute, &values).unwrap();
            api.record(events[0], compute).unwrap();
            api.wait(out, events[0]).unwrap();
            api.download(host, *window, SLOTS * PAGE, out).unwrap();
            api.record(events[1], out).unwrap();
            api.wait(compute, events[1]).unwrap();
        }
    }
    let enqueued = start.elapsed();
    api.synchronize().unwrap();
    let calls = api.control.calls("*").unwrap() - before;
    println!(
        "{calls} calls: enqueued in {enqueued:?}, done in {:?}",
        start.elapsed()
    );
    let mut wrong = 1_u64;
    api.download_now((&raw mut wrong).cast(), count, 8).unwrap();
    assert_eq!(wrong, 0);
    for window in windows {
        api.unmap(window, SLOTS * PAGE).unwrap();
        api.unreserve(window, SLOTS * PAGE).unwrap();
    }
    for page in pages {
        api.release_page(page).unwrap();
    }
    for stream in [compute, out] {
        api.destroy_stream(stream).unwrap();
    }
    for event in events {
        api.destroy_event(event).unwrap();
    }
    api.free_host(host).unwrap();
    api.free(count).unwrap();
    api.unload(module).unwrap();
    api.end_clean();
}
