//! Kubelets: the objects that they may read, and what they may write about their Node and Pods.

#![cfg(test)]

mod common;

use common::{Answer, Client, start_on};
use listwatch_server::{Handle, Options};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MERGE: &str = "application/merge-patch+json";

/// An administrator, who can act as the kubelet of a node.
struct Stage {
    admin: Client,
    _server: Handle,
}

impl Stage {
    async fn new() -> Self {
        let server = start_on(Options::default()).await;
        let mut stage = Self { admin: Client::new(&server).await, _server: server };
        for node in ["one", "two"] {
            let answer =
                stage.kubelet(node, "POST", "/api/v1/nodes", json!({"metadata": {"name": node}})).await;
            assert_eq!(answer.status, 201, "{}", message(&answer));
        }
        stage
            .made("/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "robot"}}))
            .await;
        for name in ["used", "other"] {
            let secret = json!({"metadata": {"name": name}, "stringData": {"k": "v"}});
            stage.made("/api/v1/namespaces/default/secrets", secret).await;
        }
        stage
    }

    async fn made(&mut self, path: &str, object: Value) -> Value {
        let answer = self.admin.call("POST", path, Some(&object)).await;
        assert_eq!(answer.status, 201, "{}", message(&answer));
        answer.json()
    }

    /// A Pod on a node, which uses the Secret `used`.
    async fn pod(&mut self, name: &str, node: &str) -> Value {
        let pod = json!({"metadata": {"name": name}, "spec": {
            "nodeName": node, "serviceAccountName": "robot",
            "containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": "used"}}]}],
            "volumes": [{"name": "t", "projected": {"sources": [
                {"serviceAccountToken": {"path": "t", "audience": "vault"}}]}}],
        }});
        self.made(PODS, pod).await
    }

    async fn kubelet(&mut self, node: &str, method: &str, path: &str, body: Value) -> Answer {
        self.kubelet_with(node, method, path, "application/json", body).await
    }

    async fn kubelet_with(
        &mut self,
        node: &str,
        method: &str,
        path: &str,
        media: &str,
        body: Value,
    ) -> Answer {
        let headers = format!(
            "impersonate-user: system:node:{node}\r\nimpersonate-group: system:nodes\r\ncontent-type: {media}\r\n"
        );
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.admin.send(method, path, &headers, &body).await;
        self.admin.answer().await
    }

    async fn status(&mut self, node: &str, method: &str, path: &str, body: Value) -> u16 {
        self.kubelet(node, method, path, body).await.status
    }
}

fn message(answer: &Answer) -> String {
    answer.json()["message"].as_str().unwrap_or_default().to_owned()
}

/// With roles alone a kubelet that may read Secrets may read all of them; one that was broken into had the whole cluster.
#[tokio::test]
async fn a_kubelet_reads_the_secrets_of_its_pods_while_they_run() {
    let mut stage = Stage::new().await;
    let secret = "/api/v1/namespaces/default/secrets/used";
    let answer = stage.kubelet("one", "GET", secret, Value::Null).await;
    assert_eq!(answer.status, 403);
    assert!(message(&answer).ends_with(": no relationship found between node 'one' and this object"));
    stage.pod("p", "one").await;
    assert_eq!(stage.status("one", "GET", secret, Value::Null).await, 200);
    assert_eq!(stage.status("two", "GET", secret, Value::Null).await, 403);
    assert_eq!(
        stage.status("one", "GET", "/api/v1/namespaces/default/secrets/other", Value::Null).await,
        403
    );
    assert_eq!(stage.status("one", "GET", "/api/v1/secrets", Value::Null).await, 403);
    let named = "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dused";
    assert_eq!(stage.status("one", "GET", named, Value::Null).await, 200);
    assert_eq!(
        stage.status("one", "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Done", Value::Null).await,
        200
    );
    assert_eq!(
        stage.status("one", "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dtwo", Value::Null).await,
        403
    );
    assert_eq!(
        stage.status("one", "GET", "/api/v1/pods?fieldSelector=spec.nodeName!%3Dtwo", Value::Null).await,
        403
    );
    assert_eq!(stage.status("one", "GET", "/api/v1/pods", Value::Null).await, 403);
    let gone = stage.admin.call("DELETE", &format!("{PODS}/p?gracePeriodSeconds=0"), None).await;
    assert_eq!(gone.status, 200);
    assert_eq!(stage.status("one", "GET", secret, Value::Null).await, 403);
}

/// A Pod that is bound later, as schedulers do it, counts from then on.
#[tokio::test]
async fn a_pod_counts_when_it_is_bound() {
    let mut stage = Stage::new().await;
    stage.pod("p", "").await;
    let secret = "/api/v1/namespaces/default/secrets/used";
    assert_eq!(stage.status("one", "GET", secret, Value::Null).await, 403);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "one"}});
    stage.made(&format!("{PODS}/p/binding"), binding).await;
    assert_eq!(stage.status("one", "GET", secret, Value::Null).await, 200);
}

/// A kubelet that may set any label of its Node draws Pods to itself, and with them their Secrets.
#[tokio::test]
async fn a_kubelet_changes_its_own_node_and_not_what_schedulers_go_by() {
    let mut stage = Stage::new().await;
    let label = |key: &str| json!({"metadata": {"labels": {key: "x"}}});
    for (node, target, body, expected) in [
        ("one", "one", label("kubernetes.io/hostname"), None),
        ("one", "one", label("example.com/pool"), None),
        ("one", "two", label("example.com/pool"), Some("node \"one\" is not allowed to modify node \"two\"")),
        (
            "one",
            "one",
            label("node-role.kubernetes.io/control-plane"),
            Some("is not allowed to modify labels: node-role.kubernetes.io/control-plane"),
        ),
        (
            "one",
            "one",
            label("a.node-restriction.kubernetes.io/x"),
            Some("is not allowed to modify labels: a.node-restriction.kubernetes.io/x"),
        ),
        (
            "one",
            "one",
            json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
            Some("node \"one\" is not allowed to modify taints"),
        ),
    ] {
        let path = format!("/api/v1/nodes/{target}");
        let answer = stage.kubelet_with(node, "PATCH", &path, MERGE, body.clone()).await;
        match expected {
            None => assert_eq!(answer.status, 200, "{body}: {}", message(&answer)),
            Some(why) => {
                assert_eq!(answer.status, 403, "{body}");
                assert_eq!(message(&answer), format!("nodes \"{target}\" is forbidden: {why}"));
            }
        }
    }
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let status = stage.kubelet_with("one", "PATCH", "/api/v1/nodes/one/status", MERGE, ready.clone()).await;
    assert_eq!(status.status, 200, "{}", message(&status));
    assert_eq!(
        stage.kubelet_with("two", "PATCH", "/api/v1/nodes/one/status", MERGE, ready).await.status,
        403
    );
    let labelled = json!({"metadata": {"name": "three", "labels": {"kubernetes.io/x": "y"}}});
    let answer = stage.kubelet("three", "POST", "/api/v1/nodes", labelled).await;
    let why = "nodes \"three\" is forbidden: node \"three\" is not allowed to set the following labels: kubernetes.io/x";
    assert_eq!((answer.status, message(&answer).as_str()), (403, why));
    assert_eq!(stage.status("one", "DELETE", "/api/v1/nodes/one", Value::Null).await, 403);
}

#[tokio::test]
async fn a_kubelet_has_its_own_lease_and_csi_node() {
    let mut stage = Stage::new().await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let (own, other) = (json!({"metadata": {"name": "one"}}), json!({"metadata": {"name": "two"}}));
    assert_eq!(stage.status("one", "POST", leases, own.clone()).await, 201);
    assert_eq!(stage.status("one", "POST", leases, other.clone()).await, 403);
    assert_eq!(stage.status("one", "GET", &format!("{leases}/one"), Value::Null).await, 200);
    assert_eq!(stage.status("two", "GET", &format!("{leases}/one"), Value::Null).await, 403);
    let elsewhere = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(stage.status("one", "POST", elsewhere, own).await, 403);
    let nodes = "/apis/storage.k8s.io/v1/csinodes";
    let csi = |name: &str| json!({"metadata": {"name": name}, "spec": {"drivers": []}});
    assert_eq!(stage.status("one", "POST", nodes, csi("one")).await, 201);
    assert_eq!(stage.status("one", "POST", nodes, csi("two")).await, 403);
}

/// A kubelet could have had a token of any service account of the cluster.
#[tokio::test]
async fn a_kubelet_requests_tokens_of_its_own_pods_only() {
    let mut stage = Stage::new().await;
    let tokens = "/api/v1/namespaces/default/serviceaccounts/robot/token";
    let bound = |pod: &Value, audience: &str| {
        let uid = pod["metadata"]["uid"].clone();
        json!({"spec": {"audiences": [audience], "boundObjectRef":
            {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid}}})
    };
    let there = stage.pod("there", "two").await;
    assert_eq!(stage.status("one", "POST", tokens, bound(&there, "vault")).await, 403);
    let here = stage.pod("here", "one").await;
    let answer = stage.kubelet("one", "POST", tokens, bound(&here, "vault")).await;
    assert_eq!(answer.status, 201, "{}", message(&answer));
    for (request, why) in [
        (json!({"spec": {"audiences": ["vault"]}}), "node requested token not bound to a pod"),
        (bound(&there, "vault"), "node requested token bound to a pod scheduled on a different node"),
        (bound(&here, "bank"), "system:node:one is not authorized to request tokens for audience \"bank\""),
        (
            json!({"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "here"}}}),
            "node requested token with a pod binding without a uid",
        ),
    ] {
        let answer = stage.kubelet("one", "POST", tokens, request.clone()).await;
        assert_eq!(answer.status, 403, "{request}");
        assert!(message(&answer).ends_with(&format!("is forbidden: {why}")), "{}", message(&answer));
    }
}

/// A kubelet writes about the Pods on its node, and makes none but those it runs by itself.
#[tokio::test]
async fn a_kubelet_writes_the_status_of_its_pods_and_creates_only_mirror_pods() {
    let mut stage = Stage::new().await;
    stage.pod("p", "one").await;
    let running = json!({"status": {"phase": "Running"}});
    let path = format!("{PODS}/p/status");
    assert_eq!(stage.kubelet_with("two", "PATCH", &path, MERGE, running.clone()).await.status, 403);
    let answer = stage.kubelet_with("one", "PATCH", &path, MERGE, running).await;
    assert_eq!(answer.status, 200, "{}", message(&answer));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    let answer = stage.kubelet_with("one", "PATCH", &path, MERGE, label).await;
    assert_eq!(answer.status, 403, "labels through the status");
    let eviction = json!({"metadata": {"name": "p"}});
    assert_eq!(stage.status("two", "POST", &format!("{PODS}/p/eviction"), eviction).await, 403);
    assert_eq!(stage.status("two", "DELETE", &format!("{PODS}/p"), Value::Null).await, 403);
    assert_eq!(stage.status("one", "DELETE", &format!("{PODS}/p"), Value::Null).await, 200);

    let node = stage.admin.call("GET", "/api/v1/nodes/one", None).await.json();
    let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "one", "uid": node["metadata"]["uid"], "controller": true}]);
    let mirror = |spec: Value| {
        let mut pod = json!({"metadata": {"name": "m", "ownerReferences": owner,
            "annotations": {"kubernetes.io/config.mirror": "x"}},
            "spec": {"nodeName": "one", "containers": [{"name": "c", "image": "i"}]}});
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        pod
    };
    let greedy = mirror(json!({"volumes": [{"name": "v", "secret": {"secretName": "other"}}]}));
    let answer = stage.kubelet("one", "POST", PODS, greedy).await;
    assert!(
        message(&answer).ends_with("node \"one\" can not create pods that reference secrets"),
        "{}",
        message(&answer)
    );
    let mut plain = mirror(json!({}));
    plain["metadata"].as_object_mut().unwrap().remove("annotations");
    assert_eq!(stage.status("one", "POST", PODS, plain).await, 403);
    assert_eq!(stage.status("two", "POST", PODS, mirror(json!({}))).await, 403);
    let answer = stage.kubelet("one", "POST", PODS, mirror(json!({}))).await;
    assert_eq!(answer.status, 201, "{}", message(&answer));
}
