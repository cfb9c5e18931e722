//! A team: threads that make shares of its owner's work.
//!
//! In: work in equal shares. Out: all of it made when the call returns, by whoever came: the owner
//! begins at once, and a mate that is still asleep, or whose core is busy, costs nothing.
//!
//! Guarantees: nothing is allocated and no lock is taken by [`Team::share`]. No mate touches the
//! work after it has returned.

use std::cell::UnsafeCell;
use std::io;
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::shares::Shares;
use crate::waiting::{Parker, wake_all};

/// Makes a share.
type Work<'a> = &'a (dyn Fn(usize) + Sync);

/// Threads, and their owner's side.
pub(crate) struct Team {
    post: Arc<Post>,
    threads: Vec<JoinHandle<()>>,
}

/// What owner and mates have in common.
struct Post {
    shares: Shares,
    /// The work, and its number of shares. The owner writes it while no mate is at a share; a mate
    /// reads it while it is at one.
    work: UnsafeCell<Option<(Work<'static>, u32)>>,
    /// Where each mate waits for work.
    mates: Vec<Parker>,
    stop: AtomicBool,
    /// Whether a mate has panicked.
    broken: AtomicBool,
}

// SAFETY: who touches `work` when is said there, and `Shares` orders it; the rest is atomics.
unsafe impl Sync for Post {}

impl Team {
    /// With so many threads beside the owner.
    ///
    /// # Errors
    /// If the system has no more threads.
    pub(crate) fn new(mates: usize, name: &str) -> Result<Self, io::Error> {
        let mut team = Self {
            post: Arc::new(Post {
                shares: Shares::default(),
                work: UnsafeCell::new(None),
                mates: (0..mates).map(|_| Parker::default()).collect(),
                stop: AtomicBool::new(false),
                broken: AtomicBool::new(false),
            }),
            threads: Vec::with_capacity(mates),
        };
        for mate in 0..mates {
            let post = Arc::clone(&team.post);
            let thread = thread::Builder::new().name(name.into());
            team.threads.push(thread.spawn(move || post.serve(mate))?);
        }
        Ok(team)
    }

    /// Makes all shares of some work. What is to be done `meanwhile` the owner does first, once
    /// mates are called.
    ///
    /// # Panics
    /// If a mate has panicked at a share.
    pub(crate) fn share(
        &mut self,
        shares: u32,
        meanwhile: impl FnOnce(),
        work: &(dyn Fn(usize) + Sync),
    ) {
        if shares <= 1 || self.threads.is_empty() {
            meanwhile();
            (0..shares as usize).for_each(work);
            return;
        }
        let post = &*self.post;
        // SAFETY: only the lifetime changes. Mates use the work only while they are at a share, and
        // `made` below has waited for them when this returns or unwinds.
        let lasting = unsafe { std::mem::transmute::<Work<'_>, Work<'static>>(work) };
        // SAFETY: no share is offered, so no mate is at one; and `self` is borrowed.
        unsafe { *post.work.get() = Some((lasting, shares)) };
        let end = End(&post.shares);
        post.shares.offer(shares);
        for mate in post.mates.iter().take(shares as usize - 1) {
            wake_all([mate]);
        }
        meanwhile();
        while let Some(after) = post.shares.take() {
            work((shares - 1 - after) as usize);
        }
        drop(end);
        assert!(!post.broken.load(Ordering::Relaxed), "a mate has panicked");
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        self.post.stop.store(true, Ordering::Release);
        self.post.mates.iter().for_each(|mate| wake_all([mate]));
        for thread in self.threads.drain(..) {
            // A panic was told to the owner, whose end this may be.
            let _ = thread.join();
        }
    }
}

/// Takes what is left and waits for the mates, however the owner's part ends.
struct End<'a>(&'a Shares);

impl Drop for End<'_> {
    fn drop(&mut self) {
        while self.0.take().is_some() {}
        self.0.made();
    }
}

impl Post {
    /// What a mate does.
    fn serve(&self, mate: usize) {
        loop {
            let stopped = || self.stop.load(Ordering::Acquire);
            self.mates[mate].wait_until(|| stopped() || self.shares.any_left());
            if stopped() {
                return;
            }
            let mut after = self.shares.join();
            while let Some(share) = after {
                if !self.make(share) {
                    self.broken.store(true, Ordering::Relaxed);
                    self.shares.leave();
                    return;
                }
                after = self.shares.next();
            }
        }
    }

    /// Makes a share; whether that went well.
    fn make(&self, after: u32) -> bool {
        // SAFETY: this mate is at a share, so the owner does not write it.
        let (work, shares) = unsafe { *self.work.get() }.expect("shares are of some work");
        let share = (shares - 1 - after) as usize;
        panic::catch_unwind(panic::AssertUnwindSafe(|| work(share))).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn each_share_is_made_once_by_whoever_comes() {
        for mates in 0..4 {
            let mut team = Team::new(mates, "test").unwrap();
            for shares in [0, 1, 2, 3, 64] {
                for _ in 0..200 {
                    let made: Vec<AtomicU32> = (0..shares).map(|_| AtomicU32::new(0)).collect();
                    team.share(shares, || (), &|share| {
                        made[share].fetch_add(1, Ordering::Relaxed);
                    });
                    let made = made.into_iter().map(AtomicU32::into_inner);
                    assert!(made.eq((0..shares).map(|_| 1)));
                }
            }
        }
    }

    #[test]
    fn a_mate_makes_a_share_while_the_owner_is_at_one() {
        let mut team = Team::new(1, "test").unwrap();
        let came = Barrier::new(2);
        // Two at a share at once.
        team.share(2, || (), &|_| {
            came.wait();
        });
    }

    #[test]
    fn a_mate_makes_a_share_while_the_owner_does_something_else() {
        let mut team = Team::new(1, "test").unwrap();
        let owner = thread::current().id();
        let came = Barrier::new(2);
        let meanwhile = || {
            came.wait();
        };
        team.share(2, meanwhile, &|share| {
            if thread::current().id() != owner && share == 0 {
                came.wait();
            }
        });
    }

    #[test]
    fn what_is_done_meanwhile_is_done_once_whoever_is_there() {
        for (mates, shares) in [(0, 5), (1, 0), (1, 1), (1, 5)] {
            let mut team = Team::new(mates, "test").unwrap();
            let mut done = 0;
            team.share(shares, || done += 1, &|_| ());
            assert_eq!(done, 1, "{mates} mates, {shares} shares");
        }
    }

    #[test]
    fn a_panic_of_either_side_is_the_owners() {
        for mate_panics in [false, true] {
            let mut team = Team::new(1, "test").unwrap();
            let owner = thread::current().id();
            // One share each: nobody leaves it before the other is at one.
            let both = Barrier::new(2);
            let shared = panic::catch_unwind(panic::AssertUnwindSafe(|| {
                team.share(2, || (), &|_| {
                    both.wait();
                    assert_ne!(thread::current().id() != owner, mate_panics);
                });
            }));
            assert!(shared.is_err(), "{mate_panics}");
        }
    }
}
