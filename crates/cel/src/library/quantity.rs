//! The `quantity` library: amounts such as `100Mi` and `1.5`.
//!
//! Values are kept in billionths, the finest unit that Kubernetes keeps, and rounded up like there; beyond the range
//! they are capped. `isInteger` and `asInteger` follow the fast path of apimachinery's parser, so `1000m` is not an integer
//! although it equals one. Validation of quantities in built-in kinds is separate code in `listwatch-kinds`.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::{Evaluated, Native, no_overload};
use crate::error::EvalError;
use crate::value::Value;

const NANOS: i128 = 1_000_000_000;
/// The largest quantity.
const MAX: i128 = i64::MAX as i128 * NANOS;

/// A quantity for calculations in expressions, in billionths. `listwatch-kinds` has its own, which also keeps the
/// notation.
///
/// 128 bits hold the largest value in billionths with room for sums, which saturate.
#[derive(Clone, Debug)]
pub struct QuantityValue {
    /// Never beyond [`MAX`] after parsing; sums may be.
    nanos: i128,
    /// The number, if it was written as an integer. Kubernetes does not take `1000m` or `1.0` for one.
    integer: Option<i64>,
}

impl fmt::Display for QuantityValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.nanos / NANOS, self.nanos % NANOS);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        let sign = if self.nanos < 0 { "-" } else { "" };
        let digits = format!("{:09}", rest.abs());
        write!(f, "{sign}{}.{}", whole.abs(), digits.trim_end_matches('0'))
    }
}

impl QuantityValue {
    /// The order of two quantities.
    pub(crate) fn compare(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }

    fn combine(&self, nanos: i128, integer: Option<i64>) -> Self {
        let known = self.integer.and(integer);
        let sum = self.nanos.saturating_add(nanos);
        Self { nanos: sum, integer: known.and_then(|_| i64::try_from(sum / NANOS).ok()) }
    }
}

/// Returns the functions on resource quantities.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "quantity" => |_, args| match args {
            [Value::String(text)] => parse(text).map(|quantity| Value::Quantity(Arc::new(quantity))),
            _ => Err(no_overload("quantity", args)),
        },
        "isQuantity" => |_, args| match args {
            [Value::String(text)] => Ok(Value::Bool(parse(text).is_ok())),
            _ => Err(no_overload("isQuantity", args)),
        },
        "sign" => |_, args| of(args, "sign", |quantity| Ok(Value::Int(quantity.nanos.signum() as i64))),
        "asApproximateFloat" => |_, args| {
            #[expect(clippy::cast_precision_loss, reason = "approximate by name")]
            of(args, "asApproximateFloat", |quantity| Ok(Value::Double(quantity.nanos as f64 / NANOS as f64)))
        },
        "asInteger" => |_, args| {
            of(args, "asInteger", |quantity| {
                let none = || EvalError::new("cannot convert value to integer");
                quantity.integer.map(Value::Int).ok_or_else(none)
            })
        },
        "isInteger" => {
            |_, args| of(args, "isInteger", |quantity| Ok(Value::Bool(quantity.integer.is_some())))
        }
        "add" => |_, args| change(args, "add", 1),
        "sub" => |_, args| change(args, "sub", -1),
        "isGreaterThan" => {
            |_, args| super::semver::ordered(args, "isGreaterThan", |order| Value::Bool(order.is_gt()))
        }
        "isLessThan" => {
            |_, args| super::semver::ordered(args, "isLessThan", |order| Value::Bool(order.is_lt()))
        }
        "compareTo" => |_, args| super::semver::ordered(args, "compareTo", |order| Value::Int(order as i64)),
        _ => return None,
    })
}

/// Applies a function to a quantity, or reports the overload that does not exist.
fn of<'a>(args: &[Value<'a>], name: &str, part: fn(&QuantityValue) -> Evaluated<'a>) -> Evaluated<'a> {
    match args {
        [Value::Quantity(quantity)] => part(quantity),
        _ => Err(no_overload(name, args)),
    }
}

/// Adds or subtracts. The result counts as an integer only if both were.
fn change<'a>(args: &[Value<'a>], name: &str, sign: i128) -> Evaluated<'a> {
    let changed = match args {
        [Value::Quantity(a), Value::Quantity(b)] => a.combine(sign * b.nanos, b.integer),
        [Value::Quantity(a), Value::Int(b)] => a.combine(sign * i128::from(*b) * NANOS, Some(*b)),
        _ => return Err(no_overload(name, args)),
    };
    Ok(Value::Quantity(Arc::new(changed)))
}

/// The factor of a suffix: a power of two or of ten.
enum SuffixScale {
    Binary(u32),
    Decimal(i32),
}

/// The factor of a suffix, or of an exponent (`e3`).
fn scale(suffix: &str) -> Option<SuffixScale> {
    const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    const DECIMAL: [(&str, i32); 10] = [
        ("n", -9),
        ("u", -6),
        ("m", -3),
        ("", 0),
        ("k", 3),
        ("M", 6),
        ("G", 9),
        ("T", 12),
        ("P", 15),
        ("E", 18),
    ];
    if let Some(power) = BINARY.iter().position(|known| *known == suffix) {
        return Some(SuffixScale::Binary(10 * (u32::try_from(power).ok()? + 1)));
    }
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some(SuffixScale::Decimal(*power));
    }
    let exponent = suffix.strip_prefix(['e', 'E'])?;
    exponent.parse().ok().filter(|power: &i32| power.abs() < 1000).map(SuffixScale::Decimal)
}

/// Parses a quantity. Every error has the one message of apimachinery.
///
/// At most 30 digits are kept; further ones only scale. That is beyond the range in any case.
///
/// # Errors
///
/// If the text is none, or its exponent has more than three digits.
fn parse(text: &str) -> Result<QuantityValue, EvalError> {
    let wrong = || {
        EvalError::new(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
    };
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at_checked(end).ok_or_else(wrong)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // A text without digits, such as `.Ki`, is zero.
    let is_suffix = |c: char| "eEinumkKMGTP".contains(c) || c.is_ascii_digit() || matches!(c, '+' | '-');
    if text.is_empty() || fraction.contains('.') || !suffix.chars().all(is_suffix) {
        return Err(wrong());
    }
    let whole = if whole.is_empty() { "0" } else { whole };
    let scale = scale(suffix).ok_or_else(|| EvalError::new("unable to parse quantity's suffix"))?;
    let nanos = magnitude(whole, fraction, &scale).min(MAX);
    let integer = integer(whole, fraction, &scale, negative);
    Ok(QuantityValue { nanos: if negative { -nanos } else { nanos }, integer })
}

/// The size in billionths, rounded up. Numbers with too many digits are as large as can be.
///
/// Rounds away from zero, as apimachinery does for quantities below its finest unit.
fn magnitude(whole: &str, fraction: &str, scale: &SuffixScale) -> i128 {
    let whole = whole.trim_start_matches('0');
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let mantissa: i128 = match digits.get(..digits.len().min(30)).unwrap_or("") {
        "" => return 0,
        kept => kept.parse().unwrap_or(0),
    };
    let dropped = i32::try_from(digits.len().saturating_sub(30)).unwrap_or(i32::MAX);
    let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let (mantissa, power) = match scale {
        SuffixScale::Binary(power) => (mantissa.saturating_mul(1 << power), 9),
        SuffixScale::Decimal(power) => (mantissa, 9 + power),
    };
    let power = power.saturating_add(dropped).saturating_sub(places);
    let ten = |power: i32| 10_i128.checked_pow(power.unsigned_abs());
    match (power >= 0, ten(power)) {
        (true, Some(factor)) => mantissa.saturating_mul(factor),
        (true, None) => i128::MAX,
        (false, Some(factor)) => mantissa / factor + i128::from(mantissa % factor != 0),
        (false, None) => 1,
    }
}

/// The number as Kubernetes' fast path reads it.
fn integer(whole: &str, fraction: &str, scale: &SuffixScale, negative: bool) -> Option<i64> {
    let places = i32::try_from(fraction.len()).ok()?;
    let value: i64 = format!("{whole}{fraction}").parse().ok()?;
    let value = match scale {
        SuffixScale::Decimal(power) => {
            let power = u32::try_from(power - places).ok()?;
            value.checked_mul(10_i64.checked_pow(power)?)?
        }
        SuffixScale::Binary(power) if fraction.is_empty() => value.checked_mul(1_i64.checked_shl(*power)?)?,
        SuffixScale::Binary(_) => return None,
    };
    Some(if negative { -value } else { value })
}
