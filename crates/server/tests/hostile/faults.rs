//! Bugs in what the server is made of: each ends as little as it must, and is told.

use std::sync::Arc;

use async_trait::async_trait;
use listwatch_server::{LifecycleOptions, Options, Security, Server};
use listwatch_storage::{
    Batch, Changes, Engine, Error, KeyValue, MemoryEngine, Page, Range, Transacted, Write, Written,
};
use listwatch_wire::Revision;

use crate::common::Client;

/// A store with two bugs: it panics when asked for a certain key, and when a certain object is in the log.
#[derive(Debug, Default)]
struct Faulty(MemoryEngine);

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
        self.0.current().await
    }

    async fn get(&self, key: &str, at: Option<Revision>) -> Result<Option<KeyValue>, Error> {
        assert!(!key.ends_with("get-bug"), "a bug in the store");
        self.0.get(key, at).await
    }

    async fn range(&self, range: Range) -> Result<Page, Error> {
        self.0.range(range).await
    }

    async fn write(&self, write: Write) -> Result<Written, Error> {
        self.0.write(write).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted, Error> {
        self.0.transact(writes).await
    }

    async fn changes(&self, after: Revision) -> Result<Box<dyn Changes>, Error> {
        Ok(Box::new(FaultyChanges(self.0.changes(after).await?)))
    }

    async fn compact(&self, upto: Revision) -> Result<(), Error> {
        self.0.compact(upto).await
    }

    async fn compacted(&self) -> Result<Revision, Error> {
        self.0.compacted().await
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
    // A panic in a library left the client without an answer.
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
async fn the_end_of_a_background_task_fails_health_and_is_told() {
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
