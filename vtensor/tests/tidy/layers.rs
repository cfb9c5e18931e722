//! Who may use whom: crates by their manifests, modules of `lgm` by their paths.

use crate::Problem;
use crate::code::{code_only, is_word, without_tests};
use crate::tree::File;

/// Each crate of the workspace, and which others it may depend on.
const CRATES: &[(&str, &[&str])] = &[
    ("vtensor", &[]),
    ("lgm", &["vtensor"]),
    // A test-only member: it stands for the driver, and knows nothing of what it tests.
    ("cuda-model", &[]),
    // A workspace of its own, for a model checker: it takes files of the runtime, not the crate.
    ("orders", &[]),
    ("jetson-runtime", &["vtensor", "lgm", "cuda-model"]),
    (
        "vtensor-bench",
        &["vtensor", "lgm", "jetson-runtime", "cuda-model"],
    ),
    (
        "ffi-c-api",
        &["vtensor", "lgm", "jetson-runtime", "cuda-model"],
    ),
];

/// The line that data takes through `lgm`. A module uses none that comes after it.
const FLOW: &[&str] = &[
    "trace",
    "recompute",
    "share",
    "graph",
    "demand",
    "select",
    "schedule",
    "layout",
    "emit",
    "verify",
];

/// What the verifier must not use: it would then agree with the planner's mistakes.
const PLANNER: &[&str] = &[
    "recompute",
    "share",
    "graph",
    "demand",
    "select",
    "schedule",
    "layout",
    "emit",
    "cost",
    "policy",
    "planner",
];

/// Everything that is wrong between crates and between modules.
pub(crate) fn problems(files: &[File]) -> Vec<Problem> {
    let mut found = Vec::new();
    for file in files {
        if file.path.ends_with("Cargo.toml") {
            found.extend(crate_layers(file));
        }
        if file.is("rs") && file.path.starts_with("lgm/src/") {
            found.extend(module_layers(file));
        }
    }
    found
}

fn crate_layers(manifest: &File) -> Vec<Problem> {
    let Some(name) = package_name(&manifest.text) else {
        return Vec::new();
    };
    let Some((_, allowed)) = CRATES.iter().find(|(known, _)| *known == name) else {
        let what = format!("crate `{name}` has no row in the tidy test's table CRATES");
        return vec![Problem::new(manifest, 1, what)];
    };
    let ours = |name: &str| CRATES.iter().any(|(known, _)| *known == name);
    dependencies(&manifest.text)
        .into_iter()
        .filter(|(_, used)| ours(used) && !allowed.contains(&used.as_str()))
        .map(|(line, used)| {
            let what = format!("`{name}` may not depend on `{used}`");
            Problem::new(manifest, line, what)
        })
        .collect()
}

fn package_name(manifest: &str) -> Option<String> {
    let (_, package) = manifest.split_once("[package]")?;
    let line = package.lines().find(|line| line.starts_with("name"))?;
    Some(line.split('"').nth(1)?.to_owned())
}

/// The names in all tables of dependencies, with their lines; of a renamed one the real name too.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            let own = !table.starts_with("workspace");
            inside = own && table.ends_with("dependencies");
            // A table of its own: [dependencies.name].
            if let Some((before, name)) = table.rsplit_once('.')
                && own
                && before.ends_with("dependencies")
            {
                found.push((index + 1, name.trim_matches(['"', '\'']).to_owned()));
            }
        } else if inside && !line.starts_with('#') && line.contains('=') {
            let key = line.split(['=', '.']).next().unwrap_or_default();
            found.push((index + 1, key.trim().trim_matches('"').to_owned()));
        }
        if let Some((_, renamed)) = line.split_once("package = \"") {
            let name = renamed.split('"').next().unwrap_or_default();
            found.push((index + 1, name.to_owned()));
        }
    }
    found
}

fn module_layers(file: &File) -> Vec<Problem> {
    let Some(module) = module_of(&file.path) else {
        return Vec::new();
    };
    if file.path.ends_with("/tests.rs") || file.path.contains("/tests/") {
        return Vec::new();
    }
    let place = |name: &str| FLOW.iter().position(|known| *known == name);
    let mut found = Vec::new();
    for (line, used) in crate_paths(file) {
        if place(module).is_some_and(|own| place(&used).is_some_and(|other| other > own)) {
            let what =
                format!("`{module}` uses `{used}`, which comes after it in the line of data");
            found.push(Problem::new(file, line, what));
        }
        // A name that the root re-exports hides which module it comes from.
        let hidden = used.starts_with(char::is_uppercase);
        if module == "verify" && (hidden || PLANNER.contains(&used.as_str())) {
            let what = format!("`verify` uses `{used}`: it shares no code with the planner");
            found.push(Problem::new(file, line, what));
        }
    }
    found
}

/// The module at the root of `lgm` that a source file belongs to.
fn module_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("lgm/src/")?;
    let name = inside.split('/').next()?;
    let name = name.strip_suffix(".rs").unwrap_or(name);
    (name != "lib").then_some(name)
}

/// The names right under the root of the crate that a file uses, with their lines.
fn crate_paths(file: &File) -> Vec<(usize, String)> {
    let code = without_tests(&code_only(&file.text));
    // How many times `super` leads to the root.
    let inside = file.path.trim_end_matches(".rs").trim_end_matches("/mod");
    let depth = inside.matches('/').count() - 1;
    let to_root = "super::".repeat(depth);
    let mut found = Vec::new();
    for prefix in ["crate::", to_root.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let before = &code[..at];
            let longer = before.ends_with(is_word) || before.ends_with("super::");
            let after = &code[at + prefix.len()..];
            if longer || after.starts_with("super::") {
                continue;
            }
            let line = before.matches('\n').count() + 1;
            found.extend(first_names(after).into_iter().map(|name| (line, name)));
        }
    }
    found
}

/// The first names of a path: of `a::b` it is `a`, of `{a::b, c::{d, e}}` they are `a` and `c`.
fn first_names(path: &str) -> Vec<String> {
    let name = |text: &str| {
        text.trim_start()
            .split(|c| !is_word(c))
            .next()
            .map(str::to_owned)
    };
    let Some(group) = path.trim_start().strip_prefix('{') else {
        return name(path).into_iter().collect();
    };
    let (mut depth, mut start, mut found) = (1, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || (depth == 1 && c == ',') {
            found.extend(name(&group[start..at]).filter(|name| !name.is_empty()));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::sample;

    fn found(path: &str, text: &str) -> Vec<usize> {
        problems(&[sample(path, text)])
            .iter()
            .map(|p| p.line)
            .collect()
    }

    #[test]
    fn a_crate_below_may_not_use_one_above() {
        let manifest = |name: &str, rest: &str| format!("[package]\nname = \"{name}\"\n{rest}\n");
        for (name, rest) in [
            ("vtensor", "[dependencies]\nlgm.workspace = true"),
            ("vtensor", "[dev-dependencies]\nlgm = { path = \"../lgm\" }"),
            ("lgm", "[dependencies]\njetson-runtime.workspace = true"),
            (
                "lgm",
                "[target.'cfg(unix)'.build-dependencies]\n\"ffi-c-api\" = \"1\"",
            ),
            (
                "lgm",
                "[dependencies]\nother = { package = \"vtensor-bench\" }",
            ),
            ("jetson-runtime", "# why\n[dependencies.vtensor-bench]"),
        ] {
            assert_eq!(
                found("x/Cargo.toml", &manifest(name, rest)),
                [4],
                "{name}: {rest}"
            );
        }
        let good = "[dependencies]\nvtensor.workspace = true\nserde = \"1\"\n# lgm = \"1\"";
        assert_eq!(found("x/Cargo.toml", &manifest("lgm", good)), []);
        assert_eq!(found("x/Cargo.toml", &manifest("stranger", "")), [1]);
        assert_eq!(
            found("Cargo.toml", "[workspace.dependencies]\nlgm = 1\n"),
            []
        );
    }

    #[test]
    fn a_module_may_not_use_a_later_one() {
        for (path, text) in [
            ("lgm/src/graph.rs", "use crate::select::Choice;"),
            ("lgm/src/graph.rs", "use crate::{skeleton, demand::{A, B}};"),
            ("lgm/src/graph.rs", "use super::layout;"),
            ("lgm/src/demand/mod.rs", "fn f(_: crate::emit::Program) {}"),
            ("lgm/src/demand/edge.rs", "use super::super::select;"),
            (
                "lgm/src/schedule/queue.rs",
                "pub(crate) use crate::layout::*;",
            ),
            ("lgm/src/layout.rs", "use crate::verify;"),
        ] {
            assert_eq!(found(path, text), [1], "{path}: {text}");
        }
        for (path, text) in [
            (
                "lgm/src/select.rs",
                "use crate::{demand::{A, layout}, graph, skeleton};",
            ),
            ("lgm/src/select.rs", "use super::demand;"),
            ("lgm/src/select/sweep.rs", "use super::layout;"),
            ("lgm/src/select.rs", "/// See [`crate::layout`].\nfn f() {}"),
            (
                "lgm/src/select.rs",
                "#[cfg(test)]\nmod tests {\n use crate::verify;\n}",
            ),
            ("lgm/src/select/tests.rs", "use crate::verify;"),
            ("lgm/src/lib.rs", "use crate::verify;"),
            ("lgm/src/cost.rs", "use crate::program;"),
            ("jetson-runtime/src/graph.rs", "use crate::verify;"),
        ] {
            assert_eq!(found(path, text), [], "{path}: {text}");
        }
    }

    #[test]
    fn the_verifier_shares_no_code_with_the_planner() {
        for used in PLANNER {
            let text = format!("//! Docs.\nuse crate::{used}::X;");
            assert_eq!(found("lgm/src/verify/x.rs", &text), [2], "{used}");
            assert_eq!(found("lgm/src/verify.rs", &text), [2], "{used}");
        }
        assert_eq!(found("lgm/src/verify.rs", "use crate::Graph;"), [1]);
        assert_eq!(
            found(
                "lgm/src/verify.rs",
                "use crate::{program::Program, skeleton};"
            ),
            []
        );
    }
}
