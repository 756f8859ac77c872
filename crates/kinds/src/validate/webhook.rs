//! Webhook configurations.

use std::collections::HashSet;

use listwatch_wire::json::Value;
use listwatch_wire::names::subdomain_errors;

use super::selector;
use crate::field::{Errors, Path};
use crate::tree::Tree;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(super) fn configuration(new: &Value, errors: &mut Errors) {
    let path = Path::root("webhooks");
    let mut seen = HashSet::new();
    for (index, hook) in new.list("webhooks").iter().enumerate() {
        let path = path.index(index);
        webhook(hook, &path, errors);
        let name = hook.text("name");
        if !name.is_empty() && !seen.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
    }
}

fn webhook(hook: &Value, path: &Path<'_>, errors: &mut Errors) {
    name(hook.text("name"), &path.child("name"), errors);
    let rules = path.child("rules");
    for (index, item) in hook.list("rules").iter().enumerate() {
        rule(item, &rules.index(index), errors);
    }
    for (key, known) in [
        ("failurePolicy", ["Fail", "Ignore"].as_slice()),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
    ] {
        if hook.has(key) {
            errors.one_of(&path.child(key), hook.text(key), known);
        }
    }
    errors.required_one_of(&path.child("sideEffects"), hook.text("sideEffects"), &["None", "NoneOnDryRun"]);
    if let Some(seconds) = hook.int("timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        errors.invalid(
            &path.child("timeoutSeconds"),
            seconds,
            "the timeout value must be between 1 and 30 seconds",
        );
    }
    for key in ["namespaceSelector", "objectSelector"] {
        selector::check(hook.at(key), &path.child(key), errors);
    }
    client(hook.at("clientConfig"), &path.child("clientConfig"), errors);
    let versions = path.child("admissionReviewVersions");
    let known = |version: &Value| version == "v1" || version == "v1beta1";
    if hook.count("admissionReviewVersions") == 0 {
        errors.required(&versions, "must specify one of v1, v1beta1");
    } else if !hook.list("admissionReviewVersions").iter().any(known) {
        let detail = "must include at least one of v1, v1beta1";
        errors.invalid(&versions, hook.at("admissionReviewVersions").clone(), detail);
    }
}

fn name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.required(path, "");
        return;
    }
    errors.invalid_all(path, name, subdomain_errors(name));
    if name.split('.').count() < 3 {
        errors.invalid(path, name, "should be a domain with at least three segments separated by dots");
    }
}

fn rule(rule: &Value, path: &Path<'_>, errors: &mut Errors) {
    for key in ["operations", "apiGroups", "apiVersions", "resources"] {
        let (items, path) = (rule.list(key), path.child(key));
        if items.is_empty() {
            errors.required(&path, "");
        }
        if key != "resources" && items.len() > 1 && items.iter().any(|item| item == "*") {
            let what = match key {
                "operations" => "operations",
                "apiGroups" => "API groups",
                _ => "API versions",
            };
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.invalid(&path, rule.at(key).clone(), detail);
        }
    }
    let operations = path.child("operations");
    for (index, operation) in rule.list("operations").iter().filter_map(Value::as_str).enumerate() {
        errors.one_of(&operations.index(index), operation, OPERATIONS);
    }
    if rule.has("scope") {
        errors.one_of(&path.child("scope"), rule.text("scope"), &["*", "Cluster", "Namespaced"]);
    }
}

fn client(config: &Value, path: &Path<'_>, errors: &mut Errors) {
    if config.has("url") == config.has("service") {
        errors.required(path, "exactly one of url or service is required");
        return;
    }
    let url = config.text("url");
    if config.has("url") && !url.starts_with("https://") {
        let detail = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
        errors.invalid(&path.child("url"), url, detail);
    }
    let service = path.child("service");
    for key in ["name", "namespace"].into_iter().filter(|_| config.has("service")) {
        if config.at("service").text(key).is_empty() {
            errors.required(&service.child(key), format!("service {key} is required"));
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    #[test]
    fn a_webhook_says_whom_to_ask_about_what() {
        let found = |hook: Value| -> Vec<String> {
            let mut errors = Errors::new();
            configuration(&json!({"webhooks": [hook]}), &mut errors);
            errors.into_fields()
        };
        let whole = json!({"name": "a.b.c", "clientConfig": {"url": "https://x"}, "sideEffects": "None", "admissionReviewVersions": ["v1"]});
        assert_eq!(found(whole.clone()), [""; 0]);
        let with = |key: &str, value: Value| {
            let mut hook = whole.clone();
            hook.as_object_mut().unwrap().put(key, value);
            found(hook)
        };
        assert_eq!(with("name", json!("a.b")), ["webhooks[0].name"]);
        assert_eq!(with("timeoutSeconds", json!(31)), ["webhooks[0].timeoutSeconds"]);
        assert_eq!(with("clientConfig", json!({"url": "http://x"})), ["webhooks[0].clientConfig.url"]);
        let rule = json!([{"operations": ["*", "CREATE"], "apiGroups": [""], "apiVersions": ["v1"]}]);
        assert_eq!(
            with("rules", rule),
            ["webhooks[0].rules[0].operations", "webhooks[0].rules[0].resources"]
        );
    }
}
