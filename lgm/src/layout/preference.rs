//! Preference: how a claimant chooses among the pages that fit.

/// How a claimant chooses among the pages that fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    /// Pages freed by the latest outs first, so that others find those that they know of.
    Late,
    /// Pages that are reserved soonest first, so that long stays find the others; then late ones.
    Tight,
    /// Runs first.
    Runs,
}

impl Preference {
    pub(super) const ALL: [Self; 3] = [Self::Late, Self::Tight, Self::Runs];
}
