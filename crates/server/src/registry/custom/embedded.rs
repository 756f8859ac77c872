//! Resources inside of custom objects (`x-kubernetes-embedded-resource`): their type and metadata are checked like those of
//! every object, independently of the schema.
//!
//! Unknown fields of their metadata are pruned, and the presence of type and kind is checked, by `listwatch_custom`; the
//! metadata of the object itself is the strategy's ([`super::rules`]).

use listwatch_custom::Schema;
use listwatch_kinds::field::Errors;
use listwatch_kinds::kind::NameRule;
use listwatch_kinds::meta;
use listwatch_kinds::names::label_1035_errors;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, json};
use listwatch_wire::status::FieldError;

use super::rules::decode_metadata;

/// Returns true if objects of the schema may have resources inside.
pub(super) fn occurs(schema: &Schema) -> bool {
    schema.embedded || schema.children().any(|(_, child)| occurs(child))
}

/// Returns the first value of the wrong type in the type or metadata of a resource inside.
pub(super) fn type_error(schema: &Schema, object: &Value) -> Option<String> {
    let mut error = None;
    each(schema, object, "", &mut |path, resource| {
        error = error.take().or_else(|| resource_type_error(path, resource));
    });
    error
}

fn resource_type_error(path: &str, resource: &Value) -> Option<String> {
    let text = |key: &str| {
        let value = resource.get(key).filter(|value| value.as_str().is_none())?;
        Some(format!("{path}.{key}: Invalid value: {value}: must be a string"))
    };
    let metadata = || {
        let metadata = resource.get("metadata").filter(|metadata| !metadata.is_null())?;
        let error = decode_metadata(&mut json!({"metadata": metadata})).error?;
        Some(format!("{path}.metadata: Invalid value: {metadata}: {error}"))
    };
    text("apiVersion").or_else(|| text("kind")).or_else(metadata)
}

/// Returns the errors of the type and metadata of the resources inside.
pub(super) fn errors(schema: &Schema, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    each(schema, object, "", &mut |path, resource| {
        errors.extend(type_errors(path, resource));
        errors.extend(metadata_errors(path, resource.at("metadata")));
    });
    errors
}

fn type_errors(path: &str, resource: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut refuse = |key: &str, value: &str, why: String| {
        errors.push(FieldError::invalid(format!("{path}.{key}"), value, why));
    };
    for key in ["apiVersion", "kind"] {
        if resource.get(key).and_then(Value::as_str) == Some("") {
            refuse(key, "", "must not be empty".to_owned());
        }
    }
    let (version, kind) = (resource.text("apiVersion"), resource.text("kind"));
    if version.matches('/').count() > 1 {
        refuse("apiVersion", version, format!("unexpected GroupVersion string: {version}"));
    }
    let wrong = label_1035_errors(&kind.to_lowercase());
    if !kind.is_empty() && !wrong.is_empty() {
        let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        refuse("kind", kind, why);
    }
    errors
}

/// A resource inside may leave out its name.
fn metadata_errors(path: &str, metadata: &Value) -> Vec<FieldError> {
    if !metadata.is_object() {
        return Vec::new();
    }
    let mut metadata = metadata.clone();
    if metadata.text("name").is_empty() {
        metadata.put("name", "fakename");
    }
    let mut errors = Errors::default();
    let namespaced = !metadata.text("namespace").is_empty();
    meta::validate_new(&metadata, namespaced, NameRule::PathSegment, &mut errors);
    let mut errors = errors.into_vec();
    for error in &mut errors {
        error.field = format!("{path}.{}", error.field);
    }
    errors
}

/// Visits every resource inside of a value, with its path.
fn each(schema: &Schema, value: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    if schema.embedded && value.is_object() {
        visit(path, value);
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let Some(field) = schema.field(name) else { continue };
                let known = schema.properties.contains_key(name.as_str());
                let path = match (path.is_empty(), known) {
                    (true, _) => name.to_string(),
                    (false, true) => format!("{path}.{name}"),
                    (false, false) => format!("{path}[{name}]"),
                };
                each(field, value, &path, visit);
            }
        }
        Value::Array(items) => {
            let Some(item) = schema.items.as_deref() else { return };
            for (index, value) in items.iter().enumerate() {
                each(item, value, &format!("{path}[{index}]"), visit);
            }
        }
        _ => {}
    }
}
