//! What Services are given: an address and ports that no other has.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod common;

use std::sync::Arc;

use common::{Answer, Client, names};
use listwatch_server::{Handle, LifecycleOptions, Options, Security, Server};
use listwatch_storage::MemoryEngine;
use serde_json::{Value, json};

const PATH: &str = "/api/v1/namespaces/default/services";

/// Two servers on one store: the second remembers nothing of what the first handed out, and must find it in the Services.
async fn two_servers() -> (Handle, Handle) {
    let engine = Arc::new(MemoryEngine::default());
    let options = || Options {
        security: Security::InsecureHttp,
        lifecycle: LifecycleOptions::off(),
        ..Options::default()
    };
    let first = Server::start(options(), engine.clone()).await.unwrap();
    let namespace = json!({"metadata": {"name": "default"}});
    let made = Client::new(&first).await.call("POST", "/api/v1/namespaces", Some(&namespace)).await;
    assert_eq!(made.status, 201);
    (first, Server::start(options(), engine).await.unwrap())
}

async fn create(client: &mut Client, name: &str, spec: Value) -> Answer {
    let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    for (field, value) in spec.as_object().unwrap() {
        service["spec"][field] = value.clone();
    }
    client.call("POST", PATH, Some(&service)).await
}

/// A list of the newest state waits until the cache has it.
async fn list(client: &mut Client, selector: &str) -> Vec<String> {
    names(&client.get(&format!("{PATH}?fieldSelector={selector}")).await)
}

fn says(answer: &Answer, text: &str) -> bool {
    answer.status == 422 && answer.json()["message"].as_str().unwrap().contains(text)
}

#[tokio::test]
async fn an_address_belongs_to_one_service_until_it_goes() {
    let (first, second) = two_servers().await;
    let (mut client, mut other) = (Client::new(&first).await, Client::new(&second).await);
    let made = create(&mut client, "a", json!({})).await.json();
    let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
    assert_eq!(list(&mut other, &format!("spec.clusterIP%3D{address}")).await, ["a"]);
    for client in [&mut client, &mut other] {
        let again = create(client, "b", json!({"clusterIP": address})).await;
        assert!(says(&again, "provided IP is already allocated"));
    }
    // It may keep what it has, however often it is written.
    assert_eq!(client.call("PUT", &format!("{PATH}/a"), Some(&made)).await.status, 200);
    assert_eq!(create(&mut client, "none", json!({"clusterIP": "None"})).await.status, 201);
    assert_eq!(create(&mut client, "none2", json!({"clusterIP": "None"})).await.status, 201);
    client.call("DELETE", &format!("{PATH}/a"), None).await;
    assert!(list(&mut other, &format!("spec.clusterIP%3D{address}")).await.is_empty());
    assert_eq!(create(&mut other, "b", json!({"clusterIP": address})).await.status, 201);
    second.shutdown().await;
    first.shutdown().await;
}

#[tokio::test]
async fn a_node_port_belongs_to_one_service_of_either_type() {
    let (first, second) = two_servers().await;
    let (mut client, mut other) = (Client::new(&first).await, Client::new(&second).await);
    let port = |number: u16| json!([{"port": 80, "nodePort": number}]);
    let made = create(&mut client, "n", json!({"type": "NodePort", "ports": port(30_500)})).await;
    assert_eq!(made.status, 201);
    let made = create(&mut client, "l", json!({"type": "LoadBalancer", "ports": port(30_501)})).await;
    assert_eq!(made.status, 201);
    assert_eq!(list(&mut other, "spec.type%3DNodePort").await, ["n"]);
    for taken in [30_500, 30_501] {
        let spec = json!({"type": "NodePort", "ports": port(taken)});
        assert!(says(&create(&mut other, "x", spec).await, "provided port is already allocated"));
    }
    let given = create(&mut other, "g", json!({"type": "NodePort"})).await.json();
    let given = given["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
    assert!((30_000..=32_767).contains(&given) && given != 30_500 && given != 30_501);
    second.shutdown().await;
    first.shutdown().await;
}

/// A dry run and a create that failed kept their address and port, and `kubectl diff` then `apply` of a fixed address failed.
#[tokio::test]
async fn what_is_not_stored_keeps_no_address_and_no_port() {
    let (first, second) = two_servers().await;
    let mut client = Client::new(&first).await;
    let fixed = json!({"metadata": {"name": "a"}, "spec": {
        "type": "NodePort", "clusterIP": "10.0.0.77", "ports": [{"port": 80, "nodePort": 30077}],
    }});
    let dry = client.call("POST", &format!("{PATH}?dryRun=All"), Some(&fixed)).await;
    assert_eq!(dry.status, 201);
    // The port is out of range, so the address goes back.
    let mut wrong = fixed.clone();
    wrong["spec"]["ports"][0]["nodePort"] = json!(1);
    assert_eq!(client.call("POST", PATH, Some(&wrong)).await.status, 422);
    assert_eq!(client.call("POST", PATH, Some(&fixed)).await.status, 201);
    // The name is taken, so what the second was given is free again.
    let mut other = fixed.clone();
    other["spec"]["clusterIP"] = json!("10.0.0.78");
    other["spec"]["ports"][0]["nodePort"] = json!(30078);
    assert_eq!(client.call("POST", PATH, Some(&other)).await.status, 409);
    let patch = json!({"spec": {"ports": [{"port": 80, "nodePort": 30078}]}});
    for query in ["?dryRun=All", ""] {
        let path = format!("{PATH}/a{query}");
        client
            .send("PATCH", &path, "content-type: application/merge-patch+json\r\n", &patch.to_string())
            .await;
        assert_eq!(client.answer().await.status, 200, "{query}");
    }
    other["metadata"]["name"] = json!("b");
    other["spec"]["ports"][0]["nodePort"] = json!(30079);
    assert_eq!(client.call("POST", PATH, Some(&other)).await.status, 201);
    second.shutdown().await;
    first.shutdown().await;
}
