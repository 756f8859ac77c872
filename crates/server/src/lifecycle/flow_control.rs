//! The controller of FlowSchemas and PriorityLevelConfigurations.
//!
//! The mandatory objects (`exempt`, `catch-all`) are always corrected, apart from the shares of `exempt`. The suggested ones are
//! written once, and corrected while their annotation is `true`. Deleted ones are written again. The objects themselves are in
//! `fairness/bootstrap.rs`, as kube-apiserver has them.

use std::sync::Arc;
use std::time::Duration;

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::cache::{CacheEvent, Collection, CollectionSnapshot, Filter, Follower};
use crate::fairness::bootstrap::{AUTO_UPDATE, flow_schemas, priority_levels};
use crate::pipeline::internal::{amend, ensure};
use crate::pipeline::now;

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

/// The interval between two checks for changed objects.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The time from a change to the check for it. Followers are called before a change can be read, and changes come in groups.
const SETTLE: Duration = Duration::from_millis(5);
/// Checks between two adjustments of seats.
const ADJUST: u32 = 10;

/// Maintains the objects, and adjusts the seats of the levels every few seconds.
///
/// Looks at revisions of two collections each second, and soon after a change, and does something only if one changed.
pub(crate) async fn run(api: Arc<Api>, stop: CancellationToken) {
    let wake = Arc::new(Wake::default());
    for plural in ["flowschemas", "prioritylevelconfigurations"] {
        if let Some(resource) = api.registry.find(GROUP, "v1", plural) {
            resource.collection.follow(Arc::<Wake>::clone(&wake));
        }
    }
    let mut ticks = tokio::time::interval(CHECK_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut seen, mut checks) = (None, 0);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                checks += 1;
                if checks % ADJUST == 0 {
                    api.fairness.adjust(std::time::Instant::now());
                }
            }
            () = wake.0.notified() => tokio::time::sleep(SETTLE).await,
            () = stop.cancelled() => return,
        }
        let current = api.fairness.snapshots();
        let same = |seen: &(Arc<CollectionSnapshot>, Arc<CollectionSnapshot>)| {
            Arc::ptr_eq(&seen.0, &current.0) && Arc::ptr_eq(&seen.1, &current.1)
        };
        if api.options.lifecycle.first_objects && !seen.as_ref().is_some_and(same) {
            match maintain(&api).await {
                Ok(()) => seen = Some(current),
                // The store closes while the last round is under way.
                Err(_) if stop.is_cancelled() => return,
                Err(status) => {
                    tracing::warn!(%status, "cannot maintain the objects of API priority and fairness")
                }
            }
        }
    }
}

/// Wakes the controller when one of its collections changes.
#[derive(Debug, Default)]
struct Wake(Notify);

impl Follower for Wake {
    fn loaded(&self, _: &Collection, _: &CollectionSnapshot, _: &CollectionSnapshot) {
        self.0.notify_one();
    }

    fn changed(&self, _: &[Arc<CacheEvent>]) {
        self.0.notify_one();
    }
}

/// Writes the objects that are missing and corrects those that the server maintains.
///
/// Runs at start and after each change, so a deleted mandatory object is back within a second or two.
///
/// # Errors
/// If the store fails.
pub(crate) async fn maintain(api: &Api) -> Result<(), Status> {
    let all = [("prioritylevelconfigurations", priority_levels()), ("flowschemas", flow_schemas())];
    for (plural, objects) in all {
        let resource = api.registry.find(GROUP, "v1", plural).ok_or_else(Status::no_such_path)?;
        let work = objects.iter().map(|wanted| async {
            let name = wanted.at("metadata").text("name");
            let key = resource.key(None, name);
            if resource.collection.snapshot().get(&key).is_none() {
                ensure(api, Arc::clone(&resource), wanted).await?;
            }
            amend(api, &resource, None, name, |stored| corrected(stored, wanted)).await
        });
        futures::future::try_join_all(work).await?;
    }
    set_dangling(api).await
}

/// Sets the `Dangling` condition of each schema: true if its priority level does not exist.
async fn set_dangling(api: &Api) -> Result<(), Status> {
    let find = |plural| api.registry.find(GROUP, "v1", plural).ok_or_else(Status::no_such_path);
    let (schemas, levels) = (find("flowschemas")?, find("prioritylevelconfigurations")?);
    let walk = schemas.collection.walk(&Filter::default(), None);
    let all: Vec<_> = schemas.collection.snapshot().range(&walk).cloned().collect();
    for schema in all {
        let level = schema.field("spec.priorityLevelConfiguration.name").unwrap_or_default();
        let dangling = levels.collection.snapshot().get(&levels.key(None, level)).is_none();
        let message = format!(
            "This FlowSchema references the PriorityLevelConfiguration object named {level:?} {}",
            if dangling { "but there is no such object" } else { "and it exists" }
        );
        amend(api, &schemas, None, schema.name(), |stored| with_condition(stored, dangling, &message))
            .await?;
    }
    Ok(())
}

/// Returns the object with the condition `Dangling`, or none if it has that already: an unchanged status is not
/// written.
fn with_condition(stored: &Value, dangling: bool, message: &str) -> Option<Value> {
    let status = if dangling { "True" } else { "False" };
    let conditions = stored.at("status").list("conditions");
    let is_current =
        |condition: &Value| condition.text("status") == status && condition.text("message") == message;
    if conditions.iter().any(|condition| condition.text("type") == "Dangling" && is_current(condition)) {
        return None;
    }
    let mut conditions = conditions.to_vec();
    conditions.retain(|condition| condition.text("type") != "Dangling");
    conditions.push(json!({
        "type": "Dangling", "status": status, "reason": if dangling { "NotFound" } else { "Found" },
        "message": message, "lastTransitionTime": now(),
    }));
    let mut new = stored.clone();
    new.inner_or_new("status")?.put("conditions", conditions);
    Some(new)
}

/// Returns the corrected object, if the server maintains it and its spec differs.
fn corrected(stored: &Value, wanted: &Value) -> Option<Value> {
    let name = wanted.at("metadata").text("name");
    let mandatory = matches!(name, "exempt" | "catch-all");
    let kept = stored.at("metadata").at("annotations").text(AUTO_UPDATE) == "true";
    if !mandatory && !kept {
        return None;
    }
    let mut spec = wanted.at("spec").clone();
    // The shares of `exempt` belong to the administrator.
    if let Some(spec) = spec.as_object_mut().filter(|spec| !kept && spec.has("exempt")) {
        spec.put("exempt", stored.at("spec").at("exempt").clone());
    }
    (!agrees(&spec, stored.at("spec"))).then(|| {
        let mut new = stored.clone();
        if let Some(new) = new.as_object_mut() {
            new.put("spec", spec);
        }
        new
    })
}

/// True if `stored` has everything in `wanted`. It may have defaults besides.
fn agrees(wanted: &Value, stored: &Value) -> bool {
    match (wanted, stored) {
        (Value::Object(wanted), Value::Object(stored)) => {
            wanted.iter().all(|(key, value)| stored.get(key).is_some_and(|stored| agrees(value, stored)))
        }
        (Value::Array(wanted), Value::Array(stored)) => {
            wanted.len() == stored.len() && wanted.iter().zip(stored.iter()).all(|(a, b)| agrees(a, b))
        }
        _ => wanted == stored,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mandatory_flow_objects_are_reconciled_and_others_left_alone() {
        let wanted = &priority_levels()[2];
        let mut stored = wanted.clone();
        stored["spec"]["limited"]["borrowingLimitPercent"] = 5.into();
        assert_eq!(corrected(&stored, wanted), None, "a field that is not ours");
        stored["spec"]["limited"]["nominalConcurrencyShares"] = 1.into();
        assert_eq!(corrected(&stored, wanted).unwrap()["spec"], wanted["spec"]);
        stored["metadata"]["annotations"][AUTO_UPDATE] = "false".into();
        assert_eq!(corrected(&stored, wanted), None);
        let catch_all = &priority_levels()[1];
        let mut stored = catch_all.clone();
        stored["metadata"]["annotations"][AUTO_UPDATE] = "false".into();
        stored["spec"]["limited"]["nominalConcurrencyShares"] = 100.into();
        assert!(corrected(&stored, catch_all).is_some(), "a mandatory one is kept in any case");
    }
}
