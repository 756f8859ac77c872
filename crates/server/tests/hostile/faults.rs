//! Panics and failures inside the server: each ends as little as possible, and is reported.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use listwatch_server::{LifecycleOptions, Options, Security, Server};
use listwatch_storage::{
    Batch, Changes, EmbeddedEngine, EmbeddedOptions, Engine, Error, KeyValue, MemoryEngine, Page, Range,
    Transacted, Write, Written,
};
use listwatch_wire::Revision;

use crate::common::Client;

/// A store with two bugs: it panics when asked for a certain key, and when a certain object is in the log.
#[derive(Debug, Default)]
struct Faulty {
    store: MemoryEngine,
    /// Objects that were read one by one.
    reads: AtomicUsize,
}

#[derive(Debug)]
struct FaultyChanges(Box<dyn Changes>);

#[async_trait]
impl Changes for FaultyChanges {
    async fn next(&mut self) -> Result<Batch, Error> {
        let batch = self.0.next().await?;
        assert!(!format!("{batch:?}").contains("log-bug"), "a bug in the log");
        Ok(batch)
    }
}

#[async_trait]
impl Engine for Faulty {
    async fn current(&self) -> Result<Revision, Error> {
        self.store.current().await
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<Option<KeyValue>, Error> {
        assert!(!key.ends_with("get-bug"), "a bug in the store");
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.store.get(key, at).await
    }

    async fn range(&self, range: Range) -> Result<Page, Error> {
        self.store.range(range).await
    }

    async fn write(&self, write: Write) -> Result<Written, Error> {
        self.store.write(write).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted, Error> {
        self.store.transact(writes).await
    }

    async fn changes(&self, after: Revision) -> Result<Box<dyn Changes>, Error> {
        Ok(Box::new(FaultyChanges(self.store.changes(after).await?)))
    }

    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.store.compact(upto).await
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        self.store.compacted().await
    }
}

async fn start() -> listwatch_server::Handle {
    let options = Options {
        security: Security::InsecureHttp,
        lifecycle: LifecycleOptions::off(),
        ..Options::default()
    };
    Server::start(options, Arc::new(Faulty::default())).await.unwrap()
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_panic_in_a_handler_is_answered_with_an_audit_id_and_counted() {
    // A panic in a library left the client without a response.
    let server = start().await;
    let mut client = Client::new(&server).await;
    for heavy in ["", &" ".repeat(40_000)] {
        client
            .send(
                "DELETE",
                &format!("{MAPS}/get-bug"),
                "content-type: application/json\r\n",
                &format!("{{}}{heavy}"),
            )
            .await;
        let answer = client.answer().await;
        assert_eq!(answer.status, 500);
        assert!(answer.header("audit-id").is_some_and(|id| id.len() == 36));
        let message = "This request caused apiserver to panic. Look in the logs for details.";
        assert_eq!(
            (answer.json()["kind"].as_str(), answer.json()["message"].as_str()),
            (Some("Status"), Some(message))
        );
    }
    let metrics = String::from_utf8(client.call("GET", "/metrics", None).await.body).unwrap();
    assert!(metrics.contains("listwatch_request_panics_total 2\n"));
    assert_eq!(client.call("GET", "/livez", None).await.status, 200);
}

#[tokio::test]
async fn the_end_of_a_background_task_fails_health_and_is_logged() {
    // The cache would have shown the same state for ever, with all health checks green.
    let server = start().await;
    let mut client = Client::new(&server).await;
    assert_eq!(client.call("GET", "/livez/task/feeder", None).await.status, 200);
    let namespace = serde_json::json!({"metadata": {"name": "log-bug"}});
    assert_eq!(client.call("POST", "/api/v1/namespaces", Some(&namespace)).await.status, 201);
    assert_eq!(server.failed().await, "task/feeder");
    for path in ["/livez", "/readyz", "/healthz", "/livez/task/feeder", "/readyz/informer-sync"] {
        assert_eq!(client.call("GET", path, None).await.status, 500, "{path}");
    }
    assert_eq!(client.call("GET", "/livez/ping", None).await.status, 200);
    let metrics = String::from_utf8(client.call("GET", "/metrics", None).await.body).unwrap();
    assert!(metrics.contains("listwatch_task_up{task=\"task/feeder\"} 0\n"));
}

/// Flips one bit of a text in the file of a store that is closed.
fn flip_a_bit(directory: &Path, text: &str) {
    let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut flipped = 0;
    for file in files.filter(|file| file.is_file()) {
        let mut bytes = std::fs::read(&file).unwrap();
        if let Some(at) = bytes.windows(text.len()).position(|window| window == text.as_bytes()) {
            bytes[at] ^= 1;
            std::fs::write(&file, bytes).unwrap();
            flipped += 1;
        }
    }
    assert_eq!(flipped, 1, "the text is in one file");
}

async fn on_disk(directory: &Path) -> (listwatch_server::Handle, Arc<EmbeddedEngine>) {
    let engine = Arc::new(EmbeddedEngine::open(directory, EmbeddedOptions::default()).await.unwrap());
    let options = Options { security: Security::InsecureHttp, ..Options::default() };
    (Server::start(options, engine.clone()).await.unwrap(), engine)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_value_is_reported_by_its_key_and_the_rest_is_served() {
    // With one flipped bit the server did not start.
    let directory = tempfile::tempdir().unwrap();
    let (server, engine) = on_disk(directory.path()).await;
    let mut client = Client::new(&server).await;
    client.create("whole", "whole-value").await;
    client.create("damaged", "damaged-value").await;
    server.shutdown().await;
    engine.close().await.unwrap();
    drop(engine);
    flip_a_bit(directory.path(), "damaged-value");
    let (server, engine) = on_disk(directory.path()).await;
    let mut client = Client::new(&server).await;
    let key = "/registry/configmaps/default/damaged";
    for path in [MAPS.to_owned(), format!("{MAPS}/damaged"), "/api/v1/configmaps".to_owned()] {
        let answer = client.call("GET", &path, None).await;
        assert_eq!(answer.status, 500, "{path}");
        assert!(answer.json()["message"].as_str().unwrap().contains(key), "{path}: {}", answer.json());
    }
    for path in [format!("{MAPS}/whole"), "/api/v1/namespaces/kube-system/configmaps".to_owned()] {
        assert_eq!(client.call("GET", &path, None).await.status, 200, "{path}");
    }
    let body = crate::common::config_map("damaged", "new");
    for (method, path) in [("POST", MAPS.to_owned()), ("PUT", format!("{MAPS}/damaged"))] {
        let answer = client.call(method, &path, Some(&body)).await;
        assert_eq!(answer.status, 500, "{method}");
        assert!(answer.json()["message"].as_str().unwrap().contains(key), "{}", answer.json());
    }
    assert_eq!(client.call("GET", "/readyz", None).await.status, 500);
    assert_eq!(client.call("GET", "/readyz/stored-objects", None).await.status, 500);
    assert_eq!(client.call("GET", "/livez", None).await.status, 200);
    let metrics = String::from_utf8(client.call("GET", "/metrics", None).await.body).unwrap();
    assert!(metrics.contains("listwatch_storage_damaged_objects 1\n"));
    client.create("another", "x").await;
    let deleted = client.call("DELETE", &format!("{MAPS}/damaged"), None).await;
    assert_eq!(deleted.status, 200, "{}", String::from_utf8_lossy(&deleted.body));
    assert_eq!(client.call("GET", &format!("{MAPS}/damaged"), None).await.status, 404);
    assert_eq!(client.call("GET", MAPS, None).await.status, 200);
    assert_eq!(client.call("GET", "/readyz/stored-objects", None).await.status, 200);
    client.create("damaged", "as good as new").await;
    server.shutdown().await;
    engine.close().await.unwrap();
}

/// Each owner was read from the store: an object of a megabyte cost thousands of reads, and the deletion of namespaces
/// and all else that controllers do waited for a hundred of those objects.
#[tokio::test]
async fn missing_owners_cost_no_reads_of_the_store() {
    let engine = Arc::new(Faulty::default());
    let lifecycle = LifecycleOptions { settle: std::time::Duration::ZERO, ..LifecycleOptions::default() };
    let options = Options { security: Security::InsecureHttp, lifecycle, ..Options::default() };
    let server = Server::start(options, Arc::clone(&engine) as Arc<dyn Engine>).await.unwrap();
    let mut client = Client::new(&server).await;
    let owner = |n: usize| serde_json::json!({"apiVersion": "v1", "kind": "Secret", "name": format!("s{n}"), "uid": format!("u{n}")});
    let owners: Vec<_> = (0..2000).map(owner).collect();
    let map = serde_json::json!({"metadata": {"name": "a", "ownerReferences": owners}});
    assert_eq!(client.call("POST", MAPS, Some(&map)).await.status, 201);
    crate::common::eventually_async("it is collected", async || {
        Client::new(&server).await.call("GET", &format!("{MAPS}/a"), None).await.status == 404
    })
    .await;
    let reads = engine.reads.load(Ordering::Relaxed);
    assert!(reads < 500, "{reads} reads");
}
