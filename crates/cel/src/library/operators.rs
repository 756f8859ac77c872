//! Operators: arithmetic, order, membership and `size`.
//!
//! Integer arithmetic is checked: overflow and division by zero are errors, as CEL requires. Operands of different
//! number types can be compared but not added. `+` on two lists of an object follows their list type in the schema:
//! sets and associative lists are merged by identity instead of appended, which is Kubernetes' extension. `&&`, `||`,
//! `?:` and `==` are operations of the evaluator, since they do not evaluate all arguments or absorb errors.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Evaluated, Native, no_overload, time};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::schema::{ListIdentity, Representation};
use crate::value::{ListValue, MapValue, Str, Value, compare};

/// Returns the operators that are ordinary functions. Those that skip an argument are operations of the plan.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "_+_" => add,
        "_-_" => subtract,
        "_*_" => multiply,
        "_/_" => divide,
        "_%_" => modulo,
        "-_" => negate,
        "!_" => not,
        "_<_" => |_, args| ordered(args, "_<_", Ordering::is_lt),
        "_<=_" => |_, args| ordered(args, "_<=_", Ordering::is_le),
        "_>_" => |_, args| ordered(args, "_>_", Ordering::is_gt),
        "_>=_" => |_, args| ordered(args, "_>=_", Ordering::is_ge),
        "@in" => contains,
        "size" => size,
        _ => return None,
    })
}

/// Three functions for three messages, which are cel-go's.
fn overflow<T>(result: Option<T>) -> Result<T, EvalError> {
    result.ok_or_else(|| EvalError::new("integer overflow"))
}

/// cel-go's error for an overflow of `uint`.
fn unsigned<T>(result: Option<T>) -> Result<T, EvalError> {
    result.ok_or_else(|| EvalError::new("unsigned integer overflow"))
}

/// cel-go's error for an overflow of `duration`.
fn span<T>(result: Option<T>) -> Result<T, EvalError> {
    result.ok_or_else(|| EvalError::new("duration overflow"))
}

/// Evaluates `+`. Overflow is an error in CEL, never wraps.
fn add<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => Value::Int(overflow(a.checked_add(*b))?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(unsigned(a.checked_add(*b))?),
        [Value::Double(a), Value::Double(b)] => Value::Double(a + b),
        [Value::String(a), Value::String(b)] => {
            meter.work((a.len() + b.len()) as u64)?;
            Value::String(Str::from([&**a, &**b].concat()))
        }
        [Value::Bytes(a), Value::Bytes(b)] => {
            meter.work((a.len() + b.len()) as u64)?;
            Value::Bytes([&**a, &**b].concat().into())
        }
        [Value::List(a), Value::List(b)] => Value::List(join(a, b, meter)?),
        [Value::Duration(a), Value::Duration(b)] => Value::Duration(span(a.checked_add(*b))?),
        [Value::Timestamp(at), Value::Duration(by)] | [Value::Duration(by), Value::Timestamp(at)] => {
            Value::Timestamp(time::shift(*at, *by)?)
        }
        _ => return Err(unsupported("_+_", args)),
    })
}

/// Two lists as one. Sets and lists with keys of an object are merged.
///
/// The schema is that of the left list; one that was computed has none and is appended to.
fn join<'a>(a: &ListValue<'a>, b: &ListValue<'a>, meter: &mut Meter) -> Result<ListValue<'a>, EvalError> {
    let keys = match a.decl().map(|decl| &decl.shape) {
        Some(Representation::List { kind: ListIdentity::Set, .. }) => None,
        Some(Representation::List { kind: ListIdentity::Map(keys), .. }) => Some(keys.as_slice()),
        _ => return Ok(a.clone().join(b.clone())),
    };
    meter.work(a.len().saturating_add(b.len()))?;
    let mut items = a.iter().collect::<Result<Vec<_>, _>>()?;
    let mut places: std::collections::HashMap<_, _> =
        items.iter().enumerate().map(|(at, item)| (compare::identity(item, keys), at)).collect();
    for item in b.iter() {
        let item = item?;
        match places.get(&compare::identity(&item, keys)).and_then(|at| items.get_mut(*at)) {
            Some(known) => *known = item,
            None => {
                places.insert(compare::identity(&item, keys), items.len());
                items.push(item);
            }
        }
    }
    Ok(ListValue::from(items))
}

/// Evaluates `-` between numbers, durations and times. Overflow is an error, never a wrapped result.
fn subtract<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => Value::Int(overflow(a.checked_sub(*b))?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(unsigned(a.checked_sub(*b))?),
        [Value::Double(a), Value::Double(b)] => Value::Double(a - b),
        [Value::Duration(a), Value::Duration(b)] => Value::Duration(span(a.checked_sub(*b))?),
        [Value::Timestamp(at), Value::Duration(by)] => {
            Value::Timestamp(time::shift(*at, span(by.checked_neg())?)?)
        }
        [Value::Timestamp(a), Value::Timestamp(b)] => Value::Duration(span(i64::try_from(a.since(*b)).ok())?),
        _ => return Err(unsupported("_-_", args)),
    })
}

/// Evaluates `*` between numbers of one type; mixed types have no overload.
fn multiply<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match args {
        [Value::Int(a), Value::Int(b)] => Value::Int(overflow(a.checked_mul(*b))?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(unsigned(a.checked_mul(*b))?),
        [Value::Double(a), Value::Double(b)] => Value::Double(a * b),
        _ => return Err(unsupported("_*_", args)),
    })
}

/// Doubles divide by zero to infinity; the smallest integer by -1 overflows.
fn divide<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(EvalError::new("division by zero"));
        }
        [Value::Int(a), Value::Int(b)] => Value::Int(overflow(a.checked_div(*b))?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(unsigned(a.checked_div(*b))?),
        [Value::Double(a), Value::Double(b)] => Value::Double(a / b),
        _ => return Err(unsupported("_/_", args)),
    })
}

/// The sign is that of the dividend, as in Go.
fn modulo<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match args {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            return Err(EvalError::new("modulus by zero"));
        }
        [Value::Int(a), Value::Int(b)] => Value::Int(overflow(a.checked_rem(*b))?),
        [Value::Uint(a), Value::Uint(b)] => Value::Uint(unsigned(a.checked_rem(*b))?),
        _ => return Err(unsupported("_%_", args)),
    })
}

/// The smallest integer has no opposite: an overflow.
fn negate<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    Ok(match args {
        [Value::Int(a)] => Value::Int(overflow(a.checked_neg())?),
        [Value::Double(a)] => Value::Double(-a),
        [Value::Duration(a)] => Value::Duration(span(a.checked_neg())?),
        _ => return Err(EvalError::no_such_overload()),
    })
}

/// Evaluates `!`. Unlike `&&` and `||` it absorbs no error.
fn not<'a>(_: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [Value::Bool(flag)] => Ok(Value::Bool(!flag)),
        _ => Err(EvalError::no_such_overload()),
    }
}

/// Types that cannot be compared are an error, unlike for `==`.
fn ordered<'a>(args: &[Value<'a>], name: &str, wanted: fn(Ordering) -> bool) -> Evaluated<'a> {
    let [a, b] = args else { return Err(EvalError::no_such_overload()) };
    match compare::order(a, b) {
        Ok(order) => Ok(Value::Bool(wanted(order))),
        Err(error) if error.message() == "no such overload" => Err(unsupported(name, args)),
        Err(error) => Err(error),
    }
}

/// The error of an operator. It names the operator only if no value of the type of the left operand has it.
///
/// Two texts, because cel-go dispatches operators by the type of the left value, and the error shows how far that got.
fn unsupported(name: &str, args: &[Value<'_>]) -> EvalError {
    let number = matches!(args.first(), Some(Value::Int(_) | Value::Uint(_)));
    let known = match (name, args.first()) {
        ("_%_", _) => number,
        ("_*_" | "_/_", Some(Value::Double(_))) => true,
        ("_*_" | "_/_", _) => number,
        ("_-_", Some(Value::Double(_) | Value::Duration(_) | Value::Timestamp(_))) => true,
        ("_-_", _) => number,
        ("_+_", Some(Value::List(_))) => true,
        ("_+_", Some(Value::Bool(_))) => false,
        (_, Some(Value::String(_) | Value::Bytes(_) | Value::Double(_) | Value::Duration(_))) => true,
        (_, Some(Value::Timestamp(_) | Value::Bool(_))) => true,
        _ => number,
    };
    if known { EvalError::no_such_overload() } else { EvalError::new(format!("no such overload: {name}")) }
}

/// Returns true if a list has an element, as `in` says.
///
/// An element that cannot be compared is an error only if no other one is equal.
pub(super) fn has_element<'a>(
    list: &ListValue<'a>,
    item: &Value<'a>,
    meter: &mut Meter,
) -> Result<bool, EvalError> {
    let mut failed = None;
    for element in list.iter() {
        match compare::equal(&element?, item, meter) {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            Err(error) if error.is_over_limit() => return Err(error),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(false), Err)
}

/// In a map, the key is looked up; a type that no key can have is an error.
fn contains<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    match args {
        [item, Value::List(list)] => has_element(list, item, meter).map(Value::Bool),
        [key, Value::Map(map)] => match map.get(key) {
            Ok(found) => Ok(Value::Bool(found.is_some())),
            Err(error) => Err(error),
        },
        _ => Err(no_overload("@in", args)),
    }
}

/// Strings are walked to count code points, which is charged as a sixteenth of their bytes.
fn size<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    if let [Value::String(text)] = args {
        meter.work(text.len() as u64 / 16)?;
    }
    match args {
        [value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_))] => {
            let size = value.size().unwrap_or(0);
            Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX)))
        }
        _ => Err(no_overload("size", args)),
    }
}

/// A map with entries.
///
/// # Errors
///
/// For keys that no map can have.
pub(super) fn map_of<'a>(entries: Vec<(Value<'a>, Value<'a>)>) -> Evaluated<'a> {
    let mut map = crate::value::OwnedMap::default();
    for (key, value) in entries {
        map.insert(key, value)?;
    }
    Ok(Value::Map(MapValue::Owned(Arc::new(map))))
}
