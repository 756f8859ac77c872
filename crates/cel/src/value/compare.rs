//! Equality and order of values, and the form in which errors show them.
//!
//! Numbers of different types compare by value, as CEL requires; other values of different types are unequal and not an
//! error, except for lists and maps that a schema describes, where Kubernetes' types report one. Lists that the schema
//! declares as sets or associative lists compare without order. Identical parts of one JSON tree are equal without a
//! walk. Each step counts as work.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use listwatch_wire::json::{Text, Value as Json};

use super::{ListValue, MapValue, Value};
use crate::error::EvalError;
use crate::library::time;
use crate::meter::Meter;
use crate::schema::{ListIdentity, Representation};

/// Returns true if two values are equal, as `==` says. Numbers of different types are compared by their value.
///
/// Recursion follows the values. Lists and maps are left at the first difference.
///
/// # Errors
///
/// If a schema's list or map is compared with something else, or the work is too much.
pub(crate) fn equal<'a>(a: &Value<'a>, b: &Value<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    meter.work(1)?;
    Ok(match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::String(a), Value::String(b)) => **a == **b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Type(a), Value::Type(b)) => a == b,
        (Value::List(a), Value::List(b)) => lists(a, b, meter)?,
        (Value::Map(a), Value::Map(b)) => maps(a, b, meter)?,
        // A value with a schema cannot be compared with another kind of value: that is an error.
        (Value::List(ListValue::Json(_, Some(_))) | Value::Map(MapValue::Json(_, Some(_))), _) => {
            return Err(EvalError::no_such_overload());
        }
        (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => equal(a, b, meter)?,
        (Value::Struct(a), Value::Struct(b)) => {
            a.type_name == b.type_name
                && a.fields.len() == b.fields.len()
                && fields(&a.fields, &b.fields, meter)?
        }
        (Value::Url(a), Value::Url(b)) => a == b,
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a), Value::Cidr(b)) => a == b,
        (Value::Quantity(a), Value::Quantity(b)) => a.compare(b) == Ordering::Equal,
        (Value::Semver(a), Value::Semver(b)) => a.compare(b) == Ordering::Equal,
        (Value::Format(a), Value::Format(b)) => a.name == b.name,
        (Value::Check(a), Value::Check(b)) => a == b,
        (Value::Preserved(a), Value::Preserved(b)) => a == b,
        _ => numbers(a, b) == Some(Ordering::Equal),
    })
}

/// Compares fields by name, in any order.
fn fields<'a, K: PartialEq>(
    a: &[(K, Value<'a>)],
    b: &[(K, Value<'a>)],
    meter: &mut Meter,
) -> Result<bool, EvalError> {
    for (name, value) in a {
        match b.iter().find(|(other, _)| other == name) {
            Some((_, other)) if equal(value, other, meter)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// Compares lists. The schema decides about order: sets and keyed lists are equal in any order, which is how Kubernetes
/// compares them in rules.
fn lists<'a>(a: &ListValue<'a>, b: &ListValue<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    if let (ListValue::Json(a, _), ListValue::Json(b, _)) = (a, b)
        && std::ptr::eq(*a, *b)
    {
        return Ok(true);
    }
    match a.decl().map(|decl| &decl.shape) {
        Some(Representation::List { kind: ListIdentity::Set, .. }) => return unordered(a, b, meter, None),
        Some(Representation::List { kind: ListIdentity::Map(keys), .. }) => {
            return unordered(a, b, meter, Some(keys));
        }
        _ => {}
    }
    for (left, right) in a.iter().zip(b.iter()) {
        if !equal(&left?, &right?, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Equality of lists whose order does not matter: sets of scalars, and lists of objects with keys.
///
/// Linear by hashing the identity of elements. Of elements with the same identity the last counts on the left.
fn unordered<'a>(
    a: &ListValue<'a>,
    b: &ListValue<'a>,
    meter: &mut Meter,
    keys: Option<&[Text]>,
) -> Result<bool, EvalError> {
    let mut known = HashMap::new();
    for item in a.iter() {
        meter.work(1)?;
        let item = item?;
        known.insert(identity(&item, keys), item);
    }
    let mut seen = HashSet::new();
    for item in b.iter() {
        meter.work(1)?;
        let item = item?;
        let identity = identity(&item, keys);
        match known.get(&identity) {
            Some(other) if keys.is_none() || equal(other, &item, meter)? => seen.insert(identity),
            _ => return Ok(false),
        };
    }
    Ok(seen.len() == known.len())
}

/// The identity of an element of a set, or of a list with keys.
///
/// The JSON of a scalar or of the keys. Up to 64 parts are looked at; anything larger has no identity and equals
/// every other such element.
pub(crate) fn identity(item: &Value<'_>, keys: Option<&[Text]>) -> Vec<Option<String>> {
    match (keys, item) {
        (Some(keys), Value::Map(MapValue::Json(map, _))) => {
            keys.iter().map(|key| map.get(key).map(Json::to_string)).collect()
        }
        _ => vec![super::to_json(item, &mut 64).ok().map(|json| json.to_string())],
    }
}

/// Compares maps by key. Identical trees are equal without a walk, which is the common case of `self == oldSelf`.
fn maps<'a>(a: &MapValue<'a>, b: &MapValue<'a>, meter: &mut Meter) -> Result<bool, EvalError> {
    if a.len() != b.len() {
        return Ok(false);
    }
    if let (MapValue::Json(left, decl), MapValue::Json(right, _)) = (a, b) {
        if left.is_same(right) {
            return Ok(true);
        }
        // Fields that no schema describes are compared as they are.
        if let Some(decl) = decl.filter(|decl| decl.is_object()) {
            let unknown = left.iter().filter(|(name, _)| !decl.has_field(name));
            for (name, value) in unknown {
                if right.get(name).is_some_and(|other| other != value) {
                    return Ok(false);
                }
            }
        }
    }
    for key in a.keys() {
        match (a.get(&key)?, b.get(&key)?) {
            (Some(left), Some(right)) if equal(&left, &right, meter)? => {}
            (None, None) => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The order of two numbers of any types; `None` for other values.
pub(crate) fn numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Some(a.cmp(b)),
        (Value::Uint(a), Value::Uint(b)) => Some(a.cmp(b)),
        (Value::Double(a), Value::Double(b)) => a.partial_cmp(b),
        (Value::Int(a), Value::Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Value::Uint(a), Value::Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        #[expect(clippy::cast_precision_loss, reason = "compared as doubles, as cel-go does")]
        (Value::Int(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        #[expect(clippy::cast_precision_loss, reason = "compared as doubles, as cel-go does")]
        (Value::Uint(a), Value::Double(b)) => (*a as f64).partial_cmp(b),
        (Value::Double(_), Value::Int(_) | Value::Uint(_)) => numbers(b, a).map(Ordering::reverse),
        _ => None,
    }
}

/// The order of two values, as `<` says.
///
/// # Errors
///
/// For values that have no order, and for NaN.
pub(crate) fn order(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, EvalError> {
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => (**a).cmp(&**b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Double(a), _) if a.is_nan() => return Err(EvalError::new("NaN values cannot be ordered")),
        (_, Value::Double(b)) if b.is_nan() => return Err(EvalError::new("NaN values cannot be ordered")),
        _ => return numbers(a, b).ok_or_else(EvalError::no_such_overload),
    })
}

/// A scalar as errors show it.
pub(crate) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => crate::library::convert::double_text(*number),
        Value::String(text) => text.to_string(),
        Value::Timestamp(moment) => time::format_timestamp(*moment),
        Value::Duration(nanos) => time::format_duration(*nanos),
        other => other.type_name().to_owned(),
    }
}
