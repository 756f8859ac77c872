//! Odd writes of custom objects: another kind, owners of other versions, negative replicas, rules about the whole object.

#![cfg(test)]

mod common;

use common::{Client, eventually, start};
use listwatch_server::Handle;
use serde_json::{Value, json};

const PATH: &str = "/apis/example.com/v1/namespaces/default/things";

async fn client() -> (Handle, Client) {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let closed = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let schema = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "!has(self.spec) || !has(self.spec.odd)", "message": "is odd"}],
        "properties": {"spec": {"type": "object", "properties": {
            "replicas": {"type": "integer", "minimum": 0}, "odd": {"type": "boolean"}, "closed": closed,
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"closed": closed}},
            "list": {
                "type": "array", "maxItems": 9, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
            },
        }}, "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}},
    });
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let version = json!({
        "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": scale},
    });
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [version]},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.call("POST", path, Some(&definition)).await.status, 201);
    eventually("it is served", || server.api().registry.find("example.com", "v1", "things").is_some()).await;
    (server, client)
}

fn thing(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec})
}

fn causes(status: &Value) -> Vec<&str> {
    let causes = status["details"]["causes"].as_array().unwrap();
    causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect()
}

async fn patch(client: &mut Client, kind: &str, path: &str, body: &Value) -> (u16, Value) {
    client.send("PATCH", path, &format!("content-type: application/{kind}\r\n"), &body.to_string()).await;
    let answer = client.answer().await;
    (answer.status, answer.json())
}

/// kube-apiserver cannot convert the object to such a version, and leaves the record as it was stored.
#[tokio::test]
async fn owners_of_unknown_versions_leave_the_record_as_it_was() {
    let (_server, mut client) = client().await;
    let entry = json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:x": {}}}]);
    let mut odd = thing("a", json!({"replicas": 1}));
    odd["metadata"]["managedFields"] = entry;
    let made = client.call("POST", PATH, Some(&odd)).await.json();
    assert_eq!(made["metadata"].get("managedFields"), None);
    let made = client.call("POST", PATH, Some(&thing("b", json!({"replicas": 1})))).await.json();
    odd["metadata"]["name"] = "b".into();
    odd["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    odd["spec"]["replicas"] = 2.into();
    let changed = client.call("PUT", &format!("{PATH}/b"), Some(&odd)).await.json();
    assert_eq!(changed["spec"]["replicas"], 2);
    assert_eq!(changed["metadata"]["managedFields"], made["metadata"]["managedFields"]);
}

#[tokio::test]
async fn a_patch_is_held_to_the_name_before_the_kind() {
    let (_server, mut client) = client().await;
    client.call("POST", PATH, Some(&thing("a", json!({})))).await;
    let path = format!("{PATH}/a");
    let moved = json!([{"op": "move", "from": "/metadata/name", "path": "/kind"}]);
    assert_eq!(patch(&mut client, "json-patch+json", &path, &moved).await.0, 400);
    assert_eq!(patch(&mut client, "merge-patch+json", &path, &json!({"kind": "Other"})).await.0, 422);
}

/// Custom objects are never overwritten without a version, and a patch that takes it away would.
#[tokio::test]
async fn a_patch_cannot_take_the_version_away() {
    let (_server, mut client) = client().await;
    client.call("POST", PATH, Some(&thing("a", json!({})))).await;
    let odd = json!({"metadata": {"resourceVersion": null}, "spec": {"replicas": 2}});
    let (status, refused) = patch(&mut client, "merge-patch+json", &format!("{PATH}/a"), &odd).await;
    assert_eq!((status, causes(&refused)), (422, vec!["metadata.resourceVersion"]));
}

/// Replicas of a custom object are checked by its schema and by its definition, and both name the field in their way.
#[tokio::test]
async fn negative_replicas_are_refused_by_schema_and_definition() {
    let (_server, mut client) = client().await;
    client.call("POST", PATH, Some(&thing("a", json!({"replicas": 1})))).await;
    let path = format!("{PATH}/a/scale");
    let (status, refused) =
        patch(&mut client, "merge-patch+json", &path, &json!({"spec": {"replicas": -1}})).await;
    assert_eq!((status, causes(&refused)), (422, vec!["spec.replicas", ".spec.replicas"]), "{refused}");
}

#[tokio::test]
async fn a_rule_about_the_whole_object_names_no_field() {
    let (_server, mut client) = client().await;
    let refused = client.call("POST", PATH, Some(&thing("a", json!({"odd": true})))).await;
    assert_eq!((refused.status, causes(&refused.json())), (422, vec!["<nil>"]));
}

/// An applied field that the schema does not declare is an error, but not inside of something that keeps unknown fields, although
/// it is pruned there, too.
#[tokio::test]
async fn unknown_fields_can_be_applied_inside_of_what_keeps_them() {
    let (_server, mut client) = client().await;
    let path = format!("{PATH}/a?fieldManager=me");
    let odd = json!({"closed": {"unheardOf": 1}});
    let (status, _) = patch(&mut client, "apply-patch+yaml", &path, &thing("a", odd.clone())).await;
    assert_eq!(status, 500);
    let (status, made) =
        patch(&mut client, "apply-patch+yaml", &path, &thing("a", json!({"free": odd}))).await;
    assert_eq!((status, &made["spec"]["free"]), (201, &json!({"closed": {}})));
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert_eq!(owned, &json!({"f:free": {"f:closed": {"f:unheardOf": {}}}}));
}

#[tokio::test]
async fn an_element_of_a_keyed_list_is_an_object() {
    let (_server, mut client) = client().await;
    let refused = client.call("POST", PATH, Some(&thing("a", json!({"list": [7, {"k": "x"}]})))).await.json();
    let causes: Vec<(&str, &str)> = refused["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|cause| (cause["reason"].as_str().unwrap(), cause["field"].as_str().unwrap()))
        .collect();
    assert!(causes.contains(&("FieldValueInvalid", "spec.list[0]")), "{causes:?}");
    assert!(causes.contains(&("FieldValueTypeInvalid", "spec.list[0]")), "{causes:?}");
}

/// An empty record once reset ownership, as it does for built-in kinds.
#[tokio::test]
async fn an_empty_record_is_none() {
    let (_server, mut client) = client().await;
    let made = client.call("POST", PATH, Some(&thing("a", json!({"replicas": 1})))).await.json();
    let empty = json!({"metadata": {"managedFields": []}});
    let (status, kept) = patch(&mut client, "merge-patch+json", &format!("{PATH}/a"), &empty).await;
    assert_eq!(status, 200);
    assert_eq!(kept["metadata"]["managedFields"], made["metadata"]["managedFields"]);
}

/// kube-apiserver cannot start a record from a Scale of a custom resource, nor convert a Scale whose replicas an apply changed.
#[tokio::test]
async fn an_applied_scale_needs_an_owner_and_changes_nothing() {
    let (_server, mut client) = client().await;
    client.call("POST", PATH, Some(&thing("a", json!({})))).await;
    client.call("POST", PATH, Some(&thing("b", json!({"replicas": 1})))).await;
    let scale = |name: &str, replicas: i64| json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": {"replicas": replicas}});
    for (name, replicas, code) in [("a", 3, 500), ("b", 3, 500), ("b", 1, 200)] {
        let at = format!("{PATH}/{name}/scale?fieldManager=m&force=true");
        let (status, answer) = patch(&mut client, "apply-patch+yaml", &at, &scale(name, replicas)).await;
        assert_eq!(status, code, "{name} {replicas} {answer}");
    }
    let stored = client.call("GET", &format!("{PATH}/b"), None).await.json();
    assert_eq!(stored["spec"]["replicas"], 1);
}

/// A Scale of a custom resource has no protobuf form, and the uid in a patch of it is not compared.
#[tokio::test]
async fn a_custom_scale_is_json_and_patched_with_any_uid() {
    let (_server, mut client) = client().await;
    client.call("POST", PATH, Some(&thing("a", json!({"replicas": 1})))).await;
    let path = format!("{PATH}/a/scale");
    client.send("GET", &path, "accept: application/vnd.kubernetes.protobuf\r\n", "").await;
    assert_eq!(client.answer().await.status, 406);
    let other = json!({"metadata": {"uid": "other"}, "spec": {"replicas": 2}});
    assert_eq!(patch(&mut client, "merge-patch+json", &path, &other).await.0, 200);
    let put = json!({"metadata": {"name": "a", "uid": "other"}, "spec": {"replicas": 3}});
    assert_eq!(client.call("PUT", &path, Some(&put)).await.status, 409);
}

/// An apply configuration is YAML, in which 2.0 is the whole number 2 even if it looks like JSON.
#[tokio::test]
async fn whole_floats_can_be_applied_as_integers() {
    let (_server, mut client) = client().await;
    let path = format!("{PATH}/a?fieldManager=m");
    let configuration = thing("a", json!({"replicas": 2.0}));
    let (status, applied) = patch(&mut client, "apply-patch+yaml", &path, &configuration).await;
    assert_eq!((status, &applied["spec"]["replicas"]), (201, &json!(2)), "{applied}");
}

/// The name of a replaced object is compared before its kind, and duplicate fields are found before that.
#[tokio::test]
async fn a_put_is_held_to_the_name_before_the_kind() {
    let (_server, mut client) = client().await;
    client.call("POST", PATH, Some(&thing("a", json!({})))).await;
    let other =
        |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": name}});
    for (name, status) in [("b", 400), ("a", 422)] {
        assert_eq!(
            client.call("PUT", &format!("{PATH}/a"), Some(&other(name))).await.status,
            status,
            "{name}"
        );
    }
    let twice = r#"{"apiVersion":"example.com/v1","kind":"Thing","kind":"Other","metadata":{"name":"c"}}"#;
    let json = "content-type: application/json\r\n";
    client.send("POST", &format!("{PATH}?fieldValidation=Strict"), json, twice).await;
    assert_eq!(client.answer().await.status, 400);
}
