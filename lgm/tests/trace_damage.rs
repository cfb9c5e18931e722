//! Truncated, damaged and enormous documents: an error each, no panic, bounded memory.

mod sample;

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use lgm::trace::{self, TraceError};
use sample::{SOUND, message, pack};

#[test]
fn every_truncation_is_an_error() {
    let packed = pack(SOUND.as_bytes());
    for end in 0..packed.len() {
        assert!(
            trace::read(&packed[..end]).is_err(),
            "{end} of {} bytes",
            packed.len()
        );
    }
    for end in 0..SOUND.len() {
        assert!(
            trace::read(&SOUND.as_bytes()[..end]).is_err(),
            "{end} bytes of the plain text"
        );
    }
    let text = message(&packed[..packed.len() - 9]);
    assert!(text.contains("cut off after"), "{text}");
}

#[test]
fn damage_is_an_error_or_harmless() {
    let packed = pack(SOUND.as_bytes());
    let sound = trace::read(&packed[..]).expect("sound").digest();
    for position in 10..packed.len() {
        for bit in 0..8 {
            let mut damaged = packed.clone();
            damaged[position] ^= 1 << bit;
            if let Ok(trace) = trace::read(&damaged[..]) {
                assert_eq!(trace.digest(), sound, "byte {position} bit {bit}");
            }
        }
    }
    let mut broken = packed.clone();
    let crc = packed.len() - 6;
    broken[crc] ^= 0xff;
    assert!(message(&broken).contains("the gzip data is damaged after"));
}

#[test]
fn gzip_members_follow_one_another_but_nothing_else_does() {
    let (first, second) = SOUND.as_bytes().split_at(100);
    let two = [pack(first), pack(second)].concat();
    assert!(trace::read(&two[..]).is_ok());
    let trailing = [
        pack(SOUND.as_bytes()),
        b"some more bytes, not gzip".to_vec(),
    ]
    .concat();
    assert!(
        message(&trailing).contains("damaged"),
        "{}",
        message(&trailing)
    );
}

/// Serves `text` again and again, for `left` bytes, without holding them.
struct Endless {
    text: &'static [u8],
    left: u64,
    served: usize,
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = usize::try_from(self.left.min(buffer.len() as u64)).expect("a buffer's length");
        for byte in &mut buffer[..count] {
            *byte = self.text[self.served % self.text.len()];
            self.served += 1;
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[test]
fn a_gzip_bomb_is_refused_at_the_limit() {
    // 256 MiB of blanks: 260 KB packed.
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    let mut blanks = Endless {
        text: b" ",
        left: 256 << 20,
        served: 0,
    };
    bomb.write_all(b"{").expect("memory takes every byte");
    io::copy(&mut blanks, &mut bomb).expect("memory takes every byte");
    let bomb = bomb.finish().expect("memory takes every byte");
    assert!(bomb.len() < 1 << 19, "{}", bomb.len());
    let error = trace::read_at_most(&bomb[..], 1 << 20).expect_err("too large");
    assert!(
        matches!(error, TraceError::TooLarge { max: 1_048_576, .. }),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("more bytes once unpacked than the 1048576"),
        "{error}"
    );
}

#[test]
fn what_would_grow_without_bound_is_refused_early() {
    const ENDLESS: u64 = u64::MAX / 2;
    for (text, wanted) in [
        (&b"[["[..], "JSON list"),
        (b"{\"a\":", "more levels of nesting than the 64"),
        (b"{\"a\":\"b", "a string with more bytes than the 1048576"),
    ] {
        let opening = text;
        let repeated: &'static [u8] = if text.ends_with(b"b") {
            b"b"
        } else {
            b"{\"a\":"
        };
        let input = opening.chain(Endless {
            text: repeated,
            left: ENDLESS,
            served: 0,
        });
        let error = trace::read(input).expect_err("endless");
        assert!(
            error.to_string().contains(wanted),
            "wanted: {wanted}\nfound: {error}"
        );
    }
    let long = format!("\"model\":\"{}\"", "n".repeat(5000));
    let text = message(SOUND.replace(r#""model":"m""#, &long).as_bytes());
    assert!(
        text.contains("a name of 5000 bytes is longer than the 4096"),
        "{text}"
    );
}

#[test]
fn lists_beyond_the_limits_are_refused_while_reading() {
    let head = br#"{"header":{"schema":1,"model":"m","batch":2,"optimizer":"s"},
        "tensors":[],"ops":[{"name":"x","reads":[0"#;
    let input = head.chain(Endless {
        text: b",0",
        left: u64::MAX / 2,
        served: 0,
    });
    let error = trace::read(input).expect_err("endless").to_string();
    assert!(error.contains("ops[0].reads[16777216] (x)"), "{error}");
    assert!(error.contains("longer than the 16777216"), "{error}");
}

#[test]
fn an_input_that_fails_says_so() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is on fire"))
        }
    }
    for input in [&b""[..], SOUND.as_bytes(), &pack(SOUND.as_bytes())[..60]] {
        let error = trace::read(input.chain(Failing)).expect_err("failing");
        assert!(matches!(error, TraceError::Io(_)), "{error:?}");
        assert!(error.to_string().contains("on fire"), "{error}");
    }
}
