//! Protobuf: objects, lists, watches and errors, with the same content as in JSON.

#![cfg(test)]

mod common;

use common::{Answer, Client, PATIENCE, start, start_with};
use listwatch_kinds::proto::{self, Envelope};
use listwatch_server::{Handle, Options, RequestLimits};
use listwatch_storage::MemoryOptions;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

const TYPED: &str = "accept: application/vnd.kubernetes.protobuf,application/json\r\n";
const ONLY: &str = "accept: application/vnd.kubernetes.protobuf\r\n";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

async fn ask(client: &mut Client, method: &str, path: &str, headers: &str, body: &Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.send(method, path, &format!("content-type: application/json\r\n{headers}"), &body).await;
    client.answer().await
}

async fn get(client: &mut Client, path: &str, headers: &str) -> Answer {
    ask(client, "GET", path, headers, &Value::Null).await
}

fn content_type(answer: &Answer) -> &str {
    answer.header("content-type").unwrap_or_default()
}

fn decoded(answer: &Answer) -> Value {
    assert_eq!(content_type(answer), "application/vnd.kubernetes.protobuf");
    (&proto::decode(&answer.body, ("", "")).unwrap()).into()
}

/// Serves widgets, and waits until it does.
async fn define_widgets(server: &Handle, client: &mut Client) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}
    });
    assert_eq!(client.call("POST", DEFINITIONS, Some(&definition)).await.status, 201);
    let registry = &server.api().registry;
    common::eventually("widgets are served", || registry.find("example.com", "v1", "widgets").is_some())
        .await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(client.call("POST", WIDGETS, Some(&widget)).await.status, 201);
}

#[tokio::test]
async fn objects_are_the_same_in_both_forms() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let created = ask(&mut client, "POST", MAPS, TYPED, &common::config_map("a", "1")).await;
    assert_eq!(created.status, 201);
    let path = format!("{MAPS}/a");
    let read = decoded(&get(&mut client, &path, TYPED).await);
    assert_eq!(decoded(&created), read);
    assert_eq!(client.get(&path).await, read);
}

#[tokio::test]
async fn a_pod_with_defaults_is_the_same_in_both_forms() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let pod = json!({"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}],
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
            "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
        "volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": "m"}}]}}],
        "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}]}});
    let path = "/api/v1/namespaces/default/pods";
    let created = ask(&mut client, "POST", path, TYPED, &pod).await;
    assert_eq!(created.status, 201, "{}", String::from_utf8_lossy(&created.body));
    let mut json = client.get(&format!("{path}/p")).await;
    let mut read = decoded(&created);
    // A struct without content is written in JSON and is nothing in protobuf.
    for object in [&mut json, &mut read] {
        prune_empty(object);
    }
    assert_eq!(json, read);
}

fn prune_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.values_mut().for_each(prune_empty);
            map.retain(|_, v| !matches!(v, Value::Object(m) if m.is_empty()));
        }
        Value::Array(items) => items.iter_mut().for_each(prune_empty),
        _ => {}
    }
}

#[tokio::test]
async fn lists_and_their_pages_come_in_one_envelope() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    for i in 0..300 {
        client.create(&format!("m{i:03}"), "x").await;
    }
    let list = decoded(&get(&mut client, MAPS, TYPED).await);
    assert_eq!((list["kind"].as_str(), common::names(&list).len()), (Some("ConfigMapList"), 300));
    let page = decoded(&get(&mut client, &format!("{MAPS}?limit=7"), TYPED).await);
    assert_eq!(page["metadata"]["remainingItemCount"], 293);
    let token = page["metadata"]["continue"].as_str().unwrap();
    let next = decoded(&get(&mut client, &format!("{MAPS}?limit=7&continue={token}"), TYPED).await);
    assert_eq!(common::names(&next)[0], "m007");
    assert_eq!(next["metadata"]["resourceVersion"], page["metadata"]["resourceVersion"]);
}

/// A list that exceeds the buffer is encoded twice, and must be the same both times despite concurrent writes.
#[tokio::test]
async fn a_long_list_has_the_length_of_its_prefix() {
    // The last two: other lists leave no room, or for a part of it.
    for (protobuf_bytes, protobuf_lists_bytes) in
        [(0, 1 << 20), (100_000, 1 << 20), (1 << 20, 1 << 20), (1 << 20, 0), (1 << 20, 100_000)]
    {
        let limits = RequestLimits::default();
        let requests = RequestLimits { protobuf_bytes, protobuf_lists_bytes, gzip_above: 10_000, ..limits };
        let server = start_with(Options { requests, ..Options::default() }, MemoryOptions::default()).await;
        let mut client = Client::new(&server).await;
        for i in 0..200 {
            client.create(&format!("m{i:03}"), &"x".repeat(1500)).await;
        }
        let json = client.get(MAPS).await;
        client.send("GET", MAPS, TYPED, "").await;
        Client::new(&server).await.update("m199", "later").await;
        let answer = client.answer().await;
        assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
        let list = decoded(&answer);
        assert_eq!(common::names(&list), common::names(&json));
        assert!(
            list["metadata"]["resourceVersion"] != json["metadata"]["resourceVersion"]
                || list["items"] == json["items"]
        );
    }
}

#[tokio::test]
async fn errors_come_as_the_client_reads() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let missing = get(&mut client, &format!("{MAPS}/none"), TYPED).await;
    assert_eq!(missing.status, 404);
    let status = decoded(&missing);
    assert_eq!((status["kind"].as_str(), status["reason"].as_str()), (Some("Status"), Some("NotFound")));
    assert_eq!(status["details"]["name"], "none");
    let mut stranger = Client::new(&server).await.with_token("wrong");
    let refused = get(&mut stranger, MAPS, TYPED).await;
    assert_eq!((refused.status, decoded(&refused)["code"].as_u64()), (401, Some(401)));
}

#[tokio::test]
async fn tables_are_never_protobuf() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let table = "accept: application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1";
    let answer = get(&mut client, MAPS, &format!("{table}\r\n")).await;
    assert_eq!(answer.status, 406);
    let either = format!("{table},application/json;as=Table;g=meta.k8s.io;v=v1\r\n");
    assert_eq!(get(&mut client, MAPS, &either).await.json()["kind"], "Table");
}

#[tokio::test]
async fn custom_objects_have_only_their_metadata_in_protobuf() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    define_widgets(&server, &mut client).await;
    assert_eq!(get(&mut client, WIDGETS, ONLY).await.status, 406);
    assert_eq!(get(&mut client, &format!("{WIDGETS}?watch=1"), ONLY).await.status, 406);
    assert_eq!(content_type(&get(&mut client, WIDGETS, TYPED).await), "application/json");
    let metadata =
        "accept: application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1\r\n";
    let one = decoded(&get(&mut client, &format!("{WIDGETS}/w"), metadata).await);
    assert_eq!((&one["kind"], &one["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("w")));
    let list = metadata.replace("Metadata;", "MetadataList;");
    let list = decoded(&get(&mut client, WIDGETS, &list).await);
    assert_eq!(
        (list["kind"].as_str(), common::names(&list)),
        (Some("PartialObjectMetadataList"), vec!["w".to_owned()])
    );
}

#[tokio::test]
async fn a_deleted_collection_is_listed_in_protobuf_too() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    let answer = ask(&mut client, "DELETE", MAPS, TYPED, &Value::Null).await;
    let list = decoded(&answer);
    assert_eq!((list["kind"].as_str(), common::names(&list)), (Some("ConfigMapList"), vec!["a".to_owned()]));
}

/// A watch that reads length-prefixed events.
struct Events {
    client: Client,
    waiting: Vec<u8>,
}

impl Events {
    async fn open(server: &Handle, query: &str, headers: &str) -> Self {
        let mut client = Client::new(server).await;
        client.send("GET", &format!("{MAPS}?watch=1&{query}"), headers, "").await;
        let (status, head) = client.head().await;
        assert_eq!(status, 200, "{head}");
        assert!(head.contains("content-type: application/vnd.kubernetes.protobuf;stream=watch"), "{head}");
        Self { client, waiting: Vec::new() }
    }

    async fn next(&mut self) -> (String, Value) {
        loop {
            if let Some((length, rest)) = self.waiting.split_first_chunk::<4>() {
                let length = u32::from_be_bytes(*length) as usize;
                if rest.len() >= length {
                    let event = event(&rest[..length]);
                    self.waiting.drain(..4 + length);
                    return event;
                }
            }
            let chunk = tokio::time::timeout(PATIENCE, self.client.chunk()).await.unwrap().unwrap();
            self.waiting.extend(chunk);
        }
    }
}

/// Reads `{1: type, 2: {1: envelope}}` by hand, lengths below 2^14 only.
fn event(bytes: &[u8]) -> (String, Value) {
    fn field(bytes: &[u8], tag: u8) -> (&[u8], &[u8]) {
        assert_eq!(bytes[0], tag);
        let (length, from) = match bytes[1] {
            n if n < 0x80 => (usize::from(n), 2),
            n => (usize::from(n & 0x7f) | usize::from(bytes[2]) << 7, 3),
        };
        (&bytes[from..from + length], &bytes[from + length..])
    }
    let (kind, rest) = field(bytes, 0x0a);
    let (object, rest) = field(rest, 0x12);
    assert!(rest.is_empty());
    let (envelope, _) = field(object, 0x0a);
    (String::from_utf8(kind.to_vec()).unwrap(), (&proto::decode(envelope, ("", "")).unwrap()).into())
}

#[tokio::test]
async fn watches_send_lengths_and_envelopes() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    let initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let (mut one, mut two) =
        (Events::open(&server, initial, ONLY).await, Events::open(&server, initial, TYPED).await);
    for events in [&mut one, &mut two] {
        let (kind, object) = events.next().await;
        assert_eq!((kind.as_str(), &object["data"]["k"]), ("ADDED", &json!("1")));
        let (kind, object) = events.next().await;
        assert_eq!((kind.as_str(), object["kind"].as_str()), ("BOOKMARK", Some("ConfigMap")));
        assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    }
    let updated = client.update("a", "2").await;
    client.call("DELETE", &format!("{MAPS}/a"), None).await;
    for events in [&mut one, &mut two] {
        let (kind, object) = events.next().await;
        assert_eq!((kind.as_str(), common::version(&object)), ("MODIFIED", updated));
        let (kind, object) = events.next().await;
        assert_eq!((kind.as_str(), &object["data"]["k"]), ("DELETED", &json!("2")));
        assert!(common::version(&object) > updated);
    }
}

#[tokio::test]
async fn metadata_is_watched_in_protobuf() {
    let server = start().await;
    let headers =
        "accept: application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1\r\n";
    let mut events = Events::open(&server, "", headers).await;
    Client::new(&server).await.create("a", "1").await;
    let (kind, object) = events.next().await;
    assert_eq!((kind.as_str(), object["kind"].as_str()), ("ADDED", Some("PartialObjectMetadata")));
    assert_eq!((object["metadata"]["name"].as_str(), object.get("data")), (Some("a"), None));
}

#[tokio::test]
async fn errors_of_watches_are_in_protobuf() {
    let server = start().await;
    let path = format!("{MAPS}?watch=1&resourceVersion=nonsense");
    let answer = get(&mut Client::new(&server).await, &path, ONLY).await;
    assert_eq!((answer.status, decoded(&answer)["reason"].as_str()), (400, Some("BadRequest")));
}

#[tokio::test]
async fn websockets_carry_events_as_binary_messages_without_length() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let path = format!(
        "{MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    client.send("GET", &path, &format!("{ONLY}{upgrade}"), "").await;
    assert_eq!(client.head().await.0, 101);
    let mut head = [0; 4];
    client.stream.read_exact(&mut head).await.unwrap();
    assert_eq!((head[0], head[1]), (0x82, 126), "a final binary frame of medium length");
    let mut message = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]]))];
    client.stream.read_exact(&mut message).await.unwrap();
    let (kind, object) = event(&message);
    assert_eq!((kind.as_str(), &object["metadata"]["name"]), ("ADDED", &json!("a")));
}

#[tokio::test]
async fn protobuf_in_and_protobuf_out() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
        "spec": {"holderIdentity": "me", "renewTime": "2026-01-02T03:04:05.678901Z", "leaseTransitions": 0}});
    let body = proto::encode("coordination.k8s.io/v1", "Lease", &lease.clone().into()).unwrap();
    let head = format!(
        "POST /apis/coordination.k8s.io/v1/namespaces/default/leases HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n\
         content-type: application/vnd.kubernetes.protobuf\r\n{ONLY}content-length: {}\r\n\r\n",
        server.admin_token(),
        body.len()
    );
    client.raw(&[head.as_bytes(), &body].concat()).await;
    let answer = client.answer().await;
    assert_eq!(answer.status, 201);
    assert_eq!(Envelope::open(&answer.body).unwrap().kind, "Lease");
    assert_eq!(decoded(&answer)["spec"], lease["spec"]);
}
