//! The Rust sources, read as text: what they export.
//!
//! A type that this does not know fails the test, by name.

use std::fs;
use std::path::Path;

use crate::api::{Api, tidy};

/// All sources, each as a text without its unit tests.
pub(crate) fn sources() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = fs::read_dir(folder).expect("the sources are there");
    files
        .map(|file| file.expect("the sources can be read").path())
        .map(|path| fs::read_to_string(path).expect("sources are text"))
        .map(|text| {
            text.split("#[cfg(test)]")
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect()
}

fn c_type(rust: &str) -> String {
    let named = |name: &str| {
        let mut snake = "vt".to_owned();
        for c in name.chars() {
            if c.is_uppercase() {
                snake.push('_');
            }
            snake.extend(c.to_lowercase());
        }
        snake
    };
    match rust.trim() {
        "Status" | "i32" => "int32_t".to_owned(),
        "u32" => "uint32_t".to_owned(),
        "u64" | "VtTensor" => "uint64_t".to_owned(),
        "usize" => "size_t".to_owned(),
        "c_char" => "char".to_owned(),
        "c_void" => "void".to_owned(),
        other => {
            if let Some(to) = other.strip_prefix("*const *") {
                format!("{}const*", c_type(&format!("*{to}")))
            } else if let Some(to) = other.strip_prefix("*const ") {
                format!("const {}*", c_type(to))
            } else if let Some(to) = other.strip_prefix("*mut ") {
                format!("{}*", c_type(to))
            } else if let Some(to) = other.strip_prefix("Option<") {
                c_type(to.trim_end_matches('>'))
            } else if let Some(name) = other.strip_prefix("Vt") {
                named(name)
            } else {
                panic!("tell this test what `{other}` is in C")
            }
        }
    }
}

/// `name: type, name: type` as C has it.
fn parameters(rust: &str) -> Vec<String> {
    rust.split(',')
        .filter_map(|parameter| parameter.split_once(':'))
        .map(|(name, rust)| tidy(&format!("{} {}", c_type(rust), name.trim())))
        .collect()
}

/// Result, name and parameters of a function, from after its `fn`.
fn signature(text: &str, end: char) -> (String, String, String) {
    let (name, rest) = text.split_once('(').expect("a function has parameters");
    let (inside, rest) = rest.split_once(')').expect("parameters end");
    let (result, _) = rest.split_once(end).expect("a signature ends");
    let result = match result.trim().strip_prefix("->") {
        Some(rust) => c_type(rust),
        None => "void".to_owned(),
    };
    let parameters = match parameters(inside) {
        none if none.is_empty() => "void".to_owned(),
        some => some.join(","),
    };
    (result, name.trim().to_owned(), parameters)
}

/// What a source exports.
pub(crate) fn read(source: &str) -> Api {
    let mut api = Api::default();
    for part in source.split("#[unsafe(no_mangle)]\n").skip(1) {
        let (_, part) = part
            .split_once("extern \"C\" fn ")
            .expect("exports are functions");
        let (result, name, parameters) = signature(part, '{');
        let prototype = tidy(&format!("{result} {name}({parameters})"));
        api.functions.insert(name, prototype);
    }
    for part in source.split("pub type ").skip(1) {
        let (name, rest) = part.split_once('=').expect("a type has a meaning");
        if let Some((_, function)) = rest.split(';').next().and_then(|r| r.split_once("fn")) {
            let (result, _, parameters) = signature(&format!("{function};"), ';');
            let text = tidy(&format!("{result} ({parameters})"));
            api.callbacks.insert(c_type(name), text);
        }
    }
    for part in source.split("#[repr(C)]\n").skip(1) {
        let (_, rest) = part
            .split_once("pub struct ")
            .expect("a struct is exported");
        let (name, rest) = rest.split_once('{').expect("a struct has members");
        let (members, _) = rest.split_once('}').expect("a struct ends");
        let members = members
            .lines()
            .filter_map(|line| line.trim().strip_prefix("pub "));
        let members: Vec<String> = members.flat_map(parameters).collect();
        // One without members is opaque.
        if !members.is_empty() {
            api.structs.insert(c_type(name), members);
        }
    }
    for part in source.split("pub const VT_").skip(1) {
        let (name, rest) = part.split_once(':').expect("a constant has a type");
        let (_, value) = rest.split_once('=').expect("a constant has a value");
        let value = value.split(';').next().unwrap_or_default().trim();
        let value = value.trim_start_matches("Status(").trim_end_matches(')');
        if let Ok(number) = value.parse() {
            api.numbers.insert(format!("VT_{name}"), number);
        }
    }
    api
}
