//! Validation of the parts of a definition beside its schemas: columns, subresources, selectable fields, deprecation.
//! Conversion is in `conversion`.
//!
//! Most parts may differ between versions, but kube-apiserver's internal form has a part that all versions share only
//! once, at its old place in the spec. Errors are reported where that representation has the part ([`places`]). Paths
//! into objects (`jsonPath`) are checked for their form, and those of selectable fields also against the schema.

use listwatch_wire::go;
use listwatch_wire::json::{Map, Value};
use listwatch_wire::status::{FieldError, FieldErrors};

use super::{conversion, text};
use crate::structural::keywords::find;

/// The most fields of one version that selectors may name.
///
/// kube-apiserver has the same bound.
const MAX_SELECTABLE: usize = 8;
/// The longest warning about a deprecated version.
///
/// kube-apiserver has the same bound, since warnings travel in a header.
const MAX_WARNING: usize = 256;
/// Types and formats of printer columns, in the order of kube-apiserver's messages.
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] =
    ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

/// Returns the errors in the parts of a spec.
///
/// The order is that of kube-apiserver, because clients and tests compare the text.
pub(super) fn check(spec: &Map, versions: &[Value]) -> Vec<FieldError> {
    let mut errors = FieldErrors::new();
    for (index, version) in versions.iter().enumerate() {
        deprecation(version, &format!("spec.versions[{index}].deprecationWarning"), &mut errors);
    }
    for (path, version) in places(versions, "subresources", "subresources") {
        scale(version.pointer("/subresources/scale"), &format!("{path}.scale"), &mut errors);
    }
    for (path, version) in places(versions, "additionalPrinterColumns", "additionalPrinterColumns") {
        for (index, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
            self::column(column, &format!("{path}[{index}]"), &mut errors);
        }
    }
    for (path, version) in places(versions, "selectableFields", "selectableFields") {
        selectable(versions, version, &path, &mut errors);
    }
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        let strategy = spec.get("conversion").and_then(|conversion| conversion.get("strategy")?.as_str());
        let strategy = strategy.unwrap_or("None");
        if strategy != "None" {
            let detail = "must be None if spec.preserveUnknownFields is true";
            errors.push(FieldError::invalid("spec.conversion.strategy", strategy, detail));
        }
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    conversion::check(spec.get("conversion").unwrap_or(&Value::Null), &mut errors);
    errors.into_vec()
}

/// The paths at which kube-apiserver reports on a part of versions: once, at the old place of a shared part, if all
/// versions have the same; else at each version.
///
/// kube-apiserver's conversion to its internal type moves such a part to the top level, and its validation runs on
/// that type.
pub(super) fn places<'a>(versions: &'a [Value], part: &str, shared: &str) -> Vec<(String, &'a Value)> {
    match (alike(versions, part), versions.first()) {
        (true, Some(first)) => vec![(format!("spec.{shared}"), first)],
        _ => {
            let each = versions.iter().enumerate();
            each.map(|(index, version)| (format!("spec.versions[{index}].{part}"), version)).collect()
        }
    }
}

/// Returns true if all versions have the same part.
fn alike(versions: &[Value], part: &str) -> bool {
    versions.windows(2).all(|pair| matches!(pair, [a, b] if a.get(part) == b.get(part)))
}

pub(super) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Checks `deprecationWarning`, which is sent in a `Warning` header and therefore must be short and printable.
fn deprecation(version: &Value, field: &str, errors: &mut FieldErrors) {
    let Some(warning) = text(version, "deprecationWarning") else { return };
    let mut refuse = |detail: String| errors.push(FieldError::invalid(field, warning, detail));
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        return refuse("can only be set for deprecated versions".to_owned());
    }
    if warning.is_empty() {
        refuse("must not be an empty string".to_owned());
    } else if warning.len() > MAX_WARNING {
        refuse(format!("must be <= {MAX_WARNING} characters long"));
    }
    if let Some(index) = warning.find(|c| !go::is_print(c)) {
        refuse(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {index}"
        ));
    }
}

/// Paths of numbers are plain field names, behind `.spec` what is wanted, behind `.status` what is.
fn scale(scale: Option<&Value>, path: &str, errors: &mut FieldErrors) {
    let Some(scale) = scale else { return };
    for (key, under) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let (field, value) = (format!("{path}.{key}"), text(scale, key).unwrap_or_default());
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        } else if let Some(error) = simple_path(&field, value) {
            errors.push(error);
        } else if !value.starts_with(under) {
            let detail = format!("should be a json path under {}", under.trim_end_matches('.'));
            errors.push(FieldError::invalid(field, value, detail));
        }
    }
    let field = format!("{path}.labelSelectorPath");
    let Some(value) = text(scale, "labelSelectorPath").filter(|value| !value.is_empty()) else { return };
    if let Some(error) = simple_path(&field, value) {
        errors.push(error);
    } else if !value.starts_with(".spec.") && !value.starts_with(".status.") {
        let detail = "should be a json path under either .spec or .status";
        errors.push(FieldError::invalid(field, value, detail));
    }
}

/// Paths of `scale` and of columns begin with a dot.
fn simple_path(field: &str, value: &str) -> Option<FieldError> {
    let detail = "must be a simple json path starting with .";
    (!value.starts_with('.')).then(|| FieldError::invalid(field, value, detail))
}

/// Checks one entry of `additionalPrinterColumns`.
fn column(column: &Value, path: &str, errors: &mut FieldErrors) {
    let get = |key: &str| text(column, key).unwrap_or_default();
    let one_of = |allowed: &[&str]| format!("must be one of {}", allowed.join(","));
    if get("name").is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    match get("type") {
        "" => errors.push(FieldError::required(format!("{path}.type"), one_of(&COLUMN_TYPES))),
        kind if COLUMN_TYPES.contains(&kind) => {}
        kind => errors.push(FieldError::invalid(format!("{path}.type"), kind, one_of(&COLUMN_TYPES))),
    }
    let format = get("format");
    if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
        errors.push(FieldError::invalid(format!("{path}.format"), format, one_of(&COLUMN_FORMATS)));
    }
    // kube-apiserver has this name in capitals only here.
    let field = format!("{path}.JSONPath");
    match get("jsonPath") {
        "" => errors.push(FieldError::required(field, "")),
        value => errors.extend(simple_path(&field, value)),
    }
}

/// Checks `selectableFields`: each path leads to a scalar of the schema, none into `metadata`, whose selectable fields
/// are fixed.
///
/// A path that the schema does not have is an error, unlike that of a column: a selector that never matches would
/// look like an empty list.
///
/// kube-apiserver looks for the schema where it found the fields: a shared list of fields with a schema per version is
/// refused, and so are fields per version with a shared schema.
fn selectable(versions: &[Value], version: &Value, path: &str, errors: &mut FieldErrors) {
    if list(version, "selectableFields").is_empty() {
        return;
    }
    let (shared_fields, shared_schema) = (alike(versions, "selectableFields"), alike(versions, "schema"));
    let schema = version.pointer("/schema/openAPIV3Schema");
    let Some(schema) = schema.filter(|_| shared_fields == shared_schema) else {
        let detail = match shared_fields {
            true => "may only be set when validations.schema is included",
            false => "may only be set when `version.schema.openAPIV3Schema` is not included",
        };
        errors.push(FieldError::invalid(path, "", detail));
        return;
    };
    let mut seen = std::collections::BTreeSet::new();
    for (index, selected) in list(version, "selectableFields").iter().enumerate() {
        let field = format!("{path}[{index}].jsonPath");
        let value = text(selected, "jsonPath").unwrap_or_default();
        if selectable_path(schema, value, &field, errors) && !seen.insert(value) {
            errors.push(FieldError::duplicate(field, value));
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE));
    }
}

/// Checks one path; false if it leads to no field, and so is not compared with the others.
fn selectable_path(schema: &Value, path: &str, field: &str, errors: &mut FieldErrors) -> bool {
    if path.is_empty() {
        errors.push(FieldError::required(field, ""));
        return false;
    }
    let found = match path {
        _ if path.contains('[') => Err("array notation is not allowed".to_owned()),
        _ if !path.starts_with('.') => {
            let word = path.split('.').next().unwrap_or_default();
            Err(format!("expected [ or . but got: {word}"))
        }
        _ => find(schema, path).ok_or_else(|| "does not refer to a valid field".to_owned()),
    };
    let found = match found {
        Ok(found) => found,
        Err(why) => {
            errors.push(FieldError::invalid(field, path, format!("is an invalid path: {why}")));
            return false;
        }
    };
    if path.starts_with(".metadata.") {
        errors.push(FieldError::invalid(field, path, "must not point to fields in metadata"));
    }
    if !matches!(text(found, "type"), Some("string" | "boolean" | "integer")) {
        let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
        errors.push(FieldError::invalid(field, path, detail));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use listwatch_wire::json::json;

    fn errors(spec: Value, mut version: Value) -> Vec<String> {
        if let Some(version) = version.as_object_mut() {
            version.insert("schema", json!({"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"color": {"type": "string"}, "sub": {"type": "object"}}}}}}));
        }
        let found = check(spec.as_object().unwrap(), &[version]);
        found.iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
    }

    #[test]
    fn parts_of_versions() {
        for (version, expected) in [
            (
                json!({"additionalPrinterColumns": [{"name": "a", "type": "string", "jsonPath": ".spec.color"}]}),
                vec![],
            ),
            (
                json!({"additionalPrinterColumns": [{"name": "", "type": "word", "format": "x", "jsonPath": "spec"}]}),
                vec![
                    "spec.additionalPrinterColumns[0].name Required",
                    "spec.additionalPrinterColumns[0].type Invalid",
                    "spec.additionalPrinterColumns[0].format Invalid",
                    "spec.additionalPrinterColumns[0].JSONPath Invalid",
                ],
            ),
            (
                json!({"subresources": {"scale": {"specReplicasPath": ".status.n", "statusReplicasPath": ""}}}),
                vec![
                    "spec.subresources.scale.specReplicasPath Invalid",
                    "spec.subresources.scale.statusReplicasPath Required",
                ],
            ),
            (json!({"selectableFields": [{"jsonPath": ".spec.color"}]}), vec![]),
            (
                json!({"selectableFields": [{"jsonPath": ".spec.nothing"}, {"jsonPath": ".spec.sub"}, {"jsonPath": ".spec.color"}, {"jsonPath": ".spec.color"}]}),
                vec![
                    "spec.selectableFields[0].jsonPath Invalid",
                    "spec.selectableFields[1].jsonPath Invalid",
                    "spec.selectableFields[3].jsonPath Duplicate",
                ],
            ),
            (json!({"deprecationWarning": "old\n"}), vec!["spec.versions[0].deprecationWarning Invalid"]),
            (
                json!({"deprecated": true, "deprecationWarning": "old\n".repeat(99)}),
                vec![
                    "spec.versions[0].deprecationWarning Invalid",
                    "spec.versions[0].deprecationWarning Invalid",
                ],
            ),
        ] {
            assert_eq!(errors(json!({}), version.clone()), expected, "{version}");
        }
    }

    #[test]
    fn conversions() {
        let webhook = json!({"clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]});
        for (conversion, expected) in [
            (json!({"strategy": "None"}), vec![]),
            (json!({"strategy": "Webhook", "webhook": webhook}), vec![]),
            (json!({"strategy": "Magic"}), vec!["spec.conversion.strategy NotSupported"]),
            (
                json!({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://u@x/?q"}, "conversionReviewVersions": ["v1", "v1"]}}),
                vec![
                    "spec.conversion.webhookClientConfig.url Invalid",
                    "spec.conversion.webhookClientConfig.url Invalid",
                    "spec.conversion.conversionReviewVersions[1] Invalid",
                ],
            ),
            (
                json!({"strategy": "Webhook"}),
                vec![
                    "spec.conversion.webhookClientConfig Required",
                    "spec.conversion.conversionReviewVersions Required",
                ],
            ),
            (
                json!({"strategy": "None", "webhook": webhook}),
                vec![
                    "spec.conversion.webhookClientConfig Forbidden",
                    "spec.conversion.conversionReviewVersions Forbidden",
                ],
            ),
        ] {
            assert_eq!(errors(json!({"conversion": conversion}), json!({})), expected, "{conversion}");
        }
    }
}
