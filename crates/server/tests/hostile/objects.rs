//! Objects that must not be creatable, and the handling of such objects in the store.

use std::sync::Arc;

use crate::common::{Client, config_map, eventually, start, start_as_is, until};
use listwatch_server::{Handle, LifecycleOptions, Options};
use listwatch_storage::{Expect, MemoryOptions, Write};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const LOOSE: &str = "/apis/example.com/v1/namespaces/default/loose";

/// A kind whose objects may hold anything.
async fn define_loose(server: &Handle, client: &mut Client) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "loose.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "loose", "kind": "Loose"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    });
    assert_eq!(client.call("POST", DEFINITIONS, Some(&definition)).await.status, 201);
    eventually("it is served", || server.api().registry.find("example.com", "v1", "loose").is_some()).await;
}

/// A schema of 400 negations was accepted, and then the list of all definitions had no protobuf form any more: every client
/// that uses it got a 500 instead.
#[tokio::test]
async fn a_definition_that_is_accepted_can_be_read_in_every_form() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let wraps: [fn(Value) -> Value; 3] = [
        |schema| json!({"type": "object", "additionalProperties": schema}),
        |schema| json!({"type": "object", "properties": {"a": schema}}),
        |schema| json!({"not": schema}),
    ];
    let mut accepted = 0;
    for (kind, wrap) in wraps.into_iter().enumerate() {
        for levels in [60, 62, 90, 94, 95, 96, 250, 400, 480] {
            let leaf = if kind == 2 { json!({"minLength": 1}) } else { json!({"type": "string"}) };
            let mut spec = (0..levels).fold(leaf, |schema, _| wrap(schema));
            if kind == 2 {
                spec["type"] = json!("string");
            }
            let name = format!("deep{kind}n{levels}s");
            let body = json!({"metadata": {"name": format!("{name}.example.com")}, "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": name, "singular": format!("{name}x"), "kind": format!("Deep{kind}n{levels}")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "properties": {"spec": spec}}}}]}});
            let made = client.call("POST", DEFINITIONS, Some(&body)).await;
            assert!(matches!(made.status, 201 | 400 | 422), "{kind} {levels}: {}", made.status);
            accepted += usize::from(made.status == 201);
            client.send("GET", DEFINITIONS, "accept: application/vnd.kubernetes.protobuf\r\n", "").await;
            assert_eq!(client.answer().await.status, 200, "{kind} {levels}");
        }
    }
    assert!(accepted >= 6, "{accepted}");
    server.shutdown().await;
}

async fn patch(client: &mut Client, path: &str, kind: &str, body: &str) -> (u16, Value) {
    client.send("PATCH", path, &format!("content-type: application/{kind}\r\n"), body).await;
    let answer = client.answer().await;
    // What is very deep is not for this reader.
    (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
}

/// `{"a":{"a":…}}` of so many levels.
fn nested(levels: usize) -> String {
    r#"{"a":"#.repeat(levels - 1) + "{}" + &"}".repeat(levels - 1)
}

#[tokio::test]
async fn a_patch_that_doubles_its_depth_is_refused() {
    // `copy` of a subtree into its own deepest node: a body of 34 KB overflowed the stack of the process.
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    let (mut operations, mut deepest) =
        (vec![json!({"op": "add", "path": "/x", "value": {}})], "/x".to_owned());
    for _ in 0..14 {
        operations.push(json!({"op": "copy", "from": "/x", "path": format!("{deepest}/x")}));
        deepest = deepest.repeat(2);
    }
    let body = Value::from(operations).to_string();
    let (status, answer) = patch(&mut client, &format!("{MAPS}/a"), "json-patch+json", &body).await;
    assert_eq!((status, &answer["reason"]), (422, &json!("Invalid")), "{answer}");
    assert_eq!(client.get(&format!("{MAPS}/a")).await["data"], json!({"k": "1"}));
}

#[tokio::test]
async fn whatever_depth_is_accepted_goes_through_every_verb() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    define_loose(&server, &mut client).await;
    let path = format!("{LOOSE}/deep");
    let object = |levels: usize, extra: &str| {
        format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Loose","metadata":{{"name":"deep"{extra}}},"spec":{}}}"#,
            nested(levels)
        )
    };
    let json = "content-type: application/json\r\n";
    client.send("POST", LOOSE, json, &object(512, "")).await;
    assert_eq!(client.answer().await.status, 400, "one level too deep");
    client.send("POST", LOOSE, json, &object(511, "")).await;
    let made = client.answer().await;
    assert_eq!(made.status, 201);
    let text = String::from_utf8(made.body).unwrap();
    let version = text.split(r#""resourceVersion":""#).nth(1).unwrap().split('"').next().unwrap();
    let labelled = format!(r#","resourceVersion":"{version}","labels":{{"a":"1"}}"#);
    client.send("PUT", &path, json, &object(511, &labelled)).await;
    assert_eq!(client.answer().await.status, 200);
    let deeper = r#"[{"op":"move","from":"/spec","path":"/metadata/annotations/x"}]"#;
    assert_eq!(patch(&mut client, &path, "json-patch+json", deeper).await.0, 422);
    let wrap = r#"[{"op":"add","path":"/more","value":{}},{"op":"copy","from":"/spec","path":"/more/spec"}]"#;
    assert_eq!(patch(&mut client, &path, "json-patch+json", wrap).await.0, 422);
    let label = r#"{"metadata":{"labels":{"b":"2"}}}"#;
    assert_eq!(patch(&mut client, &path, "merge-patch+json", label).await.0, 200);
    let apply = "/apis/example.com/v1/namespaces/default/loose/deep?fieldManager=m&force=true";
    let (status, answer) = patch(&mut client, apply, "apply-patch+yaml", &object(511, "")).await;
    assert_eq!(status, 200, "{answer}");
    for form in ["application/yaml", "application/json;as=Table;g=meta.k8s.io;v=v1", "application/json"] {
        for path in [LOOSE, &path] {
            client.send("GET", &format!("{path}?pretty=true"), &format!("accept: {form}\r\n"), "").await;
            assert_eq!(client.answer().await.status, 200, "{form}");
        }
    }
    assert_eq!(client.call("DELETE", &path, None).await.status, 200);
}

#[tokio::test]
async fn an_object_grows_to_what_a_store_takes_and_no_further() {
    // Small patches grew an object to 19.5 MB.
    let server = start().await;
    let mut client = Client::new(&server).await;
    let too_large = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "etcdserver: request is too large", "code": 500});
    define_loose(&server, &mut client).await;
    let mut object = json!({"apiVersion": "example.com/v1", "kind": "Loose", "metadata": {"name": "a"},
        "l": "x".repeat(1_600_000)});
    assert_eq!(client.call("POST", LOOSE, Some(&object)).await.json(), too_large);
    object["l"] = "x".repeat(1_000_000).into();
    object = client.call("POST", LOOSE, Some(&object)).await.json();
    let path = format!("{LOOSE}/a");
    let copy = r#"[{"op":"copy","from":"/l","path":"/m"}]"#;
    assert_eq!(patch(&mut client, &path, "json-patch+json", copy).await.1, too_large);
    object["m"] = object["l"].clone();
    assert_eq!(client.call("PUT", &path, Some(&object)).await.json(), too_large);
    assert_eq!(patch(&mut client, &path, "merge-patch+json", &object.to_string()).await.1, too_large);
    object["metadata"].as_object_mut().unwrap().remove("managedFields");
    let apply = format!("{path}?fieldManager=m&force=true");
    assert_eq!(patch(&mut client, &apply, "apply-patch+yaml", &object.to_string()).await.1, too_large);
    assert_eq!(client.get(&path).await["m"], Value::Null);
    assert_eq!(client.call("DELETE", &path, None).await.status, 200);
}

#[tokio::test]
async fn an_object_that_is_too_large_goes_without_the_owners_of_its_fields() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    define_loose(&server, &mut client).await;
    // Names of fields are most of it, and the record of their owner repeats each one.
    let fields: serde_json::Map<_, _> = (0..9000).map(|n| (format!("{n:0100}"), json!(1))).collect();
    let object =
        json!({"apiVersion": "example.com/v1", "kind": "Loose", "metadata": {"name": "a"}, "spec": fields});
    let answer = client.call("POST", LOOSE, Some(&object)).await;
    assert_eq!(answer.status, 201);
    assert_eq!(answer.json()["metadata"]["managedFields"], Value::Null);
}

/// Writes past the server, as an older one or a faulty disk would have.
async fn plant(server: &Handle, key: Arc<str>, value: String) {
    let write = Write { key, value: Some(value.into()), expect: Expect::Any, origin: None };
    server.api().engine.write(write).await.unwrap();
}

fn key(server: &Handle, group: &str, plural: &str, namespace: &str, name: &str) -> Arc<str> {
    server.api().registry.find(group, "v1", plural).unwrap().key(Some(namespace), name)
}

fn poison(kind: &str, name: &str, namespace: &str, levels: usize) -> String {
    format!(
        r#"{{"kind":"{kind}","apiVersion":"example.com/v1","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u-{name}","finalizers":["a.b/c"]}},"spec":{}}}"#,
        nested(levels)
    )
}

#[tokio::test]
async fn unreadable_objects_can_be_deleted() {
    // An object patched to depth 601 could never be deleted again, nor its namespace or definition.
    let lifecycle = LifecycleOptions { settle: std::time::Duration::ZERO, ..LifecycleOptions::default() };
    let server = start_as_is(Options { lifecycle, ..Options::default() }, MemoryOptions::default()).await;
    let mut client = Client::new(&server).await;
    define_loose(&server, &mut client).await;
    for (name, levels) in [("a", 601), ("b", 601), ("c", 100_000)] {
        plant(
            &server,
            key(&server, "example.com", "loose", "default", name),
            poison("Loose", name, "default", levels),
        )
        .await;
    }
    let path = |name: &str| format!("{LOOSE}/{name}");
    assert_eq!(client.call("PUT", &path("a"), Some(&config_map("a", ""))).await.status, 400);
    let other = json!({"preconditions": {"uid": "another"}});
    assert_eq!(client.call("DELETE", &path("a"), Some(&other)).await.status, 409);
    let answer = client.call("DELETE", &path("a"), None).await;
    assert_eq!((answer.status, &answer.json()["details"]["uid"]), (200, &json!("u-a")));
    assert_eq!(client.call("DELETE", &path("a"), None).await.status, 404);
    assert_eq!(client.call("DELETE", LOOSE, None).await.status, 200);
    assert_eq!(client.get(LOOSE).await["items"], json!([]));
    for namespace in ["one", "two"] {
        let object = json!({"metadata": {"name": namespace}});
        assert_eq!(client.call("POST", "/api/v1/namespaces", Some(&object)).await.status, 201);
        plant(
            &server,
            key(&server, "example.com", "loose", namespace, "a"),
            poison("Loose", "a", namespace, 601),
        )
        .await;
    }
    assert_eq!(client.call("DELETE", "/api/v1/namespaces/one", None).await.status, 200);
    until(&server, "/api/v1/namespaces/one", |found| found.is_none()).await;
    let last = key(&server, "example.com", "loose", "two", "a");
    let definition = format!("{DEFINITIONS}/loose.example.com");
    assert_eq!(client.call("DELETE", &definition, None).await.status, 200);
    until(&server, &definition, |found| found.is_none()).await;
    assert!(server.api().engine.get(&last, None).await.unwrap().is_none());
}

#[tokio::test]
async fn objects_above_the_limit_can_shrink_and_be_marked() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let map = format!(
        r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"a","namespace":"default","uid":"u","finalizers":["a.b/c"]}},"data":{{"k":"{}"}}}}"#,
        "x".repeat(2_000_000)
    );
    plant(&server, key(&server, "", "configmaps", "default", "a"), map).await;
    let path = format!("{MAPS}/a");
    let marked = client.call("DELETE", &path, None).await;
    assert_eq!(marked.status, 200);
    assert_ne!(marked.json()["metadata"]["deletionTimestamp"], Value::Null);
    let shorter = json!({"data": {"k": "x".repeat(900_000)}}).to_string();
    assert_eq!(patch(&mut client, &path, "merge-patch+json", &shorter).await.0, 200);
    let released = r#"{"metadata":{"finalizers":null}}"#;
    assert_eq!(patch(&mut client, &path, "merge-patch+json", released).await.0, 200);
    assert_eq!(client.call("GET", &path, None).await.status, 404);
}
