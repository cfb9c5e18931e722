//! The files of the workspace, as text.

use std::fs;
use std::path::{Path, PathBuf};

/// A text file.
pub(crate) struct File {
    /// From the root of the workspace, with `/` between folders.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

impl File {
    /// Whether the name ends in `.extension`.
    pub(crate) fn is(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|found| found == extension)
    }
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files under `root` that are text, ordered by path. Left out: build folders (cargo marks
/// them), hidden folders other than `.ci`, links, and files that are not UTF-8.
pub(crate) fn files(root: &Path) -> Vec<File> {
    let mut found = Vec::new();
    walk(root, "", &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<File>) {
    let entries = fs::read_dir(folder).expect("the workspace can be read");
    for entry in entries.map(|entry| entry.expect("the workspace can be read")) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().expect("the workspace can be read");
        if kind.is_dir() {
            let hidden = name.starts_with('.') && name != ".ci";
            let build = name == "target" || entry.path().join("CACHEDIR.TAG").exists();
            if !hidden && !build {
                walk(&entry.path(), &format!("{path}/"), found);
            }
        } else if kind.is_file()
            // In a linked work tree it is a file, which holds a path of this machine.
            && name != ".git"
            && let Ok(text) = fs::read_to_string(entry.path())
        {
            found.push(File { path, text });
        }
    }
}

#[cfg(test)]
pub(crate) fn sample(path: &str, text: &str) -> File {
    File {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

#[test]
fn the_walk_sees_text_and_skips_builds() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tidy-walk");
    let _ = fs::remove_dir_all(&root);
    for folder in [".git", ".ci", "target", "built", "a/b"] {
        fs::create_dir_all(root.join(folder)).unwrap();
        fs::write(root.join(folder).join("file"), "text").unwrap();
    }
    fs::write(root.join("built/CACHEDIR.TAG"), "").unwrap();
    fs::write(root.join("binary"), [0xff, 0xfe]).unwrap();
    fs::write(root.join("a/.git"), "gitdir: elsewhere").unwrap();
    let paths: Vec<String> = files(&root).into_iter().map(|file| file.path).collect();
    assert_eq!(paths, [".ci/file", "a/b/file"]);
}
