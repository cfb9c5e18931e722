//! The header from outside: `tests/c/smoke.c` and the example of the README, compiled as C and as
//! C++, linked with the static library and run. Without a compiler the test is skipped, which it
//! says on the terminal.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const CRATE: &str = env!("CARGO_MANIFEST_DIR");
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];
/// What a static Rust library needs of the system.
const SYSTEM: [&str; 5] = ["-lgcc_s", "-lpthread", "-lm", "-ldl", "-lc"];

/// Past the test harness, which keeps the output of tests that pass to itself.
fn say(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("a test can write to standard error");
}

/// The command of a compiler, if there is one.
fn compiler(variable: &str, default: &str) -> Option<Vec<String>> {
    let command = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let (program, arguments) = words.split_first()?;
    let answer = Command::new(program)
        .args(arguments)
        .arg("--version")
        .output();
    answer.is_ok_and(|a| a.status.success()).then_some(words)
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

fn run(command: &mut Command, what: &str) {
    let output = command
        .output()
        .unwrap_or_else(|e| panic!("{what}: {command:?}: {e}"));
    assert!(
        output.status.success(),
        "{what} failed: {command:?}\n{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
}

fn build_and_run(compiler: &[String], language: &str, standard: &str, source: &Path) {
    let name = source
        .file_stem()
        .expect("a source has a name")
        .to_string_lossy();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{standard}"));
    let mut build = Command::new(&compiler[0]);
    build
        .args(&compiler[1..])
        .args(WARNINGS)
        .arg(format!("-std={standard}"));
    build.arg("-I").arg(Path::new(CRATE).join("include"));
    build.args(["-x", language]).arg(source);
    build
        .args(["-x", "none"])
        .arg(static_library())
        .args(SYSTEM);
    build.arg("-o").arg(&program);
    run(&mut build, "the build of the C test");
    run(&mut Command::new(&program), "the C test");
}

/// The first C program of the README, as a file.
fn readme_example() -> PathBuf {
    let readme = std::fs::read_to_string(Path::new(CRATE).join("../README.md"))
        .expect("the README is there");
    let (_, rest) = readme
        .split_once("```c\n")
        .expect("the README has a C program");
    let (program, _) = rest.split_once("```").expect("the README's C program ends");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme.c");
    std::fs::write(&path, program).expect("cargo gives tests a folder to write to");
    path
}

#[test]
fn c_programs_build_without_a_warning_and_run() {
    let Some(cc) = compiler("CC", "cc") else {
        say("SKIPPED: the C test of ffi-c-api (no C compiler; set CC or install cc)");
        return;
    };
    for source in [Path::new(CRATE).join("tests/c/smoke.c"), readme_example()] {
        build_and_run(&cc, "c", "c99", &source);
        build_and_run(&cc, "c", "c11", &source);
    }
}

#[test]
fn the_header_is_clean_cpp_as_well() {
    let Some(cxx) = compiler("CXX", "c++") else {
        say("SKIPPED: the C++ test of ffi-c-api (no C++ compiler; set CXX or install c++)");
        return;
    };
    let source = Path::new(CRATE).join("tests/c/smoke.c");
    build_and_run(&cxx, "c++", "c++11", &source);
    build_and_run(&cxx, "c++", "c++17", &source);
}
