//! Links in documents: every relative link, picture and chapter of the book must lead to a file of this repository, and so must
//! every path in backticks that begins with one of its folders.
//!
//! A document that names what is not there is worse than none: the reader stops trusting the rest.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::report::Outcome;
use crate::root;

pub(crate) fn check() -> anyhow::Result<Outcome> {
    let documents = documents()?;
    let mut broken = Vec::new();
    let mut count = 0;
    for document in &documents {
        let text = std::fs::read_to_string(root().join(document))
            .with_context(|| format!("cannot read {}", document.display()))?;
        for target in targets(&text) {
            count += 1;
            if !leads_somewhere(document, &target) {
                broken.push(format!("{}: {target}", document.display()));
            }
        }
        for path in paths(&text) {
            count += 1;
            if !root().join(path).exists() {
                broken.push(format!("{}: `{path}`", document.display()));
            }
        }
    }
    if !broken.is_empty() {
        bail!("links that lead nowhere:\n  {}", broken.join("\n  "));
    }
    Ok(Outcome::Passed(format!("{count} links in {} documents", documents.len())))
}

/// Returns the Markdown files that git knows.
pub(crate) fn documents() -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(root())
        .output()
        .context("cannot start git")?;
    let names = String::from_utf8_lossy(&output.stdout);
    Ok(names.lines().map(PathBuf::from).filter(|path| root().join(path).is_file()).collect())
}

/// Returns the targets of links and pictures, `](target)`, outside of code blocks.
fn targets(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let parts = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        found.extend(parts.map(|(target, _)| target.to_owned()));
    }
    found
}

/// The folders whose paths are checked.
const FOLDERS: [&str; 6] = ["crates/", "docs/", "tests/", "conformance/", "packaging/", "xtask/"];

/// Returns the paths in backticks, outside of code blocks.
fn paths(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if !in_code {
            found.extend(line.split('`').skip(1).step_by(2).filter(|word| is_path(word)));
        }
    }
    found
}

fn is_path(word: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    FOLDERS.iter().any(|folder| word.starts_with(folder)) && word.chars().all(plain)
}

fn leads_somewhere(document: &Path, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    let elsewhere = path.is_empty() || path.contains("://") || path.starts_with("mailto:");
    let folder = document.parent().unwrap_or(Path::new(""));
    elsewhere || root().join(folder).join(path).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_pictures_are_found_outside_of_code() {
        let text = "[a](b.md) and ![p](c.svg#x)\n```\n[no](code.md)\n```\n[d](https://e)";
        assert_eq!(targets(text), ["b.md", "c.svg#x", "https://e"]);
    }

    #[test]
    fn paths_in_backticks_are_found_outside_of_code() {
        let text =
            "see `crates/cli/src` and `cargo run`\n```\n`docs/no.md`\n```\n`docs/a b` `xtask/src/main.rs`";
        assert_eq!(paths(text), ["crates/cli/src", "xtask/src/main.rs"]);
    }

    #[test]
    fn a_link_to_nothing_is_noticed() {
        assert!(leads_somewhere(Path::new("README.md"), "ARCHITECTURE.md#x"));
        assert!(leads_somewhere(Path::new("docs/x.md"), "../README.md"));
        assert!(!leads_somewhere(Path::new("README.md"), "no/such.md"));
    }
}
