//! Tokens of an expression.
//!
//! The token rules are those of CEL's ANTLR grammar: raw, byte and triple-quoted strings, hexadecimal and unsigned
//! numbers, identifiers in backticks, `//` comments. Places are offsets in code points, because errors are. Characters
//! that begin no token are reported and skipped, so that one expression can report several errors, with ANTLR's text.
//! Escapes inside of literals are read by `unescape`.

use crate::issues::Issues;

/// The kinds of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexToken {
    Ident,
    /// An identifier between backticks.
    Escaped,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    /// Punctuation or an operator, by its text. Keywords (`in`, `true`, `false`, `null`) are such tokens, too.
    Sign(&'static str),
    End,
}

/// A token with its place: byte range in the source, and offset in code points.
///
/// Borrows the source; a vector of them is as long as the expression at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lexeme<'s> {
    pub(super) token: LexToken,
    pub(super) text: &'s str,
    pub(super) at: usize,
}

/// Longer ones first, since the first that fits is taken. `%` is added where they are searched.
const SIGNS: [&str; 23] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":",
    "+", "*", "/",
];

/// Splits a source into tokens. Characters that begin no token are reported and passed over.
pub(super) fn tokens<'s>(source: &'s str, issues: &mut Issues) -> Vec<Lexeme<'s>> {
    let mut lexer = Lexer { rest: source, at: 0 };
    let mut found = Vec::new();
    while let Some(lexeme) = lexer.next(issues) {
        found.push(lexeme);
    }
    found.push(Lexeme { token: LexToken::End, text: "<EOF>", at: lexer.at });
    found
}

/// Never looks back, so the source is read once.
struct Lexer<'s> {
    rest: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    /// Moves on by bytes and counts code points, which errors are given in.
    fn take(&mut self, bytes: usize) -> &'s str {
        let (text, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        self.at += text.chars().count();
        text
    }

    /// Returns the next token, or nothing at the end. Text that is not a token is reported and skipped, as ANTLR's lexer
    /// does, so that the parser sees the rest.
    fn next(&mut self, issues: &mut Issues) -> Option<Lexeme<'s>> {
        loop {
            self.pass_space();
            let first = self.rest.chars().next()?;
            let at = self.at;
            if let Some((token, bytes)) = self.scan(first) {
                return Some(Lexeme { token, text: self.take(bytes), at });
            }
            let bytes = broken(self.rest);
            let text = self.take(bytes);
            issues.push(Some(at), format!("Syntax error: token recognition error at: '{text}'"));
        }
    }

    /// Skips white space and comments up to the end of the line.
    fn pass_space(&mut self) {
        loop {
            let space = self.rest.find(|c| !matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}'));
            self.take(space.unwrap_or(self.rest.len()));
            match self.rest.starts_with("//") {
                true => self.take(self.rest.find('\n').unwrap_or(self.rest.len())),
                false => return,
            };
        }
    }

    /// The kind and length of the token that begins here. Strings come first, since their prefixes (`r`, `b`) look like
    /// names.
    ///
    /// In [`SIGNS`], longer signs precede their prefixes.
    fn scan(&self, first: char) -> Option<(LexToken, usize)> {
        if let Some((bytes, is_bytes)) = string(self.rest) {
            return Some((if is_bytes { LexToken::Bytes } else { LexToken::String }, bytes));
        }
        if first.is_ascii_alphabetic() || first == '_' {
            return Some(word(self.rest));
        }
        let second = self.rest.chars().nth(1);
        if first.is_ascii_digit() || (first == '.' && second.is_some_and(|c| c.is_ascii_digit())) {
            return Some(number(self.rest));
        }
        if first == '`' {
            return escaped(self.rest);
        }
        let sign = SIGNS.iter().chain(&["%"]).find(|sign| self.rest.starts_with(**sign))?;
        Some((LexToken::Sign(sign), sign.len()))
    }
}

/// The length of the source to skip when no token begins there: an unfinished string is skipped whole.
fn broken(rest: &str) -> usize {
    match rest.starts_with(['"', '\'']) {
        true => rest.find('\n').unwrap_or(rest.len()),
        false => rest.chars().next().map_or(0, char::len_utf8),
    }
}

/// A name, or one of the words that are literals or operators.
fn word(rest: &str) -> (LexToken, usize) {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
    let keyword =
        ["in", "true", "false", "null"].into_iter().find(|keyword| rest.get(..end) == Some(keyword));
    (keyword.map_or(LexToken::Ident, LexToken::Sign), end)
}

/// A field name in backticks, which may have characters that names cannot.
fn escaped(rest: &str) -> Option<(LexToken, usize)> {
    let inside = rest.get(1..)?;
    let end = inside.find('`')?;
    let text = inside.get(..end)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
    (!text.is_empty() && text.chars().all(allowed)).then_some((LexToken::Escaped, end + 2))
}

/// A number. A dot without a digit after it is not part of it but a selection.
fn number(rest: &str) -> (LexToken, usize) {
    let digits = |from: usize| rest.bytes().skip(from).take_while(u8::is_ascii_digit).count();
    let at = |index: usize| rest.as_bytes().get(index).copied().unwrap_or(0);
    if rest.starts_with("0x") {
        let hex = rest.bytes().skip(2).take_while(u8::is_ascii_hexdigit).count();
        if hex > 0 {
            return unsigned(at(2 + hex), 2 + hex);
        }
    }
    let whole = digits(0);
    let mut end = whole;
    if at(end) == b'.' && at(end + 1).is_ascii_digit() {
        end += 1 + digits(end + 1);
    }
    if matches!(at(end), b'e' | b'E') {
        let sign = usize::from(matches!(at(end + 1), b'+' | b'-'));
        let exponent = digits(end + 1 + sign);
        end += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    if end == whole { unsigned(at(end), end) } else { (LexToken::Double, end) }
}

fn unsigned(next: u8, end: usize) -> (LexToken, usize) {
    if matches!(next, b'u' | b'U') { (LexToken::Uint, end + 1) } else { (LexToken::Int, end) }
}

/// The length of the string literal at the beginning of a text, and whether it is one of bytes.
fn string(rest: &str) -> Option<(usize, bool)> {
    let mut prefix = 0;
    let at = |index: usize| rest.as_bytes().get(index).copied().unwrap_or(0);
    let is_bytes = matches!(at(0), b'b' | b'B');
    prefix += usize::from(is_bytes);
    let raw = matches!(at(prefix), b'r' | b'R');
    prefix += usize::from(raw);
    let quote = at(prefix);
    if !matches!(quote, b'"' | b'\'') {
        return None;
    }
    let triple = at(prefix + 1) == quote && at(prefix + 2) == quote;
    let width = if triple { 3 } else { 1 };
    let mut end = prefix + width;
    // Quotes and line ends are single bytes, so that walking bytes never ends inside a character.
    loop {
        match at(end) {
            b'\\' if !raw => end += 2,
            _ if end >= rest.len() => return None,
            b'\n' | b'\r' if !triple => return None,
            byte if byte == quote && (!triple || (at(end + 1) == quote && at(end + 2) == quote)) => {
                return Some((end + width, is_bytes));
            }
            _ => end += 1,
        }
    }
}
