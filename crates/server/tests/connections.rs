//! Malformed and misbehaving connections: they are answered or closed, and do not affect other clients.

#![cfg(test)]

mod common;

use std::time::Duration;

use common::{Client, PATIENCE, config_map, eventually_async, start, start_with};
use listwatch_server::{Handle, HttpLimits, Options, RequestLimits};
use listwatch_storage::MemoryOptions;
use tokio::io::AsyncReadExt;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

async fn everything(client: &mut Client) -> String {
    let mut all = Vec::new();
    tokio::time::timeout(PATIENCE, client.stream.read_to_end(&mut all)).await.unwrap().unwrap();
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn requests_that_are_not_http_are_refused_and_closed() {
    let server = start().await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "a: b\r\n".repeat(500));
    for (bytes, expected) in [
        ("\x16\x03\x01\x02\x00 hello tls\r\n\r\n", "HTTP/1.1 400"),
        ("GET / HTTP/9.9\r\n\r\n", "HTTP/1.1 505"),
        (
            "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 400",
        ),
        (long.as_str(), "HTTP/1.1 431"),
        (many.as_str(), "HTTP/1.1 431"),
    ] {
        let mut client = Client::new(&server).await;
        client.raw(bytes.as_bytes()).await;
        let answer = everything(&mut client).await;
        assert!(answer.starts_with(expected), "{answer}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    client.send("HEAD", &format!("{PATH}/a"), "", "").await;
    // It announces a length and sends nothing, and the connection stays in step.
    assert_eq!(client.head().await.0, 405);
    for _ in 0..3 {
        assert_eq!(client.get(&format!("{PATH}/a")).await["data"]["k"], "1");
    }
    // Two at once are answered in order.
    client.send("GET", &format!("{PATH}/a"), "", "").await;
    client.send("GET", &format!("{PATH}/missing"), "", "").await;
    assert_eq!((client.answer().await.status, client.answer().await.status), (200, 404));
    server.shutdown().await;
}

/// The server closed the connection behind a watch that had ended, without saying so in the head: the next request on it was lost.
#[tokio::test]
async fn a_connection_serves_requests_after_a_watch() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    for _ in 0..2 {
        client.send("GET", &format!("{PATH}?watch=1&timeoutSeconds=1"), "", "").await;
        assert_eq!(client.answer().await.status, 200);
        assert_eq!(client.get(&format!("{PATH}/a")).await["data"]["k"], "1");
    }
    // A client that asks for it has the connection closed, and is told so.
    let close = format!(
        "GET {PATH}?watch=1&timeoutSeconds=1 HTTP/1.1\r\nauthorization: Bearer {}\r\nhost: x\r\nconnection: close\r\n\r\n",
        server.admin_token()
    );
    client.raw(close.as_bytes()).await;
    assert!(everything(&mut client).await.to_lowercase().contains("connection: close"));
    server.shutdown().await;
}

#[tokio::test]
async fn bodies_come_in_chunks_and_after_a_word_from_us() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let body = config_map("a", "1").to_string();
    let (one, two) = body.split_at(20);
    let head =
        format!("POST {PATH} HTTP/1.1\r\nauthorization: Bearer {}\r\nhost: x\r\n", server.admin_token());
    let chunks =
        format!("{:x}\r\n{one}\r\n{:x};ext=1\r\n{two}\r\n0\r\ntrailer: x\r\n\r\n", one.len(), two.len());
    client.raw(format!("{head}transfer-encoding: chunked\r\n\r\n{chunks}").as_bytes()).await;
    assert_eq!(client.answer().await.status, 201);
    let body = config_map("b", "1").to_string();
    client
        .raw(format!("{head}content-length: {}\r\nexpect: 100-continue\r\n\r\n", body.len()).as_bytes())
        .await;
    assert_eq!(client.head().await.0, 100);
    client.raw(body.as_bytes()).await;
    assert_eq!(client.answer().await.status, 201);
    server.shutdown().await;
}

#[tokio::test]
async fn bodies_are_bounded_before_they_are_read() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let head =
        format!("POST {PATH} HTTP/1.1\r\nauthorization: Bearer {}\r\nhost: x\r\n", server.admin_token());
    client.raw(format!("{head}content-length: 4000000000\r\n\r\n").as_bytes()).await;
    let answer = everything(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 413") && answer.contains("connection: close"), "{answer}");
    // A user without permissions is refused before the body is checked.
    let mut client = Client::new(&server).await;
    client
        .raw(format!("POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 4000000000\r\n\r\n").as_bytes())
        .await;
    let answer = everything(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    server.shutdown().await;
}

/// Sends to the end before it reads, as simple clients do: a connection closed at once is reset, and the response is lost.
async fn send_slowly(server: &Handle, head: &str, size: usize) -> String {
    let mut client = Client::new(server).await;
    client.raw(head.as_bytes()).await;
    let part = vec![b'x'; 64 << 10];
    for _ in 0..size / part.len() {
        client.raw(&part).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    everything(&mut client).await
}

#[tokio::test]
async fn a_client_refused_while_sending_receives_the_reason() {
    let server = start().await;
    let (size, token) = (8 << 20, server.admin_token());
    let length = format!("content-length: {size}\r\n");
    let known = format!("POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n");
    for (head, expected) in [
        (format!("{known}{length}\r\n"), "HTTP/1.1 413"),
        (format!("{known}transfer-encoding: chunked\r\n\r\n{size:x}\r\n"), "HTTP/1.1 413"),
        (format!("POST {PATH} HTTP/1.1\r\nhost: x\r\n{length}\r\n"), "HTTP/1.1 403"),
        (
            format!("POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer who\r\n{length}\r\n"),
            "HTTP/1.1 401",
        ),
        (format!("POST {PATH} HTTP/1.1\r\nhost: x\r\nno header\r\n{length}\r\n"), "HTTP/1.1 400"),
        ("POST /".to_owned(), "HTTP/1.1 431"),
    ] {
        let answer = send_slowly(&server, &head, size).await;
        assert!(answer.starts_with(expected), "{expected}: {answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        // A head that cannot be read is answered in words, everything else with a Status.
        let words = ["400 Bad Request", "431 Request Header Fields Too Large"];
        assert!(body.starts_with(r#"{"kind":"Status""#) || words.contains(&body), "{body}");
    }
    server.shutdown().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_gets_no_100_continue() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let expect = "content-length: 4000000000\r\nexpect: 100-continue\r\n";
    let token = server.admin_token();
    client
        .raw(
            format!("POST {PATH} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n{expect}\r\n")
                .as_bytes(),
        )
        .await;
    assert_eq!(client.head().await.0, 413);
    server.shutdown().await;
}

#[tokio::test]
async fn an_announced_body_that_never_comes_does_not_hold_back_the_answer() {
    let http = HttpLimits { body_timeout: Duration::from_millis(100), ..HttpLimits::default() };
    let server = start_with(Options { http, ..Options::default() }, MemoryOptions::default()).await;
    let mut client = Client::new(&server).await;
    client.raw(format!("POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n").as_bytes()).await;
    let answer = everything(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("connection: close"), "{answer}");
    server.shutdown().await;
}

#[tokio::test]
async fn a_client_may_shorten_its_time_in_words_that_are_understood() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    assert_eq!(client.call("GET", &format!("{PATH}?timeout=32s"), None).await.status, 200);
    assert_eq!(client.call("GET", &format!("{PATH}?timeout=soon"), None).await.status, 400);
    let future = format!("{PATH}?resourceVersion=1000000&timeout=50ms");
    assert_eq!(client.call("GET", &future, None).await.status, 504);
    server.shutdown().await;
}

#[tokio::test]
async fn slow_clients_are_disconnected() {
    let http = HttpLimits {
        head_timeout: Duration::from_millis(100),
        idle_timeout: Duration::from_millis(100),
        ..HttpLimits::default()
    };
    let server = start_with(Options { http, ..Options::default() }, MemoryOptions::default()).await;
    let mut idle = Client::new(&server).await;
    let mut slow = Client::new(&server).await;
    slow.raw(b"GET / HTT").await;
    assert_eq!(everything(&mut idle).await, "");
    assert_eq!(everything(&mut slow).await, "");
    server.shutdown().await;
}

/// Clients that requested long lists and disconnected kept the server busy.
#[tokio::test]
async fn a_read_ends_when_its_client_has_gone() {
    let requests = RequestLimits { version_wait: Duration::from_secs(600), ..RequestLimits::default() };
    let server = start_with(Options { requests, ..Options::default() }, MemoryOptions::default()).await;
    let under_way = async || {
        let metrics = Client::new(&server).await.call("GET", "/metrics", None).await;
        let text = String::from_utf8(metrics.body).unwrap();
        // The one that asks is among them.
        text.contains("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 2\n")
    };
    let mut client = Client::new(&server).await;
    client.send("GET", &format!("{PATH}?resourceVersion=1000000"), "", "").await;
    eventually_async("it waits", &under_way).await;
    // The next request on the same connection is no reason to end this one.
    client.send("GET", "/livez", "", "").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(under_way().await);
    drop(client);
    eventually_async("it ended", async || !under_way().await).await;
}
