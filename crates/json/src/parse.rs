//! Strict parsing into a [`Value`].
//!
//! Stricter than a common parser in two ways: duplicate keys are reported with their paths, and nesting is bounded, so
//! that no input can make a recursive walk over the tree overflow the stack. Syntax errors read as Go's, since they are
//! shown to users.

use std::fmt::Write as _;

use super::{Map, Value};
use crate::go;

mod scalars;

/// The deepest nesting accepted.
///
/// Real objects stay below 100 (schemas within definitions are the deepest). Each level costs a stack frame in every
/// recursive walk, and a worker's stack is 2 MiB.
pub const MAX_DEPTH: usize = 512;

/// The most duplicates reported, as in kube-apiserver; more would only make the response large.
const MAX_DUPLICATES: usize = 100;

/// The most bytes of paths that are written to report duplicates. A path may be as long as the text, and is written for each
/// repetition of a key, also for one that was reported before.
const MAX_DUPLICATE_BYTES: usize = 256 << 10;

/// A tree, and the errors that a lenient reader ignores.
///
/// Duplicates are not an error here: `fieldValidation` decides if they are ignored, warned about or refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// The value; the last of duplicate keys wins.
    pub value: Value,
    /// The paths of duplicate keys in document order, for example `spec.ports[0].name`.
    ///
    /// At most 100, each once, and fewer where paths are long.
    pub duplicates: Vec<String>,
}

/// The reason for refusing bytes: they are not JSON, or exceed a bound.
///
/// All of them are answered with 400 and this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The input stops within a value.
    #[error("unexpected end of JSON input")]
    UnexpectedEnd,
    /// A byte that is not allowed at its position.
    #[error("invalid character {} {context}", go::quote_byte(*.byte))]
    InvalidCharacter {
        /// The byte.
        byte: u8,
        /// The construct that was being read.
        context: &'static str,
    },
    /// A byte that ends a literal too early.
    #[error("invalid character {} in literal {literal} (expecting '{}')", go::quote_byte(*.byte), char::from(*.expected))]
    InvalidLiteral {
        /// The byte.
        byte: u8,
        /// `true`, `false` or `null`.
        literal: &'static str,
        /// The byte that was expected.
        expected: u8,
    },
    /// A number no double can hold.
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    NumberOutOfRange(String),
    /// More than [`MAX_DEPTH`] levels.
    #[error("exceeded max depth")]
    TooDeep,
}

/// Parses one JSON text.
///
/// ```
/// let parsed = listwatch_json::parse(br#"{"data":{"a":"1","a":"2"}}"#)?;
/// assert_eq!(parsed.value["data"]["a"], "2");
/// assert_eq!(parsed.duplicates, ["data.a"]);
/// assert_eq!(listwatch_json::parse(b"{]").unwrap_err().to_string(),
///     "invalid character ']' looking for beginning of object key string");
/// # Ok::<(), listwatch_json::ParseError>(())
/// ```
///
/// Linear in the bytes for objects whose keys come in order, as those of stored objects do; a logarithm more for
/// others. The tree takes a few times the memory of the text.
///
/// # Errors
/// See [`ParseError`].
pub fn parse(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let mut parser = JsonParser::new(bytes);
    let value = parser.document()?;
    Ok(Parsed { value, duplicates: parser.duplicates })
}

/// Parses one JSON text as Go decodes it into a struct: values of a duplicate key that are containers are merged.
///
/// Go decodes the second value over the first, so that a map has the keys of both, and an element of a list the fields of the
/// elements at its place.
///
/// ```
/// let parsed = listwatch_json::parse_merged(br#"{"data":{"a":"1"},"data":{"b":"2"}}"#)?;
/// assert_eq!(parsed.value["data"], listwatch_json::json!({"a": "1", "b": "2"}));
/// # Ok::<(), listwatch_json::ParseError>(())
/// ```
///
/// # Errors
/// See [`ParseError`].
pub fn parse_merged(bytes: &[u8]) -> Result<Parsed, ParseError> {
    let mut parser = JsonParser { merges: true, ..JsonParser::new(bytes) };
    let value = parser.document()?;
    Ok(Parsed { value, duplicates: parser.duplicates })
}

/// The value of a key that was given twice, see [`parse_merged`].
fn merged(first: Value, second: Value) -> Value {
    match (first, second) {
        (Value::Object(mut first), Value::Object(second)) => {
            for (key, value) in second {
                let value = match first.remove(&key) {
                    Some(before) => merged(before, value),
                    None => value,
                };
                first.insert(key, value);
            }
            Value::Object(first)
        }
        (Value::Array(first), Value::Array(second)) => {
            // By value: a copy of an element would be copied whole to change it, for each further duplicate.
            let mut before = first.into_iter();
            let merge = |value: Value| match before.next() {
                Some(before) => merged(before, value),
                None => value,
            };
            Value::Array(second.into_iter().map(merge).collect())
        }
        (_, second) => second,
    }
}

impl Value {
    /// The tree of JSON bytes, such as those of a stored object.
    ///
    /// Duplicates are dropped silently: for bytes that were checked when they were received.
    ///
    /// # Errors
    /// See [`ParseError`].
    pub fn read(bytes: &[u8]) -> Result<Self, ParseError> {
        parse(bytes).map(|parsed| parsed.value)
    }
}

/// Checks that the bytes have the syntax of JSON, in any encoding.
///
/// Builds and drops the tree: it is for small texts, such as a continue token.
///
/// # Errors
/// See [`ParseError`].
pub fn check_syntax(bytes: &[u8]) -> Result<(), ParseError> {
    JsonParser::new(bytes).document().map(drop)
}

/// The path of the parser's position, as a list on the stack: paths are needed only for duplicates, which are rare.
#[derive(Clone, Copy)]
struct ParsePath<'p> {
    parent: Option<&'p ParsePath<'p>>,
    step: ParseStep<'p>,
}

/// A step of the path to a duplicate key.
#[derive(Clone, Copy)]
enum ParseStep<'p> {
    Key(&'p str),
    Index(usize),
}

impl ParsePath<'_> {
    /// Writes the path from the root, as `a.b[0].c`.
    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            ParseStep::Key(key) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(key);
            }
            ParseStep::Index(index) => {
                let _ = write!(out, "[{index}]");
            }
        }
    }
}

/// A position in the bytes, which are read once.
struct JsonParser<'a> {
    bytes: &'a [u8],
    /// The bytes as text, checked once for all strings; `None` if they are no UTF-8.
    text: Option<&'a str>,
    at: usize,
    /// Containers that are open now.
    depth: usize,
    duplicates: Vec<String>,
    /// Bytes of paths that were written to report them.
    duplicate_bytes: usize,
    /// Containers under a duplicate key are merged.
    merges: bool,
}

/// A value, or where the text is no JSON.
type ParseOutcome<T> = Result<T, ParseError>;

impl<'a> JsonParser<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        let text = std::str::from_utf8(bytes).ok();
        Self { bytes, text, at: 0, depth: 0, duplicates: Vec::new(), duplicate_bytes: 0, merges: false }
    }

    /// One value and nothing after it but white space.
    fn document(&mut self) -> ParseOutcome<Value> {
        let value = self.value(None)?;
        match self.peek_token() {
            None => Ok(value),
            Some(byte) => Err(ParseError::InvalidCharacter { byte, context: "after top-level value" }),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next byte that is not white space, not yet taken.
    fn peek_token(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
        self.peek()
    }

    /// The error of Go's scanner at this position.
    fn unexpected<T>(&self, context: &'static str) -> ParseOutcome<T> {
        match self.peek() {
            None => Err(ParseError::UnexpectedEnd),
            Some(byte) => Err(ParseError::InvalidCharacter { byte, context }),
        }
    }

    /// Any value. `path` is for the reports of duplicate keys only.
    fn value(&mut self, path: Option<&ParsePath<'_>>) -> ParseOutcome<Value> {
        match self.peek_token() {
            Some(b'"') => self.string().map(Value::String),
            Some(b'{') => self.nested(|p| p.object(path)),
            Some(b'[') => self.nested(|p| p.array(path)),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.literal("true").map(|()| Value::Bool(true)),
            Some(b'f') => self.literal("false").map(|()| Value::Bool(false)),
            Some(b'n') => self.literal("null").map(|()| Value::Null),
            _ => self.unexpected("looking for beginning of value"),
        }
    }

    /// Depth is not restored after an error, which ends parsing.
    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> ParseOutcome<Value>) -> ParseOutcome<Value> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(ParseError::TooDeep);
        }
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Parses an object. The last of duplicate keys counts, as in Go, and their paths are reported for strict field
    /// validation.
    fn object(&mut self, path: Option<&ParsePath<'_>>) -> ParseOutcome<Value> {
        let mut map = Map::new();
        if self.peek_token() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(map));
        }
        loop {
            if self.peek_token() != Some(b'"') {
                return self.unexpected("looking for beginning of object key string");
            }
            let key = self.string()?;
            if self.peek_token() != Some(b':') {
                return self.unexpected("after object key");
            }
            self.at += 1;
            let here = ParsePath { parent: path, step: ParseStep::Key(&key) };
            let value = self.value(Some(&here))?;
            if let Err((key, value)) = map.append(key, value) {
                let mut value = value;
                if map.contains_key(&key) {
                    self.duplicate(&ParsePath { parent: path, step: ParseStep::Key(&key) });
                    if self.merges
                        && let Some(first) = map.remove(&key)
                    {
                        value = merged(first, value);
                    }
                }
                map.insert(key, value);
            }
            match self.peek_token() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(map));
                }
                _ => return self.unexpected("after object key:value pair"),
            }
        }
    }

    /// Parses an array. An element is required after a comma, as in RFC 8259.
    fn array(&mut self, path: Option<&ParsePath<'_>>) -> ParseOutcome<Value> {
        let mut items = Vec::new();
        if self.peek_token() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items.into()));
        }
        loop {
            let here = ParsePath { parent: path, step: ParseStep::Index(items.len()) };
            items.push(self.value(Some(&here))?);
            match self.peek_token() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items.into()));
                }
                _ => return self.unexpected("after array element"),
            }
        }
    }

    /// Notes a duplicate key, once and up to a bound.
    fn duplicate(&mut self, path: &ParsePath<'_>) {
        if self.duplicates.len() < MAX_DUPLICATES && self.duplicate_bytes < MAX_DUPLICATE_BYTES {
            let mut text = String::new();
            path.write(&mut text);
            self.duplicate_bytes += text.len();
            if !self.duplicates.contains(&text) {
                self.duplicates.push(text);
            }
        }
    }
}

#[cfg(test)]
mod tests;
