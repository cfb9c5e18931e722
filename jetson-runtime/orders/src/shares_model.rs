//! What is run: an owner of some work and mates that come when they come. A share that is made
//! without an order to what the owner writes and reads fails.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::shares::Shares;
use crate::Model;

/// All models.
pub(crate) const ALL: [Model; 3] = [
    ("a mate is waited for", a_mate_is_waited_for, 10),
    (
        "a late mate touches nothing",
        a_late_mate_touches_nothing,
        4,
    ),
    ("each share is made once", each_share_is_made_once, 2),
];

/// How many shares a piece of work has at most.
const MOST: usize = 3;

struct World {
    shares: Shares,
    /// The work: what a share adds.
    work: UnsafeCell<u64>,
    /// What came of each share.
    made: [UnsafeCell<u64>; MOST],
}

// SAFETY: loom tells when a cell is used by two threads without an order between them.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            shares: Shares::default(),
            work: UnsafeCell::new(0),
            made: [0; MOST].map(UnsafeCell::new),
        })
    }

    fn make(&self, share: u32) {
        // SAFETY: as above.
        let adds = self.work.with(|work| unsafe { *work });
        // SAFETY: as above.
        self.made[share as usize].with_mut(|made| unsafe { *made += adds });
    }

    /// What a mate does when it is awake.
    fn help(&self) {
        let mut share = self.shares.join();
        while let Some(found) = share {
            self.make(found);
            share = self.shares.next();
        }
    }

    /// What the owner does, as often as the work is new; then each share has come to the sum.
    fn own(&self, works: &[u64], count: usize) {
        for &adds in works {
            // SAFETY: as above.
            self.work.with_mut(|work| unsafe { *work = adds });
            self.shares.offer(u32::try_from(count).expect("a few"));
            while let Some(share) = self.shares.take() {
                self.make(share);
            }
            self.shares.made();
        }
        for made in &self.made[..count] {
            // SAFETY: as above.
            let made = made.with(|made| unsafe { *made });
            assert_eq!(made, works.iter().sum());
        }
    }
}

fn mate(world: &Arc<World>) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || world.help())
}

fn a_mate_is_waited_for() {
    let world = World::new();
    let mate = mate(&world);
    world.own(&[7], 2);
    mate.join().expect("it ends");
}

/// It finds the first work, or the second, or none.
fn a_late_mate_touches_nothing() {
    let world = World::new();
    let mate = mate(&world);
    world.own(&[7, 5], 2);
    mate.join().expect("it ends");
}

fn each_share_is_made_once() {
    let world = World::new();
    let mates = [mate(&world), mate(&world)];
    world.own(&[7], MOST);
    for mate in mates {
        mate.join().expect("it ends");
    }
}
