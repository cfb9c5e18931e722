//! Requests to a file, and those in flight.

use std::ptr::NonNull;

use nix::errno::Errno;

/// How often in a row a request may be interrupted, or deferred, without moving a byte.
pub(super) const RETRIES_MAX: u32 = 1000;

/// Reads or writes a part of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) write: bool,
    /// Which buffer.
    pub(super) buffer: usize,
    /// Its first byte.
    pub(super) start: NonNull<u8>,
    pub(super) bytes: usize,
    /// Where in the file.
    pub(super) offset: u64,
}

// SAFETY: a request is an address range; who may touch it is said at `Disk::start`.
unsafe impl Send for Request {}

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) buffer: usize,
    pub(super) result: Result<(), Errno>,
}

/// Makes requests; at most one for each buffer at a time.
pub(super) trait Disk: Send {
    /// What makes the requests, for people.
    fn name(&self) -> &'static str;

    /// How many requests it takes on: more than keep it busy, for those that wait there go on while
    /// their owner's core seals.
    fn room(&self) -> usize;

    /// Starts a request, for which there is room. It may end before this returns; its end is told
    /// by [`Self::finish`].
    ///
    /// # Safety
    /// The buffer has so many bytes, and nobody touches it until the request has ended.
    unsafe fn start(&mut self, request: Request);

    /// A request that has ended, if there is one; does not wait.
    fn poll(&mut self) -> Option<Ended>;

    /// Waits for the end of a request. Requests that moved less than all, or were interrupted, go
    /// on, a bounded number of times.
    ///
    /// # Panics
    /// If none is in flight.
    fn finish(&mut self) -> Ended;
}

/// What is left of a request after some bytes have moved.
pub(super) struct Rest {
    request: Request,
    done: usize,
    retries: u32,
}

impl Rest {
    pub(super) const fn of(request: Request) -> Self {
        Self {
            request,
            done: 0,
            retries: 0,
        }
    }

    /// The part that has not moved yet.
    pub(super) fn part(&self) -> Request {
        assert!(self.done < self.request.bytes, "something is left");
        // SAFETY: `done` is below the size of the buffer.
        let start = unsafe { self.request.start.add(self.done) };
        Request {
            start,
            bytes: self.request.bytes - self.done,
            offset: self.request.offset + self.done as u64,
            ..self.request
        }
    }

    /// Takes the answer of the kernel in: bytes, or an error. `None`: go on.
    pub(super) fn answer(&mut self, answer: Result<usize, Errno>) -> Option<Result<(), Errno>> {
        match answer {
            // The file is shorter than what was claimed: somebody truncated it.
            Ok(0) => Some(Err(Errno::EIO)),
            Ok(moved) => {
                self.done += moved.min(self.request.bytes - self.done);
                self.retries = 0;
                (self.done == self.request.bytes).then_some(Ok(()))
            }
            Err(Errno::EINTR | Errno::EAGAIN) if self.retries < RETRIES_MAX => {
                self.retries += 1;
                None
            }
            Err(errno) => Some(Err(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_interrupted_requests_go_on() {
        let mut byte = 0_u8;
        let request = Request {
            write: true,
            buffer: 0,
            start: NonNull::from(&mut byte),
            bytes: 1,
            offset: 70,
        };
        let mut rest = Rest::of(Request {
            bytes: 100,
            ..request
        });
        assert_eq!(rest.answer(Ok(30)), None);
        assert_eq!(rest.answer(Err(Errno::EINTR)), None);
        assert_eq!(rest.answer(Ok(60)), None);
        assert_eq!((rest.part().bytes, rest.part().offset), (10, 160));
        assert_eq!(rest.answer(Ok(10)), Some(Ok(())));
        let mut stuck = Rest::of(request);
        let answers = (0..=RETRIES_MAX).filter_map(|_| stuck.answer(Err(Errno::EAGAIN)));
        assert_eq!(answers.collect::<Vec<_>>(), [Err(Errno::EAGAIN)]);
        assert_eq!(Rest::of(request).answer(Ok(0)), Some(Err(Errno::EIO)));
        assert_eq!(
            Rest::of(request).answer(Err(Errno::ENOSPC)),
            Some(Err(Errno::ENOSPC))
        );
    }
}
