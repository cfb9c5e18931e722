//! The clocks of the host and of the streams, the shadows of all allocations, and the rules
//! between them.
//!
//! What orders: a stream's work by its order; work after everything that the host knew when it was
//! enqueued; what is enqueued behind a wait after everything before the record that it waits for;
//! the host after what it waited for, or saw complete by a query.
//!
//! Limits: all threads of the host are taken as one, in the order of their calls. How they order
//! each other cannot be seen from the driver; a race between two threads of the host is not found.

use std::collections::HashMap;
use std::ops::Range;

use super::clock::{Clock, Line, Mark};
use super::shadow::{Conflict, Mode, Shadow};
use crate::space::AllocationId;

/// Who is ordered after what.
#[derive(Debug)]
pub(crate) struct Order {
    /// By line; the host's is the first.
    clocks: Vec<Clock>,
    shadows: HashMap<AllocationId, Shadow>,
}

impl Order {
    /// Only the host, which has done nothing.
    pub(crate) fn new() -> Self {
        Self {
            clocks: vec![Clock::default()],
            shadows: HashMap::new(),
        }
    }

    /// A new stream.
    pub(crate) fn add_line(&mut self) -> Line {
        let line = u32::try_from(self.clocks.len()).expect("streams are fewer than 2^32");
        self.clocks.push(Clock::default());
        Line(line)
    }

    /// What the line's last work is ordered after, itself included.
    pub(crate) fn clock(&self, line: Line) -> &Clock {
        &self.clocks[line.0 as usize]
    }

    /// What comes next in the line is ordered after all that `clock` knows.
    pub(crate) fn wait(&mut self, line: Line, clock: &Clock) {
        self.clocks[line.0 as usize].join(clock);
    }

    /// What comes next in `line` is ordered after all that is in `other`.
    pub(crate) fn wait_for_line(&mut self, line: Line, other: Line) {
        let clock = self.clocks[other.0 as usize].clone();
        self.wait(line, &clock);
    }

    /// The next piece of work of a line: after all that the host knows.
    pub(crate) fn work(&mut self, line: Line, what: &'static str) -> Mark {
        if line != Line::HOST {
            self.wait_for_line(line, Line::HOST);
        }
        let number = self.clocks[line.0 as usize].next(line);
        Mark { line, number, what }
    }

    /// The work touches bytes; what it conflicts with.
    pub(crate) fn touch(
        &mut self,
        mark: Mark,
        allocation: AllocationId,
        range: Range<u64>,
        mode: Mode,
    ) -> Vec<Conflict> {
        let clock = &self.clocks[mark.line.0 as usize];
        let shadow = self.shadows.entry(allocation).or_default();
        shadow.touch(range, mode, mark, clock)
    }

    /// Work on an allocation that the host does not know to be complete.
    pub(crate) fn pending(&self, allocation: AllocationId) -> Option<Mark> {
        self.shadows
            .get(&allocation)?
            .pending(self.clock(Line::HOST))
    }

    /// A line whose work the host does not know to be complete.
    pub(crate) fn busy(&self) -> Option<Line> {
        let host = self.clock(Line::HOST);
        let late = self.clocks.iter().position(|clock| !host.includes(clock));
        late.map(|index| Line(u32::try_from(index).expect("lines are numbered so")))
    }

    /// An allocation is gone.
    pub(crate) fn forget(&mut self, allocation: AllocationId) {
        self.shadows.remove(&allocation);
    }
}
