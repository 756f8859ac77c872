//! Writing to stdout and stderr without a panic when the pipe is closed, and the rule for colours.
//!
//! Data goes to stdout and its errors are returned: a closed pipe ends a command, with success (`main.rs`). Notes go to stderr
//! and their errors are dropped: there is no other place to report them.

use std::borrow::Cow;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Writes data to stdout.
///
/// # Errors
///
/// The pipe is closed, or the disk of the output is full. `main.rs` treats the former as a success.
pub(crate) fn print(text: impl fmt::Display) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "{text}")?;
    out.flush()
}

/// Writes a line to stderr. Control characters in text of a server or an object are escaped.
pub(crate) fn note(text: impl fmt::Display) {
    let text = text.to_string();
    let lines: Vec<_> = text.split('\n').map(visible).collect();
    let _ = writeln!(std::io::stderr(), "{}", lines.join("\n"));
}

/// Text of one line from a server, for a terminal: control characters are shown as `^[` and the like, and characters that reverse
/// the direction of writing are replaced. Otherwise the annotations of an object could move the cursor, rewrite what was printed
/// before, or send keys.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match u8::try_from(c) {
            Ok(code) if code.is_ascii_control() => shown.extend(['^', char::from(code ^ 0x40)]),
            _ if is_unsafe(c) => shown.push(char::REPLACEMENT_CHARACTER),
            _ => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// JSON of one line from a server, for a terminal: the characters that [`visible`] replaces are written as escapes of JSON, so
/// that strings mean the same. Controls outside of strings and bytes that are not text are not JSON, and are made harmless.
pub(crate) fn visible_json(json: &[u8]) -> Cow<'_, [u8]> {
    let text = String::from_utf8_lossy(json);
    if !text.chars().any(is_unsafe) {
        return match text {
            Cow::Borrowed(_) => Cow::Borrowed(json),
            Cow::Owned(replaced) => Cow::Owned(replaced.into_bytes()),
        };
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            // Space between the parts of a document, or in a string, where it is not allowed.
            '\n' | '\r' | '\t' => shown.push(' '),
            c if is_unsafe(c) => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown.into_bytes())
}

/// Returns true for characters that control a terminal or reverse the direction of writing.
fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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

/// Breaks lines between words so that they fit the terminal; a pipe gets them as they are.
pub(crate) fn fitted(text: &str) -> String {
    match ratatui::crossterm::terminal::size() {
        Ok((columns, _)) if std::io::stdout().is_terminal() => wrapped(text, usize::from(columns)),
        _ => text.to_owned(),
    }
}

/// Breaks lines between words. Continuation lines are indented by two more cells than the first.
fn wrapped(text: &str, columns: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let mut used = indent;
        out.push_str(&" ".repeat(indent));
        for (at, word) in line.split_whitespace().enumerate() {
            if at > 0 && used + 1 + cells(word) > columns {
                out.push('\n');
                out.push_str(&" ".repeat(indent + 2));
                used = indent + 2;
            } else if at > 0 {
                out.push(' ');
                used += 1;
            }
            out.push_str(word);
            used += cells(word);
        }
        out.push('\n');
    }
    out
}

/// The cells of a word on the terminal: escape sequences of colours take none.
fn cells(word: &str) -> usize {
    word.split('\x1b')
        .enumerate()
        .map(|(at, part)| match part.split_once('m').filter(|_| at > 0) {
            Some((_, shown)) => shown.chars().count(),
            None => part.chars().count(),
        })
        .sum()
}

/// A count with its noun, as in `1 object` and `2 objects`.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// Shows the time that something takes, on a terminal and after two seconds, until it is dropped.
pub(crate) struct Elapsing {
    ended: Option<mpsc::Sender<()>>,
    shown: Option<JoinHandle<()>>,
}

impl Elapsing {
    /// Shows the elapsed time of an operation that takes more than two seconds, until this is dropped.
    pub(crate) fn begin(what: impl fmt::Display + Send + 'static) -> Self {
        let (ended, is_ended) = mpsc::channel();
        let began = Instant::now();
        let shown = std::thread::spawn(move || {
            while is_ended.recv_timeout(Duration::from_millis(500)) == Err(RecvTimeoutError::Timeout) {
                if began.elapsed() > Duration::from_secs(2) {
                    progress(format_args!("{what}: {} s", began.elapsed().as_secs()));
                }
            }
            end_progress();
        });
        Self { ended: Some(ended), shown: Some(shown) }
    }
}

impl Drop for Elapsing {
    fn drop(&mut self) {
        // The thread ends when its channel closes; it must not write over what comes next.
        self.ended.take();
        if let Some(thread) = self.shown.take() {
            let _ = thread.join();
        }
    }
}

/// Returns true if a stream should get colours: it is a terminal, and `NO_COLOR` is not set (<https://no-color.org>).
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event with escape sequences in its message rewrote the lines above it in the terminal of a user who listed events.
    #[test]
    fn what_comes_from_a_server_cannot_control_the_terminal() {
        assert!(matches!(visible("plain ✓ ü"), Cow::Borrowed(_)));
        assert_eq!(visible("a\x1b]0;x\x07b\nc\x7f\u{9b}31m\u{202e}d"), "a^[]0;x^Gb^Jc^?\u{fffd}31m\u{fffd}d");
    }

    /// Objects in JSON were written as they came, with raw escape sequences of a server that sends them, and with the
    /// control characters above 127 that JSON allows in strings.
    #[test]
    fn json_cannot_control_the_terminal_and_means_the_same() {
        assert!(matches!(visible_json(b"{\"a\":\"\xc3\xbc\"}"), Cow::Borrowed(_)));
        let json = visible_json("{\"a\":\"\u{9b}31m\u{202e}\x7f\x1b\",\n\"b\":1}".as_bytes()).into_owned();
        assert_eq!(String::from_utf8_lossy(&json), r#"{"a":"\u009b31m\u202e\u007f\u001b", "b":1}"#);
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(value["a"], "\u{9b}31m\u{202e}\x7f\x1b");
        assert_eq!(visible_json(b"\x9b1m").as_ref(), "\u{fffd}1m".as_bytes());
    }

    /// The summary of the demo used to be broken within words on a narrow terminal.
    #[test]
    fn lines_are_broken_between_words_and_colours_take_no_room() {
        assert_eq!(wrapped("  ✓ nothing was lost\nend\n", 12), "  ✓ nothing\n    was lost\nend\n");
        assert_eq!(wrapped("  \x1b[32m✓\x1b[0m nothing\n", 11), "  \x1b[32m✓\x1b[0m nothing\n");
        assert_eq!(wrapped("unbreakable word\n", 4), "unbreakable\n  word\n");
    }
}
