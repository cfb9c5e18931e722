//! One thing that a stream does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::hardware::Hardware;
use super::link::{Direction, sleep_until};
use super::progress::Progress;
use super::record::Record;
use crate::kernel::Launch;
use crate::memory::bytes;
use crate::space::Place;
use crate::status::Status;

/// What to do. Places were resolved when the command was enqueued; the driver keeps them mapped
/// until it is done.
#[derive(Debug)]
pub(crate) enum Command {
    /// Copies bytes, over the link unless both ends are on the device.
    Copy {
        from: Vec<Place>,
        to: Vec<Place>,
        over: Option<Direction>,
    },
    /// Copies bytes that were staged when the copy was enqueued.
    Upload { bytes: Vec<u8>, to: Vec<Place> },
    /// Sets every byte.
    Set { to: Vec<Place>, value: u8 },
    /// Runs a kernel.
    Kernel(Launch),
    /// Moves managed memory: takes the link's time, and changes no byte.
    Migrate { bytes: u64, over: Direction },
    /// Makes the record complete.
    Record(Arc<Record>),
    /// Waits for a record of another stream.
    Wait(Arc<Record>),
    /// Waits until another stream has done so many commands (the default stream's implicit order).
    Join(Arc<Progress>, u64),
}

/// A command, and whether it fails instead of doing anything.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) command: Command,
    pub(crate) fails: Option<Status>,
}

impl Queued {
    /// Does it, on the thread of its stream.
    pub(crate) fn execute(self, hardware: &Hardware) {
        if let Some(status) = self.fails {
            hardware.failure.report(status);
        }
        let dead = self.fails.is_some() || hardware.failure.lost().is_some();
        match self.command {
            // Order is kept on a lost device too: whoever waits is let through, and told.
            Command::Record(record) => record.complete(),
            Command::Wait(record) => record.wait(),
            Command::Join(progress, count) => progress.wait_for(count),
            _ if dead => (),
            Command::Copy { from, to, over } => copy(&from, &to, over, hardware),
            Command::Upload { bytes, to } => {
                let from = Place {
                    at: bytes.as_ptr().expose_provenance(),
                    bytes: bytes.len(),
                };
                copy(&[from], &to, Some(Direction::ToDevice), hardware);
            }
            Command::Set { to, value } => set(&to, value),
            Command::Migrate { bytes, over } => hardware.link.pass(over, bytes, || ()),
            Command::Kernel(launch) => run(&launch),
        }
    }
}

fn run(launch: &Launch) {
    match launch {
        Launch::Spin { nanoseconds } => {
            sleep_until(Instant::now() + Duration::from_nanos(*nanoseconds));
        }
        launch => launch.execute(),
    }
}

fn copy(from: &[Place], to: &[Place], over: Option<Direction>, hardware: &Hardware) {
    let move_bytes = || {
        for (from, to) in pairs(from, to) {
            // SAFETY: the driver resolved both places, checked that they may be read and written,
            // and unmaps nothing before the stream is done; host memory that the driver does not
            // know was promised by the caller of the copy.
            unsafe { bytes::copy(to.at, from.at, to.bytes) };
        }
    };
    match over {
        Some(direction) => {
            let bytes: usize = to.iter().map(|place| place.bytes).sum();
            hardware.link.pass(direction, bytes as u64, move_bytes);
        }
        None => move_bytes(),
    }
}

fn set(to: &[Place], value: u8) {
    for place in to {
        // SAFETY: as for a copy.
        unsafe { bytes::fill(place.at, value, place.bytes) };
    }
}

/// Cuts two lists of places into pairs of equal size.
fn pairs(from: &[Place], to: &[Place]) -> Vec<(Place, Place)> {
    let mut pairs = Vec::with_capacity(from.len().max(to.len()));
    let (mut from, mut to) = (from.iter().copied(), to.iter().copied());
    let (mut source, mut target) = (from.next(), to.next());
    while let (Some(a), Some(b)) = (source, target) {
        let bytes = a.bytes.min(b.bytes);
        let part = |place: Place| Place { bytes, ..place };
        let rest = |place: Place| {
            let rest = Place {
                at: place.at + bytes,
                bytes: place.bytes - bytes,
            };
            (rest.bytes > 0).then_some(rest)
        };
        pairs.push((part(a), part(b)));
        source = rest(a).or_else(|| from.next());
        target = rest(b).or_else(|| to.next());
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_cut_where_either_side_ends() {
        let place = |at, bytes| Place { at, bytes };
        let from = [place(100, 3), place(200, 5)];
        let to = [place(10, 1), place(20, 4), place(30, 3)];
        let cut: Vec<_> = pairs(&from, &to)
            .into_iter()
            .map(|(a, b)| (a.at, b.at, b.bytes))
            .collect();
        assert_eq!(
            cut,
            [(100, 10, 1), (101, 20, 2), (200, 22, 2), (202, 30, 3)]
        );
        assert!(pairs(&[], &[]).is_empty());
    }
}
