//! Watches over HTTP/2, on one connection with TLS, with a client that does not read.

#![cfg(test)]

mod common;

use std::sync::Arc;

use bytes::Bytes;
use common::{PATIENCE, config_map, eventually};
use h2::client::SendRequest;
use h2::{Reason, RecvStream};
use listwatch_server::{Handle, LifecycleOptions, Options, Server};
use listwatch_storage::MemoryEngine;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

struct Client {
    requests: SendRequest<Bytes>,
    token: String,
}

impl Client {
    async fn new(server: &Handle) -> Self {
        let stream = TcpStream::connect(server.address()).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = TlsConnector::from(Arc::new(trusting(server))).connect(name, stream).await.unwrap();
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self { requests, token: server.admin_token().to_owned() }
    }

    async fn send(&mut self, method: &str, path: &str, body: Option<String>) -> (u16, RecvStream) {
        let request = http::Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json");
        let mut requests = self.requests.clone().ready().await.unwrap();
        let (answer, mut sent) = requests.send_request(request.body(()).unwrap(), body.is_none()).unwrap();
        if let Some(body) = body {
            sent.send_data(body.into(), true).unwrap();
        }
        let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap();
        (answer.status().as_u16(), answer.into_body())
    }

    async fn create(&mut self, name: &str, data: &str) {
        let (status, _) = self.send("POST", PATH, Some(config_map(name, data).to_string())).await;
        assert_eq!(status, 201);
    }
}

fn trusting(server: &Handle) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.ca_pem().unwrap().as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let mut config = builder.unwrap().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

async fn next(body: &mut RecvStream) -> Option<Result<Bytes, h2::Error>> {
    tokio::time::timeout(PATIENCE, body.data()).await.expect("an answer in time")
}

#[tokio::test]
async fn an_unread_watch_ends_at_its_timeout_without_its_connection() {
    let options = Options { lifecycle: LifecycleOptions::off(), ..Options::default() };
    let server = Server::start(options, Arc::new(MemoryEngine::default())).await.unwrap();
    let mut client = Client::new(&server).await;
    let namespace = serde_json::json!({"metadata": {"name": "default"}}).to_string();
    assert_eq!(client.send("POST", "/api/v1/namespaces", Some(namespace)).await.0, 201);
    for i in 0..3 {
        client.create(&format!("o{i}"), &"x".repeat(200_000)).await;
    }
    let open = |server: &Handle| server.api().metrics.watches.count();
    let mut stuck = Client::new(&server).await;
    let query =
        "watch=1&timeoutSeconds=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let (status, mut body) = stuck.send("GET", &format!("{PATH}?{query}"), None).await;
    let (_, mut neighbour) =
        stuck.send("GET", &format!("{PATH}?watch=1&fieldSelector=metadata.name%3Dn"), None).await;
    assert_eq!((status, open(&server)), (200, 2));
    let mut seen = 0;
    let reason = loop {
        match next(&mut body).await.expect("a reset and no proper end") {
            Ok(bytes) => seen += bytes.len(),
            Err(error) => break error.reason(),
        }
    };
    assert_eq!((seen, reason), (65_535, Some(Reason::CANCEL)));
    eventually("its memory is free", || open(&server) == 1).await;
    body.flow_control().release_capacity(seen).unwrap();
    client.create("n", "1").await;
    let event = next(&mut neighbour).await.unwrap().unwrap();
    assert!(event.starts_with(br#"{"type":"ADDED""#), "{event:?}");
    server.shutdown().await;
}
