//! Tests of typed decoding, each of one rule.
//! Expected texts are those of kube-apiserver. Unknown fields are reported in the order of the body, and a body with
//! very many of them must cost no more than one that is correct.

use listwatch_wire::json::{Value, json};

use super::*;
use crate::schema::node;

fn decoded(group: &str, kind: &str, mut object: Value) -> (Value, TypeReport) {
    let report = decode(node(group, "v1", kind).expect(kind), &mut object, None);
    (object, report)
}

fn error(group: &str, kind: &str, object: Value) -> String {
    decoded(group, kind, object).1.error.expect("an error")
}

#[test]
fn unknown_fields_are_dropped_and_reported_with_their_path() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "m", "image": "i", "wrong": 1, "env": [{"name": "A", "valeu": "x"}]}]}});
    let (object, report) = decoded("", "Pod", pod);
    assert_eq!(report.unknown, ["spec.containers[0].env[0].valeu", "spec.containers[0].wrong"]);
    assert_eq!(object["spec"]["containers"][0], json!({"name": "m", "image": "i", "env": [{"name": "A"}]}));
}

#[test]
fn unknown_fields_come_in_the_order_of_the_body() {
    let body = r#"{"spec": {"z": 1, "containers": [{"name": "m", "wrong": [{"q": 1}], "env": [{"valeu": null}]}], "a": 2}}"#;
    let (_, report) = decoded("", "Pod", serde_json::from_str(body).unwrap());
    let told = |body: &[u8]| report.strict_decoding_errors(&[], body);
    let wanted = ["spec.z", "spec.containers[0].wrong", "spec.containers[0].env[0].valeu", "spec.a"];
    assert_eq!(told(body.as_bytes()), wanted.map(|path| format!("unknown field {path:?}")));
    assert_eq!(told(b"{\"spec\": {\"a\": 1, ")[0], "unknown field \"spec.a\"");
}

#[test]
fn repeated_known_fields_are_reported_with_their_path() {
    let body = r#"{"metadata": {"name": "a", "name": "b", "x": 1}, "spec": {"y": 1, "y": 2, "paused": true, "paused": false, "z": {"q": 1, "q": 2}}}"#;
    let parsed = listwatch_wire::json::parse(body.as_bytes()).unwrap();
    let (_, report) = decoded("apps", "Deployment", parsed.value);
    let told = report.strict_decoding_errors(&parsed.duplicates, body.as_bytes());
    let wanted = [
        "duplicate field \"metadata.name\"",
        "unknown field \"metadata.x\"",
        "unknown field \"spec.y\"",
        "duplicate field \"spec.paused\"",
        "unknown field \"spec.z\"",
    ];
    assert_eq!(told, wanted);
}

#[test]
fn the_list_of_unknown_fields_is_bounded() {
    let object: Value = (0..1000).map(|n| (format!("x{n}"), Value::Null)).collect::<Map>().into();
    let (object, report) = decoded("", "ConfigMap", object);
    assert_eq!((object, report.unknown.len()), (json!({}), MAX_UNKNOWN));
}

#[test]
fn case_matters() {
    assert_eq!(decoded("", "ConfigMap", json!({"Data": {"k": "1"}})).1.unknown, ["Data"]);
}

#[test]
fn wrong_types_are_named_as_go_names_them() {
    for (kind, object, message) in [
        ("ConfigMap", json!({"data": {"k": 5}}), "number into Go struct field ConfigMap.data of type string"),
        (
            "ConfigMap",
            json!({"data": "x"}),
            "string into Go struct field ConfigMap.data of type map[string]string",
        ),
        (
            "ConfigMap",
            json!({"metadata": {"name": 7}}),
            "number into Go struct field ObjectMeta.metadata.name of type string",
        ),
        (
            "ConfigMap",
            json!({"metadata": {"labels": {"l": true}}}),
            "bool into Go struct field ObjectMeta.metadata.labels of type string",
        ),
        (
            "Pod",
            json!({"spec": {"containers": "x"}}),
            "string into Go struct field PodSpec.spec.containers of type []v1.Container",
        ),
        (
            "Pod",
            json!({"spec": {"containers": [5]}}),
            "number into Go struct field PodSpec.spec.containers of type v1.Container",
        ),
        (
            "Service",
            json!({"spec": {"type": []}}),
            "array into Go struct field ServiceSpec.spec.type of type v1.ServiceType",
        ),
    ] {
        assert_eq!(error("", kind, object), format!("json: cannot unmarshal {message}"));
    }
}

#[test]
fn numbers_that_do_not_fit_are_quoted() {
    for (replicas, found) in [
        (json!("two"), "string"),
        (json!(1.5), "number 1.5"),
        (json!(5_000_000_000_u64), "number 5000000000"),
    ] {
        assert_eq!(
            error("apps", "Deployment", json!({"spec": {"replicas": replicas}})),
            format!(
                "json: cannot unmarshal {found} into Go struct field DeploymentSpec.spec.replicas of type int32"
            )
        );
    }
}

#[test]
fn nulls_and_empty_optional_values_vanish_but_pointers_keep_zero() {
    let deployment = json!({"metadata": {"labels": {}, "annotations": null, "name": ""},
        "spec": {"replicas": 0, "minReadySeconds": 0, "paused": false, "strategy": {}}});
    let (object, _) = decoded("apps", "Deployment", deployment);
    assert_eq!(object, json!({"metadata": {}, "spec": {"replicas": 0, "strategy": {}}}));
}

#[test]
fn a_null_in_a_map_or_list_is_a_zero_value() {
    let (object, report) = decoded("", "ConfigMap", json!({"data": {"k": null}}));
    assert_eq!((object, report.error), (json!({"data": {"k": ""}}), None));
}

#[test]
fn quantities_and_times_take_their_canonical_form() {
    let pod = json!({"metadata": {"creationTimestamp": "2026-01-02T05:04:05.5+02:00"}, "spec": {"containers": [
        {"name": "m", "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}}}]}});
    let (object, _) = decoded("", "Pod", pod);
    assert_eq!(object["metadata"]["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(
        object["spec"]["containers"][0]["resources"]["limits"],
        json!({"cpu": "500m", "memory": "1Gi"})
    );
    let pod = json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "lots"}}}]}});
    assert!(error("", "Pod", pod).starts_with("quantities must match the regular expression"));
}

#[test]
fn bytes_are_base64() {
    assert!(decoded("", "Secret", json!({"data": {"k": "dmFsdWU="}})).1.error.is_none());
    assert_eq!(error("", "Secret", json!({"data": {"k": "%%%"}})), "illegal base64 data at input byte 0");
}

#[test]
fn ports_are_numbers_or_names() {
    let port = |port: Value| json!({"spec": {"ports": [{"port": 1, "targetPort": port}]}});
    assert!(decoded("", "Service", port(json!("http"))).1.error.is_none());
    assert!(decoded("", "Service", port(json!(80))).1.error.is_none());
    assert_eq!(
        error("", "Service", port(json!(true))),
        "json: cannot unmarshal bool into Go value of type int32"
    );
}

#[test]
fn json_schemas_hold_schemas_bools_and_any_value() {
    let schema = json!({"spec": {"versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
        "type": "object", "properties": {"a": {"default": {"x": [1, null]}, "additionalProperties": true,
            "items": {"type": "string", "bogus": 1}}}}}}]}});
    let (object, report) = decoded("apiextensions.k8s.io", "CustomResourceDefinition", schema);
    assert_eq!(report.unknown, [""; 0]);
    let a = &object["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["a"];
    assert_eq!(a["default"], json!({"x": [1, null]}));
    assert_eq!(a["additionalProperties"], json!(true));
}

#[test]
fn filling_adds_what_structs_always_write() {
    let filled = |group: &str, kind: &str, mut object: Value| {
        fill(node(group, "v1", kind).unwrap(), &mut object, None);
        object
    };
    assert_eq!(filled("", "ConfigMap", json!({})), json!({"metadata": {}}));
    assert_eq!(
        filled("rbac.authorization.k8s.io", "Role", json!({"metadata": {}})),
        json!({"metadata": {}, "rules": null})
    );
    let deployment = filled("apps", "Deployment", json!({"spec": {"replicas": 1}}));
    assert_eq!(deployment["status"], json!({}));
    assert_eq!(
        deployment["spec"],
        json!({"replicas": 1, "selector": null, "strategy": {},
            "template": {"metadata": {}, "spec": {"containers": null}}})
    );
}

#[test]
fn a_value_that_is_no_object_is_an_error() {
    assert!(error("", "ConfigMap", json!([])).contains("array into Go value of type v1.ConfigMap"));
}

/// Any JSON up to a few levels, with field names of real objects mixed in so that walks get deep.
fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
    use proptest::prelude::*;
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let key = prop_oneof![
        Just("metadata"),
        Just("spec"),
        Just("template"),
        Just("containers"),
        Just("volumes"),
        Just("status"),
        Just("resources"),
        Just("limits"),
        Just("ports"),
        Just("conditions"),
        Just("labels"),
        Just("x"),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    })
}

proptest::proptest! {
    #[test]
    fn any_json_is_answered_and_a_second_pass_changes_nothing(object in any_json(), pick in 0..200usize) {
        let kinds = crate::all();
        let kind = &kinds[pick % kinds.len()];
        let node = node(kind.group, kind.version, kind.kind).unwrap();
        let mut once = object;
        if decode(node, &mut once, None).error.is_none() {
            let mut twice = once.clone();
            proptest::prop_assert_eq!(decode(node, &mut twice, None), TypeReport::default());
            proptest::prop_assert_eq!(&twice, &once);
            fill(node, &mut once, None);
            let mut filled = once.clone();
            fill(node, &mut filled, None);
            proptest::prop_assert_eq!(filled, once);
        }
    }
}

#[test]
fn kind_and_api_version_are_fields_of_every_object() {
    for kind in crate::all() {
        let given = json!({"apiVersion": kind.api_version(), "kind": kind.kind, "metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}});
        let mut object = given.clone();
        let report = decode(node(kind.group, kind.version, kind.kind).unwrap(), &mut object, None);
        assert_eq!((report, object), (TypeReport::default(), given));
    }
}

/// Unknown keywords inside of `items` and `additionalProperties` made a strict write fail.
#[test]
fn unknown_keywords_of_nested_schemas_are_dropped_silently() {
    let schema = json!({"type": "array", "items": {"type": "string", "odd": 1}, "even": 2});
    let definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
    let (object, report) = decoded("apiextensions.k8s.io", "CustomResourceDefinition", definition);
    assert_eq!(report.unknown, ["spec.versions[0].schema.openAPIV3Schema.even"]);
    assert_eq!(
        object.pointer("/spec/versions/0/schema/openAPIV3Schema/items"),
        Some(&json!({"type": "string"}))
    );
}

/// A null in a map of bytes stayed null.
#[test]
fn bytes_that_are_null_are_empty() {
    assert_eq!(decoded("", "Secret", json!({"data": {"a": null}})).0, json!({"data": {"a": ""}}));
}
