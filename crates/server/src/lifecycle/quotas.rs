//! The status of ResourceQuotas: `hard` as the spec has it, and usage counted again.
//!
//! Admission only ever adds to usage, in the transaction of a write (`admission/resource_quota`). Deletions and Pods
//! that end are noticed here, after a delay that gathers many of them. Counting is optimistic: a quota that is
//! charged meanwhile has another revision and is left for the next time. The measurement is the same as admission's,
//! or usage would drift.

use std::collections::HashSet;

use listwatch_kinds::quantity::Quantity;
use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, json, raw};
use listwatch_wire::{Revision, Status};

use crate::admission::pod_resources::{Amounts, add, amounts};
use crate::admission::resource_quota::usage::QuotaUsage;
use crate::admission::resource_quota::{QUOTAS, QuotaScopes, ScopedObject, document, limited};
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

/// A quota, and what was counted for it.
struct CountedQuota {
    name: String,
    revision: Revision,
    spec: Value,
    status: Value,
    scopes: QuotaScopes,
    hard: Amounts,
    used: Amounts,
}

impl CountedQuota {
    /// `None` for bytes that are not a quota.
    /// Every name of the spec is present, also with zero: a missing one makes admission refuse all writes that it limits.
    fn new(quota: &CachedObject) -> Option<Self> {
        let value = Value::read(quota.stored()).ok()?;
        let (spec, status) = (value.at("spec").clone(), value.at("status").clone());
        let hard = amounts(spec.at("hard"));
        let used = hard.keys().map(|name| (name.clone(), Quantity::default())).collect();
        let (name, revision) = (quota.name().to_owned(), quota.revision());
        Some(Self { name, revision, scopes: QuotaScopes::of(&spec), spec, status, hard, used })
    }

    fn counts(&self, usage: &QuotaUsage) -> bool {
        self.hard.keys().any(|name| usage.counts(name))
    }
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
    let stored: Vec<_> = snapshot.range(&resource.collection.walk(&within(namespace), None)).collect();
    // All objects that the quotas were charged for must be in the cache before they are counted.
    api.wait_for(stored.iter().map(|quota| quota.revision()).max()).await?;
    let mut quotas: Vec<_> = stored.into_iter().filter_map(|quota| CountedQuota::new(quota)).collect();
    count(api, namespace, &mut quotas).await;
    for quota in quotas {
        write_status(api, &resource, namespace, quota).await?;
    }
    Ok(())
}

/// Writes the status of one quota, if the quota has not been charged since it was read.
async fn write_status(
    api: &Api,
    resource: &Resource,
    namespace: &str,
    quota: CountedQuota,
) -> Result<(), Status> {
    let status = json!({"hard": quota.spec.at("hard").clone(), "used": document(&quota.used)});
    if quota.status == status {
        return Ok(());
    }
    let target = Target::new(resource, Some(namespace), &quota.name);
    let written = change(api, &target, false, |stored: Option<&Stored>| match stored {
        Some(stored) if stored.revision == quota.revision => {
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

/// Counts the usage of everything that the quotas limit. Each object is read and measured once for all of them.
///
/// Others have their turn after each object, which may be large.
async fn count(api: &Api, namespace: &str, quotas: &mut [CountedQuota]) {
    let (served, mut seen) = (api.registry.served(), HashSet::new());
    for resource in served.resources().iter().filter(|resource| resource.namespaced) {
        let usage = QuotaUsage::of(resource);
        let mut counting: Vec<_> = quotas.iter_mut().filter(|quota| quota.counts(&usage)).collect();
        if counting.is_empty() || !seen.insert(resource.collection.name()) {
            continue;
        }
        let snapshot = resource.collection.snapshot();
        for object in snapshot.range(&resource.collection.walk(&within(namespace), None)) {
            tokio::task::yield_now().await;
            let Ok(object) = Value::read(object.stored()) else { continue };
            let (cost, scoped) = (usage.measure(&object), ScopedObject::new(resource, &object));
            for quota in counting.iter_mut().filter(|quota| quota.scopes.include(&scoped)) {
                let cost = limited(&cost, &quota.hard);
                add(&mut quota.used, &cost);
            }
        }
    }
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
