//! A small sound trace document, for tests that break it.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use lgm::trace;

/// A sound document, from which each case departs in one place.
pub(crate) const SOUND: &str = r#"{"header":{"schema":1,"model":"m","batch":2,"optimizer":"sgdm"},
"tensors":[{"id":0,"bytes":64,"kind":"param","persistent":true},
{"id":1,"bytes":32,"kind":"act"},{"id":2,"bytes":0,"kind":"act"}],
"ops":[{"name":"mm","ph":"fwd","reads":[0],"writes":[1],"allocs":[1,2],"frees":[],
"dur_us":{"a":1,"b":2.5}},
{"name":"loss","ph":"bwd","reads":[1,2],"writes":[0],"allocs":[],"frees":[1,2],
"dur_us":{"a":0,"b":0}}]}"#;

/// What the reader says against a document.
pub(crate) fn message(document: &[u8]) -> String {
    match trace::read(document) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("accepted: {}", String::from_utf8_lossy(document)),
    }
}

/// A document, gzip'ed.
pub(crate) fn pack(document: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(document).expect("memory takes every byte");
    packed.finish().expect("memory takes every byte")
}
