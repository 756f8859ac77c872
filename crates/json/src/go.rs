//! Go's formatting and parsing of values that appear in error messages.
//!
//! Users search for error texts, and some tools match on them. So they are kube-apiserver's, which are written with
//! Go's `%q`, `strconv` and `%v`. These functions are for messages only; no behaviour depends on them.

use std::fmt::Write as _;

use crate::Value;

/// A string as Go's `%q` prints it.
///
/// ```
/// assert_eq!(listwatch_json::go::quote("a\"\u{7f}é"), r#""a\"\x7fé""#);
/// ```
#[must_use]
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_escaped(&mut out, c, '"');
    }
    out.push('"');
    out
}

/// A byte as Go's JSON scanner names it in a syntax error: quoted, non-ASCII bytes in hexadecimal.
#[must_use]
pub fn quote_byte(byte: u8) -> String {
    let mut out = String::from("'");
    match byte {
        b'"' => out.push('"'),
        0x80.. => push_formatted(&mut out, format_args!("\\x{byte:02x}")),
        _ => push_escaped(&mut out, char::from(byte), '\''),
    }
    out.push('\'');
    out
}

/// Appends a character as `strconv.Quote` writes it.
fn push_escaped(out: &mut String, c: char, quote: char) {
    match c {
        '\\' => out.push_str("\\\\"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{b}' => out.push_str("\\v"),
        '\u{c}' => out.push_str("\\f"),
        c if c == quote => {
            out.push('\\');
            out.push(c);
        }
        c if is_print(c) => out.push(c),
        c if u32::from(c) < 0x80 => push_formatted(out, format_args!("\\x{:02x}", u32::from(c))),
        c if u32::from(c) < 0x1_0000 => push_formatted(out, format_args!("\\u{:04x}", u32::from(c))),
        c => push_formatted(out, format_args!("\\U{:08x}", u32::from(c))),
    }
}

fn push_formatted(out: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = out.write_fmt(args);
}

/// Go's `unicode.IsPrint`: true for letters, marks, numbers, punctuation, symbols and the ASCII space.
///
/// The tables of all Unicode categories are not included; controls, separators, surrogates, private use and the common
/// format characters are recognised.
///
/// Approximate for rare characters, which affects only the escapes in an error message.
#[must_use]
pub fn is_print(c: char) -> bool {
    c == ' '
        || !(c.is_control()
            || c.is_whitespace()
            || matches!(u32::from(c), 0xad | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0xfeff
                | 0xfff0..=0xfffb | 0xe000..=0xf8ff | 0xfffe | 0xffff | 0xe_0000..))
}

/// An integer as `strconv.ParseInt(text, 10, 64)` reads it.
///
/// # Errors
/// The text of Go's error.
pub fn parse_int(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    text.parse().map_err(|_| number_error("ParseInt", text, digits))
}

/// An integer as `strconv.ParseUint(text, 10, 64)` reads it.
///
/// # Errors
/// The text of Go's error.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    // Rust takes a leading plus sign, Go does not.
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| plain).ok_or_else(|| number_error("ParseUint", text, text))
}

fn number_error(function: &str, text: &str, digits: &str) -> String {
    let numeric = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let problem = if numeric { "value out of range" } else { "invalid syntax" };
    format!("strconv.{function}: parsing {}: {problem}", quote(text))
}

/// A value as Go's `%v` prints an unmarshalled interface: `map[a:1 b:[x y]]`, `<nil>`.
///
/// ```
/// let value = listwatch_json::json!({"b": [1, null], "a": "x"});
/// assert_eq!(listwatch_json::go::print(&value), "map[a:x b:[1 <nil>]]");
/// ```
///
/// Recursion follows the value, which the parser has bounded. Costs as much as the value, so callers print scalars
/// where they can.
#[must_use]
pub fn print(value: &Value) -> String {
    let mut out = String::new();
    push_value(&mut out, value);
    out
}

/// Appends a value as `%v` prints it: no quotes, maps sorted by key.
fn push_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => push_formatted(out, format_args!("{b}")),
        Value::Number(n) => push_formatted(out, format_args!("{n}")),
        Value::String(s) => out.push_str(s),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                push_value(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (i, (key, item)) in map.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                push_value(out, item);
            }
            out.push(']');
        }
    }
}

/// The name that Go's JSON decoder has for the type of a value: `object`, `array`, `string`, `number`, `bool`, `null`.
///
/// ```
/// use listwatch_json::{go, json};
///
/// assert_eq!(go::json_type(&json!([1])), "array");
/// assert_eq!(go::json_type(&json!({})), "object");
/// ```
#[must_use]
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fail_with_the_texts_of_strconv() {
        assert_eq!(parse_int("-12"), Ok(-12));
        assert_eq!(parse_int("abc").unwrap_err(), "strconv.ParseInt: parsing \"abc\": invalid syntax");
        assert_eq!(
            parse_int("99999999999999999999").unwrap_err(),
            "strconv.ParseInt: parsing \"99999999999999999999\": value out of range"
        );
        assert_eq!(parse_uint("-5").unwrap_err(), "strconv.ParseUint: parsing \"-5\": invalid syntax");
        assert_eq!(parse_uint("+5").unwrap_err(), "strconv.ParseUint: parsing \"+5\": invalid syntax");
        assert_eq!(parse_uint("").unwrap_err(), "strconv.ParseUint: parsing \"\": invalid syntax");
    }

    #[test]
    fn bytes_are_quoted_as_runes() {
        assert_eq!(quote_byte(b'o'), "'o'");
        assert_eq!(quote_byte(b'\''), "'\\''");
        assert_eq!(quote_byte(b'"'), "'\"'");
        assert_eq!(quote_byte(0x81), "'\\x81'");
    }
}
