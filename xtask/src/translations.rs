//! Translated documents: the figures in them are those of the original.
//!
//! A figure that was measured again is easily changed in one language only. Words cannot be compared; numbers can.

use std::collections::BTreeSet;

use anyhow::{Context, bail};

use crate::report::Outcome;
use crate::root;

/// Originals and their translations.
const PAIRS: [(&str, &str); 3] = [
    ("README.md", "README.zh.md"),
    ("docs/mechanism.md", "docs/zh/mechanism.md"),
    ("docs/resource-version.md", "docs/zh/resource-version.md"),
];

pub(crate) fn check() -> anyhow::Result<Outcome> {
    let mut wrong = Vec::new();
    for (original, translation) in PAIRS {
        let read =
            |name| std::fs::read_to_string(root().join(name)).with_context(|| format!("cannot read {name}"));
        let (ours, theirs) = (read(original)?, read(translation)?);
        let (ours, theirs) = (figures(&ours), figures(&theirs));
        wrong.extend(
            ours.difference(&theirs).map(|figure| format!("{translation} lacks {figure} of {original}")),
        );
        wrong.extend(
            theirs.difference(&ours).map(|figure| format!("{translation} has {figure}, {original} has not")),
        );
    }
    if !wrong.is_empty() {
        bail!("figures that differ:\n  {}", wrong.join("\n  "));
    }
    Ok(Outcome::Passed(format!("{} documents", PAIRS.len())))
}

/// Returns the numbers of a text: digits, with points and commas between them.
fn figures(text: &str) -> BTreeSet<&str> {
    let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    let trimmed = parts.map(|part| part.trim_matches(['.', ',']));
    trimmed.filter(|part| part.starts_with(|c: char| c.is_ascii_digit())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_in_any_language() {
        let english = figures("A create costs 68 to 92 µs instead of 1,540, a start 3.4 s.");
        assert_eq!(english, BTreeSet::from(["68", "92", "1,540", "3.4"]));
        assert_eq!(figures("创建 68 至 92 µs（对方 1,540），启动 3.4 s。"), english);
    }
}
