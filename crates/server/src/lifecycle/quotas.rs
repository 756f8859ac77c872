//! The status of ResourceQuotas: `hard` as the spec has it, and usage counted again.
//!
//! Admission only ever adds to usage, in the transaction of a write (`admission/resource_quota`). Deletions and Pods
//! that end are noticed here, after a delay that gathers many of them. Counting is optimistic: a quota that is
//! charged meanwhile has another revision and is left for the next time. The measurement is the same as admission's,
//! or usage would drift.

use listwatch_kinds::quantity::Quantity;
use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json, raw};

use crate::admission::pod_resources::{Amounts, add, amounts};
use crate::admission::resource_quota::usage::QuotaUsage;
use crate::admission::resource_quota::{QUOTAS, document, is_in_scope};
use crate::api::Api;
use crate::api::stored::Stored;
use crate::cache::{CachedObject, Filter};
use crate::lifecycle::words::{self, ChangedObject};
use crate::pipeline::target::Target;
use crate::pipeline::transaction::{Verdict, change};
use crate::registry::Resource;

/// Returns true if a namespace has quotas.
///
/// Called for each deletion in the log, so it stops at the first quota.
pub(super) fn limits(api: &Api, namespace: &str) -> bool {
    let (group, version, plural) = QUOTAS;
    let Some(resource) = api.registry.find(group, version, plural) else { return false };
    let snapshot = resource.collection.snapshot();
    !snapshot.is_empty()
        && snapshot.range(&resource.collection.walk(&within(namespace), None)).next().is_some()
}

/// Returns true if a Pod no longer counts: it has ended or is being deleted.
///
/// Called for each change of a Pod, so it parses nothing.
pub(super) fn gives_back(pod: ChangedObject<'_>) -> bool {
    has_ended(pod) || pod.is_being_deleted()
}

fn has_ended(pod: ChangedObject<'_>) -> bool {
    let is_last = |phase: &str| matches!(phase, "Succeeded" | "Failed");
    if let Some(tree) = pod.tree {
        return is_last(tree.at("status").text("phase"));
    }
    // Searching for the words costs far less than finding the field behind the spec.
    (words::SUCCEEDED.is_in(pod.bytes) || words::FAILED.is_in(pod.bytes))
        && raw::lookup(pod.bytes, &["status", "phase"]).and_then(raw::scalar).is_some_and(is_last)
}

/// Returns true if the status of a quota does not repeat its spec, or lacks the usage of something that the spec limits: other
/// controllers leave out resources that they do not know yet, such as a custom kind.
pub(super) fn is_outdated(quota: &[u8]) -> bool {
    let Ok(quota) = Value::read(quota) else { return false };
    let (spec, status) = (quota.at("spec"), quota.at("status"));
    spec.at("hard") != status.at("hard") || spec.entries("hard").any(|(name, _)| !status.at("used").has(name))
}

fn within(namespace: &str) -> Filter {
    let mut filter = Filter::default();
    filter.namespace = Some(namespace.into());
    filter
}

/// Counts the usage of all quotas of a namespace.
///
/// Costs a measurement of every object in the namespace whose kind a quota limits, hence the delay that gathers many
/// changes into one run.
///
/// # Errors
///
/// The store fails, or the cache does not catch up in time: try again.
pub(super) async fn recalculate(api: &Api, namespace: &str) -> Result<(), Status> {
    let (group, version, plural) = QUOTAS;
    let Some(resource) = api.registry.find(group, version, plural) else { return Ok(()) };
    api.wait_for(None).await?;
    let snapshot = resource.collection.snapshot();
    for quota in snapshot.range(&resource.collection.walk(&within(namespace), None)) {
        // Whatever the quota was charged for must be in the cache before it is counted.
        api.wait_for(Some(quota.revision())).await?;
        recalculate_one(api, &resource, namespace, quota).await?;
    }
    Ok(())
}

/// Counts the usage of one quota and writes its status, if the quota has not been charged since it was read.
async fn recalculate_one(
    api: &Api,
    resource: &Resource,
    namespace: &str,
    quota: &CachedObject,
) -> Result<(), Status> {
    let Ok(value) = Value::read(quota.stored()) else { return Ok(()) };
    let spec = value.at("spec");
    let used = count(api, namespace, spec).await;
    let status = json!({"hard": spec.at("hard").clone(), "used": document(&used)});
    if value.at("status") == &status {
        return Ok(());
    }
    let (target, counted) = (Target::new(resource, Some(namespace), quota.name()), quota.revision());
    let written = change(api, &target, false, |stored: Option<&Stored>| match stored {
        Some(stored) if stored.revision == counted => {
            let mut new = stored.value.clone();
            new.put("status", status.clone());
            Ok(Verdict::Write(new))
        }
        Some(_) => Ok(Verdict::Keep),
        None => Err(target.not_found()),
    });
    match written.await {
        Err(status) if status.code != 404 => Err(status),
        _ => Ok(()),
    }
}

/// The usage of everything that a quota limits.
/// Every name of the spec is present, also with zero: a missing one makes admission refuse all writes that it limits.
///
/// Others have their turn after each object, which may be large: nothing else here waits.
async fn count(api: &Api, namespace: &str, spec: &Value) -> Amounts {
    let hard = amounts(spec.at("hard"));
    let mut used: Amounts = hard.keys().map(|name| (name.clone(), Quantity::default())).collect();
    let (served, mut seen) = (api.registry.served(), Vec::new());
    for resource in served.resources().iter().filter(|resource| resource.namespaced) {
        let usage = QuotaUsage::of(resource);
        let collection = resource.collection.name();
        if seen.contains(&collection) || !hard.keys().any(|name| usage.counts(name)) {
            continue;
        }
        seen.push(collection);
        let snapshot = resource.collection.snapshot();
        for object in snapshot.range(&resource.collection.walk(&within(namespace), None)) {
            tokio::task::yield_now().await;
            let Ok(object) = Value::read(object.stored()) else { continue };
            if is_in_scope(spec, resource, &object) {
                let mut cost = usage.measure(&object);
                cost.retain(|name, _| hard.contains_key(name));
                add(&mut used, &cost);
            }
        }
    }
    used
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_gives_back_when_it_has_ended_or_is_being_deleted() {
        let pod = |meta: Value, phase: &str| {
            let pod = json!({"metadata": meta, "spec": {"phase": "Failed"}, "status": {"phase": phase}});
            let bytes = listwatch_wire::json::encode_stored(&pod);
            let found = gives_back(ChangedObject { bytes: &bytes, tree: None });
            assert_eq!(gives_back(ChangedObject { bytes: &bytes, tree: Some(&pod) }), found, "{pod}");
            found
        };
        assert!(pod(json!({"name": "a"}), "Succeeded") && pod(json!({"name": "a"}), "Failed"));
        assert!(pod(json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}), "Running"));
        assert!(!pod(json!({"name": "a"}), "Running"));
        assert!(!pod(json!({"name": "a", "labels": {"deletionTimestamp": "x"}}), "Pending"));
        let damaged = |bytes| gives_back(ChangedObject { bytes, tree: None });
        assert!(!damaged(b"") && !damaged(b"{\"status\":"));
    }
}
