//! Walking JSON bytes without a tree.
//!
//! For bytes that were parsed once, on the way in: nothing here validates more than it needs to find its way, and
//! nothing here panics on bytes that are no JSON. Positions are byte offsets into the text.
//!
//! Everything is linear in the bytes that it passes over and allocates nothing, except for keys with escapes. Stored
//! objects begin with kind, version and metadata, so a lookup there reads the first few hundred bytes of any object.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;

/// The bytes of the value at a path of object keys.
///
/// ```
/// use listwatch_json::raw;
///
/// let text = br#"{"metadata":{"name":"a"},"spec":{"replicas":3}}"#;
/// assert_eq!(raw::lookup(text, &["spec", "replicas"]), Some(&b"3"[..]));
/// assert_eq!(raw::lookup(text, &["spec", "paused"]), None);
/// ```
///
/// Costs the bytes before the value and those of the value. Of duplicate keys the first counts; stored bytes have
/// none.
#[must_use]
pub fn lookup<'a>(bytes: &'a [u8], path: &[&str]) -> Option<&'a [u8]> {
    let place = place(bytes, path.iter().copied())?;
    bytes.get(place).map(<[u8]>::trim_ascii)
}

/// The place of the value at a path of object keys, as [`lookup`] finds it.
#[must_use]
pub fn place<'p>(bytes: &[u8], path: impl IntoIterator<Item = &'p str>) -> Option<Range<usize>> {
    let mut start = 0;
    for step in path {
        // Only the fields before the next step of the path are skipped.
        let mut fields = fields(bytes, start)?;
        start = loop {
            let (key, value) = fields.next_key()?;
            if is_key(bytes, key, step) {
                break value;
            }
            fields.pass(skip_value(bytes, value)?);
        };
    }
    Some(start..skip_value(bytes, start)?)
}

/// The fields of the object that begins at `at`, or `None` if none begins there.
#[must_use]
pub fn fields(bytes: &[u8], at: usize) -> Option<Fields<'_>> {
    let at = skip_space(bytes, at);
    (bytes.get(at) == Some(&b'{')).then_some(Fields { bytes, at: at + 1 })
}

/// A key and where its value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawField {
    /// The key without its quotes, escapes untouched.
    pub key: Range<usize>,
    /// The value.
    pub value: Range<usize>,
}

impl RawField {
    /// Returns true if the key is this one. Keys with escapes are compared by meaning.
    #[must_use]
    pub fn is(&self, bytes: &[u8], key: &str) -> bool {
        is_key(bytes, self.key.clone(), key)
    }
}

/// True if the key at a place is this one. Only a key with escapes is decoded.
fn is_key(bytes: &[u8], place: Range<usize>, key: &str) -> bool {
    match bytes.get(place) {
        Some(raw) if raw == key.as_bytes() => true,
        Some(raw) if raw.contains(&b'\\') => unescape(raw).is_some_and(|k| k == key),
        _ => false,
    }
}

/// The fields of one object, in order. Ends at the closing brace, or at the first token that does not begin a field.
///
/// Cloning is a copy of two words, for walks that look ahead.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Fields<'_> {
    /// The position that the walk has reached: after the last field, at the brace that closes the object.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// True once the walk has ended at the brace that closes the object.
    ///
    /// Only meaningful after the iteration returned `None`: it distinguishes the end of an object from bytes that are
    /// no JSON.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.bytes.get(self.at) == Some(&b'}')
    }

    /// The next key and where its value begins. The value must be passed with [`Fields::pass`] before the next call.
    ///
    /// For callers that read the value themselves, so that it is not passed over twice.
    pub fn next_key(&mut self) -> Option<(Range<usize>, usize)> {
        let mut at = skip_space(self.bytes, self.at);
        if self.bytes.get(at) == Some(&b',') {
            at = skip_space(self.bytes, at + 1);
        }
        self.at = at;
        if self.bytes.get(at) != Some(&b'"') {
            return None;
        }
        let end = skip_string(self.bytes, at)?;
        let colon = skip_space(self.bytes, end);
        if self.bytes.get(colon) != Some(&b':') {
            return None;
        }
        Some((at + 1..end - 1, skip_space(self.bytes, colon + 1)))
    }

    /// Continues after the value of the last key, which ended here.
    pub fn pass(&mut self, end: usize) {
        self.at = skip_space(self.bytes, end);
    }
}

impl Iterator for Fields<'_> {
    type Item = RawField;

    fn next(&mut self) -> Option<RawField> {
        let (key, start) = self.next_key()?;
        let end = skip_value(self.bytes, start)?;
        self.pass(end);
        Some(RawField { key, value: start..end })
    }
}

/// The position after white space.
#[must_use]
pub fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(at) {
        at += 1;
    }
    at
}

/// The position after the value that begins at `at`.
///
/// `None` if no value begins there, or it does not end.
#[must_use]
pub fn skip_value(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes.get(at)? {
        b'"' => skip_string(bytes, at),
        b'{' | b'[' => skip_container(bytes, at),
        b'}' | b']' | b',' | b':' => None,
        _ => {
            let rest = bytes.get(at..)?;
            let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
            Some(at + rest.iter().position(ends).unwrap_or(rest.len()))
        }
    }
}

/// Counts brackets without telling the two kinds apart; strings, which may hold brackets, are passed whole.
///
/// Not recursive, so nesting costs no stack.
fn skip_container(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    // An iterator over the rest spares a bounds check per byte; most time of a scan is spent here.
    let mut rest = bytes.get(at..)?.iter();
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => rest = skip_string_tail(rest.as_slice())?.iter(),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(bytes.len() - rest.as_slice().len());
                }
            }
            _ => {}
        }
    }
    None
}

/// The position after the string whose opening quote is at `at`.
fn skip_string(bytes: &[u8], at: usize) -> Option<usize> {
    let tail = skip_string_tail(bytes.get(at + 1..)?)?;
    Some(bytes.len() - tail.len())
}

/// The bytes after the closing quote, given those after the opening one.
fn skip_string_tail(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let (end, tail) = rest.get(quote_or_backslash(rest)?..)?.split_first()?;
        if *end == b'"' {
            return Some(tail);
        }
        rest = tail.get(1..)?;
    }
}

/// The words that are searched one by one before the vector search is worth its start.
const WORDS: usize = 8;

/// The first quote or backslash. Most strings are short, so the first bytes are searched eight at a time in a
/// register.
pub(super) fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for chunk in bytes.as_chunks::<8>().0.iter().take(WORDS) {
        let word = u64::from_le_bytes(*chunk);
        let hits = bytes_equal(word, b'"') | bytes_equal(word, b'\\');
        if hits != 0 {
            return Some(at + hits.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr2(b'"', b'\\', bytes.get(at..)?).map(|found| at + found)
}

/// A word whose lowest set bit is in the first byte that equals `byte`; zero if there is none.
fn bytes_equal(word: u64, byte: u8) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let zero_where_equal = word ^ (ONES * u64::from(byte));
    // Borrows from a zero byte can mark bytes above it as well, never below.
    zero_where_equal.wrapping_sub(ONES) & !zero_where_equal & (ONES << 7)
}

/// The text of a string without escapes, or of a number or boolean as it is written; `None` for anything else.
///
/// For what selectors compare: names and label values have no characters that JSON escapes.
///
/// ```
/// use listwatch_json::raw::scalar;
/// assert_eq!((scalar(b"\"web\""), scalar(b"true"), scalar(b"{}"), scalar(b"null")), (Some("web"), Some("true"), None, None));
/// ```
///
/// A string with escapes yields nothing and so matches no selector, which is right for values that have none.
#[must_use]
pub fn scalar(raw: &[u8]) -> Option<&str> {
    let text = match raw.first()? {
        b'"' => raw.strip_prefix(b"\"")?.strip_suffix(b"\"")?,
        b'{' | b'[' | b'n' => return None,
        _ => raw,
    };
    std::str::from_utf8(text).ok().filter(|text| !text.contains('\\'))
}

/// The text between the quotes of a string, without its escapes; `None` if it is not a valid string.
///
/// Allocates only if there is an escape.
///
/// ```
/// use listwatch_json::raw::unescape;
///
/// assert_eq!(unescape(br"plain").as_deref(), Some("plain"));
/// assert_eq!(unescape(br#"a \"b\""#).as_deref(), Some("a \"b\""));
/// ```
#[must_use]
pub fn unescape(raw: &[u8]) -> Option<Cow<'_, str>> {
    if !raw.contains(&b'\\') {
        return std::str::from_utf8(raw).ok().map(Cow::Borrowed);
    }
    let mut quoted = Vec::with_capacity(raw.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(raw);
    quoted.push(b'"');
    serde_json::from_slice(&quoted).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_and_escapes_are_met_anywhere() {
        let text = b" { \"a\\u0062\" : { \"x\" : [ \"}\\\"\" , 1 ] } , \"c\" : true } ";
        assert_eq!(lookup(text, &["ab", "x"]), Some(&b"[ \"}\\\"\" , 1 ]"[..]));
        assert_eq!(lookup(text, &["c"]), Some(&b"true"[..]));
        assert_eq!(lookup(text, &["c", "d"]), None);
    }

    #[test]
    fn quotes_are_found_wherever_they_are() {
        for length in 0..100 {
            for quote in [b'"', b'\\'] {
                let mut text = vec![b'!'; length];
                text.push(quote);
                text.extend([b'"', b'#', 0, 0x80, 0xff, b'\\', b'x', b'y', b'z']);
                assert_eq!(quote_or_backslash(&text), Some(length));
            }
            assert_eq!(quote_or_backslash(&vec![b'#'; length]), None);
        }
    }

    #[test]
    fn garbage_ends_the_walk() {
        for text in [
            "",
            "{",
            "{\"",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":[",
            "{\"a\":\"\\",
            "[}",
            "{,}",
            "{\"a\":}",
            "{\"a\"]",
        ] {
            assert_eq!(lookup(text.as_bytes(), &["a"]), None, "{text}");
        }
    }
}
