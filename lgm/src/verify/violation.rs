//! Verdicts: which rule does not hold, where, and what was found.

use core::fmt;

use vtensor::StepIndex;

/// The rules V1–V13 of `ARCHITECTURE.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// Counts never decrease, and reach neither too far back nor past what there is.
    V1,
    /// A step waits only for what an earlier step released.
    V2,
    /// An in waits only for outs that are released no later than itself.
    V3,
    /// The straight order of the program meets every wait. It follows from V2 and V3, so it is
    /// checked as their counterpart and never the first to fail.
    V4,
    /// A range changes hands only when its last use is over, and is known to be.
    V5,
    /// What is used is there, and known to be.
    V6,
    /// What is used is the last writer's.
    V7,
    /// A slot is overwritten only when its content is used no more, and known to be.
    V8,
    /// A stale copy does not return.
    V9,
    /// Ranges lie in the arena, and those held at once are disjoint.
    V10,
    /// Every iteration ends where it began.
    V11,
    /// Tables refer to what is there: ids, windows, slots, alignment, sizes.
    V12,
    /// Steps are the application's ops; one that runs again finds what it found at first.
    V13,
}

impl Rule {
    /// All rules, in order.
    pub const ALL: [Self; 13] = [
        Self::V1,
        Self::V2,
        Self::V3,
        Self::V4,
        Self::V5,
        Self::V6,
        Self::V7,
        Self::V8,
        Self::V9,
        Self::V10,
        Self::V11,
        Self::V12,
        Self::V13,
    ];

    /// The rule in a word or two.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::V1 => "counts",
            Self::V2 => "step order",
            Self::V3 => "copy order",
            Self::V4 => "progress",
            Self::V5 => "occupancy",
            Self::V6 => "residency",
            Self::V7 => "versions",
            Self::V8 => "slots",
            Self::V9 => "stale copies",
            Self::V10 => "budget",
            Self::V11 => "boundary",
            Self::V12 => "bounds",
            Self::V13 => "replays",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?} {}", self.title())
    }
}

/// Where in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// A step.
    Step(StepIndex),
    /// An out, by its row.
    Out(usize),
    /// An in, by its row.
    In(usize),
    /// A row of the table of homes.
    Home(usize),
    /// The program as a whole, or a table that the message names.
    Table,
}

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "step {step}"),
            Self::Out(row) => write!(f, "out {row}"),
            Self::In(row) => write!(f, "in {row}"),
            Self::Home(row) => write!(f, "home {row}"),
            Self::Table => f.write_str("the tables"),
        }
    }
}

/// Why a program is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{rule} at {at}: {message}")]
#[non_exhaustive]
pub struct Violation {
    /// The rule that does not hold.
    pub rule: Rule,
    /// The step, command or row that breaks it.
    pub at: At,
    /// What was wanted and what was found.
    pub message: String,
}

/// A verdict, as the result of a check.
pub(super) type Verdict<T = ()> = Result<T, Violation>;

/// A verdict against the program.
pub(super) fn refuse<T>(rule: Rule, at: At, message: impl Into<String>) -> Verdict<T> {
    Err(Violation {
        rule,
        at,
        message: message.into(),
    })
}
