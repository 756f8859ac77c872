//! Compares ARCHITECTURE.md with the repository: the files it names exist, and its table of dependencies is that of the
//! workspace.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, bail};

use crate::root;

/// The head of the table of dependencies.
const HEAD: &str = "| crate | used for | why this one |";

/// Checks the document. Returns the number of files it names.
pub(super) fn check() -> anyhow::Result<usize> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).context("cannot read ARCHITECTURE.md")?;
    let files = named_files(&text);
    let exists = |file: &String| ["", "crates/"].iter().any(|base| root().join(base).join(file).exists());
    if let Some(missing) = files.iter().find(|file| !exists(file)) {
        bail!("ARCHITECTURE.md names {missing}, which does not exist");
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    let (documented, declared) = (documented(&text), declared(&manifest));
    if let Some(name) = declared.difference(&documented).next() {
        bail!(
            "the workspace depends on {name}, which the table of dependencies in ARCHITECTURE.md does not name"
        );
    }
    if let Some(name) = documented.difference(&declared).next() {
        bail!("ARCHITECTURE.md lists the dependency {name}, which the workspace does not have");
    }
    packages(&manifest)?;
    Ok(files.len())
}

/// Every published crate has a description and a README with its minimum Rust version and its features.
fn packages(workspace: &str) -> anyhow::Result<()> {
    let rust = workspace.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap_or_default();
    let msrv = format!("Minimum supported Rust version: {}.", rust.trim_matches('"'));
    for entry in fs::read_dir(root().join("crates"))? {
        let folder = entry?.path();
        let name = folder.display();
        let manifest = fs::read_to_string(folder.join("Cargo.toml"))?;
        for field in ["description = ", "rust-version.workspace = true"] {
            if !manifest.contains(field) {
                bail!("{name}/Cargo.toml lacks {field}");
            }
        }
        let readme = fs::read_to_string(folder.join("README.md"))
            .with_context(|| format!("{name} has no README.md"))?;
        for text in [msrv.as_str(), "feature"] {
            if !readme.contains(text) {
                bail!("{name}/README.md does not say: {text}");
            }
        }
    }
    Ok(())
}

/// The paths between backquotes: words with a slash that end in one, in a known extension, or in a folder name.
fn named_files(text: &str) -> BTreeSet<String> {
    let quoted = text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2));
    quoted.filter(|word| is_path(word)).map(str::to_owned).collect()
}

fn is_path(word: &str) -> bool {
    let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "/_-.".contains(c));
    plain && word.contains('/') && !word.starts_with('/') && word.chars().any(|c| c.is_ascii_lowercase())
}

/// The crates in the first cells of the table of dependencies; `a, b` is two, `name(-extra)` is two.
fn documented(text: &str) -> BTreeSet<String> {
    let rows = text.lines().skip_while(|line| *line != HEAD).skip(2).take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_matches('|').split('|').next());
    let names = cells.flat_map(|cell| cell.split(',')).map(|name| name.trim().trim_matches('`'));
    names.filter_map(|name| name.split_whitespace().next()).map(str::to_owned).collect()
}

/// The third-party crates in `[workspace.dependencies]`.
fn declared(manifest: &str) -> BTreeSet<String> {
    let lines = manifest.lines().skip_while(|line| *line != "[workspace.dependencies]").skip(1);
    let names = lines.take_while(|line| !line.starts_with('[')).filter_map(|line| line.split_once(" = "));
    names.map(|(name, _)| name.to_owned()).filter(|name| !name.starts_with("listwatch")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_distinguished_from_other_quoted_words() {
        let text = "`server/src/lib.rs`, `cargo xtask`, `/metrics`, `core/v1.Pod {}`\n```\n`x/y`\n```\n`docs/flow.svg`";
        let found: Vec<String> = named_files(text).into_iter().collect();
        assert_eq!(found, ["docs/flow.svg", "server/src/lib.rs"]);
    }

    #[test]
    fn both_lists_of_dependencies_are_read() {
        let text = format!(
            "{HEAD}\n|---|---|---|\n| tokio, tokio-util | runtime | |\n| rusqlite (bundled) | disk | |\n"
        );
        let names: Vec<String> = documented(&text).into_iter().collect();
        assert_eq!(names, ["rusqlite", "tokio", "tokio-util"]);
        let manifest = "[workspace.dependencies]\nlistwatch-wire = { path = \"x\" }\n\ntokio = \"1\"\n\n[profile.dev]\nx = 1\n";
        assert_eq!(declared(manifest).into_iter().collect::<Vec<_>>(), ["tokio"]);
    }
}
