//! Validation of the conversion between the versions of a definition: its strategy and the webhook.
//!
//! Errors are reported under the names that the fields had before they were grouped, as in kube-apiserver.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;
use listwatch_wire::status::{FieldError, FieldErrors};
use listwatch_wire::webhook_url;

use super::names::label_error;
use super::parts::list;
use super::text;

const CLIENT: &str = "spec.conversion.webhookClientConfig";
const VERSIONS: &str = "spec.conversion.conversionReviewVersions";

/// Adds the errors of a conversion.
///
/// The order of checks matters: a strategy that is not `Webhook` makes the webhook's fields an error by their
/// presence.
pub(super) fn check(conversion: &Value, errors: &mut FieldErrors) {
    let webhook = conversion.get("webhook").unwrap_or(&Value::Null);
    let (client, reviews) = (webhook.get("clientConfig"), list(webhook, "conversionReviewVersions"));
    match text(conversion, "strategy") {
        None if conversion.is_null() => return,
        None | Some("") => errors.push(FieldError::required("spec.conversion.strategy", "")),
        Some("Webhook") => {
            webhook_client(client, errors);
            review_versions(reviews, errors);
            return;
        }
        Some("None") => {}
        Some(other) => {
            errors.push(FieldError::not_supported("spec.conversion.strategy", other, &["None", "Webhook"]));
        }
    }
    let detail = "should not be set when strategy is not set to Webhook";
    errors.extend(client.map(|_| FieldError::forbidden(CLIENT, detail)));
    errors.extend((!reviews.is_empty()).then(|| FieldError::forbidden(VERSIONS, detail)));
}

/// Checks the client configuration: exactly one of a URL and a Service.
fn webhook_client(client: Option<&Value>, errors: &mut FieldErrors) {
    let exact = |client: &Value| client.get("url").is_some() != client.get("service").is_some();
    match client {
        None => errors.push(FieldError::required(CLIENT, "required when strategy is set to Webhook")),
        Some(client) if !exact(client) => {
            errors.push(FieldError::required(CLIENT, "exactly one of url or service is required"));
        }
        Some(client) => {
            for (part, why) in text(client, "url").map(webhook_url::findings).unwrap_or_default() {
                errors.push(FieldError::invalid(format!("{CLIENT}.url"), part, why));
            }
            if let Some(service) = client.get("service") {
                webhook_service(service, &format!("{CLIENT}.service"), errors);
            }
        }
    }
}

/// Versions are labels, each named once, and one of them is known.
fn review_versions(reviews: &[Value], errors: &mut FieldErrors) {
    if reviews.is_empty() {
        errors.push(FieldError::required(VERSIONS, ""));
        return;
    }
    let mut seen = HashSet::new();
    for (index, version) in reviews.iter().filter_map(Value::as_str).enumerate() {
        let field = format!("{VERSIONS}[{index}]");
        if !seen.insert(version) {
            errors.push(FieldError::invalid(field, version, "duplicate version"));
        } else if let Some(why) = label_error(version) {
            errors.push(FieldError::invalid(field, version, why));
        }
    }
    if !seen.contains("v1") && !seen.contains("v1beta1") {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(VERSIONS, reviews.to_vec(), detail));
    }
}

/// The same rules as for admission webhooks. kube-apiserver reports a missing name at the namespace and the other way
/// round.
fn webhook_service(service: &Value, path: &str, errors: &mut FieldErrors) {
    for (key, shown) in [("namespace", "name"), ("name", "namespace")] {
        if text(service, key).is_none_or(str::is_empty) {
            errors.push(FieldError::required(format!("{path}.{shown}"), ""));
        }
    }
    if let Some(port) =
        service.get("port").and_then(Value::as_i64).filter(|port| !(1..=65_535).contains(port))
    {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{path}.port"), port, detail));
    }
    let Some(at) = text(service, "path").filter(|at| !at.is_empty()) else { return };
    let field = format!("{path}.path");
    if !at.starts_with('/') {
        errors.push(FieldError::invalid(field.clone(), at, "must start with a '/'"));
    }
    let inside = at.get(1..).unwrap_or_default();
    let inside = inside.strip_suffix('/').unwrap_or(inside);
    for (index, segment) in inside.split('/').enumerate().filter(|_| at != "/") {
        if segment.is_empty() {
            let detail = format!("segment[{index}] may not be empty");
            errors.push(FieldError::invalid(field.clone(), at, detail));
        }
        for why in subdomain_errors(segment).into_iter().filter(|_| !segment.is_empty()) {
            errors.push(FieldError::invalid(field.clone(), at, format!("segment[{index}]: {why}")));
        }
    }
}
