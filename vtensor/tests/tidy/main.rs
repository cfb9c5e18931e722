//! The tidy test: the house style as far as a machine can see it.
//!
//! In: the text files of the workspace. Out: one list of all problems, each with file and line.
//!
//! | module | noun |
//! |---|---|
//! | `tree` | the files of the workspace |
//! | `code` | Rust text without comments, literals and tests |
//! | `text` | rules for single files |
//! | `layers` | which crate and which module may use which |
//! | `circles` | files that use one another |
//! | `versions` | numbers that have one home and several copies |
//!
//! Every rule is a function over text, and has a test that shows it fail: a check that cannot fail
//! is worthless. Files that do not exist yet do not matter. Standard library only, and no `git`,
//! so that it also runs in an unpacked archive.
//!
//! Limits: it reads Rust as text, not as a compiler does; macros can hide things from it.

mod circles;
mod code;
mod layers;
mod text;
mod tree;
mod versions;

use std::fmt;

/// Something that is not as the style wants it.
#[derive(Debug, PartialEq, Eq)]
struct Problem {
    path: String,
    /// Counted from 1; 0 for the file as a whole.
    line: usize,
    what: String,
}

impl Problem {
    fn new(file: &tree::File, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: file.path.clone(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

#[test]
fn the_workspace_is_tidy() {
    let files = tree::files(&tree::root());
    for path in [
        "Cargo.toml",
        "vtensor/src/lib.rs",
        "vtensor/tests/tidy/main.rs",
    ] {
        let found = files.iter().any(|file| file.path == path);
        assert!(found, "the walk over the workspace misses {path}");
    }
    let mut problems: Vec<Problem> = files.iter().flat_map(text::problems).collect();
    problems.extend(layers::problems(&files));
    problems.extend(circles::problems(&files));
    problems.extend(versions::problems(&files));
    let list: String = problems
        .iter()
        .map(|problem| format!("{problem}\n"))
        .collect();
    assert!(problems.is_empty(), "{} problems:\n{list}", problems.len());
}
