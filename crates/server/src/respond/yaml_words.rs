//! Words that YAML 1.1 takes for something else than text: null, booleans, numbers and times. Pure.
//!
//! A text that reads like one of these is quoted by [`super::yaml`], or a client would read `"no"` back as false. The
//! patterns are those of the Go library that kube-apiserver writes YAML with, which knows the words of YAML 1.1 and
//! more number formats than YAML 1.2. Reading is another matter: `pipeline/yaml.rs`.

use std::sync::LazyLock;

use regex::Regex;

/// Null, booleans, special numbers and the merge key, in every spelling that counts.
const WORDS: [&str; 40] = [
    "", "~", "null", "Null", "NULL", "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON",
    "n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", ".nan", ".NaN", ".NAN",
    ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF", "<<",
];

static FLOAT: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$").ok());
static INTEGER: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[-+]?(0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]*|[1-9][0-9]*)$").ok());
/// Numbers of which each part counts sixty of the next.
static SEXAGESIMAL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$").ok());
/// Dates with or without a time. A version such as `2024-01` is text.
static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]+)?(Z|[-+][0-9]{2}:[0-9]{2})| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]+)?)?$").ok()
});

/// Returns true if a word without quotes is read as text.
pub(super) fn is_text(word: &str) -> bool {
    if WORDS.contains(&word) {
        return false;
    }
    if !word.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return true;
    }
    let plain = word.replace('_', "");
    let is =
        |pattern: &LazyLock<Option<Regex>>, word: &str| pattern.as_ref().is_some_and(|p| p.is_match(word));
    !(is(&FLOAT, &plain) || is(&INTEGER, &plain) || is(&SEXAGESIMAL, word) || is(&TIME, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_times_and_booleans_are_no_text() {
        for word in
            ["1", "-1", "0x1f", "0o7", "1.5", "1e3", ".5", "1_000", "12:30:45", "2020-01-01", "on", "~", ""]
        {
            assert!(!is_text(word), "{word}");
        }
        for word in ["a", "1a", "1.2.3", "v1", "10.0.0.1", "100m", "2020-01-01x", "onn", "-", "1Gi", "tru"] {
            assert!(is_text(word), "{word}");
        }
    }
}
