//! Half-open ranges of steps, on the circle that an iteration is.

use serde::{Deserialize, Serialize};

/// Steps `start .. end` of an iteration that is followed by the next one: `start` lies in this
/// iteration, `end` may lie in the next (then it is at least the number of steps).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StepRange {
    /// The first step.
    pub start: u32,
    /// One past the last step; not below `start`.
    pub end: u32,
}

impl StepRange {
    /// How many steps.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it holds no step.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Whether it runs past the end of an iteration of `steps` steps.
    #[must_use]
    pub const fn wraps(self, steps: u32) -> bool {
        self.end > steps
    }

    /// The straight parts on an iteration of `steps` steps; the second is empty unless it wraps.
    #[must_use]
    pub const fn unwrapped(self, steps: u32) -> [Self; 2] {
        if self.wraps(steps) {
            [
                Self {
                    start: self.start,
                    end: steps,
                },
                Self {
                    start: 0,
                    end: self.end - steps,
                },
            ]
        } else {
            [self, Self { start: 0, end: 0 }]
        }
    }

    /// Whether step `step` of an iteration of `steps` steps lies in it.
    #[must_use]
    pub const fn contains(self, step: u32, steps: u32) -> bool {
        (step >= self.start && step < self.end) || (step + steps < self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrapping_range_holds_both_ends() {
        let range = StepRange { start: 7, end: 12 };
        assert!(range.wraps(10));
        let held: std::vec::Vec<u32> = (0..10).filter(|&s| range.contains(s, 10)).collect();
        assert_eq!(held, [0, 1, 7, 8, 9]);
        let parts = range.unwrapped(10);
        assert_eq!(
            parts,
            [
                StepRange { start: 7, end: 10 },
                StepRange { start: 0, end: 2 }
            ]
        );
        assert_eq!(parts[0].len() + parts[1].len(), range.len());
    }

    #[test]
    fn an_empty_range_holds_nothing() {
        let range = StepRange { start: 5, end: 5 };
        assert!(range.is_empty());
        assert!((0..10).all(|s| !range.contains(s, 10)));
    }
}
