//! Fenced blocks of a Markdown document.

use crate::parts;

/// One fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The line of its fence, from 1.
    pub(super) line: usize,
    /// The language, without attributes such as `no_run`.
    pub(super) language: String,
    /// The words after the language: `skip REASON`, `needs PROGRAMS`, `flags REASON` or `file NAME`.
    attribute: String,
    pub(super) text: String,
}

impl Block {
    /// The reason not to run it on this machine.
    pub(super) fn reason_to_skip(&self) -> Option<String> {
        if let Some(reason) = self.attribute.strip_prefix("skip ") {
            return Some(reason.to_owned());
        }
        let programs = self.attribute.strip_prefix("needs ")?;
        let missing = programs.split_whitespace().find(|program| !parts::present(program))?;
        Some(format!("{missing} is not installed"))
    }

    /// The file that the block is the content of.
    pub(super) fn file(&self) -> Option<&str> {
        self.attribute.strip_prefix("file ")
    }

    /// Returns true if only the flags of its commands can be checked.
    pub(super) fn is_flags_only(&self) -> bool {
        self.attribute.starts_with("flags ")
    }
}

/// Finds all blocks, also those that are indented in a list.
pub(super) fn find(document: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(Block, usize)> = None;
    for (at, line) in document.lines().enumerate() {
        let rest = line.trim_start();
        let indent = line.len() - rest.len();
        match (open.take(), rest.strip_prefix("```")) {
            (None, Some(info)) => open = Some((begin(at + 1, info), indent)),
            (None, None) => {}
            (Some((block, _)), Some("")) => found.push(block),
            (Some((mut block, depth)), _) => {
                block.text.push_str(line.get(depth.min(indent)..).unwrap_or(line));
                block.text.push('\n');
                open = Some((block, depth));
            }
        }
    }
    found
}

fn begin(line: usize, info: &str) -> Block {
    let (language, rest) = info.trim().split_once(' ').unwrap_or((info.trim(), ""));
    let language = language.split(',').next().unwrap_or_default().to_owned();
    Block { line, language, attribute: rest.trim().to_owned(), text: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_a_language_a_place_and_perhaps_a_reason_to_be_skipped() {
        let text = "a\n```sh\nb\n```\n- c\n  ```rust,no_run\n  d\n  ```\n```sh skip takes an hour\ne\n```\n```sh needs sh cat\nf\n```\n";
        let found = find(text);
        let seen: Vec<_> = found
            .iter()
            .map(|b| (b.line, b.language.as_str(), b.reason_to_skip(), b.text.as_str()))
            .collect();
        let reason = Some("takes an hour".to_owned());
        assert_eq!(
            seen,
            [
                (2, "sh", None, "b\n"),
                (6, "rust", None, "d\n"),
                (9, "sh", reason, "e\n"),
                (12, "sh", None, "f\n")
            ]
        );
    }
}
