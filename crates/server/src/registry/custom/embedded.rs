//! Resources inside of custom objects (`x-kubernetes-embedded-resource`): their type and metadata are checked like those of
//! every object, independently of the schema.
//!
//! Unknown fields of their metadata are pruned, and the presence of type and kind is checked, by `listwatch_custom`; the
//! metadata of the object itself is the strategy's ([`super::rules`]).

use std::fmt::{self, Write as _};

use listwatch_custom::Schema;
use listwatch_kinds::field::Errors;
use listwatch_kinds::kind::NameRule;
use listwatch_kinds::meta;
use listwatch_kinds::names::label_1035_errors;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, json};
use listwatch_wire::status::{FieldError, FieldErrors};

use super::rules::decode_metadata;

/// Returns true if objects of the schema may have resources inside.
pub(super) fn occurs(schema: &Schema) -> bool {
    schema.embedded || schema.children().any(|(_, child)| occurs(child))
}

/// Returns the first value of the wrong type in the type or metadata of a resource inside.
pub(super) fn type_error(schema: &Schema, object: &Value) -> Option<String> {
    let mut error = None;
    each(schema, object, &mut String::new(), &mut |path, resource| {
        error = resource_type_error(path, resource);
        error.is_none()
    });
    error
}

/// The first field of an embedded resource that has the wrong type, with the message of kube-apiserver.
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

/// Returns the errors of the type and metadata of the resources inside, up to the bound of [`FieldErrors`]: a path may be as long
/// as the object.
pub(super) fn errors(schema: &Schema, object: &Value) -> Vec<FieldError> {
    let mut errors = FieldErrors::new();
    each(schema, object, &mut String::new(), &mut |path, resource| {
        errors.extend(type_errors(path, resource));
        errors.extend(metadata_errors(path, resource.at("metadata")));
        !errors.is_full()
    });
    errors.into_vec()
}

/// Checks `apiVersion` and `kind` of an embedded resource: both are required, and must be well-formed.
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

/// Visits every resource inside of a value, with its path, until a visit returns false. Returns false if one did.
fn each(
    schema: &Schema,
    value: &Value,
    path: &mut String,
    visit: &mut dyn FnMut(&str, &Value) -> bool,
) -> bool {
    if schema.embedded && value.is_object() && !visit(path, value) {
        return false;
    }
    let length = path.len();
    let mut below = |schema: &Schema, value: &Value, step: fmt::Arguments<'_>| {
        let _ = path.write_fmt(step);
        let goes_on = each(schema, value, path, visit);
        path.truncate(length);
        goes_on
    };
    match value {
        Value::Object(fields) => fields.iter().all(|(name, value)| {
            let Some(field) = schema.field(name) else { return true };
            match (length == 0, schema.properties.contains_key(name.as_str())) {
                (true, _) => below(field, value, format_args!("{name}")),
                (false, true) => below(field, value, format_args!(".{name}")),
                (false, false) => below(field, value, format_args!("[{name}]")),
            }
        }),
        Value::Array(items) => schema.items.as_deref().is_none_or(|item| {
            items.iter().enumerate().all(|(index, value)| below(item, value, format_args!("[{index}]")))
        }),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(inner: Value) -> Schema {
        let spec = json!({"type": "object", "additionalProperties": {"type": "array", "items": inner}});
        json!({"type": "object", "properties": {"spec": spec}}).to_type().unwrap()
    }

    /// 5,000 errors took 2.5 GB, and a walk without one copied the path for each element.
    #[test]
    fn long_paths_are_not_copied_for_each_element() {
        let resource = schema(json!({"type": "object", "x-kubernetes-embedded-resource": true}));
        let object = |item: Value| json!({"spec": {"k".repeat(200_000): vec![item; 50_000]}});
        let began = std::time::Instant::now();
        let wrong = object(json!({"apiVersion": "", "kind": ""}));
        assert_eq!(errors(&resource, &wrong).len(), 2);
        assert_eq!(type_error(&resource, &wrong), None);
        assert_eq!(errors(&schema(json!({"type": "integer"})), &object(json!(1))), []);
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[test]
    fn paths_name_fields_keys_and_elements() {
        let resource = schema(json!({"type": "object", "x-kubernetes-embedded-resource": true}));
        let object = json!({"spec": {"a": [{"kind": "A"}, {"kind": ""}]}});
        let found = errors(&resource, &object);
        assert_eq!(found.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), ["spec[a][1].kind"]);
        let object = json!({"spec": {"a": [{"kind": 1}, {"kind": 2}]}});
        let error = type_error(&resource, &object);
        assert_eq!(error.as_deref(), Some("spec[a][0].kind: Invalid value: 1: must be a string"));
    }
}
