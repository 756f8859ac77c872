//! The mandatory and suggested FlowSchemas and PriorityLevelConfigurations, as kube-apiserver writes them.
//!
//! Data only: the controller in `lifecycle/flow_control.rs` creates and maintains the objects, and [`super::gate`]
//! falls back to the mandatory ones if they were deleted. Numbers are kube-apiserver's, so that tuning advice for it
//! applies.

use listwatch_kinds::tree::Tree;
use listwatch_wire::json::{Value, json};

/// The annotation of an object whose spec the server keeps up to date.
pub(crate) const AUTO_UPDATE: &str = "apf.kubernetes.io/autoupdate-spec";

fn object(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name, "annotations": {AUTO_UPDATE: "true"}}, "spec": spec})
}

/// A priority level that queues, with kube-apiserver's length of a queue.
fn queuing(name: &str, (shares, lendable): (u32, u32), (queues, hand): (u32, u32)) -> Value {
    object(
        name,
        json!({"type": "Limited", "limited": {
            "nominalConcurrencyShares": shares, "lendablePercent": lendable,
            "limitResponse": {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}},
        }}),
    )
}

/// Returns the mandatory and suggested PriorityLevelConfigurations of kube-apiserver.
pub(crate) fn priority_levels() -> Vec<Value> {
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

/// All service accounts of `kube-system`.
fn system_accounts() -> Value {
    json!({"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}})
}

/// A rule about resources of one group, in all namespaces.
fn resources(verbs: &[&str], group: &str, resources: &[&str], cluster_scope: bool) -> Value {
    let mut rule = json!({"verbs": verbs, "apiGroups": [group], "resources": resources, "namespaces": ["*"]});
    if let (true, Some(rule)) = (cluster_scope, rule.as_object_mut()) {
        rule.put("clusterScope", true);
    }
    rule
}

/// Rules that match all requests of some subjects.
fn everything(subjects: Value) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [resources(&["*"], "*", &["*"], true)],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })
}

/// A flow schema with one rule. An empty distinguisher makes all its requests one flow.
fn schema(name: &str, level: &str, precedence: u32, by: &str, rules: Value) -> Value {
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rules],
    });
    if let (false, Some(spec)) = (by.is_empty(), spec.as_object_mut()) {
        spec.put("distinguisherMethod", json!({"type": by}));
    }
    object(name, spec)
}

/// The API group of Leases.
const LEASES: &str = "coordination.k8s.io";

/// Returns the mandatory and suggested FlowSchemas of kube-apiserver, in the order of their precedence.
pub(crate) fn flow_schemas() -> Vec<Value> {
    let mut all = exempt_schemas();
    all.extend(node_schemas());
    all.extend(controller_schemas());
    all.extend(general_schemas());
    all
}

fn everybody() -> Value {
    groups(&["system:unauthenticated", "system:authenticated"])
}

fn exempt_schemas() -> Vec<Value> {
    let probes = json!({"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]});
    vec![
        schema("exempt", "exempt", 1, "", everything(groups(&["system:masters"]))),
        schema("probes", "exempt", 2, "", json!({"subjects": everybody(), "nonResourceRules": [probes]})),
    ]
}

/// Leader election and nodes, in whose absence the cluster fails over or evicts Pods.
fn node_schemas() -> Vec<Value> {
    let mut electing = users(&["system:kube-controller-manager", "system:kube-scheduler"]);
    electing.push(system_accounts());
    let leases = resources(&["get", "create", "update"], LEASES, &["leases"], false);
    let election = json!({"subjects": electing, "resourceRules": [leases]});
    let nodes = groups(&["system:nodes"]);
    let heartbeats = json!({"subjects": nodes, "resourceRules": [
        resources(&["*"], "", &["nodes", "nodes/status"], true), resources(&["*"], LEASES, &["leases"], false),
    ]});
    vec![
        schema("system-leader-election", "leader-election", 100, "ByUser", election),
        schema("system-node-high", "node-high", 400, "ByUser", heartbeats),
        schema("system-nodes", "system", 500, "ByUser", everything(nodes)),
    ]
}

fn controller_schemas() -> Vec<Value> {
    let high = |name, precedence, subjects| {
        schema(name, "workload-high", precedence, "ByNamespace", everything(subjects))
    };
    vec![
        high("kube-controller-manager", 800, users(&["system:kube-controller-manager"]).into()),
        high("kube-scheduler", 800, users(&["system:kube-scheduler"]).into()),
        high("kube-system-service-accounts", 900, json!([system_accounts()])),
    ]
}

fn general_schemas() -> Vec<Value> {
    let accounts = everything(groups(&["system:serviceaccounts"]));
    vec![
        schema("service-accounts", "workload-low", 9000, "ByUser", accounts),
        schema("global-default", "global-default", 9900, "ByUser", everything(everybody())),
        schema("catch-all", "catch-all", 10_000, "ByUser", everything(everybody())),
    ]
}
