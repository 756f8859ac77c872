//! Delta watch: a stream of patches and a stream of whole objects yield the same states.

#![cfg(test)]

mod common;

use std::collections::BTreeMap;

use common::{Client, PATIENCE, start, version};
use listwatch_server::Handle;
use listwatch_wire::delta::{self, DeltaEvent};
use listwatch_wire::event::{Decoder, DecoderOptions, EventType};
use listwatch_wire::json::raw;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

/// The objects of a stream by name, as bytes.
type State = BTreeMap<String, Vec<u8>>;

/// A client that holds the bytes of each object and applies what comes.
struct Follower {
    client: Client,
    decoder: Decoder,
    state: State,
    deltas: usize,
    wholes: usize,
    bytes: usize,
}

impl Follower {
    async fn open(server: &Handle, path: &str, query: &str, deltas: bool) -> Self {
        let mut client = Client::new(server).await;
        let headers = if deltas { format!("accept: {}\r\n", delta::ACCEPT) } else { String::new() };
        client.send("GET", &format!("{path}?watch=1&{query}"), &headers, "").await;
        let (status, head) = client.head().await;
        assert_eq!(status, 200, "{head}");
        assert_eq!(head.contains(delta::MEDIA_TYPE), deltas, "{head}");
        let decoder = Decoder::new(DecoderOptions { deltas, ..DecoderOptions::default() });
        Self { client, decoder, state: State::new(), deltas: 0, wholes: 0, bytes: 0 }
    }

    /// Follows until something of this version has come; returns its type.
    async fn until(&mut self, revision: u64) -> EventType {
        loop {
            while let Some(event) = self.decoder.next_event().unwrap() {
                if self.apply(event.event_type, &event.object, event.is_delta) >= revision {
                    return event.event_type;
                }
            }
            let chunk =
                tokio::time::timeout(PATIENCE, self.client.chunk()).await.expect("in time").expect("no end");
            self.bytes += chunk.len();
            self.decoder.push(chunk);
        }
    }

    fn apply(&mut self, kind: EventType, bytes: &[u8], is_delta: bool) -> u64 {
        if is_delta {
            self.deltas += 1;
            let event = DeltaEvent::parse(kind, bytes).unwrap();
            let base = self.state.remove(event.name).unwrap_or_else(|| panic!("no base for {}", event.name));
            if kind == EventType::Modified {
                let object = event
                    .apply(&base)
                    .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)));
                assert!(event.paths().count() > 0);
                self.state.insert(event.name.to_owned(), object);
            }
            return event.revision.0;
        }
        let text =
            |path: &[&str]| raw::lookup(bytes, path).and_then(raw::scalar).unwrap_or_default().to_owned();
        let (name, version) = (text(&["metadata", "name"]), text(&["metadata", "resourceVersion"]));
        match kind {
            EventType::Added | EventType::Modified => drop(self.state.insert(name, bytes.to_vec())),
            EventType::Deleted => drop(self.state.remove(&name)),
            EventType::Bookmark => return version.parse().unwrap(),
            EventType::Error => panic!("{}", String::from_utf8_lossy(bytes)),
        }
        self.wholes += 1;
        version.parse().unwrap()
    }
}

/// An object of a few kilobytes of which a small part changes.
fn large(name: &str, n: u64) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"parity": (n % 2).to_string()}},
        "data": {"k": n.to_string(), "large": "x".repeat(3000)}})
}

async fn put(client: &mut Client, path: &str, body: &Value) -> u64 {
    let name = body["metadata"]["name"].as_str().unwrap();
    let answer = client.call("PUT", &format!("{path}/{name}"), Some(body)).await;
    assert!(matches!(answer.status, 200 | 201), "{}", String::from_utf8_lossy(&answer.body));
    version(&answer.json())
}

#[tokio::test]
async fn a_delta_stream_and_a_whole_stream_yield_the_same_states() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    for name in ["a", "b", "c"] {
        writer.call("POST", MAPS, Some(&large(name, 0))).await;
    }
    let mut whole = Follower::open(&server, MAPS, INITIAL, false).await;
    let mut deltas = Follower::open(&server, MAPS, INITIAL, true).await;
    for n in 1..60 {
        let name = ["a", "b", "c"][n as usize % 3];
        let mut object = large(name, n);
        match n % 5 {
            0 => object["data"][format!("new-{n}")] = json!("v"),
            1 => object["metadata"]["annotations"] = json!({format!("x/{n}"): "~/\""}),
            2 => drop(object["data"].as_object_mut().unwrap().remove("k")),
            3 => object["data"]["large"] = json!("y".repeat(3000)),
            _ => {}
        }
        let mut at = put(&mut writer, MAPS, &object).await;
        if n % 20 == 19 {
            writer.call("DELETE", &format!("{MAPS}/{name}"), None).await;
            at = version(&writer.call("POST", MAPS, Some(&large(name, n))).await.json());
        }
        whole.until(at).await;
        deltas.until(at).await;
        assert_eq!(deltas.state, whole.state, "at {at}");
    }
    assert!(
        deltas.deltas > 30 && deltas.wholes >= 3 && whole.deltas == 0,
        "{} {}",
        deltas.deltas,
        deltas.wholes
    );
    assert!(deltas.bytes * 3 < whole.bytes * 2, "{} {}", deltas.bytes, whole.bytes);
}

#[tokio::test]
async fn a_watch_resumes_with_deltas_of_what_the_client_holds() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    writer.call("POST", MAPS, Some(&large("a", 0))).await;
    let mut first = Follower::open(&server, MAPS, INITIAL, true).await;
    let at = put(&mut writer, MAPS, &large("a", 1)).await;
    first.until(at).await;
    let state = std::mem::take(&mut first.state);
    drop(first);
    put(&mut writer, MAPS, &large("a", 2)).await;
    let last = put(&mut writer, MAPS, &large("a", 3)).await;
    let mut second = Follower::open(&server, MAPS, &format!("resourceVersion={at}"), true).await;
    second.state = state;
    second.until(last).await;
    assert_eq!((second.deltas, second.wholes), (2, 0));
    let got: Value = serde_json::from_slice(&second.state["a"]).unwrap();
    assert_eq!(got, writer.get(&format!("{MAPS}/a")).await);
}

#[tokio::test]
async fn changes_are_counted_by_the_form_they_were_sent_in() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    writer.call("POST", MAPS, Some(&large("a", 0))).await;
    let mut whole = Follower::open(&server, MAPS, INITIAL, false).await;
    let mut deltas = Follower::open(&server, MAPS, INITIAL, true).await;
    writer.call("POST", MAPS, Some(&large("b", 0))).await;
    for n in 1..4 {
        let at = put(&mut writer, MAPS, &large("a", n)).await;
        whole.until(at).await;
        deltas.until(at).await;
    }
    let text = String::from_utf8(writer.call("GET", "/metrics", None).await.body).unwrap();
    let count = |form: &str| {
        let of = format!("form=\"{form}\"}} ");
        let lines = text.lines().filter(|line| line.starts_with("listwatch_watch_changes_total{"));
        let lines = lines.filter(|line| line.contains("resource=\"configmaps\""));
        lines
            .filter_map(|line| line.split_once(&of))
            .map(|(_, count)| count.parse::<u64>().unwrap())
            .sum::<u64>()
    };
    assert_eq!(
        (count("delta"), count("whole")),
        (3, 5),
        "one watcher got all changes whole, the other the new object"
    );
}

#[tokio::test]
async fn crossing_a_selector_sends_the_whole_object_in_and_its_name_out() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    writer.call("POST", MAPS, Some(&large("a", 0))).await;
    let query = format!("{INITIAL}&labelSelector=parity%3D0");
    let (mut whole, mut deltas) = (
        Follower::open(&server, MAPS, &query, false).await,
        Follower::open(&server, MAPS, &query, true).await,
    );
    for n in [2, 1, 4, 6, 7] {
        let at = put(&mut writer, MAPS, &large("a", n)).await;
        let told = whole.until(at).await;
        assert_eq!(deltas.until(at).await, told, "{n}");
        assert_eq!(deltas.state, whole.state, "{n}");
    }
    // 2 and 6 are changes, 1 and 7 go out; at the start and with 4 it comes in.
    assert_eq!((deltas.deltas, deltas.wholes), (4, 2));
}

#[tokio::test]
async fn custom_resources_have_deltas_too() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let made = writer
        .call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Some(&definition))
        .await;
    assert_eq!(made.status, 201);
    let path = "/apis/example.com/v1/namespaces/default/things";
    let thing = |n: u64| json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"n": n, "large": "x".repeat(2000)}});
    let created = async {
        loop {
            let answer = writer.call("POST", path, Some(&thing(0))).await;
            if answer.status == 201 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, created).await.expect("the kind is served");
    let (mut whole, mut deltas) = (
        Follower::open(&server, path, INITIAL, false).await,
        Follower::open(&server, path, INITIAL, true).await,
    );
    for n in 1..5 {
        let mut changed = thing(n);
        changed["metadata"]["resourceVersion"] =
            writer.get(&format!("{path}/t")).await["metadata"]["resourceVersion"].clone();
        let at = put(&mut writer, path, &changed).await;
        whole.until(at).await;
        deltas.until(at).await;
        assert_eq!(deltas.state, whole.state);
    }
    assert_eq!(deltas.deltas, 4);
}

#[tokio::test]
async fn deltas_go_over_web_sockets_and_through_gzip() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    let at = version(&writer.call("POST", MAPS, Some(&large("a", 0))).await.json());
    let mut socket = Client::new(&server).await;
    let upgrade = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let headers = format!("accept: {}\r\n{upgrade}", delta::ACCEPT);
    socket.send("GET", &format!("{MAPS}?watch=1&resourceVersion={at}"), &headers, "").await;
    assert_eq!(socket.head().await.0, 101);
    let mut zipped = Client::new(&server).await;
    let headers = format!("accept: {}\r\naccept-encoding: gzip\r\n", delta::ACCEPT);
    zipped.send("GET", &format!("{MAPS}?watch=1&{INITIAL}&timeoutSeconds=3"), &headers, "").await;
    assert!(zipped.head().await.1.contains("gzip"));
    put(&mut writer, MAPS, &large("a", 1)).await;
    let mut head = [0; 4];
    socket.stream.read_exact(&mut head).await.unwrap();
    let mut message = vec![0; usize::from(u16::from_be_bytes([head[2], head[3]]))];
    socket.stream.read_exact(&mut message).await.unwrap();
    assert!(
        message.starts_with(b"{\"type\":\"MODIFIED\",\"delta\":"),
        "{}",
        String::from_utf8_lossy(&message)
    );
    let mut plain = flate2::write::GzDecoder::new(Vec::new());
    while let Some(chunk) = zipped.chunk().await {
        std::io::Write::write_all(&mut plain, &chunk).unwrap();
    }
    let text = String::from_utf8(plain.finish().unwrap()).unwrap();
    assert_eq!(text.matches("\"delta\":").count(), 1, "{text}");
}
