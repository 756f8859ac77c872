//! The text of string and bytes literals: escapes resolved, quotes removed.
//!
//! `\x41` and octal escapes are code points in strings and bytes in bytes literals; `\u` is refused in the latter. Line
//! ends of Windows become plain ones, as in cel-go. A malformed escape is an error of the expression and never a guess.

use super::Literal;

/// Reads a literal with its quotes.
///
/// # Errors
/// The message, with cel-go's text.
pub(super) fn literal(text: &str, is_bytes: bool) -> Result<Literal, &'static str> {
    let text = if is_bytes { text.get(1..).unwrap_or("") } else { text };
    let raw = text.starts_with(['r', 'R']);
    let quoted = if raw { text.get(1..).unwrap_or("") } else { text };
    let width = if quoted.starts_with("\"\"\"") || quoted.starts_with("'''") { 3 } else { 1 };
    let inside = quoted
        .len()
        .checked_sub(width)
        .and_then(|end| quoted.get(width..end))
        .ok_or("unable to unescape string")?;
    // Windows line ends are read as plain ones.
    let inside = inside.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = Vec::with_capacity(inside.len());
    if raw {
        out.extend_from_slice(inside.as_bytes());
    } else {
        unescape(&inside, is_bytes, &mut out)?;
    }
    if is_bytes {
        return Ok(Literal::Bytes(out));
    }
    String::from_utf8(out).map(|text| Literal::String(text.into())).map_err(|_| "unable to unescape string")
}

/// Resolves the escapes of a literal. In bytes, `\x` is a byte; in strings, a code point.
///
/// The result may be no valid UTF-8 for bytes; strings are checked by the caller.
fn unescape(text: &str, is_bytes: bool, out: &mut Vec<u8>) -> Result<(), &'static str> {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let sign = chars.next().ok_or("unable to unescape string, found '\\' as last character")?;
        let (digits, radix) = match sign {
            'x' | 'X' => (2, 16),
            'u' if !is_bytes => (4, 16),
            'U' if !is_bytes => (8, 16),
            '0'..='3' => (2, 8),
            'u' | 'U' => return Err("unable to unescape string"),
            _ => {
                out.push(simple(sign).ok_or("unable to unescape string")?);
                continue;
            }
        };
        let mut code = if radix == 8 { u32::from(sign) - u32::from('0') } else { 0 };
        for _ in 0..digits {
            let digit = chars.next().and_then(|c| c.to_digit(radix)).ok_or("unable to unescape string")?;
            code = code * radix + digit;
        }
        match u8::try_from(code) {
            Ok(byte) if is_bytes => out.push(byte),
            _ => {
                let c = char::from_u32(code).ok_or("invalid unicode code point")?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
    }
    Ok(())
}

/// Returns the byte of an escape of one character, such as `\n`.
fn simple(sign: char) -> Option<u8> {
    Some(match sign {
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'n' => b'\n',
        'r' => b'\r',
        't' => b'\t',
        'v' => 11,
        '\\' | '\'' | '"' | '`' | '?' => u8::try_from(sign).ok()?,
        _ => return None,
    })
}
