//! Custom kinds with several versions and odd definitions: field owners of other versions, stored versions, what discovery lists,
//! objects of a kind that is being deleted, and warnings beside errors.

#![cfg(test)]

mod common;

use common::{Client, eventually, start};
use listwatch_server::Handle;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com";
const V1: &str = "/apis/example.com/v1/namespaces/default/things";
const V2: &str = "/apis/example.com/v2/namespaces/default/things";

/// A version whose spec has these properties.
fn version(name: &str, storage: bool, properties: Value) -> Value {
    let schema =
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
    json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}})
}

/// A server with a definition of these versions.
async fn client(versions: Value) -> (Handle, Client) {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": versions},
    });
    assert_eq!(client.call("POST", DEFINITIONS, Some(&definition)).await.status, 201);
    eventually("it is served", || server.api().registry.find("example.com", "v1", "things").is_some()).await;
    (server, client)
}

/// A definition whose two versions share a field and have one of their own each.
async fn two_versions() -> (Handle, Client) {
    let text = json!({"type": "string"});
    let versions = json!([
        version("v1", true, json!({"both": text, "old": text})),
        version("v2", false, json!({"both": text, "new": text})),
    ]);
    let (server, client) = client(versions).await;
    eventually("both are served", || server.api().registry.find("example.com", "v2", "things").is_some())
        .await;
    (server, client)
}

fn thing(version: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("example.com/{version}"), "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

async fn patch(client: &mut Client, kind: &str, path: &str, body: &Value) -> (u16, Value) {
    client.send("PATCH", path, &format!("content-type: application/{kind}\r\n"), &body.to_string()).await;
    let answer = client.answer().await;
    (answer.status, answer.json())
}

async fn apply(client: &mut Client, path: &str, manager: &str, body: &Value) -> (u16, Value) {
    patch(client, "apply-patch+yaml", &format!("{path}/a?fieldManager={manager}"), body).await
}

/// kube-apiserver compares the object in the version of each owner, and fails on a field that the version does not have.
#[tokio::test]
async fn a_field_unknown_to_the_version_of_another_owner_cannot_be_applied() {
    let (_server, mut client) = two_versions().await;
    assert_eq!(apply(&mut client, V1, "one", &thing("v1", json!({"both": "1"}))).await.0, 201);
    let (status, refused) = apply(&mut client, V2, "two", &thing("v2", json!({"new": "1"}))).await;
    assert_eq!(status, 500);
    assert_eq!(refused["message"], "failed to convert new object: .spec.new: field not declared in schema");
    assert_eq!(apply(&mut client, V2, "two", &thing("v2", json!({"both": "1"}))).await.0, 200);
}

#[tokio::test]
async fn a_field_unknown_to_the_version_of_an_owner_leaves_the_record_as_it_was() {
    let (_server, mut client) = two_versions().await;
    let made = client.call("POST", V1, Some(&thing("v1", json!({"both": "1"})))).await.json();
    let path = format!("{V2}/a?fieldManager=other");
    let (status, changed) =
        patch(&mut client, "merge-patch+json", &path, &json!({"spec": {"both": "2", "new": "3"}})).await;
    assert_eq!((status, &changed["spec"]["both"]), (200, &json!("2")));
    assert_eq!(changed["metadata"]["managedFields"], made["metadata"]["managedFields"]);
}

#[tokio::test]
async fn an_owner_of_a_version_that_was_removed_keeps_an_object_from_being_applied_to() {
    let (server, mut client) = two_versions().await;
    assert_eq!(apply(&mut client, V2, "two", &thing("v2", json!({"both": "1"}))).await.0, 201);
    let only = json!({"spec": {"versions": [version("v1", true, json!({"both": {"type": "string"}}))]}});
    assert_eq!(patch(&mut client, "merge-patch+json", DEFINITION, &only).await.0, 200);
    eventually("v2 is gone", || server.api().registry.find("example.com", "v2", "things").is_none()).await;
    let (status, refused) = apply(&mut client, V1, "one", &thing("v1", json!({"both": "1"}))).await;
    assert_eq!(status, 500);
    assert_eq!(refused["message"], "request to convert CR to an invalid group/version: example.com/v2");
}

/// A schema may change under stored objects, and what no longer fits it cannot be applied to.
#[tokio::test]
async fn an_object_that_no_longer_fits_its_schema_cannot_be_applied_to() {
    let (server, mut client) = client(json!([version("v1", true, json!({"a": {"type": "string"}}))])).await;
    assert_eq!(client.call("POST", V1, Some(&thing("v1", json!({"a": "1"})))).await.status, 201);
    let before = server.api().registry.find("example.com", "v1", "things").unwrap();
    let versions = json!({"spec": {"versions": [version("v1", true, json!({"a": {"type": "integer"}}))]}});
    assert_eq!(patch(&mut client, "merge-patch+json", DEFINITION, &versions).await.0, 200);
    let changed = || server.api().registry.find("example.com", "v1", "things");
    eventually("the schema is known", || changed().is_some_and(|now| !std::sync::Arc::ptr_eq(&now, &before)))
        .await;
    let (status, refused) = apply(&mut client, V1, "one", &thing("v1", json!({"a": 1}))).await;
    let message = refused["message"].as_str().unwrap();
    assert_eq!(status, 500);
    assert!(message.starts_with("failed to create typed live object (default/a; example.com/v1, Kind=Thing): .spec.a: expected numeric"), "{message}");
}

#[tokio::test]
async fn a_definition_without_stored_versions_has_its_storage_version() {
    let (_server, mut client) = two_versions().await;
    let path = format!("{DEFINITION}/status");
    let (status, changed) =
        patch(&mut client, "merge-patch+json", &path, &json!({"status": {"storedVersions": []}})).await;
    assert_eq!((status, &changed["status"]["storedVersions"]), (200, &json!(["v1"])));
}

/// The names and conditions in the status of a definition belong to the server.
#[tokio::test]
async fn the_status_of_a_definition_has_an_owner() {
    let (_server, mut client) = two_versions().await;
    let found = client.call("GET", DEFINITION, None).await.json();
    let owners = found["metadata"]["managedFields"].as_array().unwrap();
    let own =
        owners.iter().find(|owner| owner["manager"] == "kube-apiserver").expect("an entry of the server");
    assert_eq!((&own["subresource"], &own["operation"]), (&json!("status"), &json!("Update")));
    assert!(own["fieldsV1"]["f:status"]["f:acceptedNames"]["f:kind"].is_object());
    let conditions = own["fieldsV1"]["f:status"]["f:conditions"].as_object().unwrap();
    assert!(conditions.contains_key("k:{\"type\":\"Established\"}"));
}

#[tokio::test]
async fn discovery_hashes_only_storage_versions_that_are_served() {
    let (server, mut client) = two_versions().await;
    let hash = client.call("GET", "/apis/example.com/v2", None).await.json();
    assert!(hash["resources"][0]["storageVersionHash"].is_string());
    let text = json!({"type": "string"});
    let mut unserved = version("v1", true, json!({"both": text}));
    unserved["served"] = false.into();
    let versions = json!({"spec": {"versions": [unserved, version("v2", false, json!({"both": text}))]}});
    assert_eq!(patch(&mut client, "merge-patch+json", DEFINITION, &versions).await.0, 200);
    eventually("v1 is gone", || server.api().registry.find("example.com", "v1", "things").is_none()).await;
    let hash = client.call("GET", "/apis/example.com/v2", None).await.json();
    assert_eq!(hash["resources"][0].get("storageVersionHash"), None);
}

#[tokio::test]
async fn the_status_of_a_custom_kind_is_listed_without_its_group() {
    let mut only = version("v1", true, json!({"a": {"type": "string"}}));
    only["subresources"] = json!({"status": {}});
    let (_server, mut client) = client(json!([only])).await;
    let found = client.call("GET", "/apis/example.com/v1", None).await.json();
    let status = &found["resources"][1];
    assert_eq!((&status["name"], &status["kind"]), (&json!("things/status"), &json!("Thing")));
    assert_eq!((status.get("group"), status.get("version")), (None, None));
}

#[tokio::test]
async fn nothing_is_created_of_a_kind_that_is_being_deleted() {
    let (server, mut client) = two_versions().await;
    let mut held = thing("v1", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(client.call("POST", V1, Some(&held)).await.status, 201);
    assert_eq!(client.call("DELETE", DEFINITION, None).await.status, 200);
    let find = || server.api().registry.find("example.com", "v1", "things");
    eventually("it takes nothing new", || find().is_some_and(|found| !found.allows("create"))).await;
    let mut new = thing("v1", json!({}));
    new["metadata"]["name"] = "new".into();
    let refused = client.call("POST", V1, Some(&new)).await.json();
    assert_eq!((&refused["code"], &refused["details"]["name"]), (&json!(403), &json!("new")));
    let text = "create not allowed while custom resource definition is terminating";
    assert!(refused["message"].as_str().unwrap().ends_with(text), "{refused}");
}

/// Rules that unchanged parts break are warnings, also of a write that fails for another reason.
#[tokio::test]
async fn broken_rules_of_unchanged_parts_are_warnings_beside_errors() {
    let (server, mut client) =
        client(json!([version("v1", true, json!({"a": {"type": "string"}, "b": {"type": "string"}}))])).await;
    assert_eq!(
        client.call("POST", V1, Some(&thing("v1", json!({"a": "bad", "b": "good"})))).await.status,
        201
    );
    let rule = json!({"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'"}]});
    let before = server.api().registry.find("example.com", "v1", "things").unwrap();
    let versions = json!({"spec": {"versions": [version("v1", true, json!({"a": rule, "b": rule}))]}});
    assert_eq!(patch(&mut client, "merge-patch+json", DEFINITION, &versions).await.0, 200);
    let changed = || server.api().registry.find("example.com", "v1", "things");
    eventually("the rule is known", || changed().is_some_and(|now| !std::sync::Arc::ptr_eq(&now, &before)))
        .await;
    let body = json!({"spec": {"b": "bad"}}).to_string();
    client.send("PATCH", &format!("{V1}/a"), "content-type: application/merge-patch+json\r\n", &body).await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 422);
    let warning = answer.header("warning").expect("a warning");
    assert!(warning.contains("spec.a: Invalid value"), "{warning}");
}

/// kube-apiserver checks labels and owners of custom objects three times, what may not change twice, and finalizers once.
#[tokio::test]
async fn errors_in_the_metadata_of_custom_objects_are_repeated() {
    let (_server, mut client) = two_versions().await;
    client.call("POST", V1, Some(&thing("v1", json!({})))).await;
    let path = format!("{V1}/a");
    for (metadata, count) in [
        (json!({"labels": {"a b": "c"}}), 3),
        (json!({"uid": "other"}), 2),
        (json!({"finalizers": ["orphan", "foregroundDeletion"]}), 1),
    ] {
        let body = json!({"metadata": metadata});
        let (status, refused) = patch(&mut client, "merge-patch+json", &path, &body).await;
        let causes = refused["details"]["causes"].as_array().unwrap().len();
        assert_eq!(
            (status, causes),
            (if metadata.get("uid").is_some() { status } else { 422 }, count),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn the_table_of_a_custom_scale_has_columns_of_its_own() {
    let mut only = version("v1", true, json!({"replicas": {"type": "integer"}}));
    only["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    let (_server, mut client) = client(json!([only])).await;
    client.call("POST", V1, Some(&thing("v1", json!({"replicas": 2})))).await;
    let head = "accept: application/json;as=Table;v=v1;g=meta.k8s.io\r\n";
    client.send("GET", &format!("{V1}/a/scale"), head, "").await;
    let table = client.answer().await.json();
    let columns = &table["columnDefinitions"];
    assert_eq!((&columns[0]["format"], &columns[3]["type"]), (&json!("name"), &json!("date")));
}

/// Without the subresource, `status` is a field like any other.
#[tokio::test]
async fn a_status_without_a_subresource_counts_for_the_generation() {
    let mut plain = version("v1", true, json!({}));
    plain["schema"]["openAPIV3Schema"]["properties"]["status"] =
        json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let (_server, mut client) = client(json!([plain])).await;
    assert_eq!(client.call("POST", V1, Some(&thing("v1", json!({})))).await.status, 201);
    for (body, generation) in [
        (json!({"status": {"x": 1}}), 2),
        (json!({"metadata": {"labels": {"a": "b"}}}), 2),
        (json!({"status": null}), 3),
    ] {
        let (_, patched) = patch(&mut client, "merge-patch+json", &format!("{V1}/a"), &body).await;
        assert_eq!(patched["metadata"]["generation"], generation, "{body}");
    }
}

#[tokio::test]
async fn an_applied_custom_object_may_not_have_an_empty_version() {
    let (_server, mut client) = two_versions().await;
    let mut body = thing("v1", json!({}));
    assert_eq!(apply(&mut client, V1, "a", &body).await.0, 201);
    body["metadata"]["resourceVersion"] = "".into();
    let (code, status) = apply(&mut client, V1, "a", &body).await;
    assert_eq!((code, &status["details"]["causes"][0]["field"]), (422, &json!("metadata.resourceVersion")));
}

#[tokio::test]
async fn the_resources_of_a_custom_version_are_listed_for_any_method() {
    let (_server, mut client) = two_versions().await;
    for path in ["/apis/example.com/v1", "/apis/example.com"] {
        assert_eq!(client.call("POST", path, Some(&json!({}))).await.status, 200, "{path}");
    }
    assert_eq!(client.call("POST", "/apis/apps/v1", Some(&json!({}))).await.status, 405);
}

/// Gateways were shown without the conditions that their definition gives a new one; dry runs showed fields that are not stored.
#[tokio::test]
async fn a_new_object_has_the_default_of_its_status() {
    let mut first = version("v1", true, json!({"both": {"type": "string"}}));
    first["subresources"] = json!({"status": {}});
    first["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({"type": "object", "properties": {"phase": {"type": "string"}}, "default": {"phase": "Pending"}});
    let second = version("v2", false, json!({"both": {"type": "string"}, "new": {"type": "string"}}));
    let (server, mut client) = client(json!([first, second])).await;
    eventually("v2 is served", || server.api().registry.find("example.com", "v2", "things").is_some()).await;
    let sent = thing("v2", json!({"both": "a", "new": "b"}));
    let dry = client.call("POST", &format!("{V2}?dryRun=All"), Some(&sent)).await.json();
    assert_eq!(dry["spec"], json!({"both": "a"}));
    let mut sent = thing("v1", json!({"both": "a"}));
    sent["status"] = json!({"phase": "Sent"});
    let pending = json!({"phase": "Pending"});
    let dry = client.call("POST", &format!("{V1}?dryRun=All"), Some(&sent)).await.json();
    let made = client.call("POST", V1, Some(&sent)).await.json();
    assert_eq!((&dry["status"], &made["status"]), (&pending, &pending));
    assert_eq!(client.get(&format!("{V1}/a")).await["status"], pending);
    assert!(!made["metadata"]["managedFields"].to_string().contains("f:status"));
}

/// `kubectl wait` for the condition never ended, and the annotation could be taken away.
#[tokio::test]
async fn the_approval_of_a_definition_is_a_condition() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let mut definition = json!({
        "metadata": {"name": "things.x.k8s.io", "annotations": {"api-approved.kubernetes.io": "https://example.com/1"}},
        "spec": {"group": "x.k8s.io", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", true, json!({}))]},
    });
    assert_eq!(client.call("POST", DEFINITIONS, Some(&definition)).await.status, 201);
    eventually("it is served", || server.api().registry.find("x.k8s.io", "v1", "things").is_some()).await;
    let path = format!("{DEFINITIONS}/things.x.k8s.io");
    let found = client.get(&path).await;
    let approval = &found["status"]["conditions"][2];
    assert_eq!(
        (&approval["type"], &approval["reason"]),
        (&json!("KubernetesAPIApprovalPolicyConformant"), &json!("ApprovedAnnotation"))
    );
    definition["metadata"]["annotations"] = json!({});
    definition["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
    assert_eq!(client.call("PUT", &path, Some(&definition)).await.status, 422);
}
