//! AuthorizationConfiguration (`--authorization-config`): several authorizers in order, webhooks with conditions among them.
//!
//! Validation and its messages are kube-apiserver's. Unknown fields are errors: a rule that is ignored would allow what the
//! administrator meant to refuse. The file is read again when it changes ([`super::authorization_reload`]).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use listwatch_kinds::tree::Tree;
use listwatch_wire::go::quote;
use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;
use listwatch_wire::status::{FieldError, aggregate};

use crate::auth::access_webhook::{AccessFailurePolicy, AccessWebhookOptions, check_conditions};
use crate::auth::{AuthorizationMode, ReviewVersion};
use crate::files;
use crate::outbound::go_duration;

const GROUP: &str = "apiserver.config.k8s.io";
const KIND: &str = "AuthorizationConfiguration";
/// The types of authorizers that kube-apiserver has.
const TYPES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
const WEBHOOK: &str = "Webhook";
/// The longest time that a webhook may be given.
const MAX_TIMEOUT: Duration = Duration::from_secs(30);

/// The fields of each object of the file, by the path to it without indices.
const FIELDS: [(&str, &[&str]); 5] = [
    ("", &["apiVersion", "kind", "authorizers"]),
    ("authorizers", &["type", "name", "webhook"]),
    (
        "authorizers.webhook",
        &[
            "authorizedTTL",
            "cacheAuthorizedRequests",
            "unauthorizedTTL",
            "cacheUnauthorizedRequests",
            "timeout",
            "subjectAccessReviewVersion",
            "matchConditionSubjectAccessReviewVersion",
            "failurePolicy",
            "connectionInfo",
            "matchConditions",
        ],
    ),
    ("authorizers.webhook.connectionInfo", &["type", "kubeConfigFile"]),
    ("authorizers.webhook.matchConditions", &["expression"]),
];

/// Reads the authorizers of an AuthorizationConfiguration, in YAML or JSON, in their order.
///
/// ```
/// use listwatch_server::auth::{AuthorizationMode, parse_authorization_config};
///
/// let text = r#"
/// apiVersion: apiserver.config.k8s.io/v1
/// kind: AuthorizationConfiguration
/// authorizers:
/// - {type: Node, name: node}
/// - {type: RBAC, name: rbac}
/// "#;
/// assert_eq!(parse_authorization_config(text).unwrap(), [AuthorizationMode::Node, AuthorizationMode::Rbac]);
/// let error = parse_authorization_config(&text.replace("type: RBAC", "type: Roles")).unwrap_err();
/// assert!(error.contains(r#"authorizers[1].type: Unsupported value: "Roles""#));
/// ```
///
/// # Errors
/// All problems with the configuration, in kube-apiserver's words.
pub fn parse_authorization_config(text: &str) -> Result<Vec<AuthorizationMode>, String> {
    let unloaded = |why: String| format!("failed to load AuthorizationConfiguration from file: {why}");
    let tree = files::yaml_tree(text).map_err(|error| unloaded(error.to_string()))?;
    check_kind(&tree).map_err(unloaded)?;
    let mut strange = Vec::new();
    unknown_fields(&tree, "", "", &mut strange);
    if !strange.is_empty() {
        return Err(unloaded(format!("strict decoding error: {}", strange.join(", "))));
    }
    let errors = errors(&tree).map_err(unloaded)?;
    if !errors.is_empty() {
        return Err(aggregate(errors.iter().map(ToString::to_string)));
    }
    let authorizers = tree.list("authorizers");
    let misnamed: Vec<String> = authorizers.iter().filter_map(misnamed).collect();
    if !misnamed.is_empty() {
        return Err(aggregate(misnamed));
    }
    authorizers.iter().map(mode).collect()
}

/// The kind is the same in all versions.
fn check_kind(tree: &Value) -> Result<(), String> {
    let (version, kind) = (tree.text("apiVersion"), tree.text("kind"));
    let known = ["v1", "v1beta1", "v1alpha1"].iter().any(|known| version == format!("{GROUP}/{known}"));
    if known && kind == KIND {
        return Ok(());
    }
    if version.is_empty() || kind.is_empty() {
        let missing = if version.is_empty() { "apiVersion" } else { "Kind" };
        return Err(format!("Object '{missing}' is missing"));
    }
    let scheme = "k8s.io/apiserver/pkg/apis/apiserver/load/load.go:32";
    Err(format!(
        "no kind {} is registered for version {} in scheme {}",
        quote(kind),
        quote(version),
        quote(scheme)
    ))
}

/// Fields that no object of the file has.
fn unknown_fields(value: &Value, shape: &str, path: &str, errors: &mut Vec<String>) {
    if let Some(items) = value.as_array() {
        for (index, item) in items.iter().enumerate() {
            unknown_fields(item, shape, &format!("{path}[{index}]"), errors);
        }
        return;
    }
    let Some((_, known)) = FIELDS.iter().find(|(known, _)| *known == shape) else { return };
    for (key, inner) in value.as_object().into_iter().flat_map(|map| map.iter()) {
        let join = |before: &str| if before.is_empty() { key.to_string() } else { format!("{before}.{key}") };
        match known.contains(&key.as_str()) {
            true => unknown_fields(inner, &join(shape), &join(path), errors),
            false => errors.push(format!("unknown field {}", quote(&join(path)))),
        }
    }
}

/// Validates the authorizers.
///
/// # Errors
/// A value of another type than its field.
fn errors(tree: &Value) -> Result<Vec<FieldError>, String> {
    let authorizers = tree.list("authorizers");
    let mut errors = Vec::new();
    if authorizers.is_empty() {
        errors.push(FieldError::required("authorizers", "at least one authorization mode must be defined"));
    }
    let (mut types, mut names) = (HashSet::new(), HashSet::new());
    for (index, authorizer) in authorizers.iter().enumerate() {
        let path = format!("authorizers[{index}]");
        let kind = authorizer.text("type");
        if let Some(error) = type_error(kind, &path, &types) {
            errors.push(error);
            continue;
        }
        types.insert(kind);
        errors.extend(name_error(authorizer.text("name"), &path, &names));
        names.insert(authorizer.text("name"));
        let webhook = authorizer.at("webhook");
        match (kind == WEBHOOK, webhook.is_null()) {
            (true, true) => {
                errors.push(FieldError::required(format!("{path}.webhook"), "required when type=Webhook"));
            }
            (true, false) => webhook_errors(webhook, &path, &mut errors)?,
            (false, true) => {}
            (false, false) => {
                let detail = "may only be specified when type=Webhook";
                errors.push(FieldError::invalid(format!("{path}.webhook"), "non-null", detail));
            }
        }
    }
    Ok(errors)
}

/// Only webhooks may be repeated.
fn type_error(kind: &str, path: &str, seen: &HashSet<&str>) -> Option<FieldError> {
    let path = format!("{path}.type");
    if kind.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    if !TYPES.contains(&kind) {
        return Some(FieldError::not_supported(path, kind, &TYPES));
    }
    (kind != WEBHOOK && seen.contains(kind)).then(|| FieldError::duplicate(path, kind))
}

fn name_error(name: &str, path: &str, seen: &HashSet<&str>) -> Option<FieldError> {
    let path = format!("{path}.name");
    if name.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    if seen.contains(name) {
        return Some(FieldError::duplicate(path, name));
    }
    let wrong = subdomain_errors(name);
    let detail = || format!("authorizer name is invalid: {}", wrong.join(", "));
    (!wrong.is_empty()).then(|| FieldError::invalid(path, name, detail()))
}

/// A time of the file; `absent` if it is zero or not there.
fn time(webhook: &Value, field: &str, absent: Duration) -> Result<Result<Duration, String>, String> {
    let value = webhook.at(field);
    if value.is_null() {
        return Ok(Ok(absent));
    }
    let text = value.as_str().ok_or_else(|| format!("{field} is no duration"))?;
    let nanos = listwatch_cel::parse_duration(text)
        .ok_or_else(|| format!("time: invalid duration {}", quote(text)))?;
    let magnitude = Duration::from_nanos(nanos.unsigned_abs());
    Ok(match nanos {
        0 => Ok(absent),
        1.. => Ok(magnitude),
        _ => Err(format!("-{}", go_duration(magnitude))),
    })
}

/// Validates a webhook. Paths are those of the authorizer, as in kube-apiserver.
fn webhook_errors(webhook: &Value, path: &str, errors: &mut Vec<FieldError>) -> Result<(), String> {
    match time(webhook, "timeout", Duration::ZERO)? {
        Ok(Duration::ZERO) => errors.push(FieldError::required(format!("{path}.timeout"), "")),
        Ok(timeout) if timeout <= MAX_TIMEOUT => {}
        Ok(timeout) => errors.push(timeout_error(path, go_duration(timeout))),
        Err(negative) => errors.push(timeout_error(path, negative)),
    }
    for field in ["authorizedTTL", "unauthorizedTTL"] {
        if let Err(negative) = time(webhook, field, Duration::ZERO)? {
            errors.push(FieldError::invalid(format!("{path}.{field}"), negative, "must be > 0s"));
        }
    }
    let choice = |field: &str, known: &[&str]| match webhook.text(field) {
        "" => Some(FieldError::required(format!("{path}.{field}"), "")),
        text if known.contains(&text) => None,
        text => Some(FieldError::not_supported(format!("{path}.{field}"), text, known)),
    };
    errors.extend(choice("subjectAccessReviewVersion", &["v1", "v1beta1"]));
    let field = "matchConditionSubjectAccessReviewVersion";
    let has_conditions = !webhook.list("matchConditions").is_empty();
    match webhook.text(field) {
        "" if has_conditions => {
            let detail = "required if match conditions are specified";
            errors.push(FieldError::required(format!("{path}.{field}"), detail));
        }
        "" => {}
        _ => errors.extend(choice(field, &["v1"])),
    }
    errors.extend(choice("failurePolicy", &["NoOpinion", "Deny"]));
    errors.extend(connection_error(webhook.at("connectionInfo"), path));
    errors.extend(check_conditions(&conditions(webhook), &format!("{path}.")).err().into_iter().flatten());
    Ok(())
}

fn timeout_error(path: &str, timeout: String) -> FieldError {
    FieldError::invalid(format!("{path}.timeout"), timeout, "must be > 0s and <= 30s")
}

fn conditions(webhook: &Value) -> Vec<String> {
    webhook.list("matchConditions").iter().map(|condition| condition.text("expression").to_owned()).collect()
}

/// Only a kubeconfig says where a webhook is: this server has no in-cluster configuration.
fn connection_error(info: &Value, path: &str) -> Option<FieldError> {
    let file = info.text("kubeConfigFile");
    let (kind, path) = (info.text("type"), format!("{path}.connectionInfo"));
    if kind.is_empty() {
        return Some(FieldError::required(format!("{path}.type"), ""));
    }
    if kind != "KubeConfigFile" {
        return Some(FieldError::not_supported(format!("{path}.type"), kind, &["KubeConfigFile"]));
    }
    let path = format!("{path}.kubeConfigFile");
    if file.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    if !Path::new(file).is_absolute() {
        return Some(FieldError::invalid(path, file, "must be an absolute path"));
    }
    match std::fs::metadata(file) {
        Err(error) => Some(FieldError::invalid(path, file, unloadable(file, &error))),
        Ok(found) => (!found.is_file()).then(|| FieldError::invalid(path, file, "must be a regular file")),
    }
}

/// A file that cannot be looked at, in Go's words where people know them.
fn unloadable(file: &str, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("error loading file: stat {file}: no such file or directory"),
        std::io::ErrorKind::PermissionDenied => format!("error loading file: stat {file}: permission denied"),
        _ => format!("error loading file: stat {file}: {error}"),
    }
}

/// An authorizer that is no webhook has the name of its type.
fn misnamed(authorizer: &Value) -> Option<String> {
    let (kind, name) = (authorizer.text("type"), authorizer.text("name"));
    let expected = kind.to_lowercase();
    (kind != WEBHOOK && name != expected)
        .then(|| format!("expected name {expected} for authorizer {kind} instead of {name}"))
}

/// The options of a valid authorizer.
///
/// # Errors
/// ABAC, which this server does not have.
fn mode(authorizer: &Value) -> Result<AuthorizationMode, String> {
    Ok(match authorizer.text("type") {
        "AlwaysAllow" => AuthorizationMode::AlwaysAllow,
        "AlwaysDeny" => AuthorizationMode::AlwaysDeny,
        "Node" => AuthorizationMode::Node,
        "RBAC" => AuthorizationMode::Rbac,
        WEBHOOK => AuthorizationMode::Webhook(Box::new(webhook(authorizer)?)),
        other => return Err(format!("authorizer type {other} is not supported")),
    })
}

fn webhook(authorizer: &Value) -> Result<AccessWebhookOptions, String> {
    let webhook = authorizer.at("webhook");
    let defaults =
        AccessWebhookOptions::new(PathBuf::from(webhook.at("connectionInfo").text("kubeConfigFile")));
    let ttl = |field: &str, cached: &str, default: Duration| match webhook.at(cached) {
        Value::Bool(false) => Ok(Duration::ZERO),
        _ => time(webhook, field, default)?,
    };
    Ok(AccessWebhookOptions {
        name: authorizer.text("name").to_owned(),
        version: webhook.text("subjectAccessReviewVersion").parse::<ReviewVersion>()?,
        authorized_ttl: ttl("authorizedTTL", "cacheAuthorizedRequests", defaults.authorized_ttl)?,
        unauthorized_ttl: ttl("unauthorizedTTL", "cacheUnauthorizedRequests", defaults.unauthorized_ttl)?,
        timeout: time(webhook, "timeout", defaults.timeout)??,
        failure_policy: match webhook.text("failurePolicy") {
            "Deny" => AccessFailurePolicy::Deny,
            _ => AccessFailurePolicy::NoOpinion,
        },
        match_conditions: conditions(webhook),
        ..defaults
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(authorizers: &str) -> Result<Vec<AuthorizationMode>, String> {
        parse_authorization_config(&format!(
            r#"{{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthorizationConfiguration", "authorizers": {authorizers}}}"#
        ))
    }

    /// A webhook with these fields besides those that it must have.
    fn with(more: &str) -> String {
        format!(
            r#"[{{type: Webhook, name: w, webhook: {{timeout: 3s, subjectAccessReviewVersion: v1, failurePolicy: Deny,
                connectionInfo: {{type: KubeConfigFile, kubeConfigFile: /etc/passwd}}, {more}}}}}]"#
        )
    }

    #[test]
    fn a_webhook_has_the_defaults_of_kube_apiserver() {
        let modes = of(&with("")).unwrap();
        let expected = AccessWebhookOptions {
            name: "w".to_owned(),
            version: ReviewVersion::V1,
            timeout: Duration::from_secs(3),
            failure_policy: AccessFailurePolicy::Deny,
            ..AccessWebhookOptions::new("/etc/passwd".into())
        };
        assert_eq!(modes, [AuthorizationMode::Webhook(Box::new(expected.clone()))]);
        let uncached = of(&with("cacheAuthorizedRequests: false, unauthorizedTTL: 1m")).unwrap();
        let expected = AccessWebhookOptions {
            authorized_ttl: Duration::ZERO,
            unauthorized_ttl: Duration::from_secs(60),
            ..expected
        };
        assert_eq!(uncached, [AuthorizationMode::Webhook(Box::new(expected))]);
    }

    #[test]
    fn errors_are_those_of_kube_apiserver() {
        let empty = "{type: Webhook, name: w, webhook: {}}";
        for (authorizers, expected) in [
            ("[]", "authorizers: Required value: at least one authorization mode must be defined"),
            ("[{name: a}]", "authorizers[0].type: Required value"),
            (
                "[{type: Foo, name: a}]",
                r#"authorizers[0].type: Unsupported value: "Foo": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook""#,
            ),
            (
                "[{type: RBAC, name: rbac}, {type: RBAC, name: b}]",
                r#"authorizers[1].type: Duplicate value: "RBAC""#,
            ),
            (
                "[{type: RBAC, name: rbac}, {type: Node, name: rbac}]",
                r#"authorizers[1].name: Duplicate value: "rbac""#,
            ),
            ("[{type: RBAC}]", "authorizers[0].name: Required value"),
            ("[{type: RBAC, name: roles}]", "expected name rbac for authorizer RBAC instead of roles"),
            (
                "[{type: Webhook, name: w}]",
                "authorizers[0].webhook: Required value: required when type=Webhook",
            ),
            (
                "[{type: RBAC, name: rbac, webhook: {}}]",
                r#"authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook"#,
            ),
            (
                &format!("[{empty}]"),
                "[authorizers[0].timeout: Required value, authorizers[0].subjectAccessReviewVersion: Required value, authorizers[0].failurePolicy: Required value, authorizers[0].connectionInfo.type: Required value]",
            ),
            (
                "[{type: RBAC, name: rbac, webhooks: {}}]",
                r#"failed to load AuthorizationConfiguration from file: strict decoding error: unknown field "authorizers[0].webhooks""#,
            ),
            (
                &with("matchConditions: [{expression: 'true'}]"),
                "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
            ),
            (
                &with("timeout: 1m").replace("timeout: 3s, ", ""),
                r#"authorizers[0].timeout: Invalid value: "1m0s": must be > 0s and <= 30s"#,
            ),
            (
                &with("authorizedTTL: -1s"),
                r#"authorizers[0].authorizedTTL: Invalid value: "-1s": must be > 0s"#,
            ),
            (
                &with("").replace("/etc/passwd", "a"),
                r#"authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "a": must be an absolute path"#,
            ),
            (
                &with("").replace("/etc/passwd", "/none"),
                r#"authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/none": error loading file: stat /none: no such file or directory"#,
            ),
            (
                &with("").replace("/etc/passwd", "/etc"),
                r#"authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/etc": must be a regular file"#,
            ),
        ] {
            assert_eq!(of(authorizers).unwrap_err(), expected, "{authorizers}");
        }
        let other = parse_authorization_config("apiVersion: v1\nkind: Pod").unwrap_err();
        assert!(other.ends_with(r#"no kind "Pod" is registered for version "v1" in scheme "k8s.io/apiserver/pkg/apis/apiserver/load/load.go:32""#), "{other}");
        assert!(of("[{type: ABAC, name: abac}]").is_err());
    }
}
