//! Virtual memory: aliases are one memory, and the state of mappings is kept strictly.

use crate::api::Api;

/// A driver with a reservation of four pages.
fn reserved(profile: &str) -> (Api, usize, u64) {
    let api = Api::new(profile);
    let page = api.granularity().unwrap();
    let address = api.reserve(4 * page).unwrap();
    (api, page, address)
}

#[test]
fn aliases_show_the_same_bytes() {
    let (api, page, window) = reserved("orin");
    let other = api.reserve(2 * page).unwrap();
    let stream = api.stream().unwrap();
    let pages = [(); 2].map(|()| api.create(page).unwrap());
    // The other window shows the pages in reverse.
    for (slot, handle) in pages.into_iter().enumerate() {
        api.map(window + (slot * page) as u64, page, handle)
            .unwrap();
        api.map(other + ((1 - slot) * page) as u64, page, handle)
            .unwrap();
    }
    api.allow(window, 2 * page, 3).unwrap();
    api.allow(other, 2 * page, 3).unwrap();
    let (module, [fill, check, _]) = api.kernels();
    let count = api.alloc(8).unwrap();
    api.set(count, 0, 8, stream).unwrap();
    let bytes = page as u64;
    api.launch(fill, stream, &[window, 2 * bytes, 9, 9, 0])
        .unwrap();
    api.launch(check, stream, &[other + bytes, bytes, 9, 9, 0, count])
        .unwrap();
    api.launch(check, stream, &[other, bytes, 9, 9, bytes, count])
        .unwrap();
    api.sync_stream(stream).unwrap();
    let mut wrong = 1_u64;
    api.download_now((&raw mut wrong).cast(), count, 8).unwrap();
    assert_eq!(wrong, 0);
    // Released pages live on while they are mapped.
    for handle in pages {
        api.release_page(handle).unwrap();
    }
    api.launch(check, stream, &[other, bytes, 9, 9, bytes, count])
        .unwrap();
    api.sync_stream(stream).unwrap();
    api.unmap(window, 2 * page).unwrap();
    api.unmap(other, page).unwrap();
    api.unmap(other + bytes, page).unwrap();
    api.unreserve(window, 4 * page).unwrap();
    api.unreserve(other, 2 * page).unwrap();
    api.free(count).unwrap();
    api.unload(module).unwrap();
    api.destroy_stream(stream).unwrap();
    let (free, total) = api.memory_info().unwrap();
    assert_eq!(free, total, "all memory came back");
    api.end_clean();
}

#[test]
fn a_race_through_an_alias_is_a_race() {
    let (api, page, window) = reserved("rtx-linux");
    let [one, other] = [(); 2].map(|()| api.stream().unwrap());
    let handle = api.create(page).unwrap();
    let alias = window + 2 * page as u64;
    for at in [window, alias] {
        api.map(at, page, handle).unwrap();
        api.allow(at, page, 3).unwrap();
    }
    api.set(window, 1, 100, one).unwrap();
    api.set(alias + 100, 1, 100, other).unwrap();
    assert_eq!(api.control.reports(), [""; 0], "other bytes of the page");
    api.set(alias + 99, 1, 1, other).unwrap();
    let reports = api.control.reports();
    assert_eq!(api.rules(), ["race"]);
    assert!(
        reports[0].contains("bytes 99..100 of physical memory"),
        "{reports:?}"
    );
}

#[test]
fn what_is_mapped_stays_mapped() {
    let (api, page, window) = reserved("orin");
    let handles = [(); 2].map(|()| api.create(page).unwrap());
    let second = window + page as u64;
    api.map(window, page, handles[0]).unwrap();
    assert_eq!(api.map(window, page, handles[1]), Err(1));
    assert_eq!(api.rules(), ["double-map"]);
    // Blind unmaps: more than was mapped, and nothing at all.
    assert_eq!(api.unmap(window, 2 * page), Err(1));
    assert_eq!(api.unmap(second, page), Err(1));
    assert_eq!(api.control.reports().len(), 3);
    assert_eq!(api.rules(), ["double-map", "blind-unmap"]);
    assert_eq!(api.unreserve(window, 4 * page), Err(1));
    assert_eq!(api.rules().last().unwrap(), "free-of-mapped");
    assert_eq!(api.map(window + 4 * page as u64, page, handles[1]), Err(1));
    assert_eq!(api.map(second, 4 * page, handles[1]), Err(1));
    assert_eq!(api.rules().last().unwrap(), "partial-map");
    assert_eq!(api.unreserve(second, page), Err(1));
    assert_eq!(api.rules().last().unwrap(), "bad-free");
    assert_eq!(api.map(second + 1, page, handles[1]), Err(1));
    assert_eq!(api.rules().last().unwrap(), "granularity");
    assert_eq!(api.map(second, page, handles[1] + 1), Err(400));
    api.release_page(handles[1]).unwrap();
    assert_eq!(api.map(second, page, handles[1]), Err(400));
    assert_eq!(api.release_page(handles[1]), Err(400));
    assert_eq!(api.rules().last().unwrap(), "bad-handle");
    // What was right is intact.
    api.unmap(window, page).unwrap();
    api.release_page(handles[0]).unwrap();
    api.unreserve(window, 4 * page).unwrap();
    assert_eq!(api.unreserve(window, 4 * page), Err(1));
    api.release().unwrap();
    assert_eq!(api.control.leaks(), [""; 0]);
}

#[test]
fn access_is_granted_and_not_assumed() {
    let (api, page, window) = reserved("orin");
    let stream = api.stream().unwrap();
    let host = api.alloc_host(16).unwrap();
    assert_eq!(api.set(window, 0, 1, stream), Err(1));
    assert_eq!(api.rules(), ["unmapped"]);
    let handle = api.create(page).unwrap();
    api.map(window, page, handle).unwrap();
    assert_eq!(api.set(window, 0, 1, stream), Err(1));
    assert_eq!(api.rules().last().unwrap(), "inaccessible");
    assert_eq!(api.allow(window, 2 * page, 3), Err(1));
    assert_eq!(api.rules().last().unwrap(), "access-of-unmapped");
    api.allow(window, page, 1).unwrap();
    let before = api.control.reports().len();
    api.download(host, window, 16, stream).unwrap();
    assert_eq!(api.control.reports().len(), before);
    assert_eq!(api.upload(window, host, 16, stream), Err(1));
    api.allow(window, page, 3).unwrap();
    api.upload(window, host, 16, stream).unwrap();
    assert_eq!(api.upload(window, host, page + 1, stream), Err(1));
    // Unmapped while a copy may still write there.
    api.unmap(window, page).unwrap();
    assert_eq!(api.rules().last().unwrap(), "in-use");
    assert_eq!(api.set(window, 0, 1, stream), Err(1));
    assert_eq!(
        api.rules().last().unwrap(),
        "in-use",
        "`unmapped` was there before"
    );
}

#[test]
fn a_failed_map_leaves_its_place_free() {
    let (api, page, window) = reserved("rtx-linux");
    let handles = [(); 4].map(|()| api.create(page).unwrap());
    let failing = cuda_model::Failing::Now;
    api.control.inject("cuMemMap", 3, failing, 2).unwrap();
    let at = |slot: usize| window + (slot * page) as u64;
    let answers = [0, 1, 2, 3].map(|slot| api.map(at(slot), page, handles[slot]));
    assert_eq!(answers, [Ok(()), Ok(()), Err(2), Ok(())]);
    assert_eq!(api.unmap(window, 4 * page), Err(1));
    assert_eq!(api.rules(), ["blind-unmap"]);
    for slot in [0, 1, 3] {
        api.unmap(at(slot), page).unwrap();
    }
    for handle in handles {
        api.release_page(handle).unwrap();
    }
    api.unreserve(window, 4 * page).unwrap();
    api.release().unwrap();
    assert_eq!(api.control.leaks(), [""; 0]);
}

#[test]
fn reservations_have_a_limit_on_some_devices() {
    for (profile, works) in [("orin", [true, false]), ("rtx-linux", [true, true])] {
        let api = Api::new(profile);
        for (gib, works) in [8_usize, 32].into_iter().zip(works) {
            let found = api.reserve(gib << 30);
            assert_eq!(found.is_ok(), works, "{profile}, {gib} GiB: {found:?}");
        }
    }
}

#[test]
fn pages_are_not_made_of_nothing() {
    let (api, page, _) = reserved("orin");
    api.control.memory(3 * page as u64).unwrap();
    let first = api.create(2 * page).unwrap();
    assert_eq!(api.create(2 * page), Err(2));
    assert_eq!(api.memory_info().unwrap(), (page, 3 * page));
    api.release_page(first).unwrap();
    assert!(api.create(3 * page).is_ok());
}

#[test]
fn many_pages_in_many_windows_are_quick_to_map() {
    let api = Api::new("rtx-linux");
    api.control.granularity(4096).unwrap();
    let pages: Vec<u64> = (0..1000).map(|_| api.create(4096).unwrap()).collect();
    let windows: Vec<u64> = (0..10).map(|_| api.reserve(4_096_000).unwrap()).collect();
    for (shift, window) in windows.iter().enumerate() {
        for slot in 0..1000 {
            let page = pages[(slot * (shift + 1)) % 1000];
            api.map(window + slot as u64 * 4096, 4096, page).unwrap();
        }
        api.allow(*window, 4_096_000, 3).unwrap();
    }
    let stream = api.stream().unwrap();
    for window in &windows {
        api.set(*window, 1, 4_096_000, stream).unwrap();
    }
    api.sync_stream(stream).unwrap();
    for window in windows {
        api.unmap(window, 4_096_000).unwrap();
        api.unreserve(window, 4_096_000).unwrap();
    }
    pages
        .into_iter()
        .for_each(|page| api.release_page(page).unwrap());
    api.destroy_stream(stream).unwrap();
    api.end_clean();
}
