//! C programs against the headers: compiled as C and as C++, by every compiler that is here, linked
//! with the static library and run.

use std::path::{Path, PathBuf};

use crate::compiler::{self, CRATE, scratch};
use crate::header;

/// The first C program of the README, as a file.
fn readme_example() -> PathBuf {
    let readme = std::fs::read_to_string(Path::new(CRATE).join("../README.md"))
        .expect("the README is there");
    let (_, rest) = readme
        .split_once("```c\n")
        .expect("the README has a C program");
    let (program, _) = rest.split_once("```").expect("the README's C program ends");
    let path = scratch("readme.c");
    std::fs::write(&path, program).expect("cargo gives tests a folder to write to");
    path
}

#[test]
fn programs_build_without_a_warning_and_run() {
    let tests = [
        "smoke.c",
        "works.c",
        "again.c",
        "misuse.c",
        "disturb.c",
        "damage.c",
        "settings.c",
    ];
    let tests = tests.map(|name| Path::new(CRATE).join("tests/c").join(name));
    for source in tests.into_iter().chain([readme_example()]) {
        compiler::all()
            .iter()
            .for_each(|compiler| compiler.check(&source));
        for compiler in compiler::one_of_each() {
            compiler.run(&source, &[]);
        }
    }
}

#[test]
fn a_step_on_a_gpu_leaves_the_bytes_of_the_host() {
    let source = Path::new(CRATE).join("tests/c/gpu.c");
    compiler::all()
        .iter()
        .for_each(|compiler| compiler.check(&source));
    for compiler in compiler::one_of_each() {
        compiler.run(&source, &[]);
        // One memory for host and device: only a file frees some.
        compiler.run_on("orin", &source, &[env!("CARGO_TARGET_TMPDIR")]);
    }
}

#[test]
fn the_cpp_layer_builds_without_a_warning_and_runs() {
    let source = Path::new(CRATE).join("tests/c/owners.cpp");
    let mut compilers = compiler::all();
    compilers.retain(|compiler| compiler.standard == "c++17");
    compilers
        .iter()
        .for_each(|compiler| compiler.check(&source));
    if let Some(compiler) = compilers.first() {
        compiler.run(&source, &[]);
    }
}

#[test]
fn every_header_stands_alone_for_every_compiler() {
    for header in header::files() {
        let name = header.file_name().unwrap().to_string_lossy();
        let source = scratch(&format!("alone-{name}.c"));
        let path = header
            .strip_prefix(Path::new(CRATE).join("include"))
            .unwrap();
        // Twice: the second time it is nothing.
        let line = format!("#include <{}>\n", path.display());
        std::fs::write(&source, format!("{line}{line}extern int nothing;\n")).unwrap();
        for compiler in compiler::all() {
            compiler.check(&source);
        }
    }
}
