//! Bars on long work: on standard error, and only where a person looks at it.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of a known length. It goes away when it is dropped.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Begins a bar; it is drawn only if it is wanted and standard error is a terminal.
    #[must_use]
    pub fn new(what: &'static str, length: u64, wanted: bool) -> Self {
        Self::styled(what, length, wanted, "{msg} [{wide_bar}] {pos}/{len} {eta}")
    }

    /// Begins a sign of life for work of unknown length, with the time that it has taken.
    #[must_use]
    pub fn busy(what: &'static str, wanted: bool) -> Self {
        let progress = Self::styled(what, 1, wanted, "{spinner} {msg} {elapsed}");
        progress.bar.enable_steady_tick(Duration::from_millis(100));
        progress
    }

    fn styled(what: &'static str, length: u64, wanted: bool, template: &str) -> Self {
        let target = if wanted && io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style = ProgressStyle::with_template(template)
            .expect("the templates are fixed, and the tests build them");
        let bar = ProgressBar::with_draw_target(Some(length), target).with_style(style);
        Self {
            bar: bar.with_message(what),
        }
    }

    /// Says that one more unit is done.
    pub fn advance(&self) {
        self.bar.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_has_no_length_to_reach() {
        let progress = Progress::busy("planning", true);
        assert_eq!(progress.bar.position(), 0);
        assert!(!progress.bar.is_finished());
    }

    #[test]
    fn a_bar_counts() {
        let progress = Progress::new("steps", 2, true);
        progress.advance();
        progress.advance();
        assert_eq!(
            (progress.bar.position(), progress.bar.length()),
            (2, Some(2))
        );
    }
}
