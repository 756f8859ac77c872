//! Conversion webhooks of custom resources over real TLS: each verb of a version that is not stored.

#![cfg(test)]

mod common;
#[path = "common/https.rs"]
mod https;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use common::{Client, start_on};
use https::Https;
use listwatch_server::{Handle, Options};
use serde_json::{Value, json};

const V1: &str = "/apis/example.com/v1/namespaces/default/widgets";
const V2: &str = "/apis/example.com/v2/namespaces/default/widgets";

/// A webhook that renames `spec.size` of v1 to `spec.width` of v2 and back.
struct Webhook {
    server: Https,
    reviews: Arc<AtomicUsize>,
    objects: Arc<AtomicUsize>,
    broken: Arc<AtomicBool>,
    slow: Arc<AtomicBool>,
}

impl Webhook {
    async fn start() -> Self {
        let (reviews, objects) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (broken, slow) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let state = (Arc::clone(&reviews), Arc::clone(&objects), Arc::clone(&broken), Arc::clone(&slow));
        let server = Https::start(&["127.0.0.1", "convert.default.svc"], None, move |request| {
            let (reviews, objects, broken, slow) = state.clone();
            async move {
                let review: Value = serde_json::from_slice(&https::body(request).await).unwrap();
                reviews.fetch_add(1, Ordering::SeqCst);
                objects.fetch_add(review["request"]["objects"].as_array().unwrap().len(), Ordering::SeqCst);
                while slow.load(Ordering::SeqCst) {
                    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                }
                https::json(200, &answer(&review, broken.load(Ordering::SeqCst)))
            }
        })
        .await;
        Self { server, reviews, objects, broken, slow }
    }

    /// Serves a definition that is converted by this webhook.
    async fn define(&self, client: &mut Client, client_config: Value) {
        let version = |name: &str, storage: bool, field: &str| {
            json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {field: {"type": "integer"}}}}}}})
        };
        let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1", true, "size"), version("v2", false, "width")],
            "conversion": {"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v9", "v1"], "clientConfig": client_config}},
        }});
        let made = client
            .call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Some(&definition))
            .await;
        assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
        assert_eq!(made.header("warning"), None, "nothing is left undone");
    }

    async fn by_url(&self, server: &Handle) -> Client {
        let mut client = Client::new(server).await;
        let url = format!("https://127.0.0.1:{}/convert", self.server.port);
        self.define(&mut client, json!({"url": url, "caBundle": self.server.ca})).await;
        served(&mut client).await;
        client
    }
}

/// Waits until both versions are served.
async fn served(client: &mut Client) {
    let waiting = async {
        for path in [V1, V2] {
            while client.call("GET", path, None).await.status == 404 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        }
    };
    tokio::time::timeout(common::PATIENCE, waiting).await.expect("the definition is served");
}

fn answer(review: &Value, broken: bool) -> Value {
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let convert = |object: &Value| {
        let mut object = object.clone();
        let (from, to) = if wanted.ends_with("v2") { ("size", "width") } else { ("width", "size") };
        let value = object["spec"].as_object_mut().unwrap().remove(from).unwrap();
        object["spec"][to] = value;
        object["spec"]["unknown"] = true.into();
        object["apiVersion"] = wanted.into();
        object["metadata"]["annotations"] = json!({"converted-to": wanted});
        object["metadata"]["finalizers"] = json!(["a.webhook/cannot-add-this"]);
        object
    };
    let objects: Vec<Value> = request["objects"].as_array().unwrap().iter().map(convert).collect();
    let response = match broken {
        true => json!({"uid": request["uid"], "result": {"status": "Failure", "message": "not today"}}),
        false => json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}),
    };
    json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response})
}

fn widget(version: &str, name: &str, spec: Value) -> Value {
    json!({"kind": "Widget", "apiVersion": format!("example.com/{version}"), "metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn every_verb_of_a_version_that_is_not_stored_is_converted() {
    let (server, webhook) = (start_on(Options::default()).await, Webhook::start().await);
    let mut client = webhook.by_url(&server).await;
    let made = client.call("POST", V2, Some(&widget("v2", "a", json!({"width": 5})))).await;
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    assert_eq!(made.json()["spec"], json!({"width": 5}));
    // Stored and shown in v1, with what the webhook may change and without what it may not.
    let stored = client.get(&format!("{V1}/a")).await;
    assert_eq!((&stored["apiVersion"], &stored["spec"]), (&json!("example.com/v1"), &json!({"size": 5})));
    assert_eq!(stored["metadata"]["annotations"], json!({"converted-to": "example.com/v1"}));
    assert_eq!(stored["metadata"].get("finalizers"), None);
    let shown = client.get(&format!("{V2}/a")).await;
    assert_eq!((&shown["apiVersion"], &shown["spec"]), (&json!("example.com/v2"), &json!({"width": 5})));
    assert_eq!(shown["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"]);

    let patch = json!({"spec": {"width": 6}}).to_string();
    client.send("PATCH", &format!("{V2}/a"), "content-type: application/merge-patch+json\r\n", &patch).await;
    let patched = client.answer().await;
    assert_eq!((patched.status, &patched.json()["spec"]), (200, &json!({"width": 6})));
    let mut replaced = client.get(&format!("{V2}/a")).await;
    replaced["spec"]["width"] = 7.into();
    assert_eq!(client.call("PUT", &format!("{V2}/a"), Some(&replaced)).await.json()["spec"]["width"], 7);
    assert_eq!(client.get(&format!("{V1}/a")).await["spec"], json!({"size": 7}));
    assert_eq!(client.call("DELETE", &format!("{V2}/a"), None).await.status, 200);
    assert_eq!(client.call("GET", &format!("{V1}/a"), None).await.status, 404);
    assert_eq!(webhook.server.connections.load(Ordering::SeqCst), 1, "one connection serves all calls");
}

#[tokio::test]
async fn a_list_is_converted_in_batches_and_watchers_share_a_conversion() {
    let (server, webhook) = (start_on(Options::default()).await, Webhook::start().await);
    let mut client = webhook.by_url(&server).await;
    for n in 0..250 {
        let made = client.call("POST", V1, Some(&widget("v1", &format!("w{n}"), json!({"size": n})))).await;
        assert_eq!(made.status, 201);
    }
    assert_eq!(webhook.reviews.load(Ordering::SeqCst), 0, "nothing is converted for the stored version");
    let list = client.get(V2).await;
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 250);
    assert!(
        items.iter().all(|item| item["spec"]["width"].is_u64() && item["apiVersion"] == "example.com/v2")
    );
    assert_eq!(webhook.objects.load(Ordering::SeqCst), 250);
    let reviews = webhook.reviews.load(Ordering::SeqCst);
    assert!(reviews <= 10, "{reviews} calls");

    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watchers = [Client::new(&server).await, Client::new(&server).await];
    for watcher in &mut watchers {
        watcher.send("GET", &format!("{V2}?watch=1&resourceVersion={version}"), "", "").await;
        assert_eq!(watcher.head().await.0, 200);
    }
    client.call("POST", V1, Some(&widget("v1", "new", json!({"size": 1})))).await;
    assert_eq!(client.call("DELETE", &format!("{V1}/w0"), None).await.status, 200);
    for watcher in &mut watchers {
        for (kind, name, width) in [("ADDED", "new", 1), ("DELETED", "w0", 0)] {
            let event: Value = serde_json::from_slice(&watcher.chunk().await.unwrap()).unwrap();
            assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!(kind), &json!(name)));
            assert_eq!(event["object"]["spec"], json!({"width": width}));
            assert_eq!(event["object"]["apiVersion"], "example.com/v2");
        }
    }
    // The deleted one was converted for the list already.
    assert!(webhook.objects.load(Ordering::SeqCst) <= 252, "an event is not converted for each watcher");
}

#[tokio::test]
async fn the_initial_state_of_a_watch_is_converted() {
    let (server, webhook) = (start_on(Options::default()).await, Webhook::start().await);
    let mut client = webhook.by_url(&server).await;
    for name in ["a", "b"] {
        client.call("POST", V1, Some(&widget("v1", name, json!({"size": 1})))).await;
    }
    let query = "watch=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";
    client.send("GET", &format!("{V2}?{query}"), "", "").await;
    assert_eq!(client.head().await.0, 200);
    let mut text = Vec::new();
    while !String::from_utf8_lossy(&text).contains("initial-events-end") {
        text.extend(client.chunk().await.unwrap());
    }
    let text = String::from_utf8(text).unwrap();
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ADDED", "ADDED", "BOOKMARK"]);
    assert_eq!(events[0]["object"]["spec"], json!({"width": 1}));
}

/// Bytes that a client sent while an event was converted for it made the connection ask again, and the event was lost.
#[tokio::test]
async fn an_event_survives_what_the_client_sends_while_it_is_converted() {
    let (server, webhook) = (start_on(Options::default()).await, Webhook::start().await);
    let mut client = webhook.by_url(&server).await;
    let version = client.get(V1).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watcher = Client::new(&server).await;
    watcher.send("GET", &format!("{V2}?watch=1&resourceVersion={version}"), "", "").await;
    assert_eq!(watcher.head().await.0, 200);
    webhook.slow.store(true, Ordering::SeqCst);
    client.call("POST", V1, Some(&widget("v1", "a", json!({"size": 1})))).await;
    common::eventually("the conversion is under way", || webhook.reviews.load(Ordering::SeqCst) == 1).await;
    watcher.raw(b"\r\n").await;
    common::eventually("it is asked for again", || webhook.reviews.load(Ordering::SeqCst) == 2).await;
    webhook.slow.store(false, Ordering::SeqCst);
    let chunk =
        tokio::time::timeout(common::PATIENCE, watcher.chunk()).await.expect("the event comes").unwrap();
    let event: Value = serde_json::from_slice(&chunk).unwrap();
    assert_eq!((&event["type"], &event["object"]["spec"]), (&json!("ADDED"), &json!({"width": 1})));
}

#[tokio::test]
async fn a_webhook_that_fails_is_named_and_the_stored_version_stays_usable() {
    let (server, webhook) = (start_on(Options::default()).await, Webhook::start().await);
    let mut client = webhook.by_url(&server).await;
    client.call("POST", V1, Some(&widget("v1", "a", json!({"size": 1})))).await;
    webhook.broken.store(true, Ordering::SeqCst);
    let why = "conversion webhook for example.com/v1, Kind=Widget failed: not today";
    for (path, reason) in [(V2.to_owned(), "StorageReadError"), (format!("{V2}/a"), "InternalError")] {
        let refused = client.call("GET", &path, None).await;
        let text = refused.json();
        assert_eq!((refused.status, &text["reason"]), (500, &json!(reason)));
        // For kube-apiserver, an object that cannot be converted is corrupt.
        assert!(text["message"].as_str().unwrap().ends_with(why), "{text}");
    }
    let dry =
        client.call("POST", &format!("{V2}?dryRun=All"), Some(&widget("v2", "b", json!({"width": 1})))).await;
    assert_eq!(dry.status, 500);
    let refused = client.call("POST", V2, Some(&widget("v2", "b", json!({"width": 1})))).await;
    assert_eq!(
        (refused.status, refused.json()["message"].as_str().unwrap()),
        (500, "conversion webhook for example.com/v2, Kind=Widget failed: not today")
    );
    let version = client.get(V1).await["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let mut watcher = Client::new(&server).await;
    watcher.send("GET", &format!("{V2}?watch=1&resourceVersion={version}"), "", "").await;
    assert_eq!(watcher.head().await.0, 200);
    client.call("POST", V1, Some(&widget("v1", "c", json!({"size": 1})))).await;
    let event: Value = serde_json::from_slice(&watcher.chunk().await.unwrap()).unwrap();
    assert_eq!((&event["type"], &event["object"]["message"]), (&json!("ERROR"), &json!(why)));
    // The definition and its objects go without the webhook.
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
    assert_eq!(client.call("DELETE", path, None).await.status, 200);
    common::until(&server, path, |definition| definition.is_none()).await;
}

#[tokio::test]
async fn a_service_is_called_at_its_address_under_its_own_name() {
    let (server, webhook) = (start_on(Options::default()).await, Webhook::start().await);
    let mut client = Client::new(&server).await;
    let port = webhook.server.port;
    common::until(&server, "/api/v1/namespaces/default", |namespace| namespace.is_some()).await;
    let object = json!({"metadata": {"name": "convert"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
    let made = client.call("POST", "/api/v1/namespaces/default/services", Some(&object)).await;
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    let service = json!({"namespace": "default", "name": "convert", "path": "/convert", "port": port});
    webhook.define(&mut client, json!({"service": service, "caBundle": webhook.server.ca})).await;
    served(&mut client).await;
    let made = client.call("POST", V2, Some(&widget("v2", "a", json!({"width": 5})))).await;
    assert_eq!(made.status, 201, "{}", String::from_utf8_lossy(&made.body));
    assert_eq!(client.get(&format!("{V1}/a")).await["spec"], json!({"size": 5}));
}
