//! Writes with odd field owners, versions, types or scales. Each response is kube-apiserver's.

#![cfg(test)]

mod common;

use common::{Answer, Client, client, config_map};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const SERVICES: &str = "/api/v1/namespaces/default/services";

async fn patch(client: &mut Client, kind: &str, path: &str, body: &Value) -> Answer {
    let headers = format!("content-type: application/{kind}\r\n");
    client.send("PATCH", path, &headers, &body.to_string()).await;
    client.answer().await
}

async fn merge(client: &mut Client, path: &str, body: &Value) -> Answer {
    patch(client, "merge-patch+json", path, body).await
}

async fn apply(client: &mut Client, path: &str, body: &Value) -> Answer {
    patch(client, "apply-patch+yaml", path, body).await
}

/// The versions and managers of the field owners of an object.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    entries.iter().map(|entry| format!("{} {}", text(entry, "apiVersion"), text(entry, "manager"))).collect()
}

fn causes(status: &Value) -> Vec<&str> {
    let causes = status["details"]["causes"].as_array().unwrap();
    causes.iter().map(|cause| cause["field"].as_str().unwrap()).collect()
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": "a"});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    })
}

fn event(name: &str) -> Value {
    json!({
        "metadata": {"name": name}, "eventTime": "2026-01-01T00:00:00.000000Z", "regarding": {"namespace": "default"},
        "reason": "r", "action": "a", "type": "Normal", "reportingController": "a.b/c", "reportingInstance": "i",
    })
}

/// Decoding dropped the empty list, so that nothing was reset.
#[tokio::test]
async fn an_empty_list_of_owners_resets_them() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    let path = format!("{MAPS}/a?dryRun=All");
    let reset = json!({"metadata": {"managedFields": []}});
    assert_eq!(owners(&merge(&mut client, &path, &reset).await.json()), [""; 0]);
    let mut map = config_map("a", "1");
    map["metadata"]["managedFields"] = json!([]);
    assert_eq!(owners(&client.call("PUT", &path, Some(&map)).await.json()), [""; 0]);
    map["metadata"]["name"] = "b".into();
    let made = client.call("POST", MAPS, Some(&map)).await.json();
    assert_eq!(owners(&made).len(), 1, "{made}");
}

#[tokio::test]
async fn owners_of_versions_that_a_kind_does_not_have_are_dropped() {
    let (_server, mut client) = client().await;
    let entry = json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:x": {}}}]);
    let mut made = deployment("d");
    made["metadata"]["managedFields"] = entry;
    let made = client.call("POST", DEPLOYMENTS, Some(&made)).await.json();
    assert_eq!(owners(&made).len(), 1, "{made}");
    assert!(owners(&made)[0].starts_with("apps/v1 "));
    // The Events of the two groups do not know each other's versions.
    client.call("POST", EVENTS, Some(&event("e"))).await;
    let path = "/api/v1/namespaces/default/events/e?fieldManager=me";
    let changed = merge(&mut client, path, &json!({"metadata": {"labels": {"a": "b"}}})).await.json();
    assert_eq!(owners(&changed), ["v1 me"]);
}

/// A conflict with another manager was hidden by one with another version.
#[tokio::test]
async fn conflicts_of_managers_come_before_those_of_versions() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    client.call("POST", DEPLOYMENTS, Some(&deployment("d"))).await;
    let mut map = config_map("a", "2");
    map["metadata"]["resourceVersion"] = "1".into();
    let refused = apply(&mut client, &format!("{MAPS}/a?fieldManager=me"), &map).await.json();
    assert_eq!(causes(&refused), [".data.k"], "{refused}");
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "resourceVersion": "1"}, "spec": {"replicas": 5}});
    let path = format!("{DEPLOYMENTS}/d/scale?fieldManager=me");
    assert_eq!(causes(&apply(&mut client, &path, &scale).await.json()), [".spec.replicas"]);
}

#[tokio::test]
async fn a_scale_is_validated_before_its_version_is_compared() {
    let (_server, mut client) = client().await;
    client.call("POST", DEPLOYMENTS, Some(&deployment("d"))).await;
    let mut scale = json!({"metadata": {"name": "d", "resourceVersion": "1"}, "spec": {"replicas": -1}});
    let path = format!("{DEPLOYMENTS}/d/scale");
    assert_eq!(client.call("PUT", &path, Some(&scale)).await.status, 422);
    scale["spec"]["replicas"] = 1.into();
    assert_eq!(client.call("PUT", &path, Some(&scale)).await.status, 409);
}

/// Decoding leaves out a zero, and the replicas stayed.
#[tokio::test]
async fn a_scale_of_zero_can_be_applied() {
    let (_server, mut client) = client().await;
    client.call("POST", DEPLOYMENTS, Some(&deployment("d"))).await;
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": 0}});
    let path = format!("{DEPLOYMENTS}/d/scale?fieldManager=me&force=true");
    assert_eq!(apply(&mut client, &path, &scale).await.status, 200);
    assert_eq!(client.get(&format!("{DEPLOYMENTS}/d")).await["spec"]["replicas"], 0);
}

/// In a Scale no replicas are a field that is not there: `kubectl scale --replicas=0` leaves it without an owner, and a
/// later apply does not conflict with it.
#[tokio::test]
async fn replicas_scaled_to_zero_have_no_owner() {
    let (_server, mut client) = client().await;
    client.call("POST", &format!("{DEPLOYMENTS}?fieldManager=one"), Some(&deployment("d"))).await;
    let path = format!("{DEPLOYMENTS}/d");
    let scale = format!("{path}/scale?fieldManager=two");
    merge(&mut client, &scale, &json!({"spec": {"replicas": 3}})).await;
    assert_eq!(owners(&client.get(&path).await), ["apps/v1 two", "apps/v1 one"]);
    for replicas in [0, 4, 0] {
        let scaled = merge(&mut client, &scale, &json!({"spec": {"replicas": replicas}})).await;
        assert_eq!(scaled.status, 200);
        let found = client.get(&path).await;
        assert_eq!(
            (owners(&found), &found["spec"]["replicas"]),
            (vec!["apps/v1 one".to_owned()], &json!(replicas))
        );
    }
    let odd = json!({"kind": "Odd", "apiVersion": "v1"});
    let refused = merge(&mut client, &scale, &odd).await;
    assert_eq!((refused.status, causes(&refused.json())), (422, vec!["patch"]));
}

/// A dry-run create returns the resourceVersion that was sent, which only the store removes.
#[tokio::test]
async fn a_dry_run_that_creates_keeps_the_version() {
    let (_server, mut client) = client().await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l?dryRun=All";
    let lease = json!({"metadata": {"name": "l", "resourceVersion": "7"}});
    let made = client.call("PUT", path, Some(&lease)).await;
    assert_eq!((made.status, &made.json()["metadata"]["resourceVersion"]), (201, &json!("7")));
    let lease = json!({"metadata": {"name": "l", "resourceVersion": "x"}});
    assert_eq!(client.call("PUT", path, Some(&lease)).await.status, 400);
}

#[tokio::test]
async fn a_service_made_by_its_status_gets_no_address() {
    let (_server, mut client) = client().await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let made = client.call("PUT", &format!("{SERVICES}/s/status"), Some(&service)).await;
    assert_eq!(made.status, 201);
    assert_eq!(made.json()["spec"].get("clusterIP"), None);
    let applied = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "u"}, "spec": {"ports": [{"port": 80}]}});
    let made = apply(&mut client, &format!("{SERVICES}/u/status?fieldManager=me"), &applied).await;
    assert_eq!((made.status, made.json()["spec"].get("clusterIP")), (201, None));
    let made = client
        .call(
            "PUT",
            &format!("{SERVICES}/t"),
            Some(&json!({"metadata": {"name": "t"}, "spec": {"ports": [{"port": 80}]}})),
        )
        .await;
    assert!(made.json()["spec"]["clusterIP"].is_string());
}

/// kube-apiserver wipes the mark of a deletion before it records owners in a POST, and after it in a PUT.
#[tokio::test]
async fn a_put_that_creates_owns_the_mark_of_a_deletion() {
    let (_server, mut client) = client().await;
    let service = json!({"metadata": {"name": "s", "deletionTimestamp": "2020-01-01T00:00:00Z"}, "spec": {"ports": [{"port": 80}]}});
    let mark = |object: &Value| object["metadata"]["managedFields"][0]["fieldsV1"]["f:metadata"].clone();
    let put = client.call("PUT", &format!("{SERVICES}/s?dryRun=All"), Some(&service)).await.json();
    assert_eq!(mark(&put), json!({"f:deletionTimestamp": {}}));
    let posted = client.call("POST", &format!("{SERVICES}?dryRun=All"), Some(&service)).await.json();
    assert_eq!(mark(&posted), Value::Null);
}

/// Without a version it is read as an internal type, whose fields have other names.
#[tokio::test]
async fn a_patch_that_takes_the_version_away_knows_no_field() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    let answer = merge(&mut client, &format!("{MAPS}/a"), &json!({"apiVersion": null})).await;
    assert_eq!(answer.status, 400);
    for field in ["data", "metadata"] {
        assert!(answer.head.contains(&format!("unknown field \\\"{field}\\\"")), "{}", answer.head);
    }
    let path = format!("{MAPS}/a?fieldValidation=Strict");
    assert_eq!(merge(&mut client, &path, &json!({"apiVersion": null})).await.status, 422);
}

/// Its selector was merged with the old one, so that labels could not be taken away.
#[tokio::test]
async fn the_selector_of_a_budget_is_replaced() {
    let (_server, mut client) = client().await;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    client.call("POST", path, Some(&budget)).await;
    let change = json!({"spec": {"selector": {"matchLabels": {"c": "d"}}}});
    let changed =
        patch(&mut client, "strategic-merge-patch+json", &format!("{path}/b"), &change).await.json();
    assert_eq!(changed["spec"]["selector"], json!({"matchLabels": {"c": "d"}}));
    assert_eq!(changed["metadata"]["generation"], 2);
}

#[tokio::test]
async fn the_metadata_of_core_events_and_budgets_is_checked_last() {
    let (_server, mut client) = client().await;
    let path = "/api/v1/namespaces/default/events";
    let mut event = json!({"metadata": {"name": "a/b"}, "involvedObject": {"namespace": "other"}});
    assert_eq!(causes(&client.call("POST", path, Some(&event)).await.json()), ["involvedObject.namespace"]);
    event["involvedObject"]["namespace"] = "default".into();
    assert_eq!(causes(&client.call("POST", path, Some(&event)).await.json()), ["metadata.name"]);
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let mut budget = json!({"metadata": {"name": "A"}, "spec": {"minAvailable": -1}});
    assert_eq!(causes(&client.call("POST", path, Some(&budget)).await.json()), ["spec.minAvailable"]);
    budget["spec"]["minAvailable"] = 1.into();
    assert_eq!(client.call("POST", path, Some(&budget)).await.status, 201);
}

#[tokio::test]
async fn finalizers_of_events_in_their_own_group_have_a_domain() {
    let (_server, mut client) = client().await;
    let mut odd = event("e");
    odd["metadata"]["finalizers"] = json!(["bad"]);
    let refused = client.call("POST", EVENTS, Some(&odd)).await;
    assert_eq!((refused.status, causes(&refused.json())), (422, vec!["metadata.finalizers[0]"]));
}

/// An Event of either group is one of core where a name could not be generated.
#[tokio::test]
async fn a_taken_name_of_an_event_is_of_the_core_group() {
    let (_server, mut client) = client().await;
    let mut event = event("e");
    event["metadata"]["generateName"] = "g-".into();
    client.call("POST", EVENTS, Some(&event)).await;
    let taken = client.call("POST", EVENTS, Some(&event)).await.json();
    assert_eq!(taken["details"], json!({"name": "e", "kind": "events", "retryAfterSeconds": 1}));
}

/// A manager that takes a phase away owns the one that is filled in, and addresses are in step before they get an owner.
#[tokio::test]
async fn what_follows_from_a_status_has_the_owner_of_the_status() {
    let (_server, mut client) = client().await;
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    client.call("POST", path, Some(&claim)).await;
    let status = format!("{path}/c/status?fieldManager=me");
    merge(&mut client, &status, &json!({"status": {"phase": "Bound"}})).await;
    let other = format!("{path}/c/status?fieldManager=other");
    let changed = merge(&mut client, &other, &json!({"status": {"phase": null}})).await.json();
    let owned = |object: &Value, manager: &str| {
        let entries = object["metadata"]["managedFields"].as_array().unwrap().clone();
        entries.into_iter().find(|entry| entry["manager"] == manager).map(|entry| entry["fieldsV1"].clone())
    };
    assert_eq!(owned(&changed, "other"), Some(json!({"f:status": {"f:phase": {}}})));

    let path = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    client.call("POST", path, Some(&pod)).await;
    let status = format!("{path}/p/status?fieldManager=me");
    let changed = merge(&mut client, &status, &json!({"status": {"podIP": "10.1.1.1"}})).await.json();
    let entry = json!({".": {}, "k:{\"ip\":\"10.1.1.1\"}": {".": {}, "f:ip": {}}});
    assert_eq!(owned(&changed, "me"), Some(json!({"f:status": {"f:podIP": {}, "f:podIPs": entry}})));
}

/// A Job that loses its labels by a write of its status has those of the template that was sent, although that is not
/// stored; if it has none, those of the stored one.
#[tokio::test]
async fn a_job_without_labels_has_those_of_the_template_that_was_sent() {
    let (_server, mut client) = client().await;
    let path = "/apis/batch/v1/namespaces/default/jobs";
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
    let labels = json!({"app": "a"});
    let mut job = json!({"metadata": {"name": "j"}, "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}}});
    let made = client.call("POST", path, Some(&job)).await.json();
    assert_eq!(made["metadata"]["labels"].as_object().map(serde_json::Map::len), Some(5));
    let path = format!("{path}/j/status?dryRun=All");
    assert_eq!(client.call("PUT", &path, Some(&job)).await.json()["metadata"]["labels"], labels);
    job["spec"]["template"]["metadata"] = json!({});
    let changed = client.call("PUT", &path, Some(&job)).await.json();
    assert_eq!(changed["metadata"]["labels"], made["metadata"]["labels"]);
}

/// Warnings about a body are returned although the request fails for another reason.
#[tokio::test]
async fn warnings_about_a_body_survive_a_refusal() {
    let (_server, mut client) = client().await;
    client.call("POST", DEPLOYMENTS, Some(&deployment("d"))).await;
    let pods = "/api/v1/namespaces/default/pods/p";
    let odd = json!({"metadata": {"name": "p"}, "target": {"name": "n"}, "unheardOf": 1});
    for (method, path) in [
        ("POST", format!("{pods}/binding")),
        ("POST", format!("{pods}/eviction")),
        ("PUT", format!("{DEPLOYMENTS}/d/scale")),
    ] {
        let odd = if path.ends_with("scale") { json!({"unheardOf": 1}) } else { odd.clone() };
        let answer = client.call(method, &path, Some(&odd)).await;
        assert!(answer.status >= 400 && answer.head.contains("unheardOf"), "{path} {}", answer.head);
    }
    let odd = json!({"metadata": {"name": "other"}, "unheardOf": 1});
    let answer = merge(&mut client, &format!("{DEPLOYMENTS}/d/scale"), &odd).await;
    assert!(answer.status == 400 && answer.head.contains("unheardOf"), "{}", answer.head);
    let mut set = deployment("s");
    set["kind"] = "StatefulSet".into();
    set["spec"]["serviceName"] = "s".into();
    set["spec"]["revisionHistoryLimit"] = (-1).into();
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    assert_eq!(client.call("POST", sets, Some(&set)).await.status, 201);
    let answer = merge(&mut client, &format!("{sets}/s/scale"), &json!({"spec": {"replicas": 7}})).await;
    assert!(answer.status == 200 && answer.head.contains("revisionHistoryLimit"), "{}", answer.head);
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"});
    let mut map = config_map("missing", "1");
    map["metadata"]["ownerReferences"] = json!([owner, owner]);
    let answer = client.call("PUT", &format!("{MAPS}/missing"), Some(&map)).await;
    assert!(answer.status == 404 && answer.head.contains("duplicate UID(s) observed: 1"), "{}", answer.head);
}

#[tokio::test]
async fn the_secret_of_a_csi_volume_has_a_name() {
    let (_server, mut client) = client().await;
    let volume =
        json!({"name": "v", "csi": {"driver": "d.e.f", "nodePublishSecretRef": {"name": "Odd_word!"}}});
    let pod = json!({"metadata": {"name": "p"}, "spec": {"volumes": [volume], "containers": [{"name": "c", "image": "i"}]}});
    let refused = client.call("POST", "/api/v1/namespaces/default/pods", Some(&pod)).await.json();
    assert_eq!(causes(&refused), ["spec.volumes[0].csi.name"]);
}

/// An object that something holds is accepted for deletion, in a dry run as well.
#[tokio::test]
async fn a_dry_deletion_of_a_held_object_is_accepted() {
    let (_server, mut client) = client().await;
    let mut map = config_map("a", "1");
    map["metadata"]["finalizers"] = json!(["a.b/c"]);
    client.call("POST", MAPS, Some(&map)).await;
    let options = json!({"orphanDependents": false, "dryRun": ["All"]});
    assert_eq!(client.call("DELETE", &format!("{MAPS}/a"), Some(&options)).await.status, 202);
}

/// The uid in a patched Scale is compared with that of the target, also when it is applied.
#[tokio::test]
async fn a_scale_is_patched_with_the_uid_of_its_target() {
    let (_server, mut client) = client().await;
    let pods =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": pods}});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(client.call("POST", path, Some(&deployment)).await.status, 201);
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d", "uid": "other"}, "spec": {"replicas": 2}});
    let refused = [
        merge(&mut client, &format!("{path}/d/scale"), &scale).await,
        apply(&mut client, &format!("{path}/d/scale?fieldManager=m&force=true"), &scale).await,
    ];
    for answer in refused {
        assert_eq!((answer.status, &answer.json()["details"]["kind"]), (409, &json!("deployments/scale")));
    }
}

/// Empty details are written for the 415 of a patch of a built-in kind, and a media type without a name is none.
#[tokio::test]
async fn an_unknown_media_type_is_refused() {
    let (_server, mut client) = client().await;
    let path = "/api/v1/namespaces/default/configmaps";
    client.send("PATCH", &format!("{path}/a"), "content-type: text/plain\r\n", "{}").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, &answer.json()["details"]), (415, &json!({})));
    let two = "content-type: application/json-patch+json,application/json\r\n";
    client.send("PATCH", &format!("{path}/a"), two, "{}").await;
    let answer = client.answer().await;
    assert_eq!((answer.status, &answer.json()["details"]), (415, &json!(null)));
    client.send("POST", path, "content-type: ;\r\n", "{}").await;
    assert_eq!(client.answer().await.status, 415);
}
