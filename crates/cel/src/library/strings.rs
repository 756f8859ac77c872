//! String functions of CEL's `strings` extension, and `jsonpatch.escapeKey`.
//!
//! Indexes count code points, not bytes, so most functions walk the text; each announces its work to the meter. Errors
//! for indexes out of range are cel-go's. `replace` computes the size of its result before it allocates: an empty
//! pattern and a long replacement would else grow a short text without bound. Formatting is in `formatting`, regular
//! expressions in `regexes`.

use super::{Evaluated, Native, formatting, lists, no_overload};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{Str, Value};

/// Returns the functions on text. Positions and lengths count code points, not bytes.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "contains" => |meter, args| test(meter, args, "contains", |text, part| text.contains(part)),
        "startsWith" => |meter, args| test(meter, args, "startsWith", |text, part| text.starts_with(part)),
        "endsWith" => |meter, args| test(meter, args, "endsWith", |text, part| text.ends_with(part)),
        "charAt" => char_at,
        "indexOf" => index_of,
        "lastIndexOf" => last_index_of,
        "lowerAscii" => |meter, args| map(meter, args, "lowerAscii", str::to_ascii_lowercase),
        "upperAscii" => |meter, args| map(meter, args, "upperAscii", str::to_ascii_uppercase),
        "trim" => |meter, args| map(meter, args, "trim", |text| text.trim_matches(is_space).to_owned()),
        "strings.quote" => |meter, args| map(meter, args, "strings.quote", quote),
        "jsonpatch.escapeKey" => |meter, args| {
            map(meter, args, "jsonpatch.escapeKey", |key| key.replace('~', "~0").replace('/', "~1"))
        },
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "join" => join,
        "format" => |meter, args| match args {
            [Value::String(format), Value::List(list)] => {
                formatting::format(format, list, meter).map(|text| Value::String(Str::from(text)))
            }
            _ => Err(no_overload("format", args)),
        },
        _ => return None,
    })
}

/// White space as Go's `TrimSpace` defines it.
fn is_space(c: char) -> bool {
    c.is_whitespace()
}

/// A sixteenth of the bytes as work: searching is far faster than copying.
fn test<'a>(
    meter: &mut Meter,
    args: &[Value<'a>],
    name: &str,
    test: fn(&str, &str) -> bool,
) -> Evaluated<'a> {
    match args {
        [Value::String(text), Value::String(part)] => {
            meter.work(text.len() as u64 / 16)?;
            Ok(Value::Bool(test(text, part)))
        }
        _ => Err(no_overload(name, args)),
    }
}

/// Returns a text that was made of another. Metered by the length of the first.
fn map<'a>(meter: &mut Meter, args: &[Value<'a>], name: &str, map: fn(&str) -> String) -> Evaluated<'a> {
    match args {
        [Value::String(text)] => {
            meter.work(text.len() as u64)?;
            Ok(Value::String(Str::from(map(text))))
        }
        _ => Err(no_overload(name, args)),
    }
}

fn out_of_range(index: i64) -> EvalError {
    EvalError::new(format!("index out of range: {index}"))
}

/// The byte offset of a character, if the text is that long. The end is a place, too.
///
/// Linear, since code points have no fixed width. Indexes at the end are valid, those beyond are errors.
fn offset(text: &str, index: i64) -> Result<usize, EvalError> {
    let wanted = usize::try_from(index).map_err(|_| out_of_range(index))?;
    let ends = std::iter::once(text.len());
    text.char_indices().map(|(at, _)| at).chain(ends).nth(wanted).ok_or_else(|| out_of_range(index))
}

/// The position after the last character gives an empty text, not an error.
fn char_at<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::String(text), Value::Int(index)] = args else { return Err(no_overload("charAt", args)) };
    meter.work(text.len() as u64 / 16)?;
    let at = offset(text, *index)?;
    let found = text.get(at..).and_then(|rest| rest.chars().next());
    Ok(Value::String(Str::from(found.map(String::from).unwrap_or_default())))
}

/// The number of the character at a byte offset.
fn place(text: &str, at: usize) -> i64 {
    let before = text.get(..at).map_or(0, |before| before.chars().count());
    i64::try_from(before).unwrap_or(i64::MAX)
}

/// Returns the position of the first occurrence from a start on, or -1. Lists have a function of the same name, which
/// is called for them.
fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    if let [Value::List(_), _] = args {
        return lists::index_of(meter, args);
    }
    let (text, part, start) = searched(args, "indexOf", Some(0))?;
    meter.work(text.len() as u64)?;
    let start = start.unwrap_or(0);
    if start < 0 {
        return Err(out_of_range(start));
    }
    let length = text.chars().count() as i64;
    if part.is_empty() {
        return Ok(Value::Int(start.min(length)));
    }
    if start >= length {
        return Ok(Value::Int(-1));
    }
    let from = offset(text, start)?;
    let found = text.get(from..).and_then(|rest| rest.find(part));
    Ok(Value::Int(found.map_or(-1, |at| place(text, from + at))))
}

/// The arguments that `indexOf` and `lastIndexOf` share; they differ in the default of the start.
fn searched<'v>(
    args: &'v [Value<'_>],
    name: &str,
    default: Option<i64>,
) -> Result<(&'v str, &'v str, Option<i64>), EvalError> {
    match args {
        [Value::String(text), Value::String(part)] => Ok((text, part, default)),
        [Value::String(text), Value::String(part), Value::Int(start)] => Ok((text, part, Some(*start))),
        _ => Err(no_overload(name, args)),
    }
}

/// Finds the last occurrence that begins at the given character at the latest. Positions count code points.
fn last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    if let [Value::List(_), _] = args {
        return lists::last_index_of(meter, args);
    }
    let (text, part, start) = searched(args, "lastIndexOf", None)?;
    meter.work(text.len() as u64)?;
    let length = text.chars().count() as i64;
    if let Some(start) = start.filter(|start| *start < 0) {
        return Err(out_of_range(start));
    }
    if part.is_empty() {
        return Ok(Value::Int(start.unwrap_or(length).min(length)));
    }
    if start.is_some_and(|start| start >= length) {
        return Ok(Value::Int(-1));
    }
    // The last match begins at the given character at the latest.
    let end = match start {
        Some(start) => offset(text, start)?.saturating_add(part.len()).min(text.len()),
        None => text.len(),
    };
    let end = (end..=text.len()).find(|end| text.is_char_boundary(*end)).unwrap_or(text.len());
    let found = text.get(..end).and_then(|head| head.rfind(part));
    Ok(Value::Int(found.map_or(-1, |at| place(text, at))))
}

/// A negative number of replacements means all. The size of the result is announced before it is made.
fn replace<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, old, new, most) = match args {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(most)] => {
            (text, old, new, *most)
        }
        _ => return Err(no_overload("replace", args)),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let count = text.matches(&**old).count().min(most);
    let size = text.len().saturating_add(count.saturating_mul(new.len()));
    meter.work(size as u64)?;
    Ok(Value::String(Str::from(text.replacen(&**old, new, most))))
}

/// Announces 32 units per part, the size of a value with its text.
fn split<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, sign, most) = match args {
        [Value::String(text), Value::String(sign)] => (text, sign, -1),
        [Value::String(text), Value::String(sign), Value::Int(most)] => (text, sign, *most),
        _ => return Err(no_overload("split", args)),
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    meter.work(text.len() as u64 + 1)?;
    if most == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let parts: Vec<&str> =
        if sign.is_empty() { characters(text, most) } else { text.splitn(most, &**sign).collect() };
    meter.work(parts.len() as u64 * 32)?;
    Ok(Value::list(parts.into_iter().map(|part| Value::String(Str::from(part.to_owned()))).collect()))
}

/// The characters of a text, at most `most` parts; the last part is the rest.
fn characters(text: &str, most: usize) -> Vec<&str> {
    let (mut parts, mut rest) = (Vec::new(), text);
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == most {
            parts.push(rest);
            break;
        }
        let (first, after) = rest.split_at_checked(c.len_utf8()).unwrap_or((rest, ""));
        parts.push(first);
        rest = after;
    }
    parts
}

/// Positions are code points. An end before the start is its own error, as in cel-go.
fn substring<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let (text, start, end) = match args {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(no_overload("substring", args)),
    };
    meter.work(text.len() as u64)?;
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(EvalError::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = offset(text, start)?;
    let to = end.map_or(Ok(text.len()), |end| offset(text, end))?;
    Ok(Value::String(Str::from(text.get(from..to).unwrap_or("").to_owned())))
}

/// Joins strings. The meter is charged per element, since the result may be large.
fn join<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let (list, sign) = match args {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(sign)] => (list, &**sign),
        _ => return Err(no_overload("join", args)),
    };
    let mut joined = String::new();
    for (at, item) in list.iter().enumerate() {
        let item = item?;
        let Value::String(text) = &item else {
            return Err(EvalError::new(format!(
                "join: invalid input: {}",
                crate::value::compare::shown(&item)
            )));
        };
        meter.work((sign.len() + text.len()) as u64 + 1)?;
        if at > 0 {
            joined.push_str(sign);
        }
        joined.push_str(text);
    }
    Ok(Value::String(Str::from(joined)))
}

/// A string in quotes with its special characters escaped.
///
/// Characters without a short escape stay as they are, also control characters, as in cel-go.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
