//! JSON as values, and values as JSON.
//!
//! Reading is lazy: a value holds a reference into the tree and, if there is a schema, its declaration; a field is
//! converted when an expression reads it. A value that does not fit its declaration is an error at that point, in
//! kube-apiserver's words. Without a schema, integers are `int` and all other numbers `double`. [`to_json`] is for
//! expressions that construct objects, in mutating policies, and bounds the number of nodes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use listwatch_wire::json::{Map as JsonMap, Value as Json};

use super::{ListValue, MapValue, Str, StructValue, Value};
use crate::error::EvalError;
use crate::library::time;
use crate::schema::{Decl, Representation, unescape};

impl<'a> Value<'a> {
    /// A value of an object that no schema describes.
    #[must_use]
    pub fn from_json(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(flag) => Self::Bool(*flag),
            Json::Number(number) => match number.as_i64() {
                Some(number) => Self::Int(number),
                None => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Self::String(Str::Borrowed(text)),
            Json::Array(items) => Self::List(ListValue::Json(items, None)),
            Json::Object(map) => Self::Map(MapValue::Json(map, None)),
        }
    }

    /// A value of an object with its schema.
    ///
    /// Only the top is looked at. Parts are converted when they are read, so an error deeper inside appears only to
    /// expressions that read it.
    ///
    /// # Errors
    /// If the value does not fit.
    pub fn from_typed(json: &'a Json, decl: &'a Decl) -> Result<Self, EvalError> {
        typed(json, Some(decl))
    }
}

/// Converts one level of a value by its declaration. Objects and lists stay in the tree and are converted when they are
/// read.
pub(super) fn typed<'a>(json: &'a Json, decl: Option<&'a Decl>) -> Result<Value<'a>, EvalError> {
    let Some(decl) = decl else { return Ok(Value::from_json(json)) };
    let wrong = |message: &'static str| Err(EvalError::new(message));
    let invalid = |expected: &str| {
        Err(EvalError::new(format!("invalid data, expected {expected}, got {}", kind(json))))
    };
    match (&decl.shape, json) {
        (_, Json::Null) if decl.nullable => Ok(Value::Null),
        (_, Json::Null) => wrong("invalid data, got null for schema with nullable=false"),
        (Representation::IntOrString, Json::String(_)) => Ok(Value::from_json(json)),
        (Representation::IntOrString, Json::Number(number)) if number.is_i64() => Ok(Value::from_json(json)),
        (Representation::IntOrString, _) => {
            wrong("invalid data, expected XIntOrString value to be either a string or integer")
        }
        (Representation::Object { .. } | Representation::Map(_), Json::Object(map)) => {
            Ok(Value::Map(MapValue::Json(map, Some(decl))))
        }
        (Representation::Object { .. } | Representation::Map(_), _) => {
            wrong("invalid data, expected a map for the provided schema with type=object")
        }
        (Representation::List { .. }, Json::Array(items)) => {
            Ok(Value::List(ListValue::Json(items, Some(decl))))
        }
        (Representation::List { .. }, _) => {
            wrong("invalid data, expected an array for the provided schema with type=array")
        }
        (Representation::Bool, Json::Bool(flag)) => Ok(Value::Bool(*flag)),
        (Representation::Bool, _) => invalid("bool"),
        (Representation::Int, _) => {
            json.as_i64().map_or_else(|| invalid("int"), |number| Ok(Value::Int(number)))
        }
        (Representation::Double, _) => {
            json.as_f64().map_or_else(|| invalid("float"), |number| Ok(Value::Double(number)))
        }
        (shape, Json::String(text)) => string(shape, text),
        _ => invalid("string"),
    }
}

/// A string in one of its formats.
fn string<'a>(shape: &Representation, text: &'a str) -> Result<Value<'a>, EvalError> {
    let wrong = |what: &str| EvalError::new(format!("Invalid {what} {text}"));
    Ok(match shape {
        Representation::Duration => {
            Value::Duration(time::parse_duration(text).ok_or_else(|| wrong("duration"))?)
        }
        Representation::Date => {
            Value::Timestamp(time::parse_date(text).ok_or_else(|| wrong("date formatted string"))?)
        }
        Representation::DateTime => {
            Value::Timestamp(time::parse_timestamp(text).ok_or_else(|| wrong("date-time formatted string"))?)
        }
        Representation::Bytes => {
            let bytes = STANDARD.decode(text).map_err(|_| wrong("byte formatted string"))?;
            Value::Bytes(bytes.into())
        }
        _ => Value::String(Str::Borrowed(text)),
    })
}

/// Go's name of the type of a JSON value.
fn kind(json: &Json) -> &'static str {
    match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    }
}

/// The field of an object.
///
/// Names in expressions are escaped ones for objects with a schema and plain ones for maps.
pub(super) fn field<'a>(
    map: &'a JsonMap,
    decl: Option<&'a Decl>,
    name: &str,
) -> Result<Option<Value<'a>>, EvalError> {
    let Some(decl) = decl else { return Ok(map.get(name).map(Value::from_json)) };
    match &decl.shape {
        Representation::Object { fields } => {
            let Some(name) = unescape(name) else { return Ok(None) };
            match (map.get(&name), fields.get(&*name)) {
                // A field that is null is the same as one that is absent.
                (None | Some(Json::Null), _) | (_, None) => Ok(None),
                (Some(value), Some(decl)) => typed(value, Some(decl)).map(Some),
            }
        }
        Representation::Map(values) => map.get(name).map(|value| typed(value, Some(values))).transpose(),
        _ => Ok(None),
    }
}

/// A value as JSON, for hosts that store what expressions construct.
///
/// `nodes` is counted down over several values, so that a host bounds all that one expression made. Parts that borrow
/// from a tree are shared with it, not copied.
///
/// # Errors
/// If the value has no JSON form, or more parts than `nodes`.
pub fn to_json(value: &Value<'_>, nodes: &mut usize) -> Result<Json, EvalError> {
    if *nodes == 0 {
        return Err(EvalError::new("the value is too large"));
    }
    *nodes -= 1;
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(flag) => Json::from(*flag),
        Value::Int(number) => Json::from(*number),
        Value::Uint(number) => Json::from(*number),
        Value::Double(number) => Json::from(*number),
        Value::String(text) => Json::from(&**text),
        Value::Bytes(bytes) => Json::from(STANDARD.encode(bytes)),
        Value::Timestamp(moment) => Json::from(time::format_timestamp(*moment)),
        Value::Duration(nanos) => Json::from(time::format_duration(*nanos)),
        Value::Optional(Some(inner)) => to_json(inner, nodes)?,
        Value::Preserved(json) => (*json).clone(),
        Value::List(list) => {
            list.iter().map(|item| to_json(&item?, nodes)).collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Map(MapValue::Json(map, _)) => Json::Object((*map).clone()),
        Value::Map(MapValue::Owned(map)) => {
            let mut fields = JsonMap::new();
            for (key, value) in map.iter() {
                fields.insert(json_key(key)?, to_json(value, nodes)?);
            }
            Json::Object(fields)
        }
        Value::Struct(object) => struct_to_json(object, nodes)?,
        Value::Quantity(quantity) => Json::from(quantity.to_string()),
        other => {
            let message = format!("type conversion error from '{}' to JSON", other.type_name());
            return Err(EvalError::new(message));
        }
    })
}

fn struct_to_json(object: &StructValue<'_>, nodes: &mut usize) -> Result<Json, EvalError> {
    let mut fields = JsonMap::new();
    for (name, value) in &object.fields {
        fields.insert(name.clone(), to_json(value, nodes)?);
    }
    Ok(Json::Object(fields))
}

/// The name of a member. JSON has no keys but texts.
fn json_key<'v>(key: &'v Value<'_>) -> Result<&'v str, EvalError> {
    key.as_str().ok_or_else(|| EvalError::new(format!("unsupported JSON key type: {}", key.type_name())))
}
