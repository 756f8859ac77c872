//! Parts of the v2 document in protobuf, as gnostic's `OpenAPIv2.proto` has them.
//!
//! Each function writes one message from its JSON form. kubectl up to 1.28 and other Go programs read nothing else. Values of
//! extensions are YAML text there; JSON is YAML.

use listwatch_wire::json::{Map, Value};

use crate::proto::message_table::named;
use crate::proto::wire::{put_bytes, put_double, put_number, put_string};

/// Absent fields are not written: in protobuf they are equal to empty ones.
fn text(out: &mut Vec<u8>, number: u8, value: Option<&Value>) {
    if let Some(text) = value.and_then(Value::as_str) {
        put_string(out, number, text);
    }
}

/// A repeated string.
fn texts(out: &mut Vec<u8>, number: u8, value: Option<&Value>) {
    for one in value.and_then(Value::as_array).into_iter().flatten() {
        text(out, number, Some(one));
    }
}

/// False is the default and is not written.
fn boolean(out: &mut Vec<u8>, number: u8, value: Option<&Value>) {
    if value.and_then(Value::as_bool) == Some(true) {
        put_number(out, number, 1);
    }
}

fn integer(out: &mut Vec<u8>, number: u8, value: Option<&Value>) {
    if let Some(value) = value.and_then(Value::as_i64) {
        put_number(out, number, value);
    }
}

fn double(out: &mut Vec<u8>, number: u8, value: Option<&Value>) {
    if let Some(value) = value.and_then(Value::as_f64) {
        put_double(out, number, value);
    }
}

/// The message `Any`: text, here.
fn any(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    put_string(&mut out, 2, &value.to_string());
    out
}

/// Vendor extensions, which kubectl reads for merge keys and kinds.
fn extensions(out: &mut Vec<u8>, number: u8, map: &Map) {
    for (name, value) in map.iter().filter(|(name, _)| name.starts_with("x-")) {
        put_bytes(out, number, &named(name, &any(value)));
    }
}

/// `PathItem`.
pub(super) fn path_item(path: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, method) in
        [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (6, "options"), (7, "head"), (8, "patch")]
    {
        if let Some(Value::Object(map)) = path.get(method) {
            put_bytes(&mut out, number, &operation(map));
        }
    }
    parameters(&mut out, 9, path.get("parameters"));
    out
}

/// Field numbers are those of `openapi.v2.Operation`; `summary` (2) and `schemes` (9) are never used.
fn operation(map: &Map) -> Vec<u8> {
    let mut out = Vec::new();
    texts(&mut out, 1, map.get("tags"));
    text(&mut out, 3, map.get("description"));
    text(&mut out, 5, map.get("operationId"));
    texts(&mut out, 6, map.get("produces"));
    texts(&mut out, 7, map.get("consumes"));
    parameters(&mut out, 8, map.get("parameters"));
    let mut responses = Vec::new();
    for (code, response) in map.get("responses").and_then(Value::as_object).into_iter().flatten() {
        put_bytes(&mut responses, 1, &named(code, &response_value(response)));
    }
    put_bytes(&mut out, 9, &responses);
    texts(&mut out, 10, map.get("schemes"));
    extensions(&mut out, 13, map);
    out
}

/// A response with its schema, if it has one.
fn response_value(response: &Value) -> Vec<u8> {
    let mut message = Vec::new();
    text(&mut message, 1, response.get("description"));
    if let Some(Value::Object(map)) = response.get("schema") {
        let mut item = Vec::new();
        put_bytes(&mut item, 1, &schema(map));
        put_bytes(&mut message, 2, &item);
    }
    let mut out = Vec::new();
    put_bytes(&mut out, 1, &message);
    out
}

/// A list of `ParametersItem`.
fn parameters(out: &mut Vec<u8>, number: u8, list: Option<&Value>) {
    for one in list.and_then(Value::as_array).into_iter().flatten() {
        let mut item = Vec::new();
        match one.get("$ref") {
            Some(reference) => {
                let mut message = Vec::new();
                text(&mut message, 1, Some(reference));
                put_bytes(&mut item, 2, &message);
            }
            None => put_bytes(&mut item, 1, &parameter(one)),
        }
        put_bytes(out, number, &item);
    }
}

/// `Parameter`.
pub(super) fn parameter(parameter: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    match parameter.get("in").and_then(Value::as_str) {
        Some("body") => put_bytes(&mut out, 1, &body_parameter(parameter)),
        Some("path") => put_bytes(&mut out, 2, &plain_parameter(4, parameter)),
        _ => put_bytes(&mut out, 2, &plain_parameter(3, parameter)),
    }
    out
}

/// The parameter that is the body; all others are scalars.
fn body_parameter(parameter: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, parameter.get("description"));
    text(&mut out, 2, parameter.get("name"));
    text(&mut out, 3, parameter.get("in"));
    boolean(&mut out, 4, parameter.get("required"));
    if let Some(Value::Object(map)) = parameter.get("schema") {
        put_bytes(&mut out, 5, &schema(map));
    }
    out
}

/// `NonBodyParameter`. Those of queries have one field more than those of paths, so later fields have other numbers.
fn plain_parameter(case: u8, parameter: &Value) -> Vec<u8> {
    let (ty, unique) = if case == 3 { (6, 20) } else { (5, 19) };
    let mut message = Vec::new();
    boolean(&mut message, 1, parameter.get("required"));
    text(&mut message, 2, parameter.get("in"));
    text(&mut message, 3, parameter.get("description"));
    text(&mut message, 4, parameter.get("name"));
    text(&mut message, ty, parameter.get("type"));
    boolean(&mut message, unique, parameter.get("uniqueItems"));
    let mut out = Vec::new();
    put_bytes(&mut out, case, &message);
    out
}

/// `Schema`.
///
/// Recursive along the schema. Recursive types are references in the JSON form, so it ends.
pub(super) fn schema(map: &Map) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, map.get("$ref"));
    text(&mut out, 2, map.get("format"));
    text(&mut out, 3, map.get("title"));
    text(&mut out, 4, map.get("description"));
    if let Some(default) = map.get("default") {
        put_bytes(&mut out, 5, &any(default));
    }
    double(&mut out, 6, map.get("multipleOf"));
    double(&mut out, 7, map.get("maximum"));
    boolean(&mut out, 8, map.get("exclusiveMaximum"));
    double(&mut out, 9, map.get("minimum"));
    boolean(&mut out, 10, map.get("exclusiveMinimum"));
    integer(&mut out, 11, map.get("maxLength"));
    integer(&mut out, 12, map.get("minLength"));
    text(&mut out, 13, map.get("pattern"));
    integer(&mut out, 14, map.get("maxItems"));
    integer(&mut out, 15, map.get("minItems"));
    boolean(&mut out, 16, map.get("uniqueItems"));
    integer(&mut out, 17, map.get("maxProperties"));
    integer(&mut out, 18, map.get("minProperties"));
    texts(&mut out, 19, map.get("required"));
    for value in map.get("enum").and_then(Value::as_array).into_iter().flatten() {
        put_bytes(&mut out, 20, &any(value));
    }
    structure(&mut out, map);
    extensions(&mut out, 31, map);
    out
}

/// The oneof of a schema and a flag, which is written even if it is false.
fn additional_properties(out: &mut Vec<u8>, map: &Map) {
    let mut item = Vec::new();
    match map.get("additionalProperties") {
        Some(Value::Object(inner)) => put_bytes(&mut item, 1, &schema(inner)),
        Some(Value::Bool(allowed)) => put_number(&mut item, 2, i64::from(*allowed)),
        _ => return,
    }
    put_bytes(out, 21, &item);
}

fn properties(map: &Map) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, property) in map.iter() {
        let message = property.as_object().map(schema).unwrap_or_default();
        put_bytes(&mut out, 1, &named(name, &message));
    }
    out
}

/// The fields of a schema that hold schemas, its type and its documentation.
fn structure(out: &mut Vec<u8>, map: &Map) {
    additional_properties(out, map);
    if map.contains_key("type") {
        let mut item = Vec::new();
        text(&mut item, 1, map.get("type"));
        put_bytes(out, 22, &item);
    }
    if let Some(Value::Object(inner)) = map.get("items") {
        let mut item = Vec::new();
        put_bytes(&mut item, 1, &schema(inner));
        put_bytes(out, 23, &item);
    }
    if let Some(Value::Object(inner)) = map.get("properties") {
        put_bytes(out, 25, &properties(inner));
    }
    if let Some(docs) = map.get("externalDocs") {
        let mut message = Vec::new();
        text(&mut message, 1, docs.get("description"));
        text(&mut message, 2, docs.get("url"));
        put_bytes(out, 29, &message);
    }
    if let Some(example) = map.get("example") {
        put_bytes(out, 30, &any(example));
    }
}
