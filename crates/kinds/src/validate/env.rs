//! The environment of a container, and the downward API that it shares with volumes.

use listwatch_wire::json::Value;
use listwatch_wire::names::{label_key_errors, subdomain_errors};

use crate::field::{Errors, Path};
use crate::names;
use crate::tree::Tree;

/// Fields of a Pod that its environment may name.
const IN_ENVIRONMENT: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields of a Pod that its volumes may name.
pub(super) const IN_VOLUMES: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

/// Fields that can be named at all, though not everywhere.
const ANYWHERE: &[&str] = &[
    "metadata.annotations",
    "metadata.labels",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.host",
    "status.phase",
];

const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

pub(super) fn check(container: &Value, path: &Path<'_>, errors: &mut Errors) {
    let env = path.child("env");
    for (index, variable) in container.list("env").iter().enumerate() {
        let path = env.index(index);
        let name = variable.text("name");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else {
            errors.invalid_all(&path.child("name"), name, names::env_name(name));
        }
        if variable.has("valueFrom") {
            value_source(variable, &path.child("valueFrom"), errors);
        }
    }
    sources(container.list("envFrom"), &path.child("envFrom"), errors);
}

fn sources(list: &[Value], path: &Path<'_>, errors: &mut Errors) {
    for (index, source) in list.iter().enumerate() {
        let at = path.index(index);
        let prefix = source.text("prefix");
        if !prefix.is_empty() {
            errors.invalid_all(&at.child("prefix"), prefix, names::env_name(prefix));
        }
        let given = ["configMapRef", "secretRef"].into_iter().filter(|key| source.has(key));
        let mut count = 0;
        for key in given {
            count += 1;
            required_name(source.at(key), &at.child(key), errors);
        }
        // The reference does not say which of them it means.
        match count {
            0 => errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(path, "", "may not have more than one field specified at a time"),
        }
    }
}

fn required_name(reference: &Value, path: &Path<'_>, errors: &mut Errors) {
    let name = reference.text("name");
    if name.is_empty() {
        errors.required(&path.child("name"), "");
    } else {
        errors.invalid_all(&path.child("name"), name, subdomain_errors(name));
    }
}

fn value_source(variable: &Value, path: &Path<'_>, errors: &mut Errors) {
    const SOURCES: [&str; 5] =
        ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];
    let source = variable.at("valueFrom");
    if source.has("fieldRef") {
        field_selector(source.at("fieldRef"), IN_ENVIRONMENT, &path.child("fieldRef"), errors);
    }
    if source.has("resourceFieldRef") {
        resource_selector(source.at("resourceFieldRef"), false, &path.child("resourceFieldRef"), errors);
    }
    for key in ["configMapKeyRef", "secretKeyRef"].into_iter().filter(|key| source.has(key)) {
        key_selector(source.at(key), &path.child(key), errors);
    }
    let given = SOURCES.iter().filter(|key| source.has(key)).count();
    if given == 0 {
        errors.invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`");
    } else if !variable.text("value").is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if given > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn key_selector(selector: &Value, path: &Path<'_>, errors: &mut Errors) {
    let (name, key) = (selector.text("name"), selector.text("key"));
    errors.invalid_all(&path.child("name"), name, subdomain_errors(name));
    if key.is_empty() {
        errors.required(&path.child("key"), "");
    } else {
        errors.invalid_all(&path.child("key"), key, names::config_key(key));
    }
}

/// A field of the Pod, perhaps one label or annotation of it.
pub(super) fn field_selector(selector: &Value, allowed: &[&str], path: &Path<'_>, errors: &mut Errors) {
    let field = selector.text("fieldPath");
    if field.is_empty() {
        errors.required(&path.child("fieldPath"), "");
        return;
    }
    match subscripted(field) {
        Some(("metadata.annotations", key)) => {
            let key = key.to_lowercase();
            errors.invalid_all(path, &key, label_key_errors(&key));
        }
        Some(("metadata.labels", key)) => errors.invalid_all(path, key, label_key_errors(key)),
        Some(_) | None if !is_known(field) => {
            let detail = format!("error converting fieldPath: field label not supported: {field}");
            errors.invalid(&path.child("fieldPath"), field, detail);
        }
        Some(_) => {}
        None if !allowed.contains(&field) => {
            errors.not_supported(&path.child("fieldPath"), field, allowed);
        }
        None => {}
    }
}

fn is_known(field: &str) -> bool {
    IN_ENVIRONMENT.contains(&field) || ANYWHERE.contains(&field)
}

/// The parts of `path['key']`.
fn subscripted(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['")
}

/// An amount that a container asks for or is limited to. In a volume it must say which container.
pub(super) fn resource_selector(selector: &Value, in_volume: bool, path: &Path<'_>, errors: &mut Errors) {
    let resource = selector.text("resource");
    let huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_volume && selector.text("containerName").is_empty() {
        errors.required(&path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !huge {
        errors.not_supported(&path.child("resource"), resource, RESOURCES);
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;

    fn found(container: Value) -> Vec<String> {
        let mut errors = Errors::new();
        check(&container, &Path::root("c"), &mut errors);
        errors.into_vec().iter().map(|error| format!("{} {:?}", error.field, error.kind)).collect()
    }

    #[test]
    fn variables_name_fields_that_there_are() {
        let from = |source: Value| found(json!({"env": [{"name": "A", "valueFrom": source}]}));
        let field = |path: &str| from(json!({"fieldRef": {"apiVersion": "v1", "fieldPath": path}}));
        assert_eq!(field("metadata.name"), [""; 0]);
        assert_eq!(field("metadata.labels['a']"), [""; 0]);
        assert_eq!(field("metadata.labels['a b']"), ["c.env[0].valueFrom.fieldRef Invalid"]);
        assert_eq!(field("status.phase"), ["c.env[0].valueFrom.fieldRef.fieldPath NotSupported"]);
        assert_eq!(field("spec.nowhere"), ["c.env[0].valueFrom.fieldRef.fieldPath Invalid"]);
        assert_eq!(field("spec.nowhere['a']"), ["c.env[0].valueFrom.fieldRef.fieldPath Invalid"]);
        assert_eq!(
            from(json!({"resourceFieldRef": {"resource": "limits.gold"}})),
            ["c.env[0].valueFrom.resourceFieldRef.resource NotSupported"]
        );
        assert_eq!(
            from(json!({"secretKeyRef": {"name": "s"}})),
            ["c.env[0].valueFrom.secretKeyRef.key Required"]
        );
        assert_eq!(from(json!({})), ["c.env[0].valueFrom Invalid"]);
    }

    #[test]
    fn sources_are_named_and_one_at_a_time() {
        assert_eq!(
            found(json!({"envFrom": [{"prefix": "a=", "secretRef": {"name": "s"}}]})),
            ["c.envFrom[0].prefix Invalid"]
        );
        assert_eq!(
            found(json!({"envFrom": [{"configMapRef": {}}, {}]})),
            ["c.envFrom[0].configMapRef.name Required", "c.envFrom Invalid"]
        );
    }
}
