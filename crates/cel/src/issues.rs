//! [`Issues`]: errors of compilation with line, column and snippet, written as cel-go writes them.
//!
//! Definitions and policies are refused with this text, so its form is kept byte for byte, wide characters in the
//! snippet's marker included. Offsets count code points, columns are shown from one. At most 100 errors are kept; the
//! number of the others is reported.

use std::fmt;

/// At most this many errors of one expression are reported.
const MAX_ERRORS: usize = 100;

/// Lines longer than this many bytes are not shown.
const MAX_SNIPPET: usize = 16384;

/// One error of parsing or checking, such as `undeclared reference to 'x'`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The offset in code points, if the error has a place.
    pub at: Option<usize>,
    /// The message, without the place.
    pub message: String,
}

/// The errors of one expression. Displayed with line, column and a snippet each.
///
/// Owns a copy of the source, since it is displayed long after compilation, with the definition that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issues {
    source: String,
    issues: Vec<Issue>,
    /// The number of errors beyond [`MAX_ERRORS`].
    dropped: usize,
}

impl Issues {
    pub(crate) fn new(source: &str) -> Self {
        Self { source: source.to_owned(), issues: Vec::new(), dropped: 0 }
    }

    /// Costs nothing beyond the limit, so that a hostile expression cannot make a large response.
    pub(crate) fn push(&mut self, at: Option<usize>, message: impl Into<String>) {
        match self.issues.len() < MAX_ERRORS {
            true => self.issues.push(Issue { at, message: message.into() }),
            false => self.dropped += 1,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.issues.is_empty()
    }

    /// The errors in the order in which they were found.
    pub fn iter(&self) -> impl Iterator<Item = &Issue> {
        self.issues.iter()
    }

    /// Line (from 1) and column (from 0) of an offset.
    ///
    /// Linear in the source for each error shown; both are bounded.
    fn location(&self, at: usize) -> (usize, usize) {
        let (mut line, mut column) = (1, 0);
        for c in self.source.chars().take(at) {
            (line, column) = if c == '\n' { (line + 1, 0) } else { (line, column + 1) };
        }
        (line, column)
    }
}

impl fmt::Display for Issues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut placed: Vec<_> =
            self.issues.iter().map(|issue| (issue.at.map(|at| self.location(at)), issue)).collect();
        placed.sort_by_key(|(place, _)| *place);
        for (n, (place, issue)) in placed.into_iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            match place {
                None => write!(f, "ERROR: <input>:-1:0: {}", issue.message)?,
                Some((line, column)) => {
                    write!(f, "ERROR: <input>:{line}:{}: {}", column + 1, issue.message)?;
                    snippet(f, &self.source, line, column)?;
                }
            }
        }
        if self.dropped > 0 {
            write!(f, "\n{} more errors were truncated", self.dropped)?;
        }
        Ok(())
    }
}

/// Writes the line of an error with a marker below it. A wide character gets a wide dot, so that the marker is in the
/// right column.
fn snippet(f: &mut fmt::Formatter<'_>, source: &str, line: usize, column: usize) -> fmt::Result {
    let Some(text) = source.split('\n').nth(line - 1).filter(|text| text.len() <= MAX_SNIPPET) else {
        return Ok(());
    };
    write!(f, "\n | {}\n | ", text.replace('\t', " "))?;
    let mut rest = text.chars();
    for c in rest.by_ref().take(column) {
        f.write_str(if c.len_utf8() > 1 { "\u{ff0e}" } else { "." })?;
    }
    f.write_str(if rest.next().is_some_and(|c| c.len_utf8() > 1) { "\u{ff3e}" } else { "^" })
}

impl std::error::Error for Issues {}
