//! The `sets` library: lists compared as sets.
//!
//! `sets.contains`, `sets.equivalent` and `sets.intersects` compare each element with each, as cel-go does and as their
//! cost says; hashing would give other results for values that are equal across number types or are lists. Duplicates
//! do not matter. Lists that a schema declares as sets are compared without order by `==` already, in `value::compare`.

use super::operators::has_element;
use super::{Evaluated, Native, no_overload};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{List, Value};

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

fn with<'a>(
    args: &[Value<'a>],
    name: &str,
    test: impl FnOnce(&List<'a>, &List<'a>) -> Result<bool, EvalError>,
) -> Evaluated<'a> {
    match args {
        [Value::List(a), Value::List(b)] => test(a, b).map(Value::Bool),
        _ => Err(no_overload(name, args)),
    }
}

/// The product of both lengths in comparisons, each of which is metered.
fn contains<'a>(set: &List<'a>, part: &List<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    for item in part.iter() {
        if !has_element(set, &item?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(a: &List<'a>, b: &List<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    for item in a.iter() {
        if has_element(b, &item?, meter)? {
            return Ok(true);
        }
    }
    Ok(false)
}
