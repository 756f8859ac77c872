//! Requests with several mistakes, or a mistake in an odd place: which error kube-apiserver reports, and how.

#![cfg(test)]

mod common;

use common::client;
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// kube-apiserver looks for the object before it reads a JSON patch, but refuses what is no JSON first.
#[tokio::test]
async fn patches_that_cannot_be_read_are_refused_in_order() {
    let (_server, mut client) = client().await;
    let path = format!("{MAPS}/missing");
    for kind in ["json-patch", "merge-patch", "strategic-merge-patch"] {
        for (body, status) in [("metadata: {}", 400), ("", 400), ("\"x\"", 404)] {
            let headers = format!("content-type: application/{kind}+json\r\n");
            client.send("PATCH", &path, &headers, body).await;
            assert_eq!(client.answer().await.status, status, "{kind} {body}");
        }
    }
}

/// The options of an update are checked before its media type, those of a create after it.
#[tokio::test]
async fn options_and_media_types_are_checked_in_order() {
    let (_server, mut client) = client().await;
    for (method, path, status) in [
        ("PUT", format!("{MAPS}/a?dryRun=Odd"), 422),
        ("PUT", format!("{PODS}/a/status?dryRun=Odd"), 422),
        ("POST", format!("{MAPS}?dryRun=Odd"), 415),
        ("POST", format!("{PODS}/a/eviction?dryRun=Odd"), 415),
        ("POST", format!("{PODS}/a/binding?dryRun=Odd"), 415),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews?dryRun=Odd".to_owned(), 415),
    ] {
        client.send(method, &path, "content-type: text/odd\r\n", "{}").await;
        assert_eq!(client.answer().await.status, status, "{method} {path}");
    }
}

/// A body whose `kind` or `apiVersion` is not a text deletes nothing.
#[tokio::test]
async fn options_of_a_deletion_must_have_a_readable_type() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    for (body, key, ty) in
        [(json!({"kind": ["x"]}), "kind", "array"), (json!({"apiVersion": 5}), "apiVersion", "number")]
    {
        let answer = client.call("DELETE", &format!("{MAPS}/a"), Some(&body)).await;
        let message = format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {ty} into Go struct field .{key} of type string"
        );
        assert_eq!((answer.status, &answer.json()["message"]), (400, &json!(message)));
    }
    assert_eq!(client.call("GET", &format!("{MAPS}/a"), None).await.status, 200);
}

/// kube-apiserver answers a SelfSubjectRulesReview with a new object.
#[tokio::test]
async fn a_review_of_rules_comes_back_without_its_question() {
    let (_server, mut client) = client().await;
    let body = json!({"metadata": {"name": "x"}, "spec": {"namespace": "default"}});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let answer = client.call("POST", path, Some(&body)).await.json();
    assert_eq!((&answer["metadata"], &answer["spec"]), (&json!({}), &json!({})));
}

/// The precondition of a deletion names the group of the stored version, which for Events is the core group.
#[tokio::test]
async fn a_failed_precondition_names_the_stored_kind() {
    let (_server, mut client) = client().await;
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    let event = json!({"metadata": {"name": "e", "namespace": "default"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "regarding": {"namespace": "default"}, "reason": "r", "action": "a", "type": "Normal",
        "reportingController": "a.b/c", "reportingInstance": "i"});
    assert_eq!(client.call("POST", path, Some(&event)).await.status, 201);
    let body = json!({"preconditions": {"uid": "x"}});
    let answer = client.call("DELETE", &format!("{path}/e"), Some(&body)).await.json();
    assert_eq!(answer["details"], json!({"name": "e", "kind": "Event"}));
}

/// Keys that Go always writes have a default, so that an element without them still has an identity.
#[tokio::test]
async fn elements_without_keys_that_go_always_writes_can_be_applied() {
    let (_server, mut client) = client().await;
    let path = "/apis/apps/v1/namespaces/default/deployments/x?fieldManager=a";
    let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "x"},
        "status": {"conditions": [{}]}});
    client.send("PATCH", path, "content-type: application/apply-patch+yaml\r\n", &config.to_string()).await;
    assert_eq!(client.answer().await.status, 422, "about what is missing in the spec, not about the list");
}

/// Every route of a deprecated kind warns, also when the media types are refused behind it.
#[tokio::test]
async fn refused_media_types_of_a_deprecated_kind_come_with_its_warning() {
    let (_server, mut client) = client().await;
    let path = "/api/v1/namespaces/default/endpoints";
    for (method, headers, status, warns) in [
        ("GET", "accept: application/json;as=Odd;v=v1;g=meta.k8s.io", 406, true),
        ("GET", "accept: text/odd", 406, false),
        ("POST", "content-type: text/odd", 415, true),
        ("DELETE", "content-type: text/odd", 415, true),
    ] {
        client.send(method, path, &format!("{headers}\r\n"), "{}").await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.status, answer.head.to_lowercase().contains("warning: 299")),
            (status, warns),
            "{method} {headers}"
        );
    }
    client.send("PATCH", &format!("{path}/a"), "content-type: text/odd\r\n", "{}").await;
    assert!(!client.answer().await.head.to_lowercase().contains("warning: 299"), "no route takes this patch");
}

/// An applied Scale is compared with its target before it is validated.
#[tokio::test]
async fn an_applied_scale_is_validated_last() {
    let (_server, mut client) = client().await;
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": -1}});
    let (rcs, apply) = (
        "/api/v1/namespaces/default/replicationcontrollers",
        "content-type: application/apply-patch+yaml\r\n",
    );
    for (force, status) in [("", 404), ("", 409), ("&force=true", 422)] {
        client
            .send("PATCH", &format!("{rcs}/a/scale?fieldManager=b{force}"), apply, &scale.to_string())
            .await;
        assert_eq!(client.answer().await.status, status);
        let target = json!({"metadata": {"name": "a"}, "spec": {"replicas": 1, "selector": {"app": "a"}, "template":
            {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        client.call("POST", rcs, Some(&target)).await;
    }
}
