//! `string.format`: texts with values put in (`"%s has %d".format([a, b])`).
//!
//! The clauses are cel-go's: `%s %d %f %e %b %x %X %o`, with English thousands separators and superscript exponents in
//! `%f` and `%e`, as its locale-aware formatter prints them. Maps are printed with sorted keys, so that messages are
//! stable. Parsing of the format string is shared with `validators`, which refuses a bad literal at compile time.
//! Precision is bounded to 1,000 digits.

use super::convert::{double_text, text_of};
use super::strings::quote;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{ListValue, MapValue, Value};

/// The most digits after the point. Go has no bound here; it limits the text that one argument can become.
const MAX_PRECISION: usize = 1000;

/// A directive of a format string.
///
/// Precision is part of the two clauses that have one; 6 digits if none is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FormatClause {
    String,
    Decimal,
    Fixed(usize),
    Scientific(usize),
    Binary,
    Hex(bool),
    Octal,
}

/// A piece of a format string.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FormatPiece<'f> {
    Text(&'f str),
    Clause(FormatClause),
}

/// Splits a format string.
///
/// # Errors
/// The problem with the format string.
pub(crate) fn pieces(format: &str) -> Result<Vec<FormatPiece<'_>>, String> {
    let (mut pieces, mut rest) = (Vec::new(), format);
    while let Some(at) = rest.find('%') {
        pieces.push(FormatPiece::Text(rest.get(..at).unwrap_or("")));
        rest = rest.get(at + 1..).unwrap_or("");
        if let Some(after) = rest.strip_prefix('%') {
            pieces.push(FormatPiece::Text("%"));
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let (clause, after) =
            clause(rest).map_err(|why| format!("could not parse formatting clause: {why}"))?;
        pieces.push(FormatPiece::Clause(clause));
        rest = after;
    }
    pieces.push(FormatPiece::Text(rest));
    Ok(pieces)
}

/// Parses one clause after its `%`. The errors are cel-go's.
fn clause(text: &str) -> Result<(FormatClause, &str), String> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(after) => {
            let end = after.find(|c: char| !c.is_ascii_digit());
            let end =
                end.ok_or("error while parsing precision: could not find end of precision specifier")?;
            let digits = after.get(..end).unwrap_or("");
            let number: usize = digits.parse().map_err(|_| {
                format!("error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {digits:?}: invalid syntax")
            })?;
            if number > MAX_PRECISION {
                return Err(format!("precision {number} exceeds maximum allowed precision {MAX_PRECISION}"));
            }
            (Some(number), after.get(end..).unwrap_or(""))
        }
    };
    let mut chars = rest.chars();
    let sign = chars.next().unwrap_or(' ');
    let clause = match sign {
        's' => FormatClause::String,
        'd' => FormatClause::Decimal,
        'f' => FormatClause::Fixed(precision.unwrap_or(6)),
        'e' => FormatClause::Scientific(precision.unwrap_or(6)),
        'b' => FormatClause::Binary,
        'x' => FormatClause::Hex(false),
        'X' => FormatClause::Hex(true),
        'o' => FormatClause::Octal,
        other => return Err(format!("unrecognized formatting clause \"{other}\"")),
    };
    Ok((clause, chars.as_str()))
}

impl FormatClause {
    /// The error of a value of the wrong type.
    pub(crate) fn refusal(self, given: &str) -> String {
        let rule = match self {
            Self::String => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
                 timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hex(_) => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        };
        format!("{rule}, was given {given}")
    }
}

/// Formats a string as cel-go's `format` does.
///
/// Work is announced after each piece, with the bytes that it added: a piece is bounded by its argument and by
/// [`MAX_PRECISION`].
///
/// # Errors
///
/// For a format that does not parse, an argument that is missing, and one of a type that its clause does not take.
pub(super) fn format(format: &str, args: &ListValue<'_>, meter: &mut Meter) -> Result<String, EvalError> {
    let mut out = String::new();
    let mut next = 0;
    for piece in pieces(format).map_err(EvalError::new)? {
        let before = out.len();
        match piece {
            FormatPiece::Text(text) => out.push_str(text),
            FormatPiece::Clause(clause) => {
                let Some(value) = args.get(next)? else {
                    return Err(EvalError::new(format!("index {next} out of range")));
                };
                next += 1;
                write(clause, &value, &mut out, meter)?;
            }
        }
        meter.work((out.len() - before) as u64)?;
    }
    Ok(out)
}

/// Writes one argument. Types that a clause does not take were found by the checker, unless they are `dyn`.
fn write(
    clause: FormatClause,
    value: &Value<'_>,
    out: &mut String,
    meter: &mut Meter,
) -> Result<(), EvalError> {
    let refused =
        || EvalError::new(format!("error during formatting: {}", clause.refusal(value.type_name())));
    let text = match (clause, value) {
        (FormatClause::String, _) => return write_value(value, out, meter, false),
        (FormatClause::Decimal, Value::Int(number)) => number.to_string(),
        (FormatClause::Decimal, Value::Uint(number)) => number.to_string(),
        (FormatClause::Fixed(precision), _) => fixed(double(value).ok_or_else(refused)?, precision),
        (FormatClause::Scientific(precision), _) => scientific(double(value).ok_or_else(refused)?, precision),
        (FormatClause::Binary, Value::Bool(flag)) => u8::from(*flag).to_string(),
        (FormatClause::Binary | FormatClause::Octal | FormatClause::Hex(_), Value::Int(number)) => {
            let sign = if *number < 0 { "-" } else { "" };
            format!("{sign}{}", radix(clause, number.unsigned_abs()))
        }
        (FormatClause::Binary | FormatClause::Octal | FormatClause::Hex(_), Value::Uint(number)) => {
            radix(clause, *number)
        }
        (FormatClause::Hex(upper), Value::String(text)) => hex(text.as_bytes(), upper, meter)?,
        (FormatClause::Hex(upper), Value::Bytes(bytes)) => hex(bytes, upper, meter)?,
        _ => return Err(refused()),
    };
    out.push_str(&text);
    Ok(())
}

/// Writes a number in the base of its clause. A sign, if any, is the caller's.
fn radix(clause: FormatClause, number: u64) -> String {
    match clause {
        FormatClause::Binary => format!("{number:b}"),
        FormatClause::Octal => format!("{number:o}"),
        FormatClause::Hex(true) => format!("{number:X}"),
        _ => format!("{number:x}"),
    }
}

/// Two digits per byte, announced before they are made.
fn hex(bytes: &[u8], upper: bool, meter: &mut Meter) -> Result<String, EvalError> {
    meter.work(bytes.len() as u64 * 2)?;
    let digits = |byte: &u8| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") };
    Ok(bytes.iter().map(digits).collect())
}

/// The double, or the name of a special one.
fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// Symbols instead of words, as the locale of cel-go's formatter has them.
fn special(number: f64) -> Option<&'static str> {
    match number {
        _ if number.is_nan() => Some("NaN"),
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// A number with digits after the point, its thousands set apart by commas.
fn fixed(number: f64, precision: usize) -> String {
    if let Some(word) = special(number) {
        return word.to_owned();
    }
    let text = format!("{number:.precision$}");
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let mut grouped = String::new();
    for (at, c) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(c);
    }
    match fraction {
        Some(fraction) => format!("{sign}{grouped}.{fraction}"),
        None => format!("{sign}{grouped}"),
    }
}

/// A number as a product with a power of ten.
fn scientific(number: f64, precision: usize) -> String {
    const RAISED: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    if let Some(word) = special(number) {
        return word.to_owned();
    }
    let text = format!("{number:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { "⁻" } else { "" };
    let raised = format!("{:02}", exponent.abs());
    let raised: String =
        raised.chars().filter_map(|c| RAISED.get(usize::try_from(c.to_digit(10)?).ok()?).copied()).collect();
    format!("{digits}×10{sign}{raised}")
}

/// A value as `%s` writes it; inside of lists and maps strings are quoted and times are named.
///
/// Recursion follows the nesting of the value, which is bounded by that of the object or of the expression that made
/// it.
fn write_value(
    value: &Value<'_>,
    out: &mut String,
    meter: &mut Meter,
    inside: bool,
) -> Result<(), EvalError> {
    meter.work(1)?;
    match value {
        Value::Null => out.push_str("null"),
        Value::List(list) => write_list(list, out, meter)?,
        Value::Map(map) => write_map(map, out, meter)?,
        Value::Bytes(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            meter.work(text.len() as u64)?;
            if inside { out.push_str(&format!("b{}", quote(&text))) } else { out.push_str(&text) }
        }
        Value::String(text) if inside => {
            meter.work(text.len() as u64)?;
            out.push_str(&quote(text));
        }
        Value::Double(number) if inside => match special(*number) {
            Some(_) => out.push_str(&quote(&double_text(*number))),
            None => out.push_str(&format!("{number:.6}")),
        },
        Value::Timestamp(_) if inside => {
            out.push_str(&format!("timestamp({:?})", text_of(value).unwrap_or_default()))
        }
        Value::Duration(_) if inside => {
            out.push_str(&format!("duration({:?})", text_of(value).unwrap_or_default()))
        }
        Value::Ip(_) | Value::Cidr(_) => return Err(refusal(value)),
        other => out.push_str(&text_of(other).ok_or_else(|| refusal(other))?),
    }
    Ok(())
}

fn write_list(list: &ListValue<'_>, out: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    out.push('[');
    for (at, item) in list.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        write_value(&item?, out, meter, true)?;
    }
    out.push(']');
    Ok(())
}

/// Writes the entries of a map, sorted by their text.
fn write_map(map: &MapValue<'_>, out: &mut String, meter: &mut Meter) -> Result<(), EvalError> {
    let mut entries = Vec::new();
    for key in map.keys() {
        let (mut name, mut text) = (String::new(), String::new());
        write_value(&key, &mut name, meter, true)?;
        write_value(&map.get(&key)?.unwrap_or(Value::Null), &mut text, meter, true)?;
        entries.push((name, text));
    }
    entries.sort();
    let entries: Vec<_> = entries.into_iter().map(|(name, text)| format!("{name}:{text}")).collect();
    out.push('{');
    out.push_str(&entries.join(", "));
    out.push('}');
    Ok(())
}

fn refusal(value: &Value<'_>) -> EvalError {
    EvalError::new(format!("error during formatting: {}", FormatClause::String.refusal(value.type_name())))
}
