//! The body of a PATCH: the four patch types, and the checks of a patched object.
//!
//! JSON patch, merge patch and strategic merge patch describe a change of the stored object; an apply configuration
//! is an object with its type and is merged by field ownership. This file parses and reports strict-decoding errors;
//! applying a patch to a tree is `listwatch_merge`, and the loop that applies it again after a conflict is
//! `verbs/patch.rs`. Errors never show the patched object, which may be a Secret.

use listwatch_kinds::tree::Tree;
use listwatch_merge::patch::{JsonPatch, parse_object_patch};
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::options::{FieldValidation, PatchType};
use listwatch_wire::status::FieldError;

use crate::pipeline::target::expected;
use crate::pipeline::{WriteRequest, body, yaml};

/// A parsed patch. The same one is applied to each newer version of the object until the commit succeeds.
#[derive(Debug)]
pub(crate) enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
    Apply(Value),
}

/// A patch with the strict-decoding errors of its own text.
#[derive(Debug)]
pub(crate) struct ParsedPatch {
    pub(crate) patch: Patch,
    pub(crate) strict_decoding_errors: Vec<String>,
}

/// Reads the body of a patch.
///
/// # Errors
///
/// 400 for a body that is not a patch of its type, 413 for too many operations or parts.
pub(crate) fn parse(kind: PatchType, request: &WriteRequest) -> Result<ParsedPatch, Status> {
    let body = &request.body;
    let mut strict_decoding_errors = Vec::new();
    let mut object = || -> Result<Value, Status> {
        let parsed = parse_object_patch(body)?;
        body::check_parts(&parsed.value, body)?;
        strict_decoding_errors = body::duplicate(&parsed.duplicates).collect();
        Ok(parsed.value)
    };
    let patch = match kind {
        PatchType::Json => {
            let patch = JsonPatch::parse(body)?;
            body::check_parts(&Value::Array(patch.values().cloned().collect()), body)?;
            strict_decoding_errors = patch.strict_decoding_errors().to_vec();
            Patch::Json(patch)
        }
        PatchType::Merge => match object()? {
            Value::Null => return Err(Status::bad_request("Invalid JSON Patch")),
            patch => Patch::Merge(patch),
        },
        PatchType::Strategic => Patch::Strategic(object()?),
        PatchType::Apply => {
            let document = applied(request)?;
            body::check_parts(&document.value, body)?;
            strict_decoding_errors = document.repeated;
            Patch::Apply(document.value)
        }
    };
    Ok(ParsedPatch { patch, strict_decoding_errors })
}

/// Reads an apply configuration, whose type must be that of the resource.
fn applied(request: &WriteRequest) -> Result<yaml::YamlDocument, Status> {
    let text = |error: String| Status::bad_request(format!("error encoding patch: {error}"));
    let document = match listwatch_wire::json::parse(&request.body) {
        Ok(parsed) if parsed.duplicates.is_empty() => {
            yaml::YamlDocument { value: yaml::as_json(parsed.value), repeated: Vec::new() }
        }
        _ => yaml::read(&request.body).map_err(text)?,
    };
    let object = &document.value;
    if !object.is_object() && !object.is_null() {
        let found = listwatch_wire::go::json_type(object);
        return Err(Status::bad_request(format!(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )));
    }
    if object.at("metadata").count("managedFields") > 0 {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    let wanted = expected(&request.resource);
    let (version, kind) = (object.text("apiVersion"), object.text("kind"));
    if (version, kind) != (&*wanted.api_version(), wanted.kind) {
        let version = if version.contains('/') { version.to_owned() } else { format!("/{version}") };
        return Err(Status::bad_request(format!("invalid object type: {version}, Kind={kind}")));
    }
    Ok(document)
}

/// Checks the types of a patched object. The offending object is not shown back: it may hold secrets.
///
/// # Errors
///
/// 422, without the patched object.
pub(crate) fn check_patched(
    new: &mut Value,
    strict_decoding_errors: &[String],
    validation: FieldValidation,
    decode: impl FnOnce(&mut Value) -> listwatch_kinds::typecheck::TypeReport,
) -> Result<Vec<String>, Status> {
    let report = decode(new);
    if let Some(error) = report.error {
        return Err(refused(error));
    }
    body::apply_field_validation(
        body::strict_decoding_errors(strict_decoding_errors.iter().cloned(), &report.unknown),
        validation,
    )
    .map_err(refused)
}

/// Rewrites a type error to kube-apiserver's message for a strategic merge patch, whose result it converts instead of
/// parsing.
pub(crate) fn as_converted(why: &str) -> String {
    converted(why).unwrap_or_else(|| why.to_owned())
}

/// The message of apimachinery's converter of unstructured objects for a type error; Go's decoder has another one.
fn converted(why: &str) -> Option<String> {
    let (found, rest) = why.strip_prefix("json: cannot unmarshal ")?.split_once(" into Go ")?;
    let (_, wanted) = rest.rsplit_once(" of type ")?;
    let found = match found.split_once(' ').unwrap_or((found, "")) {
        ("array", _) => "slice",
        ("object", _) => "map",
        ("number", digits) if digits.contains(['.', 'e', 'E']) => "float64",
        ("number", _) => "int64",
        (other, _) => other,
    };
    let is_scalar = matches!(wanted, "string" | "bool" | "int32" | "int64" | "float64");
    Some(match (wanted, found) {
        _ if wanted.starts_with("map[") => format!("cannot restore map from {found}"),
        _ if wanted.starts_with("[]") => format!("cannot restore slice from {found}"),
        (_, "int64" | "float64") if is_scalar => format!("cannot convert {found} to {wanted}"),
        _ if is_scalar => format!("unrecognized type: {wanted}"),
        _ => format!("cannot restore struct from: {found}"),
    })
}

/// Returns the 422 for a patch whose result is not an object of the kind. It shows a placeholder instead of the
/// object.
pub(crate) fn refused(why: String) -> Status {
    Status::invalid("", "", "", &[FieldError::invalid("patch", "<patched object>", why)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// kubectl's own tests look for this message.
    #[test]
    fn type_errors_of_a_strategic_patch_are_those_of_a_conversion() {
        let of = |found: &str, wanted: &str| {
            as_converted(&format!("json: cannot unmarshal {found} into Go struct field A.b of type {wanted}"))
        };
        assert_eq!(of("string", "map[string]string"), "cannot restore map from string");
        assert_eq!(of("array", "map[string]string"), "cannot restore map from slice");
        assert_eq!(of("string", "[]v1.Container"), "cannot restore slice from string");
        assert_eq!(of("string", "v1.PodSpec"), "cannot restore struct from: string");
        assert_eq!(of("string", "int64"), "unrecognized type: int64");
        assert_eq!(of("number", "string"), "cannot convert int64 to string");
        assert_eq!(of("number 1.5", "int64"), "cannot convert float64 to int64");
        assert_eq!(as_converted("parsing time"), "parsing time");
    }
}
