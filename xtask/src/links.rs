//! Links in documents: every relative link, picture and chapter of the book must lead to a file of this repository, and to a
//! heading of it if the link names one; so must every path in backticks that begins with one of its folders. The book has a
//! chapter for every document of its folder, and its chapters link to nothing outside of it, where mdBook has no page.
//!
//! One dead link makes readers distrust the rest of a document.

use std::path::{Component, Path, PathBuf};
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
            if document.starts_with(BOOK) && leaves_the_book(document, &target) {
                broken.push(format!("{}: {target} is not in the book", document.display()));
            }
        }
        for path in paths(&text) {
            count += 1;
            if !root().join(path).exists() {
                broken.push(format!("{}: `{path}`", document.display()));
            }
        }
    }
    broken.extend(without_chapter(&documents)?);
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

/// The folder of the book.
const BOOK: &str = "docs";

/// Returns the documents of the book's folder that its table of contents does not name.
fn without_chapter(documents: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let contents = Path::new(BOOK).join("SUMMARY.md");
    let text =
        std::fs::read_to_string(root().join(&contents)).context("cannot read the table of contents")?;
    let chapters: Vec<PathBuf> = targets(&text).iter().map(|target| Path::new(BOOK).join(target)).collect();
    let pages = documents.iter().filter(|page| page.starts_with(BOOK) && **page != contents);
    let missing = pages.filter(|page| !chapters.contains(page));
    Ok(missing.map(|page| format!("{}: has no {}", contents.display(), page.display())).collect())
}

fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// Resolves a relative link; the document itself if it names only a heading.
fn resolve(document: &Path, target: &str) -> PathBuf {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() {
        return document.to_owned();
    }
    let mut resolved = PathBuf::new();
    for part in document.parent().unwrap_or(Path::new("")).join(path).components() {
        match part {
            Component::ParentDir => {
                resolved.pop();
            }
            part => resolved.push(part),
        }
    }
    resolved
}

fn leads_somewhere(document: &Path, target: &str) -> bool {
    if is_elsewhere(target) {
        return true;
    }
    let file = root().join(resolve(document, target));
    match target.split_once('#') {
        Some((_, heading)) if file.extension().is_some_and(|extension| extension == "md") => {
            std::fs::read_to_string(file).is_ok_and(|text| anchors(&text).any(|anchor| anchor == heading))
        }
        _ => file.exists(),
    }
}

fn leaves_the_book(document: &Path, target: &str) -> bool {
    !is_elsewhere(target) && !resolve(document, target).starts_with(BOOK)
}

/// Returns the names that headings can be linked by, as GitHub and mdBook make them.
fn anchors(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter(|line| line.starts_with('#')).map(|line| {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
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
            "see `crates/wire/src` and `cargo run`\n```\n`docs/no.md`\n```\n`docs/a b` `xtask/src/main.rs`";
        assert_eq!(paths(text), ["crates/wire/src", "xtask/src/main.rs"]);
    }

    #[test]
    fn the_book_has_all_its_pages_and_leads_to_no_other() {
        let page = |name: &str| PathBuf::from(name);
        assert_eq!(without_chapter(&[page("docs/mechanism.md"), page("README.md")]).unwrap(), [""; 0]);
        assert_eq!(
            without_chapter(&[page("docs/none.md")]).unwrap(),
            ["docs/SUMMARY.md: has no docs/none.md"]
        );
        assert!(leaves_the_book(Path::new("docs/guides/a.md"), "../../SECURITY.md"));
        assert!(!leaves_the_book(Path::new("docs/guides/a.md"), "../security.md#x"));
    }

    #[test]
    fn a_link_to_nothing_is_noticed() {
        assert!(leads_somewhere(Path::new("README.md"), "ARCHITECTURE.md#the-modules-of-the-server"));
        assert!(!leads_somewhere(Path::new("README.md"), "ARCHITECTURE.md#x"));
        assert!(leads_somewhere(Path::new("docs/x.md"), "../README.md"));
        assert!(!leads_somewhere(Path::new("README.md"), "no/such.md"));
    }
}
