//! An interface, as text that can be compared: what headers declare, or what Rust exports.

use std::collections::BTreeMap;

/// Everything that a C program can name.
#[derive(Debug, Default)]
pub(crate) struct Api {
    /// Prototypes by name.
    pub(crate) functions: BTreeMap<String, String>,
    /// Members, each a type and a name, by the name of the struct.
    pub(crate) structs: BTreeMap<String, Vec<String>>,
    /// Result and parameters of function types, by name.
    pub(crate) callbacks: BTreeMap<String, String>,
    /// Constants.
    pub(crate) numbers: BTreeMap<String, i64>,
}

impl Api {
    /// Adds what another file has.
    pub(crate) fn extend(&mut self, other: Self) {
        self.functions.extend(other.functions);
        self.structs.extend(other.structs);
        self.callbacks.extend(other.callbacks);
        self.numbers.extend(other.numbers);
    }
}

/// One space between words, none around punctuation.
pub(crate) fn tidy(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for mark in ["(", ")", "*", ","] {
        text = text
            .replace(&format!(" {mark}"), mark)
            .replace(&format!("{mark} "), mark);
    }
    text
}
