//! The naive model: every piece of work with the set of all that comes before it, every pair of
//! accesses compared. Shares nothing with the checker but its words.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::check::Mode;

/// A piece of work that touches bytes.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) number: u64,
    pub(super) allocation: u32,
    pub(super) range: Range<u64>,
    pub(super) mode: Mode,
}

/// All work so far, and for each line and event which of it is known to be complete.
pub(super) struct Naive {
    nodes: Vec<Node>,
    known: Vec<BTreeSet<usize>>,
    events: Vec<Option<BTreeSet<usize>>>,
}

impl Naive {
    pub(super) fn new(lines: usize, events: usize) -> Self {
        Self {
            nodes: Vec::new(),
            known: vec![BTreeSet::new(); lines],
            events: vec![None; events],
        }
    }

    fn learn(&mut self, line: usize, what: &BTreeSet<usize>) {
        self.known[line].extend(what);
    }

    pub(super) fn record(&mut self, event: usize, line: usize) {
        let host = self.known[0].clone();
        self.learn(line, &host);
        self.events[event] = Some(self.known[line].clone());
    }

    pub(super) fn wait(&mut self, line: usize, event: usize) {
        if let Some(what) = self.events[event].clone() {
            self.learn(line, &what);
        }
    }

    pub(super) fn sync(&mut self, line: usize) {
        let what = self.known[line].clone();
        self.learn(0, &what);
    }

    /// Adds a piece of work; the earlier ones that conflict with it and are not before it.
    pub(super) fn touch(&mut self, node: Node) -> Vec<Node> {
        let host = self.known[0].clone();
        self.learn(node.line, &host);
        let known = &self.known[node.line];
        let races = self.nodes.iter().enumerate().filter(|(index, earlier)| {
            let apart = earlier.allocation != node.allocation
                || earlier.range.end <= node.range.start
                || node.range.end <= earlier.range.start;
            let harmless = matches!(
                (earlier.mode, node.mode),
                (Mode::Read, Mode::Read) | (Mode::Atomic, Mode::Atomic)
            );
            !apart && !harmless && !known.contains(index)
        });
        let races = races.map(|(_, earlier)| earlier.clone()).collect();
        self.known[node.line].insert(self.nodes.len());
        self.nodes.push(node);
        races
    }

    /// Whether the host does not know some work on an allocation to be complete.
    pub(super) fn pending(&self, allocation: u32) -> bool {
        let nodes = self.nodes.iter().enumerate();
        let mut late = nodes.filter(|(index, _)| !self.known[0].contains(index));
        late.any(|(_, node)| node.allocation == allocation)
    }
}
