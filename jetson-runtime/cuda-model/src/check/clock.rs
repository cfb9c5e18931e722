//! Vector clocks: how far each line of work is known to have come.
//!
//! Source: Fidge 1988 and Mattern 1989, *vector clocks*; that one number per line is enough to
//! compare a single access with a clock is FastTrack's idea (Flanagan, Freund, PLDI 2009).

/// A line of work: the host, or a stream. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Line(pub(crate) u32);

impl Line {
    /// All threads of the host, taken as one.
    pub(crate) const HOST: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// One piece of work: its line, its number in that line (from 1), and what it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: Line,
    pub(crate) number: u64,
    pub(crate) what: &'static str,
}

/// For each line, up to which number its work is known to be complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock(Vec<u64>);

impl Clock {
    /// Whether the work is known to be complete.
    pub(crate) fn covers(&self, mark: &Mark) -> bool {
        self.of(mark.line) >= mark.number
    }

    /// Whether everything is known that `other` knows.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let own = self.0.iter().copied().chain(std::iter::repeat(0));
        other.0.iter().zip(own).all(|(other, own)| *other <= own)
    }

    /// Learns everything that `other` knows.
    pub(crate) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// The next piece of work of a line.
    pub(crate) fn next(&mut self, line: Line) -> u64 {
        if self.0.len() <= line.index() {
            self.0.resize(line.index() + 1, 0);
        }
        let number = &mut self.0[line.index()];
        *number += 1;
        *number
    }

    fn of(&self, line: Line) -> u64 {
        self.0.get(line.index()).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_know_what_they_learned() {
        let mark = |line, number| Mark {
            line: Line(line),
            number,
            what: "x",
        };
        let mut one = Clock::default();
        assert_eq!((one.next(Line(3)), one.next(Line(3))), (1, 2));
        let mut other = Clock::default();
        assert_eq!(other.next(Line(1)), 1);
        assert!(one.covers(&mark(3, 2)) && !one.covers(&mark(3, 3)));
        assert!(!one.covers(&mark(1, 1)) && !one.covers(&mark(9, 1)));
        assert!(!one.includes(&other) && !other.includes(&one));
        other.join(&one);
        assert!(other.includes(&one) && !one.includes(&other));
        assert!(other.covers(&mark(3, 2)) && other.covers(&mark(1, 1)));
        assert!(one.includes(&Clock::default()));
    }
}
