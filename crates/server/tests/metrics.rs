//! The metrics page, with the names that dashboards for kube-apiserver use.

#![cfg(test)]

mod common;

use common::{Client, Watch, eventually, start};
use listwatch_server::Handle;

async fn scrape(server: &Handle) -> String {
    String::from_utf8(Client::new(server).await.call("GET", "/metrics", None).await.body).unwrap()
}

/// The value of the sample with this name and all these labels.
fn value(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let line = text.lines().find(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && labels.iter().all(|label| line.contains(label))
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

const MAPS: &str = r#"resource="configmaps""#;

#[tokio::test]
async fn requests_are_counted_and_timed() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    client.create("b", "1").await;
    client.call("GET", "/api/v1/namespaces/default/configmaps/none", None).await;
    client.call("GET", "/api/v1/configmaps", None).await;
    let text = scrape(&server).await;
    let total = |verb: &str, code: &str| {
        value(&text, "apiserver_request_total", &[MAPS, r#"version="v1""#, verb, code])
    };
    assert_eq!(total(r#"verb="POST""#, r#"code="201""#), Some(2.0));
    assert_eq!(total(r#"verb="GET""#, r#"code="404""#), Some(1.0));
    assert_eq!(total(r#"verb="LIST""#, r#"scope="cluster""#), Some(1.0));
    let posts = [MAPS, r#"verb="POST""#, r#"le="60""#];
    assert_eq!(value(&text, "apiserver_request_duration_seconds_bucket", &posts), Some(2.0));
    assert_eq!(value(&text, "apiserver_request_duration_seconds_count", &posts[..2]), Some(2.0));
    let readers = value(&text, "apiserver_current_inflight_requests", &[r#"request_kind="readOnly""#]);
    assert_eq!(readers, Some(1.0), "the scrape itself");
    server.shutdown().await;
}

#[tokio::test]
async fn a_watch_is_counted_by_its_events_and_as_a_request_when_it_ends() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    let mut watch = Watch::open(
        &server,
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    )
    .await;
    client.create("b", &"x".repeat(3000)).await;
    for _ in ["a", "the mark", "b"] {
        watch.next().await.unwrap();
    }
    let text = scrape(&server).await;
    assert_eq!(value(&text, "apiserver_longrunning_requests", &[MAPS, r#"scope="namespace""#]), Some(1.0));
    assert_eq!(value(&text, "apiserver_watch_events_total", &[MAPS]), Some(3.0));
    assert_eq!(value(&text, "apiserver_init_events_total", &[MAPS]), Some(1.0));
    assert_eq!(value(&text, "apiserver_watch_events_sizes_bucket", &[MAPS, r#"le="1024""#]), Some(2.0));
    assert_eq!(value(&text, "apiserver_watch_events_sizes_bucket", &[MAPS, r#"le="4096""#]), Some(3.0));
    let ended = [MAPS, r#"verb="WATCH""#];
    assert_eq!(value(&text, "apiserver_request_total", &ended), None);
    drop(watch);
    eventually("the server notices", || server.api().metrics.watches.count() == 0).await;
    assert_eq!(value(&scrape(&server).await, "apiserver_request_total", &ended), Some(1.0));
    server.shutdown().await;
}

/// Prometheus asks for protobuf if it is to read native histograms.
#[tokio::test]
async fn histograms_are_native_in_protobuf() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.create("a", "1").await;
    let accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited";
    client.send("GET", "/metrics", &format!("accept: {accept}\r\n"), "").await;
    let answer = client.answer().await;
    assert!(answer.header("content-type").unwrap().starts_with("application/vnd.google.protobuf; proto="));
    let has = |part: &[u8]| answer.body.windows(part.len()).any(|window| window == part);
    assert!(has(b"apiserver_request_duration_seconds") && has(b"configmaps"));
    // The zero threshold follows the schema, which is 3 in zigzag form.
    assert!(has(&[&[40, 6, 49][..], &2.938_735_877_055_719e-39_f64.to_le_bytes()].concat()));
    server.shutdown().await;
}
