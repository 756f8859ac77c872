//! Paged lists: all pages show one revision despite concurrent writes, and an expired token is a 410.

#![cfg(test)]

mod common;

use common::{Client, names, start, start_as_is, start_with, version};
use listwatch_server::{CacheLimits, Handle, Options};
use listwatch_storage::MemoryOptions;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

fn no_pins() -> Options {
    let cache = CacheLimits { pinned_snapshots: 0, engine_page: 3, ..CacheLimits::default() };
    Options { cache, ..Options::default() }
}

async fn fill(client: &mut Client, count: usize) -> u64 {
    let mut last = 0;
    for i in 0..count {
        last = client.create(&format!("o-{i:03}"), "1").await;
    }
    last
}

/// Reads all pages with writes in between; returns the names and the versions of the pages.
async fn pages(client: &mut Client, limit: usize, query: &str) -> (Vec<String>, Vec<u64>) {
    let (mut all, mut versions, mut token, mut round) = (Vec::new(), Vec::new(), String::new(), 0);
    loop {
        let page = client.get(&format!("{PATH}?limit={limit}&continue={token}{query}")).await;
        all.extend(names(&page));
        versions.push(version(&page));
        match page["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => token = next.to_owned(),
            _ => return (all, versions),
        }
        assert!(names(&page).len() <= limit);
        if query.is_empty() {
            let remaining = page["metadata"]["remainingItemCount"].as_u64().unwrap();
            assert_eq!(remaining as usize, 25 - all.len(), "what remains is counted");
        }
        round += 1;
        client.create(&format!("o-{:03}-new-{round}", round), "late").await;
        client.update(&format!("o-{:03}", 24 - round), "late").await;
        client.call("DELETE", &format!("{PATH}/o-{:03}", 20 - round), None).await;
    }
}

#[tokio::test]
async fn all_pages_show_the_moment_of_the_first_from_memory_and_from_history() {
    for options in [Options::default(), no_pins()] {
        let server = start_with(options, MemoryOptions::default()).await;
        let mut client = Client::new(&server).await;
        fill(&mut client, 25).await;
        let (all, versions) = pages(&mut client, 7, "").await;
        assert_eq!(all, (0..25).map(|i| format!("o-{i:03}")).collect::<Vec<_>>());
        assert!(versions.windows(2).all(|pair| pair[0] == pair[1]), "{versions:?}");
        server.shutdown().await;
    }
}

#[tokio::test]
async fn a_page_is_filled_across_what_does_not_match() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    fill(&mut client, 25).await;
    let page = client.get(&format!("{PATH}?limit=1&fieldSelector=metadata.name%21%3Do-000")).await;
    assert_eq!(names(&page), ["o-001"]);
    assert!(page["metadata"].get("remainingItemCount").is_none());
    let rare = client.get(&format!("{PATH}?limit=1&labelSelector=nobody")).await;
    assert_eq!((names(&rare).len(), rare["metadata"].get("continue").is_none()), (0, true));
    server.shutdown().await;
}

#[tokio::test]
async fn an_expired_token_comes_with_one_that_goes_on() {
    let memory = MemoryOptions { history_changes: 4, ..MemoryOptions::default() };
    expires(start_with(no_pins(), memory).await).await;
}

/// The first objects of a server are more than this history holds: the cache has to start over before the test begins.
#[tokio::test]
async fn a_token_expires_as_well_after_the_cache_started_over() {
    let memory = MemoryOptions { history_changes: 4, ..MemoryOptions::default() };
    expires(start_as_is(no_pins(), memory).await).await;
}

async fn expires(server: Handle) {
    let mut client = Client::new(&server).await;
    fill(&mut client, 6).await;
    let first = client.get(&format!("{PATH}?limit=2")).await;
    let token = first["metadata"]["continue"].as_str().unwrap().to_owned();
    for i in 0..20 {
        client.update("o-005", &i.to_string()).await;
    }
    let expired = client.call("GET", &format!("{PATH}?limit=2&continue={token}"), None).await;
    let status = expired.json();
    assert_eq!((expired.status, status["reason"].as_str()), (410, Some("Expired")));
    let token = status["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = client.get(&format!("{PATH}?continue={token}")).await;
    assert_eq!(names(&rest), ["o-002", "o-003", "o-004", "o-005"]);
    assert!(version(&rest) > version(&first));
    let exact = format!("{PATH}?resourceVersion={}&resourceVersionMatch=Exact", version(&first));
    let gone = client.call("GET", &exact, None).await;
    assert_eq!((gone.status, gone.json()["metadata"].get("continue")), (410, None));
    server.shutdown().await;
}

#[tokio::test]
async fn a_long_list_streams_and_is_the_same_compressed() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let large = "x".repeat(20_000);
    for i in 0..30 {
        client.create(&format!("o-{i:03}"), &large).await;
    }
    let plain = client.call("GET", PATH, None).await;
    assert_eq!(plain.header("transfer-encoding"), Some("chunked"));
    assert_eq!(names(&plain.json()).len(), 30);
    client.send("GET", PATH, "accept-encoding: gzip\r\n", "").await;
    let compressed = client.answer().await;
    assert_eq!(compressed.header("content-encoding"), Some("gzip"));
    let mut text = Vec::new();
    std::io::copy(&mut flate2::read::GzDecoder::new(&compressed.body[..]), &mut text).unwrap();
    assert_eq!(text, plain.body);
    server.shutdown().await;
}
