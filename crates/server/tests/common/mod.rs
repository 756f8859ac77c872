//! A server in the test and a client small enough to see every byte: it can stop reading, send garbage, or close half a
//! connection, which no real client library lets one do.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use std::sync::Arc;
use std::time::Duration;

use listwatch_server::{Handle, LifecycleOptions, Options, Security, Server};
use listwatch_storage::{MemoryEngine, MemoryOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// Long enough for a loaded machine, short enough to notice.
pub const PATIENCE: Duration = Duration::from_secs(20);

pub async fn start() -> Handle {
    start_with(Options::default(), MemoryOptions::default()).await
}

pub async fn start_with(options: Options, memory: MemoryOptions) -> Handle {
    // These tests count writes and history; nothing else may write.
    start_as_is(Options { lifecycle: LifecycleOptions::off(), ..options }, memory).await
}

/// The same with other writers.
pub async fn start_as_is(options: Options, memory: MemoryOptions) -> Handle {
    let options = Options { security: Security::InsecureHttp, ..options };
    let server = Server::start(options, Arc::new(MemoryEngine::new(memory))).await.unwrap();
    let namespace = json!({"metadata": {"name": "default"}});
    let made = Client::new(&server).await.call("POST", "/api/v1/namespaces", Some(&namespace)).await;
    assert!(matches!(made.status, 201 | 409));
    server
}

/// A server as users have it, on memory.
pub async fn start_on(options: Options) -> Handle {
    let options = Options { security: Security::InsecureHttp, ..options };
    Server::start(options, Arc::new(MemoryEngine::default())).await.unwrap()
}

/// A server and a client of it.
pub async fn client() -> (Handle, Client) {
    let server = start().await;
    let client = Client::new(&server).await;
    (server, client)
}

pub fn config_map(name: &str, data: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": data}})
}

/// One connection.
pub struct Client {
    pub stream: BufReader<TcpStream>,
    token: String,
}

pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|l| l.split_once(": "))
        .find(|(n, _)| n.eq_ignore_ascii_case(name))
        .map(|(_, v)| v)
}

impl Client {
    pub async fn new(server: &Handle) -> Self {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        Self { stream: BufReader::new(stream), token: server.admin_token().to_owned() }
    }

    /// The same connection with the token of another user.
    pub fn with_token(self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self }
    }

    pub async fn raw(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).await.unwrap();
    }

    pub async fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) {
        let token = &self.token;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        self.raw(request.as_bytes()).await;
    }

    pub async fn head(&mut self) -> (u16, String) {
        let mut head = String::new();
        loop {
            let before = head.len();
            let read =
                tokio::time::timeout(PATIENCE, self.stream.read_line(&mut head)).await.unwrap().unwrap();
            if read == 0 || &head[before..] == "\r\n" {
                break;
            }
        }
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        (status, head)
    }

    pub async fn answer(&mut self) -> Answer {
        let (status, head) = self.head().await;
        let mut body = Vec::new();
        if header(&head, "transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await {
                body.extend(chunk);
            }
        } else {
            let length = header(&head, "content-length").map_or(0, |l| l.parse().unwrap());
            body.resize(length, 0);
            self.stream.read_exact(&mut body).await.unwrap();
        }
        Answer { status, head, body }
    }

    /// The next line, with its end.
    pub async fn read_line(&mut self) -> String {
        let mut line = String::new();
        tokio::time::timeout(PATIENCE, self.stream.read_line(&mut line)).await.unwrap().unwrap();
        line
    }

    /// The next chunk; `None` for the last one. Panics if the stream breaks off.
    pub async fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        let size = usize::from_str_radix(line.trim(), 16).expect("a chunk size");
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).await.unwrap();
        assert_eq!(&chunk[size..], b"\r\n");
        chunk.truncate(size);
        (size > 0).then_some(chunk)
    }

    pub async fn call(&mut self, method: &str, path: &str, body: Option<&Value>) -> Answer {
        let body = body.map(Value::to_string).unwrap_or_default();
        self.send(method, path, "content-type: application/json\r\n", &body).await;
        self.answer().await
    }

    pub async fn get(&mut self, path: &str) -> Value {
        self.call("GET", path, None).await.json()
    }

    /// Creates a ConfigMap in `default` and returns its version.
    pub async fn create(&mut self, name: &str, data: &str) -> u64 {
        let path = "/api/v1/namespaces/default/configmaps";
        let answer = self.call("POST", path, Some(&config_map(name, data))).await;
        assert_eq!(answer.status, 201, "{}", String::from_utf8_lossy(&answer.body));
        version(&answer.json())
    }

    pub async fn update(&mut self, name: &str, data: &str) -> u64 {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        let answer = self.call("PUT", &path, Some(&config_map(name, data))).await;
        assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
        version(&answer.json())
    }
}

pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

pub fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// A watch as it comes in.
pub struct Watch {
    pub client: Client,
    waiting: Vec<u8>,
}

impl Watch {
    /// For the ConfigMaps in `default`.
    pub async fn open(server: &Handle, query: &str) -> Self {
        Self::of(server, "/api/v1/namespaces/default/configmaps", query).await
    }

    /// For any collection.
    pub async fn of(server: &Handle, path: &str, query: &str) -> Self {
        let mut client = Client::new(server).await;
        client.send("GET", &format!("{path}?watch=1&{query}"), "", "").await;
        Self::begin(client).await
    }

    /// The response to a request that was sent.
    pub async fn begin(mut client: Client) -> Self {
        let (status, head) = client.head().await;
        assert_eq!(status, 200, "{head}");
        Self { client, waiting: Vec::new() }
    }

    /// The next event; `None` at the proper end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.waiting.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.waiting.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let chunk =
                tokio::time::timeout(PATIENCE, self.client.chunk()).await.expect("an event in time")?;
            self.waiting.extend(chunk);
        }
    }
}

/// Watches one object until what is known of it (nothing, once it is gone) is as expected; the path is the object's.
pub async fn until(server: &Handle, path: &str, expected: impl Fn(Option<&Value>) -> bool) {
    let (collection, name) = path.rsplit_once('/').unwrap();
    let query = format!(
        "fieldSelector=metadata.name%3D{name}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    );
    let mut watch = Watch::of(server, collection, &query).await;
    let (mut known, mut now) = (false, None);
    while !(known && expected(now.as_ref())) {
        let mut event = watch.next().await.unwrap_or_else(|| panic!("{path}: the watch ended"));
        match event["type"].as_str() {
            Some("ADDED" | "MODIFIED") => now = Some(event["object"].take()),
            Some("DELETED") => now = None,
            // The first one ends what was there at the beginning.
            Some("BOOKMARK") => known = true,
            other => panic!("{path}: {other:?} {event}"),
        }
    }
}

/// Waits until something holds.
/// The same for a condition that has to be asked for.
pub async fn eventually_async(what: &str, holds: impl AsyncFn() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

pub async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}
