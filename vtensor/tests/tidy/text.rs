//! Rules that look at one file at a time.

use crate::Problem;
use crate::code::{code_only, is_word, lines_with_word};
use crate::tree::File;

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 500;
/// Files that may be longer, each with a reason beside it. Empty, and meant to stay so.
const LONGER: &[&str] = &[];
/// Crates without `unsafe`; their `lib.rs` forbids it, so that the compiler agrees.
const SAFE: &[&str] = &["vtensor", "lgm"];
/// Folders that may contain `unsafe`.
const UNSAFE: &[&str] = &["jetson-runtime/", "ffi-c-api/"];

/// Everything that is wrong with one file.
pub(crate) fn problems(file: &File) -> Vec<Problem> {
    let mut found = machine_paths(file);
    if ["rs", "md", "toml"]
        .iter()
        .any(|extension| file.is(extension))
    {
        found.extend(blanks(file));
    }
    if file.is("rs") {
        found.extend(columns(file));
        found.extend(length(file));
        found.extend(module_docs(file));
        found.extend(unfinished(file));
        found.extend(unsafe_address(file));
    }
    found
}

fn blanks(file: &File) -> Vec<Problem> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        if line.contains('\t') {
            found.push(Problem::new(file, index + 1, "a tab"));
        }
        if line.ends_with(char::is_whitespace) {
            found.push(Problem::new(
                file,
                index + 1,
                "blanks at the end of the line",
            ));
        }
    }
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        let line = file.text.lines().count();
        found.push(Problem::new(file, line, "a file ends with one end of line"));
    }
    found
}

fn columns(file: &File) -> Vec<Problem> {
    let lines = file.text.lines().enumerate();
    lines
        .filter(|(_, line)| line.chars().count() > COLUMNS_MAX && !line.contains("://"))
        .map(|(index, line)| {
            let columns = line.chars().count();
            let what = format!("{columns} columns, at most {COLUMNS_MAX} are read with ease");
            Problem::new(file, index + 1, what)
        })
        .collect()
}

fn length(file: &File) -> Option<Problem> {
    let lines = file.text.lines().count();
    (lines > LINES_MAX && !LONGER.contains(&file.path.as_str())).then(|| {
        let what = format!("{lines} lines, at most {LINES_MAX}: is this one noun?");
        Problem::new(file, 0, what)
    })
}

fn module_docs(file: &File) -> Option<Problem> {
    let first = file.text.lines().find(|line| !line.trim().is_empty());
    (!first.is_some_and(|line| line.starts_with("//!")))
        .then(|| Problem::new(file, 1, "a module begins with its docs (//!)"))
}

fn unfinished(file: &File) -> Vec<Problem> {
    let code = code_only(&file.text);
    let mut found = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let dense: String = line.split_whitespace().collect();
        for mark in ["todo!(", "unimplemented!(", "dbg!(", "#[ignore"] {
            if dense.contains(mark) {
                found.push(Problem::new(
                    file,
                    index + 1,
                    format!("`{mark}` is not done"),
                ));
            }
        }
    }
    // Spelled so that this file does not find itself.
    for mark in [concat!("FIX", "ME"), concat!("X", "XX")] {
        for line in lines_with_word(&file.text, mark) {
            let what = format!("`{mark}`: do it, or file an issue");
            found.push(Problem::new(file, line, what));
        }
    }
    found
}

fn unsafe_address(file: &File) -> Vec<Problem> {
    let mut found = Vec::new();
    let code = code_only(&file.text);
    if !UNSAFE.iter().any(|folder| file.path.starts_with(folder)) {
        for line in lines_with_word(&code, "unsafe") {
            let what = format!("`unsafe` lives in {} only", UNSAFE.join(" and "));
            found.push(Problem::new(file, line, what));
        }
    }
    let safe = SAFE
        .iter()
        .any(|name| file.path == format!("{name}/src/lib.rs"));
    if safe && !code.contains("#![forbid(unsafe_code)]") {
        found.push(Problem::new(file, 1, "wants #![forbid(unsafe_code)]"));
    }
    found
}

/// Absolute paths that exist on somebody's machine only.
fn machine_paths(file: &File) -> Vec<Problem> {
    let places = ["root", "home", "work", "tmp", "Users"].map(|name| format!("/{name}"));
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for place in &places {
            let absolute = line.match_indices(place.as_str()).any(|(at, _)| {
                // `a/work`, `$x/work` and `~/work` are not absolute, `/workspace` is another word.
                let before = line[..at].chars().next_back();
                let after = line[at + place.len()..].chars().next();
                let within = |c: char| is_word(c) || "./~}*)-".contains(c);
                !before.is_some_and(within) && !after.is_some_and(|c| is_word(c) || c == '-')
            });
            if absolute {
                let what = format!("{place} is a path of one machine");
                found.push(Problem::new(file, index + 1, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::sample;

    fn lines_of(path: &str, text: &str) -> Vec<usize> {
        problems(&sample(path, text))
            .iter()
            .map(|p| p.line)
            .collect()
    }

    #[test]
    fn good_files_pass() {
        let good = "//! Docs.\n\nfn f() -> char {\n    'x'\n}\n";
        assert_eq!(lines_of("lgm/src/x.rs", good), []);
        assert_eq!(lines_of("README.md", "text\n"), []);
        assert_eq!(
            lines_of("Makefile", "all:\n\ttrue \n"),
            [],
            "tabs belong there"
        );
    }

    #[test]
    fn blanks_are_seen() {
        for extension in ["rs", "md", "toml"] {
            let path = format!("lgm/x.{extension}");
            assert_eq!(lines_of(&path, "//! a \n//! b\n"), [1], "{extension}");
            assert_eq!(lines_of(&path, "//! a\n\t//! b\n"), [2], "{extension}");
            assert_eq!(lines_of(&path, "//! a\n//! b"), [2], "{extension}");
            assert_eq!(lines_of(&path, "//! a\n\n"), [2], "{extension}");
        }
    }

    #[test]
    fn long_lines_are_seen_and_addresses_are_not() {
        let line = |text: &str| format!("//! {text}{}\n", "é".repeat(COLUMNS_MAX - 4));
        assert_eq!(lines_of("lgm/x.rs", &line("")), []);
        assert_eq!(lines_of("lgm/x.rs", &line("x")), [1]);
        assert_eq!(lines_of("lgm/x.rs", &line("https://example.org/")), []);
    }

    #[test]
    fn long_files_are_seen() {
        assert_eq!(lines_of("lgm/x.rs", &"//!\n".repeat(LINES_MAX)), []);
        assert_eq!(lines_of("lgm/x.rs", &"//!\n".repeat(LINES_MAX + 1)), [0]);
    }

    #[test]
    fn missing_docs_are_seen() {
        assert_eq!(lines_of("lgm/x.rs", "fn f() {}\n"), [1]);
        assert_eq!(lines_of("lgm/x.rs", "// Docs?\n"), [1]);
        assert_eq!(lines_of("lgm/x.rs", ""), [1]);
    }

    #[test]
    fn unfinished_work_is_seen() {
        for mark in [
            "todo!()",
            "todo !(\"x\")",
            "unimplemented!()",
            "dbg!(1)",
            "#[ignore]",
        ] {
            let text = format!("//! Docs.\nfn f() {{ {mark} }}\n");
            assert_eq!(lines_of("lgm/x.rs", &text), [2], "{mark}");
        }
        for mark in [concat!("FIX", "ME"), concat!("X", "XX")] {
            assert_eq!(
                lines_of("lgm/x.rs", &format!("//! Docs.\n// {mark}: x\n")),
                [2]
            );
        }
        assert_eq!(
            lines_of("lgm/x.rs", "//! Says todo!() and dbg!() only.\n"),
            []
        );
    }

    #[test]
    fn unsafe_has_an_address() {
        let text = "//! No unsafe in words counts.\nfn f() { unsafe { g() } }\n";
        for path in ["vtensor/src/x.rs", "lgm/tests/x.rs", "new/src/x.rs"] {
            assert_eq!(lines_of(path, text), [2], "{path}");
        }
        for path in ["jetson-runtime/src/x.rs", "ffi-c-api/src/x.rs"] {
            assert_eq!(lines_of(path, text), [], "{path}");
        }
        let unforbidden = "//! Docs.\n// #![forbid(unsafe_code)]\n";
        assert_eq!(lines_of("vtensor/src/lib.rs", unforbidden), [1]);
        assert_eq!(lines_of("lgm/src/lib.rs", unforbidden), [1]);
        assert_eq!(
            lines_of("lgm/src/lib.rs", "//! Docs.\n#![forbid(unsafe_code)]\n"),
            []
        );
    }

    #[test]
    fn paths_of_a_machine_are_seen() {
        for name in ["root", "home", "work", "tmp", "Users"] {
            for text in [
                format!("/{name}"),
                format!("see `/{name}/x`"),
                format!("f:/{name}/x"),
            ] {
                assert_eq!(lines_of("notes", &text), [1], "{text}");
            }
            for text in [
                format!("https://example.org/{name}/"),
                format!("$HOME/{name} ~/{name} ../{name} */{name}"),
                format!("/{name}space /{name}-x"),
            ] {
                assert_eq!(lines_of("notes", &text), [], "{text}");
            }
        }
    }
}
