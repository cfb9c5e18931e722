//! Requests by `pread` and `pwrite`, from a few threads: each makes one at a time.
//!
//! Guarantees: starting a request and waiting for its end allocate nothing and take no lock.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use nix::errno::Errno;
use nix::libc;
use rtrb::{Consumer, Producer, RingBuffer};

use super::disk::{Disk, Ended, Request, Rest};
use crate::waiting::{Parker, wake_all};

/// Requests that a thread has: one in flight, and one to go on with, so that the disk does not wait
/// for the owner's core.
const ROOM: usize = 2;

/// Threads that make requests.
pub(super) struct Plain {
    hands: Vec<Hand>,
    /// Where the owner waits for the end of a request.
    owner: Arc<Parker>,
}

/// A thread, seen by its owner.
struct Hand {
    requests: Producer<Request>,
    ends: Consumer<Ended>,
    /// Requests that it has and whose end was not told yet.
    has: usize,
    post: Arc<Post>,
    thread: Option<JoinHandle<()>>,
}

/// Where a thread waits for requests.
#[derive(Default)]
struct Post {
    parker: Parker,
    stop: AtomicBool,
}

impl Plain {
    /// With so many threads, each of which has a request in flight.
    ///
    /// # Errors
    /// If the system has no more threads, or files.
    pub(super) fn new(file: &File, threads: usize) -> Result<Self, Errno> {
        let mut plain = Self {
            hands: Vec::with_capacity(threads),
            owner: Arc::default(),
        };
        for _ in 0..threads.max(1) {
            let (requests, todo) = RingBuffer::new(ROOM);
            let (done, ends) = RingBuffer::new(ROOM);
            let post = Arc::new(Post::default());
            let worker = Worker {
                file: file.try_clone().map_err(|error| errno(&error))?,
                todo,
                done,
                post: Arc::clone(&post),
                owner: Arc::clone(&plain.owner),
            };
            let thread = thread::Builder::new().name("vtensor-disk".into());
            let thread = thread.spawn(move || worker.run());
            plain.hands.push(Hand {
                requests,
                ends,
                has: 0,
                post,
                thread: Some(thread.map_err(|error| errno(&error))?),
            });
        }
        Ok(plain)
    }
}

impl Disk for Plain {
    fn name(&self) -> &'static str {
        "pread/pwrite"
    }

    fn room(&self) -> usize {
        ROOM * self.hands.len()
    }

    unsafe fn start(&mut self, request: Request) {
        let idlest = self.hands.iter_mut().min_by_key(|hand| hand.has);
        let hand = idlest.expect("there is a thread");
        let pushed = hand.requests.push(request);
        pushed.expect("the idlest has room if any has");
        hand.has += 1;
        wake_all([&hand.post.parker]);
    }

    fn poll(&mut self) -> Option<Ended> {
        self.hands.iter_mut().find_map(|hand| {
            let ended = hand.ends.pop().ok()?;
            hand.has -= 1;
            Some(ended)
        })
    }

    fn finish(&mut self) -> Ended {
        assert!(
            self.hands.iter().any(|hand| hand.has > 0),
            "a request is in flight"
        );
        let hands = &self.hands;
        self.owner
            .wait_until(|| hands.iter().any(|hand| !hand.ends.is_empty()));
        self.poll().expect("an end is there")
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        for hand in &self.hands {
            hand.post.stop.store(true, Ordering::Release);
            wake_all([&hand.post.parker]);
        }
        for thread in self.hands.iter_mut().filter_map(|hand| hand.thread.take()) {
            // What it would tell is that it has panicked, which has been printed.
            let _ = thread.join();
        }
    }
}

/// A thread.
struct Worker {
    file: File,
    todo: Consumer<Request>,
    done: Producer<Ended>,
    post: Arc<Post>,
    owner: Arc<Parker>,
}

impl Worker {
    fn run(mut self) {
        loop {
            let stopped = || self.post.stop.load(Ordering::Acquire);
            self.post
                .parker
                .wait_until(|| stopped() || !self.todo.is_empty());
            match self.todo.pop() {
                Ok(request) => {
                    let ended = Ended {
                        buffer: request.buffer,
                        result: carry_out(&self.file, request),
                    };
                    let pushed = self.done.push(ended);
                    pushed.expect("there is room for the ends of its requests");
                    wake_all([&self.owner]);
                }
                // Stopped, and nothing is left.
                Err(_) => return,
            }
        }
    }
}

/// Makes a request, in as many calls as it takes.
fn carry_out(file: &File, request: Request) -> Result<(), Errno> {
    let mut rest = Rest::of(request);
    loop {
        let answer = call(file, &rest.part());
        if let Some(end) = rest.answer(answer) {
            return end;
        }
    }
}

fn call(file: &File, part: &Request) -> Result<usize, Errno> {
    let Ok(offset) = i64::try_from(part.offset) else {
        return Err(Errno::EFBIG);
    };
    let (fd, start) = (file.as_raw_fd(), part.start.as_ptr().cast());
    let moved = if part.write {
        // SAFETY: the caller of `start` vouches for the buffer, of which this is a part.
        unsafe { libc::pwrite64(fd, start, part.bytes, offset) }
    } else {
        // SAFETY: as above.
        unsafe { libc::pread64(fd, start, part.bytes, offset) }
    };
    usize::try_from(moved).map_err(|_| Errno::last())
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
