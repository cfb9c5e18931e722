//! What was found: named rules that the program under test broke.

use std::fmt;

/// Reports that are kept; more are counted.
const KEPT_MAX: usize = 1000;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    /// The name of the rule, one word.
    pub(crate) rule: &'static str,
    /// What happened, one line.
    pub(crate) text: String,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

/// All findings, in order.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    kept: Vec<Report>,
    dropped: u64,
}

impl Reports {
    /// Adds a finding.
    pub(crate) fn add(&mut self, rule: &'static str, text: impl Into<String>) {
        if self.kept.len() < KEPT_MAX {
            self.kept.push(Report {
                rule,
                text: text.into(),
            });
        } else {
            self.dropped += 1;
        }
    }

    /// As [`text`](Self::text), for a person: who says it, and how much there is.
    pub(crate) fn told(&self) -> String {
        let count = self.kept.len() as u64 + self.dropped;
        let text = self.text();
        let lines = text.lines().map(|line| format!("cuda-model: {line}\n"));
        format!("{}cuda-model: {count} reports\n", lines.collect::<String>())
    }

    /// One line for each finding.
    pub(crate) fn text(&self) -> String {
        let mut text: String = self
            .kept
            .iter()
            .map(|report| format!("{report}\n"))
            .collect();
        if self.dropped > 0 {
            text += &format!("dropped: {} more reports\n", self.dropped);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_lines_and_do_not_grow_for_ever() {
        let mut reports = Reports::default();
        for number in 0..KEPT_MAX + 3 {
            reports.add("rule", number.to_string());
        }
        let text = reports.text();
        assert!(text.starts_with("rule: 0\nrule: 1\n"), "{text}");
        assert!(
            text.ends_with("rule: 999\ndropped: 3 more reports\n"),
            "{text}"
        );
        let told = reports.told();
        assert!(told.starts_with("cuda-model: rule: 0\n"), "{told}");
        assert!(told.ends_with("cuda-model: 1003 reports\n"), "{told}");
    }
}
