//! Circles: files of one crate that use one another, so that none can be read or changed alone.
//!
//! In: the sources of all crates. Out: one problem for each group of files whose imports form a
//! circle, with a shortest one. A name that a module only passes on counts as a use of the file
//! that has it. A module and those inside it are one whole that has parts: imports between them do
//! not count. Tests are left out.
//!
//! Limits: what is used through a method of an imported type is not seen, nor what a macro names.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::Problem;
use crate::code::{code_only, is_word, without_tests};
use crate::tree::File;

/// How often a name is followed that is passed on: more than any is.
const STEPS_MAX: usize = 16;

/// A source file as a module of its crate.
struct Module<'a> {
    file: &'a File,
    /// The folder of the crate, and where in it the module is.
    place: (&'a str, Vec<&'a str>),
    paths: Vec<Path>,
}

/// A path that a module writes.
struct Path {
    line: usize,
    names: Vec<String>,
    /// The name that it has from here on, if it is imported.
    alias: Option<String>,
    /// Whether it is imported for others.
    passed_on: bool,
}

/// All groups of files that use one another.
pub(crate) fn problems(files: &[File]) -> Vec<Problem> {
    let modules: Vec<Module<'_>> = files.iter().filter_map(Module::new).collect();
    let numbers = modules.iter().enumerate();
    let numbers = numbers.map(|(number, module)| (module.place.clone(), number));
    // Of two roots the library's is the one that modules belong to, which comes first.
    let numbers: BTreeMap<_, _> = numbers.rev().collect();
    let uses: Vec<BTreeMap<usize, usize>> = modules
        .iter()
        .enumerate()
        .map(|(number, module)| {
            let own = module.paths.iter().filter(|path| !path.passed_on);
            let used = own.filter_map(|path| {
                let used = owner(&modules, &numbers, number, &path.names, 0)?;
                let family = within(&modules[number], &modules[used])
                    || within(&modules[used], &modules[number]);
                (!family).then_some((used, path.line))
            });
            used.collect()
        })
        .collect();
    let mut found = Vec::new();
    let mut told = BTreeSet::new();
    for number in 0..modules.len() {
        let Some(circle) = circle(&uses, number).filter(|_| !told.contains(&number)) else {
            continue;
        };
        told.extend((0..modules.len()).filter(|&other| {
            circle.contains(&other)
                || (reaches(&uses, number, other) && reaches(&uses, other, number))
        }));
        let names = circle.iter().map(|&at| modules[at].file.path.as_str());
        let names: Vec<&str> = names.chain([modules[number].file.path.as_str()]).collect();
        let what = format!("a circle of imports: {}", names.join(" uses "));
        let line = uses[number][circle.get(1).unwrap_or(&number)];
        found.push(Problem::new(modules[number].file, line, what));
    }
    found
}

/// Whether a module is another one or inside of it. A root only passes on what it has.
fn within(module: &Module<'_>, other: &Module<'_>) -> bool {
    let (inside, outside) = (&module.place.1, &other.place.1);
    inside == outside || (!outside.is_empty() && inside.starts_with(outside))
}

/// A shortest way from a module back to itself, without the end.
fn circle(uses: &[BTreeMap<usize, usize>], start: usize) -> Option<Vec<usize>> {
    let mut before = BTreeMap::new();
    let mut waiting = VecDeque::from([start]);
    while let Some(at) = waiting.pop_front() {
        for &next in uses[at].keys() {
            if next == start {
                let mut way = vec![at];
                while let Some(&from) = before.get(&way[way.len() - 1]) {
                    way.push(from);
                }
                way.reverse();
                return Some(way);
            }
            if let Entry::Vacant(unseen) = before.entry(next) {
                unseen.insert(at);
                waiting.push_back(next);
            }
        }
    }
    None
}

fn reaches(uses: &[BTreeMap<usize, usize>], from: usize, to: usize) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(at) = waiting.pop() {
        let next = uses[at].keys().copied();
        waiting.extend(next.filter(|next| seen.insert(*next)));
    }
    seen.contains(&to)
}

/// The module that has what a path of module `from` leads to, if it is one of its crate.
fn owner<'a>(
    modules: &[Module<'a>],
    numbers: &BTreeMap<(&'a str, Vec<&'a str>), usize>,
    from: usize,
    path: &[String],
    steps: usize,
) -> Option<usize> {
    let (folder, here) = &modules[from].place;
    let child = |at: &[&str], name: &str| {
        let inside = |place: &&(&'a str, Vec<&'a str>)| {
            place.0 == *folder && place.1.split_last() == Some((&name, at))
        };
        numbers.keys().find(inside).map(|place| place.1.clone())
    };
    let mut at = match path[0].as_str() {
        "crate" => Vec::new(),
        "self" => here.clone(),
        "super" => here[..here.len().checked_sub(1)?].to_vec(),
        name => child(here, name)?,
    };
    for (done, name) in (1..).zip(&path[1..]) {
        if name == "super" {
            at.pop()?;
            continue;
        }
        if let Some(deeper) = child(&at, name) {
            at = deeper;
            continue;
        }
        let number = *numbers.get(&(*folder, at.clone()))?;
        let mut imports = modules[number].paths.iter();
        let import = imports.find(|import| import.alias.as_ref() == Some(name));
        return match import.filter(|_| steps < STEPS_MAX) {
            Some(import) => {
                let rest = path[done + 1..].iter().cloned();
                let whole: Vec<String> = import.names.iter().cloned().chain(rest).collect();
                owner(modules, numbers, number, &whole, steps + 1).or(Some(number))
            }
            None => Some(number),
        };
    }
    numbers.get(&(*folder, at)).copied()
}

impl<'a> Module<'a> {
    /// A file, if it is a source of a crate and no test.
    fn new(file: &'a File) -> Option<Self> {
        let (folder, inside) = file.path.split_once("/src/")?;
        let inside = inside.strip_suffix(".rs")?;
        let mut names: Vec<&str> = inside.split('/').collect();
        if names.contains(&"tests") {
            return None;
        }
        if matches!(names[..], ["lib" | "main"]) || names.last() == Some(&"mod") {
            names.pop();
        }
        Some(Self {
            file,
            place: (folder, names),
            paths: paths(&file.text),
        })
    }
}

/// The paths that a text imports, and others of its own crate.
fn paths(text: &str) -> Vec<Path> {
    let code = without_tests(&code_only(text));
    let mut found = Vec::new();
    let mut line = 1;
    let mut statement = String::new();
    // A statement ends where a block begins, unless it is an import.
    for part in code.split_inclusive([';', '}', '{']) {
        statement.push_str(part);
        if import(&statement).is_some() && !part.ends_with(';') {
            continue;
        }
        let blanks = statement.len() - statement.trim_start().len();
        let begin = line + statement[..blanks].matches('\n').count();
        match import(&statement) {
            Some((passed_on, tree)) => {
                let mut leaves = Vec::new();
                expand(tree.trim_end().trim_end_matches(';'), &[], &mut leaves);
                found.extend(leaves.into_iter().map(|(names, alias)| Path {
                    line: begin,
                    names,
                    alias: Some(alias),
                    passed_on,
                }));
            }
            None => found.extend(inline(&statement, line)),
        }
        line += statement.matches('\n').count();
        statement.clear();
    }
    found
}

/// The tree of an import, and whether it is for others.
fn import(statement: &str) -> Option<(bool, &str)> {
    let text = statement.trim_start();
    let (passed_on, text) = match text.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => (true, rest.split_once(')')?.1.trim_start()),
        Some(rest) => (true, rest.trim_start()),
        None => (false, text),
    };
    Some((passed_on, text.strip_prefix("use ")?))
}

/// All paths of a tree, each with its name from here on.
fn expand(tree: &str, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
    let tree = tree.trim();
    if let Some((first, rest)) = tree.split_once("::")
        && !first.contains('{')
    {
        let names = [before, &[first.trim().to_owned()]].concat();
        return expand(rest, &names, found);
    }
    if let Some(group) = tree.strip_prefix('{') {
        let group = group.trim_end().trim_end_matches('}');
        let mut depth = 0_usize;
        let parts = group.split(|c| {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                _ => {}
            }
            c == ',' && depth == 0
        });
        let parts = parts.filter(|part| !part.trim().is_empty());
        return parts.for_each(|part| expand(part, before, found));
    }
    let (name, alias) = tree.split_once(" as ").unwrap_or((tree, tree));
    let mut names = before.to_vec();
    let alias = match (name.trim(), before.last()) {
        ("self", Some(module)) if alias == name => module.clone(),
        _ => alias.trim().to_owned(),
    };
    // What a glob or a bare `self` names is the module before it.
    if !matches!(name.trim(), "self" | "*") || before.is_empty() {
        names.push(name.trim().to_owned());
    }
    found.push((names, alias));
}

/// The paths of a text that begin at the root of its crate or go up.
fn inline(text: &str, line: usize) -> Vec<Path> {
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let before = &text[..at];
            if before.ends_with(is_word) || before.ends_with("::") {
                continue;
            }
            let path = text[at..].split(|c| !is_word(c) && c != ':').next();
            let names = path.unwrap_or_default().split("::");
            let names = names.filter(|name| !name.is_empty()).map(str::to_owned);
            found.push(Path {
                line: line + before.matches('\n').count(),
                names: names.collect(),
                alias: None,
                passed_on: false,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::sample;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<File> = files.iter().map(|(at, text)| sample(at, text)).collect();
        problems(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn circles_are_seen() {
        for (a, b) in [
            ("use crate::b::B;", "use crate::a::A;"),
            ("use super::b;", "fn f(_: super::a::A) {}"),
            (
                "use crate::{c::C, b::{self, B}};",
                "use super::{a::A as X};",
            ),
            ("fn f() { crate::b::f(); }", "use crate::*;\nuse crate::A;"),
            ("use crate::b::*;", "use crate::up::A;"),
        ] {
            let root = "mod a;\nmod b;\npub use a::A;\npub use a as up;";
            let files = [("x/src/a.rs", a), ("x/src/b.rs", b), ("x/src/lib.rs", root)];
            let what = "x/src/a.rs uses x/src/b.rs uses x/src/a.rs";
            let want = format!("x/src/a.rs:1: a circle of imports: {what}");
            assert_eq!(found(&files), [want], "{a} {b}");
        }
    }

    #[test]
    fn a_circle_is_told_once_and_with_its_line() {
        let files = [
            ("x/src/a.rs", "//! A.\n\nuse std::fmt;\nuse super::m::b;"),
            ("x/src/m/b.rs", "use super::c::C;"),
            ("x/src/m/c.rs", "use super::B;\nuse crate::a;"),
            ("x/src/m/mod.rs", "mod b;\nmod c;\npub use b::B;"),
            ("x/src/d.rs", "use crate::a;"),
        ];
        let what = "x/src/a.rs uses x/src/m/b.rs uses x/src/m/c.rs uses x/src/a.rs";
        let want = format!("x/src/a.rs:4: a circle of imports: {what}");
        assert_eq!(found(&files), [want]);
    }

    #[test]
    fn a_module_and_its_parts_are_one() {
        let parts = [
            ("x/src/lib.rs", "mod a;"),
            ("x/src/a/mod.rs", "mod b;\nuse b::B;\nstruct A;"),
            ("x/src/a/b.rs", "use super::A;"),
        ];
        assert_eq!(found(&parts), Vec::<String>::new());
        // What the root has is used from everywhere: it uses nothing.
        let root = [
            ("x/src/lib.rs", "mod a;\nuse a::B;\nstruct A;"),
            ("x/src/a.rs", "use crate::A;"),
        ];
        assert_eq!(found(&root).len(), 1);
    }

    #[test]
    fn what_flows_one_way_passes() {
        for (a, b) in [
            ("use crate::b::B;", "use crate::c::A;"),
            ("use crate::b::B;", "/// See [`crate::a`].\nfn f() {}"),
            (
                "use crate::b::B;",
                "#[cfg(test)]\nmod tests {\n use crate::a;\n}",
            ),
            ("use crate::b::B;", "use a::A;\nuse std::a;"),
        ] {
            let root = "mod a;\nmod b;\nmod c;\npub use a::A;\npub use b::B;";
            let files = [
                ("x/src/a.rs", a),
                ("x/src/b.rs", b),
                ("x/src/c.rs", ""),
                ("x/src/b/tests.rs", "use crate::a;"),
                ("y/src/b.rs", "use crate::a;"),
                ("x/src/lib.rs", root),
            ];
            assert_eq!(found(&files), Vec::<String>::new(), "{a} {b}");
        }
    }
}
