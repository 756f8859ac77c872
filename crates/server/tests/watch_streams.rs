//! Watches on real sockets, with clients that misbehave in every way a client can.

#![cfg(test)]

mod common;

use std::time::Duration;

use common::{Client, PATIENCE, Watch, eventually, start, start_with, version};
use listwatch_server::{CacheLimits, Handle, Options, WatchLimits};
use listwatch_storage::MemoryOptions;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn open_watches(server: &Handle) -> usize {
    server.api().metrics.watches.count()
}

/// A log so small that a watcher that stops for a moment falls out of it.
fn little_memory() -> Options {
    Options { cache: CacheLimits { log_bytes: 64 << 10, ..CacheLimits::default() }, ..Options::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_read_costs_others_nothing_and_loses_nothing() {
    let memory = MemoryOptions { history_bytes: 256 << 20, ..MemoryOptions::default() };
    let server = start_with(little_memory(), memory).await;
    let mut writer = Client::new(&server).await;
    let start = writer.create("o", "0").await;
    let mut slow = Watch::open(&server, &format!("resourceVersion={start}")).await;
    let mut quick = Watch::open(&server, &format!("resourceVersion={start}")).await;
    // More than the sockets' buffers take, so that the slow one is stuck in the middle of a write.
    let large = "x".repeat(200_000);
    let mut versions = Vec::new();
    for i in 0..80 {
        versions.push(writer.update("o", &format!("{i}{large}")).await);
        let event = quick.next().await.unwrap();
        assert_eq!(version(&event["object"]), *versions.last().unwrap());
    }
    let log_bytes: usize =
        server.api().cache.collections().iter().map(|c| c.log_state().events * 200_000).sum();
    assert!(log_bytes <= 1 << 20, "the log keeps to its bound, whoever lags");
    for expected in versions {
        assert_eq!(version(&slow.next().await.unwrap()["object"]), expected);
    }
    server.shutdown().await;
}

#[tokio::test]
async fn half_closing_or_leaving_ends_the_watch() {
    let server = start().await;
    let mut half = Watch::open(&server, "resourceVersion=0").await;
    let gone = Watch::open(&server, "resourceVersion=0").await;
    eventually("both are open", || open_watches(&server) == 2).await;
    half.client.stream.get_mut().shutdown().await.unwrap();
    drop(gone);
    eventually("both have ended", || open_watches(&server) == 0).await;
    server.shutdown().await;
}

#[tokio::test]
async fn bytes_sent_during_a_watch_are_ignored() {
    let server = start().await;
    let mut watch = Watch::open(&server, "resourceVersion=0&timeoutSeconds=2").await;
    watch.client.raw(&[b'?'; 100_000]).await;
    let mut writer = Client::new(&server).await;
    writer.create("o", "1").await;
    loop {
        let event = watch.next().await.unwrap();
        if event["object"]["metadata"]["name"] == "o" {
            break;
        }
    }
    server.shutdown().await;
}

#[tokio::test]
async fn ended_watches_leave_no_state_behind() {
    let server = start().await;
    let mut watches = Vec::new();
    for i in 0..300 {
        watches.push(Watch::open(&server, &format!("resourceVersion=0&labelSelector=n%3Dv{}", i % 7)).await);
    }
    eventually("all are open", || open_watches(&server) == 300).await;
    let collection = server.api().cache.collection("configmaps", &[]);
    assert_eq!(collection.log_state().views, 7, "equal filters share a view");
    drop(watches);
    eventually("all have ended", || open_watches(&server) == 0 && collection.log_state().views == 0).await;
    server.shutdown().await;
}

#[tokio::test]
async fn shutdown_ends_watches_gracefully() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    let start = writer.create("a", "1").await;
    let mut watch = Watch::open(&server, &format!("resourceVersion={start}&allowWatchBookmarks=true")).await;
    writer.call("POST", "/api/v1/namespaces", Some(&serde_json::json!({"metadata": {"name": "x"}}))).await;
    let last = server.api().cache.position().get().0;
    let stopping = tokio::spawn(server.shutdown());
    let bookmark = watch.next().await.unwrap();
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert!(version(&bookmark["object"]) >= last, "the last word says how far the watch came");
    assert_eq!(watch.next().await, None);
    stopping.await.unwrap();
}

#[tokio::test]
async fn quiet_watches_get_bookmarks() {
    let watch = WatchLimits { bookmark_every: Duration::from_millis(50), ..WatchLimits::default() };
    let server = start_with(Options { watch, ..Options::default() }, MemoryOptions::default()).await;
    let mut writer = Client::new(&server).await;
    let start = writer.create("a", "1").await;
    let query = format!("resourceVersion={start}&allowWatchBookmarks=true&labelSelector=nobody");
    let mut watch = Watch::open(&server, &query).await;
    let later = writer.create("b", "1").await;
    let bookmark = watch.next().await.unwrap();
    assert_eq!((bookmark["type"].as_str(), version(&bookmark["object"])), (Some("BOOKMARK"), later));
    // And going on from there repeats nothing.
    let mut next = Watch::open(&server, &format!("resourceVersion={later}")).await;
    let last = writer.create("c", "1").await;
    assert_eq!(version(&next.next().await.unwrap()["object"]), last);
    server.shutdown().await;
}

#[tokio::test]
async fn a_version_from_before_history_is_one_error_and_the_end() {
    let memory = MemoryOptions { history_changes: 3, ..MemoryOptions::default() };
    let options =
        Options { cache: CacheLimits { log_bytes: 0, ..CacheLimits::default() }, ..Options::default() };
    let server = start_with(options, memory).await;
    let mut writer = Client::new(&server).await;
    let start = writer.create("a", "0").await;
    for i in 1..20 {
        writer.update("a", &i.to_string()).await;
    }
    let mut watch = Watch::open(&server, &format!("resourceVersion={start}")).await;
    let error = watch.next().await.unwrap();
    assert_eq!((error["type"].as_str(), error["object"]["code"].as_u64()), (Some("ERROR"), Some(410)));
    assert_eq!(watch.next().await, None);
    server.shutdown().await;
}

#[tokio::test]
async fn garbage_after_an_upgrade_closes_the_socket() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let upgrade = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    client
        .send("GET", "/api/v1/namespaces/default/configmaps?watch=1&labelSelector=nobody", upgrade, "")
        .await;
    let (status, head) = client.head().await;
    assert_eq!(status, 101, "{head}");
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    // A proper ping first: the response has the same payload.
    client.raw(&[0x89, 0x82, 0, 0, 0, 0, b'h', b'i']).await;
    let mut pong = [0; 4];
    client.stream.read_exact(&mut pong).await.unwrap();
    assert_eq!(pong, [0x8a, 2, b'h', b'i']);
    client.raw(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let mut close = Vec::new();
    tokio::time::timeout(PATIENCE, client.stream.read_to_end(&mut close)).await.unwrap().unwrap();
    assert_eq!(close, [0x88, 2, 0x03, 0xea]);
    eventually("the watch has ended", || open_watches(&server) == 0).await;
    server.shutdown().await;
}

#[tokio::test]
async fn bad_upgrades_are_refused_over_plain_http() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let path = "/api/v1/namespaces/default/configmaps?watch=1";
    for (headers, expected) in [
        ("sec-websocket-version: 12\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n", 400),
        ("sec-websocket-version: 13\r\nsec-websocket-key: short\r\n", 400),
        (
            "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: a, b\r\n",
            400,
        ),
    ] {
        client
            .send("GET", path, &format!("connection: Upgrade\r\nupgrade: websocket\r\n{headers}"), "")
            .await;
        assert_eq!(client.answer().await.status, expected, "{headers}");
    }
    server.shutdown().await;
}

/// A watch with initial events sent a gzip member per batch. Readers that wait for the next member withheld the first batch.
#[tokio::test]
async fn a_compressed_watch_is_one_gzip_member_readable_as_it_arrives() {
    let server = start().await;
    let mut writer = Client::new(&server).await;
    let start = writer.create("a", "0").await;
    let mut client = Client::new(&server).await;
    let path = "/api/v1/namespaces/default/configmaps?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds=2";
    client.send("GET", path, "accept-encoding: gzip\r\n", "").await;
    let (status, head) = client.head().await;
    assert!(status == 200 && head.to_ascii_lowercase().contains("content-encoding: gzip"), "{head}");
    // This decoder reads one member only.
    let mut decoder = flate2::write::GzDecoder::new(Vec::new());
    let mut feed = |chunk: &[u8]| {
        std::io::Write::write_all(&mut decoder, chunk).unwrap();
        std::io::Write::flush(&mut decoder).unwrap();
        String::from_utf8(std::mem::take(decoder.get_mut())).unwrap()
    };
    let initial = feed(&client.chunk().await.unwrap());
    assert!(initial.contains(&start.to_string()) && initial.ends_with("}\n"), "{initial}");
    let version = writer.update("a", "1").await;
    assert!(feed(&client.chunk().await.unwrap()).contains(&version.to_string()));
    while let Some(chunk) = client.chunk().await {
        feed(&chunk);
    }
    decoder.finish().expect("checksum and length at the end");
    server.shutdown().await;
}
