//! Optional values: `optional.of`, `hasValue`, `value`, `unwrapOpt`, `first`, `last`.
//!
//! They are cel-go's `OptionalTypes` library. `or` and `orValue` are operations of the evaluator, because their
//! argument is evaluated only if needed; `optMap` and `optFlatMap` are macros of the parser. `a.?b` and `a[?b]` produce
//! optionals in `eval`.

use super::{Evaluated, Native, no_overload};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Value;

/// Returns the functions on optionals. `or` and `orValue` are operations of the plan, because they skip their
/// argument if there is a value.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "optional.of" => |_, args| match args {
            [value] => Ok(Value::some(value.clone())),
            _ => Err(no_overload("optional.of", args)),
        },
        "optional.ofNonZeroValue" => |_, args| match args {
            [value] if value.is_zero() => Ok(Value::Optional(None)),
            [value] => Ok(Value::some(value.clone())),
            _ => Err(no_overload("optional.ofNonZeroValue", args)),
        },
        "optional.none" => |_, _| Ok(Value::Optional(None)),
        "optional.unwrap" | "unwrapOpt" => unwrap,
        "value" => |_, args| match args {
            [Value::Optional(Some(value))] => Ok((**value).clone()),
            [Value::Optional(None)] => Err(EvalError::new("optional.none() dereference")),
            _ => Err(no_overload("value", args)),
        },
        "hasValue" => |_, args| match args {
            [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
            _ => Err(no_overload("hasValue", args)),
        },
        "first" => |_, args| match args {
            [Value::List(list)] => Ok(list.get(0)?.map_or(Value::Optional(None), Value::some)),
            _ => Err(no_overload("first", args)),
        },
        "last" => |_, args| match args {
            [Value::List(list)] if list.is_empty() => Ok(Value::Optional(None)),
            [Value::List(list)] => Ok(list.get(list.len() - 1)?.map_or(Value::Optional(None), Value::some)),
            _ => Err(no_overload("last", args)),
        },
        _ => return None,
    })
}

/// An element that is not an optional is an error, not skipped.
fn unwrap<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return Err(no_overload("unwrapOpt", args)) };
    let mut present = Vec::new();
    for item in list.iter() {
        meter.work(8)?;
        match item? {
            Value::Optional(Some(value)) => present.push((*value).clone()),
            Value::Optional(None) => {}
            other => return Err(EvalError::new(format!("value {} is not optional", other.type_name()))),
        }
    }
    Ok(Value::list(present))
}
