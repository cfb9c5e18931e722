//! The bytes of a document: unpacked, counted, hashed, and held to limits before the JSON reader
//! sees them.
//!
//! The JSON reader buffers one string, and one byte for each level of nesting that it skips. Both
//! are bounded here, since nothing there does it.

use std::fmt;
use std::io::{self, Chain, Cursor, Read};

use flate2::read::MultiGzDecoder;
use sha2::{Digest, Sha256};

use super::TraceError;
use crate::foreign::{HEAD_BYTES, looks_like};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// Bytes of one string of a document, also of one that is skipped.
const STRING_BYTES_MAX: u64 = 1 << 20;
/// Levels of nesting of a document.
const DEPTH_MAX: u32 = 64;

type Whole<R> = Chain<Cursor<Vec<u8>>, R>;

enum Packing<R> {
    Plain(Whole<R>),
    Gzip(MultiGzDecoder<Whole<R>>),
}

/// A reader of the unpacked document.
pub(super) struct Source<R> {
    packing: Packing<R>,
    guard: Guard,
}

impl<R: Read> Source<R> {
    /// Looks at the first bytes of `input` and unpacks what is packed. `bytes_max` bounds the
    /// unpacked document.
    pub(super) fn new(mut input: R, bytes_max: u64) -> Result<Self, TraceError> {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        let mut first = input.by_ref().take(HEAD_BYTES as u64);
        first.read_to_end(&mut head).map_err(TraceError::Io)?;
        if head.is_empty() {
            return Err(TraceError::Foreign {
                found: looks_like(&head),
            });
        }
        let packed = head.starts_with(&GZIP_MAGIC);
        let whole = Cursor::new(head).chain(input);
        let packing = if packed {
            Packing::Gzip(MultiGzDecoder::new(whole))
        } else {
            Packing::Plain(whole)
        };
        Ok(Self {
            packing,
            guard: Guard::new(bytes_max),
        })
    }

    /// SHA-256 of what was read.
    pub(super) fn digest(self) -> [u8; 32] {
        self.guard.hash.finalize().into()
    }

    fn gzip_error(&self, error: io::Error) -> io::Error {
        let unpacked_bytes = self.guard.bytes;
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Fault(TraceError::GzipTruncated { unpacked_bytes }),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
                Fault(TraceError::GzipBroken {
                    unpacked_bytes,
                    message: error.to_string(),
                })
            }
            _ => return error,
        }
        .into()
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match &mut self.packing {
            Packing::Plain(whole) => whole.read(buffer)?,
            Packing::Gzip(unpacked) => match unpacked.read(buffer) {
                Ok(count) => count,
                Err(error) => return Err(self.gzip_error(error)),
            },
        };
        let end = count == 0 && !buffer.is_empty();
        let checked = if end {
            self.guard.end()
        } else {
            self.guard.feed(&buffer[..count])
        };
        checked.map_err(Fault)?;
        Ok(count)
    }
}

/// A fault that travels through the JSON reader as an I/O error.
#[derive(Debug)]
struct Fault(TraceError);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Fault {}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        Self::other(fault)
    }
}

/// The fault inside an I/O error, or the error itself.
pub(super) fn unwrap_fault(error: io::Error) -> TraceError {
    match error.downcast::<Fault>() {
        Ok(fault) => fault.0,
        Err(error) => TraceError::Io(error),
    }
}

/// What has passed so far, and whether the JSON reader can take the next bytes in bounded memory.
struct Guard {
    hash: Sha256,
    bytes: u64,
    bytes_max: u64,
    begun: bool,
    depth: u32,
    in_string: bool,
    escaped: bool,
    string_bytes: u64,
}

impl Guard {
    fn new(bytes_max: u64) -> Self {
        Self {
            hash: Sha256::new(),
            bytes: 0,
            bytes_max,
            begun: false,
            depth: 0,
            in_string: false,
            escaped: false,
            string_bytes: 0,
        }
    }

    fn feed(&mut self, chunk: &[u8]) -> Result<(), TraceError> {
        self.bytes += chunk.len() as u64;
        if self.bytes > self.bytes_max {
            return Err(TraceError::TooLarge {
                what: "has more bytes once unpacked",
                max: self.bytes_max,
            });
        }
        self.hash.update(chunk);
        if !self.begun {
            let text = chunk.trim_ascii_start();
            match text.first() {
                None => return Ok(()),
                Some(b'{') => self.begun = true,
                Some(_) => {
                    return Err(TraceError::Foreign {
                        found: looks_like(&text[..text.len().min(HEAD_BYTES)]),
                    });
                }
            }
        }
        chunk.iter().try_for_each(|&byte| self.step(byte))
    }

    fn step(&mut self, byte: u8) -> Result<(), TraceError> {
        if self.in_string {
            self.string_bytes += 1;
            if self.string_bytes > STRING_BYTES_MAX {
                return Err(TraceError::TooLarge {
                    what: "has a string with more bytes",
                    max: STRING_BYTES_MAX,
                });
            }
            let plain = self.escaped;
            self.escaped = !plain && byte == b'\\';
            self.in_string = plain || byte != b'"';
            return Ok(());
        }
        match byte {
            b'"' => (self.in_string, self.string_bytes) = (true, 0),
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            _ => return Ok(()),
        }
        if self.depth > DEPTH_MAX {
            return Err(TraceError::TooLarge {
                what: "has more levels of nesting",
                max: u64::from(DEPTH_MAX),
            });
        }
        Ok(())
    }

    fn end(&self) -> Result<(), TraceError> {
        if self.begun {
            return Ok(());
        }
        let found = if self.bytes == 0 {
            "gzip'ed data without content"
        } else {
            "only blanks"
        };
        Err(TraceError::Foreign { found })
    }
}
