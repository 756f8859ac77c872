//! Odd field owners and metadata of built-in kinds: empty lists, long managers, prefixes of names that were generated.

#![cfg(test)]

mod common;

use common::{Client, client};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn merge(client: &mut Client, path: &str, body: &Value) -> (u16, Value) {
    client.send("PATCH", path, "content-type: application/merge-patch+json\r\n", &body.to_string()).await;
    let answer = client.answer().await;
    (answer.status, answer.json())
}

/// kube-apiserver's store has no empty lists, but their sender owns the field.
#[tokio::test]
async fn an_empty_list_has_an_owner() {
    let (_server, mut client) = client().await;
    let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let made = client.call("POST", path, Some(&json!({"metadata": {"name": "r"}, "rules": []}))).await.json();
    assert_eq!(made["rules"], Value::Null);
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:rules": {}}));
    let path = "/api/v1/namespaces/default/limitranges";
    let made = client
        .call("POST", path, Some(&json!({"metadata": {"name": "l"}, "spec": {"limits": []}})))
        .await
        .json();
    assert_eq!(made["spec"]["limits"], Value::Null);
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:spec": {"f:limits": {}}}));
    let nothing = client
        .call("POST", path, Some(&json!({"metadata": {"name": "n"}, "spec": {"limits": null}})))
        .await
        .json();
    assert_eq!(nothing["metadata"].get("managedFields"), None);
}

/// The fields that a path resets have no owner: the status of a new Node, the spec of a certificate request; nor has
/// what a Binding sets, and what has no schema has one owner.
#[tokio::test]
async fn fields_that_a_path_resets_have_no_owner() {
    let (_server, mut client) = client().await;
    let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"}}});
    let made = client.call("POST", "/api/v1/nodes", Some(&node)).await.json();
    assert_eq!(made["status"]["capacity"]["cpu"], "1");
    assert_eq!(made["metadata"].get("managedFields"), None);
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = client.call("POST", pods, Some(&pod)).await.json();
    let binding = json!({"metadata": {"name": "p", "uid": "other"}, "target": {"kind": "Node", "name": "n"}});
    assert_eq!(client.call("POST", &format!("{pods}/p/binding"), Some(&binding)).await.status, 409);
    let legacy = "/api/v1/namespaces/default/bindings";
    assert_eq!(client.call("POST", legacy, Some(&json!({"target": {"name": "n"}}))).await.status, 400);
    assert_eq!(client.call("POST", legacy, Some(&binding)).await.status, 201);
    let bound = client.call("GET", &format!("{pods}/p"), None).await.json();
    assert_eq!(bound["spec"]["nodeName"], "n");
    assert_eq!(bound["metadata"]["managedFields"], made["metadata"]["managedFields"]);
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let revision = json!({"metadata": {"name": "r"}, "revision": 1, "data": {"a": {"b": 1}}});
    let made = client.call("POST", revisions, Some(&revision)).await.json();
    assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], json!({"f:data": {}, "f:revision": {}}));
}

#[tokio::test]
async fn the_name_of_a_manager_is_short() {
    let (_server, mut client) = client().await;
    client.call("POST", MAPS, Some(&json!({"metadata": {"name": "a"}, "data": {"k": "v"}}))).await;
    let entry = |manager: &str| json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}});
    let body = |manager: &str| json!({"metadata": {"managedFields": [entry(manager)]}});
    let (status, refused) = merge(&mut client, &format!("{MAPS}/a"), &body(&"x".repeat(129))).await;
    let cause = &refused["details"]["causes"][0];
    assert_eq!((status, &cause["field"]), (422, &json!("metadata.managedFields[0].manager")));
    assert_eq!(cause["reason"], "FieldValueTooLong");
    assert_eq!(merge(&mut client, &format!("{MAPS}/a"), &body(&"x".repeat(128))).await.0, 200);
}

/// Some kinds are checked like new ones on each update.
#[tokio::test]
async fn the_prefix_of_a_name_is_checked_again() {
    let (_server, mut client) = client().await;
    client.call("POST", MAPS, Some(&json!({"metadata": {"name": "a"}}))).await;
    let path = format!("{MAPS}/a");
    let (status, refused) = merge(&mut client, &path, &json!({"metadata": {"generateName": "G_"}})).await;
    assert_eq!((status, &refused["details"]["causes"][0]["field"]), (422, &json!("metadata.generateName")));
    assert_eq!(merge(&mut client, &path, &json!({"metadata": {"generateName": "g-"}})).await.0, 200);
}

/// kube-apiserver hashes the version in which it stores some kinds, which is not the one that it serves.
#[tokio::test]
async fn storage_versions_are_hashed_as_kube_apiserver_stores_them() {
    let (_server, mut client) = client().await;
    let found = client.call("GET", "/apis/apiextensions.k8s.io/v1", None).await.json();
    assert_eq!(found["resources"][0]["storageVersionHash"], "jfWCUB31mvA=");
}
