//! The source files of the library crates, without their tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::root;

/// A source file, up to its unit tests.
pub(super) struct SourceFile {
    /// Below the root of the workspace.
    pub(super) path: String,
    text: String,
}

impl SourceFile {
    #[cfg(test)]
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// The lines that are not empty.
    pub(super) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines().filter(|line| !line.trim().is_empty())
    }

    /// All lines with their numbers.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The lines of the module documentation.
    pub(super) fn head_lines(&self) -> usize {
        self.text.lines().take_while(|line| line.starts_with("//!")).count()
    }

    /// The crate, by its folder.
    fn package(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }
}

/// The text of a documentation line.
pub(super) fn doc_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
}

/// Reads the sources of all library crates and of the command line.
pub(super) fn library() -> anyhow::Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    for package in fs::read_dir(root().join("crates"))? {
        visit(&package?.path().join("src"), &mut files)?;
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

pub(super) fn by_crate(files: &[SourceFile]) -> BTreeMap<&str, Vec<&SourceFile>> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in files {
        crates.entry(file.package()).or_default().push(file);
    }
    crates
}

/// The text before the unit tests in the file itself.
fn without_tests(text: &str) -> &str {
    const HEAD: &str = "#[cfg(test)]\nmod ";
    let inline = |at: &usize| {
        let module = text.get(at + HEAD.len()..).unwrap_or_default();
        module.lines().next().is_some_and(|line| line.ends_with('{'))
    };
    let tests = text.match_indices(HEAD).map(|(at, _)| at).find(inline);
    text.get(..tests.unwrap_or(text.len())).unwrap_or(text)
}

fn visit(folder: &Path, files: &mut Vec<SourceFile>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if name != "tests" {
                visit(&path, files)?;
            }
        } else if name.ends_with(".rs") && name != "tests.rs" && !name.ends_with("_tests.rs") {
            let text = fs::read_to_string(&path)?;
            let text = without_tests(&text).to_owned();
            let path = path.strip_prefix(root()).unwrap_or(&path).to_string_lossy().into_owned();
            files.push(SourceFile { path, text });
        }
    }
    Ok(())
}
