//! Failures on cue: which calls fail, fail late, lose the context, or do nothing.
//!
//! In: rules that name a function (or `*` for any) and count its calls from now on, and every
//! call. Out: what to do to the call. Guarantees: the same calls in the same order meet the same
//! fate.

use std::collections::HashMap;

use crate::status::Status;

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It answers the code and does nothing.
    Fails(Status),
    /// It succeeds; what it enqueued fails later.
    FailsLate(Status),
    /// It and all later calls answer the code.
    LosesContext(Status),
    /// It answers success and does nothing.
    Elided,
}

#[derive(Debug)]
struct Rule {
    function: String,
    /// Matching calls before the first that it applies to.
    skip: u64,
    /// How many calls it still applies to.
    left: u64,
    fate: Fate,
}

/// The rules, and how often each function was called.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<Rule>,
    calls: HashMap<&'static str, u64>,
    total: u64,
}

/// Functions that order something, and can be elided.
pub(crate) const ORDERING: [&str; 7] = [
    "cuStreamWaitEvent",
    "cuStreamSynchronize",
    "cuStreamQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventQuery",
    "cuCtxSynchronize",
];

/// Stands for any function.
const ANY: &str = "*";

impl Faults {
    /// Applies `fate` to the `nth` call from now (1: the next one) and to `count - 1` after it.
    pub(crate) fn add(&mut self, function: &str, nth: u64, count: u64, fate: Fate) {
        self.rules.push(Rule {
            function: function.to_owned(),
            skip: nth.saturating_sub(1),
            left: count,
            fate,
        });
    }

    /// Forgets all rules.
    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    /// A function is called; what happens to the call. Where two rules hit it, the older one.
    pub(crate) fn call(&mut self, function: &'static str) -> Option<Fate> {
        *self.calls.entry(function).or_default() += 1;
        self.total += 1;
        let mut found = None;
        for rule in &mut self.rules {
            if rule.function != function && rule.function != ANY {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
            } else if rule.left > 0 {
                rule.left -= 1;
                found = found.or(Some(rule.fate));
            }
        }
        self.rules.retain(|rule| rule.left > 0);
        found
    }

    /// How often a function was called; `*` for all of them.
    pub(crate) fn calls(&self, function: &str) -> u64 {
        match function {
            ANY => self.total,
            name => self.calls.get(name).copied().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_count_the_calls_of_their_function() {
        let mut faults = Faults::default();
        let code = Fate::Fails(Status(2));
        faults.add("a", 2, 2, code);
        faults.add("*", 5, 1, Fate::Elided);
        let fates: Vec<_> = ["a", "b", "a", "a", "a", "b"]
            .into_iter()
            .map(|name| faults.call(name))
            .collect();
        let wanted = [None, None, Some(code), Some(code), Some(Fate::Elided), None];
        assert_eq!(fates, wanted);
        assert_eq!(
            [faults.calls("a"), faults.calls("b"), faults.calls("*")],
            [4, 2, 6]
        );
        assert_eq!(faults.calls("c"), 0);
        faults.add("a", 1, 1, code);
        faults.clear();
        assert_eq!(faults.call("a"), None);
    }
}
