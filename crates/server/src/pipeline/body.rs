//! Decoding of request bodies: JSON, YAML or protobuf to a tree of the expected kind, with strict-decoding errors.
//!
//! The body is parsed once; the tree that comes out is the one that is defaulted, validated and written.
//! `fieldValidation` decides if duplicate and unknown fields are ignored, warned of or rejected. Messages repeat
//! Go's, including types and registry names that mean nothing here, because clients and recorded tests compare them.
//! An error shows at most 30 bytes of the body.
//!
//! The kind that a body names is checked in [`super::type_meta`], its values by a function of the strategy
//! ([`crate::registry`]), its identity by `target.rs`. Patches are `patch.rs`.

use std::borrow::Cow;

use listwatch_kinds::typecheck::TypeReport;
use listwatch_wire::json::Value;
use listwatch_wire::options::FieldValidation;
use listwatch_wire::{Status, json};

use crate::pipeline::type_meta::name_kind;
use crate::pipeline::yaml;

/// Media types of bodies.
pub(crate) const JSON: &str = "application/json";
pub(crate) const YAML: &str = "application/yaml";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// The bytes of an unreadable body that its error message shows.
const SHOWN_BYTES: usize = 30;

/// The most values of a body that defaults may be added to: objects, lists, and nulls in their place. `{}` is 3 bytes
/// in a body and hundreds once its defaults are in it, so that the size of a body alone bounds little. An object of the
/// largest size that can be stored has fewer: each has a name or contents.
const MOST_PARTS: usize = 200_000;

/// Refuses a body of too many parts.
///
/// # Errors
/// 413 if there are more than [`MOST_PARTS`].
pub(super) fn check_parts(value: &Value, bytes: &[u8]) -> Result<(), Status> {
    // Each part takes at least two bytes of JSON. YAML with aliases may have more, which its parser bounds.
    if bytes.len() <= MOST_PARTS {
        return Ok(());
    }
    let (mut parts, mut rest) = (0, vec![value]);
    while let Some(value) = rest.pop() {
        let is_part = |value: &&Value| !matches!(value, Value::Bool(_) | Value::Number(_) | Value::String(_));
        let before = rest.len();
        match value {
            Value::Array(items) => rest.extend(items.iter().filter(is_part)),
            Value::Object(fields) => rest.extend(fields.values().filter(is_part)),
            _ => {}
        }
        parts += rest.len() - before;
        if parts > MOST_PARTS {
            return Err(Status::too_large(&format!("limit is {MOST_PARTS} objects and lists in a body")));
        }
    }
    Ok(())
}

/// The kind of object that a path takes.
///
/// For a subresource it is the kind of the subresource, not of the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    /// Built-in kinds may come as protobuf and need not name themselves.
    pub(crate) builtin: bool,
}

impl Expected<'_> {
    /// `version`, or `group/version` outside of the core group.
    pub(crate) fn api_version(&self) -> Cow<'_, str> {
        if self.group.is_empty() {
            self.version.into()
        } else {
            format!("{}/{}", self.group, self.version).into()
        }
    }
}

/// A body that could be read.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) object: Value,
    /// Duplicate and unknown fields, unless validation ignores or rejects them.
    pub(crate) warnings: Vec<String>,
}

/// A parsed body with its duplicate keys.
struct ParsedBody {
    value: Value,
    repeated: Repeated,
}

/// Keys that an object has twice.
enum Repeated {
    /// Their paths.
    Json(Vec<String>),
    /// Their lines.
    Yaml(Vec<String>),
}

/// Checks the media type of a body. Of a create it comes before the options, of an update after them.
///
/// # Errors
/// 415 with the media types that are read.
pub(crate) fn check_media_type(content_type: Option<&str>, expected: Expected<'_>) -> Result<(), Status> {
    match &*media_type(content_type) {
        "" | JSON | YAML => Ok(()),
        PROTOBUF if expected.builtin => Ok(()),
        _ => Err(unsupported(expected)),
    }
}

/// The 415 of a body.
fn unsupported(expected: Expected<'_>) -> Status {
    match expected.builtin {
        true => Status::unsupported_media_type(&[JSON, YAML, PROTOBUF]),
        false => Status::unsupported_media_type(&[JSON, YAML]),
    }
}

/// Reads a whole object and checks it against its schema.
///
/// `check` is the strategy's type check, which also brings values into canonical form. Costs one parse and one walk
/// of the tree.
///
/// # Errors
///
/// 400 for a body that cannot be read, names another type or has values of the wrong type, 413 for one with too many
/// parts, 415 for an unknown media type. With strict validation, unknown and duplicate fields are a 400 too.
pub(crate) fn decode(
    content_type: Option<&str>,
    bytes: &[u8],
    expected: Expected<'_>,
    check: &(dyn Fn(&mut Value) -> TypeReport + Sync),
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    let (decoded, wrong_kind) = decode_any_kind(content_type, bytes, expected, check, validation)?;
    wrong_kind.map_or(Ok(decoded), Err)
}

/// Reads an object as [`decode`] does, and returns the error for a custom object of another kind with it, which
/// kube-apiserver finds when it validates the object. An update checks the name of the object first.
///
/// # Errors
/// As for [`decode`].
pub(crate) fn decode_any_kind(
    content_type: Option<&str>,
    bytes: &[u8],
    expected: Expected<'_>,
    check: &(dyn Fn(&mut Value) -> TypeReport + Sync),
    validation: FieldValidation,
) -> Result<(Decoded, Option<Status>), Status> {
    let parsed = parse(content_type, bytes, expected)?;
    let mut object = parsed.value;
    check_parts(&object, bytes)?;
    let (version, wrong_kind) = name_kind(&mut object, expected, bytes)?;
    let report = check(&mut object);
    let refuse = |why: &str| {
        let kind = expected.kind;
        Status::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
    };
    if let Some(error) = &report.error {
        return Err(refuse(error));
    }
    let strict_decoding_errors = match parsed.repeated {
        // Built-in kinds are read in the order of the body, custom ones first parsed and then pruned.
        Repeated::Json(paths) if expected.builtin => report.strict_decoding_errors(&paths, bytes),
        Repeated::Json(paths) => strict_decoding_errors(duplicate(&paths), &report.unknown),
        Repeated::Yaml(lines) if validation == FieldValidation::Strict && !lines.is_empty() => {
            strict_decoding_errors([yaml::unmarshal_errors(&lines)], &report.unknown)
        }
        Repeated::Yaml(lines) => strict_decoding_errors(lines, &report.unknown),
    };
    let warnings =
        apply_field_validation(strict_decoding_errors, validation).map_err(|text| refuse(&text))?;
    Ok((Decoded { object, warnings }, wrong_kind))
}

/// The messages for duplicate fields.
pub(crate) fn duplicate(paths: &[String]) -> impl Iterator<Item = String> {
    paths.iter().map(|path| format!("duplicate field {path:?}"))
}

/// Returns the strict-decoding errors: duplicate fields first, then unknown fields, in kube-apiserver's order.
pub(crate) fn strict_decoding_errors(
    text: impl IntoIterator<Item = String>,
    unknown: &[String],
) -> Vec<String> {
    let unknown = unknown.iter().map(|path| format!("unknown field {path:?}"));
    text.into_iter().chain(unknown).collect()
}

/// The effect of strict-decoding errors by the `fieldValidation` of the request: nothing, warnings, or an error.
///
/// # Errors
///
/// The message of the 400, for strict validation.
pub(crate) fn apply_field_validation(
    strict_decoding_errors: Vec<String>,
    validation: FieldValidation,
) -> Result<Vec<String>, String> {
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Strict if !strict_decoding_errors.is_empty() => {
            Err(format!("strict decoding error: {}", strict_decoding_errors.join(", ")))
        }
        _ => Ok(strict_decoding_errors),
    }
}

/// Reads a body of any supported media type. The errors are those of kube-apiserver's decoders.
fn parse(content_type: Option<&str>, bytes: &[u8], expected: Expected<'_>) -> Result<ParsedBody, Status> {
    let media = media_type(content_type);
    let unreadable = |why: String| {
        let kind = expected.kind;
        let shown = summary(bytes);
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
        ))
    };
    match &*media {
        "" | JSON => {
            // Built-in kinds are structs in kube-apiserver.
            let read = if expected.builtin { json::parse_merged } else { json::parse };
            let parsed = read(bytes).map_err(|error| {
                unreadable(format!("couldn't get version/kind; json parse error: {error}"))
            })?;
            Ok(ParsedBody { value: parsed.value, repeated: Repeated::Json(parsed.duplicates) })
        }
        YAML => {
            let document = yaml::read(bytes).map_err(unreadable)?;
            Ok(ParsedBody { value: document.value, repeated: Repeated::Yaml(document.repeated) })
        }
        PROTOBUF if expected.builtin => {
            let value = protobuf(bytes, expected).map_err(unreadable)?;
            Ok(ParsedBody { value, repeated: Repeated::Yaml(Vec::new()) })
        }
        _ => Err(unsupported(expected)),
    }
}

/// The media type in lower case, without parameters. A type with parameters that cannot be read is returned as it is, and is one
/// that no server knows.
pub(crate) fn media_type(content_type: Option<&str>) -> Cow<'_, str> {
    let content_type = content_type.unwrap_or_default();
    let (media, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let malformed = |parameter: &str| !parameter.trim().is_empty() && !parameter.contains('=');
    let is_known = !media.trim().is_empty() && !parameters.split(';').any(malformed);
    let media = if is_known { media.trim() } else { content_type };
    if media.bytes().any(|byte| byte.is_ascii_uppercase()) {
        media.to_ascii_lowercase().into()
    } else {
        media.into()
    }
}

/// The type of the object comes from the envelope; `expected` is for bodies without one.
fn protobuf(bytes: &[u8], expected: Expected<'_>) -> Result<Value, String> {
    listwatch_kinds::proto::decode(bytes, (&expected.api_version(), expected.kind))
        .map_err(|error| error.to_string())
}

/// The beginning of a body: text if it looks like an object, else hexadecimal.
///
/// Bounded, because the error shows it, and the body may be a Secret.
pub(super) fn summary(bytes: &[u8]) -> String {
    let shown = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    let more = if bytes.len() > SHOWN_BYTES { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG_MAP: Expected<'static> =
        Expected { group: "", version: "v1", kind: "ConfigMap", builtin: true };

    fn refused(content_type: Option<&str>, body: &str) -> String {
        let node = listwatch_kinds::schema::node("", "v1", "ConfigMap").unwrap();
        let check = |object: &mut Value| listwatch_kinds::typecheck::decode(node, object, None);
        decode(content_type, body.as_bytes(), CONFIG_MAP, &check, FieldValidation::Strict)
            .unwrap_err()
            .message
    }

    /// A Pod of a million empty containers, 3 MB, took 2 GB and a minute once each had its defaults.
    #[test]
    fn a_body_of_too_many_parts_is_refused_before_defaults() {
        let code = |text: &str| {
            let parsed = json::parse(text.as_bytes()).unwrap();
            check_parts(&parsed.value, text.as_bytes()).map_or_else(|status| status.code, |()| 200)
        };
        for part in ["{}", "null", "[]"] {
            assert_eq!(code(&format!("[{}{part}]", format!("{part},").repeat(300_000))), 413);
            assert_eq!(code(&format!("[{}{part}]", format!("{part},").repeat(100_000))), 200);
        }
        assert_eq!(code(&format!("[{}1]", "1,".repeat(300_000))), 200, "numbers have no defaults");
        assert_eq!(code(&format!("{{\"a\":[[{}{{}}]]}}", "{},".repeat(300_000))), 413, "at any depth");
    }

    #[test]
    fn recorded_refusals() {
        for (body, expected) in [
            (
                "{",
                "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({)",
            ),
            (
                "not json",
                "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: invalid character 'o' in literal null (expecting 'u') (6e6f74206a736f6e)",
            ),
            (
                r#"{"apiVersion":"v1","kind":"Secret"}"#,
                "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
            ),
            (
                r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#,
                "Deployment in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Deployment) to (core.ConfigMap): unknown conversion",
            ),
            (
                r#"{"apiVersion":"v2","kind":"ConfigMap"}"#,
                "ConfigMap in version \"v2\" cannot be handled as a ConfigMap: no kind \"ConfigMap\" is registered for version \"v2\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            ),
            (
                r#"{"apiVersion":"a/b/c","kind":"ConfigMap"}"#,
                "the object provided is unrecognized (must be of type ConfigMap): unexpected GroupVersion string: a/b/c ({\"apiVersion\":\"a/b/c\",\"kind\":\" ...)",
            ),
            (
                r#"{"data":{"k":5}}"#,
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                r#"{"extra":1}"#,
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"extra\"",
            ),
            (
                r#"{"data":{},"data":{}}"#,
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: duplicate field \"data\"",
            ),
        ] {
            assert_eq!(refused(None, body), expected, "{body}");
        }
        assert_eq!(
            refused(Some(YAML), "data:\n  k: a\n  k: b\nextra: 1\n"),
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  line 3: key \"k\" already set in map, unknown field \"extra\"",
        );
        assert!(
            refused(Some("text/plain"), "{}").starts_with("the body of the request was in an unknown format")
        );
    }

    /// A client that always joins group and version was refused.
    #[test]
    fn a_slash_may_stand_before_a_version_of_the_core_group() {
        let node = listwatch_kinds::schema::node("", "v1", "ConfigMap").unwrap();
        let check = |object: &mut Value| listwatch_kinds::typecheck::decode(node, object, None);
        let body = br#"{"apiVersion":"/v1","kind":"ConfigMap"}"#;
        let decoded = decode(None, body, CONFIG_MAP, &check, FieldValidation::Strict).unwrap();
        assert_eq!(decoded.object.get("apiVersion").and_then(Value::as_str), Some("v1"));
        assert!(refused(None, r#"{"apiVersion":"/v2","kind":"ConfigMap"}"#).contains("version \"v2\""));
    }
}
