//! Requests by `pread` and `pwrite`: one at a time.

use std::fs::File;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::libc;

use super::disk::{Disk, Ended, Request, Rest};

/// Requests that end as they start.
pub(super) struct Plain {
    file: File,
    /// The ends of those that were not told yet, by buffer.
    ended: Vec<Option<Result<(), Errno>>>,
}

impl Plain {
    /// For so many buffers.
    pub(super) fn new(file: File, buffers: usize) -> Self {
        Self {
            file,
            ended: vec![None; buffers],
        }
    }

    fn call(&self, part: &Request) -> Result<usize, Errno> {
        let Ok(offset) = i64::try_from(part.offset) else {
            return Err(Errno::EFBIG);
        };
        let (fd, start) = (self.file.as_raw_fd(), part.start.as_ptr().cast());
        let moved = if part.write {
            // SAFETY: the caller of `start` vouches for the buffer, of which this is a part.
            unsafe { libc::pwrite64(fd, start, part.bytes, offset) }
        } else {
            // SAFETY: as above.
            unsafe { libc::pread64(fd, start, part.bytes, offset) }
        };
        usize::try_from(moved).map_err(|_| Errno::last())
    }
}

impl Disk for Plain {
    fn name(&self) -> &'static str {
        "pread/pwrite"
    }

    unsafe fn start(&mut self, request: Request) {
        let mut rest = Rest::of(request);
        let result = loop {
            let answer = self.call(&rest.part());
            if let Some(end) = rest.answer(answer) {
                break end;
            }
        };
        let end = self.ended[request.buffer].replace(result);
        assert!(end.is_none(), "one request for each buffer");
    }

    fn finish(&mut self) -> Ended {
        let some = self.ended.iter_mut().enumerate();
        let mut some = some.filter_map(|(buffer, end)| {
            let result = end.take()?;
            Some(Ended { buffer, result })
        });
        some.next().expect("a request is in flight")
    }
}
