//! Whether a definition may be stored.

use listwatch_wire::json::{Map, Value};
use listwatch_wire::status::FieldError;

use super::text;
use crate::{Rules, Schema, structural};

/// What is wrong with a new definition.
#[must_use]
pub fn validate_create(object: &Value) -> Vec<FieldError> {
    let mut errors = name(object);
    errors.extend(spec(object));
    errors
}

/// What is wrong with a changed definition: besides all else, some parts stay as they are once it is established.
#[must_use]
pub fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let fixed = ["group", "scope", "names/kind", "names/plural"].into_iter().filter_map(|part| {
        let path = format!("/spec/{part}");
        let (new, old) = (object.pointer(&path), old.pointer(&path));
        let field = format!("spec.{}", part.replace('/', "."));
        (new != old)
            .then(|| FieldError::invalid(field, new.cloned().unwrap_or_default(), "field is immutable"))
    });
    let mut errors: Vec<_> = fixed.collect();
    errors.extend(spec(object));
    errors
}

fn name(object: &Value) -> Vec<FieldError> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let part = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let expected = format!("{}.{}", part("/spec/names/plural"), part("/spec/group"));
    let wrong = FieldError::invalid("metadata.name", name, "must be spec.names.plural+\".\"+spec.group");
    (name != expected).then_some(wrong).into_iter().collect()
}

fn spec(object: &Value) -> Vec<FieldError> {
    let empty = Map::new();
    let spec = object.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let get = |name: &str| spec.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut errors: Vec<_> = group(get("group")).into_iter().collect();
    errors.extend(scope(get("scope")));
    errors.extend(names(spec.get("names").unwrap_or(&Value::Null)));
    let versions = spec.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    errors.extend(storage(versions, object));
    errors.extend(version_names(versions));
    errors.extend(schemas(versions));
    errors
}

fn group(group: &str) -> Option<FieldError> {
    match group {
        "" => Some(FieldError::required("spec.group", "")),
        _ if !group.contains('.') => {
            Some(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"))
        }
        _ => None,
    }
}

fn scope(scope: &str) -> Option<FieldError> {
    match scope {
        "Cluster" | "Namespaced" => None,
        "" => Some(FieldError::required("spec.scope", "")),
        other => Some(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
}

fn names(names: &Value) -> Vec<FieldError> {
    let required = ["plural", "singular", "kind", "listKind"].into_iter();
    let mut errors: Vec<_> = required
        .filter(|name| text(names, name).is_none_or(str::is_empty))
        .map(|name| FieldError::required(format!("spec.names.{name}"), ""))
        .collect();
    for name in ["plural", "singular", "kind", "listKind"] {
        let value = text(names, name).unwrap_or_default();
        if !value.is_empty() && !is_label(&value.to_lowercase()) {
            errors.push(FieldError::invalid(format!("spec.names.{name}"), value, LABEL_RULE));
        }
    }
    if text(names, "kind").is_some_and(|kind| !kind.is_empty() && Some(kind) == text(names, "listKind")) {
        errors.push(FieldError::invalid(
            "spec.names.listKind",
            text(names, "listKind"),
            "kind and listKind may not be the same",
        ));
    }
    errors
}

const LABEL_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

fn is_label(text: &str) -> bool {
    text.len() <= 63
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.ends_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Exactly one version is stored, and the status says so.
fn storage(versions: &[Value], object: &Value) -> Vec<FieldError> {
    let marked = versions.iter().filter(|v| v.get("storage") == Some(&Value::Bool(true))).count();
    if marked == 1 {
        return Vec::new();
    }
    let stored =
        object.pointer("/status/storedVersions").filter(|v| v.as_array().is_some_and(|v| !v.is_empty()));
    let detail = "must have exactly one version marked as storage version";
    let about =
        if marked == 0 { "must have at least one stored version" } else { "must have the storage version" };
    vec![
        FieldError::invalid("spec.versions", versions, detail),
        FieldError::invalid("status.storedVersions", stored.cloned().unwrap_or_default(), about),
    ]
}

fn version_names(versions: &[Value]) -> Vec<FieldError> {
    let mut seen = std::collections::HashSet::new();
    let mut errors = Vec::new();
    for (index, version) in versions.iter().enumerate() {
        let name = text(version, "name").unwrap_or_default();
        let field = format!("spec.versions[{index}].name");
        if !is_label(name) {
            errors.push(FieldError::invalid(field, name, LABEL_RULE));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(field, name));
        }
    }
    errors
}

/// Schemas are reported where the reference reports them: at the old place of a shared schema if all versions have
/// the same, else at each version.
fn schemas(versions: &[Value]) -> Vec<FieldError> {
    let schema_of = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned();
    let missing = versions.iter().enumerate().filter(|(_, version)| schema_of(version).is_none());
    let mut errors: Vec<_> = missing
        .map(|(index, _)| FieldError::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""))
        .collect();
    let present: Vec<(usize, Value)> = versions
        .iter()
        .enumerate()
        .filter_map(|(index, v)| schema_of(v).map(|schema| (index, schema)))
        .collect();
    let shared = present.windows(2).all(|pair| matches!(pair, [a, b] if a.1 == b.1));
    for (index, schema) in present.iter().take(if shared { 1 } else { usize::MAX }) {
        let path = match shared {
            true => "spec.validation.openAPIV3Schema".to_owned(),
            false => format!("spec.versions[{index}].schema.openAPIV3Schema"),
        };
        errors.extend(schema_errors(schema, &path));
    }
    errors
}

fn schema_errors(schema: &Value, path: &str) -> Vec<FieldError> {
    match schema.to_type::<Schema>() {
        Ok(parsed) => structural::check(&parsed, &Rules::compile(schema), path),
        Err(error) => vec![FieldError::invalid(path, "object", error.to_string())],
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::definition;
    use super::*;
    use listwatch_wire::json::json;

    fn errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut object = definition("widgets", "Widget");
        change(&mut object);
        validate_create(&object).iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
    }

    fn set(path: &'static str, value: Value) -> impl FnOnce(&mut Value) {
        move |object| *object.pointer_mut(path).unwrap() = value
    }

    #[test]
    fn a_good_definition_passes() {
        assert_eq!(errors(|_| {}), [""; 0]);
    }

    #[test]
    fn the_name_is_plural_dot_group() {
        assert_eq!(errors(set("/metadata/name", json!("wrong.example.test"))), ["metadata.name Invalid"]);
    }

    #[test]
    fn one_version_is_stored() {
        let wrong = ["spec.versions Invalid", "status.storedVersions Invalid"];
        assert_eq!(errors(set("/spec/versions/0/storage", json!(false))), wrong);
    }

    #[test]
    fn scope_and_schema_are_checked() {
        assert_eq!(errors(set("/spec/scope", json!("Galaxy"))), ["spec.scope NotSupported"]);
        assert_eq!(
            errors(set("/spec/versions/0/schema", json!({}))),
            ["spec.versions[0].schema.openAPIV3Schema Required"]
        );
        let untyped =
            json!({"type": "object", "properties": {"spec": {"properties": {"a": {"type": "string"}}}}});
        assert_eq!(
            errors(set("/spec/versions/0/schema/openAPIV3Schema", untyped)),
            ["spec.validation.openAPIV3Schema.properties[spec].type Required"]
        );
    }

    #[test]
    fn group_scope_and_kind_stay() {
        let old = definition("widgets", "Widget");
        let mut new = old.clone();
        *new.pointer_mut("/spec/scope").unwrap() = json!("Cluster");
        let fields: Vec<_> = validate_update(&new, &old).into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["spec.scope"]);
    }
}
