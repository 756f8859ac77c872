//! Type conversions: `int`, `uint`, `double`, `string`, `bytes`, `bool`, `timestamp`, `duration`, `dyn`, `type`.
//!
//! Parsing and printing follow Go's `strconv`, which is what expressions were written against: `string(1e21)` is
//! `1e+21`, numbers out of range are errors and never saturate, and a double at the very bound of `int` is refused
//! because it cannot be distinguished from one beyond. Conversions of constants are computed when the expression is planned, so
//! a bad constant is an error before the first evaluation.

use super::{Evaluated, Native, no_overload, time};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{Str, Value};

/// Returns the conversions between types. Each accepts its own type, too, so that generated expressions can always
/// convert.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "bool" => to_bool,
        "bytes" => to_bytes,
        "double" => to_double,
        "duration" => to_duration,
        "dyn" => |_, args| args.first().cloned().ok_or_else(EvalError::no_such_overload),
        "int" => to_int,
        "string" => to_string,
        "timestamp" => to_timestamp,
        "type" => |_, args| match args {
            [value] => Ok(Value::Type(value.type_name().into())),
            _ => Err(EvalError::no_such_overload()),
        },
        "uint" => to_uint,
        _ => return None,
    })
}

/// Types only, as in cel-go: the value itself is not shown.
fn impossible(from: &Value<'_>, to: &str) -> EvalError {
    EvalError::new(format!("type conversion error from '{}' to '{to}'", from.type_name()))
}

/// The message of Go's `ParseBool`.
fn to_bool<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bool(flag)] => Ok(Value::Bool(*flag)),
        [from @ Value::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(impossible(from, "bool")),
        },
        _ => Err(no_overload("bool", args)),
    }
}

/// Converts text to its UTF-8 bytes. Metered, because it copies.
fn to_bytes<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bytes(bytes)] => Ok(Value::Bytes(bytes.clone())),
        [Value::String(text)] => {
            meter.work(text.len() as u64)?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        _ => Err(no_overload("bytes", args)),
    }
}

/// Converts a number or a text. Integers beyond 2⁵³ lose digits, as in cel-go.
#[expect(clippy::cast_precision_loss, reason = "the nearest double is wanted")]
fn to_double<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Double(number)] => Ok(Value::Double(*number)),
        [Value::Int(number)] => Ok(Value::Double(*number as f64)),
        [Value::Uint(number)] => Ok(Value::Double(*number as f64)),
        [from @ Value::String(text)] => {
            parse_double(text).map(Value::Double).ok_or_else(|| impossible(from, "double"))
        }
        _ => Err(no_overload("double", args)),
    }
}

/// A number as Go's `ParseFloat` reads it, without hexadecimal ones.
///
/// The special words are accepted in any case and with a sign.
fn parse_double(text: &str) -> Option<f64> {
    let body = text.trim_start_matches(['+', '-']);
    let word = body.to_ascii_lowercase();
    let special = matches!(word.as_str(), "inf" | "infinity" | "nan");
    if !special && !body.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    // Beyond the range is an error, not infinity.
    text.parse::<f64>().ok().filter(|number| special || number.is_finite())
}

/// Converts to `int`. Doubles are truncated, and out of range is an error.
fn to_int<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let overflow = || EvalError::new("integer overflow");
    match args {
        [Value::Int(number)] => Ok(Value::Int(*number)),
        [Value::Uint(number)] => i64::try_from(*number).map(Value::Int).map_err(|_| overflow()),
        [Value::Double(number)] => {
            // The bounds themselves cannot be distinguished from numbers beyond them.
            if number.is_finite()
                && *number > -9_223_372_036_854_775_808.0
                && *number < 9_223_372_036_854_775_808.0
            {
                #[expect(clippy::cast_possible_truncation, reason = "in range; the fraction is dropped")]
                Ok(Value::Int(*number as i64))
            } else {
                Err(overflow())
            }
        }
        [from @ Value::String(text)] => text.parse().map(Value::Int).map_err(|_| impossible(from, "int")),
        [Value::Timestamp(at)] => Ok(Value::Int(at.seconds())),
        [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
        _ => Err(no_overload("int", args)),
    }
}

/// Converts to `uint`. Negative numbers and texts with a sign are errors.
fn to_uint<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let overflow = || EvalError::new("unsigned integer overflow");
    match args {
        [Value::Uint(number)] => Ok(Value::Uint(*number)),
        [Value::Int(number)] => u64::try_from(*number).map(Value::Uint).map_err(|_| overflow()),
        [Value::Double(number)] => {
            if number.is_finite() && *number >= 0.0 && *number < 18_446_744_073_709_551_616.0 {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
                Ok(Value::Uint(*number as u64))
            } else {
                Err(overflow())
            }
        }
        [from @ Value::String(text)] if !text.starts_with('+') => {
            text.parse().map(Value::Uint).map_err(|_| impossible(from, "uint"))
        }
        [from @ Value::String(_)] => Err(impossible(from, "uint")),
        _ => Err(no_overload("uint", args)),
    }
}

/// Linear for bytes, which must be checked for UTF-8; everything else is short.
fn to_string<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let text = match args {
        [Value::String(text)] => return Ok(Value::String(text.clone())),
        [Value::Bytes(bytes)] => {
            meter.work(bytes.len() as u64)?;
            let invalid = |_| EvalError::new("invalid UTF-8 in bytes, cannot convert to string");
            std::str::from_utf8(bytes).map_err(invalid)?.to_owned()
        }
        [value] => text_of(value).ok_or_else(|| no_overload("string", args))?,
        _ => return Err(no_overload("string", args)),
    };
    Ok(Value::String(Str::from(text)))
}

/// A scalar as `string()` writes it.
pub(crate) fn text_of(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::String(text) => text.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => double_text(*number),
        Value::Timestamp(at) => time::format_timestamp(*at),
        Value::Duration(nanos) => time::format_duration(*nanos),
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        Value::Type(name) => name.to_string(),
        _ => return None,
    })
}

/// A double as Go's `%g` writes it.
///
/// Fixed notation between 1e-4 and 1e21, scientific with at least two digits of exponent elsewhere.
pub(crate) fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// Converts a text in Go's notation, such as `1h30m`.
fn to_duration<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Duration(nanos)] => Ok(Value::Duration(*nanos)),
        [from @ Value::String(text)] => {
            let impossible = || impossible(from, "google.protobuf.Duration");
            time::parse_duration(text).map(Value::Duration).ok_or_else(impossible)
        }
        _ => Err(no_overload("duration", args)),
    }
}

/// Seconds since 1970, or RFC 3339. Years outside of 1 to 9999 are errors.
fn to_timestamp<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Timestamp(at)] => Ok(Value::Timestamp(*at)),
        [Value::Int(seconds)] => time::from_seconds(*seconds).map(Value::Timestamp),
        [from @ Value::String(text)] => {
            let impossible = || impossible(from, "google.protobuf.Timestamp");
            time::parse_timestamp(text).map(Value::Timestamp).ok_or_else(impossible)
        }
        _ => Err(no_overload("timestamp", args)),
    }
}
