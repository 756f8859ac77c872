//! List functions of CEL's and Kubernetes' libraries: `sort`, `distinct`, `flatten`, `sum`, `min`, `indexOf` and
//! others.
//!
//! Each announces its work to the meter before it allocates, because costs count calls and a list can be made large
//! cheaply (`lists.range`, `flatten`). Elements are read lazily and may fail to fit their schema, so every access can
//! be an error. Comparisons follow CEL's equality across number types. Macros over lists (`map`, `filter`, `all`) are
//! expanded by the parser and are not here.

use std::cmp::Ordering;

use super::{Evaluated, Native, no_overload, operators};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{ListValue, Value, compare};

/// Returns the functions on lists, of cel-go's extension and of Kubernetes' own library.
pub(super) fn native(name: &str) -> Option<Native> {
    Some(match name {
        "slice" => slice,
        "flatten" => flatten,
        "sort" => |meter, args| match args {
            [list @ Value::List(_)] => sort_by_keys(meter, &[list.clone(), list.clone()]),
            _ => Err(no_overload("sort", args)),
        },
        "@sortByAssociatedKeys" => sort_by_keys,
        "lists.range" => range,
        "reverse" => reverse,
        "distinct" => distinct,
        "isSorted" => is_sorted,
        "sum" => sum,
        "max" => |meter, args| extreme(meter, args, "max", Ordering::Less),
        "min" => |meter, args| extreme(meter, args, "min", Ordering::Greater),
        "includes" => includes,
        _ => return None,
    })
}

/// A part of a list; indexes must be in range.
fn slice<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = args else {
        return Err(no_overload("slice", args));
    };
    let wrong = |why: &str| Err(EvalError::new(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(from), Ok(to)) = (u64::try_from(*start), u64::try_from(*end)) else {
        return wrong("negative indexes not supported");
    };
    if from > to {
        return wrong("start index must be less than or equal to end index");
    }
    if list.len() < to {
        return wrong(&format!("list is length {}", list.len()));
    }
    meter.work((to - from).saturating_mul(8))?;
    let items = (from..to).map(|at| Ok(list.get(at)?.unwrap_or(Value::Null)));
    Ok(Value::list(items.collect::<Result<_, EvalError>>()?))
}

/// One level without a depth. Elements that are not lists are kept.
fn flatten<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let (list, depth) = match args {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => return Err(no_overload("flatten", args)),
    };
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    let mut flat = Vec::new();
    flatten_into(list, depth, &mut flat, meter)?;
    Ok(Value::list(flat))
}

/// Recursion ends with the nesting of the list, at any requested depth.
fn flatten_into<'a>(
    list: &ListValue<'a>,
    depth: i64,
    flat: &mut Vec<Value<'a>>,
    meter: &mut Meter,
) -> Result<(), EvalError> {
    for item in list.iter() {
        meter.work(8)?;
        match item? {
            Value::List(inner) if depth > 0 => flatten_into(&inner, depth - 1, flat, meter)?,
            other => flat.push(other),
        }
    }
    Ok(())
}

/// Copies the elements, which is metered with the memory that they take.
///
/// Each element costs eight units, about the size of a value, so that the meter's bound on work is also one on memory.
fn items<'a>(list: &ListValue<'a>, meter: &mut Meter) -> Result<Vec<Value<'a>>, EvalError> {
    meter.work(list.len().saturating_mul(8))?;
    list.iter().collect()
}

/// Sorts a list by the keys that the macro `sortBy` computed, stable for equal keys. All keys must be of one type.
///
/// `sort` is the same function with the list as its own keys. Doubles that are not numbers keep their order.
fn sort_by_keys<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), Value::List(keys)] = args else {
        return Err(no_overload("@sortByAssociatedKeys", args));
    };
    let (values, keys) = (items(list, meter)?, items(keys, meter)?);
    if values.len() != keys.len() {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} elements \
             respectively",
            values.len(),
            keys.len()
        )));
    }
    if let Some(first) = keys.first() {
        if compare::order(first, first).is_err() && !matches!(first, Value::Double(_)) {
            return Err(EvalError::new("list elements must be comparable"));
        }
        if keys.iter().any(|key| key.type_name() != first.type_name()) {
            return Err(EvalError::new("list elements must have the same type"));
        }
    }
    let mut pairs: Vec<_> = keys.into_iter().zip(values).collect();
    pairs.sort_by(|(a, _), (b, _)| compare::order(a, b).unwrap_or(Ordering::Equal));
    Ok(Value::list(pairs.into_iter().map(|(_, value)| value).collect()))
}

/// Memory is announced first: a short expression could ask for any size.
fn range<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::Int(count)] = args else { return Err(no_overload("lists.range", args)) };
    let Ok(size) = u64::try_from(*count) else {
        return Err(EvalError::new(format!("lists.range: size must be non-negative, got {count}")));
    };
    meter.work(size.saturating_mul(8))?;
    Ok(Value::list((0..*count).map(Value::Int).collect()))
}

/// Returns the elements in reverse order. Metered by [`items`], which copies them.
fn reverse<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return Err(no_overload("reverse", args)) };
    let mut items = items(list, meter)?;
    items.reverse();
    Ok(Value::list(items))
}

/// The elements without repetitions, in order. Quadratic, because values of different types can be equal; the meter
/// bounds it.
fn distinct<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return Err(no_overload("distinct", args)) };
    let mut unique: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        let mut seen = false;
        for other in &unique {
            seen = matches!(compare::equal(&item, other, meter), Ok(true));
            if seen {
                break;
            }
        }
        meter.work(1)?;
        if !seen {
            unique.push(item);
        }
    }
    Ok(Value::list(unique))
}

/// Ends at the first pair out of order. Elements that cannot be ordered are an error.
fn is_sorted<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return Err(no_overload("isSorted", args)) };
    let mut previous: Option<Value<'a>> = None;
    for item in list.iter() {
        meter.work(1)?;
        let item = item?;
        if let Some(previous) = &previous
            && compare::order(previous, &item)?.is_gt()
        {
            return Ok(Value::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Value::Bool(true))
}

/// Adds with the operator, so that overflow is an error and durations add up. An empty list is the integer zero.
fn sum<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return Err(no_overload("sum", args)) };
    let add = operators::native("_+_").ok_or_else(EvalError::no_such_overload)?;
    let mut total: Option<Value<'a>> = None;
    for item in list.iter() {
        meter.work(1)?;
        let item = item?;
        total = Some(match total {
            None => item,
            Some(total) => add(meter, &[total, item])?,
        });
    }
    Ok(total.unwrap_or(Value::Int(0)))
}

/// An error for an empty list, and for elements that cannot be ordered.
fn extreme<'a>(meter: &mut Meter, args: &[Value<'a>], name: &str, worse: Ordering) -> Evaluated<'a> {
    let [Value::List(list)] = args else { return Err(no_overload(name, args)) };
    let mut best: Option<Value<'a>> = None;
    for item in list.iter() {
        meter.work(1)?;
        let item = item?;
        best = Some(match best {
            None => item,
            Some(best) if compare::order(&best, &item)? == worse => item,
            Some(best) => best,
        });
    }
    best.ok_or_else(|| EvalError::new(format!("{name} called on empty list")))
}

/// The first of these places that holds the value, or -1. Elements that cannot be compared are not equal.
///
/// Linear; each comparison counts as work of its own.
fn found<'a>(
    list: &ListValue<'a>,
    wanted: &Value<'a>,
    meter: &mut Meter,
    mut place: impl Iterator<Item = u64>,
) -> Evaluated<'a> {
    let found = place.try_fold((), |(), at| match list.get(at) {
        Ok(Some(item)) => match compare::equal(&item, wanted, meter) {
            Ok(true) => Err(Ok(at)),
            Err(error) if error.is_over_limit() => Err(Err(error)),
            _ => Ok(()),
        },
        Ok(None) => Ok(()),
        Err(error) => Err(Err(error)),
    });
    match found {
        Ok(()) => Ok(Value::Int(-1)),
        Err(at) => at.map(|at| Value::Int(i64::try_from(at).unwrap_or(i64::MAX))),
    }
}

pub(super) fn index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), wanted] = args else { return Err(no_overload("indexOf", args)) };
    found(list, wanted, meter, 0..list.len())
}

pub(super) fn last_index_of<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let [Value::List(list), wanted] = args else { return Err(no_overload("lastIndexOf", args)) };
    found(list, wanted, meter, (0..list.len()).rev())
}

/// Newer than the other functions: only stored expressions have it, see `tables`.
fn includes<'a>(meter: &mut Meter, args: &[Value<'a>]) -> Evaluated<'a> {
    let result = match args {
        [Value::List(list), item] => operators::has_element(list, item, meter),
        [value, item] => compare::equal(value, item, meter),
        _ => return Err(no_overload("includes", args)),
    };
    match result {
        Err(error) if error.is_over_limit() => Err(error),
        other => Ok(Value::Bool(other.unwrap_or(false))),
    }
}
