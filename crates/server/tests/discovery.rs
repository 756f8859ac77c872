//! The aggregated document and its ETag.

#![cfg(test)]

mod common;

use common::{Client, start};
use sha2::{Digest, Sha512};

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
async fn the_etag_is_the_hash_of_the_document() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.send("GET", "/apis", &format!("accept: {V2}\r\n"), "").await;
    let answer = client.answer().await;
    let hash: String = Sha512::digest(&answer.body).iter().map(|b| format!("{b:02X}")).collect();
    let etag = format!("\"{hash}\"");
    assert_eq!(answer.header("etag"), Some(etag.as_str()));
    client.send("GET", "/apis", &format!("accept: {V2}\r\nif-none-match: {etag}\r\n"), "").await;
    let again = client.answer().await;
    assert_eq!((again.status, again.body.len()), (304, 0));
}

#[tokio::test]
async fn clients_that_ask_for_this_server_alone_get_the_document() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    let accept = format!("accept: {V2};profile=nopeer,{V2},application/json\r\n");
    client.send("GET", "/api", &accept, "").await;
    let answer = client.answer().await;
    assert_eq!(answer.json()["kind"], "APIGroupDiscoveryList");
    assert_eq!(answer.header("content-type"), Some(V2));
}
