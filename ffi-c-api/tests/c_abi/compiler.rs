//! C and C++ compilers, and what they link with.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const CRATE: &str = env!("CARGO_MANIFEST_DIR");
const WARNINGS: [&str; 5] = ["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wshadow"];
/// What a static Rust library needs of the system.
const SYSTEM: [&str; 5] = ["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"];

/// A compiler for one language in one of its standards.
#[derive(Clone)]
pub(crate) struct Compiler {
    command: Vec<String>,
    language: &'static str,
    pub(crate) standard: &'static str,
}

/// Past the test harness, which keeps the output of tests that pass to itself.
fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("a test can write to standard error");
}

/// The command of a compiler, if there is one.
fn command(text: &str) -> Option<Vec<String>> {
    let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
    let (program, arguments) = words.split_first()?;
    let answer = Command::new(program)
        .args(arguments)
        .arg("--version")
        .output();
    answer.is_ok_and(|a| a.status.success()).then_some(words)
}

/// Every compiler that is here, in every standard of its language. What is not here is said.
pub(crate) fn all() -> Vec<Compiler> {
    let chosen = |variable: &str, default: &str| {
        std::env::var(variable).unwrap_or_else(|_| default.to_owned())
    };
    let mut found = Vec::new();
    for (language, standards, commands) in [
        (
            "c",
            ["c99", "c11"],
            [chosen("CC", "cc"), "gcc".to_owned(), "clang".to_owned()],
        ),
        (
            "c++",
            ["c++11", "c++17"],
            [chosen("CXX", "c++"), "g++".to_owned(), "clang++".to_owned()],
        ),
    ] {
        for text in commands {
            match command(&text) {
                Some(command) => found.extend(standards.map(|standard| Compiler {
                    command: command.clone(),
                    language,
                    standard,
                })),
                None => say(&format!(
                    "SKIPPED: the {language} tests with {text}, which is missing"
                )),
            }
        }
    }
    found
}

/// The first compiler of each language: enough to run a program.
pub(crate) fn one_of_each() -> Vec<Compiler> {
    let mut found: Vec<Compiler> = Vec::new();
    for compiler in all() {
        if found
            .iter()
            .all(|other| other.language != compiler.language)
        {
            found.push(compiler);
        }
    }
    found
}

/// The static library of this build. Cargo puts it beside the test; builds with other settings
/// leave older ones there.
fn static_library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    let folder = test.parent().expect("a file is in a folder");
    let entries = std::fs::read_dir(folder).expect("the folder of the test can be read");
    entries
        .map(|entry| entry.expect("the folder of the test can be read").path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("libvtensor_ffi") && name.ends_with(".a")
        })
        .max_by_key(|path| path.metadata().and_then(|m| m.modified()).ok())
        .expect("the crate is a staticlib, so cargo has built one before its tests")
}

/// A file of this test run.
pub(crate) fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a command that has to succeed; answers what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{command:?} failed, {}\n{printed}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr),
    );
    printed
}

impl Compiler {
    fn start(&self, source: &Path) -> Command {
        let mut build = Command::new(&self.command[0]);
        build
            .args(&self.command[1..])
            .args(WARNINGS)
            .arg(format!("-std={}", self.standard))
            .arg("-I")
            .arg(Path::new(CRATE).join("include"))
            .args(["-x", self.language])
            .arg(source);
        build
    }

    /// Compiles, without a warning, and links nothing.
    pub(crate) fn check(&self, source: &Path) {
        run(self.start(source).arg("-fsyntax-only"));
    }

    /// Builds a program with the static library and runs it; answers what it printed.
    pub(crate) fn run(&self, source: &Path, arguments: &[&str]) -> String {
        self.run_on("rtx-linux", source, arguments)
    }

    /// The same where the model of a driver is that machine's.
    pub(crate) fn run_on(&self, machine: &str, source: &Path, arguments: &[&str]) -> String {
        let name = source
            .file_stem()
            .expect("a source has a name")
            .to_string_lossy();
        let program = scratch(&format!("{name}-{}-{}", self.standard, std::process::id()));
        let mut build = self.start(source);
        build
            .args(["-x", "none"])
            .arg(static_library())
            .args(SYSTEM);
        run(build.arg("-o").arg(&program));
        let folder = env!("CARGO_TARGET_TMPDIR");
        let mut command = Command::new(&program);
        let driver = cuda_model::library().expect("the model is built with the tests");
        command
            .args(arguments)
            .current_dir(folder)
            .env("VTENSOR_CUDA_LIBRARY", driver)
            .env("CUDA_MODEL_PROFILE", machine);
        let printed = run(&mut command);
        // Left there if the program failed, to be looked at.
        std::fs::remove_file(&program).expect("it was just run");
        printed
    }
}
