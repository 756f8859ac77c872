//! The `sets` library: lists compared as sets.
//!
//! `sets.contains`, `sets.equivalent` and `sets.intersects` compare each element with each, as cel-go does and as their
//! cost says; hashing would give other results for values that are equal across number types or are lists. Duplicates
//! do not matter. Lists that a schema declares as sets are compared without order by `==` already, in `value::compare`.

use super::operators::has_element;
use super::{Evaluated, Native, no_overload};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{ListValue, Value};

/// Returns the functions that treat lists as sets: order and repetition do not count.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "sets.contains" => |meter, args| with(args, "sets.contains", |a, b| contains(a, b, meter)),
        "sets.equivalent" => |meter, args| {
            with(args, "sets.equivalent", |a, b| Ok(contains(a, b, meter)? && contains(b, a, meter)?))
        },
        "sets.intersects" => |meter, args| with(args, "sets.intersects", |a, b| intersects(a, b, meter)),
        _ => return None,
    })
}

/// Applies a test to two lists, or reports the overload that does not exist.
fn with<'a>(
    args: &[Value<'a>],
    name: &str,
    test: impl FnOnce(&ListValue<'a>, &ListValue<'a>) -> Result<bool, EvalError>,
) -> Evaluated<'a> {
    match args {
        [Value::List(a), Value::List(b)] => test(a, b).map(Value::Bool),
        _ => Err(no_overload(name, args)),
    }
}

/// The product of both lengths in comparisons, each of which is metered.
fn contains<'a>(set: &ListValue<'a>, part: &ListValue<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    for item in part.iter() {
        if !has_element(set, &item?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// True if an element of one list is in the other. The cost is the product of the lengths, which the meter bounds.
fn intersects<'a>(a: &ListValue<'a>, b: &ListValue<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    for item in a.iter() {
        if has_element(b, &item?, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}
