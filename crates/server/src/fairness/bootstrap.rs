//! The FlowSchemas and PriorityLevelConfigurations that every cluster has, as kube-apiserver writes and maintains them.
//!
//! The mandatory ones (`exempt`, `catch-all`) are kept as they are here, apart from shares of `exempt` and the metadata. The
//! suggested ones are written once, and kept up to date while their annotation says so. What was deleted comes back.

use std::sync::Arc;
use std::time::Duration;

use listwatch_kinds::tree::Tree;
use listwatch_wire::Status;
use listwatch_wire::json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::cache::{Filter, Snapshot};
use crate::pipeline::internal::{amend, ensure};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
/// Whether the server keeps an object as it would write it.
const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

fn object(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}}, "spec": spec})
}

fn queuing(name: &str, (shares, lendable): (u32, u32), (queues, hand): (u32, u32)) -> Value {
    object(
        name,
        json!({"type": "Limited", "limited": {
            "nominalConcurrencyShares": shares, "lendablePercent": lendable,
            "limitResponse": {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}},
        }}),
    )
}

/// The levels.
pub(super) fn priority_levels() -> Vec<Value> {
    vec![
        object(
            "exempt",
            json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}),
        ),
        object(
            "catch-all",
            json!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"},
            }}),
        ),
        queuing("system", (30, 33), (64, 6)),
        queuing("node-high", (40, 25), (64, 6)),
        queuing("leader-election", (10, 0), (16, 4)),
        queuing("workload-high", (40, 50), (128, 6)),
        queuing("workload-low", (100, 90), (128, 6)),
        queuing("global-default", (20, 50), (128, 6)),
    ]
}

fn groups(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
}

fn users(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"kind": "User", "user": {"name": name}})).collect()
}

/// All accounts of the system's namespace.
fn system_accounts() -> Value {
    json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}})
}

fn resources(verbs: &[&str], group: &str, resources: &[&str], cluster_scope: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
    if let (true, Some(rule)) = (cluster_scope, rule.as_object_mut()) {
        rule.put("clusterScope", true);
    }
    rule
}

/// Rules that take all that some subjects ask for.
fn everything(subjects: Value) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [resources(&["*"], "*", &["*"], true)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })
}

fn schema(name: &str, level: &str, precedence: u32, by: &str, rules: Value) -> Value {
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rules],
    });
    if let (false, Some(spec)) = (by.is_empty(), spec.as_object_mut()) {
        spec.put("distinguisherMethod", json!({"type": by}));
    }
    object(name, spec)
}

/// The schemas, in the order of their precedence.
pub(super) fn flow_schemas() -> Vec<Value> {
    const LEASES: &str = "coordination.k8s.io";
    let everybody = || groups(&["system:unauthenticated", "system:authenticated"]);
    let nodes = || groups(&["system:nodes"]);
    let mut electing = users(&["system:kube-controller-manager", "system:kube-scheduler"]);
    electing.push(system_accounts());
    let probes = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]});
    vec![
        schema("exempt", "exempt", 1, "", everything(groups(&["system:masters"]))),
        schema("probes", "exempt", 2, "", json!({"subjects": everybody(), "nonResourceRules": [probes]})),
        schema(
            "system-leader-election",
            "leader-election",
            100,
            "ByUser",
            json!({"subjects": electing, "resourceRules": [resources(&["get", "create", "update"], LEASES, &["leases"], false)]}),
        ),
        schema(
            "system-node-high",
            "node-high",
            400,
            "ByUser",
            json!({"subjects": nodes(), "resourceRules": [
                resources(&["*"], "", &["nodes", "nodes/status"], true), resources(&["*"], LEASES, &["leases"], false),
            ]}),
        ),
        schema("system-nodes", "system", 500, "ByUser", everything(nodes())),
        schema(
            "kube-controller-manager",
            "workload-high",
            800,
            "ByNamespace",
            everything(users(&["system:kube-controller-manager"]).into()),
        ),
        schema(
            "kube-scheduler",
            "workload-high",
            800,
            "ByNamespace",
            everything(users(&["system:kube-scheduler"]).into()),
        ),
        schema(
            "kube-system-service-accounts",
            "workload-high",
            900,
            "ByNamespace",
            everything(json!([system_accounts()])),
        ),
        schema(
            "service-accounts",
            "workload-low",
            9000,
            "ByUser",
            everything(groups(&["system:serviceaccounts"])),
        ),
        schema("global-default", "global-default", 9900, "ByUser", everything(everybody())),
        schema("catch-all", "catch-all", 10_000, "ByUser", everything(everybody())),
    ]
}

/// How often it is looked whether anything has changed.
const LOOK: Duration = Duration::from_secs(1);
/// Looks between two adjustments of seats.
const ADJUST: u32 = 10;

/// Keeps the objects as they should be, and deals out seats again every few seconds.
pub(crate) async fn run(api: Arc<Api>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut seen, mut looks) = (None, 0);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        looks += 1;
        if looks % ADJUST == 0 {
            api.fairness.adjust(std::time::Instant::now());
        }
        let now = api.fairness.snapshots();
        let same = |seen: &(Arc<Snapshot>, Arc<Snapshot>)| {
            Arc::ptr_eq(&seen.0, &now.0) && Arc::ptr_eq(&seen.1, &now.1)
        };
        if api.options.lifecycle.first_objects && !seen.as_ref().is_some_and(same) {
            match maintain(&api).await {
                Ok(()) => seen = Some(now),
                // The store closes while the last round is under way.
                Err(_) if stop.is_cancelled() => return,
                Err(status) => tracing::warn!(%status, "cannot keep the objects of priority and fairness"),
            }
        }
    }
}

/// Writes what is missing and sets right what the server keeps.
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
    tell_dangling(api).await
}

/// Says of each schema whether its level is there.
async fn tell_dangling(api: &Api) -> Result<(), Status> {
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

fn with_condition(stored: &Value, dangling: bool, message: &str) -> Option<Value> {
    let status = if dangling { "True" } else { "False" };
    let conditions = stored.at("status").list("conditions");
    let is_told =
        |condition: &Value| condition.text("status") == status && condition.text("message") == message;
    if conditions.iter().any(|condition| condition.text("type") == "Dangling" && is_told(condition)) {
        return None;
    }
    let mut conditions = conditions.to_vec();
    conditions.retain(|condition| condition.text("type") != "Dangling");
    conditions.push(json!({
        "type": "Dangling", "status": status, "reason": if dangling { "NotFound" } else { "Found" },
        "message": message, "lastTransitionTime": crate::pipeline::now(),
    }));
    let mut new = stored.clone();
    new.inner_or_new("status")?.put("conditions", conditions);
    Some(new)
}

/// The object as it should be, if the server keeps it and it is not.
fn corrected(stored: &Value, wanted: &Value) -> Option<Value> {
    let name = wanted.at("metadata").text("name");
    let mandatory = matches!(name, "exempt" | "catch-all");
    let kept = stored.at("metadata").at("annotations").text(AUTO_UPDATE) == "true";
    if !mandatory && !kept {
        return None;
    }
    let mut spec = wanted.at("spec").clone();
    // How many seats exempt requests are counted with is for the administrator to say.
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

/// Whether everything that is wanted is there; defaults may be there besides.
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
    fn kept_objects_are_set_right_and_others_left_alone() {
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
