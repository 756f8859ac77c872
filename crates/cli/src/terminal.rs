//! Writing to stdout and stderr without a panic when the reader has gone, and the rule for colours.
//!
//! Data goes to stdout and its errors are returned: a closed pipe ends a command, with success (`main.rs`). Notes go to stderr
//! and their errors are dropped: nobody is there to hear of them.

use std::fmt;
use std::io::{IsTerminal, Write};

/// Writes data to stdout.
///
/// # Errors
///
/// The reader has gone, or the disk behind the output is full. `main.rs` makes a success of the former.
pub(crate) fn print(text: impl fmt::Display) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{text}")?;
    out.flush()
}

/// Writes a line to stderr.
pub(crate) fn note(text: impl fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes a note over the last one, on a terminal only.
pub(crate) fn progress(text: impl fmt::Display) {
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        let _ = write!(err, "\x1b[2K\r{text}").and_then(|()| err.flush());
    }
}

/// Removes the last progress note.
pub(crate) fn end_progress() {
    progress("");
}

/// Returns true if a stream should get colours: it is a terminal, and `NO_COLOR` is not set (<https://no-color.org>).
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
