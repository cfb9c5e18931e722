//! Shares of a piece of work, which its owner and mates take until none is left.
//!
//! In: a number of shares, from the owner. Out: each share to one thread; and for the owner the
//! moment when all are made. Who comes late finds none left, and is not waited for.
//!
//! Guarantees: no lock. The owner waits only for mates that are at a share. What the owner wrote
//! before it offered shares is seen by who takes one; what mates wrote at theirs, by the owner once
//! all are made.
//!
//! *Not here*: the work, and the threads ([`crate::team`]).

// By its place, not its name: `jetson-runtime/orders` runs this file with another `sync`.
use super::sync::{AtomicU64, Ordering};
use super::waiting::{Parker, wake_all};

/// A mate that is at a share, in a word; what is left is counted above them.
const MATE: u64 = 1;
const LEFT: u64 = 1 << 32;

/// The shares of one owner.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    /// Shares that nobody has taken, and mates that are at one.
    word: AtomicU64,
    /// Where the owner waits for mates.
    owner: Parker,
}

impl Shares {
    /// Offers shares. For the owner, when those before are made.
    pub(crate) fn offer(&self, count: u32) {
        // Release: mates see the work.
        self.word.store(u64::from(count) * LEFT, Ordering::Release);
    }

    /// Whether there is something to take.
    pub(crate) fn any_left(&self) -> bool {
        self.word.load(Ordering::Acquire) >= LEFT
    }

    /// Takes a share for who is at the work: the number of those after it.
    pub(crate) fn take(&self) -> Option<u32> {
        self.change(|word| word.checked_sub(LEFT)).map(left)
    }

    /// Takes a mate's first share, if there is one: the mate is at it then.
    pub(crate) fn join(&self) -> Option<u32> {
        let join = |word: u64| Some(word.checked_sub(LEFT)? + MATE);
        self.change(join).map(left)
    }

    /// Takes another share for a mate that has made one. `None`: it is not at the work any more.
    pub(crate) fn next(&self) -> Option<u32> {
        let another = self.take();
        if another.is_none() {
            self.leave();
        }
        another
    }

    /// Ends a mate's part in the work, whatever is left.
    pub(crate) fn leave(&self) {
        // Release: the owner sees what the mate has written.
        self.word.fetch_sub(MATE, Ordering::Release);
        wake_all([&self.owner]);
    }

    /// Waits until all shares are made. For the owner, when it has found none to take.
    pub(crate) fn made(&self) {
        (self.owner).wait_until(|| self.word.load(Ordering::Acquire) == 0);
    }

    /// Changes the word, if it may be changed: to what.
    fn change(&self, to: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        // Relaxed: a look; the exchange looks again.
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let wanted = to(word)?;
            // Acquire: who joins sees what was written before the offer.
            let changed = (self.word).compare_exchange_weak(
                word,
                wanted,
                Ordering::Acquire,
                Ordering::Relaxed,
            );
            match changed {
                Ok(_) => return Some(wanted),
                Err(found) => word = found,
            }
        }
    }
}

fn left(word: u64) -> u32 {
    u32::try_from(word / LEFT).expect("a word is made of two numbers of 32 bits")
}
