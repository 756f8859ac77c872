//! Doc comments begin with a noun phrase or a verb.
//!
//! A comment that begins with What, Whether, Who or How describes a thing by a question about it, and a reader has to find the answer
//! first. "Returns true if…", "The position of…", "Limits on…" say it at once.

use anyhow::bail;

use super::source::{self, SourceFile};
use crate::report::Outcome;

/// First words that do not name or state anything.
const QUESTIONS: [&str; 7] = ["What", "Whether", "Who", "Whose", "Whoever", "Whatever", "How"];

/// Fails if a doc comment begins with a question word.
pub(crate) fn check() -> anyhow::Result<Outcome> {
    let files = source::library()?;
    let found = found(&files);
    if !found.is_empty() {
        bail!(
            "{} doc comments begin with a question word; begin with a noun phrase or a verb:\n  {}",
            found.len(),
            found.join("\n  ")
        );
    }
    Ok(Outcome::Passed(format!("{} files", files.len())))
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
}
