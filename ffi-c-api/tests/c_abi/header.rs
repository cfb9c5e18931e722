//! The C headers, read as text: what they declare.
//!
//! Limits: not a C parser. It knows the few forms that these headers use, and names of integer
//! types are replaced by what they stand for.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::api::{Api, tidy};

/// A declaration, and the comment before it.
#[derive(Debug)]
pub(crate) struct Declaration {
    pub(crate) text: String,
    pub(crate) comment: String,
}

/// The C headers: the umbrella and its parts.
pub(crate) fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let parts = fs::read_dir(folder.join("vtensor")).expect("the headers are there");
    let mut files: Vec<PathBuf> = parts
        .map(|file| file.expect("the headers can be read").path())
        .chain([folder.join("vtensor.h")])
        .filter(|path| path.extension().is_some_and(|extension| extension == "h"))
        .collect();
    files.sort();
    files
}

/// All headers, as one text.
pub(crate) fn text() -> String {
    files()
        .iter()
        .map(|path| fs::read_to_string(path).expect("headers are text"))
        .collect()
}

/// Without lines for the preprocessor, and without what only C++ sees.
fn unprocessed(header: &str) -> String {
    let mut inside_cpp = false;
    let mut continued = false;
    let mut text = String::new();
    for line in header.lines() {
        let directive = line.starts_with('#') || continued;
        continued = directive && line.ends_with('\\');
        match line.trim() {
            "#ifdef __cplusplus" => inside_cpp = true,
            "#endif" => inside_cpp = false,
            _ if directive || inside_cpp => {}
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

/// The declarations of a header, in order.
pub(crate) fn declarations(header: &str) -> Vec<Declaration> {
    let text = unprocessed(header);
    let mut found = Vec::new();
    let (mut comment, mut code, mut depth) = (String::new(), String::new(), 0);
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("/*") {
            let (inside, after) = after.split_once("*/").expect("a comment ends");
            // One inside a declaration is about a member.
            if code.trim().is_empty() {
                comment = inside.to_owned();
            }
            rest = after;
            continue;
        }
        rest = &rest[first.len_utf8()..];
        code.push(first);
        depth += i32::from(first == '{') - i32::from(first == '}');
        let body = first == '}' && code.trim_start().starts_with("static inline");
        if depth == 0 && (first == ';' || body) {
            let text = code.split_whitespace().collect::<Vec<_>>().join(" ");
            let comment = std::mem::take(&mut comment);
            found.push(Declaration { text, comment });
            code.clear();
        }
    }
    assert_eq!(code.trim(), "", "a declaration ends");
    found
}

/// The name that is declared: the word before the parameters.
pub(crate) fn function_name(declaration: &str) -> Option<&str> {
    let is_function = declaration.ends_with(");") && !declaration.starts_with("typedef");
    let (before, _) = declaration.split_once('(').filter(|_| is_function)?;
    before.rsplit([' ', '*']).next()
}

/// Replaces names of integer types by what they stand for.
fn resolved(text: &str, aliases: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain(['\n']) {
        if c.is_alphanumeric() || c == '_' {
            word.push(c);
            continue;
        }
        out.push_str(aliases.get(&word).unwrap_or(&word));
        word.clear();
        out.push(c);
    }
    out.trim_end().to_owned()
}

/// What a header declares.
pub(crate) fn read(header: &str) -> Api {
    let declarations = declarations(header);
    let mut aliases = BTreeMap::new();
    for Declaration { text, .. } in &declarations {
        let words: Vec<&str> = text.trim_end_matches(';').split(' ').collect();
        if let [
            "typedef",
            stands_for @ ("int32_t" | "uint32_t" | "uint64_t"),
            name,
        ] = words[..]
        {
            aliases.insert(name.to_owned(), stands_for.to_owned());
        }
    }
    let mut api = Api::default();
    for Declaration { text, .. } in &declarations {
        if let Some(name) = function_name(text) {
            let prototype = tidy(&resolved(text.trim_end_matches(';'), &aliases));
            api.functions.insert(name.to_owned(), prototype);
        } else if let Some(members) = text.strip_prefix("typedef struct ")
            && let Some((name, members)) = members.split_once(" {")
        {
            let (members, _) = members.split_once('}').expect("a struct ends");
            let members = members.split(';').map(str::trim);
            let members = members.filter(|member| !member.is_empty());
            let members = members.map(|member| tidy(&resolved(member, &aliases)));
            api.structs.insert(name.to_owned(), members.collect());
        } else if text.starts_with("typedef ") && text.contains("(*") {
            let (result, rest) = text["typedef ".len()..].split_once("(*").expect("looked");
            let (name, parameters) = rest.split_once(')').expect("a function type has a name");
            let parameters = resolved(parameters.trim_end_matches(';'), &aliases);
            let text = tidy(&format!("{} {parameters}", resolved(result, &aliases)));
            api.callbacks.insert(name.to_owned(), text);
        } else if text.starts_with("enum {") {
            api.numbers.extend(numbers(text));
        }
    }
    api.numbers.extend(defines(header));
    api
}

/// The constants of an enumeration.
fn numbers(declaration: &str) -> Vec<(String, i64)> {
    let inside = declaration
        .trim_start_matches("enum {")
        .trim_end_matches("};");
    let pairs = inside.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, number)| {
            let number = number.trim().parse().expect("constants are plain numbers");
            (name.trim().to_owned(), number)
        })
        .collect()
}

/// `#define NAME number`.
fn defines(header: &str) -> Vec<(String, i64)> {
    let lines = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define "));
    let pairs = lines.filter_map(|line| line.split_once(' '));
    pairs
        .filter_map(|(name, number)| Some((name.to_owned(), number.trim().parse().ok()?)))
        .collect()
}
