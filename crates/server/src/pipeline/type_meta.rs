//! The TypeMeta of a request body: the `kind` and `apiVersion` that it names, held against those that its path expects.
//!
//! Built-in kinds need not name themselves; custom ones must. The messages are those of Go's decoders, conversions and
//! schemes. Reading the body is [`super::body`]; the name and namespace are checked by [`super::target`].

use listwatch_wire::json::{Map, Value};
use listwatch_wire::status::FieldError;
use listwatch_wire::{Status, go};

use crate::pipeline::body::{Expected, summary};

/// The text about a body that is no object, in which no type can be found.
pub(crate) fn no_type(value: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        go::json_type(value)
    )
}

/// `kind` or `apiVersion` of a body; empty if it has none.
///
/// # Errors
/// The message about a value that is no text.
pub(crate) fn type_text<'a>(fields: &'a Map, key: &str) -> Result<&'a str, String> {
    match fields.get(key) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(other) => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{key} of type string",
            go::json_type(other)
        )),
    }
}

/// Sets `kind` and `apiVersion`, after checking that the body names no others. Returns the version that the body
/// named.
pub(super) fn name_kind(object: &mut Value, expected: Expected<'_>, bytes: &[u8]) -> Result<String, Status> {
    if object.is_null() {
        *object = Value::Object(listwatch_wire::json::Map::new());
    }
    let unrecognized = |why: String| {
        let (kind, shown) = (expected.kind, summary(bytes));
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
        ))
    };
    let Some(fields) = object.as_object_mut() else {
        return Err(unrecognized(no_type(object)));
    };
    let text = |key: &str| type_text(fields, key).map_err(&unrecognized);
    let (kind, api_version) = (text("kind")?, text("apiVersion")?);
    if api_version.matches('/').count() > 1 {
        return Err(unrecognized(format!("unexpected GroupVersion string: {api_version}")));
    }
    if !expected.builtin && kind.is_empty() {
        let sent = String::from_utf8_lossy(bytes);
        return Err(unrecognized(format!("Object 'Kind' is missing in '{sent}'")));
    }
    let wanted = expected.api_version();
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let version = if version.is_empty() { expected.version } else { version }.to_owned();
    let wrong_kind = !kind.is_empty() && kind != expected.kind;
    // As in kube-apiserver, whose built-in types are decoded without an apiVersion; custom ones are not.
    let may_lack = expected.builtin && api_version.is_empty();
    let wrong_version = !may_lack && api_version != wanted;
    if wrong_kind || wrong_version {
        return Err(mismatch(
            if kind.is_empty() { expected.kind } else { kind },
            fields
                .get("metadata")
                .and_then(|meta| meta.get("name"))
                .and_then(Value::as_str)
                .unwrap_or_default(),
            api_version,
            expected,
            wrong_version,
        ));
    }
    // All that the body names has been compared: only absent fields are added.
    let (lacks_kind, lacks_version) = (kind.is_empty(), api_version.is_empty());
    if lacks_kind {
        fields.insert("kind", expected.kind.into());
    }
    if lacks_version {
        fields.insert("apiVersion", wanted.into_owned().into());
    }
    Ok(version)
}

/// The error for a body of another kind or version, worded as Go's conversion and scheme errors.
fn mismatch(
    kind: &str,
    name: &str,
    api_version: &str,
    expected: Expected<'_>,
    wrong_version: bool,
) -> Status {
    let wanted = expected.api_version();
    if !expected.builtin {
        if wrong_version {
            return Status::bad_request(format!(
                "the API version in the data ({api_version}) does not match the expected API version ({wanted})"
            ));
        }
        let error = FieldError::invalid("kind", kind, format!("must be {}", expected.kind));
        return Status::invalid(expected.group, kind, name, &[error]);
    }
    let api_version = if api_version.is_empty() { &*wanted } else { api_version };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let known = listwatch_kinds::by_kind(group, version, kind).is_some()
        || kind
            .strip_suffix("List")
            .is_some_and(|item| listwatch_kinds::by_kind(group, version, item).is_some());
    let why = if known {
        let home = if group.is_empty() { "core" } else { group.split('.').next().unwrap_or(group) };
        format!("converting ({version}.{kind}) to ({home}.{}): unknown conversion", expected.kind)
    } else {
        format!(
            "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
        )
    };
    Status::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {}: {why}",
        expected.kind
    ))
}
