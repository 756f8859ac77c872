//! What clients are told at the edges: odd paths, odd bodies, objects that are gone, nodes that are not there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use common::{Client, names, start};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn client() -> (listwatch_server::Handle, Client) {
    let server = start().await;
    let client = Client::new(&server).await;
    (server, client)
}

#[tokio::test]
async fn paths_are_taken_as_they_are() {
    let (_server, mut client) = client().await;
    for (path, status) in [
        ("/api/v1//configmaps", 404),
        ("/api/v1/namespaces//configmaps", 200),
        ("/livez", 200),
        ("/livez/", 404),
        ("/version/", 200),
        ("/api/v1/configmaps/%zz", 400),
    ] {
        assert_eq!(client.call("GET", path, None).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn a_collection_is_deleted_as_it_is_listed() {
    let (_server, mut client) = client().await;
    for name in ["a", "b", "c"] {
        client.create(name, "1").await;
    }
    for query in ["resourceVersion=nonsense", "continue=nonsense"] {
        assert_eq!(client.call("DELETE", &format!("{MAPS}?{query}"), None).await.status, 400, "{query}");
    }
    let page = client.call("DELETE", &format!("{MAPS}?limit=1"), None).await.json();
    assert_eq!(names(&page), ["a"]);
    assert!(page["metadata"]["continue"].as_str().is_some_and(|token| !token.is_empty()));
    let headers = "accept: application/json;as=Table;g=meta.k8s.io;v=v1beta1\r\n";
    client.send("DELETE", MAPS, headers, "").await;
    let table = client.answer().await.json();
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1beta1")));
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_copy_of_what_is_gone_cannot_come_back() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    let path = format!("{MAPS}/a");
    let mut copy = client.get(&path).await;
    client.call("DELETE", &path, None).await;
    assert_eq!(client.call("PUT", &path, Some(&copy)).await.status, 409);
    copy["metadata"].as_object_mut().unwrap().remove("uid");
    assert_eq!(client.call("PUT", &path, Some(&copy)).await.status, 404);
}

#[tokio::test]
async fn kinds_that_require_a_resource_version_require_it_for_status_too() {
    let (_server, mut client) = client().await;
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1}});
    let made = client.call("POST", path, Some(&budget)).await.json();
    for sub in ["", "/status"] {
        let path = format!("{path}/b{sub}");
        let mut object = made.clone();
        for version in [Value::Null, json!("0")] {
            object["metadata"]["resourceVersion"] = version;
            assert_eq!(client.call("PUT", &path, Some(&object)).await.status, 422, "{path}");
        }
        assert_eq!(client.call("PUT", &path, Some(&made)).await.status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_patch_is_read_once_there_is_something_to_change() {
    let (_server, mut client) = client().await;
    client.create("a", "1").await;
    let merge = "content-type: application/merge-patch+json\r\n";
    for (name, status) in [("a", 400), ("none", 404)] {
        client.send("PATCH", &format!("{MAPS}/{name}"), merge, "{").await;
        assert_eq!(client.answer().await.status, status, "{name}");
    }
    let strategic = "content-type: application/strategic-merge-patch+json\r\n";
    client.send("PATCH", &format!("{MAPS}/a"), strategic, r#"{"kind":"Secret","data":{"z":"1"}}"#).await;
    let patched = client.answer().await.json();
    assert_eq!((&patched["kind"], &patched["data"]["z"]), (&json!("ConfigMap"), &json!("1")));
}

#[tokio::test]
async fn yaml_may_repeat_itself() {
    let (_server, mut client) = client().await;
    let body = "metadata:\n  name: twice\ndata:\n  k: '1'\n  k: '2'\n";
    let path = format!("{MAPS}?fieldValidation=Strict");
    client.send("POST", &path, "content-type: application/yaml\r\n", body).await;
    assert_eq!(client.answer().await.status, 400);
    client.send("POST", MAPS, "content-type: application/yaml\r\n", body).await;
    let answer = client.answer().await;
    assert_eq!(answer.header("warning"), Some("299 - \"line 5: key \\\"k\\\" already set in map\""));
    assert_eq!(answer.json()["data"], json!({"k": "2"}));
}

#[tokio::test]
async fn a_pod_that_runs_nowhere_has_no_log_and_takes_no_commands() {
    let (_server, mut client) = client().await;
    let pod = |name: &str, node: Value| json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
    for object in [pod("free", Value::Null), pod("bound", json!("nowhere"))] {
        assert_eq!(client.call("POST", PODS, Some(&object)).await.status, 201);
    }
    for (path, status) in [
        ("none/log", 404),
        ("free/log", 204),
        ("free/log?container=x", 400),
        ("free/log?tailLines=-1", 422),
        ("free/exec?command=ls", 400),
        ("bound/log", 404),
        ("free/proxy/some/path", 400),
    ] {
        assert_eq!(client.call("GET", &format!("{PODS}/{path}"), None).await.status, status, "{path}");
    }
}

#[tokio::test]
async fn events_come_in_pages_of_any_version() {
    let (_server, mut client) = client().await;
    let path = "/api/v1/namespaces/default/events";
    for name in ["a", "b"] {
        let event = json!({"metadata": {"name": name}, "involvedObject": {"namespace": "default"}});
        assert_eq!(client.call("POST", path, Some(&event)).await.status, 201);
    }
    let page = client.get(&format!("{path}?limit=1&resourceVersion=0")).await;
    assert_eq!(names(&page).len(), 1);
}

/// kubectl up to 1.28 asks for the v2 document in protobuf and fails without; newer ones ask again only if it changed.
#[tokio::test]
async fn the_v2_document_is_there_in_protobuf_and_is_named_by_its_content() {
    let (_server, mut client) = client().await;
    let accept = "accept: application/com.github.proto-openapi.spec.v2@v1.0+protobuf\r\n";
    client.send("GET", "/openapi/v2", accept, "").await;
    let protobuf = client.answer().await;
    let ty = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    assert_eq!((protobuf.status, protobuf.header("content-type")), (200, Some(ty)));
    assert!(protobuf.body.starts_with(b"\x0a\x032.0"), "the first field is the Swagger version");
    let known = format!("if-none-match: {}\r\n", protobuf.header("etag").unwrap());
    client.send("GET", "/openapi/v2", &known, "").await;
    assert_eq!(client.answer().await.status, 304);
    client.send("GET", "/openapi/v2", "accept: text/html\r\n", "").await;
    assert_eq!(client.answer().await.status, 406);
}

/// The Python client compares texts, and kube-apiserver ends compact JSON with a newline.
#[tokio::test]
async fn compact_json_ends_with_a_newline_and_json_for_people_does_not() {
    let (_server, mut client) = client().await;
    client.create("a", "0").await;
    let one = format!("{MAPS}/a");
    for path in [&one, MAPS, "/apis", "/api/v1/namespaces/none", "/api/v1"] {
        let body = client.call("GET", path, None).await.body;
        assert!(body.ends_with(b"}\n") && !body.ends_with(b"\n\n"), "{path}");
        let body = client.call("GET", &format!("{path}?pretty=true"), None).await.body;
        assert!(body.ends_with(b"\n}"), "{path}");
    }
}

#[tokio::test]
async fn token_checkers_find_the_public_key() {
    let server = common::start_on(listwatch_server::Options::default()).await;
    let mut client = Client::new(&server).await;
    let keys = client.get("/openid/v1/jwks").await;
    let configuration = client.get("/.well-known/openid-configuration").await;
    assert!(configuration["jwks_uri"].as_str().unwrap().ends_with("/openid/v1/jwks"));
    let key = &keys["keys"][0];
    assert_eq!(
        (key["kty"].as_str(), key["crv"].as_str(), key["alg"].as_str()),
        (Some("EC"), Some("P-256"), Some("ES256"))
    );
    assert_eq!(key["x"].as_str().unwrap().len(), 43);
    server.shutdown().await;
}

/// Component statuses were an empty list, and a watch of them had the 405 of an unknown method.
#[tokio::test]
async fn component_statuses_are_made_up_when_they_are_asked_for() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let path = "/api/v1/componentstatuses";
    let list = client.get(path).await;
    assert_eq!((&list["kind"], &list["metadata"]), (&json!("ComponentStatusList"), &json!({})));
    assert_eq!(names(&list), ["controller-manager", "etcd-0", "scheduler"]);
    let store = client.get(&format!("{path}/etcd-0")).await;
    let healthy = json!([{"type": "Healthy", "status": "True", "message": "ok"}]);
    assert_eq!((&store["metadata"], &store["conditions"]), (&json!({"name": "etcd-0"}), &healthy));
    let one =
        client.get(&format!("{path}?fieldSelector=metadata.name%3Detcd-0&limit=1&resourceVersion=5")).await;
    assert_eq!(names(&one), ["etcd-0"]);
    let missing = client.call("GET", &format!("{path}/nope"), None).await;
    assert_eq!((missing.status, &missing.json()["details"]["kind"]), (404, &json!("componentstatus")));
    let watch = client.call("GET", &format!("{path}?watch=true"), None).await;
    assert_eq!((watch.status, &watch.json()["details"]["kind"]), (405, &json!("componentstatuses")));
}

/// A patch that named another type was refused about the field `patch`; the type of a built-in kind may be absent.
#[tokio::test]
async fn a_patched_object_keeps_its_type() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    let path = "/api/v1/namespaces/default/configmaps/a";
    for (patch, expected) in
        [(r#"{"kind":null}"#, 200), (r#"{"kind":"Other"}"#, 422), (r#"{"apiVersion":"v9"}"#, 422)]
    {
        client.send("PATCH", path, "content-type: application/merge-patch+json\r\n", patch).await;
        assert_eq!(client.answer().await.status, expected, "{patch}");
    }
}

/// `/version` answered JSON to whoever accepted none, and discovery never came as protobuf.
#[tokio::test]
async fn discovery_has_the_form_that_is_asked_for() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let proto = "application/vnd.kubernetes.protobuf";
    for (path, accept, status, form) in [
        ("/version", "application/yaml", 406, "application/yaml"),
        ("/version", "application/*", 200, "application/json"),
        ("/api", proto, 200, proto),
        ("/apis", proto, 200, proto),
        ("/api/v1", proto, 200, proto),
        ("/apis/apps", proto, 200, proto),
        ("/apis/apps/v1", proto, 200, proto),
    ] {
        client.send("GET", path, &format!("accept: {accept}\r\n"), "").await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.header("content-type")), (status, Some(form)), "{path} {accept}");
    }
}

/// A dry run forgot the resourceVersion of a new object, which only the store refuses.
#[tokio::test]
async fn a_dry_run_of_a_creation_shows_the_version_that_was_sent() {
    let (_server, mut client) = client().await;
    let map = json!({"metadata": {"name": "a", "resourceVersion": "7"}});
    let dry = client.call("POST", &format!("{MAPS}?dryRun=All"), Some(&map)).await;
    assert_eq!((dry.status, &dry.json()["metadata"]["resourceVersion"]), (201, &json!("7")));
    assert_eq!(client.call("POST", MAPS, Some(&map)).await.status, 400);
}
