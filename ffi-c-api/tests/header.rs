//! Holds `include/vtensor.h` and the Rust exports together: names, types, numbers, and the three
//! things that each function says.
//!
//! Both sides are written by hand and read here as text: a prototype is made from each Rust export
//! and looked for in the header. A type that this test does not know fails it, by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use vtensor_ffi::status::TABLE;
use vtensor_ffi::version::{VT_VERSION, VT_VERSION_MAJOR, VT_VERSION_MINOR, VT_VERSION_PATCH};

fn header() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/vtensor.h");
    fs::read_to_string(path).expect("the header is there")
}

fn sources() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(folder).expect("the sources are there");
    files
        .map(|file| file.expect("the sources can be read").path())
        .map(|path| fs::read_to_string(path).expect("sources are text"))
        .collect()
}

/// One space between words, none around punctuation.
fn tidy(prototype: &str) -> String {
    let mut text = prototype.split_whitespace().collect::<Vec<_>>().join(" ");
    for mark in ["(", ")", "*", ","] {
        text = text
            .replace(&format!(" {mark}"), mark)
            .replace(&format!("{mark} "), mark);
    }
    text
}

fn c_type(rust: &str) -> String {
    match rust.trim() {
        "Status" => "vt_status".to_owned(),
        "u32" => "uint32_t".to_owned(),
        "u64" => "uint64_t".to_owned(),
        "c_char" => "char".to_owned(),
        pointer => {
            if let Some(to) = pointer.strip_prefix("*const ") {
                format!("const {}*", c_type(to))
            } else if let Some(to) = pointer.strip_prefix("*mut ") {
                format!("{}*", c_type(to))
            } else {
                panic!("tell this test what `{pointer}` is in C")
            }
        }
    }
}

/// The C prototypes of the exports in a Rust source, by name.
fn exports(source: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for part in source.split("extern \"C\" fn ").skip(1) {
        let (name, rest) = part.split_once('(').expect("a function has parameters");
        let (parameters, rest) = rest.split_once(')').expect("parameters end");
        let (result, _) = rest.split_once('{').expect("a function has a body");
        let result = match result.trim().strip_prefix("->") {
            Some(rust) => c_type(rust),
            None => "void".to_owned(),
        };
        let parameters: Vec<String> = parameters
            .split(',')
            .filter_map(|parameter| parameter.split_once(':'))
            .map(|(name, rust)| format!("{} {}", c_type(rust), name.trim()))
            .collect();
        let parameters = match parameters.is_empty() {
            true => "void".to_owned(),
            false => parameters.join(","),
        };
        found.insert(
            name.to_owned(),
            tidy(&format!("{result} {name}({parameters})")),
        );
    }
    found
}

/// The prototypes of a header by name, each with the comment before it.
fn prototypes(header: &str) -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    let mut comment = "";
    let mut rest = header;
    while let Some(start) = rest.find("/*") {
        let end = start + rest[start..].find("*/").expect("a comment ends") + 2;
        let (this, after) = (&rest[start..end], &rest[end..]);
        let code = &after[..after.find("/*").unwrap_or(after.len())];
        comment = if this.contains("----") { comment } else { this };
        let mut declarations = code.split(';').filter(|text| text.contains("vt_"));
        if let Some(text) = declarations.find(|text| text.contains('(') && text.contains(')')) {
            let text = text.lines().filter(|line| !line.starts_with('#'));
            let text = tidy(&text.collect::<Vec<_>>().join(" "));
            let name = text.split('(').next().unwrap_or_default();
            let name = name
                .rsplit([' ', '*'])
                .next()
                .unwrap_or_default()
                .to_owned();
            found.insert(name, (text, comment.to_owned()));
        }
        rest = after;
    }
    found
}

/// `NAME = number` and `#define NAME number` of a header.
fn numbers(header: &str) -> BTreeMap<String, i64> {
    let mut found = BTreeMap::new();
    for line in header.lines() {
        let line = line.trim().trim_end_matches(',');
        let pair = match line.strip_prefix("#define ") {
            Some(define) => define.split_once(' '),
            None => line.split_once(" = "),
        };
        if let Some((name, number)) = pair
            && let Ok(number) = number.trim().parse()
        {
            found.insert(name.to_owned(), number);
        }
    }
    found
}

#[test]
fn every_export_is_declared_as_it_is_and_nothing_else_is() {
    let declared: BTreeMap<String, String> = prototypes(&header())
        .into_iter()
        .map(|(name, (text, _))| (name, text))
        .collect();
    let exported: BTreeMap<String, String> = sources()
        .iter()
        .flat_map(|source| exports(source))
        .collect();
    assert!(!exported.is_empty(), "this test reads the exports");
    assert_eq!(declared, exported, "left: vtensor.h, right: src/*.rs");
}

#[test]
fn every_function_states_ownership_threads_and_allocation() {
    for (name, (_, comment)) in prototypes(&header()) {
        for word in ["Ownership:", "Threads:", "Allocation:"] {
            assert!(
                comment.contains(word),
                "vtensor.h: {name} does not state {word}"
            );
        }
    }
}

#[test]
fn the_numbers_are_the_same() {
    let mut declared = numbers(&header());
    let mut exported: BTreeMap<String, i64> = TABLE
        .iter()
        .map(|row| (row.name.to_owned(), row.status.0.into()))
        .collect();
    for (name, number) in [
        ("VT_VERSION_MAJOR", VT_VERSION_MAJOR),
        ("VT_VERSION_MINOR", VT_VERSION_MINOR),
        ("VT_VERSION_PATCH", VT_VERSION_PATCH),
    ] {
        exported.insert(name.to_owned(), number.into());
    }
    assert_eq!(declared, exported, "left: vtensor.h, right: src/*.rs");

    let mut part = |name| declared.remove(name).expect("compared above");
    let [major, minor, patch] =
        ["VT_VERSION_MAJOR", "VT_VERSION_MINOR", "VT_VERSION_PATCH"].map(&mut part);
    assert_eq!((major << 16) | (minor << 8) | patch, i64::from(VT_VERSION));
}

#[test]
fn a_drift_is_seen() {
    let rust = "extern \"C\" fn vt_f(a: *const c_char, b: *mut u64) -> Status {\n}";
    let same = "/* Ownership: */\nvt_status vt_f(const char *a, uint64_t *b);";
    let (name, (text, comment)) = prototypes(same).pop_first().unwrap();
    assert_eq!(exports(rust).get(&name), Some(&text));
    assert!(comment.contains("Ownership:"));
    for drifted in [
        "/**/\nvt_status vt_f(const char *a, uint32_t *b);",
        "/**/\nvt_status vt_f(char *a, uint64_t *b);",
        "/**/\nvt_status vt_f(const char *a);",
        "/**/\nint32_t vt_f(const char *a, uint64_t *b);",
        "/**/\nvt_status vt_g(const char *a, uint64_t *b);",
    ] {
        let (name, (text, _)) = prototypes(drifted).pop_first().unwrap();
        assert_ne!(exports(rust).get(&name), Some(&text), "{drifted}");
    }
    assert_eq!(
        numbers("    VT_X = -3,\n#define VT_Y 4\n")
            .into_values()
            .sum::<i64>(),
        1
    );
}
