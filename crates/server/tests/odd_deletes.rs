//! Odd deletions: preconditions in the query, the unsafe deletion of objects that can be read, lists that continue anywhere.

#![cfg(test)]

mod common;

use common::{Client, start};
use listwatch_server::Handle;
use serde_json::json;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

async fn client() -> (Handle, Client) {
    let server = start().await;
    let mut client = Client::new(&server).await;
    for name in ["a", "b", "c"] {
        let made = client.call("POST", PATH, Some(&json!({"metadata": {"name": name}}))).await;
        assert_eq!(made.status, 201);
    }
    (server, client)
}

#[tokio::test]
async fn preconditions_may_be_in_the_query() {
    let (_server, mut client) = client().await;
    let last = client.call("GET", &format!("{PATH}/c"), None).await.json();
    let version = format!("resourceVersion={}", last["metadata"]["resourceVersion"].as_str().unwrap());
    for query in ["uid=other", &version] {
        assert_eq!(client.call("DELETE", &format!("{PATH}/a?{query}"), None).await.status, 409, "{query}");
        assert_eq!(
            client
                .call("DELETE", &format!("{PATH}?{query}&fieldSelector=metadata.name%3Da"), None)
                .await
                .status,
            409,
            "{query}"
        );
    }
    assert_eq!(client.call("DELETE", &format!("{PATH}/a?uid="), None).await.status, 200);
}

#[tokio::test]
async fn an_object_that_can_be_read_is_not_deleted_unsafely() {
    let (_server, mut client) = client().await;
    let path = format!("{PATH}/a?ignoreStoreReadErrorWithClusterBreakingPotential=true");
    let refused = client.call("DELETE", &path, None).await.json();
    assert_eq!((&refused["code"], &refused["reason"]), (&json!(409), &json!("Conflict")));
    assert_eq!(client.call("GET", &format!("{PATH}/a"), None).await.status, 200);
}

/// Version 0 lets kube-apiserver answer from its cache, where it ignores the limit.
#[tokio::test]
async fn a_list_that_continues_at_any_version_has_no_limit() {
    let (_server, mut client) = client().await;
    let first = client.call("GET", &format!("{PATH}?limit=1"), None).await.json();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest =
        client.call("GET", &format!("{PATH}?limit=1&resourceVersion=0&continue={token}"), None).await.json();
    assert!(rest["items"].as_array().unwrap().len() >= 2, "{rest}");
    assert_eq!(rest["metadata"].get("continue"), None);
}

/// kube-apiserver lists in pages to delete a collection, and a page with a version is of exactly that version.
#[tokio::test]
async fn a_collection_is_deleted_as_it_was_at_a_version() {
    let (_server, mut client) = client().await;
    let deleted = client.call("DELETE", &format!("{PATH}?resourceVersion=1"), None).await;
    assert_eq!((deleted.status, deleted.json()["items"].as_array().map(Vec::len)), (200, Some(0)));
    assert_eq!(client.call("GET", &format!("{PATH}/a"), None).await.status, 200);
}
