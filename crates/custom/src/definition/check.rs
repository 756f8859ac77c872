//! Validation of definitions: names, versions, schemas and what may not change.
//!
//! Messages, field paths and their order are those of apiextensions-apiserver. Names and scope are immutable once the
//! definition is established, because stored objects are found by them. Every version must have a structural schema,
//! and exactly one is stored. Names are in `names`, columns, subresources and selectable fields are in `parts`, conversion in `conversion`,
//! schemas in `structural`.

use std::collections::HashSet;

use listwatch_cel::PatternAllowance;
use listwatch_wire::json::{Map, Value};
use listwatch_wire::names::subdomain_errors;
use listwatch_wire::status::FieldError;

use super::approval::approval_error;
use super::names::{label_error, names};
use super::{parts, text};
use crate::{Rules, Schema, structural};

/// Returns the errors in a new definition: its name, its spec, the approval of protected groups, and its first status.
///
/// Schemas are parsed and rules compiled for it, and thrown away: [`Definition::read`](super::Definition::read) does
/// it again once the definition is stored. Writes of definitions are rare.
#[must_use]
pub fn validate_create(object: &Value) -> Vec<FieldError> {
    let mut errors = name(object);
    errors.extend(spec(object));
    errors.extend(validate_status(object));
    errors.extend(approval_error(object, None));
    errors
}

/// Returns the errors in the status of a definition: it must list every version that objects may be stored in.
///
/// Keeps a version from being removed from the spec while objects may still be stored in it. A write of the status alone
/// is not checked.
fn validate_status(object: &Value) -> Vec<FieldError> {
    let field = "status.storedVersions";
    let stored = object.pointer("/status/storedVersions").and_then(Value::as_array);
    let stored: Vec<&str> = stored.into_iter().flatten().filter_map(Value::as_str).collect();
    let stored_names: HashSet<&str> = stored.iter().copied().collect();
    if stored.is_empty() {
        return vec![FieldError::invalid(field, Value::Null, "must have at least one stored version")];
    }
    let versions = object.pointer("/spec/versions").and_then(Value::as_array);
    let versions = versions.map(Vec::as_slice).unwrap_or_default();
    // A name counts once: of two storage versions with the same name the second is not listed.
    let mut listed = stored_names;
    let missing = versions
        .iter()
        .filter(|version| !listed.remove(text(version, "name").unwrap_or_default()) && is_stored(version));
    // Shared by all errors: there may be as many of them as there are versions.
    let listed_versions: Value = stored.clone().into();
    let missing: Vec<FieldError> = missing
        .map(|version| {
            let name = text(version, "name").unwrap_or_default();
            FieldError::invalid(
                field,
                listed_versions.clone(),
                format!("must have the storage version {name}"),
            )
        })
        .collect();
    let names: HashSet<&str> = versions.iter().filter_map(|version| text(version, "name")).collect();
    let unknown =
        stored.iter().enumerate().filter(|(_, name)| !names.contains(*name)).map(|(index, name)| {
            let detail = format!("missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions");
            FieldError::invalid(format!("{field}[{index}]"), *name, detail)
        });
    missing.into_iter().chain(unknown).collect()
}

fn is_stored(version: &Value) -> bool {
    version.get("storage") == Some(&Value::Bool(true))
}

/// Returns the errors in a changed definition: besides all else, its names stay, and so does, once it is
/// established, what its objects are stored by.
///
/// Unlike kube-apiserver's, it has no ratcheting for specs that were invalid before: all of the spec is checked on
/// every update.
#[must_use]
pub fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let parts: &[&str] = if is_established(old) {
        &["scope", "names/kind", "group", "names/plural"]
    } else {
        &["group", "names/plural"]
    };
    let fixed = parts.iter().filter_map(|part| {
        let path = format!("/spec/{part}");
        let (new, old) = (object.pointer(&path), old.pointer(&path));
        let field = format!("spec.{}", part.replace('/', "."));
        (new != old)
            .then(|| FieldError::invalid(field, new.cloned().unwrap_or_default(), "field is immutable"))
    });
    let mut errors = spec(object);
    errors.extend(fixed);
    errors.extend(validate_status(object));
    errors.extend(approval_error(object, Some(old)));
    errors
}

/// True if the definition has been served: from then on its names and scope are immutable.
fn is_established(definition: &Value) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        text(condition, "type") == Some("Established") && text(condition, "status") == Some("True")
    })
}

/// Requires the name `plural.group`, by which kube-apiserver makes plurals unique within a group.
fn name(object: &Value) -> Vec<FieldError> {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let part = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let expected = format!("{}.{}", part("/spec/names/plural"), part("/spec/group"));
    // A name that is missing is an error of its metadata.
    let wrong = |field: &str, name: &str| {
        let why = "must be spec.names.plural+\".\"+spec.group";
        (!name.is_empty() && name != expected).then(|| FieldError::invalid(field, name, why))
    };
    let prefix = wrong("metadata.generateName", part("/metadata/generateName"));
    prefix.into_iter().chain(wrong("metadata.name", name)).collect()
}

/// Checks the spec in the order of kube-apiserver, because errors are listed in the order they are found.
fn spec(object: &Value) -> Vec<FieldError> {
    let empty = Map::new();
    let spec = object.get("spec").and_then(Value::as_object).unwrap_or(&empty);
    let get = |name: &str| spec.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut errors: Vec<_> = group(get("group")).into_iter().collect();
    errors.extend(scope(get("scope")));
    let versions = spec.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    errors.extend(missing_schemas(versions));
    errors.extend(version_names(versions));
    errors.extend(storage(versions));
    errors.extend(first_version_name(versions));
    errors.extend(names(spec.get("names").unwrap_or(&Value::Null)));
    errors.extend(schemas(versions));
    errors.extend(parts::check(spec, versions));
    errors
}

/// A group is a domain with a dot: groups without one are reserved for Kubernetes.
fn group(group: &str) -> Option<FieldError> {
    match group {
        "" => Some(FieldError::required("spec.group", "")),
        _ if !subdomain_errors(group).is_empty() => {
            Some(FieldError::invalid("spec.group", group, subdomain_errors(group).join(",")))
        }
        _ if !group.contains('.') => {
            Some(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"))
        }
        _ => None,
    }
}

/// Requires one of the two scopes.
fn scope(scope: &str) -> Option<FieldError> {
    match scope {
        "Cluster" | "Namespaced" => None,
        "" => Some(FieldError::required("spec.scope", "")),
        other => Some(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
}

/// Exactly one version is stored.
fn storage(versions: &[Value]) -> Option<FieldError> {
    let marked = versions.iter().filter(|version| is_stored(version)).count();
    let detail = "must have exactly one version marked as storage version";
    let shown = if versions.is_empty() { Value::Null } else { versions.into() };
    (marked != 1).then(|| FieldError::invalid("spec.versions", shown, detail))
}

/// Checks the names of versions, which become path segments and must be unique.
fn version_names(versions: &[Value]) -> Vec<FieldError> {
    let mut seen = HashSet::new();
    let (mut errors, mut unique) = (Vec::new(), true);
    for (index, version) in versions.iter().enumerate() {
        let name = text(version, "name").unwrap_or_default();
        unique &= seen.insert(name);
        if let Some(why) = label_error(name) {
            errors.push(FieldError::invalid(format!("spec.versions[{index}].name"), name, why));
        }
    }
    if !unique {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid("spec.versions", versions, detail));
    }
    errors
}

/// Checks the name of the first version, which kube-apiserver also keeps in a separate field.
fn first_version_name(versions: &[Value]) -> Option<FieldError> {
    let first = text(versions.first()?, "name").filter(|first| !first.is_empty())?;
    label_error(first).map(|why| FieldError::invalid("spec.version", first, why))
}

fn schema_of(version: &Value) -> Option<&Value> {
    version.pointer("/schema/openAPIV3Schema")
}

/// Every version has a schema. A missing one is reported for each version, before anything inside of schemas is.
fn missing_schemas(versions: &[Value]) -> impl Iterator<Item = FieldError> {
    let missing = versions.iter().enumerate().filter(|(_, version)| schema_of(version).is_none());
    missing
        .map(|(index, _)| FieldError::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""))
}

/// Checks each schema where [`parts::places`] says.
fn schemas(versions: &[Value]) -> Vec<FieldError> {
    let (mut errors, patterns) = (Vec::new(), PatternAllowance::default());
    for (path, version) in parts::places(versions, "schema", "validation") {
        let Some(schema) = schema_of(version) else { continue };
        let path = format!("{path}.openAPIV3Schema");
        if version.pointer("/subresources/status").is_some() {
            errors.extend(root_beside_status(schema, &path));
        }
        errors.extend(schema_errors(schema, &path, &patterns));
    }
    errors
}

/// Restricts the root of a schema whose status subresource is enabled. Object and status are then validated apart, so
/// that keywords about the whole object cannot hold.
///
/// The status is replaced by the stored one in an update of the object, so a rule over both would judge a mixture.
fn root_beside_status(schema: &Value, path: &str) -> Option<FieldError> {
    const LOST: [&str; 9] = [
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "enum",
        "default",
        "nullable",
        "additionalProperties",
        "maxProperties",
    ];
    let detail =
        "only some fields are allowed at the root of the schema if the status subresource is enabled";
    let lost = LOST.iter().any(|key| schema.get(key).is_some()) || schema.get("minProperties").is_some();
    lost.then(|| FieldError::invalid(path, "object", detail))
}

/// Unsupported keywords end the check early: the parsed form has no fields for them, and would hide what they mean.
fn schema_errors(schema: &Value, path: &str, patterns: &PatternAllowance) -> Vec<FieldError> {
    if let Some(detail) = structural::exceeded_bound(schema) {
        return vec![FieldError::forbidden(path, detail)];
    }
    if !structural::admits_patterns(schema, patterns) {
        let detail =
            "patterns of all versions must not take more than 32 MiB together when they are compiled";
        return vec![FieldError::forbidden(path, detail)];
    }
    let unsupported = structural::keywords::unsupported_anywhere(schema, path);
    if !unsupported.is_empty() {
        return unsupported;
    }
    if structural::keywords::names_a_dialect(schema) {
        return vec![FieldError::invalid(path, "", "OpenAPIV3Schema 'schema' is not supported")];
    }
    match schema.to_type::<Schema>() {
        Ok(parsed) => structural::check(&parsed, schema, &Rules::compile_new(schema, patterns.clone()), path),
        Err(error) => vec![FieldError::invalid(path, "object", error.to_string())],
    }
}

#[cfg(test)]
mod tests;
