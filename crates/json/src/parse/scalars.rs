//! The scalars of the parser: literals, numbers and strings. Objects and arrays are in [`super`].
//!
//! Results and error texts follow Go's `encoding/json`, which clients of kube-apiserver see: bytes that are no UTF-8
//! and half a surrogate pair become U+FFFD instead of an error, and messages name the offending character and the
//! context. Integers stay exact (`i64`, then `u64`); a float out of range is an error. Strings without escapes are
//! copied once, in runs, since nearly all are.

use super::{JsonParser, ParseError, ParseOutcome};
use crate::bytes;
use crate::raw::quote_or_backslash;
use crate::{Number, Text};

impl<'a> JsonParser<'a> {
    /// Reads `true`, `false` or `null`. The error names the byte that differs, as Go's does.
    pub(super) fn literal(&mut self, literal: &'static str) -> ParseOutcome<()> {
        for expected in literal.bytes() {
            match self.peek() {
                Some(byte) if byte == expected => self.at += 1,
                Some(byte) => return Err(ParseError::InvalidLiteral { byte, literal, expected }),
                None => return Err(ParseError::UnexpectedEnd),
            }
        }
        Ok(())
    }

    /// Parses a number by the grammar of RFC 8259; errors name the place with the messages of Go's decoder.
    pub(super) fn number(&mut self) -> ParseOutcome<Number> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits("in numeric literal")?,
            _ => return self.unexpected("in numeric literal"),
        }
        let mut integer = true;
        if self.peek() == Some(b'.') {
            integer = false;
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            integer = false;
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        number_from(self.text(start, self.at), integer)
    }

    /// One digit or more.
    fn digits(&mut self, context: &'static str) -> ParseOutcome<()> {
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return self.unexpected(context);
        }
        while self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
        Ok(())
    }

    fn text(&self, start: usize, end: usize) -> &'a str {
        self.bytes.get(start..end).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default()
    }

    /// A string; `at` is on its opening quote.
    ///
    /// Short results lie in the tree itself, so most strings need no allocation.
    pub(super) fn string(&mut self) -> ParseOutcome<Text> {
        self.at += 1;
        let start = self.at;
        let end = self.plain_run()?;
        if self.peek() == Some(b'"') {
            self.at += 1;
            return Ok(self.decoded(start, end));
        }
        let mut out = self.decoded(start, end);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    out.push(self.escape()?);
                }
                _ => return Err(ParseError::UnexpectedEnd),
            }
            let start = self.at;
            let end = self.plain_run()?;
            out.push_str(&self.decoded(start, end));
        }
    }

    /// Advances to the next quote or backslash and returns its position.
    fn plain_run(&mut self) -> ParseOutcome<usize> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = quote_or_backslash(rest);
        let run = rest.get(..length.unwrap_or(rest.len())).unwrap_or_default();
        if bytes::any(run, |byte| byte < 0x20) {
            self.at += run.iter().position(|b| *b < 0x20).unwrap_or_default();
            return self.unexpected("in string literal");
        }
        self.at += run.len();
        length.map(|_| self.at).ok_or(ParseError::UnexpectedEnd)
    }

    /// The text of some bytes. Go takes each byte that is no UTF-8 for the replacement character, and so do we.
    fn decoded(&self, start: usize, end: usize) -> Text {
        if let Some(text) = self.text {
            return text.get(start..end).unwrap_or_default().into();
        }
        let bytes = self.bytes.get(start..end).unwrap_or_default();
        let mut text = Text::default();
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        text
    }

    /// Reads the character after a backslash.
    fn escape(&mut self) -> ParseOutcome<char> {
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                return self.unicode_escape();
            }
            _ => return self.unexpected("in string escape code"),
        };
        self.at += 1;
        Ok(c)
    }

    /// `XXXX`, or a pair `XXXX\uXXXX`; half a pair becomes the replacement character, as in Go.
    fn unicode_escape(&mut self) -> ParseOutcome<char> {
        let high = self.hex4()?;
        if let Some(c) = char::from_u32(high) {
            return Ok(c);
        }
        let resume = self.at;
        if high < 0xdc00 && self.bytes.get(self.at..self.at + 2) == Some(b"\\u") {
            self.at += 2;
            let low = self.hex4()?;
            if (0xdc00..0xe000).contains(&low) {
                let code = 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return Ok(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = resume;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    /// Reads four hexadecimal digits.
    fn hex4(&mut self) -> ParseOutcome<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|b| char::from(b).to_digit(16));
            let Some(digit) = digit else {
                return self.unexpected("in \\u hexadecimal character escape");
            };
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }
}

/// Integers beyond `u64` become doubles, as Go's decoder makes them for an untyped value.
fn number_from(text: &str, integer: bool) -> ParseOutcome<Number> {
    if integer {
        if let Ok(n) = text.parse::<i64>() {
            return Ok(n.into());
        }
        if let Ok(n) = text.parse::<u64>() {
            return Ok(n.into());
        }
    }
    let float = text.parse::<f64>().ok().and_then(Number::from_f64);
    float.ok_or_else(|| ParseError::NumberOutOfRange(text.to_owned()))
}
