//! [`LazyPattern`]: a regular expression of the tables, compiled at its first use.
//!
//! The patterns are part of the program, so one that does not compile is a defect that the tests find. Patterns of
//! users (custom resources, expressions) have limits on their size and are compiled elsewhere.

use std::sync::OnceLock;

use regex::Regex;

/// A pattern that is compiled when it is first asked. One that cannot be is found by the tests and matches nothing.
///
/// Compiling all patterns of the tables would take longer than the rest of a server's start.
#[derive(Clone, Debug)]
pub(super) struct LazyPattern {
    text: &'static str,
    compiled: OnceLock<Option<Regex>>,
}

impl LazyPattern {
    pub(super) fn new(text: &'static str) -> Self {
        Self { text, compiled: OnceLock::new() }
    }

    /// `None` for a pattern that cannot be compiled, which a test rules out.
    pub(super) fn regex(&self) -> Option<&Regex> {
        self.compiled.get_or_init(|| Regex::new(self.text).ok()).as_ref()
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex().is_some_and(|regex| regex.is_match(text))
    }

    /// The pattern as the table has it.
    #[cfg(test)]
    pub(super) fn text(&self) -> &'static str {
        self.text
    }
}
