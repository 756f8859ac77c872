//! Conversion of built-in kinds between the version of a request and the version that is stored.
//!
//! Only two built-in kinds are served in more than one form: events (core and `events.k8s.io`) and horizontal pod
//! autoscalers (`v1` and `v2`). [`field@crate::Kind::stored_as`] says which form is stored, and the strategy of the row
//! has the function. The conversion is lossless: fields that the older form lacks are kept in annotations, as in
//! kube-apiserver.

mod autoscaler;
mod autoscaler_fields;
mod go_text;

pub(crate) use autoscaler::{
    autoscaler_v1, complete_v1_spec, drop_annotations as drop_autoscaler_annotations,
};

use listwatch_wire::json::{Map, Value};

use crate::kind::Kind;

/// Turns an object of this kind into the form that is stored. Does nothing for kinds that are stored as they are.
///
/// Cannot fail: fields that the other version lacks are kept in annotations or dropped, as in kube-apiserver.
///
/// The defaults of the stored form are filled in, with which kube-apiserver reads what it has stored.
pub fn to_stored(kind: &Kind, object: &mut Value) {
    to_validated(kind, object);
    let stored = kind.stored_as.and_then(|(group, version)| crate::by_kind(group, version, kind.kind));
    if let (Some(stored), Value::Object(map)) = (stored, object) {
        (stored.strategy.defaults)(map);
    }
}

/// Turns an object of this kind into the form that is validated: the stored one without its defaults.
pub(crate) fn to_validated(kind: &Kind, object: &mut Value) {
    convert(kind, object, Direction::ToStored);
}

/// Turns a stored object into the form of this kind.
///
/// ```
/// use listwatch_kinds::{by_kind, convert};
/// let events = by_kind("events.k8s.io", "v1", "Event").unwrap();
/// let mut event = listwatch_wire::json::json!({"apiVersion": "v1", "kind": "Event", "message": "hello"});
/// convert::from_stored(events, &mut event);
/// assert_eq!(event, listwatch_wire::json::json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "hello"}));
/// ```
///
/// Runs for each object of a list or watch in the other version, so those cost a parse and an encoding per object.
pub fn from_stored(kind: &Kind, object: &mut Value) {
    convert(kind, object, Direction::FromStored);
}

/// The form that an object is converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToStored,
    FromStored,
}

/// Converts an object between the version of its endpoint and the one that is stored, and writes `apiVersion` to
/// match.
fn convert(kind: &Kind, object: &mut Value, direction: Direction) {
    let (Some((group, version)), Value::Object(map)) = (kind.stored_as, object) else { return };
    (kind.strategy.convert)(map, direction);
    if let Some(api_version) = map.get_mut("apiVersion") {
        *api_version = match direction {
            Direction::ToStored if group.is_empty() => version.into(),
            Direction::ToStored => format!("{group}/{version}").into(),
            Direction::FromStored => kind.api_version().into(),
        };
    }
}

/// The fields of `events.k8s.io` events and what they are called in core ones.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("reportingInstance", "reportingInstance"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

/// Renames the fields of an event.
pub(crate) fn event(map: &mut Map, direction: Direction) {
    for &(served, stored) in EVENT_FIELDS {
        let (from, to) = if direction == Direction::ToStored { (served, stored) } else { (stored, served) };
        // Only the stored form writes texts that are empty.
        if let Some(value) = map.remove(from).filter(|value| direction == Direction::ToStored || value != "")
        {
            map.insert(to, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use listwatch_wire::json::json;

    use super::*;
    use crate::by_kind;

    fn there_and_back(kind: &Kind, served: &Value) -> Value {
        let mut object = served.clone();
        to_stored(kind, &mut object);
        let stored = object.clone();
        from_stored(kind, &mut object);
        assert_eq!(&object, served);
        stored
    }

    #[test]
    fn events_of_both_groups_are_one_set_of_objects() {
        let served = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "regarding": {"kind": "Pod"}, "note": "n", "reportingController": "c", "deprecatedCount": 2});
        let stored = there_and_back(by_kind("events.k8s.io", "v1", "Event").unwrap(), &served);
        assert_eq!(
            stored,
            json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
                "involvedObject": {"kind": "Pod"}, "message": "n", "reportingComponent": "c", "count": 2})
        );
    }

    #[test]
    fn the_cpu_target_of_an_old_autoscaler_is_a_metric_of_the_new() {
        let mut stored = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 80},
            "status": {"currentCPUUtilizationPercentage": 40, "currentReplicas": 0}});
        let kind = by_kind("autoscaling", "v1", "HorizontalPodAutoscaler").unwrap();
        to_stored(kind, &mut stored);
        assert_eq!(stored["apiVersion"], "autoscaling/v2");
        assert_eq!(
            stored["spec"]["metrics"],
            json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}])
        );
        assert_eq!(stored["status"]["currentMetrics"][0]["resource"]["current"]["averageUtilization"], 40);
        let mut back = stored.clone();
        from_stored(kind, &mut back);
        assert_eq!(
            back["spec"],
            json!({"maxReplicas": 3, "minReplicas": 1, "targetCPUUtilizationPercentage": 80})
        );
        assert_eq!(
            back["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/current-metrics"],
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":40,"currentAverageValue":"0"}}]"#
        );
    }

    #[test]
    fn fields_unknown_to_autoscaling_v1_travel_in_annotations() {
        let v2 = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "minReplicas": 1, "metrics": [
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                {"type": "Pods", "pods": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"type": "AverageValue", "averageValue": "5"}}},
                {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s"},
                    "metric": {"name": "q"}, "target": {"type": "Value", "value": "7"}}},
                {"type": "External", "external": {"metric": {"name": "x", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"type": "Value", "value": "9"}}},
                {"type": "ContainerResource", "containerResource": {"container": "c", "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 60}}},
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
                "behavior": {
                    "scaleUp": {"stabilizationWindowSeconds": 5, "selectPolicy": "Min", "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}]},
                    "scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]}}},
            "status": {"currentMetrics": null, "conditions": [{"type": "ScalingActive", "status": "True", "lastTransitionTime": null}]}});
        let kind = by_kind("autoscaling", "v1", "HorizontalPodAutoscaler").unwrap();
        let mut object = v2.clone();
        from_stored(kind, &mut object);
        assert_eq!(
            object["spec"],
            json!({"maxReplicas": 3, "minReplicas": 1, "targetCPUUtilizationPercentage": 50})
        );
        let metrics =
            object["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"].as_str().unwrap();
        assert!(metrics.contains(r#"{"name":"memory","targetAverageValue":"1Gi"}"#), "{metrics}");
        assert_eq!(
            object["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"],
            concat!(
                r#"{"ScaleUp":{"StabilizationWindowSeconds":5,"SelectPolicy":"Min","#,
                r#""Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"#,
                r#""ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","#,
                r#""Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}"#
            )
        );
        to_stored(kind, &mut object);
        assert_eq!(object, v2);
    }

    /// An annotation that could not be read used to stay on the object.
    #[test]
    fn annotations_of_the_conversion_are_consumed_whatever_they_contain() {
        let kind = by_kind("autoscaling", "v1", "HorizontalPodAutoscaler").unwrap();
        let mut object = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/metrics": "[{\"type\": 1}]", "a": "b"}}});
        to_stored(kind, &mut object);
        assert_eq!(object["metadata"]["annotations"], json!({"a": "b"}));
    }

    #[test]
    fn an_old_autoscaler_without_metrics_gets_the_default_target() {
        let kind = by_kind("autoscaling", "v1", "HorizontalPodAutoscaler").unwrap();
        let read = |annotations: Value| {
            let mut object = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
                "metadata": {"annotations": annotations}, "spec": {"maxReplicas": 3}});
            crate::defaults::apply(kind, &mut object);
            object
        };
        let unreadable = read(json!({"autoscaling.alpha.kubernetes.io/metrics": "x"}));
        assert_eq!(unreadable["spec"]["targetCPUUtilizationPercentage"], 80);
        assert_eq!(unreadable["metadata"], json!({}));
        let pods = r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"5"}}]"#;
        let annotated = read(json!({"autoscaling.alpha.kubernetes.io/metrics": pods}));
        assert_eq!(annotated["spec"], json!({"maxReplicas": 3, "minReplicas": 1}));
    }

    /// A write of the spec replaces the status by the stored one: nothing of it may be left in an annotation.
    #[test]
    fn defaults_of_an_old_autoscaler_leave_its_status_alone() {
        let kind = by_kind("autoscaling", "v1", "HorizontalPodAutoscaler").unwrap();
        let metadata = json!({"annotations": {"autoscaling.alpha.kubernetes.io/conditions": "[]"}});
        let status = json!({"currentCPUUtilizationPercentage": 3, "desiredReplicas": 1});
        let mut object = json!({"metadata": metadata, "spec": {"maxReplicas": 3}, "status": status});
        crate::defaults::apply(kind, &mut object);
        assert_eq!((&object["metadata"], &object["status"]), (&metadata, &status));
        assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 80);
    }

    /// The text of kube-apiserver for a behavior of which a part was given.
    #[test]
    fn a_behavior_in_an_annotation_is_completed() {
        let kind = by_kind("autoscaling", "v1", "HorizontalPodAutoscaler").unwrap();
        let sent =
            r#"{"ScaleUp":{"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":60}]}}"#;
        let mut object = json!({"metadata": {"annotations": {"autoscaling.alpha.kubernetes.io/behavior": sent}}, "spec": {}});
        to_stored(kind, &mut object);
        from_stored(kind, &mut object);
        assert_eq!(
            object["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"],
            concat!(
                r#"{"ScaleUp":{"StabilizationWindowSeconds":0,"SelectPolicy":"Min","#,
                r#""Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":60}],"Tolerance":null},"#,
                r#""ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","#,
                r#""Policies":[{"Type":"Percent","Value":100,"PeriodSeconds":15}],"Tolerance":null}}"#
            )
        );
    }

    #[test]
    fn other_kinds_are_left_alone() {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "message": 1});
        to_stored(by_kind("", "v1", "Pod").unwrap(), &mut pod);
        assert_eq!(pod, json!({"apiVersion": "v1", "kind": "Pod", "message": 1}));
    }
}
