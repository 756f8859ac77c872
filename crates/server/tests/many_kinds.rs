//! Many watches in one stream: order, subscribing and unsubscribing, authorization, and the effect of bad input on other
//! subscriptions.

#![cfg(test)]

mod common;

use std::time::Duration;

use common::{Client, PATIENCE, Watch, start, start_on, start_with, version};
use listwatch_server::{Handle, Options, StreamLimits, WatchLimits};
use listwatch_storage::MemoryOptions;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

const PATH: &str = "/listwatch/v1/watch";
const JSON: &str = "content-type: application/json\r\n";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const UPGRADE: &str = "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
    sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

fn of(id: &str, resource: &str) -> Value {
    json!({"id": id, "version": "v1", "resource": resource, "namespaces": ["default"]})
}

fn subscribe(subscriptions: &[Value]) -> Value {
    json!({"subscribe": subscriptions})
}

/// A stream as a client sees it.
struct Stream {
    frames: Watch,
    id: String,
}

impl Stream {
    async fn open(client: Client, message: &Value) -> Self {
        Self::open_with(client, "", "", message).await
    }

    async fn open_with(mut client: Client, query: &str, headers: &str, message: &Value) -> Self {
        client
            .send("POST", &format!("{PATH}{query}"), &format!("{JSON}{headers}"), &message.to_string())
            .await;
        let mut frames = Watch::begin(client).await;
        let head = frames.next().await.unwrap();
        let id = head["stream"]["id"].as_str().unwrap_or_else(|| panic!("{head}")).to_owned();
        Self { frames, id }
    }

    async fn next(&mut self) -> Value {
        self.frames.next().await.expect("the stream goes on")
    }

    /// The next frame that is not a bookmark.
    async fn event(&mut self) -> Value {
        loop {
            let frame = self.next().await;
            if frame.get("bookmark").is_none() {
                return frame;
            }
        }
    }

    /// Posts a message about the stream; the code of the response.
    async fn change(&self, client: &mut Client, message: &Value) -> u16 {
        client.call("POST", &format!("{PATH}/{}/subscriptions", self.id), Some(message)).await.status
    }

    /// Reads up to the end of the initial events of a subscription; the names that came, in order.
    async fn synced(&mut self, id: &str) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let frame = self.event().await;
            assert!(frame.get("error").is_none(), "{frame}");
            if frame["subscription"] != json!(id) || frame.get("started").is_some() {
                continue;
            }
            let object = &frame["event"]["object"];
            if frame["event"]["type"] == json!("BOOKMARK") {
                assert_eq!(object["metadata"]["annotations"]["k8s.io/initial-events-end"], json!("true"));
                return names;
            }
            names.push(object["metadata"]["name"].as_str().unwrap().to_owned());
        }
    }
}

async fn write_secret(client: &mut Client, name: &str, value: &str) -> u64 {
    let secret = json!({"metadata": {"name": name}, "stringData": {"k": value}});
    let answer = client.call("PUT", &format!("{SECRETS}/{name}"), Some(&secret)).await;
    if answer.status == 404 {
        return version(&client.call("POST", SECRETS, Some(&secret)).await.json());
    }
    version(&answer.json())
}

fn revision(frame: &Value) -> u64 {
    version(&frame["event"]["object"])
}

#[tokio::test]
async fn events_of_all_kinds_come_in_the_order_of_their_revisions() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    writer.create("old", "0").await;
    let message = subscribe(&[of("maps", "configmaps"), of("secrets", "secrets")]);
    let mut stream = Stream::open(Client::new(&server).await, &message).await;
    assert_eq!(stream.synced("maps").await, ["old"]);
    assert!(stream.synced("secrets").await.is_empty());
    let mut written = Vec::new();
    for n in 0..40 {
        written.push(match n % 3 {
            0 => (write_secret(&mut writer, "s", &n.to_string()).await, "secrets"),
            _ => (writer.update("old", &n.to_string()).await, "maps"),
        });
    }
    for (at, id) in written {
        let frame = stream.event().await;
        assert_eq!((revision(&frame), frame["subscription"].as_str()), (at, Some(id)), "{frame}");
    }
}

/// The initial state of an added subscription is sent between the events of the others: those up to its revision come
/// before it, the later ones behind it.
#[tokio::test]
async fn a_subscription_that_is_added_begins_in_the_order_of_the_others() {
    let server = start().await;
    let (mut writer, mut changer) = (Client::new(&server).await, Client::new(&server).await);
    let mut stream = Stream::open(Client::new(&server).await, &subscribe(&[of("maps", "configmaps")])).await;
    stream.synced("maps").await;
    let mut last = 0;
    for n in 0..10 {
        write_secret(&mut writer, &format!("s{n}"), "v").await;
        writer.create(&format!("m{n}"), "v").await;
        if n == 5 {
            assert_eq!(stream.change(&mut changer, &subscribe(&[of("secrets", "secrets")])).await, 202);
        }
    }
    let (mut maps, mut secrets, mut state) = (0, 0, 0);
    while maps < 10 || secrets < 10 {
        let frame = stream.event().await;
        if let Some(started) = frame.get("started") {
            state = started["resourceVersion"].as_str().unwrap().parse().unwrap();
            assert!(state >= last, "what came before is not newer than the state: {last} {frame}");
            continue;
        }
        let at = revision(&frame);
        if frame["event"]["type"] == json!("BOOKMARK") {
            assert_eq!(at, state, "{frame}");
            last = at;
        } else if frame["subscription"] == json!("maps") {
            assert!(at > last, "{last} {frame}");
            (maps, last) = (maps + 1, at);
        } else {
            secrets += 1;
            if at > state {
                assert!(at > last, "{last} {frame}");
                last = at;
            }
        }
    }
}

#[tokio::test]
async fn subscriptions_end_on_request_and_their_names_can_be_reused() {
    let server = start().await;
    let (mut writer, mut changer) = (Client::new(&server).await, Client::new(&server).await);
    let message = subscribe(&[of("a", "configmaps"), of("b", "secrets")]);
    let mut stream = Stream::open(Client::new(&server).await, &message).await;
    stream.synced("b").await;
    assert_eq!(stream.change(&mut changer, &json!({"unsubscribe": ["a"]})).await, 202);
    assert_eq!(stream.event().await, json!({"subscription": "a", "ended": {}}));
    writer.create("m", "v").await;
    write_secret(&mut writer, "s", "v").await;
    assert_eq!(stream.event().await["subscription"], json!("b"), "nothing more of what has ended");
    // The same message ends a subscription and reuses its name.
    let message = json!({"unsubscribe": ["b"], "subscribe": [of("b", "configmaps")]});
    stream.change(&mut changer, &message).await;
    assert_eq!(stream.event().await, json!({"subscription": "b", "ended": {}}));
    assert_eq!(stream.synced("b").await, ["m"]);
}

#[tokio::test]
async fn several_namespaces_and_selectors_make_one_subscription() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    writer.call("POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": "other"}}))).await;
    let map = |name: &str, label: &str| json!({"metadata": {"name": name, "labels": {"l": label}}});
    for (namespace, name, label) in [("default", "a", "x"), ("other", "b", "x"), ("other", "c", "y")] {
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        assert_eq!(writer.call("POST", &path, Some(&map(name, label))).await.status, 201);
    }
    let asked = json!({"id": "a", "version": "v1", "resource": "configmaps", "namespaces": ["other", "default", "other"],
        "labelSelector": "l=x", "fieldSelector": "metadata.name!=z"});
    let mut stream = Stream::open(Client::new(&server).await, &subscribe(&[asked])).await;
    assert_eq!(stream.synced("a").await, ["a", "b"], "one end for all of it");
    writer.call("PUT", "/api/v1/namespaces/other/configmaps/b", Some(&map("b", "y"))).await;
    assert_eq!(stream.event().await["event"]["type"], json!("DELETED"), "it does not match any more");
}

#[tokio::test]
async fn one_bookmark_covers_all_subscriptions_and_can_be_requested() {
    let server = start().await;
    let (mut writer, mut changer) = (Client::new(&server).await, Client::new(&server).await);
    let message = subscribe(&[of("a", "configmaps"), of("b", "secrets")]);
    let mut stream = Stream::open(Client::new(&server).await, &message).await;
    stream.synced("b").await;
    let of_third_kind = json!({"metadata": {"name": "n"}});
    let at = version(&writer.call("POST", "/api/v1/namespaces", Some(&of_third_kind)).await.json());
    assert_eq!(stream.change(&mut changer, &json!({"bookmark": at.to_string()})).await, 202);
    let bookmark = stream.next().await;
    let told: u64 = bookmark["bookmark"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    assert!(told >= at, "{bookmark}");
    // One for the future comes when that is there, behind what leads to it.
    stream.change(&mut changer, &json!({"bookmark": (told + 2).to_string()})).await;
    let (first, second) = (writer.create("m", "v").await, write_secret(&mut writer, "s", "v").await);
    assert_eq!([revision(&stream.next().await), revision(&stream.next().await)], [first, second]);
    assert_eq!(stream.next().await, json!({"bookmark": {"resourceVersion": second.to_string()}}));
}

#[tokio::test]
async fn a_subscription_resumes_from_its_revision_and_gets_a_caught_up_frame() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    let first = writer.create("a", "0").await;
    let second = writer.update("a", "1").await;
    let third = write_secret(&mut writer, "s", "v").await;
    let mut resumed = of("a", "configmaps");
    resumed["resourceVersion"] = json!(first.to_string());
    let mut stream = Stream::open(Client::new(&server).await, &subscribe(&[resumed])).await;
    assert_eq!(stream.next().await["started"]["resourceVersion"], json!(first.to_string()));
    assert_eq!(revision(&stream.next().await), second);
    assert_eq!(stream.next().await, json!({"bookmark": {"resourceVersion": third.to_string()}}));
}

#[tokio::test]
async fn history_that_has_ended_ends_one_subscription_with_410() {
    let memory = MemoryOptions { history_changes: 5, ..MemoryOptions::default() };
    let cache = listwatch_server::CacheLimits { log_bytes: 1, ..listwatch_server::CacheLimits::default() };
    let server = start_with(Options { cache, ..Options::default() }, memory).await;
    let mut writer = Client::new(&server).await;
    writer.create("a", "0").await;
    for n in 0..50 {
        writer.update("a", &n.to_string()).await;
    }
    let mut resumed = of("a", "configmaps");
    resumed["resourceVersion"] = json!("1");
    let message = subscribe(&[resumed, of("b", "configmaps")]);
    let mut stream = Stream::open(Client::new(&server).await, &message).await;
    let mut expired = false;
    loop {
        let frame = stream.event().await;
        match (frame["subscription"].as_str(), frame.get("error")) {
            (Some("a"), Some(status)) => {
                assert_eq!((&status["code"], &status["reason"]), (&json!(410), &json!("Expired")), "{frame}");
                expired = true;
            }
            (Some("b"), None) if frame["event"]["type"] == json!("BOOKMARK") => break,
            (_, None) => {}
            _ => panic!("{frame}"),
        }
    }
    assert!(expired);
}

#[tokio::test]
async fn changes_come_as_patches_to_a_subscription_that_takes_them() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    let large =
        |n: u64| json!({"metadata": {"name": "a"}, "data": {"k": n.to_string(), "large": "x".repeat(3000)}});
    let maps = "/api/v1/namespaces/default/configmaps";
    writer.call("POST", maps, Some(&large(0))).await;
    let mut deltas = of("deltas", "configmaps");
    deltas["accept"] = json!(listwatch_wire::delta::ACCEPT);
    let mut metadata = of("metadata", "configmaps");
    metadata["accept"] = json!("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");
    let message = subscribe(&[of("whole", "configmaps"), deltas, metadata]);
    let mut stream = Stream::open(Client::new(&server).await, &message).await;
    let mut types = Vec::new();
    while types.len() < 3 {
        let frame = stream.event().await;
        types.extend(frame["started"]["contentType"].as_str().map(str::to_owned));
    }
    assert_eq!(types, ["application/json", listwatch_wire::delta::MEDIA_TYPE, "application/json"]);
    stream.synced("metadata").await;
    writer.call("PUT", &format!("{maps}/a"), Some(&large(1))).await;
    let frames = [stream.event().await, stream.event().await, stream.event().await];
    assert_eq!(frames[0]["event"]["object"]["data"]["k"], json!("1"));
    // The time of the field manager may be another one, too.
    let operations =
        frames[1]["event"]["delta"]["patch"].as_array().unwrap_or_else(|| panic!("{}", frames[1]));
    assert!(operations.iter().any(|operation| operation["path"] == json!("/data/k")), "{}", frames[1]);
    assert_eq!(frames[2]["event"]["object"]["kind"], json!("PartialObjectMetadata"));
}

#[tokio::test]
async fn a_refused_subscription_leaves_the_others_alone() {
    let server = start().await;
    let (mut writer, mut changer) = (Client::new(&server).await, Client::new(&server).await);
    let mut stream = Stream::open(Client::new(&server).await, &subscribe(&[of("good", "configmaps")])).await;
    stream.synced("good").await;
    let with = |field: &str, value: Value| {
        let mut asked = of("bad", "configmaps");
        asked[field] = value;
        asked
    };
    for (asked, code) in [
        (with("resource", json!("nothings")), 404),
        (with("group", json!("no.such.group")), 404),
        (with("version", json!("v7")), 404),
        (with("resource", json!("componentstatuses")), 405),
        (with("resource", json!("nodes")), 400),
        (with("namespaces", json!([""])), 400),
        (with("labelSelector", json!("a in")), 400),
        (with("fieldSelector", json!("spec.nothing=1")), 400),
        (with("resourceVersion", json!("x")), 400),
        (with("accept", json!("application/vnd.kubernetes.protobuf")), 406),
        (with("accept", json!("text/html")), 406),
    ] {
        assert_eq!(stream.change(&mut changer, &subscribe(std::slice::from_ref(&asked))).await, 202);
        let refused = stream.event().await;
        assert_eq!(
            (&refused["subscription"], &refused["error"]["code"]),
            (&json!("bad"), &json!(code)),
            "{asked} {refused}"
        );
    }
    // Without a name of its own, an error is about no subscription.
    for (message, code) in [
        (subscribe(&[of("good", "secrets")]), 409),
        (subscribe(&[of("no good\n", "secrets")]), 400),
        (subscribe(&[of("", "secrets")]), 400),
        (json!({"unsubscribe": ["nobody"]}), 404),
        (json!({"bookmark": "soon"}), 400),
    ] {
        assert_eq!(stream.change(&mut changer, &message).await, 202);
        let error = stream.event().await;
        assert_eq!(
            (error.get("subscription"), &error["error"]["code"]),
            (None, &json!(code)),
            "{message} {error}"
        );
    }
    for (body, code) in [
        (json!([]), 400),
        (json!({"subscribe": {}}), 400),
        (json!({"subscribe": [{"id": "a"}]}), 400),
        (json!({"subscribe": [{"id": "a", "version": "v1", "resource": "pods", "namespace": "x"}]}), 400),
        (json!({"unsubscribe": ["a".repeat(200 << 10)]}), 413),
    ] {
        assert_eq!(stream.change(&mut changer, &body).await, code);
    }
    writer.create("m", "v").await;
    assert_eq!(stream.event().await["event"]["object"]["metadata"]["name"], json!("m"));
}

#[tokio::test]
async fn a_stream_carries_a_bounded_number_of_watches() {
    let limits = StreamLimits { watches: 3, ..StreamLimits::default() };
    let server = start_with(Options { stream: limits, ..Options::default() }, MemoryOptions::default()).await;
    let mut changer = Client::new(&server).await;
    let two =
        json!({"id": "two", "version": "v1", "resource": "secrets", "namespaces": ["default", "other"]});
    let message = subscribe(&[of("one", "configmaps"), two.clone()]);
    let mut stream = Stream::open(Client::new(&server).await, &message).await;
    stream.synced("two").await;
    stream.change(&mut changer, &subscribe(&[of("three", "pods")])).await;
    let refused = stream.event().await;
    assert_eq!((&refused["subscription"], &refused["error"]["code"]), (&json!("three"), &json!(429)));
    let message = json!({"unsubscribe": ["two"], "subscribe": [of("three", "pods")]});
    stream.change(&mut changer, &message).await;
    assert_eq!(stream.event().await, json!({"subscription": "two", "ended": {}}));
    stream.synced("three").await;
}

/// Bob may watch ConfigMaps in default. The stream shows nothing else, and other users cannot use it.
#[tokio::test]
async fn each_subscription_needs_its_own_rights_and_a_stream_belongs_to_its_user() {
    let server = start_on(Options::default()).await;
    let mut admin = Client::new(&server).await;
    grant(&mut admin).await;
    let as_user = |name: &str| format!("impersonate-user: {name}\r\n");
    let everywhere = json!({"id": "c", "version": "v1", "resource": "configmaps"});
    let elsewhere = json!({"id": "d", "version": "v1", "resource": "configmaps", "namespaces": ["default", "kube-system"]});
    let message = subscribe(&[of("a", "secrets"), everywhere, elsewhere, of("b", "configmaps")]);
    let mut stream = Stream::open_with(Client::new(&server).await, "", &as_user("bob"), &message).await;
    for id in ["a", "c", "d"] {
        let refused = stream.event().await;
        assert_eq!(
            (&refused["subscription"], &refused["error"]["code"]),
            (&json!(id), &json!(403)),
            "{refused}"
        );
        assert!(refused["error"]["message"].as_str().unwrap().contains("cannot watch resource"), "{refused}");
    }
    stream.synced("b").await;
    let path = format!("{PATH}/{}/subscriptions", stream.id);
    for (user, path, code) in [
        ("eve", path.as_str(), 404),
        ("bob", "/listwatch/v1/watch/00000000-0000-0000-0000-000000000000/subscriptions", 404),
        ("bob", "/listwatch/v1/watch/x/subscriptions", 404),
        ("bob", path.as_str(), 202),
    ] {
        let headers = format!("{JSON}{}", as_user(user));
        admin.send("POST", path, &headers, &json!({"unsubscribe": ["b"]}).to_string()).await;
        assert_eq!(admin.answer().await.status, code, "{user} {path}");
    }
    assert_eq!(stream.event().await, json!({"subscription": "b", "ended": {}}));
    let mut stranger = Client::new(&server).await;
    stranger.raw(b"GET /listwatch/v1/watch HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(stranger.head().await.0, 403);
}

async fn grant(admin: &mut Client) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let role = json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]}]});
    let binding = json!({"metadata": {"name": "r"}, "subjects": [{"kind": "User", "name": "bob", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}});
    for (path, body) in [("roles", role), ("rolebindings", binding)] {
        assert_eq!(admin.call("POST", &format!("{rbac}/{path}"), Some(&body)).await.status, 201);
    }
}

#[tokio::test]
async fn rights_that_are_withdrawn_end_a_subscription_and_credentials_the_stream() {
    let watch = WatchLimits { recheck_every: Some(Duration::from_millis(20)), ..WatchLimits::default() };
    let server = start_on(Options { watch, ..Options::default() }).await;
    let mut admin = Client::new(&server).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    admin.call("POST", accounts, Some(&json!({"metadata": {"name": "bot"}}))).await;
    let token = admin.call("POST", &format!("{accounts}/bot/token"), Some(&json!({}))).await.json();
    let token = token["status"]["token"].as_str().unwrap().to_owned();
    let subject = json!([{"kind": "ServiceAccount", "name": "bot", "namespace": "default"}]);
    for resource in ["configmaps", "endpoints"] {
        let role = json!({"metadata": {"name": resource}, "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["watch"]}]});
        let binding = json!({"metadata": {"name": resource}, "subjects": subject,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": resource}});
        admin.call("POST", &format!("{rbac}/clusterroles"), Some(&role)).await;
        admin.call("POST", &format!("{rbac}/clusterrolebindings"), Some(&binding)).await;
    }
    let message = subscribe(&[of("kept", "configmaps"), of("lost", "endpoints")]);
    let mut stream = Stream::open(Client::new(&server).await.with_token(&token), &message).await;
    stream.synced("lost").await;
    admin.call("DELETE", &format!("{rbac}/clusterrolebindings/endpoints"), None).await;
    let refused = loop {
        let frame = stream.event().await;
        if frame.get("error").is_some() {
            break frame;
        }
    };
    assert_eq!(
        (&refused["subscription"], &refused["error"]["code"]),
        (&json!("lost"), &json!(403)),
        "{refused}"
    );
    admin.create("m", "v").await;
    while stream.event().await["event"]["object"]["metadata"]["name"] != json!("m") {}
    admin.call("DELETE", &format!("{accounts}/bot"), None).await;
    let ended = tokio::time::timeout(PATIENCE, async { while stream.frames.next().await.is_some() {} });
    ended.await.expect("the stream ends");
}

#[tokio::test]
async fn subscriptions_and_streams_end_at_their_time() {
    let server = start().await;
    let mut short = of("short", "configmaps");
    short["timeoutSeconds"] = json!(1);
    let message = subscribe(&[short, of("long", "secrets")]);
    let mut stream = Stream::open_with(Client::new(&server).await, "?timeoutSeconds=2", "", &message).await;
    stream.synced("long").await;
    Client::new(&server)
        .await
        .call("POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": "n"}})))
        .await;
    assert!(stream.next().await.get("bookmark").is_some(), "where to go on from");
    assert_eq!(stream.next().await, json!({"subscription": "short", "ended": {}}));
    assert!(stream.frames.next().await.is_none());
}

#[tokio::test]
async fn a_stream_without_subscriptions_ends_with_the_server() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.send("GET", PATH, "", "").await;
    let mut frames = Watch::begin(client).await;
    assert!(frames.next().await.unwrap()["stream"]["watches"].as_u64().unwrap() > 1);
    tokio::time::timeout(PATIENCE, server.shutdown()).await.expect("nothing holds it up");
    assert!(frames.next().await.is_none());
}

/// A message in a frame of its own, masked as clients must.
fn frame(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap().to_be_bytes();
    let head = [0x81, 0xfe, length[0], length[1], 1, 2, 3, 4];
    let masked = text.bytes().zip([1, 2, 3, 4].into_iter().cycle()).map(|(byte, mask)| byte ^ mask);
    head.into_iter().chain(masked).collect()
}

async fn message(socket: &mut Client) -> Value {
    let reading = async {
        let mut head = [0; 2];
        socket.stream.read_exact(&mut head).await.unwrap();
        let mut length = usize::from(head[1]);
        if length == 126 {
            length = usize::from(socket.stream.read_u16().await.unwrap());
        }
        let mut text = vec![0; length];
        socket.stream.read_exact(&mut text).await.unwrap();
        (head[0], text)
    };
    let (opcode, text) = tokio::time::timeout(PATIENCE, reading).await.expect("a message in time");
    assert_eq!(opcode, 0x81, "{}", String::from_utf8_lossy(&text));
    serde_json::from_slice(&text).unwrap()
}

async fn socket(server: &Handle) -> Client {
    let mut socket = Client::new(server).await;
    socket.send("GET", PATH, UPGRADE, "").await;
    assert_eq!(socket.head().await.0, 101);
    assert!(message(&mut socket).await["stream"]["id"].is_string());
    socket
}

#[tokio::test]
async fn a_web_socket_takes_messages_and_outlives_bad_ones() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    let mut socket = socket(&server).await;
    for bad in ["no json", "[]", "{\"subscribe\":1}"] {
        socket.raw(&frame(bad)).await;
        let error = message(&mut socket).await;
        assert_eq!(error["error"]["code"], json!(400), "{bad}: {error}");
    }
    socket.raw(&frame(&subscribe(&[of("a", "configmaps")]).to_string())).await;
    assert!(message(&mut socket).await.get("started").is_some());
    assert_eq!(message(&mut socket).await["event"]["type"], json!("BOOKMARK"));
    writer.create("m", "v").await;
    let event = message(&mut socket).await;
    assert_eq!((&event["subscription"], &event["event"]["type"]), (&json!("a"), &json!("ADDED")));
    socket.raw(&frame(&json!({"unsubscribe": ["a"]}).to_string())).await;
    assert_eq!(message(&mut socket).await, json!({"subscription": "a", "ended": {}}));
}

#[tokio::test]
async fn a_web_socket_message_that_is_too_long_closes_it() {
    let limits = StreamLimits { message_bytes: 100, ..StreamLimits::default() };
    let server = start_with(Options { stream: limits, ..Options::default() }, MemoryOptions::default()).await;
    let mut socket = socket(&server).await;
    socket.raw(&frame(&"x".repeat(101))).await;
    let mut close = [0; 4];
    socket.stream.read_exact(&mut close).await.unwrap();
    assert_eq!(close, [0x88, 2, 0x03, 0xf1], "1009");
}

#[tokio::test]
async fn a_stream_can_be_compressed() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("m", "v").await;
    let body = subscribe(&[of("a", "configmaps")]).to_string();
    client
        .send("POST", &format!("{PATH}?timeoutSeconds=1"), &format!("{JSON}accept-encoding: gzip\r\n"), &body)
        .await;
    assert!(client.head().await.1.contains("gzip"));
    let mut plain = flate2::write::GzDecoder::new(Vec::new());
    while let Some(chunk) = client.chunk().await {
        std::io::Write::write_all(&mut plain, &chunk).unwrap();
    }
    let text = String::from_utf8(plain.finish().unwrap()).unwrap();
    assert!(text.starts_with("{\"stream\":") && text.contains("\"name\":\"m\""), "{text}");
}

#[tokio::test]
async fn features_are_listed_and_methods_checked() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let features = client.get("/listwatch/v1").await;
    assert_eq!(features["features"][0], json!({"name": "watch", "path": PATH}), "{features}");
    for (method, path) in
        [("POST", "/listwatch/v1"), ("PUT", PATH), ("GET", "/listwatch/v1/watch/x/subscriptions")]
    {
        assert_eq!(client.call(method, path, None).await.status, 405, "{method} {path}");
    }
    client.send("POST", PATH, "content-type: text/plain\r\n", "{}").await;
    assert_eq!(client.answer().await.status, 415);
}

#[tokio::test]
async fn each_watch_of_a_stream_is_counted_as_a_watch() {
    let server = start().await;
    let message = subscribe(&[of("a", "configmaps"), of("b", "secrets")]);
    let mut stream = Stream::open(Client::new(&server).await, &message).await;
    stream.synced("b").await;
    let mut client = Client::new(&server).await;
    let open = client.get("/debug/listwatch/watches").await;
    let text = open.to_string();
    assert!(text.contains("\"configmaps\"") && text.contains("\"secrets\""), "{text}");
    drop(stream);
    common::eventually_async("the stream is counted when it ends", async || {
        let mut client = Client::new(&server).await;
        let metrics = client.call("GET", "/metrics", None).await.body;
        let metrics = String::from_utf8(metrics).unwrap();
        metrics.lines().any(|line| {
            line.starts_with("apiserver_request_total")
                && line.contains("verb=\"WATCH\"")
                && line.contains(PATH)
        })
    })
    .await;
}
