//! Doc comments begin with a noun phrase or a verb, and end with their errors.
//!
//! A comment that begins with What, Whether, Who or How describes a thing by a question about it, and a reader has to
//! find the answer first. "Returns true if…", "The position of…", "Limits on…" say it at once. A paragraph after the
//! section on errors belongs to that section in the rendered page, where readers do not look for what a function does
//! or costs.

use anyhow::bail;

use super::source::{self, SourceFile};
use crate::report::Outcome;

/// First words that do not name or state anything.
const QUESTIONS: [&str; 7] = ["What", "Whether", "Who", "Whose", "Whoever", "Whatever", "How"];

/// Fails if a doc comment begins with a question word, or has a paragraph after its section on errors.
pub(crate) fn check() -> anyhow::Result<Outcome> {
    let files = source::library()?;
    refuse(&found(&files), "doc comments begin with a question word; begin with a noun phrase or a verb")?;
    refuse(&after_errors(&files), "paragraphs are part of a section on errors; put them before it")?;
    Ok(Outcome::Passed(format!("{} files", files.len())))
}

fn refuse(places: &[String], why: &str) -> anyhow::Result<()> {
    if !places.is_empty() {
        bail!("{} {why}:\n  {}", places.len(), places.join("\n  "));
    }
    Ok(())
}

/// The places and texts of such comments. Only the first line of a comment counts.
pub(super) fn found(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let mut inside = false;
        for (number, line) in file.numbered() {
            let text = source::doc_text(line);
            if let Some(text) = text.filter(|text| !inside && asks(text)) {
                found.push(format!("{}:{number}: {text}", file.path));
            }
            inside = text.is_some();
        }
    }
    found
}

/// The places of paragraphs that follow the one of a section on errors.
pub(super) fn after_errors(files: &[SourceFile]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        // The number of paragraphs of the section so far; none outside of one.
        let mut paragraphs: Option<usize> = None;
        let mut blank = true;
        for (number, line) in file.numbered() {
            let Some(text) = source::doc_text(line) else {
                paragraphs = None;
                continue;
            };
            if text.starts_with("# ") {
                (paragraphs, blank) = ((text == "# Errors").then_some(0), true);
                continue;
            }
            let begins = blank && !text.is_empty();
            blank = text.is_empty();
            if let Some(count) = paragraphs.as_mut().filter(|_| begins) {
                *count += 1;
                if *count == 2 {
                    found.push(format!("{}:{number}: {text}", file.path));
                }
            }
        }
    }
    found
}

fn asks(text: &str) -> bool {
    let word = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    QUESTIONS.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_of_a_comment_counts() {
        let file = SourceFile::new(
            "a.rs",
            "/// Whether it is.\n/// How it goes on.\nfn f() {}\n/// The place.\n/// What follows.\n/// However.",
        );
        assert_eq!(found(&[file]), ["a.rs:1: Whether it is."]);
    }

    #[test]
    fn a_section_on_errors_has_one_paragraph() {
        let text = "/// Reads.\n///\n/// # Errors\n///\n/// If it\n/// cannot.\n///\n/// Costs a lot.\nfn f() {}\n/// # Errors\n/// As f.\nfn g() {}";
        assert_eq!(after_errors(&[SourceFile::new("a.rs", text)]), ["a.rs:8: Costs a lot."]);
    }
}
