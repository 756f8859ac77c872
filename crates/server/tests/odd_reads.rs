//! Reads and watches with odd parameters and media types. Each response is kube-apiserver's.

#![cfg(test)]

mod common;

use common::{Answer, Client, Watch, client};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

async fn get_as(client: &mut Client, path: &str, shape: &str) -> Answer {
    let headers = format!("accept: application/json;as={shape};v=v1;g=meta.k8s.io\r\n");
    client.send("GET", path, &headers, "").await;
    client.answer().await
}

/// Bookmarks had nothing but their metadata; a client that needs a spec could not read them.
#[tokio::test]
async fn bookmarks_have_the_fields_of_their_kind() {
    let (server, _) = client().await;
    for (path, fields) in [
        (MAPS, json!({})),
        ("/api/v1/services", json!({"spec": {}, "status": {"loadBalancer": {}}})),
        ("/apis/rbac.authorization.k8s.io/v1/roles", json!({"rules": null})),
        (
            "/apis/batch/v1/jobs",
            json!({"spec": {"template": {"metadata": {}, "spec": {"containers": null}}}, "status": {}}),
        ),
    ] {
        let mut watch = Watch::of(&server, path, INITIAL).await;
        let mut bookmark = watch.next().await.unwrap();
        while bookmark["type"] != "BOOKMARK" {
            bookmark = watch.next().await.unwrap();
        }
        let object = bookmark["object"].as_object_mut().unwrap();
        for key in ["kind", "apiVersion", "metadata"] {
            assert!(object.remove(key).is_some(), "{path}");
        }
        assert_eq!(Value::Object(object.clone()), fields, "{path}");
    }
}

/// The metadata of a list is not a form of an event: the options are checked, and the watch ends with its first event.
#[tokio::test]
async fn a_watch_of_the_metadata_of_lists_ends_with_its_first_event() {
    let (server, mut client) = client().await;
    client.create("a", "1").await;
    let shape = "PartialObjectMetadataList";
    let path = format!("{MAPS}?watch=1&timeoutSeconds=30");
    let answer = get_as(&mut client, &path, shape).await;
    assert_eq!((answer.status, answer.body), (200, Vec::new()));
    // The end of a watch is that of its connection.
    let mut client = Client::new(&server).await;
    let answer = get_as(&mut client, &format!("{path}&fieldSelector=spec.odd%3Dx"), shape).await;
    assert_eq!(answer.status, 400);
}

#[tokio::test]
async fn a_future_revision_is_retried_where_a_cache_is_read() {
    let (_server, mut client) = client().await;
    for (path, retry) in [(MAPS, json!(1)), ("/api/v1/namespaces/default/events", Value::Null)] {
        for path in [format!("{path}?resourceVersion=999999"), format!("{path}/a?resourceVersion=999999")] {
            let answer = client.call("GET", &path, None).await;
            assert_eq!(
                (answer.status, &answer.json()["details"]["retryAfterSeconds"]),
                (504, &retry),
                "{path}"
            );
        }
    }
    let answer = client.call("DELETE", &format!("{MAPS}?resourceVersion=999999"), None).await;
    assert_eq!((answer.status, &answer.json()["details"]["retryAfterSeconds"]), (504, &json!(1)));
}

#[tokio::test]
async fn a_subresource_that_is_not_served_is_not_deprecated() {
    let (_server, mut client) = client().await;
    let path = "/api/v1/namespaces/default/endpoints/a";
    assert!(client.call("GET", path, None).await.header("warning").is_some());
    let answer = client.call("GET", &format!("{path}/scale"), None).await;
    assert_eq!((answer.status, answer.header("warning")), (404, None));
}

#[tokio::test]
async fn the_selector_of_a_deletion_is_read_before_its_options() {
    let (_server, mut client) = client().await;
    let options = json!({"propagationPolicy": "Odd"});
    let path = format!("{MAPS}?fieldSelector=spec.odd%3Dx");
    assert_eq!(client.call("DELETE", &path, Some(&options)).await.status, 400);
    assert_eq!(client.call("DELETE", MAPS, Some(&options)).await.status, 422);
}

/// A claim that has a volume and no capacity shows a zero.
#[tokio::test]
async fn a_claim_without_a_capacity_has_none() {
    let (_server, mut client) = client().await;
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "c"}, "spec": {"volumeName": "v", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    client.call("POST", path, Some(&claim)).await;
    let table = get_as(&mut client, &format!("{path}/c"), "Table").await.json();
    assert_eq!(table["rows"][0]["cells"][3], "0");
}

/// Tables show objects as kube-apiserver stores them, without the annotations that hold fields for older versions.
#[tokio::test]
async fn tables_show_what_is_stored() {
    let (_server, mut client) = client().await;
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let scaler = json!({"metadata": {"name": "h"}, "spec": {
        "maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}}}],
    }});
    assert_eq!(client.call("POST", path, Some(&scaler)).await.status, 201);
    let new = get_as(&mut client, &format!("{path}/h"), "Table").await.json();
    let old = get_as(&mut client, &format!("{}/h", path.replace("v2", "v1")), "Table").await.json();
    assert_eq!(new["rows"][0]["cells"][2], "memory: <unknown>/70%");
    assert_eq!(new["rows"][0]["cells"], old["rows"][0]["cells"]);
    assert_eq!(old["rows"][0]["object"]["metadata"].get("annotations"), None);

    let path = "/apis/apps/v1/namespaces/default/daemonsets";
    let labels = json!({"app": "a"});
    let set = json!({"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": labels}, "template": {
        "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    }}});
    let made = client.call("POST", path, Some(&set)).await.json();
    assert!(made["metadata"]["annotations"].is_object());
    let table = get_as(&mut client, &format!("{path}/s"), "Table").await.json();
    assert_eq!(table["rows"][0]["object"]["metadata"].get("annotations"), None);
    let partial = get_as(&mut client, &format!("{path}/s"), "PartialObjectMetadata").await.json();
    assert_eq!((&partial["metadata"]["name"], partial["metadata"].get("annotations")), (&json!("s"), None));
    let partial = get_as(&mut client, path, "PartialObjectMetadataList").await.json();
    assert_eq!(partial["items"][0]["metadata"].get("annotations"), None);
    assert_eq!(partial["items"][0]["metadata"]["uid"], made["metadata"]["uid"]);
}

/// The old watch path once took any selector beside the name.
#[tokio::test]
async fn a_watch_of_a_name_takes_a_selector_for_that_name_only() {
    let (_server, mut client) = client().await;
    let path = "/api/v1/watch/namespaces/default/configmaps/a?timeoutSeconds=1&fieldSelector=";
    for (selector, status) in
        [("metadata.namespace%3Ddefault", 400), ("metadata.name%3Db", 400), ("metadata.name%3Da", 200)]
    {
        assert_eq!(client.call("GET", &format!("{path}{selector}"), None).await.status, status, "{selector}");
    }
}

/// The path with a slash has a handler of its own in kube-apiserver.
#[tokio::test]
async fn groups_have_no_aggregated_form_below_a_slash() {
    let (_server, mut client) = client().await;
    let accept = "accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n";
    for (path, status) in [("/apis", 200), ("/apis/", 406)] {
        client.send("GET", path, accept, "").await;
        assert_eq!(client.answer().await.status, status, "{path}");
    }
}

/// A negative timeout is over when the watch begins. It was taken for none, so that the watch stayed open.
#[tokio::test]
async fn a_watch_with_a_negative_timeout_ends_at_once() {
    let (_server, mut client) = client().await;
    let path = format!("{MAPS}?watch=true&resourceVersion=0&timeoutSeconds=-1");
    let ended = tokio::time::timeout(common::PATIENCE, client.call("GET", &path, None)).await;
    assert_eq!(ended.unwrap().status, 200);
}
