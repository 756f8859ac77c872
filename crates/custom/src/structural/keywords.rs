//! Forbidden parts of a schema, found in its JSON: keywords that structural schemas do not allow, constraints on
//! `metadata` and type fields, and meaningless expression rules.
//!
//! Required parts of a schema are checked on its parsed form, in the module above.
//!
//! The JSON and not the parsed schema is walked, because serde drops what it has no field for, and those keywords are
//! the ones to find.

mod alternatives;

use listwatch_wire::json::Value;
use listwatch_wire::status::{FieldError, FieldErrors};

use crate::rules::field_path::normalized;

use super::MAX_DEPTH;

/// Keywords of JSON Schema that have no meaning here.
const UNSUPPORTED: [&str; 6] =
    ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
/// The fields that every object has under any schema.
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];
/// The values that `reason` of a validation rule may have.
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// The place of the walk in the schema.
#[derive(Clone, Copy, Default)]
struct SchemaPlace {
    depth: usize,
    /// Inside the metadata of the object itself, where nothing can be filled in.
    no_defaults: bool,
}

/// Returns the errors in the JSON of a schema, at paths under `path`.
pub(super) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = FieldErrors::new();
    if schema.get("nullable") == Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    if schema.get("additionalProperties").is_some() {
        errors.push(FieldError::forbidden(
            format!("{path}.additionalProperties"),
            "must not be used at the root",
        ));
    }
    if let Some(metadata) = schema.pointer("/properties/metadata") {
        object_metadata(metadata, &format!("{path}.properties[metadata]"), &mut errors);
    }
    node(schema, path, SchemaPlace::default(), &mut errors);
    errors.into_vec()
}

/// Of an object's own metadata only its names may be described.
fn object_metadata(metadata: &Value, path: &str, errors: &mut FieldErrors) {
    let empty = |value: &Value| value.as_object().is_none_or(listwatch_wire::json::Map::is_empty);
    let only_names = metadata.get("properties").is_none_or(|properties| {
        properties.as_object().is_some_and(|p| p.keys().all(|key| key == "name" || key == "generateName"))
            || empty(properties)
    });
    let fields = metadata.as_object().into_iter().flatten();
    let plain = fields.into_iter().all(|(key, _)| matches!(key.as_str(), "type" | "properties" | "default"));
    if !only_names || !plain {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(path, detail));
    }
}

/// The keywords in a schema that make it no structural one. Where there are some, nothing else can be said of it.
///
/// Below [`MAX_DEPTH`] nothing is looked at; the check of the parsed form refuses such a schema.
pub(crate) fn unsupported_anywhere(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = FieldErrors::new();
    unsupported_below(schema, path, 0, &mut errors);
    errors.into_vec()
}

/// Returns true if a schema, or one below it, has `$schema`.
pub(crate) fn names_a_dialect(schema: &Value) -> bool {
    let mut open = vec![schema];
    while let Some(schema) = open.pop() {
        if !text(schema, "$schema").is_empty() {
            return true;
        }
        open.extend(children(schema).map(|(_, _, child)| child));
    }
    false
}

/// Reports keywords that are not supported, down to the depth at which a schema is rejected as a whole.
fn unsupported_below(schema: &Value, path: &str, depth: usize, errors: &mut FieldErrors) {
    if depth > MAX_DEPTH || errors.is_full() {
        return;
    }
    unsupported(schema, path, errors);
    for (step, _, child) in children(schema) {
        unsupported_below(child, &format!("{path}{step}"), depth + 1, errors);
    }
}

/// Checks the keywords of one schema and of those below. The depth is bounded because definitions come from users.
fn node(schema: &Value, path: &str, place: SchemaPlace, errors: &mut FieldErrors) {
    if place.depth > MAX_DEPTH || errors.is_full() {
        return;
    }
    if place.no_defaults && schema.get("default").is_some() {
        errors
            .push(FieldError::forbidden(format!("{path}.default"), "must not be set in top-level metadata"));
    }
    anywhere(schema, path, errors);
    own_fields(schema, path, place, errors);
    let root = (place.depth == 0).then_some(schema);
    alternatives::check(schema, root.map(|root| (root, path)), true, path, errors);
    for (step, name, child) in children(schema) {
        let own_meta = place.depth == 0 && name.is_some_and(|name| META_FIELDS.contains(&name));
        let below = SchemaPlace { depth: place.depth + 1, no_defaults: place.no_defaults || own_meta };
        node(child, &format!("{path}{step}"), below, errors);
    }
}

/// Rules for the keywords of any schema, structure or alternative.
fn anywhere(schema: &Value, path: &str, errors: &mut FieldErrors) {
    if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(field, false, "must be true or undefined"));
    }
    empty_words(schema, path, errors);
    fitting_type(schema, path, errors);
    validations(schema, path, errors);
}

/// The schemas of values below, with their step and, for named fields, their name.
fn children(schema: &Value) -> impl Iterator<Item = (String, Option<&str>, &Value)> {
    let named = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let named = named.map(|(name, child)| (format!(".properties[{name}]"), Some(name.as_str()), child));
    let unnamed = ["additionalProperties", "items"].into_iter().filter_map(|key| {
        let child = schema.get(key).filter(|child| child.is_object())?;
        Some((format!(".{key}"), None, child))
    });
    named.chain(unnamed)
}

/// Refuses the keywords of JSON Schema that structural schemas do not have.
fn unsupported(schema: &Value, path: &str, errors: &mut FieldErrors) {
    for key in UNSUPPORTED {
        if schema.get(key).is_some() {
            errors.push(FieldError::forbidden(format!("{path}.{key}"), format!("{key} is not supported")));
        }
    }
    if text(schema, "type") == "null" {
        errors.push(FieldError::not_supported(format!("{path}.type"), "null", &super::TYPES));
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(format!("{path}.type"), detail));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(format!("{path}.items"), detail));
    }
}

/// Keywords that are there have a value.
fn empty_words(schema: &Value, path: &str, errors: &mut FieldErrors) {
    for (key, words) in [
        ("x-kubernetes-list-type", ["atomic", "set", "map"].as_slice()),
        ("x-kubernetes-map-type", &["atomic", "granular"]),
    ] {
        if schema.get(key).and_then(Value::as_str) == Some("") {
            errors.push(FieldError::not_supported(format!("{path}.{key}"), "", words));
        }
    }
}

/// Rejects `x-kubernetes-list-*` on anything but lists and `x-kubernetes-map-type` on anything but objects.
fn fitting_type(schema: &Value, path: &str, errors: &mut FieldErrors) {
    let found = text(schema, "type");
    for (key, wanted) in [("x-kubernetes-map-type", "object"), ("x-kubernetes-list-type", "array")] {
        if schema.get(key).is_none() || found == wanted {
            continue;
        }
        let (field, detail) = (format!("{path}.type"), format!("must be {wanted} if {key} is specified"));
        errors.push(match found {
            "" => FieldError::required(field, detail),
            found => FieldError::invalid(field, found, detail),
        });
    }
    keyed_list(schema, path, errors);
    let Some(items) = schema.get("items") else { return };
    let list_type = text(schema, "x-kubernetes-list-type");
    let (key, atomic) = match text(items, "type") {
        "array" => ("x-kubernetes-list-type", matches!(text(items, "x-kubernetes-list-type"), "" | "atomic")),
        "object" => ("x-kubernetes-map-type", text(items, "x-kubernetes-map-type") == "atomic"),
        _ => ("", true),
    };
    if list_type == "set" && !atomic {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        // kube-apiserver shows the list type of the items, for maps too.
        let shown = items.get("x-kubernetes-list-type").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(format!("{path}.items.{key}"), shown, detail));
    }
    if matches!(list_type, "set" | "map") && items.get("nullable") == Some(&Value::Bool(true)) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(format!("{path}.items.nullable"), detail));
    }
}

/// Keys belong to a list of type map, and such a list has one schema for all elements.
fn keyed_list(schema: &Value, path: &str, errors: &mut FieldErrors) {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let field = format!("{path}.x-kubernetes-list-type");
    let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        None if keys.is_some_and(|keys| !keys.is_empty()) => errors.push(FieldError::required(field, detail)),
        Some("") if keys.is_some_and(|keys| !keys.is_empty()) => {
            errors.push(FieldError::invalid(field, "", detail));
        }
        Some("map") => match schema.get("items") {
            Some(Value::Object(_)) => {}
            None | Some(Value::Null) => errors.push(FieldError::required(
                format!("{path}.items"),
                "must have a schema if x-kubernetes-list-type is map",
            )),
            Some(_) => errors.push(FieldError::invalid(
                format!("{path}.items"),
                Value::Object(Default::default()),
                "must only have a single schema if x-kubernetes-list-type is map",
            )),
        },
        _ => {}
    }
}

/// Rules for the fields that objects, and embedded objects, have anyway.
///
/// Their types are fixed, and the server reads them before any schema is looked at.
fn own_fields(schema: &Value, path: &str, place: SchemaPlace, errors: &mut FieldErrors) {
    let embedded = schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true));
    if place.depth > 0 && !embedded {
        return;
    }
    for (name, wanted) in [("kind", "string"), ("apiVersion", "string"), ("metadata", "object")] {
        let Some(property) = schema.get("properties").and_then(|p| p.get(name)) else { continue };
        let found = text(property, "type");
        if found != wanted {
            let field = format!("{path}.properties[{name}].type");
            errors.push(FieldError::invalid(field, found, format!("must be {wanted}")));
        }
    }
    if !embedded {
        return;
    }
    let described = schema.get("properties").and_then(Value::as_object).is_some_and(|p| !p.is_empty());
    if !described && schema.get("x-kubernetes-preserve-unknown-fields") != Some(&Value::Bool(true)) {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{path}.properties"), detail));
    }
    if schema.get("additionalProperties").is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(format!("{path}.additionalProperties"), detail));
    }
}

/// Checks of expression rules that need no parser.
fn validations(schema: &Value, path: &str, errors: &mut FieldErrors) {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    for (index, rule) in rules.enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{index}]");
        rule_texts(rule, &path, errors);
        let reason = text(rule, "reason");
        if rule.get("reason").is_some_and(Value::is_string) && !REASONS.contains(&reason) {
            errors.push(FieldError::not_supported(format!("{path}.reason"), reason, &REASONS));
        }
        let field = text(rule, "fieldPath");
        let mut refuse =
            |detail: &str| errors.push(FieldError::invalid(format!("{path}.fieldPath"), field, detail));
        if !field.is_empty() && field.trim().is_empty() {
            refuse("must be non-empty if specified");
        }
        if field.contains(['\n', '\r']) {
            refuse("must not contain line breaks");
        }
        if normalized(schema, field).is_none() {
            refuse("must be a valid path");
        }
    }
}

/// Checks the texts of a rule. A rule of several lines needs a message, because its text would be the message
/// otherwise.
fn rule_texts(rule: &Value, path: &str, errors: &mut FieldErrors) {
    let (expression, message) = (text(rule, "rule"), text(rule, "message"));
    let broken = |text: &str| text.trim().contains(['\n', '\r']);
    let field = format!("{path}.message");
    if expression.trim().is_empty() {
        errors.push(FieldError::required(format!("{path}.rule"), "rule is not specified"));
    } else if !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(field, message, "must be non-empty if specified"));
    } else if broken(message) {
        errors.push(FieldError::invalid(field, message, "must not contain line breaks"));
    } else if broken(expression) && message.trim().is_empty() {
        errors.push(FieldError::required(field, "message must be specified if rule contains line breaks"));
    }
    let made = text(rule, "messageExpression");
    if !made.is_empty() && made.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(format!("{path}.messageExpression"), detail));
    }
}

/// The schema of the field that a path such as `.spec.names['a']` leads to.
///
/// Also follows the schema of unnamed fields, so a path may name a key of a map.
pub(crate) fn find<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let mut rest = path.trim();
    let mut place = schema;
    while !rest.is_empty() {
        let (step, tail) = if let Some(quoted) = rest.strip_prefix("['") {
            quoted.split_once("']")?
        } else {
            let named = rest.strip_prefix('.')?;
            named.split_at(named.find(['.', '[']).unwrap_or(named.len()))
        };
        if step.is_empty() {
            return None;
        }
        let named = place.get("properties").and_then(|properties| properties.get(step));
        place = named.or_else(|| place.get("additionalProperties").filter(|any| any.is_object()))?;
        rest = tail;
    }
    Some(place)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
