//! The properties that tests may rely on in a test server.

#![cfg(test)]

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use listwatch_testkit::{TestServer, TestStore};
use serde_json::json;
use tokio::net::TcpStream;

#[tokio::test]
async fn a_test_server_starts_in_milliseconds_and_stops_when_dropped() {
    let start = Instant::now();
    let server = TestServer::start().await.unwrap();
    // A debug build on a loaded machine; alone it takes a few milliseconds.
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let address = server.handle().address();
    assert_eq!(server.raw().unwrap().call(Method::GET, "/readyz", None).await.unwrap().0, StatusCode::OK);
    drop(server);
    tokio::task::yield_now().await;
    let deadline = Instant::now() + Duration::from_secs(5);
    while TcpStream::connect(address).await.is_ok() {
        assert!(Instant::now() < deadline, "still listening");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn many_test_servers_run_side_by_side() {
    let (one, two) = (TestServer::start().await.unwrap(), TestServer::start().await.unwrap());
    assert_ne!(one.url(), two.url());
    let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}});
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(one.raw().unwrap().call(Method::POST, path, Some(&map)).await.unwrap().0, StatusCode::CREATED);
    let item = format!("{path}/a");
    assert_eq!(one.raw().unwrap().call(Method::GET, &item, None).await.unwrap().0, StatusCode::OK);
    assert_eq!(two.raw().unwrap().call(Method::GET, &item, None).await.unwrap().0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_restart_keeps_objects_address_and_credentials() {
    let server = TestServer::on(TestStore::Embedded).await.unwrap();
    let (raw, url) = (server.raw().unwrap(), server.url());
    let map = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "kept"}});
    let path = "/api/v1/namespaces/default/configmaps";
    let before = raw.done(Method::POST, path, Some(&map)).await.unwrap();
    let server = server.restart().await.unwrap();
    assert_eq!(server.url(), url);
    let after = server.raw().unwrap().done(Method::GET, &format!("{path}/kept"), None).await.unwrap();
    assert_eq!(after, before);
}
