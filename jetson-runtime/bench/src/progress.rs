//! Bars on long work: on standard error, and only where a person looks at it.

use std::io::{self, IsTerminal};

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
        let target = if wanted && io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(length), target);
        let style = ProgressStyle::with_template("{msg} [{wide_bar}] {pos}/{len} {eta}")
            .expect("the template is fixed, and the tests build it");
        bar.set_style(style);
        bar.set_message(what);
        Self { bar }
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
