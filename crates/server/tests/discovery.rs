//! The aggregated document and its ETag.

#![cfg(test)]

mod common;

use common::{Client, eventually, start};
use serde_json::{Value, json};
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

/// All encodings name the kind in their media type and have the ETag of the document in JSON.
#[tokio::test]
async fn the_aggregated_document_can_be_yaml_or_protobuf() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.send("GET", "/apis", &format!("accept: {V2}\r\n"), "").await;
    let etag = client.answer().await.header("etag").unwrap().to_owned();
    for (encoding, beginning) in
        [("yaml", &b"apiVersion: apidiscovery.k8s.io/v2\nitems:"[..]), ("vnd.kubernetes.protobuf", b"k8s\0")]
    {
        let accept = V2.replace("application/json", &format!("application/{encoding}"));
        client.send("GET", "/apis", &format!("accept: {accept},{V2}\r\n"), "").await;
        let answer = client.answer().await;
        assert_eq!(answer.header("content-type"), Some(accept.as_str()));
        assert_eq!(answer.header("etag"), Some(etag.as_str()));
        assert!(answer.body.starts_with(beginning), "{encoding}");
    }
}

/// The core group has no path below `/apis`, and its documents have no apiVersion in their envelope.
#[tokio::test]
async fn the_core_group_is_below_api_alone() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    client.send("GET", "/apis//v1", "", "").await;
    assert_eq!(client.answer().await.status, 404);
    client.send("GET", "/api/v1", "accept: application/vnd.kubernetes.protobuf\r\n", "").await;
    let answer = client.answer().await;
    assert!(answer.body.starts_with(b"k8s\0\n\x13\n\0\x12\x0fAPIResourceList"));
}

/// Each version was searched for among all resources, so that twenty requests kept `/livez` waiting for 22 s; and each
/// version of a definition had a list of all of them, which took 900 MB for 2,000.
#[tokio::test]
async fn thousands_of_versions_cost_no_more_than_their_number() {
    const VERSIONS: usize = 5000;
    let server = start().await;
    let mut client = Client::new(&server).await;
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let version =
        |n: usize| json!({"name": format!("v{n}"), "served": true, "storage": n == 1, "schema": schema});
    let versions: Vec<Value> = (1..=VERSIONS).map(version).collect();
    let names = json!({"plural": "manies", "kind": "Many"});
    let definition = json!({"metadata": {"name": "manies.example.test"},
        "spec": {"group": "example.test", "scope": "Cluster", "names": names, "versions": versions}});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.call("POST", path, Some(&definition)).await.status, 201);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while client.call("GET", "/apis/example.test/v1/manies", None).await.status != 200 {
        assert!(std::time::Instant::now() < deadline, "the definition is not served");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let began = std::time::Instant::now();
    client.send("GET", "/apis", &format!("accept: {V2}\r\n"), "").await;
    let document = client.answer().await.json();
    assert!(began.elapsed() < std::time::Duration::from_secs(2), "{:?}", began.elapsed());
    let groups = document["items"].as_array().unwrap();
    let group = groups.iter().find(|group| group["metadata"]["name"] == "example.test").unwrap();
    let listed = group["versions"].as_array().unwrap();
    assert_eq!((listed.len(), &listed[0]["version"]), (VERSIONS, &json!(format!("v{VERSIONS}"))));
    assert_eq!(listed[0]["resources"][0]["resource"], "manies");
}

/// Of two kinds with one short name kubectl takes the first, and that depended on the definition that was created first.
#[tokio::test]
async fn custom_groups_and_their_resources_are_sorted() {
    let server = start().await;
    let mut client = Client::new(&server).await;
    for (group, plural) in [("b.example.com", "ys"), ("b.example.com", "xs"), ("a.example.com", "zs")] {
        let definition = json!({
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Cluster", "names": {"plural": plural, "kind": plural.to_uppercase()},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
        });
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(client.call("POST", path, Some(&definition)).await.status, 201);
        eventually("it is served", || server.api().registry.find(group, "v1", plural).is_some()).await;
    }
    client.send("GET", "/apis", &format!("accept: {V2}\r\n"), "").await;
    let document = client.answer().await.json();
    let named = |item: &Value, key: &str| item[key].as_str().unwrap().to_owned();
    let custom = document["items"].as_array().unwrap().iter().filter_map(|group| {
        let name = named(&group["metadata"], "name");
        let resources = group["versions"][0]["resources"].as_array().unwrap();
        name.ends_with("example.com")
            .then(|| (name, resources.iter().map(|r| named(r, "resource")).collect::<Vec<_>>()))
    });
    let expected = [("a.example.com", vec!["zs"]), ("b.example.com", vec!["xs", "ys"])];
    let expected =
        expected.map(|(group, all)| (group.to_owned(), all.into_iter().map(str::to_owned).collect()));
    assert_eq!(custom.collect::<Vec<_>>(), expected);
}
