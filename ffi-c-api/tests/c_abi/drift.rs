//! Holds headers, Rust exports and the committed list of symbols together: names, types, numbers,
//! and the three things that each function says.
//!
//! All are written by hand. The list is the linker's version script, so what is in it is exported,
//! and nothing else.

use std::collections::BTreeSet;
use std::path::Path;

use vtensor_ffi::status::TABLE;
use vtensor_ffi::tensor::KINDS;
use vtensor_ffi::version::{VT_VERSION, VT_VERSION_MAJOR, VT_VERSION_MINOR, VT_VERSION_PATCH};

use crate::api::Api;
use crate::{exports, header};

/// What Rust exports, constants that are in tables or come from the manifest included.
fn exported() -> Api {
    let mut api = Api::default();
    for source in exports::sources() {
        api.extend(exports::read(&source));
    }
    let versions = [
        ("VT_VERSION_MAJOR", VT_VERSION_MAJOR),
        ("VT_VERSION_MINOR", VT_VERSION_MINOR),
        ("VT_VERSION_PATCH", VT_VERSION_PATCH),
    ];
    let kinds = KINDS.iter().map(|&(name, number, _)| (name, number));
    for (name, number) in versions.into_iter().chain(kinds) {
        api.numbers.insert(name.to_owned(), number.into());
    }
    api
}

#[test]
fn headers_and_exports_are_the_same() {
    let (declared, exported) = (header::read(&header::text()), exported());
    let why = "left: the headers, right: src/*.rs";
    assert!(!exported.functions.is_empty() && !exported.structs.is_empty());
    assert_eq!(declared.functions, exported.functions, "{why}");
    assert_eq!(declared.structs, exported.structs, "{why}");
    assert_eq!(declared.callbacks, exported.callbacks, "{why}");
    assert_eq!(declared.numbers, exported.numbers, "{why}");
}

#[test]
fn statuses_are_those_of_the_table_and_the_version_is_one_number() {
    let declared = header::read(&header::text()).numbers;
    for row in TABLE {
        assert_eq!(
            declared.get(row.name),
            Some(&i64::from(row.status.0)),
            "{}",
            row.name
        );
    }
    let statuses = declared.keys().filter(|name| name.starts_with("VT_ERROR_"));
    assert_eq!(statuses.count() + 1, TABLE.len(), "VT_OK and the errors");
    let part = |name: &str| declared[&format!("VT_VERSION_{name}")];
    let number = (part("MAJOR") << 16) | (part("MINOR") << 8) | part("PATCH");
    assert_eq!(number, i64::from(VT_VERSION));
}

#[test]
fn every_function_states_ownership_threads_and_allocation() {
    for declaration in header::declarations(&header::text()) {
        let Some(name) = header::function_name(&declaration.text) else {
            continue;
        };
        for word in ["Ownership:", "Threads:", "Allocation:"] {
            let stated = declaration.comment.contains(word);
            assert!(stated, "the header of {name} does not state {word}");
        }
    }
}

#[test]
fn the_umbrella_has_every_part() {
    let files = header::files();
    let (umbrella, parts): (Vec<_>, Vec<_>) = files.iter().partition(|p| p.ends_with("vtensor.h"));
    let text = std::fs::read_to_string(umbrella[0]).unwrap();
    for part in parts {
        let name = part.file_name().unwrap().to_string_lossy();
        let line = format!("#include \"vtensor/{name}\"");
        assert!(text.lines().any(|found| found == line), "wants {line}");
    }
}

#[test]
fn the_manual_names_every_function() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/vtensor.3");
    let manual = std::fs::read_to_string(path).expect("the manual is there");
    for name in exported().functions.keys() {
        // Variants are described with what they vary.
        let base = name.trim_end_matches("_key").trim_end_matches("_sized");
        let named = manual.split(|c: char| !c.is_alphanumeric() && c != '_');
        assert!(
            named.clone().any(|word| word == base),
            "vtensor.3 lacks {base}"
        );
    }
}

/// The nodes of the version script with the symbols of each.
fn script(text: &str) -> Vec<(String, Vec<String>)> {
    let mut nodes = Vec::new();
    for block in text.split("};") {
        let Some((head, body)) = block.split_once('{') else {
            continue;
        };
        let node = head.rsplit_once("*/").map_or(head, |(_, name)| name).trim();
        let globals = body
            .split("local:")
            .next()
            .unwrap_or_default()
            .replace("global:", "");
        let symbols = globals
            .split(';')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        nodes.push((node.to_owned(), symbols.map(str::to_owned).collect()));
    }
    nodes
}

#[test]
fn the_committed_symbols_are_the_exports() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("abi/symbols.map");
    let nodes = script(&std::fs::read_to_string(path).expect("the version script is there"));
    let listed: Vec<&String> = nodes.iter().flat_map(|(_, symbols)| symbols).collect();
    let once: BTreeSet<&String> = listed.iter().copied().collect();
    assert_eq!(once.len(), listed.len(), "a symbol is listed once");
    assert!(
        listed.is_sorted(),
        "symbols are in order, so that a change is easy to see"
    );
    let exported = exported();
    let exported: BTreeSet<&String> = exported.functions.keys().collect();
    assert_eq!(once, exported, "left: abi/symbols.map, right: src/*.rs");
    assert!(
        nodes.iter().all(|(node, _)| node.starts_with("VTENSOR_")),
        "{nodes:?}"
    );
}

#[test]
fn a_drift_is_seen() {
    let rust = "#[unsafe(no_mangle)]\npub extern \"C\" fn \
                vt_f(a: *const c_char, b: *mut u64, c: *const VtOpDesc) -> Status {";
    let same = "typedef int32_t vt_status;\n/* Ownership: */\n\
                vt_status vt_f(const char *a, uint64_t *b, const vt_op_desc *c);";
    assert_eq!(header::read(same).functions, exports::read(rust).functions);
    for drifted in [
        "int32_t vt_f(const char *a, uint32_t *b, const vt_op_desc *c);",
        "int32_t vt_f(char *a, uint64_t *b, const vt_op_desc *c);",
        "int32_t vt_f(const char *a, uint64_t *b);",
        "uint32_t vt_f(const char *a, uint64_t *b, const vt_op_desc *c);",
        "int32_t vt_g(const char *a, uint64_t *b, const vt_op_desc *c);",
        "int32_t vt_f(const char *a, uint64_t *b, const vt_desc *c);",
    ] {
        assert_ne!(
            header::read(drifted).functions,
            exports::read(rust).functions,
            "{drifted}"
        );
    }
    let rust = "#[repr(C)]\npub struct VtX {\n    pub a: usize,\n    pub f: Option<VtCall>,\n}\n\
                pub type VtCall = unsafe extern \"C\" fn(user: *mut c_void) -> i32;";
    let same = "typedef struct vt_x {\n    size_t a; /* A. */\n    vt_call f;\n} vt_x;\n\
                typedef int32_t (*vt_call)(void *user);";
    assert_eq!(header::read(same).structs, exports::read(rust).structs);
    assert_eq!(header::read(same).callbacks, exports::read(rust).callbacks);
    let swapped = "typedef struct vt_x { vt_call f; size_t a; } vt_x;";
    assert_ne!(header::read(swapped).structs, exports::read(rust).structs);
    let other = "typedef int32_t (*vt_call)(const void *user);";
    assert_ne!(header::read(other).callbacks, exports::read(rust).callbacks);
    let numbers = header::read("enum {\n    /* X. */\n    VT_X = -3\n};\n#define VT_Y 4\n").numbers;
    assert_eq!(numbers.into_values().sum::<i64>(), 1);
}
