//! Numbers that have one home: every copy is compared with it.
//!
//! The version and the minimum Rust live in the workspace's manifest.

use crate::Problem;
use crate::tree::File;

/// Every copy that differs from its home.
pub(crate) fn problems(files: &[File]) -> Vec<Problem> {
    let Some(home) = files.iter().find(|file| file.path == "Cargo.toml") else {
        return Vec::new();
    };
    let (Some(version), Some(rust)) = (
        value(&home.text, "version"),
        value(&home.text, "rust-version"),
    ) else {
        let what = "wants version and rust-version in [workspace.package]";
        return vec![Problem::new(home, 1, what)];
    };
    let mut found = Vec::new();
    for file in files {
        match file.path.as_str() {
            "CHANGELOG.md" => found.extend(changelog(file, version)),
            "README.md" | "CONTRIBUTING.md" => found.extend(rust_named(file, rust)),
            "ffi-c-api/include/vtensor/version.h" => found.extend(header(file, version)),
            "Cargo.toml" => {}
            path if path.ends_with("/Cargo.toml") => found.extend(member(file, rust)),
            _ => {}
        }
    }
    found
}

/// The value of a key of `[workspace.package]`.
fn value<'a>(manifest: &'a str, key: &str) -> Option<&'a str> {
    let (_, table) = manifest.split_once("[workspace.package]")?;
    let table = table.split("\n[").next()?;
    let mut pairs = table.lines().filter_map(|line| line.split_once('='));
    let (_, value) = pairs.find(|(found, _)| found.trim() == key)?;
    value.trim().strip_prefix('"')?.strip_suffix('"')
}

fn member(manifest: &File, rust: &str) -> Vec<Problem> {
    // The root of a workspace of its own has nothing to inherit.
    if manifest.text.lines().any(|line| line == "[workspace]") {
        let wanted = format!("rust-version = \"{rust}\"");
        let named = manifest.text.lines().any(|line| line == wanted);
        let problem = || Problem::new(manifest, 1, format!("wants `{wanted}`"));
        return (!named).then(problem).into_iter().collect();
    }
    let inherits = |key: &str| {
        let line = format!("{key}.workspace = true");
        manifest.text.lines().any(|found| found.trim() == line)
    };
    ["version", "edition", "rust-version", "license"]
        .into_iter()
        .filter(|key| !inherits(key))
        .map(|key| Problem::new(manifest, 1, format!("wants `{key}.workspace = true`")))
        .collect()
}

fn changelog(file: &File, version: &str) -> Option<Problem> {
    let known = [format!("## [{version}]"), "## [Unreleased]".to_owned()];
    let named = |line: &str| {
        known
            .iter()
            .any(|heading| line.starts_with(heading.as_str()))
    };
    (!file.text.lines().any(named)).then(|| {
        let what = format!("has neither `{}` nor `{}`", known[0], known[1]);
        Problem::new(file, 1, what)
    })
}

fn rust_named(file: &File, rust: &str) -> Vec<Problem> {
    let mut found = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        for (at, _) in line.match_indices("Rust 1.") {
            let number = &line[at + "Rust ".len()..];
            let end = number.find(|c: char| !c.is_ascii_digit() && c != '.');
            let number = number[..end.unwrap_or(number.len())].trim_end_matches('.');
            if number != rust {
                let what = format!("names Rust {number}, the workspace wants {rust}");
                found.push(Problem::new(file, index + 1, what));
            }
        }
    }
    found
}

fn header(file: &File, version: &str) -> Vec<Problem> {
    let release = version.split(['-', '+']).next().unwrap_or(version);
    let mut found = Vec::new();
    for (name, part) in ["MAJOR", "MINOR", "PATCH"].iter().zip(release.split('.')) {
        let wanted = format!("#define VT_VERSION_{name} {part}");
        if !file.text.lines().any(|line| line == wanted) {
            found.push(Problem::new(file, 1, format!("wants `{wanted}`")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::sample;

    const HOME: &str =
        "[workspace.package]\nversion = \"1.2.3\"\nrust-version = \"1.88\"\n[x]\nversion = \"9\"\n";

    fn count(path: &str, text: &str) -> usize {
        problems(&[sample("Cargo.toml", HOME), sample(path, text)]).len()
    }

    #[test]
    fn a_home_without_numbers_is_seen() {
        let home = sample("Cargo.toml", "[workspace.package]\n[x]\nversion = \"1\"\n");
        assert_eq!(problems(&[home]).len(), 1);
    }

    #[test]
    fn a_member_with_numbers_of_its_own_is_seen() {
        let all = ["version", "edition", "rust-version", "license"]
            .map(|key| format!("{key}.workspace = true\n"));
        assert_eq!(count("lgm/Cargo.toml", &all.concat()), 0);
        for missing in 0..all.len() {
            let mut some = all.clone();
            some[missing] = "version = \"1.2.3\"\n".to_owned();
            assert_eq!(count("lgm/Cargo.toml", &some.concat()), 1, "{missing}");
        }
    }

    #[test]
    fn a_root_of_its_own_wants_the_same_rust() {
        let manifest = |rust: &str| format!("[package]\nrust-version = \"{rust}\"\n[workspace]\n");
        assert_eq!(count("a/orders/Cargo.toml", &manifest("1.88")), 0);
        assert_eq!(count("a/orders/Cargo.toml", &manifest("1.90")), 1);
    }

    #[test]
    fn a_changelog_that_lags_is_seen() {
        assert_eq!(count("CHANGELOG.md", "## [1.2.3] - today\n"), 0);
        assert_eq!(count("CHANGELOG.md", "## [Unreleased]\n"), 0);
        assert_eq!(
            count("CHANGELOG.md", "## [1.2.2]\ntells of ## [1.2.3]\n"),
            1
        );
    }

    #[test]
    fn another_rust_is_seen() {
        assert_eq!(count("README.md", "wants Rust 1.88. No more.\n"), 0);
        assert_eq!(count("README.md", "wants Rust 1.85 or newer\n"), 1);
    }

    #[test]
    fn a_header_that_lags_is_seen() {
        let header = |patch: u8| {
            format!(
                "#define VT_VERSION_MAJOR 1\n#define VT_VERSION_MINOR 2\n\
                 #define VT_VERSION_PATCH {patch}\n"
            )
        };
        assert_eq!(count("ffi-c-api/include/vtensor/version.h", &header(3)), 0);
        assert_eq!(count("ffi-c-api/include/vtensor/version.h", &header(4)), 1);
        assert_eq!(count("ffi-c-api/include/vtensor/version.h", ""), 3);
    }
}
