//! The TypeMeta of a request body: the `kind` and `apiVersion` that it names, held against those that its path expects.
//!
//! Built-in kinds need not name themselves; custom ones must. The messages are those of Go's decoders, conversions and
//! schemes. Reading the body is [`super::body`]; the name and namespace are checked by [`super::target`].

use listwatch_wire::json::{Map, Value};
use listwatch_wire::status::FieldError;
use listwatch_wire::{Status, go};

use crate::pipeline::body::{Expected, summary};

/// The text about a body that is not an object, in which no type can be found.
pub(crate) fn no_type(value: &Value) -> String {
    format!(
        "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
        go::json_type(value)
    )
}

/// `kind` or `apiVersion` of a body; empty if it has none.
///
/// # Errors
/// The message about a value that is not a text.
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
/// named, and the error for a custom object of another kind, which comes after other checks. `/v1` is
/// the core group's `v1`, for clients that always join group and version.
///
/// # Errors
/// 400 for a body without a type or of another one.
pub(super) fn name_kind(
    object: &mut Value,
    expected: Expected<'_>,
    bytes: &[u8],
) -> Result<(String, Option<Status>), Status> {
    if object.is_null() {
        *object = Value::Object(Map::new());
    }
    let Some(fields) = object.as_object_mut() else {
        return Err(unrecognized(expected, bytes, &no_type(object)));
    };
    let NamedType { kind, api_version, is_written_otherwise } = named_type(fields, expected, bytes)?;
    let wanted = expected.api_version();
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let version = if version.is_empty() { expected.version } else { version }.to_owned();
    let is_other_kind = !kind.is_empty() && kind != expected.kind;
    // As in kube-apiserver, whose built-in types are decoded without an apiVersion; custom ones are not.
    let may_lack = expected.builtin && api_version.is_empty();
    let is_other_version = !may_lack && api_version != wanted;
    if is_other_version || is_other_kind && expected.builtin {
        let kind = if kind.is_empty() { expected.kind } else { kind };
        return Err(mismatch(kind, api_version, expected));
    }
    let wrong_kind = is_other_kind.then(|| custom_kind_error(fields, kind, expected));
    // All that the body names has been compared: only absent fields are added.
    let (lacks_kind, lacks_version) = (kind.is_empty(), api_version.is_empty() || is_written_otherwise);
    if lacks_kind {
        fields.insert("kind", expected.kind.into());
    }
    if lacks_version {
        fields.insert("apiVersion", wanted.into_owned().into());
    }
    Ok((version, wrong_kind))
}

/// The type that a body names; parts that it does not name are empty.
struct NamedType<'a> {
    kind: &'a str,
    api_version: &'a str,
    /// The body has a slash before the version of the core group.
    is_written_otherwise: bool,
}

/// Reads the type of a body.
///
/// # Errors
/// 400 for a type that is not a text, a custom object without a kind, and an `apiVersion` that is none.
fn named_type<'a>(fields: &'a Map, expected: Expected<'_>, bytes: &[u8]) -> Result<NamedType<'a>, Status> {
    let text = |key: &str| type_text(fields, key).map_err(|why| unrecognized(expected, bytes, &why));
    let (kind, sent_version) = (text("kind")?, text("apiVersion")?);
    let is_core = expected.builtin && expected.group.is_empty();
    let core_version = sent_version.strip_prefix('/').filter(|_| is_core);
    let api_version = core_version.unwrap_or(sent_version);
    if api_version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {api_version}");
        return Err(unrecognized(expected, bytes, &why));
    }
    if !expected.builtin && kind.is_empty() {
        let sent = String::from_utf8_lossy(bytes);
        return Err(unrecognized(expected, bytes, &format!("Object 'Kind' is missing in '{sent}'")));
    }
    Ok(NamedType { kind, api_version, is_written_otherwise: core_version.is_some() })
}

/// The error for a body whose type cannot be read.
fn unrecognized(expected: Expected<'_>, bytes: &[u8], why: &str) -> Status {
    let (kind, shown) = (expected.kind, summary(bytes));
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
    ))
}

/// The error for a custom object of another kind.
fn custom_kind_error(fields: &Map, kind: &str, expected: Expected<'_>) -> Status {
    let name = fields.get("metadata").and_then(|meta| meta.get("name")).and_then(Value::as_str);
    let error = FieldError::invalid("kind", kind, format!("must be {}", expected.kind));
    Status::invalid(expected.group, kind, name.unwrap_or_default(), &[error])
}

/// The error for a body of another kind or version, worded as Go's conversion and scheme errors.
fn mismatch(kind: &str, api_version: &str, expected: Expected<'_>) -> Status {
    let wanted = expected.api_version();
    if !expected.builtin {
        return Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({wanted})"
        ));
    }
    let api_version = if api_version.is_empty() { &*wanted } else { api_version };
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let known = listwatch_kinds::by_kind(group, version, kind).is_some()
        || kind
            .strip_suffix("List")
            .is_some_and(|item| listwatch_kinds::by_kind(group, version, item).is_some());
    let why = if known {
        let home = expected.group.split('.').next().filter(|home| !home.is_empty()).unwrap_or("core");
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
