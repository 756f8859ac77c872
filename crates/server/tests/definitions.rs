//! Changes of one CustomResourceDefinition among many.

#![cfg(test)]

mod common;

use std::sync::Arc;

use common::{Client, Watch, eventually, start, start_as_is, until, version};
use listwatch_server::registry::Resource;
use listwatch_server::{Handle, Options};
use listwatch_storage::MemoryOptions;
use serde_json::{Value, json};

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn definition(plural: &str) -> Value {
    let kind = plural.to_uppercase();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{
                "name": format!("v1{plural}"), "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}

fn served(server: &Handle, plural: &str) -> Option<Arc<Resource>> {
    server.api().registry.find("example.com", &format!("v1{plural}"), plural)
}

#[tokio::test]
async fn the_change_of_one_leaves_the_others_as_they_are() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    for plural in ["as", "bs", "cs"] {
        assert_eq!(client.call("POST", PATH, Some(&definition(plural))).await.status, 201);
        eventually("it is served", || served(&server, plural).is_some()).await;
    }
    let before = ["as", "bs", "cs"].map(|plural| served(&server, plural).unwrap());
    let index = client.get("/openapi/v3").await;
    let mut changed = client.get(&format!("{PATH}/bs.example.com")).await;
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
        json!({"spec": {"type": "string"}});
    assert_eq!(client.call("PUT", &format!("{PATH}/bs.example.com"), Some(&changed)).await.status, 200);
    eventually("it is served anew", || !Arc::ptr_eq(&before[1], &served(&server, "bs").unwrap())).await;
    // A look at everything comes after each change; the next one says that the last is over.
    assert_eq!(client.call("POST", PATH, Some(&definition("ds"))).await.status, 201);
    eventually("it is served", || served(&server, "ds").is_some()).await;
    for (plural, before) in [("as", &before[0]), ("cs", &before[2])] {
        assert!(Arc::ptr_eq(before, &served(&server, plural).unwrap()), "{plural} was made again");
    }
    let now = client.get("/openapi/v3").await;
    for (plural, same) in [("as", true), ("bs", false), ("cs", true)] {
        let path = format!("apis/example.com/v1{plural}");
        assert_eq!(index["paths"][&path] == now["paths"][&path], same, "{plural}");
        let url = now["paths"][&path]["serverRelativeURL"].as_str().unwrap();
        assert_eq!(
            client.call("GET", url, None).await.status,
            200,
            "{plural}: the index has the hash of the document"
        );
    }
    server.shutdown().await;
}

/// An unreadable CA bundle was accepted, and conversions failed when they were needed.
#[tokio::test]
async fn a_bundle_that_cannot_be_read_keeps_a_definition_from_being_served() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let mut sent = definition("hooks");
    let config = json!({"url": "https://127.0.0.1:1/", "caBundle": "bm9uc2Vuc2U="});
    let webhook = json!({"conversionReviewVersions": ["v1"], "clientConfig": config});
    sent["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
    assert_eq!(client.call("POST", PATH, Some(&sent)).await.status, 201);
    let path = format!("{PATH}/hooks.example.com");
    let established = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "Established")
    };
    let condition = loop {
        match established(&client.get(&path).await) {
            Some(condition) => break condition,
            None => tokio::task::yield_now().await,
        }
    };
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("InvalidCABundle")));
    // Without a bundle it is served, and then it gets none that cannot be read.
    let merge = "content-type: application/merge-patch+json\r\n";
    let patch = |bundle: Value| {
        json!({"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": bundle}}}}}).to_string()
    };
    client.send("PATCH", &path, merge, &patch(Value::Null)).await;
    assert_eq!(client.answer().await.status, 200);
    eventually("it is served", || served(&server, "hooks").is_some()).await;
    client.send("PATCH", &path, merge, &patch(json!("bm9uc2Vuc2U="))).await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 422);
    let why = "spec.conversion.webhookClientConfig.caBundle: Invalid value: \"bm9uc2Vuc2U=\": unable to load root certificates";
    assert!(answer.json()["message"].as_str().unwrap().contains(why), "{}", answer.json()["message"]);
}

/// Resources inside of custom objects were accepted with any types and metadata, and replicas with any value.
#[tokio::test]
async fn what_every_object_has_is_checked_inside_of_custom_objects_too() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let mut sent = definition("boxes");
    let inside = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let free = json!({"x-kubernetes-preserve-unknown-fields": true});
    let spec =
        json!({"type": "object", "properties": {"in": {"type": "array", "items": inside}, "replicas": free}});
    sent["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] = json!({"spec": spec});
    sent["spec"]["versions"][0]["subresources"] =
        json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    assert_eq!(client.call("POST", PATH, Some(&sent)).await.status, 201);
    eventually("it is served", || served(&server, "boxes").is_some()).await;
    let path = "/apis/example.com/v1boxes/namespaces/default/boxes?dryRun=All";
    let pod = |metadata: Value| json!({"in": [{"apiVersion": "v1", "kind": "Pod", "metadata": metadata}]});
    for (spec, status, field) in [
        (pod(json!({"labels": {"a": "b"}})), 201, ""),
        (pod(json!(1.5)), 400, "spec.in[0].metadata: Invalid value: 1.5"),
        (pod(json!({"name": 5})), 400, "spec.in[0].metadata: Invalid value: {\"name\":5}"),
        (pod(json!({"labels": {"a": "b c"}})), 422, "spec.in[0].metadata.labels"),
        (json!({"in": [{"apiVersion": 1, "kind": "Pod"}]}), 400, "spec.in[0].apiVersion: Invalid value: 1"),
        (json!({"in": [{"apiVersion": "a/b/c", "kind": "Pod"}]}), 422, "spec.in[0].apiVersion"),
        (json!({"in": [{"apiVersion": "v1", "kind": "a/b"}]}), 422, "spec.in[0].kind"),
        (json!({"replicas": -1}), 422, ".spec.replicas: Invalid value: -1"),
        (
            json!({"replicas": "x"}),
            422,
            ".spec.replicas accessor error: x is of the type string, expected int64",
        ),
    ] {
        let object = json!({"apiVersion": "example.com/v1boxes", "kind": "BOXES", "metadata": {"name": "a"}, "spec": spec});
        let answer = client.call("POST", path, Some(&object)).await;
        let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
        assert_eq!(answer.status, status, "{spec} {message}");
        assert!(message.contains(field), "{message}");
    }
}

/// kubectl and operators look for the APIService of a group to see if it is served.
#[tokio::test]
async fn every_version_of_a_custom_group_has_an_api_service() {
    const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
    let server = start_as_is(Options::default(), MemoryOptions::default()).await;
    let mut client = Client::new(&server).await;
    assert_eq!(client.call("POST", PATH, Some(&definition("as"))).await.status, 201);
    let path = format!("{SERVICES}/v1as.example.com");
    let available = |object: Option<&Value>| {
        object.is_some_and(|object| object["status"]["conditions"][0]["reason"] == "Local")
    };
    until(&server, &path, available).await;
    let object = client.get(&path).await;
    assert_eq!(
        object["spec"],
        json!({"group": "example.com", "version": "v1as", "groupPriorityMinimum": 1000, "versionPriority": 100})
    );
    assert_eq!(object["metadata"]["labels"]["kube-aggregator.kubernetes.io/automanaged"], "true");
    // It comes back while the version is served, and goes with it.
    let uid = object["metadata"]["uid"].clone();
    assert_eq!(client.call("DELETE", &path, None).await.status, 200);
    until(&server, &path, |object| object.is_some_and(|object| object["metadata"]["uid"] != uid)).await;
    assert_eq!(client.call("DELETE", &format!("{PATH}/as.example.com"), None).await.status, 200);
    until(&server, &path, |object| object.is_none()).await;
    server.shutdown().await;
}

fn merge_patch() -> &'static str {
    "content-type: application/merge-patch+json\r\n"
}

/// Watches went on showing objects by the schema that they were opened under.
#[tokio::test]
async fn watches_end_when_the_spec_changes() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    assert_eq!(client.call("POST", PATH, Some(&definition("as"))).await.status, 201);
    eventually("it is served", || served(&server, "as").is_some()).await;
    let mut watch = Watch::of(&server, "/apis/example.com/v1as/namespaces/default/as", "").await;
    let path = format!("{PATH}/as.example.com");
    // Labels are not part of it.
    let before = served(&server, "as").unwrap();
    client
        .send("PATCH", &path, merge_patch(), &json!({"metadata": {"labels": {"a": "b"}}}).to_string())
        .await;
    assert_eq!(client.answer().await.status, 200);
    eventually("it is served anew", || !Arc::ptr_eq(&before, &served(&server, "as").unwrap())).await;
    let object = json!({"apiVersion": "example.com/v1as", "kind": "AS", "metadata": {"name": "one"}});
    let objects = "/apis/example.com/v1as/namespaces/default/as";
    assert_eq!(client.call("POST", objects, Some(&object)).await.status, 201);
    assert_eq!(watch.next().await.unwrap()["object"]["metadata"]["name"], "one");
    let mut changed = client.get(&path).await;
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"] =
        json!({"size": {"type": "string"}});
    assert_eq!(client.call("PUT", &path, Some(&changed)).await.status, 200);
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), watch.next());
    assert_eq!(ended.await.expect("the watch ends"), None);
    server.shutdown().await;
}

/// Objects stayed in the version that they were stored in, however often they were written without a change, which is how
/// they are migrated.
#[tokio::test]
async fn an_unchanged_object_is_written_again_in_the_stored_version() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let mut sent = definition("as");
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let other = json!({"name": "v2", "served": true, "storage": false, "schema": schema});
    sent["spec"]["versions"].as_array_mut().unwrap().push(other);
    assert_eq!(client.call("POST", PATH, Some(&sent)).await.status, 201);
    eventually("it is served", || served(&server, "as").is_some()).await;
    let objects = "/apis/example.com/v1as/namespaces/default/as";
    let object = json!({"apiVersion": "example.com/v1as", "kind": "AS", "metadata": {"name": "one"}});
    assert_eq!(client.call("POST", objects, Some(&object)).await.status, 201);
    let one = format!("{objects}/one");
    let stored = async |client: &mut Client| {
        client.send("PATCH", &one, merge_patch(), "{}").await;
        version(&client.answer().await.json())
    };
    let first = stored(&mut client).await;
    assert_eq!(first, version(&client.get(&one).await), "nothing is written");
    let before = served(&server, "as").unwrap();
    let path = format!("{PATH}/as.example.com");
    let mut changed = client.get(&path).await;
    changed["spec"]["versions"][0]["storage"] = json!(false);
    changed["spec"]["versions"][1]["storage"] = json!(true);
    assert_eq!(client.call("PUT", &path, Some(&changed)).await.status, 200);
    eventually("it is served anew", || !Arc::ptr_eq(&before, &served(&server, "as").unwrap())).await;
    let second = stored(&mut client).await;
    assert!(second > first, "it was written in the other version");
    assert_eq!(stored(&mut client).await, second, "and that once");
    server.shutdown().await;
}

/// A definition that a finalizer held was no longer served, so that its clients got a 404 instead of the reason.
#[tokio::test]
async fn a_definition_in_deletion_is_served_until_it_is_gone() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let mut sent = definition("as");
    sent["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(client.call("POST", PATH, Some(&sent)).await.status, 201);
    eventually("it is served", || served(&server, "as").is_some()).await;
    let path = format!("{PATH}/as.example.com");
    assert_eq!(client.call("DELETE", &path, None).await.status, 200);
    until(&server, &path, |definition| {
        definition
            .is_some_and(|definition| definition["metadata"]["finalizers"] == json!(["example.com/hold"]))
    })
    .await;
    let objects = "/apis/example.com/v1as/namespaces/default/as";
    assert_eq!(client.call("GET", objects, None).await.status, 200);
    let object = json!({"apiVersion": "example.com/v1as", "kind": "AS", "metadata": {"name": "one"}});
    let answer = client.call("POST", objects, Some(&object)).await;
    assert_eq!(answer.status, 403);
    let why = "create not allowed while custom resource definition is terminating";
    assert!(answer.json()["message"].as_str().unwrap().contains(why));
    client.send("PATCH", &path, merge_patch(), &json!({"metadata": {"finalizers": null}}).to_string()).await;
    assert_eq!(client.answer().await.status, 200);
    eventually("it is no longer served", || served(&server, "as").is_none()).await;
    server.shutdown().await;
}

/// The approval of a definition in a group of the community was not shown.
#[tokio::test]
async fn the_approval_of_a_protected_group_is_a_condition() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let mut sent = definition("as");
    sent["metadata"] =
        json!({"name": "as.test.k8s.io", "annotations": {"api-approved.kubernetes.io": "unapproved"}});
    sent["spec"]["group"] = json!("test.k8s.io");
    assert_eq!(client.call("POST", PATH, Some(&sent)).await.status, 201);
    until(&server, &format!("{PATH}/as.test.k8s.io"), |definition| {
        let conditions = definition.and_then(|definition| definition["status"]["conditions"].as_array());
        conditions.is_some_and(|conditions| {
            conditions.iter().any(|condition| {
                condition["type"] == "KubernetesAPIApprovalPolicyConformant"
                    && condition["reason"] == "UnapprovedAnnotation"
            })
        })
    })
    .await;
    server.shutdown().await;
}
