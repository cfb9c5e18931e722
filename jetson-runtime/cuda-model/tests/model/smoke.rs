//! What works as on a device: bytes go where they should.

use crate::api::Api;

#[test]
fn copies_fills_and_kernels_move_the_bytes() {
    let api = Api::new("orin");
    let (module, [fill, check, _]) = api.kernels();
    let stream = api.stream().unwrap();
    let (a, b) = (api.alloc(10_000).unwrap(), api.alloc(10_000).unwrap());
    let count = api.alloc(8).unwrap();
    let host = api.alloc_host(10_000).unwrap();
    api.set(count, 0, 8, stream).unwrap();
    api.launch(fill, stream, &[a, 10_000, 3, 7, 5]).unwrap();
    api.copy(b, a, 10_000, stream).unwrap();
    api.launch(check, stream, &[b, 10_000, 3, 7, 5, count])
        .unwrap();
    api.download(host, b, 10_000, stream).unwrap();
    api.set(b, 0, 10_000, stream).unwrap();
    api.upload(b, host, 9_000, stream).unwrap();
    api.launch(check, stream, &[b, 9_000, 3, 7, 5, count])
        .unwrap();
    api.sync_stream(stream).unwrap();
    let mut wrong = 1_u64;
    api.download_now((&raw mut wrong).cast(), count, 8).unwrap();
    assert_eq!(wrong, 0);
    api.launch(check, stream, &[b, 10_000, 3, 7, 5, count])
        .unwrap();
    api.sync_stream(stream).unwrap();
    api.download_now((&raw mut wrong).cast(), count, 8).unwrap();
    assert!((990..=1000).contains(&wrong), "{wrong} of 1000 zeroes");
    for address in [a, b, count] {
        api.free(address).unwrap();
    }
    api.free_host(host).unwrap();
    api.destroy_stream(stream).unwrap();
    api.unload(module).unwrap();
    api.end_clean();
}
