//! The columns `kubectl get` shows: their definitions and the cells of one object.
//!
//! The row of a kind in [`crate::table`] names its columns. Every column has a heading and a cell. Cells are text or numbers as
//! kube-apiserver sends them; ages are relative to the time passed in.

pub(crate) mod cluster;
pub(crate) mod extension;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod storage;
pub(crate) mod workload;

use jiff::Timestamp;
use listwatch_wire::json::Value;

use crate::tree::Tree;
use crate::{Kind, age, convert};

/// One column of a Table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// The OpenAPI type.
    pub kind: &'static str,
    /// `name` for the column that identifies the row, else empty.
    pub format: &'static str,
    /// Zero is always shown, one with `-o wide`.
    pub priority: u8,
}

/// A column that is always shown.
const fn text(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 0 }
}

/// A column of numbers, which kubectl aligns.
const fn number(name: &'static str) -> Column {
    Column { name, kind: "integer", format: "", priority: 0 }
}

/// A column for `-o wide` only: priority 1.
const fn wide(name: &'static str) -> Column {
    Column { name, kind: "string", format: "", priority: 1 }
}

const NAME: Column = Column { name: "Name", kind: "string", format: "name", priority: 0 };
const AGE: Column = text("Age");
/// Kinds without a printer in kube-apiserver show the time and not the age.
const CREATED: Column = Column { name: "Created At", kind: "date", format: "", priority: 0 };
const NONE: &str = "<none>";
const UNSET: &str = "<unset>";

/// A plain function, so that the table of kinds stays constant data. The time is an argument for tests.
type RowCells = fn(&Value, Timestamp) -> Vec<Value>;

/// The columns of a kind. The name comes first on its own, unless the kind puts it elsewhere.
///
/// Kinds without columns of their own have [`DEFAULT`]. A new column goes at the place where kube-apiserver's printer
/// has it, since clients address cells by index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindColumns {
    columns: &'static [Column],
    cells: RowCells,
}

/// The columns of a kind without specific ones.
pub(crate) const DEFAULT: KindColumns =
    KindColumns { columns: &[NAME, CREATED], cells: |object, _| vec![name(object), created(object)] };

/// Returns true if a kind has the columns of kinds without any of their own, Name and Created At.
#[must_use]
pub fn are_default(kind: &Kind) -> bool {
    matches!(definitions(kind), [_, Column { name: "Created At", .. }])
}

/// The columns of a kind.
#[must_use]
pub fn definitions(kind: &Kind) -> &'static [Column] {
    kind.strategy.columns.columns
}

/// The cells of one object.
///
/// As many cells as [`definitions`] has columns, except for an IPAddress, whose age has no heading in kube-apiserver. It reads
/// the decoded object and never fails: a field of another type counts as absent.
#[must_use]
pub fn row(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    // An autoscaler of the old version is shown as the stored one, whose metrics the columns are about.
    if kind.stored_as.is_some() && object.text("apiVersion") == kind.api_version() {
        let mut stored = object.clone();
        convert::to_stored(kind, &mut stored);
        return (kind.strategy.columns.cells)(&stored, now);
    }
    (kind.strategy.columns.cells)(object, now)
}

/// The condition of the row of one object; `None` if it has none.
#[must_use]
pub fn row_condition(kind: &Kind, object: &Value) -> Option<Value> {
    (kind.strategy.row_condition)(object)
}

fn name(object: &Value) -> Value {
    object.at("metadata").text("name").into()
}

/// The time itself, for columns that kubectl turns into ages.
fn created(object: &Value) -> Value {
    object.at("metadata").text("creationTimestamp").into()
}

/// The age now; a Table is not updated while it is shown.
fn age_of(object: &Value, now: Timestamp) -> Value {
    age::since(object.at("metadata").text("creationTimestamp"), now).into()
}

/// The text, or `<none>`.
fn or_none(text: &str) -> Value {
    if text.is_empty() { NONE.into() } else { text.into() }
}

/// The number at a place, zero if there is none.
fn count_at(object: &Value, path: &[&str]) -> Value {
    object.path(path).as_i64().unwrap_or(0).into()
}

/// `a=1,b=2`, or `<none>`.
fn labels(map: &Value) -> String {
    let pairs: Vec<_> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() { NONE.to_owned() } else { pairs.join(",") }
}

/// A `LabelSelector` in the form of a query, or `<none>`.
fn selector(selector: &Value) -> String {
    let text = selector_text(selector);
    if text.is_empty() { NONE.to_owned() } else { text }
}

/// A `LabelSelector`, or a plain map of labels, in the form of a query.
///
/// Also used for the `status.selector` of a Scale, which autoscalers parse.
#[must_use]
pub fn selector_text(selector: &Value) -> String {
    if !selector.has("matchLabels")
        && !selector.has("matchExpressions")
        && selector.fields().is_some_and(|map| !map.is_empty())
    {
        return labels(selector);
    }
    let mut terms: Vec<String> = selector
        .entries("matchLabels")
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    for term in selector.list("matchExpressions") {
        let key = term.text("key");
        let mut values: Vec<_> = term.list("values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        terms.push(match term.text("operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    terms.join(",")
}

/// Names and images of a template's containers.
fn containers(spec: &Value) -> (Value, Value) {
    let join = |key: &str| {
        let texts: Vec<_> = spec.list("containers").iter().map(|container| container.text(key)).collect();
        texts.join(",").into()
    };
    (join("name"), join("image"))
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;
    use crate::{all, by_kind};

    fn shown(group: &str, kind: &str, object: &Value) -> Vec<Value> {
        let kind = by_kind(group, "v1", kind).unwrap();
        row(kind, object, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn every_kind_has_as_many_cells_as_columns() {
        for kind in all() {
            for object in [json!({}), json!({"metadata": {"name": "a"}, "spec": {}, "status": {}})] {
                let cells = row(kind, &object, Timestamp::UNIX_EPOCH);
                let unnamed = usize::from(kind.kind == "IPAddress");
                assert_eq!(cells.len(), definitions(kind).len() + unnamed, "{}", kind.kind);
            }
        }
    }

    #[test]
    fn parameters_of_a_binding_are_a_name_or_a_selector() {
        let shown = |reference: Value| {
            let binding =
                json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": reference}});
            shown("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding", &binding).swap_remove(2)
        };
        assert_eq!(shown(json!(null)), "<unset>");
        assert_eq!(shown(json!({"name": "c"})), "*/c");
        assert_eq!(
            shown(json!({"namespace": "n", "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [
                {"key": "k", "operator": "In", "values": ["x", "y"]}]}})),
            "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}"
        );
    }

    #[test]
    fn a_pending_pod() {
        let pod = json!({"metadata": {"name": "p", "creationTimestamp": "1970-01-01T00:00:00Z"}, "spec": {"containers": [{}]}, "status": {"phase": "Pending"}});
        let expected = json!(["p", "0/1", "Pending", "0", "0s", "<none>", "<none>", "<none>", "<none>"]);
        assert_eq!(Value::from(shown("", "Pod", &pod)), expected);
    }

    #[test]
    fn the_worst_container_determines_the_status_column() {
        for (pod, expected) in [
            (json!({"status": {"phase": "Running"}}), "Running"),
            (json!({"status": {"phase": "Failed", "reason": "Evicted"}}), "Evicted"),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}),
                "CrashLoopBackOff",
            ),
            (
                json!({"status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 2}}}]}}),
                "ExitCode:2",
            ),
            (json!({"metadata": {"deletionTimestamp": "t"}, "status": {"phase": "Running"}}), "Terminating"),
            (
                json!({"spec": {"initContainers": [{}, {}]}, "status": {"phase": "Pending", "initContainerStatuses": [{"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}}]}}),
                "Init:1/2",
            ),
        ] {
            assert_eq!(shown("", "Pod", &pod)[2], expected, "{pod}");
        }
    }

    /// A Pod whose sidecar ran was shown as `Init:0/1` for ever, and its sidecar as no container.
    #[test]
    fn sidecars_count_as_containers_once_they_have_started() {
        let pod = |sidecar: Value| {
            json!({"spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]},
                "status": {"phase": "Running", "initContainerStatuses": [sidecar, {"name": "i", "restartCount": 4, "state": {"terminated": {"exitCode": 0}}}],
                "containerStatuses": [{"name": "c", "ready": true, "restartCount": 1, "state": {"running": {}}}]}})
        };
        let columns = |sidecar| shown("", "Pod", &pod(sidecar))[1..4].to_vec();
        let started =
            json!({"name": "s", "started": true, "ready": true, "restartCount": 2, "state": {"running": {}}});
        assert_eq!(columns(started), [json!("2/2"), json!("Running"), json!("3")]);
        let starting = json!({"name": "s", "restartCount": 2, "state": {"running": {}}});
        assert_eq!(columns(starting), [json!("0/2"), json!("Init:0/2"), json!("2")]);
    }

    #[test]
    fn of_several_containers_those_that_run_or_failed_say_more_than_one_that_completed() {
        let pod = |ready: &str, second: Value| {
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}], "containerStatuses": [
                {"state": {"terminated": {"reason": "Completed", "exitCode": 0}}}, second]}})
        };
        let running = || json!({"ready": true, "state": {"running": {}}});
        let failed = json!({"state": {"terminated": {"reason": "Error", "exitCode": 1}}});
        for (pod, expected) in [
            (pod("True", running()), "Running"),
            (pod("False", running()), "NotReady"),
            (pod("False", failed), "Error"),
        ] {
            assert_eq!(shown("", "Pod", &pod)[2], expected, "{pod}");
        }
    }

    #[test]
    fn rows_of_ended_pods_show_their_phase() {
        let kind = by_kind("", "v1", "Pod").unwrap();
        let condition = |phase: &str| row_condition(kind, &json!({"status": {"phase": phase}}));
        assert_eq!(condition("Failed").unwrap()["message"], "The pod failed.");
        assert_eq!(condition("Running"), None);
    }

    #[test]
    fn rows_match_kubectl_get() {
        let meta = json!({"name": "x", "creationTimestamp": "1970-01-01T00:00:00Z"});
        for (group, kind, object, expected) in [
            (
                "",
                "ConfigMap",
                json!({"metadata": meta, "data": {"k": "1"}, "binaryData": {"b": ""}}),
                json!(["x", 2, "0s"]),
            ),
            (
                "",
                "Namespace",
                json!({"metadata": meta, "status": {"phase": "Active"}}),
                json!(["x", "Active", "0s"]),
            ),
            (
                "",
                "Secret",
                json!({"metadata": meta, "type": "Opaque", "data": {"a": ""}}),
                json!(["x", "Opaque", 1, "0s"]),
            ),
            (
                "",
                "Service",
                json!({"metadata": meta, "spec": {"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30_001, "protocol": "TCP"}], "selector": {"a": "b"}}}),
                json!(["x", "NodePort", "10.0.0.1", "<none>", "80:30001/TCP", "0s", "a=b"]),
            ),
            (
                "apps",
                "Deployment",
                json!({"metadata": meta, "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}, "status": {"readyReplicas": 1}}),
                json!(["x", "1/3", 0, 0, "0s", "c", "i", "a=b"]),
            ),
            (
                "",
                "Endpoints",
                json!({"metadata": meta, "subsets": [{"addresses": [{"ip": "1.1.1.1"}, {"ip": "::1"}], "ports": [{"port": 80}, {"port": 81}]}]}),
                json!(["x", "1.1.1.1:80,[::1]:80,1.1.1.1:81 + 1 more...", "0s"]),
            ),
            (
                "discovery.k8s.io",
                "EndpointSlice",
                json!({"metadata": meta, "addressType": "IPv4", "ports": [{"name": ""}]}),
                json!(["x", "IPv4", "<unset>", "<unset>", "0s"]),
            ),
            (
                "",
                "Event",
                json!({"metadata": meta, "lastTimestamp": "1970-01-01T00:00:00Z", "count": 5, "series": {"count": 3}, "involvedObject": {"kind": "Pod", "name": "p"}}),
                json!(["<unknown>", "", "", "pod/p", "", "", "", "<unknown>", 3, "x"]),
            ),
            (
                "coordination.k8s.io",
                "Lease",
                json!({"metadata": meta, "spec": {"holderIdentity": "me"}}),
                json!(["x", "me", "0s"]),
            ),
            (
                "rbac.authorization.k8s.io",
                "Role",
                json!({"metadata": meta}),
                json!(["x", "1970-01-01T00:00:00Z"]),
            ),
        ] {
            assert_eq!(Value::from(shown(group, kind, &object)), expected, "{kind}");
        }
    }

    #[test]
    fn selectors_read_as_queries() {
        let given = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "In", "values": ["2", "1"]}, {"key": "d", "operator": "DoesNotExist"}]});
        assert_eq!(selector(&given), "a=b,c in (1,2),!d");
        assert_eq!(selector(&Value::Null), "<none>");
    }
}
