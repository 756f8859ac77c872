//! The controllers inside the server, over HTTP: namespace deletion, garbage collection, bootstrap objects.

#![cfg(test)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{Client, config_map, start_on, until};
use listwatch_server::{LifecycleOptions, Options, Security, Server};
use listwatch_storage::MemoryEngine;
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn quick() -> Options {
    let lifecycle = LifecycleOptions { settle: Duration::ZERO, ..LifecycleOptions::default() };
    Options { lifecycle, ..Options::default() }
}

type Outcome<'a> = &'a dyn Fn(Option<&Value>) -> bool;

fn there(object: Option<&Value>) -> bool {
    object.is_some()
}

fn gone(object: Option<&Value>) -> bool {
    object.is_none()
}

fn owners(object: &Value) -> usize {
    object["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len)
}

fn owned(name: &str, owner: &Value, block: bool) -> Value {
    let mut object = config_map(name, "x");
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": block
    }]);
    object
}

async fn made(client: &mut Client, object: &Value) -> Value {
    let answer = client.call("POST", MAPS, Some(object)).await;
    assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

#[tokio::test]
async fn bootstrap_objects_exist() {
    let server = start_on(quick()).await;
    let mut client = Client::new(&server).await;
    for path in [
        "/api/v1/namespaces/kube-system",
        "/api/v1/namespaces/kube-node-lease",
        "/api/v1/namespaces/default/services/kubernetes",
        "/api/v1/namespaces/default/serviceaccounts/default",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin",
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:discovery",
        "/apis/apiregistration.k8s.io/v1/apiservices/v1.apps",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
        "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
        "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1",
    ] {
        assert_eq!(client.call("GET", path, None).await.status, 200, "{path}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_deleted_namespace_is_emptied_and_removed() {
    let server = start_on(quick()).await;
    let mut client = Client::new(&server).await;
    client.call("POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": "n"}}))).await;
    client.call("POST", "/api/v1/namespaces/n/configmaps", Some(&config_map("a", "x"))).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"nodeName": "x", "containers": [{"name": "c", "image": "i"}]}});
    client.call("POST", "/api/v1/namespaces/n/pods", Some(&pod)).await;
    until(&server, "/api/v1/namespaces/n/serviceaccounts/default", there).await;
    assert_eq!(client.call("DELETE", "/api/v1/namespaces/n", None).await.status, 200);
    until(&server, "/api/v1/namespaces/n", gone).await;
    assert_eq!(client.call("GET", "/api/v1/namespaces/n/configmaps/a", None).await.status, 404);
    server.shutdown().await;
}

#[tokio::test]
async fn dependents_are_deleted_with_their_owner_or_orphaned() {
    let server = start_on(quick()).await;
    let mut client = Client::new(&server).await;
    let orphaned = |object: Option<&Value>| object.is_some_and(|object| owners(object) == 0);
    let outcomes: [(_, Outcome<'_>); 3] =
        [("Background", &gone), ("Foreground", &gone), ("Orphan", &orphaned)];
    for (policy, outcome) in outcomes {
        let owner = made(&mut client, &config_map("owner", "x")).await;
        made(&mut client, &owned("child", &owner, true)).await;
        client.call("DELETE", &format!("{MAPS}/owner?propagationPolicy={policy}"), None).await;
        until(&server, &format!("{MAPS}/owner"), gone).await;
        until(&server, &format!("{MAPS}/child"), outcome).await;
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_dependent_with_another_owner_stays_without_the_deleted_one() {
    let server = start_on(quick()).await;
    let mut client = Client::new(&server).await;
    let (lost, kept) = (
        made(&mut client, &config_map("lost", "x")).await,
        made(&mut client, &config_map("kept", "x")).await,
    );
    let mut child = owned("child", &lost, false);
    child["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(owned("x", &kept, false)["metadata"]["ownerReferences"][0].clone());
    made(&mut client, &child).await;
    client.call("DELETE", &format!("{MAPS}/lost"), None).await;
    until(&server, &format!("{MAPS}/child"), |child| owners(child.unwrap()) == 1).await;
    server.shutdown().await;
}

/// A thousand references with wrong uids named one large object, which was parsed for each of them on an async worker: no
/// request was answered for a minute.
#[tokio::test]
async fn an_owner_is_read_once_for_all_references_to_it() {
    let server = start_on(quick()).await;
    let mut client = Client::new(&server).await;
    let mut large = config_map("large", "x");
    for n in 0..20_000 {
        large["data"][format!("k{n}")] = json!("v");
    }
    let large = made(&mut client, &large).await;
    let mut child = owned("child", &large, false);
    let references = child["metadata"]["ownerReferences"].as_array_mut().unwrap();
    for n in 0..4_000 {
        let mut wrong = references[0].clone();
        wrong["uid"] = json!(format!("wrong-{n}"));
        references.push(wrong);
    }
    made(&mut client, &child).await;
    until(&server, &format!("{MAPS}/child"), |child| owners(child.unwrap()) == 1).await;
    server.shutdown().await;
}

#[tokio::test]
async fn events_expire() {
    let lifecycle =
        LifecycleOptions { event_ttl: Some(Duration::from_millis(300)), ..LifecycleOptions::default() };
    let server = start_on(Options { lifecycle, ..Options::default() }).await;
    let mut client = Client::new(&server).await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}});
    assert_eq!(client.call("POST", "/api/v1/namespaces/default/events", Some(&event)).await.status, 201);
    until(&server, "/api/v1/namespaces/default/events/e", gone).await;
    server.shutdown().await;
}

/// A deleted VolumeAttributesClass kept its protection for ever: it was looked for under a name that its collection
/// does not have.
#[tokio::test]
async fn protected_objects_are_deleted_when_nothing_uses_them() {
    let server = start_on(quick()).await;
    let mut client = Client::new(&server).await;
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let volume = json!({
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/tmp/a"}
    });
    for (path, object) in [
        ("/api/v1/namespaces/default/persistentvolumeclaims", json!({"spec": claim})),
        ("/api/v1/persistentvolumes", json!({"spec": volume})),
        (
            "/apis/storage.k8s.io/v1/volumeattributesclasses",
            json!({"driverName": "d", "parameters": {"a": "b"}}),
        ),
    ] {
        let mut object = object;
        object["metadata"] = json!({"name": "a"});
        let made = client.call("POST", path, Some(&object)).await;
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
        assert_eq!(made.json()["metadata"]["finalizers"].as_array().unwrap().len(), 1, "{path}");
        assert_eq!(client.call("DELETE", &format!("{path}/a"), None).await.status, 200);
        until(&server, &format!("{path}/a"), gone).await;
    }
}

/// Objects that own each other in a circle waited for each other for ever, and sixty of them kept a processor busy with it.
#[tokio::test]
async fn a_circle_of_owners_is_deleted_in_the_foreground() {
    let server = start_on(quick()).await;
    let mut client = Client::new(&server).await;
    const SIZE: usize = 5;
    let mut made_maps = Vec::new();
    for n in 0..SIZE {
        made_maps.push(made(&mut client, &config_map(&format!("c{n}"), "x")).await);
    }
    // Everybody is owned by everybody, itself included.
    let owners: Vec<Value> =
        made_maps.iter().map(|map| owned("", map, true)["metadata"]["ownerReferences"][0].clone()).collect();
    for (n, map) in made_maps.iter().enumerate() {
        let mut map = map.clone();
        map["metadata"]["ownerReferences"] = json!(owners);
        assert_eq!(client.call("PUT", &format!("{MAPS}/c{n}"), Some(&map)).await.status, 200);
    }
    for n in 0..SIZE {
        let deleted = client
            .call("DELETE", &format!("{MAPS}/c{n}"), Some(&json!({"propagationPolicy": "Foreground"})))
            .await;
        assert!(matches!(deleted.status, 200 | 404));
    }
    for n in 0..SIZE {
        until(&server, &format!("{MAPS}/c{n}"), gone).await;
    }
}

/// Each write of an event was remembered for an hour by itself: one event that was written again and again filled the memory.
#[tokio::test]
async fn an_event_that_is_written_again_expires_after_its_last_write() {
    const EVENTS: &str = "/api/v1/namespaces/default/events";
    let ttl = Duration::from_millis(600);
    let lifecycle =
        LifecycleOptions { event_ttl: Some(ttl), settle: Duration::ZERO, ..LifecycleOptions::default() };
    let server = start_on(Options { lifecycle, ..Options::default() }).await;
    let mut client = Client::new(&server).await;
    let event = json!({"metadata": {"name": "e"}, "involvedObject": {"namespace": "default", "name": "x"}, "count": 1});
    let mut event = client.call("POST", EVENTS, Some(&event)).await.json();
    let begin = std::time::Instant::now();
    let mut last = begin;
    while begin.elapsed() < ttl * 2 {
        event["count"] = json!(event["count"].as_u64().unwrap() + 1);
        last = std::time::Instant::now();
        let written = client.call("PUT", &format!("{EVENTS}/e"), Some(&event)).await;
        assert_eq!(written.status, 200, "it is written more often than it expires");
        event = written.json();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    until(&server, &format!("{EVENTS}/e"), gone).await;
    assert!(last.elapsed() >= ttl);
}

/// Deleting a namespace tried to delete each held object twice a second; it must still notice at once when the last of them goes.
#[tokio::test]
async fn a_namespace_is_removed_soon_after_its_last_object() {
    let server = start_on(quick()).await;
    let mut client = Client::new(&server).await;
    client.call("POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": "n"}}))).await;
    let maps = "/api/v1/namespaces/n/configmaps";
    let mut map = config_map("held", "x");
    map["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(client.call("POST", maps, Some(&map)).await.status, 201);
    client.call("DELETE", "/api/v1/namespaces/n", None).await;
    until(&server, &format!("{maps}/held"), |map| {
        map.is_some_and(|map| map["metadata"]["deletionTimestamp"].is_string())
    })
    .await;
    // Long enough for delays to have grown beyond the time that is allowed below.
    tokio::time::sleep(Duration::from_secs(4)).await;
    let released = client.get(&format!("{maps}/held")).await;
    let mut released = released;
    released["metadata"].as_object_mut().unwrap().remove("finalizers");
    client.call("PUT", &format!("{maps}/held"), Some(&released)).await;
    let begin = std::time::Instant::now();
    until(&server, "/api/v1/namespaces/n", gone).await;
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

/// One task at a time ran for the whole cluster: each of these deletions waits for the webhook until its timeout.
#[tokio::test]
async fn a_webhook_that_does_not_answer_holds_up_no_other_namespace() {
    let server = start_on(quick()).await;
    let mut client = Client::new(&server).await;
    let deaf = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let webhooks = json!({"metadata": {"name": "deaf"}, "webhooks": [{
        "name": "deaf.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore", "timeoutSeconds": 30,
        "clientConfig": {"url": format!("https://{}/", deaf.local_addr().unwrap())},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["DELETE"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "stuck"}}
    }]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(client.call("POST", path, Some(&webhooks)).await.status, 201);
    for name in ["stuck", "other"] {
        client.call("POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": name}}))).await;
        let path = format!("/api/v1/namespaces/{name}/configmaps");
        // Those without an owner are deleted one by one, each by a task.
        for number in 0..10 {
            let owner = json!({"metadata": {"name": "none", "uid": "00000000-0000-0000-0000-00000000dead"}});
            let map = owned(&format!("m{number}"), &owner, false);
            assert_eq!(client.call("POST", &path, Some(&map)).await.status, 201);
        }
        client.call("DELETE", &format!("/api/v1/namespaces/{name}"), None).await;
        // The webhook is being called before the other namespace is made.
        if name == "stuck" {
            deaf.accept().await.unwrap();
        }
    }
    until(&server, "/api/v1/namespaces/other", gone).await;
    until(&server, "/api/v1/namespaces/stuck", there).await;
}

/// A server with a broken webhook for everything could not be started again.
#[tokio::test]
async fn a_broken_webhook_does_not_keep_a_server_from_starting() {
    let engine = Arc::new(MemoryEngine::default());
    let options = || Options { security: Security::InsecureHttp, ..Options::default() };
    let first = Server::start(options(), engine.clone()).await.unwrap();
    let mut client = Client::new(&first).await;
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/view";
    assert_eq!(client.call("DELETE", role, None).await.status, 200);
    let hook = json!({
        "name": "broken.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "default", "name": "none"}},
        "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}],
    });
    let webhooks = json!({"metadata": {"name": "broken"}, "webhooks": [hook]});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(client.call("POST", path, Some(&webhooks)).await.status, 201);
    let second = Server::start(options(), engine).await.expect("it starts");
    let mut client = Client::new(&second).await;
    assert_eq!(client.call("GET", role, None).await.status, 404, "the webhook refused it");
    assert_eq!(client.call("GET", "/api/v1/namespaces/default", None).await.status, 200);
    second.shutdown().await;
    drop(first);
}
