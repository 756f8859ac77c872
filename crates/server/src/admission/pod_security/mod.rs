//! PodSecurity: checks Pods against the Pod Security Standards that the labels of their namespace name.
//!
//! Labels are read in [`policy`], the standards are in [`checks`]. Pods are rejected (`enforce`), recorded (`audit`)
//! or warned of (`warn`); workloads with Pod templates are only recorded and warned of, so that a Deployment can be
//! created and its Pods fail with a clear message. An update of a Pod is checked only if images or ephemeral
//! containers change. A namespace whose level becomes stricter gets warnings about existing Pods, at most 3000 of
//! them.

mod baseline;
mod checks;
mod pod;
mod policy;
mod restricted;

use std::collections::{BTreeMap, HashMap};

use async_trait::async_trait;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::Value;
use listwatch_wire::status::aggregate;

use self::checks::Violations;
use self::pod::Pod;
use self::policy::{NamespacePolicy, Standard, StandardLevel};
use super::{Attributes, Operation, Plugin};
use crate::registry::Resource;

/// Existing Pods checked when a namespace becomes stricter. kube-apiserver's bound.
const CHECKED_PODS: usize = 3000;
const ANNOTATION: &str = "pod-security.kubernetes.io/";

/// kube-apiserver's plugin PodSecurity: holds Pods against the Pod Security Standards that their namespace names by
/// labels.
#[derive(Debug)]
pub(super) struct PodSecurity;

#[async_trait]
impl Plugin for PodSecurity {
    fn is_interested(&self, resource: &Resource) -> bool {
        is_namespace(resource) || is_pod(resource) || template_of(resource, &Value::Null).is_some()
    }

    fn handles(&self, operation: Operation, subresource: &str) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
            && matches!(subresource, "" | "ephemeralcontainers" | "resize")
    }

    async fn validate(&self, request: &Attributes<'_>, object: &Value) -> Result<(), Status> {
        if is_namespace(request.resource) {
            return check_namespace(request, object);
        }
        let Some(namespace) = request.namespace_object() else { return Ok(()) };
        let (policy, errors) = NamespacePolicy::of(namespace.at("metadata").at("labels"));
        if !errors.is_empty() {
            let text = errors.iter().map(ToString::to_string);
            request.record.annotate(
                &format!("{ANNOTATION}error"),
                format!("Failed to parse policy: {}", aggregate(text)),
            );
        }
        if is_pod(request.resource) {
            return check_pod(request, object, &policy);
        }
        if request.subresource.is_empty()
            && let Some(template) = template_of(request.resource, object)
        {
            let mut results = Results::default();
            audit_and_warn(request, &Pod::new(template), &policy, &mut results);
        }
        Ok(())
    }
}

fn is_namespace(resource: &Resource) -> bool {
    (&*resource.group, &*resource.plural) == ("", "namespaces")
}

fn is_pod(resource: &Resource) -> bool {
    (&*resource.group, &*resource.plural) == ("", "pods")
}

/// Returns the Pod template of a workload; `None` for other kinds.
fn template_of<'a>(resource: &Resource, object: &'a Value) -> Option<&'a Value> {
    Some(match (&*resource.group, &*resource.plural) {
        ("", "podtemplates") => object.at("template"),
        ("", "replicationcontrollers")
        | ("apps", "replicasets" | "deployments" | "daemonsets" | "statefulsets")
        | ("batch", "jobs") => object.at("spec").at("template"),
        ("batch", "cronjobs") => object.path(&["spec", "jobTemplate", "spec", "template"]),
        _ => return None,
    })
}

/// Violations by standard, so that none is evaluated twice.
type Results = BTreeMap<Standard, Violations>;

/// Evaluates each level and version once per request, since enforce, audit and warn mostly name the same.
fn violations<'r>(results: &'r mut Results, standard: Standard, pod: &Pod<'_>) -> &'r Violations {
    results.entry(standard).or_insert_with(|| checks::evaluate(standard, pod))
}

/// Checks a Pod against the three standards of its namespace. A rejected Pod is audited, but gets no warnings: the
/// error has the same text.
fn check_pod(request: &Attributes<'_>, object: &Value, policy: &NamespacePolicy) -> Result<(), Status> {
    if policy.is_privileged() || request.old.is_some_and(|old| !is_significant(object, old)) {
        return Ok(());
    }
    let (pod, mut results, enforce) = (Pod::new(object), Results::new(), policy.enforce);
    request.record.annotate(&format!("{ANNOTATION}enforce-policy"), enforce.to_string());
    let violated = violations(&mut results, enforce, &pod);
    if violated.is_empty() {
        audit_and_warn(request, &pod, policy, &mut results);
        return Ok(());
    }
    let why = format!("violates PodSecurity \"{enforce}\": {}", violated.detail());
    audit(request, &pod, policy, &mut results);
    Err(Status::forbidden("", "pods", request.name, &why))
}

/// Adds what would be violated to the audit event.
fn audit(request: &Attributes<'_>, pod: &Pod<'_>, policy: &NamespacePolicy, results: &mut Results) {
    let violated = violations(results, policy.audit, pod);
    if !violated.is_empty() {
        let text = format!("would violate PodSecurity \"{}\": {}", policy.audit, violated.detail());
        request.record.annotate(&format!("{ANNOTATION}audit-violations"), text);
    }
}

/// Templates are never refused: their Pods are. The author is warned.
fn audit_and_warn(request: &Attributes<'_>, pod: &Pod<'_>, policy: &NamespacePolicy, results: &mut Results) {
    audit(request, pod, policy, results);
    let violated = violations(results, policy.warn, pod);
    if !violated.is_empty() {
        request.record.warn(format!("would violate PodSecurity \"{}\": {}", policy.warn, violated.detail()));
    }
}

/// Returns true if an update changes what the standards look at: images, and added containers.
fn is_significant(new: &Value, old: &Value) -> bool {
    let (new, old) = (new.at("spec"), old.at("spec"));
    let images = |spec: &Value, key: &str| -> Vec<String> {
        spec.list(key).iter().map(|container| container.text("image").to_owned()).collect()
    };
    let changed = ["containers", "initContainers"].iter().any(|key| images(new, key) != images(old, key));
    let ephemeral = old.list("ephemeralContainers").iter();
    let images_by_name = ephemeral.map(|container| (container.text("name"), container.text("image")));
    // The first of two with the same name counts.
    let before: HashMap<&str, &str> = images_by_name.rev().collect();
    let added = |container: &Value| before.get(container.text("name")) != Some(&container.text("image"));
    changed || new.list("ephemeralContainers").iter().any(added)
}

/// Requires valid labels, and warns of Pods that do not conform to a stricter standard.
fn check_namespace(request: &Attributes<'_>, namespace: &Value) -> Result<(), Status> {
    if !request.subresource.is_empty() {
        return Ok(());
    }
    let (new, errors) = NamespacePolicy::of(namespace.at("metadata").at("labels"));
    let before = request.old.map(|old| NamespacePolicy::of(old.at("metadata").at("labels")));
    if !errors.is_empty() && before.as_ref().is_none_or(|(_, known)| *known != errors) {
        return Err(Status::invalid("", "Namespace", request.name, &errors));
    }
    let Some((old, _)) = before else { return Ok(()) };
    let same_version = new.enforce.version == old.enforce.version;
    if new.enforce.level == StandardLevel::Privileged
        || same_version && new.enforce.level <= old.enforce.level
    {
        return Ok(());
    }
    for warning in existing_violations(request, new.enforce) {
        request.record.warn(warning);
    }
    Ok(())
}

/// Groups Pods by their violations: the first of them by name, and their number.
fn group_violations(pods: &[Value], standard: Standard) -> BTreeMap<String, (String, usize)> {
    let mut found: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for pod in pods.iter().take(CHECKED_PODS) {
        let violated = checks::evaluate(standard, &Pod::new(pod));
        if violated.is_empty() {
            continue;
        }
        let name = pod.at("metadata").text("name");
        let entry = found.entry(violated.reasons()).or_insert_with(|| (name.to_owned(), 0));
        if name < entry.0.as_str() {
            name.clone_into(&mut entry.0);
        }
        entry.1 += 1;
    }
    found
}

/// Returns warnings about the Pods of a namespace that violate a standard: one per set of violations.
fn existing_violations(request: &Attributes<'_>, standard: Standard) -> Vec<String> {
    let pods = request.list(("", "v1", "pods"), Some(request.name));
    let found = group_violations(&pods, standard);
    let mut warnings = Vec::new();
    if pods.len() > CHECKED_PODS {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {CHECKED_PODS} of {} existing pods",
            pods.len()
        ));
    }
    if !found.is_empty() {
        let namespace = request.name;
        warnings.push(format!(
            "existing pods in namespace {namespace:?} violate the new PodSecurity enforce level \"{standard}\""
        ));
    }
    let mut each: Vec<String> = found
        .into_iter()
        .map(|(reasons, (pod, count))| match count {
            1 => format!("{pod}: {reasons}"),
            2 => format!("{pod} (and 1 other pod): {reasons}"),
            more => format!("{pod} (and {} other pods): {reasons}", more.saturating_sub(1)),
        })
        .collect();
    each.sort();
    warnings.extend(each);
    warnings
}
