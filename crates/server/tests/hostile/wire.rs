//! Malformed HTTP requests.

use std::sync::Arc;

use listwatch_server::{Options, Server};
use listwatch_storage::MemoryEngine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::common::{Client, PATIENCE, start, start_on};

#[tokio::test]
async fn plain_http_to_a_tls_port_gets_a_400() {
    // It got the garbage of a TLS alert.
    let server = Server::start(Options::default(), Arc::new(MemoryEngine::default())).await.unwrap();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n");
}

#[tokio::test]
async fn a_request_without_a_host_gets_a_400() {
    let server = start().await;
    for (head, text) in [
        ("GET /livez HTTP/1.1\r\n\r\n", "400 Bad Request: missing required Host header"),
        ("GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "400 Bad Request: too many Host headers"),
    ] {
        let mut client = Client::new(&server).await;
        client.raw(head.as_bytes()).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, String::from_utf8(answer.body).unwrap().as_str()), (400, text));
    }
}

/// As many silent connections as the server takes kept everybody else out for as long as their owner liked.
#[tokio::test]
async fn silent_connections_do_not_block_new_ones() {
    let mut options = Options::default();
    options.http.connections = 10;
    let server = start_on(options).await;
    let mut known = Client::new(&server).await;
    assert_eq!(known.call("GET", "/api/v1/namespaces", None).await.status, 200);
    let mut silent = Vec::new();
    for _ in 0..40 {
        silent.push(TcpStream::connect(server.address()).await.unwrap());
    }
    let mut newcomer = Client::new(&server).await;
    let answer = tokio::time::timeout(PATIENCE, newcomer.call("GET", "/api/v1/namespaces", None)).await;
    assert_eq!(answer.expect("room was made").status, 200);
    assert_eq!(known.call("GET", "/livez", None).await.status, 200, "who is known stays");
}

/// As many connections with a request of one user had the same effect; a token of any Pod is enough for them.
#[tokio::test]
async fn the_connections_of_one_user_do_not_block_others() {
    let mut options = Options::default();
    options.http.connections = 40;
    let server = start_on(options).await;
    let mut held = Vec::new();
    for _ in 0..40 {
        let mut client = Client::new(&server).await;
        assert_eq!(client.call("GET", "/version", None).await.status, 200);
        held.push(client);
    }
    let mut other = Client::new(&server).await;
    let answered = tokio::time::timeout(PATIENCE, other.call("GET", "/version", None)).await;
    assert_eq!(answered.expect("an answer").status, 200);
    for client in held.iter_mut().take(30) {
        assert_eq!(
            client.call("GET", "/version", None).await.status,
            200,
            "those that were there before stay"
        );
    }
}
